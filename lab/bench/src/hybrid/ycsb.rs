//! Requests that YCSB's own core workload chooses: a binding without a database writes its operations into a trace, and
//! the benchmark signs them.

use super::workload::{Call, Calls, Distribution, Maker, Shape};
use crate::error::{BenchError, Result, io};
use crate::ycsb::{Phase, run};
use lineside_hbase_mini::Jars;
use lineside_messages::hybrid::request::Body;
use std::path::Path;

/// Operation in a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    key: Vec<u8>,
    /// Value to set; `None` if the operation is a read.
    value: Option<Vec<u8>>,
}

impl Operation {
    fn body(&self) -> Body<'_> {
        match &self.value {
            Some(value) => Body::set(&self.key, None, value),
            None => Body::Get {
                sees: Default::default(),
                keys: vec![&self.key],
            },
        }
    }
}

/// Returns the operations of YCSB: sets of all records for `Phase::Load`, and `operations` operations with the given
/// parameters for `Phase::Run`. YCSB's random numbers have no seed, so each trace differs.
///
/// # Errors
/// Fails if YCSB does not run, or if its trace cannot be read.
pub fn trace(
    jars: &Jars,
    folder: &Path,
    phase: Phase,
    shape: &Shape,
    records: u64,
    operations: usize,
) -> Result<Vec<Operation>> {
    let file = folder.join("trace");
    let sets = shape.sets_percent as f64 / 100.0;
    let distribution = match shape.distribution {
        Distribution::Uniform => "uniform",
        Distribution::Zipfian => "zipfian",
        Distribution::Latest => "latest",
    };
    let properties = [
        format!("trace={}", file.display()),
        format!("recordcount={records}"),
        format!("operationcount={operations}"),
        "fieldcount=1".to_owned(),
        format!("fieldlength={}", shape.value_bytes),
        format!("requestdistribution={distribution}"),
        format!("readproportion={}", 1.0 - sets),
        format!("updateproportion={sets}"),
        "scanproportion=0".to_owned(),
        "insertproportion=0".to_owned(),
    ];
    run(jars, phase, "Trace", 1, &properties)?;
    let bytes = std::fs::read(&file).map_err(io("reading YCSB's operations"))?;
    let read = read_trace(&bytes)
        .ok_or_else(|| BenchError::Void("YCSB's trace of operations cannot be read".into()))?;
    let expected = match phase {
        Phase::Load => records as usize,
        Phase::Run => operations,
    };
    match read.len() == expected {
        true => Ok(read),
        false => Err(BenchError::Void(format!(
            "YCSB executed {} operations instead of {expected}",
            read.len()
        ))),
    }
}

fn read_trace(mut bytes: &[u8]) -> Option<Vec<Operation>> {
    let mut operations = Vec::new();
    while let Some((op, rest)) = bytes.split_first() {
        let (key_bytes, rest) = rest.split_first_chunk()?;
        let (value_bytes, rest) = rest.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(u16::from_be_bytes(*key_bytes).into())?;
        let (value, rest) = rest.split_at_checked(u32::from_be_bytes(*value_bytes) as usize)?;
        operations.push(Operation {
            key: key.to_vec(),
            value: match op {
                0 if value.is_empty() => None,
                1 => Some(value.to_vec()),
                _ => return None,
            },
        });
        bytes = rest;
    }
    Some(operations)
}

/// Signs sets of all records, in calls of 1,000 requests, for one worker.
pub fn load(maker: &Maker, operations: &[Operation]) -> Calls {
    let calls = operations.chunks(1000).enumerate().map(|(call, operations)| {
        let sign = |(place, operation): (usize, &Operation)| {
            let counter = (call * 1000 + place) as u64 + 1;
            maker.sign(1, u16::MAX, counter, operation.body())
        };
        Call {
            sets: true,
            requests: operations.iter().enumerate().map(sign).collect(),
        }
    });
    vec![calls.collect()]
}

/// Signs a trace. Each worker gets a part of the operations and sends gets and sets in separate calls, each call as
/// soon as it is full; the last calls contain the rest.
pub fn calls(maker: &Maker, shape: &Shape, operations: &[Operation]) -> Calls {
    let stretch = operations.len().div_ceil(shape.workers).max(1);
    let stretches = operations.chunks(stretch).enumerate();
    stretches
        .map(|(worker, stretch)| {
            let member = worker as u64 % shape.keys + 1;
            let mut counter = 0;
            let mut sign = |operation: &Operation| {
                counter += 1;
                maker.sign(member, worker as u16, counter, operation.body())
            };
            let mut calls = Vec::new();
            let mut open: [Vec<&Operation>; 2] = Default::default();
            let mut send = |sets: bool, call: &mut Vec<&Operation>| {
                let requests = call.drain(..).map(&mut sign).collect();
                calls.push(Call { sets, requests });
            };
            for operation in stretch {
                let sets = operation.value.is_some();
                let call = &mut open[usize::from(sets)];
                call.push(operation);
                if call.len() == shape.per_call {
                    send(sets, call);
                }
            }
            for (sets, call) in [false, true].into_iter().zip(&mut open) {
                if !call.is_empty() {
                    send(sets, call);
                }
            }
            calls
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::workload::GATE;
    use super::*;
    use lineside_messages::hybrid::request::Request;

    fn operation(number: usize) -> Operation {
        Operation {
            key: format!("user{number}").into_bytes(),
            value: number.is_multiple_of(3).then(|| vec![number as u8; 4]),
        }
    }

    #[test]
    fn a_damaged_trace_is_refused() {
        let operations: Vec<_> = (0..7).map(operation).collect();
        let mut bytes = Vec::new();
        for Operation { key, value } in &operations {
            let empty = Vec::new();
            let written = value.as_ref().unwrap_or(&empty);
            bytes.push(u8::from(value.is_some()));
            bytes.extend((key.len() as u16).to_be_bytes());
            bytes.extend((written.len() as u32).to_be_bytes());
            bytes.extend(key.iter().chain(written));
        }
        assert_eq!(read_trace(&bytes), Some(operations));
        assert_eq!(read_trace(&bytes[..bytes.len() - 1]), None);
        bytes[0] = 2;
        assert_eq!(read_trace(&bytes), None);
    }

    #[test]
    fn a_workers_operations_are_signed_in_their_order() {
        let maker = Maker::new(16, 1, 1_000, 100);
        let shape = Shape {
            workers: 2,
            per_call: 4,
            ..GATE
        };
        let operations: Vec<_> = (0..59).map(operation).collect();
        let calls = calls(&maker, &shape, &operations);
        assert_eq!(calls.len(), 2);
        for (worker, calls) in calls.iter().enumerate() {
            let stretch = &operations[worker * 30..][..30 - worker];
            // Each worker has 10 sets and 20 gets, and the last but one operation is a get: this gives three calls of
            // sets and five calls of gets.
            let count = |sets| calls.iter().filter(|call| call.sets == sets).count();
            assert_eq!((count(true), count(false)), (3, 5));
            let sent: usize = calls.iter().map(|call| call.requests.len()).sum();
            assert_eq!(sent, stretch.len());
            let mut counter = 0;
            for sets in [true, false] {
                let sent = calls.iter().filter(|call| call.sets == sets);
                let sent = sent.flat_map(|call| &call.requests);
                let expected = stretch
                    .iter()
                    .filter(|operation| operation.value.is_some() == sets);
                for (request, operation) in sent.zip(expected) {
                    let request = Request::decode(&request[64..]).unwrap();
                    let key = operation.key.as_slice();
                    match request.body {
                        Body::Get { keys, .. } => assert_eq!((keys, sets), (vec![key], false)),
                        Body::Write { writes, .. } => {
                            assert_eq!(
                                (writes[0].key, writes[0].value),
                                (key, operation.value.as_deref())
                            );
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            for request in calls.iter().flat_map(|call| &call.requests) {
                let head = Request::decode(&request[64..]).unwrap().head;
                assert_eq!((head.member, head.nonce.lane), (worker as u64 + 1, worker as u16));
                counter += 1;
                assert_eq!(head.nonce.counter, counter);
            }
        }
    }
}

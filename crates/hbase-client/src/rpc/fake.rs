//! A simulated cluster of one server for tests: registry, master, `hbase:meta`, and the regions of a table. A script of
//! the test makes it misbehave.

use super::messages::{
    ActiveMaster, Cell, ExceptionResponse, GetRequest, GetResponse, INCREMENT, MetaRegionLocations,
    MutateRequest, MutateResponse, RegionInfo, RegionLocation, RequestHeader, ResponseHeader, Row,
    ScanRequest, ScanResponse, ServerName, TableDescriptors, TableName, TableSchema,
};
use bytes::Bytes;
use prost::Message;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// Reaction of the simulated server to one call.
#[derive(Clone, Debug)]
pub(super) enum Act {
    Answer,
    /// Answers with this message instead of the right one.
    Message(Vec<u8>),
    /// Answers with an exception. The fields are its class, true if the same call would fail again, and the region's
    /// address.
    Throw(&'static str, bool, Option<String>),
    /// Neither executes nor answers the call.
    Silence,
    /// Executes the call, then closes the connection without an answer.
    DoAndClose,
    /// Answers, but with the number of another call.
    OtherCall,
    /// Sends the answer twice.
    Twice,
    /// Sends these bytes, then closes the connection.
    Raw(Vec<u8>),
    /// Answers only when the same method is called on this connection again.
    Late,
    /// Collects this number of calls, then answers them in reverse order.
    Gather(usize),
}

/// Function of the test that chooses the reaction to a call. Its arguments are the method, and the number of earlier
/// calls of that method.
pub(super) type Script = Box<dyn Fn(&str, usize) -> Act + Send + Sync>;

/// A region: its start and end, and the address and start code of its server.
pub(super) type Placed = (&'static str, &'static str, String, u64);

pub(super) struct State {
    script: Mutex<Script>,
    pub(super) address: String,
    pub(super) placed: Mutex<Vec<Placed>>,
    pub(super) rows: Mutex<BTreeMap<Vec<u8>, Vec<u8>>>,
    nonces: Mutex<HashSet<(u64, u64)>>,
    counts: Mutex<HashMap<String, usize>>,
}

/// Returns a cell of the table's only column.
pub(super) fn cell(row: &[u8], value: &[u8]) -> Cell {
    Cell {
        row: Some(Bytes::copy_from_slice(row)),
        family: Some(Bytes::from_static(b"a")),
        qualifier: Some(Bytes::from_static(b"x")),
        timestamp: Some(7),
        cell_type: Some(4),
        value: Some(Bytes::copy_from_slice(value)),
    }
}

fn table_name() -> TableName {
    TableName {
        namespace: b"default".to_vec(),
        qualifier: b"t".to_vec(),
    }
}

/// Returns a row of `hbase:meta` that describes a region.
pub(super) fn meta_row(start: &str, end: &str, server: &str, start_code: u64, split: bool) -> Row {
    let name = format!("t,{start},{start_code}.x.");
    let info = RegionInfo {
        region_id: start_code,
        table_name: Some(table_name()),
        start_key: Some(Bytes::copy_from_slice(start.as_bytes())),
        end_key: Some(Bytes::copy_from_slice(end.as_bytes())),
        offline: Some(split),
        split: Some(split),
    };
    let info = [b"PBUF", &info.encode_to_vec()[..]].concat();
    let cells = [
        ("regioninfo", info),
        ("server", server.as_bytes().to_vec()),
        ("serverstartcode", start_code.to_be_bytes().to_vec()),
    ];
    let cells = cells.into_iter().map(|(qualifier, value)| Cell {
        qualifier: Some(Bytes::from_static(qualifier.as_bytes())),
        ..cell(name.as_bytes(), &value)
    });
    Row {
        cell: cells.collect(),
        ..Row::default()
    }
}

pub(super) fn row(cells: Vec<Cell>) -> Row {
    Row {
        cell: cells,
        ..Row::default()
    }
}

/// Starts a simulated cluster whose table has one region. It runs until the test ends.
pub(super) fn start(script: impl Fn(&str, usize) -> Act + Send + Sync + 'static) -> Arc<State> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let rows = (b'a'..=b'z').map(|row| (vec![row], vec![row, row]));
    let state = Arc::new(State {
        script: Mutex::new(Box::new(script)),
        placed: Mutex::new(vec![("", "", address.clone(), 1)]),
        address,
        rows: Mutex::new(rows.collect()),
        nonces: Mutex::default(),
        counts: Mutex::default(),
    });
    let serving = Arc::clone(&state);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let state = Arc::clone(&serving);
            std::thread::spawn(move || state.serve(&stream));
        }
    });
    state
}

impl State {
    /// Returns the number of calls of a method. For "connect SERVICE", returns the number of connections to that
    /// service.
    pub(super) fn count(&self, what: &str) -> usize {
        self.counts.lock().unwrap().get(what).copied().unwrap_or(0)
    }

    /// Replaces the script, and sets the counts to 0.
    pub(super) fn now(&self, script: impl Fn(&str, usize) -> Act + Send + Sync + 'static) {
        *self.script.lock().unwrap() = Box::new(script);
        self.counts.lock().unwrap().clear();
    }

    fn note(&self, what: &str) -> usize {
        let mut counts = self.counts.lock().unwrap();
        let count = counts.entry(what.to_owned()).or_default();
        *count += 1;
        *count - 1
    }

    fn serve(&self, mut stream: &TcpStream) -> Option<()> {
        let mut preamble = [0; 6];
        stream.read_exact(&mut preamble).ok()?;
        assert_eq!(&preamble, b"HBas\0\x50");
        let header = super::messages::ConnectionHeader::decode(&frame(stream)?[..]).unwrap();
        self.note(&format!("connect {}", header.service_name.unwrap()));
        let mut held: Vec<Vec<u8>> = Vec::new();
        let mut late: HashMap<String, Vec<u8>> = HashMap::new();
        loop {
            let call = Bytes::from(frame(stream)?);
            let mut rest = call.clone();
            let header = RequestHeader::decode_length_delimited(&mut rest).unwrap();
            let mut method = header.method_name.unwrap();
            if method == "Scan" && call.windows(12).any(|bytes| bytes == b"hbase:meta,,") {
                method = "Meta".into();
            }
            prost::decode_length_delimiter(&mut rest).unwrap();
            let id = header.call_id.unwrap();
            let act = (self.script.lock().unwrap())(&method, self.note(&method));
            let answer = |id, message: &[u8]| response(id, None, message);
            if let Some(bytes) = late.remove(&method) {
                stream.write_all(&bytes).ok()?;
            }
            let bytes = match act {
                Act::Answer => answer(id, &self.answer(&method, rest)),
                Act::Message(message) => answer(id, &message),
                Act::Silence => continue,
                Act::DoAndClose => {
                    self.answer(&method, rest);
                    return None;
                }
                Act::OtherCall => answer(id + 1000, &self.answer(&method, rest)),
                Act::Twice => answer(id, &self.answer(&method, rest)).repeat(2),
                Act::Raw(bytes) => {
                    stream.write_all(&bytes).ok()?;
                    return None;
                }
                Act::Throw(class, do_not_retry, moved_to) => {
                    response(id, Some(exception(class, do_not_retry, moved_to)), b"")
                }
                Act::Late => {
                    let bytes = answer(id, &self.answer(&method, rest));
                    late.insert(method, bytes);
                    continue;
                }
                Act::Gather(count) => {
                    held.push(answer(id, &self.answer(&method, rest)));
                    if held.len() < count {
                        continue;
                    }
                    held.reverse();
                    Vec::new()
                }
            };
            stream.write_all(&bytes).ok()?;
            stream.write_all(&std::mem::take(&mut held).concat()).ok()?;
        }
    }

    fn answer(&self, method: &str, message: Bytes) -> Vec<u8> {
        let (host, port) = self.address.split_once(':').unwrap();
        let own = ServerName {
            host_name: host.into(),
            port: Some(port.parse().unwrap()),
        };
        match method {
            "GetActiveMaster" => ActiveMaster {
                server_name: Some(own),
            }
            .encode_to_vec(),
            "GetMetaRegionLocations" => {
                let location = RegionLocation {
                    region_info: None,
                    server_name: Some(own),
                };
                let meta_locations = vec![location];
                MetaRegionLocations { meta_locations }.encode_to_vec()
            }
            "GetTableDescriptors" => {
                let schema = TableSchema {
                    table_name: Some(table_name()),
                    column_families: Vec::new(),
                };
                let table_schema = vec![schema];
                TableDescriptors { table_schema }.encode_to_vec()
            }
            "Meta" => self.meta(&ScanRequest::decode(message).unwrap()).encode_to_vec(),
            "Get" => {
                let asked = GetRequest::decode(message).unwrap().get.row;
                let found = self
                    .rows
                    .lock()
                    .unwrap()
                    .get(&asked)
                    .map(|value| cell(&asked, value));
                let result = Some(row(found.into_iter().collect()));
                GetResponse { result }.encode_to_vec()
            }
            "Mutate" => self
                .mutate(&MutateRequest::decode(message).unwrap())
                .encode_to_vec(),
            other => panic!("{other}"),
        }
    }

    fn meta(&self, asked: &ScanRequest) -> ScanResponse {
        let start = asked.scan.clone().unwrap().start_row.unwrap();
        let key = start.strip_prefix(b"t,").unwrap();
        let comma = key.iter().rposition(|byte| *byte == b',').unwrap();
        let placed = self.placed.lock().unwrap();
        let mut below = placed.iter().rev();
        let found = below.find(|placed| placed.0.as_bytes() <= &key[..comma]);
        let results = found.map(|(start, end, server, code)| meta_row(start, end, server, *code, false));
        ScanResponse {
            results: results.into_iter().collect(),
            more_results_in_region: Some(false),
            ..ScanResponse::default()
        }
    }

    /// Executes a put or an increment. An increment is executed once for each nonce.
    fn mutate(&self, asked: &MutateRequest) -> MutateResponse {
        let mutation = &asked.mutation;
        let key = mutation.row.clone().unwrap();
        let value = mutation.column_value[0].qualifier_value[0].value.clone().unwrap();
        let mut rows = self.rows.lock().unwrap();
        if mutation.mutate_type != Some(INCREMENT) {
            rows.insert(key, value);
            return MutateResponse::default();
        }
        let number = |bytes: &[u8]| i64::from_be_bytes(bytes.try_into().unwrap());
        let nonce = (asked.nonce_group.unwrap(), mutation.nonce.unwrap());
        let held = rows.get(&key).map_or(0, |held| number(held));
        let by = if self.nonces.lock().unwrap().insert(nonce) {
            number(&value)
        } else {
            0
        };
        let sum = (held + by).to_be_bytes();
        rows.insert(key.clone(), sum.to_vec());
        MutateResponse {
            result: Some(row(vec![cell(&key, &sum)])),
            processed: None,
        }
    }
}

fn frame(mut stream: &TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).ok()?;
    let mut bytes = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

pub(super) fn exception(class: &str, do_not_retry: bool, moved_to: Option<String>) -> ExceptionResponse {
    let (hostname, port) = match &moved_to {
        None => (None, None),
        Some(moved_to) => {
            let (host, port) = moved_to.split_once(':').unwrap();
            (Some(host.to_owned()), port.parse().ok())
        }
    };
    ExceptionResponse {
        exception_class_name: Some(format!("org.apache.hadoop.hbase.{class}")),
        stack_trace: Some(format!(
            "org.apache.hadoop.hbase.{class}: requested by the test\n\tat nowhere"
        )),
        hostname,
        port,
        do_not_retry: Some(do_not_retry),
    }
}

/// Returns the bytes of a response, including its length field.
pub(super) fn response(id: u32, exception: Option<ExceptionResponse>, message: &[u8]) -> Vec<u8> {
    let is_answer = exception.is_none();
    let header = ResponseHeader {
        call_id: Some(id),
        exception,
        cell_block_meta: None,
    };
    let mut bytes = header.encode_length_delimited_to_vec();
    if is_answer {
        prost::encode_length_delimiter(message.len(), &mut bytes).unwrap();
        bytes.extend_from_slice(message);
    }
    [&(bytes.len() as u32).to_be_bytes()[..], &bytes].concat()
}

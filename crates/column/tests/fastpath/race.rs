//! Test in which threads read the fast path while another thread changes the table, fills and evicts. No answer may be
//! torn, and no answer may be older than the table was when its request was sent.

use crate::asks::{self, Scan, get, row};
use lineside_column::fastpath::ColumnFastPath;
use lineside_column::fill::{ColumnFill, ColumnId, Filled, Row, ServerId};
use lineside_column::key::{Interval, Key};
use lineside_column::store::{Geometry, Store};
use lineside_column::writer::ColumnWriter;
use lineside_fastpath::{FastPath, Reply, Source, Verdict, lease};
use lineside_testkit::Random;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

const KEYS: usize = 200;
const CHANGES: u64 = 60_000;
const READERS: u64 = 3;

fn key(number: usize) -> Vec<u8> {
    format!("row/{number:05}").into_bytes()
}

/// Returns a value that repeats the number of the row, the version, and a hash of both.
fn value(number: usize, version: u64) -> Vec<u8> {
    let mixed = (version ^ (number as u64) << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    [
        version.to_be_bytes(),
        (number as u64).to_be_bytes(),
        mixed.to_be_bytes(),
    ]
    .concat()
}

/// Returns the number and version in a row's value. Panics if the value is torn.
fn read_row(key_bytes: &[u8], value_bytes: &[u8]) -> (usize, u64) {
    let word = |at: usize| u64::from_be_bytes(value_bytes[at..at + 8].try_into().expect("8 bytes"));
    let (version, number) = (word(0), word(8) as usize);
    assert_eq!(value_bytes, value(number, version), "a torn value");
    assert_eq!(key_bytes, key(number), "a value of another row");
    (number, version)
}

/// Guard that makes the readers end when it is dropped, even if the writer panics.
struct Ending<'a>(&'a AtomicBool);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

struct World {
    fastpath: ColumnFastPath,
    truth: Vec<AtomicU64>,
    done: AtomicBool,
}

impl World {
    fn ask(&self, request: &[u8]) -> Option<Vec<u8>> {
        let from = Source {
            address: [127, 0, 0, 1].into(),
            port: 9,
        };
        let mut reply = Reply::default();
        let verdict = self.fastpath.answer(from, 1000, request, &mut reply);
        (verdict == Verdict::Reply).then(|| reply.as_bytes().to_vec())
    }

    fn versions(&self, numbers: std::ops::Range<usize>) -> Vec<u64> {
        self.truth[numbers]
            .iter()
            .map(|version| version.load(SeqCst))
            .collect()
    }

    /// Reads random rows and ranges until the test ends. Returns the number of rows that the fast path answered.
    fn read(&self, mut random: Random) -> u64 {
        let mut answered = 0;
        while !self.done.load(SeqCst) {
            let first = random.index(KEYS - 8);
            let (request, numbers) = match random.index(2) {
                0 => (get(&key(first)), first..first + 1),
                _ => {
                    let scan = Scan {
                        start: key(first),
                        stop: key(first + 8),
                        flags: 0,
                        limit: 0,
                        payload_bytes: 1400,
                    };
                    (scan.request(), first..first + 8)
                }
            };
            let before = self.versions(numbers.clone());
            let Some(reply) = self.ask(&request) else { continue };
            let after = self.versions(numbers.clone());
            let count = usize::from(u16::from_be_bytes([reply[18], reply[19]]));
            assert_eq!(
                count,
                numbers.len(),
                "a scan lacks a row, but no row is ever deleted"
            );
            let mut rest = &reply[40..];
            for ((number, before), after) in numbers.zip(before).zip(after) {
                let (key_bytes, value_bytes) = (usize::from(rest[0]), usize::from(rest[3]));
                let end = 4 + key_bytes + value_bytes;
                let (found, version) = read_row(&rest[4..4 + key_bytes], &rest[4 + key_bytes..end]);
                assert_eq!(found, number, "rows in order");
                assert!(
                    before <= version && version <= after,
                    "{before} <= {version} <= {after}"
                );
                rest = &rest[end.next_multiple_of(8)..];
                answered += 1;
            }
        }
        answered
    }

    fn write(&self, writer: &mut ColumnWriter, mut random: Random) {
        let _ending = Ending(&self.done);
        let interval = |from: usize, to: usize| Interval {
            low: Key::new(&key(from)).expect("a key"),
            high: Key::new(&key(to)),
        };
        for _ in 0..CHANGES {
            let number = random.index(KEYS);
            if random.index(4) == 0 {
                // The row's block is invalidated before the row is changed, as the protocol requires.
                writer.invalidate(ColumnId(0), &interval(number, number + 1));
                self.truth[number].fetch_add(1, SeqCst);
                continue;
            }
            let to = (number + 1 + random.index(40)).min(KEYS);
            let rows: Vec<Row> = (number..to)
                .map(|number| {
                    let version = self.truth[number].load(SeqCst);
                    row(&key(number), &value(number, version), version)
                })
                .collect();
            writer.install(&Filled {
                column: ColumnId(0),
                interval: interval(number, to),
                rows: &rows,
                until_ns: u64::MAX,
                server: ServerId(0),
            });
        }
    }
}

fn race(row_bits: u32) {
    let geometry = Geometry {
        family_bits: 0,
        column_bits: 0,
        row_bits,
        value_bits: 1,
        columns: vec![asks::NAME.into()],
        ..Geometry::default()
    };
    let store = Arc::new(Store::anonymous(&geometry).expect("memory"));
    lease::renew(&store.control().lease_until_ns, 1 << 60);
    let mut writer = ColumnWriter::new(Arc::clone(&store));
    let world = World {
        fastpath: ColumnFastPath::new(store),
        truth: (0..KEYS).map(|_| AtomicU64::new(1)).collect(),
        done: AtomicBool::new(false),
    };
    let answered: u64 = std::thread::scope(|scope| {
        let readers: Vec<_> = (1..=READERS)
            .map(|seed| {
                let world = &world;
                scope.spawn(move || world.read(Random(seed)))
            })
            .collect();
        world.write(&mut writer, Random(4711));
        readers
            .into_iter()
            .map(|reader| reader.join().expect("a reader"))
            .sum()
    });
    assert!(answered > 1000, "{answered} rows answered");
}

#[test]
fn concurrent_reads_are_never_torn_or_stale() {
    race(12);
}

#[test]
fn concurrent_reads_are_never_torn_or_stale_when_blocks_run_out() {
    race(6);
}

//! Tests of the client with a host over UDP, on a network that loses and repeats datagrams.

mod common;

use common::ModelFastPath;
use lineside_client::column::{Client, ClientError, Outcome};
use lineside_column::coherence::Coherence;
use lineside_column::embedded::{CELL_BYTES_MAX, Embedded, system_clock};
use lineside_column::host::{ChangeAnnouncer, CoherenceMode, ColumnHost, Setup};
use lineside_column::table::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, Nonce, ScanRange, Table, TableError,
};
use lineside_fastpath::{Host, Readers, Reply, Source, Verdict};
use lineside_messages::column::native::Rows;
use lineside_messages::column::paper::{PaperAnswer, PaperRequest};
use lineside_wire::{COLUMN_OP_INCREMENT, ColumnCode as Code, Status};
use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

fn foo() -> ColumnName {
    ColumnName::new(b"entry:foo").unwrap()
}

/// A host at a UDP port. Dropping it ends the host.
struct Server<T = Embedded> {
    address: SocketAddr,
    table: Arc<T>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// Starts a host. If `lossy`, each increment arrives twice, and the first answer to it is lost.
    fn start(lossy: bool, is_trusted: bool) -> Self {
        let table = Arc::new(Embedded::in_memory(system_clock()));
        let coherence = Arc::new(Coherence::new(Box::new(ModelFastPath::default())));
        table.set_listener(Arc::new(ChangeAnnouncer::new(Arc::clone(&coherence), &[foo()])));
        Self::over(table, coherence, lossy, is_trusted)
    }
}

impl<T: Table + 'static> Server<T> {
    fn over(table: Arc<T>, coherence: Arc<Coherence>, lossy: bool, is_trusted: bool) -> Self {
        let mut setup = Setup::new(table.clone(), coherence, vec![foo()], CoherenceMode::ByTable);
        setup.trusted = Box::new(move |_| is_trusted);
        let host = ColumnHost::new(setup).unwrap();
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let serve = move || {
            let reader = Readers::default().join();
            let (mut request, mut last) = ([0; 2048], Vec::new());
            while !ends.load(Relaxed) {
                let Ok((bytes, from)) = socket.recv_from(&mut request) else {
                    continue;
                };
                let request = &request[..bytes];
                let is_lost = lossy && request[3] == COLUMN_OP_INCREMENT && last != request;
                last = request.to_vec();
                for _ in 0..2 {
                    let mut reply = Reply::default();
                    if host.serve(Source::from(from), request, &mut reply, &reader) == Verdict::Reply
                        && !is_lost
                    {
                        socket.send_to(reply.as_bytes(), from).unwrap();
                    }
                }
            }
        };
        Self {
            address,
            table,
            stop,
            thread: Some(std::thread::spawn(serve)),
        }
    }

    fn client(&self) -> Client {
        Client::connect(self.address, Duration::from_secs(20)).unwrap()
    }
}

impl<T> Drop for Server<T> {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn a_repeated_change_takes_effect_once() {
    let server = Server::start(true, false);
    let mut client = server.client();
    for sum in 1..=8i64 {
        let said = client.change(b"n", &foo(), &Change::Increment(1)).unwrap();
        assert_eq!(said, Outcome::Now(sum.to_be_bytes().to_vec()));
    }
    assert!(client.resent() >= 8);
    // A refused change leaves the session unchanged, so the next change uses the same nonce.
    let too_short = Change::Put(vec![1], None);
    assert_eq!(client.change(b"n", &foo(), &too_short).unwrap(), Outcome::Done);
    let refused = client.change(b"n", &foo(), &Change::Increment(1));
    assert!(
        matches!(
            refused,
            Err(ClientError::Refused {
                status: Status::NotANumber,
                ..
            })
        ),
        "{refused:?}"
    );
    assert_eq!(
        client.change(b"n", &foo(), &Change::Delete).unwrap(),
        Outcome::Done
    );
    assert_eq!(client.get(b"n", &[foo()]).unwrap().rows, []);
}

#[test]
fn a_change_that_makes_a_cell_too_long_is_refused_and_the_session_continues() {
    let server = Server::start(false, false);
    let long = Change::Put(vec![1; CELL_BYTES_MAX], None);
    server
        .table
        .change(b"n", &foo(), &long, Nonce::default())
        .unwrap();
    let mut client = server.client();
    let refused = client.change(b"n", &foo(), &Change::Append(vec![2]));
    assert!(
        matches!(
            refused,
            Err(ClientError::Refused {
                status: Status::TooLong,
                ..
            })
        ),
        "{refused:?}"
    );
    let short = Change::Put(b"short".to_vec(), None);
    assert_eq!(client.change(b"n", &foo(), &short).unwrap(), Outcome::Done);
    let longer = client.change(b"n", &foo(), &Change::Append(b"er".to_vec()));
    assert_eq!(longer.unwrap(), Outcome::Now(b"shorter".to_vec()));
}

#[test]
fn a_long_scan_continues_after_its_last_row() {
    let server = Server::start(false, false);
    let rows: Vec<[u8; 2]> = (0..500u16).map(u16::to_be_bytes).collect();
    for row in &rows {
        let put = Change::Put(row.repeat(5), None);
        server.table.change(row, &foo(), &put, Nonce::default()).unwrap();
    }
    let mut client = server.client();
    let mut scan = |rows: &Rows| {
        let (mut keys, mut packets) = (Vec::new(), 0);
        let all = client.scan_all(rows, &[foo()], |answer| {
            packets += 1;
            keys.extend(answer.rows.into_iter().map(|(key, _, value)| {
                assert_eq!(value, key.repeat(5));
                key
            }));
            ControlFlow::Continue(())
        });
        all.unwrap();
        (keys, packets)
    };
    let (keys, packets) = scan(&Rows::default());
    assert!(keys == rows && packets > 5, "{packets}");
    let (keys, _) = scan(&Rows {
        reverse: true,
        ..Rows::default()
    });
    assert!(keys.iter().eq(rows.iter().rev()));
    let (keys, packets) = scan(&Rows {
        limit: 100,
        ..Rows::default()
    });
    assert!(keys == rows[..100] && packets > 1, "{packets}");
}

/// A table with fixed rows, whose keys and values have all lengths that HBase allows.
#[derive(Debug)]
struct Fixed(BTreeMap<Vec<u8>, usize>);

impl Table for Fixed {
    fn get(&self, key: &[u8], _: &[ColumnName]) -> Result<Vec<Option<Cell>>, TableError> {
        Ok(vec![self.0.get(key).copied().map(cell)])
    }

    fn scan(&self, range: &ScanRange, _: &[ColumnName]) -> Result<Vec<FoundCell>, TableError> {
        let is_in = |key: &Vec<u8>| *key >= range.low && range.high.as_ref().is_none_or(|high| key < high);
        let mut found: Vec<FoundCell> = (self.0.iter())
            .filter(|(key, _)| is_in(key))
            .map(|(key, bytes)| FoundCell {
                key: key.clone(),
                column: 0,
                cell: cell(*bytes),
            })
            .collect();
        if range.reverse {
            found.reverse();
        }
        found.truncate(range.limit);
        Ok(found)
    }

    fn change(&self, _: &[u8], _: &ColumnName, _: &Change, _: Nonce) -> Result<ChangeOutcome, TableError> {
        Err(TableError::Refused("this table cannot be changed".into()))
    }

    fn now_ms(&self) -> u64 {
        1
    }
}

fn cell(bytes: usize) -> Cell {
    Cell {
        value: vec![b'v'; bytes],
        timestamp_ms: 1,
        expires_ms: None,
    }
}

#[test]
fn a_scan_continues_after_rows_that_fit_no_packet() {
    // The table has rows that fit a packet, and rows whose value or key is too long for one.
    let prefix = vec![b'm'; 255];
    let behind = |end: &[u8]| [&prefix, end].concat();
    let rows: [(Vec<u8>, usize); 11] = [
        (b"a".to_vec(), 3),
        (b"b".to_vec(), 5_000),
        (b"c".to_vec(), 700),
        (b"d".to_vec(), 700),
        (prefix.clone(), 1_000),
        (behind(b"a"), 10),
        (behind(b"b"), 4_000),
        (b"n".to_vec(), 1),
        (b"o".to_vec(), 1_500),
        (vec![0xff; 255], 2),
        (vec![0xff; 300], 2),
    ];
    let coherence = Arc::new(Coherence::new(Box::new(ModelFastPath::default())));
    let table = Arc::new(Fixed(rows.iter().cloned().collect()));
    let server = Server::over(table, coherence, false, true);
    let mut client = server.client();
    let mut scan = |rows: &Rows| {
        let mut said: Vec<(Vec<u8>, Option<u64>, bool)> = Vec::new();
        let all = client.scan_all(rows, &[foo()], |answer| {
            let mut rows = answer.rows.iter();
            for left_out in &answer.left_out {
                let before = left_out.rows_before - (answer.rows.len() - rows.len());
                said.extend(rows.by_ref().take(before).map(|row| (row.0.clone(), None, false)));
                said.push((left_out.key.clone(), Some(left_out.value_bytes), left_out.is_cut));
            }
            said.extend(rows.map(|row| (row.0.clone(), None, false)));
            ControlFlow::Continue(())
        });
        all.unwrap();
        said
    };
    let one = |key: &[u8]| (key.to_vec(), None, false);
    let long = |key: &[u8], bytes| (key.to_vec(), Some(bytes), false);
    let mut expected = vec![
        one(b"a"),
        long(b"b", 5_000),
        one(b"c"),
        one(b"d"),
        one(&prefix),
        // Both keys begin with the same 255 bytes, and a reply has only these bytes.
        (prefix.clone(), Some(10), true),
        one(b"n"),
        long(b"o", 1_500),
        one(&[0xff; 255]),
        (vec![0xff; 255], Some(2), true),
    ];
    assert_eq!(scan(&Rows::default()), expected);
    let first_five = Rows {
        limit: 5,
        ..Rows::default()
    };
    assert_eq!(scan(&first_five), expected[..5]);
    let reverse = Rows {
        reverse: true,
        ..Rows::default()
    };
    expected.reverse();
    // In descending order, the row with the higher key comes first.
    expected[4].1 = Some(4_000);
    assert_eq!(scan(&reverse), expected);
    let answer = client.get(b"b", &[foo()]).unwrap();
    assert_eq!((answer.rows.len(), answer.left_out[0].value_bytes), (0, 5_000));
}

#[test]
fn writes_in_the_paper_format_need_a_trusted_source() {
    for (is_trusted, code) in [(true, Code::Done), (false, Code::Unauthorised)] {
        let server = Server::start(false, is_trusted);
        let mut client = server.client();
        let (key, name) = (b"key1".to_vec(), b"entry:foo".to_vec());
        let put = PaperRequest::Put(key.clone(), name.clone(), b"v".to_vec());
        assert_eq!(client.paper(&put, 0).unwrap(), PaperAnswer::Put(code));
        let found = is_trusted.then(|| b"v".to_vec());
        let get = PaperRequest::Get(key, name);
        assert_eq!(client.paper(&get, 0).unwrap(), PaperAnswer::Get(Ok(found)));
    }
}

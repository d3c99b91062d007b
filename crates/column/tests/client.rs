//! The client against the host over UDP, with a network that loses and repeats.

mod common;

use common::ModelNear;
use lineside_column::client::{Client, ClientError, Outcome};
use lineside_column::coherence::Coherence;
use lineside_column::embedded::{Embedded, system_clock};
use lineside_column::host::{Announcer, ColumnHost, Setup, Telling};
use lineside_column::native::Rows;
use lineside_column::paper::{PaperAnswer, PaperRequest};
use lineside_column::table::{Change, ColumnName, Nonce, Table};
use lineside_near::{Host, Readers, Reply, Source, Verdict};
use lineside_wire::{COLUMN_OP_INCREMENT, ColumnCode as Code, Status};
use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

fn foo() -> ColumnName {
    ColumnName::new(b"entry:foo").unwrap()
}

/// A host behind a port, until it is dropped.
struct Server {
    address: SocketAddr,
    table: Arc<Embedded>,
    stop: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Server {
    /// If it is `lossy`, the first answer to each increment is lost, and each of its requests comes twice.
    fn start(lossy: bool, is_trusted: bool) -> Self {
        let table = Arc::new(Embedded::in_memory(system_clock()));
        let coherence = Arc::new(Coherence::new(Box::new(ModelNear::default())));
        let columns = vec![foo()];
        table.watch(Arc::new(Announcer::new(Arc::clone(&coherence), &columns)));
        let mut setup = Setup::new(table.clone(), coherence, columns, Telling::ByTable);
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

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn what_is_repeated_is_done_once() {
    let server = Server::start(true, false);
    let mut client = server.client();
    for sum in 1..=8i64 {
        let said = client.change(b"n", &foo(), &Change::Increment(1)).unwrap();
        assert_eq!(said, Outcome::Now(sum.to_be_bytes().to_vec()));
    }
    assert!(client.resent() >= 8);
    // A refusal leaves the session as it was: what comes next has its nonce.
    let too_short = Change::Put(vec![1], None);
    assert_eq!(client.change(b"n", &foo(), &too_short).unwrap(), Outcome::Done);
    let refused = client.change(b"n", &foo(), &Change::Increment(1));
    assert!(
        matches!(
            refused,
            Err(ClientError::Refused {
                status: Status::BadRequest,
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
fn a_long_scan_goes_on_behind_what_it_got() {
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

#[test]
fn the_paper_s_format_needs_trust_to_write() {
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

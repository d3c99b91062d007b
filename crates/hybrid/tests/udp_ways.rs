//! Tests of a client whose datagrams are lost, and of a node that accepts no more requests.

mod common;
mod served;

use common::*;
use lineside_client::hybrid::udp::Client as Asker;
use lineside_client::hybrid::{AskError, TransactionOutcome};
use lineside_hybrid::log::{Deliver, Entry, Log, LogError, OpenLog};
use lineside_hybrid::{Code, Node, Options};
use lineside_journal::SimDisk;
use lineside_messages::hybrid::answer::Answered;
use lineside_messages::hybrid::request::{Body, Sees};
use lineside_messages::hybrid::signing::{Identity, expiry_of, id_of, unix_ms};
use lineside_messages::hybrid::udp::{read_answer, read_request, write_answer, write_request};
use lineside_wire::Status;
use served::*;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

/// Relays datagrams between one client and a server, except those for which `loses` returns true. The arguments of
/// `loses` are the direction (0: to the server, 1: to the client) and the number of the datagram in that direction.
fn relay(server: SocketAddr, loses: impl Fn(usize, u64) -> bool + Send + 'static) -> SocketAddr {
    let way = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = way.local_addr().unwrap();
    way.set_read_timeout(Some(REPLY_TIMEOUT)).unwrap();
    std::thread::spawn(move || {
        let (mut client, mut counts, mut bytes) = (server, [0; 2], [0; 2000]);
        // The loop ends when no datagram has arrived for the socket's read timeout.
        while let Ok((length, from)) = way.recv_from(&mut bytes) {
            let back = usize::from(from == server);
            if back == 0 {
                client = from;
            }
            let to = [server, client][back];
            counts[back] += 1;
            if !loses(back, counts[back]) {
                let _ = way.send_to(&bytes[..length], to);
            }
        }
    });
    address
}

#[test]
fn lost_datagrams_are_resent_and_take_effect_once() {
    let served = serve(9);
    for (round, loses) in [
        (
            1,
            (|back, number| back == 1 && number <= 2) as fn(usize, u64) -> bool,
        ),
        (2, |back, number| back == 0 && number <= 2),
    ] {
        let mut member = asker(relay(served.address(), loses), 5);
        let version = placed(&member.set(b"a", None, b"x").unwrap());
        assert_eq!(version.block, round);
        assert!(member.resent() >= 2);
        if round == 1 {
            assert_eq!(served.node.status().height, 1, "the first copy was executed");
        }
    }
    let mut member = asker(relay(served.address(), |_, number| number <= 2), 6);
    let Answered::Cells(cells) = member.get(Sees::Local, &[b"a"]).unwrap() else {
        panic!("no cells");
    };
    assert_eq!(&cells[0].as_ref().unwrap().value[..], b"x");
    assert!(member.resent() >= 3);
}

/// A log that does not deliver appended messages until the test releases it.
#[derive(Clone, Default)]
struct HeldLog(Arc<Mutex<HeldState>>);

#[derive(Default)]
struct HeldState {
    kept: Vec<Vec<u8>>,
    deliver: Option<Deliver>,
    position: u64,
    is_open: bool,
}

impl HeldState {
    fn pass(&mut self) {
        while self.is_open && !self.kept.is_empty() {
            self.position += 1;
            let (position, message) = (self.position, self.kept.remove(0));
            self.deliver.as_ref().unwrap()(Entry { position, message });
        }
    }
}

impl HeldLog {
    fn open(&self) -> OpenLog {
        let held = self.clone();
        Box::new(move |start| {
            held.0.lock().unwrap().deliver = Some(start.deliver);
            Ok(Arc::new(HeldWay(held)))
        })
    }

    fn let_go(&self) {
        let mut state = self.0.lock().unwrap();
        state.is_open = true;
        state.pass();
    }
}

/// Access of the node to the log. It is dropped only when the log can deliver nothing more.
struct HeldWay(HeldLog);

impl Drop for HeldWay {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().deliver = None;
    }
}

impl Log for HeldWay {
    fn append(&self, message: Vec<u8>) -> Result<(), LogError> {
        let mut state = self.0.0.lock().unwrap();
        state.kept.push(message);
        state.pass();
        Ok(())
    }

    fn end(&self) -> Result<Option<u64>, LogError> {
        // A position that no node ever reaches, so that a linearizable read waits.
        Ok(Some(u64::MAX))
    }
}

fn start_held(held: &HeldLog, options: Options) -> Node<SimDisk> {
    let genesis = genesis().encode().unwrap();
    let signer = Arc::new(node_key(1));
    Node::start(SimDisk::new(10), &genesis, signer, options, held.open()).unwrap()
}

#[test]
fn reads_do_not_wait_for_writes_and_a_full_queue_is_busy() {
    let held = HeldLog::default();
    let served = ServedNode::new(start_held(&held, Options::default()), &[], 4);
    let mut client = Client::new();
    let socket = socket(served.address());
    // Four writes wait for the log. The node answers the reads between them, and refuses a fifth write.
    for id in 0..4 {
        // Each write is from another member, because the order in which requests are verified is not defined.
        let set = client.set(4 + id, &format!("key {id}"), None, "x");
        socket.send(&write_request(id, &set, 0).unwrap()).unwrap();
        if id < 3 {
            let get = write_request(100 + id, &client.get(6, "a"), 1200).unwrap();
            let (id_of_answer, answered) = said(&asked(&socket, &get));
            assert_eq!((id_of_answer, answered), (100 + id, Answered::Cells(vec![None])));
        }
    }
    let last = client.set(8, "more", None, "x");
    let last = write_request(4, &last, 0).unwrap();
    let reply = asked(&socket, &last);
    assert_eq!(read_answer(&reply), Some((4, Status::Busy, &[][..])));
    assert_eq!(served.datapath.counts().queue_full.load(Relaxed), 1);
    held.let_go();
    let mut reply = [0; 100];
    let mut ids: Vec<u64> = (0..4)
        .map(|_| {
            let bytes = socket.recv(&mut reply).unwrap();
            let (id, answered) = said(&reply[..bytes]);
            placed(&answered);
            id
        })
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, [0, 1, 2, 3]);
    assert_eq!(said(&asked(&socket, &last)).1.code(), Code::Done);
}

#[test]
fn requests_above_the_limit_of_the_node_are_answered_busy() {
    let held = HeldLog::default();
    let options = Options {
        verify_threads: 1,
        waiting_requests: 2,
        ..Options::default()
    };
    let served = ServedNode::new(start_held(&held, options), &[], 4096);
    let mut client = Client::new();
    let socket = socket(served.address());
    let linearizable = Body::Get {
        sees: Sees::Linearizable,
        keys: vec![b"a"],
    };
    let came = |count| {
        while served.datapath.counts().received.load(Relaxed) < count {
            std::thread::yield_now();
        }
    };
    // The only verifying thread waits for a position that is never reached.
    let waits = write_request(50, &client.sign(5, linearizable), 1200).unwrap();
    socket.send(&waits).unwrap();
    let deadline = Instant::now() + Duration::from_secs(20);
    while served.node.status().verified == 0 {
        assert!(
            Instant::now() < deadline,
            "the verifying thread does not take the first request"
        );
        std::thread::yield_now();
    }
    // These requests are not gets, because the receiving thread could answer a get itself.
    let mut head = |id| write_request(id, &client.sign(6, Body::Head), 1200).unwrap();
    // The datagrams are sent one by one: those that arrive together are one call, and the node always accepts a first
    // call.
    for id in 0..2 {
        socket.send(&head(id)).unwrap();
        came(2 + id);
    }
    for id in 2..20 {
        let busy = Answered::Refused(Code::Busy);
        assert_eq!(said(&asked(&socket, &head(id))), (id, busy));
    }
    let mut reply = [0; 1200];
    let mut later: Vec<(u64, Code)> = (0..3)
        .map(|_| {
            let bytes = socket.recv(&mut reply).unwrap();
            let (id, answered) = said(&reply[..bytes]);
            (id, answered.code())
        })
        .collect();
    later.sort_by_key(|(id, _)| *id);
    assert_eq!(later, [(0, Code::Done), (1, Code::Done), (50, Code::Busy)]);
    held.let_go();
}

#[test]
fn datagrams_above_the_byte_limit_of_the_node_are_answered_busy() {
    let options = Options {
        verify_threads: 1,
        waiting_bytes: 2000,
        ..Options::default()
    };
    let served = ServedNode::new(start_with(SimDisk::new(12), options), &[], 4096);
    let (mut client, socket) = (Client::new(), socket(served.address()));
    let value = "v".repeat(900);
    let held = hold_verifier(&served.node, client.sign(8, Body::Head));
    let (send, receive) = mpsc::channel();
    let first = client.set(4, "first", None, &value);
    served.node.submit(vec![first], move |answers| {
        send.send(answers[0].code()).unwrap();
    });
    // More than half of the bytes are in use, so the node refuses another long request but accepts a short one.
    let mut long = |id| write_request(id, &client.set(5, "long", None, &value), 0).unwrap();
    let busy = |id| (id, Answered::Refused(Code::Busy));
    assert_eq!(said(&asked(&socket, &long(1))), busy(1));
    let short = Client::new().set(6, "short", None, "x");
    let received = served.datapath.counts().received.load(Relaxed);
    socket.send(&write_request(2, &short, 0).unwrap()).unwrap();
    while served.datapath.counts().received.load(Relaxed) == received {
        std::thread::yield_now();
    }
    // The refusal of the long request arrived after the short one was submitted, so the node did not refuse the short
    // one.
    assert_eq!(said(&asked(&socket, &long(3))), busy(3));
    drop(held);
    let mut reply = [0; 1200];
    let bytes = socket.recv(&mut reply).unwrap();
    let (id, answered) = said(&reply[..bytes]);
    assert_eq!((id, answered.code()), (2, Code::Done));
    assert_eq!(receive.recv().unwrap(), Code::Done);
    // No request waits any more.
    assert_eq!(said(&asked(&socket, &long(4))).1.code(), Code::Done);
}

#[test]
fn a_client_reports_why_it_has_no_answer() {
    let served = serve(11);
    let mut member = asker(served.address(), 5);
    let long = "v".repeat(1200);
    let refused = member.set(b"a", None, long.as_bytes()).unwrap_err();
    assert!(matches!(refused, AskError::TooLong(_)), "{refused}");
    assert!(refused.to_string().contains("use gRPC"));
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let identity = Identity {
        database: Client::new().database,
        member: 5,
        key: 0,
        lane: 0,
        secret: member_key(5),
    };
    let patience = Duration::from_millis(700);
    let busy = UdpSocket::bind("127.0.0.1:0").unwrap();
    let server = busy.local_addr().unwrap();
    let mut refused = Asker::connect(server, identity.clone(), patience).unwrap();
    // Servers that answer `busy` to the first datagrams, and then do not answer.
    for (tells, code) in [(u32::MAX, Some(Code::Busy)), (1, None)] {
        let way = busy.try_clone().unwrap();
        way.set_read_timeout(Some(Duration::from_millis(600))).unwrap();
        let told = std::thread::spawn(move || {
            let mut bytes = [0; 1200];
            for number in 0.. {
                let Ok((length, from)) = way.recv_from(&mut bytes) else {
                    return;
                };
                if number < tells {
                    let (header, _) = read_request(&bytes[..length]).unwrap();
                    let answer = write_answer(header, &Answered::Refused(Code::Busy), length);
                    way.send_to(&answer, from).unwrap();
                }
            }
        });
        let answered = refused.set(b"a", None, b"x");
        assert_eq!(answered.as_ref().ok().map(Answered::code), code);
        // One of the datagrams of a write may have been executed.
        assert_eq!(
            matches!(answered, Err(AskError::OutcomeUnknown { .. })),
            code.is_none()
        );
        told.join().unwrap();
    }
    let mut alone = Asker::connect(silent.local_addr().unwrap(), identity, patience).unwrap();
    let request = alone.signing().sign(Body::set(b"a", None, b"x")).unwrap();
    let lost = alone.write(&request).unwrap_err();
    assert!(
        matches!(lost, AskError::OutcomeUnknown { id, .. } if id == id_of(&request)),
        "{lost}"
    );
    let lost = alone.get(Sees::Local, &[b"a"]).unwrap_err();
    assert!(matches!(lost, AskError::Timeout { .. }), "{lost}");
}

#[test]
fn an_outcome_is_final_only_after_the_request_has_expired() {
    let served = serve(12);
    let mut member = asker(served.address(), 5);
    let request = member.signing().sign(Body::set(b"a", None, b"x")).unwrap();
    let (id, expiry_ms) = (id_of(&request), expiry_of(&request));
    assert!(expiry_ms.abs_diff(unix_ms() + 30_000) < 20_000);
    // A copy of the request may still arrive.
    for expiry_ms in [None, Some(expiry_ms), Some(u64::MAX)] {
        assert_eq!(member.outcome(id, expiry_ms).unwrap(), TransactionOutcome::NotYet);
    }
    let Answered::Placed { code, version } = member.write(&request).unwrap() else {
        panic!("the write is not placed");
    };
    assert_eq!(
        member.outcome(id, Some(expiry_ms)).unwrap(),
        TransactionOutcome::Placed { code, version }
    );
    // A request with this id would have expired a minute ago.
    let late = Some(unix_ms() - 60_000);
    assert_eq!(
        member.outcome([9; 32], late).unwrap(),
        TransactionOutcome::NotExecuted
    );
    assert_eq!(member.outcome([9; 32], None).unwrap(), TransactionOutcome::NotYet);
}

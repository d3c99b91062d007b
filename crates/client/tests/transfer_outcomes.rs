//! Sessions of `transfer` against a false server: replies to other packets are ignored, and after an unknown outcome a
//! session sends nothing else until the outcome is found.

use lineside_client::transfer::{AccountId, Client, Code, Operation, Session, transfer};
use lineside_client::{ClientError, NoOutcome};
use lineside_wire::{
    ExecuteHead, NATIVE_REPLY_BIT, NativeHeader, SessionBody, Status, TRANSFER_OP_CLOSE, TRANSFER_OP_EXECUTE,
};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Time-out of clients. A test waits for all of it only if no reply comes.
const TIMEOUT: Duration = Duration::from_millis(250);
const TOKEN: u64 = 0x1122_3344_5566_7788;
const HEADER_BYTES: usize = size_of::<NativeHeader>();

/// Request that the false server received.
struct Request {
    header: NativeHeader,
    body: Vec<u8>,
    /// Number of earlier requests with this id: copies of this request.
    copies: usize,
}

impl Request {
    /// Returns true for a packet with the payment of 1.
    fn is_first_payment(&self) -> bool {
        let operations = self.body.get(size_of::<ExecuteHead>()..).unwrap_or_default();
        let first = <[Operation]>::ref_from_bytes(operations).ok();
        self.header.op == TRANSFER_OP_EXECUTE && first.is_some_and(|found| found == pay(1))
    }

    /// Returns a reply with a status and a body.
    fn reply(&self, status: Status, body: &[u8]) -> Vec<u8> {
        let mut header = self.header;
        header.op |= NATIVE_REPLY_BIT;
        header.status = (status as u16).into();
        header.length = (body.len() as u16).into();
        [header.as_bytes(), body].concat()
    }

    /// Returns the reply that executes the operations of a packet; `change` alters its head and operations.
    fn executed(&self, change: impl Fn(&mut ExecuteHead, &mut [Operation])) -> Vec<u8> {
        let (head, operations) = ExecuteHead::read_from_prefix(&self.body).unwrap();
        let (mut head, mut operations) = (head, <[Operation]>::ref_from_bytes(operations).unwrap().to_vec());
        for operation in &mut operations {
            operation.amount = 70.into();
            operation.number = 1.into();
        }
        change(&mut head, &mut operations);
        self.reply(Status::Ok, &[head.as_bytes(), operations.as_bytes()].concat())
    }

    /// Returns the refusal of a packet, with the sequence number that the server expects.
    fn refused(&self, status: Status, expected: u64) -> Vec<u8> {
        let (mut head, operations) = ExecuteHead::read_from_prefix(&self.body).unwrap();
        head.sequence = expected.into();
        self.reply(status, &[head.as_bytes(), operations].concat())
    }
}

/// False server; ends when dropped.
struct Liar {
    address: SocketAddr,
    /// Number of received requests other than the payment of 1.
    others: Arc<AtomicUsize>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Liar {
    /// Starts a server that answers each packet of operations with the datagrams that `answer` returns.
    fn start(answer: impl Fn(&Request) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(5))).unwrap();
        let address = socket.local_addr().unwrap();
        let (others, ends) = (Arc::<AtomicUsize>::default(), Arc::<AtomicBool>::default());
        let (count, stop) = (Arc::clone(&others), Arc::clone(&ends));
        let serve = move || {
            let (mut datagram, mut ids) = ([0; 2048], Vec::new());
            while !stop.load(Relaxed) {
                let Ok((bytes, client)) = socket.recv_from(&mut datagram) else {
                    continue;
                };
                let (header, body) = NativeHeader::read_from_prefix(&datagram[..bytes]).unwrap();
                assert_eq!(bytes, HEADER_BYTES + usize::from(header.length.get()));
                let request = Request {
                    header,
                    body: body.to_vec(),
                    copies: ids.iter().filter(|id| **id == header.request_id).count(),
                };
                ids.push(header.request_id);
                count.fetch_add(usize::from(!request.is_first_payment()), Relaxed);
                let answers = match header.op {
                    TRANSFER_OP_CLOSE => {
                        vec![request.reply(Status::Ok, SessionBody::new_zeroed().as_bytes())]
                    }
                    _ => answer(&request),
                };
                for answer in answers {
                    socket.send_to(&answer, client).unwrap();
                }
            }
        };
        Self {
            address,
            others,
            ends,
            thread: Some(std::thread::spawn(serve)),
        }
    }

    fn client(&self) -> Client {
        Client::connect(self.address, TIMEOUT).unwrap()
    }
}

impl Drop for Liar {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn pay(amount: u64) -> [Operation; 1] {
    [transfer(
        AccountId::from_paper(1),
        AccountId::from_paper(2),
        amount,
    )]
}

const fn session() -> Session {
    Session::new(3, TOKEN, 17)
}

/// Returns the reason why the outcome is unknown.
fn cause<T: std::fmt::Debug>(executed: Result<T, ClientError>) -> NoOutcome {
    match executed {
        Err(ClientError::OutcomeUnknown { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

#[test]
fn replies_to_other_packets_are_ignored() {
    let changes: [fn(&mut ExecuteHead); 4] = [
        |head| head.sequence = (head.sequence.get() + 1).into(),
        |head| head.slot = (head.slot.get() + 1).into(),
        |head| head.token = (head.token.get() ^ 1).into(),
        |head| head.count = 2.into(),
    ];
    for change in changes {
        let lies = Liar::start(move |request| vec![request.executed(|head, _| change(head))]);
        let mut other = session();
        assert_eq!(
            cause(lies.client().execute(&mut other, &pay(1))),
            NoOutcome::Timeout(TIMEOUT)
        );
        assert_eq!(other.next, 17);

        let both = Liar::start(move |request| {
            let lie = request.executed(|head, operations| {
                change(head);
                operations[0].amount = 1.into();
            });
            vec![lie, request.executed(|_, _| {})]
        });
        let mut session = session();
        let executed = both.client().execute(&mut session, &pay(1)).unwrap();
        assert_eq!(executed.outcomes[0].balance, Some(70));
        assert_eq!(session.next, 18);
    }
}

#[test]
fn a_refusal_has_no_balance() {
    let server = Liar::start(|request| {
        vec![request.executed(|_, operations| operations[0].code = (Code::InsufficientFunds as u16).into())]
    });
    let executed = server.client().execute(&mut session(), &pay(1)).unwrap();
    assert_eq!(
        (executed.outcomes[0].code, executed.outcomes[0].balance),
        (Code::InsufficientFunds, None)
    );
}

#[test]
fn after_an_unknown_outcome_nothing_else_is_sent_until_it_is_found() {
    let answers = Arc::<AtomicBool>::default();
    let is_answering = Arc::clone(&answers);
    let server = Liar::start(move |request| match is_answering.load(Relaxed) {
        true => vec![request.executed(|_, _| {})],
        false => Vec::new(),
    });
    let (mut client, mut session) = (server.client(), session());
    assert_eq!(
        cause(client.execute(&mut session, &pay(1))),
        NoOutcome::Timeout(TIMEOUT)
    );
    assert_eq!(session.unanswered(), Some(&pay(1)[..]));
    answers.store(true, Relaxed);
    let refused = client.execute(&mut session, &pay(2));
    assert!(matches!(refused, Err(ClientError::Unanswered(_))), "{refused:?}");
    let refused = client.close(&session);
    assert!(matches!(refused, Err(ClientError::Unanswered(_))), "{refused:?}");
    // Another client that continues the session refuses them, too.
    let refused = server.client().execute(&mut session, &pay(2));
    assert!(matches!(refused, Err(ClientError::Unanswered(_))), "{refused:?}");
    assert_eq!(server.others.load(Relaxed), 0, "a refused call sends nothing");
    let found = client.resume(&mut session).unwrap().unwrap();
    assert_eq!(found.outcomes[0].balance, Some(70));
    assert_eq!((session.next, session.unanswered()), (18, None));
    assert_eq!(client.resume(&mut session).unwrap(), None);
    client.execute(&mut session, &pay(2)).unwrap();
    assert!(client.close(&session).unwrap());
}

#[test]
fn the_same_operations_find_an_unknown_outcome_like_resume() {
    let server = Liar::start(|request| vec![request.executed(|_, _| {})]);
    let mut stored = session().with_unanswered(pay(1).to_vec());
    server.client().execute(&mut stored, &pay(1)).unwrap();
    assert_eq!((stored.next, stored.unanswered()), (18, None));
}

#[test]
fn a_refusal_of_a_repeated_packet_leaves_its_outcome_unknown() {
    for status in [
        Status::Reused,
        Status::Sequence,
        Status::NoSession,
        Status::NoRoom,
        Status::OutcomeUnknown,
    ] {
        let server = Liar::start(move |request| vec![request.refused(status, 18)]);
        let mut client = server.client();
        let mut resumed = session().with_unanswered(pay(1).to_vec());
        assert_eq!(cause(client.resume(&mut resumed)), NoOutcome::Refused(status));
        // The packet stays: the same operations would otherwise be a new packet, and be executed twice.
        assert_eq!((resumed.next, resumed.unanswered()), (17, Some(&pay(1)[..])));
        resumed.abandon();
        assert!(client.close(&resumed).unwrap());

        // The first copy gets no reply.
        let server = Liar::start(move |request| match request.copies {
            0 => Vec::new(),
            _ => vec![request.refused(status, 18)],
        });
        let mut repeated = session();
        assert_eq!(
            cause(server.client().execute(&mut repeated, &pay(1))),
            NoOutcome::Refused(status)
        );
        assert!(repeated.unanswered().is_some());
    }
    let busy = Liar::start(|request| vec![request.reply(Status::Busy, &[])]);
    let mut resumed = session().with_unanswered(pay(1).to_vec());
    assert_eq!(
        cause(busy.client().resume(&mut resumed)),
        NoOutcome::Refused(Status::Busy)
    );
    assert!(resumed.unanswered().is_some());
}

#[test]
fn a_definite_refusal_frees_the_session() {
    for (status, is_resumed) in [
        (Status::Unauthorised, true),
        (Status::BadRequest, true),
        (Status::Reused, false),
        (Status::NoSession, false),
    ] {
        let server = Liar::start(move |request| vec![request.refused(status, 18)]);
        // On a busy machine the reply may come after the first repetition, and is then no definite refusal.
        let (session, refused) = loop {
            let mut client = server.client();
            let mut session = match is_resumed {
                true => session().with_unanswered(pay(1).to_vec()),
                false => session(),
            };
            let refused = client.execute(&mut session, &pay(1));
            if client.resent() == 0 {
                break (session, refused);
            }
        };
        let Err(ClientError::Refused {
            status: named,
            expected,
            ..
        }) = refused
        else {
            panic!("{refused:?}");
        };
        assert_eq!((named, expected), (status, 18));
        assert_eq!((session.next, session.unanswered()), (17, None));
    }
}

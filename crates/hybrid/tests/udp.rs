//! Tests of a node over UDP, with valid and with malformed datagrams.

mod common;
mod served;

use common::*;
use lineside_fastpath::Range;
use lineside_hybrid::Code;
use lineside_journal::SimDisk;
use lineside_messages::hybrid::answer::Answered;
use lineside_messages::hybrid::proof::StateProof;
use lineside_messages::hybrid::request::{Body, Request, Sees, Version};
use lineside_messages::hybrid::signing::id_of;
use lineside_messages::hybrid::udp::{read_answer, write_request};
use lineside_wire::{DropReason, HYBRID_OP_ASK, NATIVE_REPLY_BIT, SERVICE_PORTS, Status};
use served::*;
use std::io::ErrorKind;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

#[test]
fn every_operation_works_by_datagram() {
    let served = serve(1);
    let mut member = asker(served.address(), 5);
    let first = placed(&member.set(b"a", Some(Version::ABSENT), b"one").unwrap());
    assert_eq!(first, Version { block: 1, index: 0 });
    let late = member.set(b"a", Some(Version::ABSENT), b"two").unwrap();
    assert_eq!(late.code(), Code::Conflict);
    for sees in [Sees::Local, Sees::Linearizable] {
        let Answered::Cells(cells) = member.get(sees, &[b"a", b"b"]).unwrap() else {
            panic!("no cells");
        };
        let cell = cells[0].as_ref().unwrap();
        assert_eq!(
            (cell.version, &cell.value[..], &cells[1]),
            (first, &b"one"[..], &None)
        );
    }
    let delete = member.signing().sign(Body::delete(b"a", Some(first))).unwrap();
    let deleted = placed(&member.write(&delete).unwrap());
    placed(&member.set(b"b", None, b"three").unwrap());
    let range = Body::Range {
        sees: Sees::Local,
        start: b"",
        stop: b"",
        limit: 1,
    };
    let Answered::Range { cells, more } = member.read(range).unwrap() else {
        panic!("no range");
    };
    assert_eq!((&cells[0].0[..], cells.len(), more), (&b"b"[..], 1, false));
    let mut page = |limit, before| match member
        .read(Body::History {
            key: b"a",
            limit,
            before,
        })
        .unwrap()
    {
        Answered::History { past, more } => (past, more),
        other => panic!("{other:?}"),
    };
    let (past, more) = page(10, None);
    assert!(!more);
    let (newest, more) = page(1, None);
    assert_eq!((&newest[..], more), (&past[..1], true));
    assert_eq!(page(1, Some(newest[0].version)), (past[1..].to_vec(), false));
    assert_eq!((past[0].version, &past[0].value), (deleted, &None));
    assert_eq!(
        (past[1].version, past[1].value.as_deref()),
        (first, Some(&b"one"[..]))
    );
    let outcome = Body::Outcome { id: id_of(&delete) };
    assert_eq!(placed(&member.read(outcome).unwrap()), deleted);
    let outcome = Body::Outcome { id: [0; 32] };
    assert_eq!(member.read(outcome).unwrap(), Answered::Refused(Code::Unknown));

    let Answered::Head(both) = member.read(Body::Head).unwrap() else {
        panic!("no head");
    };
    let (header, head) = *both;
    assert_eq!((header.hash(), header.number), (head.hash, 4));
    for (key, value) in [(&b"b"[..], Some(&b"three"[..])), (b"a", None)] {
        let Answered::Proof(proof) = member.read(Body::Prove { key }).unwrap() else {
            panic!("no proof");
        };
        let proof = StateProof::decode(&proof, value).unwrap();
        proof.check(&head.hash, key, value).unwrap();
    }
    let change = Body::Change {
        until_ms: u64::MAX,
        change: lineside_messages::hybrid::change::Change::SetQuorum { admins: 1 },
    };
    let mut admin = asker(served.address(), 1);
    let change = admin.signing().sign(change).unwrap();
    assert_eq!(admin.write(&change).unwrap().code(), Code::Recorded);
    let mut other = asker(served.address(), 6);
    let denied = other.get(Sees::Local, &[b"private/x"]).unwrap();
    assert_eq!(denied, Answered::Refused(Code::NotAllowed));
    let watch = other.read(Body::Watch { prefix: b"" }).unwrap();
    assert_eq!(watch, Answered::Refused(Code::TooLarge));
    assert_eq!((member.resent(), served.drops(DropReason::NotARequest)), (0, 0));
    let counts = served.datapath.counts();
    // A reply is counted after it was sent, so a client may receive it before it is counted.
    while counts.host_replies.load(Relaxed) < counts.received.load(Relaxed) {
        std::thread::yield_now();
    }
}

#[test]
fn a_resent_write_is_answered_again_and_a_resent_read_is_refused() {
    let disk = SimDisk::new(2);
    let served = ServedNode::new(start(disk.clone()), &[], 4096);
    let mut client = Client::new();
    let set = client.set(5, "a", None, "x");
    let datagram = write_request(3, &set, 0).unwrap();
    let socket = socket(served.address());
    let (id, first) = said(&asked(&socket, &datagram));
    assert_eq!((id, placed(&first).block), (3, 1));
    assert_eq!(said(&asked(&socket, &datagram)), (3, first.clone()));
    let get = write_request(4, &client.get(5, "a"), 1200).unwrap();
    assert_eq!(said(&asked(&socket, &get)).1.code(), Code::Done);
    assert_eq!(said(&asked(&socket, &get)).1, Answered::Refused(Code::NonceUsed));
    drop(served);
    let served = ServedNode::new(start(disk), &[], 4096);
    socket.connect(served.address()).unwrap();
    assert_eq!(said(&asked(&socket, &datagram)), (3, first));
    assert_eq!(served.node.status().height, 1);
}

#[test]
fn forged_requests_are_refused() {
    let served = serve(3);
    let mut client = Client::new();
    let request = Request {
        head: client.head(5),
        body: Body::set(b"a", None, b"x"),
    };
    let forged = sign_as(&member_key(6), request);
    let socket = socket(served.address());
    let ask = |request: &[u8]| said(&asked(&socket, &write_request(1, request, 0).unwrap())).1;
    assert_eq!(ask(&forged), Answered::Refused(Code::BadSignature));
    let good = client.set(5, "a", None, "x");
    for bit in (0..64 * 8).step_by(37) {
        let mut bytes = good.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let code = ask(&bytes).code();
        assert!([Code::BadSignature, Code::HighS].contains(&code), "{code:?}");
    }
    let long = [&good[..], &[0]].concat();
    assert_eq!(ask(&long), Answered::Refused(Code::Malformed));
    assert_eq!(served.node.status().height, 0);
    assert_eq!(ask(&good).code(), Code::Done);
    assert_eq!(
        served.node.status().verified,
        1 + 14 + 1,
        "malformed requests are not verified"
    );
}

#[test]
fn answers_are_longer_than_requests_only_for_trusted_sources() {
    let node = start(SimDisk::new(4));
    let mut client = Client::new();
    for (key, bytes) in [("short", 10), ("long", 700), ("longest", 5000)] {
        assert_eq!(
            code(&node, client.set(5, key, None, &"v".repeat(bytes))),
            Code::Done
        );
    }
    let untrusted = ServedNode::new(node, &[], 4096);
    let way = socket(untrusted.address());
    let mut get = |key: &str, padded: usize| {
        let datagram = write_request(1, &client.get(5, key), padded).unwrap();
        let reply = asked(&way, &datagram);
        assert!(reply.len() <= datagram.len());
        said(&reply).1
    };
    let refused = Answered::Refused(Code::TooLarge);
    // Number of bytes: header 16, head 3, count 2, flag 1, version 12, length 4, and the value.
    assert_eq!(get("long", 0), refused);
    assert_eq!(get("long", 737), refused);
    assert_eq!(get("long", 738).code(), Code::Done);
    assert_eq!(get("short", 0).code(), Code::Done);
    assert_eq!(get("longest", 1200), refused);
    let ServedNode { datapath, node } = untrusted;
    assert_eq!(datapath.counts().amplification.load(Relaxed), 0);
    drop(datapath);

    let node = Arc::into_inner(node).unwrap();
    let trusting = ServedNode::new(node, &Range::LOOPBACK, 4096);
    way.connect(trusting.address()).unwrap();
    let mut get = |key: &str| {
        let reply = asked(&way, &write_request(1, &client.get(5, key), 0).unwrap());
        (said(&reply).1.code(), reply.len())
    };
    assert_eq!(get("long"), (Code::Done, 738));
    assert_eq!(get("longest"), (Code::TooLarge, 19));
}

#[test]
fn random_datagrams_are_refused_or_dropped_without_harm() {
    let served = serve(5);
    let mut client = Client::new();
    let socket = socket(served.address());
    let good = write_request(1, &client.set(5, "a", None, "x"), 400).unwrap();
    let mut noise: Vec<Vec<u8>> = (0..good.len()).map(|bytes| good[..bytes].to_vec()).collect();
    for place in 0..18 {
        for byte in [0, 1, 0x7f, 0xff] {
            let mut bytes = good.clone();
            bytes[place] = byte;
            // Bytes 8 to 15 are the datagram's id: a datagram with another id is another valid request.
            if bytes != good && !(8..16).contains(&place) {
                noise.push(bytes);
            }
        }
    }
    let mut padded = good.clone();
    padded[399] = 1;
    noise.push(padded);
    noise.push(vec![0; 1452]);
    noise.push(vec![0; 1453]);
    let mut reply = [0; 2000];
    // Sends 50 datagrams at a time and waits for an answer after each group, so that no buffer overflows.
    for (id, few) in (10..).zip(noise.chunks(50)) {
        few.iter().for_each(|datagram| _ = socket.send(datagram).unwrap());
        let get = write_request(id, &client.get(5, "a"), 1200).unwrap();
        socket.send(&get).unwrap();
        loop {
            let bytes = socket.recv(&mut reply).unwrap();
            let Some((answered, status, body)) = read_answer(&reply[..bytes]) else {
                assert_ne!(
                    reply[3],
                    HYBRID_OP_ASK | NATIVE_REPLY_BIT,
                    "the reply to another operation"
                );
                assert_eq!(bytes, 16);
                continue;
            };
            if answered == id {
                assert_eq!(Answered::decode(body), Ok(Answered::Cells(vec![None])));
                break;
            }
            match status {
                // The changed length includes some of the padding in the request, so the request is malformed.
                Status::Ok => assert_eq!(Answered::decode(body), Ok(Answered::Refused(Code::Malformed))),
                status => assert!([Status::BadRequest, Status::UnsupportedVersion].contains(&status)),
            }
        }
    }
    let counts = served.datapath.counts();
    assert_eq!(counts.oversize.load(Relaxed), 1);
    assert_eq!(served.node.status().height, 0);
    served.settle();
}

#[test]
fn two_servers_do_not_answer_each_other_for_ever() {
    let (one, other) = (serve(6), serve(7));
    let way = UdpSocket::bind("127.0.0.1:0").unwrap();
    way.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let request = write_request(1, &Client::new().get(5, "a"), 1200).unwrap();
    way.send_to(&request, one.address()).unwrap();
    way.send_to(&request[..300], one.address()).unwrap();
    let (mut bytes, mut told) = ([0; 2000], 0);
    let ended = loop {
        match way.recv_from(&mut bytes) {
            Ok((length, from)) => {
                told += 1;
                assert!(told <= 2, "a server answered a reply");
                let to = if from == one.address() { &other } else { &one };
                way.send_to(&bytes[..length], to.address()).unwrap();
            }
            Err(error) => break error.kind(),
        }
    };
    assert!(matches!(ended, ErrorKind::WouldBlock | ErrorKind::TimedOut));
    assert_eq!((told, other.drops(DropReason::ReplyBit)), (2, 2));
    let mut reply = request.clone();
    reply[3] = HYBRID_OP_ASK | NATIVE_REPLY_BIT;
    way.send_to(&reply, one.address()).unwrap();
    assert!(way.recv_from(&mut bytes).is_err());
    assert_eq!(one.drops(DropReason::ReplyBit), 1);
}

#[test]
fn requests_from_the_port_of_a_service_are_not_answered() {
    let served = serve(8);
    let forgers = SERVICE_PORTS.map(|port| UdpSocket::bind(("127.0.0.1", port)));
    let forgers: Vec<UdpSocket> = forgers.into_iter().filter_map(Result::ok).collect();
    if forgers.is_empty() {
        return lineside_testkit::skipped("all services' ports are taken here");
    }
    let mut client = Client::new();
    for forger in &forgers {
        let set = write_request(1, &client.set(5, "a", None, "x"), 0).unwrap();
        forger.send_to(&set, served.address()).unwrap();
        forger.send_to(b"noise", served.address()).unwrap();
    }
    // One thread takes datagrams in order, so the earlier ones are counted when this request is answered.
    asker(served.address(), 6).get(Sees::Local, &[b"a"]).unwrap();
    assert_eq!(served.drops(DropReason::SourcePort), 2 * forgers.len() as u64);
    assert_eq!(served.node.status().height, 0);
    for forger in forgers {
        forger.set_nonblocking(true).unwrap();
        assert!(forger.recv(&mut [0; 100]).is_err(), "a forger got an answer");
    }
}

//! Tests with a simulated Bitcoin Core that replays transcripts, and with simulated nodes that send wrong data, do not
//! answer, disconnect, or send without end.

mod common;
mod fake;

use common::{ChainInMemory, until};
use fake::{Fake, Publisher, Reply, Request};
use lineside_bitcoin_node::{
    BlockHash, CredentialSources, Event, Feed, Follower, LessWork, Node, NodeError, NodeFault, NodeOptions,
    NoticedBy, Use, connect,
};
use lineside_util::hex::to_hex;
use std::time::{Duration, Instant};

/// Time limit of a call, for tests in which the node answers too late.
const SHORT: Duration = Duration::from_millis(300);

fn quick() -> NodeOptions {
    NodeOptions {
        poll_interval: Duration::from_millis(20),
        ..NodeOptions::default()
    }
}

fn node(fake: &Fake, options: &NodeOptions) -> Box<dyn Node> {
    // A user in the URL and a cookie file must not be given together.
    let user = match options.credentials.cookie_file {
        Some(_) => "",
        None => "user:password@",
    };
    let url = format!("bitcoind://{user}127.0.0.1:{}", fake.port);
    connect(&url.parse().unwrap(), options).unwrap()
}

fn hash(fake: &Fake, height: usize) -> BlockHash {
    BlockHash::of_block(&fake.block(height)).unwrap()
}

fn fault<T>(result: Result<T, NodeError>) -> NodeFault {
    match result {
        Ok(_) => panic!("it should fail"),
        Err(error) => {
            assert!(error.node.starts_with("bitcoind://127.0.0.1:"), "{error}");
            error.fault
        }
    }
}

const UNKNOWN: BlockHash = BlockHash([9; 32]);

#[test]
fn the_client_works_with_the_transcripts_with_and_without_rest() {
    for files in [&["core.txt"][..], &["core-bare.txt", "core.txt"]] {
        let fake = Fake::start(files, 1);
        let mut node = node(&fake, &quick());
        let info = node.info().unwrap();
        assert_eq!(
            (info.chain.as_str(), info.blocks, info.headers),
            ("regtest", 5, 5)
        );
        assert_eq!(
            (info.best, info.pruned, info.prune_height),
            (hash(&fake, 5), false, None)
        );
        let all: Vec<BlockHash> = (0..6).map(|height| hash(&fake, height)).collect();
        assert_eq!(node.hash_at(2).unwrap(), all[2]);
        assert_eq!(node.hashes(0, 6).unwrap(), all);
        assert_eq!(node.hashes(4, 3).unwrap(), all[4..]);
        assert!(matches!(
            fault(node.hash_at(6)),
            NodeFault::NoSuchHeight { height: 6 }
        ));

        let header = node.header(&all[2]).unwrap();
        assert_eq!((&header.raw[..], header.height), (&fake.block(2)[..80], Some(2)));
        assert_eq!(node.header(&all[3]).unwrap().height, None);
        assert_eq!(node.headers(&all[2..4]).unwrap()[1], fake.block(3)[..80]);
        assert!(matches!(
            fault(node.header(&UNKNOWN)),
            NodeFault::NoSuchBlock { .. }
        ));

        assert_eq!(node.block(&all[1]).unwrap(), fake.block(1));
        assert_eq!(node.block(&all[2]).unwrap(), fake.block(2));
        let is_get = |(method, path): &Request| method == "GET" && path.starts_with("/rest/block/");
        assert_eq!(
            fake.seen().iter().filter(|one| is_get(one)).count(),
            if files.len() == 1 { 2 } else { 0 }
        );
        if files.len() == 2 {
            assert!(matches!(
                fault(node.block(&all[4])),
                NodeFault::NotDownloaded { .. }
            ));
        }
        assert!(matches!(fault(node.block(&all[3])), NodeFault::Pruned { hash } if hash == all[3]));
        assert!(matches!(
            fault(node.block(&UNKNOWN)),
            NodeFault::NoSuchBlock { .. }
        ));
        assert_eq!(fake.connections(), 1, "the connection is kept open");
    }
}

#[test]
fn a_starting_node_and_refused_calls_have_their_own_errors() {
    let fake = Fake::start(&["core-starting.txt", "core.txt"], 1);
    let mut node = node(&fake, &quick());
    let starting = fault(node.info());
    assert!(
        matches!(&starting, NodeFault::WarmingUp { message } if message == "Verifying blocks…"),
        "{starting}"
    );
    assert!(starting.is_transient());
    let busy = fault(node.hash_at(2));
    assert!(
        matches!(&busy, NodeFault::Busy { message } if message == "Work queue depth exceeded"),
        "{busy}"
    );
    assert!(busy.is_transient());
    assert!(matches!(fault(node.hash_at(3)), NodeFault::Forbidden));
    assert!(matches!(
        fault(node.hash_at(4)),
        NodeFault::Rpc { code: -32603, .. }
    ));
    assert!(matches!(
        fault(node.hash_at(5)),
        NodeFault::Http { status: 302, .. }
    ));
}

#[test]
fn a_new_cookie_is_read_when_the_old_one_is_refused() {
    let fake = Fake::start(&["core.txt"], 1);
    let folder = tempfile::tempdir().unwrap();
    let cookie = folder.path().join(".cookie");
    let options = NodeOptions {
        credentials: CredentialSources {
            cookie_file: Some(cookie.clone()),
            ..CredentialSources::default()
        },
        ..quick()
    };
    let mut node = node(&fake, &options);
    let absent = fault(node.hash_at(2));
    assert!(
        absent.is_transient() && absent.to_string().contains("start the node"),
        "{absent}"
    );
    assert!(matches!(absent, NodeFault::NoCookie { path } if path == cookie));
    for (number, text) in ["__cookie__:00aa", "__cookie__:00bb", "__cookie__:00cc"]
        .iter()
        .enumerate()
    {
        fake.require(text);
        let refused = node.hash_at(2);
        if number > 0 {
            // The file still has the cookie of the node's previous start.
            assert!(matches!(fault(refused), NodeFault::Unauthorized));
        }
        std::fs::write(&cookie, text).unwrap();
        assert_eq!(node.hash_at(2).unwrap(), hash(&fake, 2), "{number}");
    }
}

/// Requests a block from a node that answers every request for a block with `reply`, and returns the fault. Then checks
/// that a second request succeeds after the node has become correct.
fn block_from(reply: impl Fn(&Fake) -> Reply, options: &NodeOptions) -> NodeFault {
    let fake = Fake::start(&["core-bare.txt", "core.txt"], 1);
    let mut node = node(&fake, options);
    let reply = reply(&fake);
    fake.trick(move |(method, _)| (method == "getblock").then(|| reply.clone()));
    let asked = hash(&fake, 2);
    let start = Instant::now();
    let fault = fault(node.block(&asked));
    assert!(
        start.elapsed() < Duration::from_secs(20),
        "{fault}: {:?}",
        start.elapsed()
    );
    fake.trick(|_| None);
    assert_eq!(
        node.block(&asked).unwrap(),
        fake.block(2),
        "a good answer after {fault}"
    );
    fault
}

fn json(result: &str) -> Reply {
    Reply::Whole(
        200,
        format!(r#"{{"result":{result},"error":null,"id":2}}"#).into(),
    )
}

#[test]
fn wrong_answers_to_a_request_for_a_block_have_their_own_errors() {
    let options = quick();
    // The request for the block is the second RPC call: the first one requests the node's optional interfaces.
    let of = |fake: &Fake, height| format!("\"{}\"", to_hex(&fake.block(height)));
    let found = block_from(|fake| json(&of(fake, 3)), &options);
    assert!(
        matches!(found, NodeFault::WrongBlock { .. }) && found.is_lie(),
        "{found}"
    );
    let wrong_number = block_from(
        |fake| {
            Reply::Whole(
                200,
                format!(r#"{{"result":{},"error":null,"id":99}}"#, of(fake, 2)).into(),
            )
        },
        &options,
    );
    assert!(
        matches!(wrong_number, NodeFault::Malformed { .. }),
        "{wrong_number}"
    );
    for body in [
        "",
        "{",
        "[]",
        "<html>",
        r#"{"result":"00","error":null,"id":2}"#,
        r#"{"result":"0","error":null,"id":2}"#,
        r#"{"result":"zz","error":null,"id":2}"#,
        r#"{"result":null,"error":null,"id":2}"#,
        r#"{"result":{"a":[1]},"error":null,"id":2}"#,
        r#"{"result":null,"error":"x","id":2}"#,
        "\u{0}\u{1}",
    ] {
        let found = block_from(|_| Reply::Whole(200, body.into()), &options);
        assert!(matches!(found, NodeFault::Malformed { .. }), "{body}: {found}");
    }
    let deep = "[".repeat(1 << 20);
    let found = block_from(|_| Reply::Whole(200, deep.clone().into()), &options);
    assert!(matches!(found, NodeFault::Malformed { .. }), "{found}");
}

#[test]
fn an_endless_answer_ends_with_an_error() {
    let options = quick();
    let announced = b"HTTP/1.1 200 OK\r\nContent-Length: 1099511627776\r\n\r\n{".to_vec();
    let found = block_from(|_| Reply::Cut(announced.clone()), &options);
    assert!(matches!(found, NodeFault::TooLarge { .. }), "{found}");
    let found = block_from(|_| Reply::Endless, &options);
    assert!(
        matches!(found, NodeFault::TooLarge { limit_bytes, .. } if limit_bytes < 9_000_000),
        "{found}"
    );
    let long = format!("\"{}\"", "00".repeat(4_000_001));
    let found = block_from(|_| json(&long), &options);
    assert!(
        matches!(found, NodeFault::TooLarge { .. } | NodeFault::WrongBlock { .. }),
        "{found}"
    );
    let headers = [
        &b"HTTP/1.1 200 OK\r\n"[..],
        "X-Filler: aaaaaaaaaaaaaaaaaaaaaaaa\r\n"
            .repeat(100_000)
            .as_bytes(),
    ]
    .concat();
    let found = block_from(|_| Reply::Cut(headers.clone()), &options);
    assert!(matches!(found, NodeFault::Lost { .. }), "{found}");
}

#[test]
fn a_call_over_a_broken_or_very_slow_connection_ends_in_time() {
    let options = NodeOptions {
        call_timeout: SHORT,
        block_timeout: SHORT,
        ..quick()
    };
    let whole = |fake: &Fake| {
        let body = format!(r#"{{"result":"{}","error":null,"id":2}}"#, to_hex(&fake.block(2)));
        format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    for bytes in [0, 1, 20, 60, 200] {
        let found = block_from(|fake| Reply::Cut(whole(fake)[..bytes].to_vec()), &options);
        assert!(
            matches!(found, NodeFault::Lost { call: "getblock", .. }) && found.is_transient(),
            "{bytes}: {found}"
        );
    }
    let found = block_from(
        |fake| Reply::Drip(whole(fake), Duration::from_millis(20)),
        &options,
    );
    assert!(
        matches!(found, NodeFault::TimedOut { after: SHORT, .. }),
        "{found}"
    );
}

#[test]
fn a_connection_that_the_node_closed_while_idle_is_opened_again() {
    let fake = Fake::start(&["core.txt"], 1);
    let mut node = node(&fake, &quick());
    for round in 1..4 {
        assert!(node.hash_at(2).is_ok() && node.hash_at(3).is_ok());
        assert_eq!(fake.connections(), round);
        fake.close_all();
    }
    drop(fake);
    let gone = fault(node.hash_at(2));
    assert!(gone.is_transient(), "{gone}");
}

#[test]
fn a_node_of_another_network_is_refused_before_any_block_is_connected() {
    let fake = Fake::start(&["core.txt"], 1);
    let mut feed = Feed::new(node(&fake, &quick()), Follower::new(UNKNOWN, LessWork::Refuse));
    match feed.next(&ChainInMemory::default(), Duration::ZERO) {
        Event::Away { error, .. } => {
            assert!(error.fault.is_lie(), "{error}");
            let NodeFault::OtherNetwork { expected, found } = error.fault else {
                panic!("{error}")
            };
            assert_eq!((expected, found), (UNKNOWN, hash(&fake, 0)));
        }
        other => panic!("{other:?}"),
    }
    assert!(!fake.seen().iter().any(|(method, _)| method == "getblock"));
}

// ---- ZMQ ----

/// Returns options with long intervals between polls, so that a block can be noticed in time only by ZMQ, or by the
/// first request of a wait.
fn patient() -> NodeOptions {
    NodeOptions {
        poll_interval: Duration::from_secs(600),
        backup_poll_interval: Duration::from_secs(600),
        ..NodeOptions::default()
    }
}

#[test]
fn a_block_is_announced_by_zmq() {
    let publisher = Publisher::start(None);
    let fake = Fake::start(&["core.txt"], publisher.port);
    let mut node = node(&fake, &patient());
    let (best, new) = (hash(&fake, 5), BlockHash([7; 32]));
    assert_eq!(node.wait_for_change(&best, Duration::ZERO).unwrap(), None);
    until("the subscription", || {
        (publisher.subscribers() == 1).then_some(())
    });
    // Announce the known block and a transaction, send a PING, and announce a new block.
    publisher.announce(best.0);
    publisher.send(b"\x01\x06hashtx\x01\x01x\x00\x04\x01\0\0\0\x04\x07\x04PING\0\x09");
    publisher.announce(new.0);
    let announced = node
        .wait_for_change(&best, Duration::from_secs(60))
        .unwrap()
        .unwrap();
    assert_eq!((announced.hash, announced.noticed_by), (new, NoticedBy::Zmq));
    // Three notifications that arrive together give one announcement.
    publisher.announce_times([8; 32], 3);
    assert!(
        node.wait_for_change(&best, Duration::from_secs(60))
            .unwrap()
            .is_some()
    );
    assert_eq!(
        node.wait_for_change(&best, Duration::from_millis(50)).unwrap(),
        None
    );
}

#[test]
fn without_a_usable_publisher_the_node_is_polled() {
    let garbage = Some(b"HTTP/1.1 400 Bad Request\r\n\r\n".repeat(10));
    let oversize = {
        let mut bytes = lineside_bitcoin_node::zmq::opening(&[]);
        bytes.extend_from_slice(&[2, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]);
        Some(bytes)
    };
    for greeting in [garbage, oversize, Some(Vec::new())] {
        let publisher = Publisher::start(greeting);
        let fake = Fake::start(&["core.txt"], publisher.port);
        let options = NodeOptions {
            call_timeout: SHORT,
            ..quick()
        };
        let mut node = node(&fake, &options);
        let announced = node
            .wait_for_change(&UNKNOWN, Duration::from_secs(60))
            .unwrap()
            .unwrap();
        assert_eq!(
            (announced.hash, announced.noticed_by),
            (hash(&fake, 5), NoticedBy::Poll)
        );
        assert_eq!(
            node.wait_for_change(&hash(&fake, 5), Duration::from_millis(100))
                .unwrap(),
            None
        );
    }
}

#[test]
fn after_the_publisher_was_lost_the_subscription_is_renewed() {
    let publisher = Publisher::start(None);
    let fake = Fake::start(&["core.txt"], publisher.port);
    let mut node = node(&fake, &quick());
    let best = hash(&fake, 5);
    assert_eq!(node.wait_for_change(&best, Duration::ZERO).unwrap(), None);
    until("the subscription", || {
        (publisher.subscribers() == 1).then_some(())
    });
    publisher.drop_all();
    until("the second subscription", || {
        assert_eq!(
            node.wait_for_change(&best, Duration::from_millis(100)).unwrap(),
            None
        );
        (publisher.subscribers() == 1).then_some(())
    });
    publisher.announce([7; 32]);
    let announced = node
        .wait_for_change(&best, Duration::from_secs(60))
        .unwrap()
        .unwrap();
    assert_eq!(announced.noticed_by, NoticedBy::Zmq);
}

#[test]
fn an_interface_that_the_options_disable_is_not_used() {
    let fake = Fake::start(&["core.txt"], 1);
    let options = NodeOptions {
        notifications: Use::Never,
        rest: Use::Never,
        ..quick()
    };
    let mut node = node(&fake, &options);
    node.block(&hash(&fake, 2)).unwrap();
    assert!(node.wait_for_change(&UNKNOWN, Duration::ZERO).unwrap().is_some());
    let methods: Vec<String> = fake.seen().into_iter().map(|(method, _)| method).collect();
    assert_eq!(methods, ["getblock", "getbestblockhash"]);
}

#[test]
fn an_unreachable_node_is_contacted_again_after_pauses() {
    let fake = Fake::start(&["core-bare.txt", "core.txt"], 1);
    let mut feed = Feed::new(
        node(&fake, &quick()),
        Follower::new(hash(&fake, 0), LessWork::Refuse),
    );
    let mut local = ChainInMemory::default();
    let body = format!(
        "{{\"result\":null,\"error\":{{\"code\":{},\"message\":\"Loading\"}},\"id\":1}}",
        -28
    );
    fake.trick(move |_| Some(Reply::Whole(500, body.clone().into())));
    let mut pauses = Vec::new();
    while pauses.len() < 3 {
        match feed.next(&local, Duration::from_millis(10)) {
            Event::Away { error, pause } => {
                assert!(matches!(error.fault, NodeFault::WarmingUp { .. }), "{error}");
                pauses.push((pause, fake.seen().len()));
            }
            Event::Pausing => assert_eq!(pauses.last().map(|(_, seen)| *seen), Some(fake.seen().len())),
            other => panic!("{other:?}"),
        }
    }
    assert!(pauses[2].0 >= Duration::from_millis(500), "{pauses:?}");
    fake.trick(|_| None);
    let connected = until("the first block", || {
        match feed.next(&local, Duration::from_secs(1)) {
            Event::Step(step) => Some(step),
            Event::Pausing => None,
            other => panic!("{other:?}"),
        }
    });
    local.apply(&connected);
    assert_eq!(local.hashes(), [hash(&fake, 0)]);
}

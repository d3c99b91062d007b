//! Tests of calls to a node that never answers, which another thread interrupts: by RPC, REST, ZMQ and web socket.

mod common;
mod fake;

use common::{WAIT_TIMEOUT, until};
use fake::{Fake, Publisher, Reply};
use lineside_bitcoin_node::{BlockHash, Node, NodeError, NodeFault, NodeOptions, connect};
use std::io::Read;
use std::net::TcpListener;
use std::sync::mpsc;
use std::time::Duration;

/// Time limit of every call, much longer than [`WAIT_TIMEOUT`]: a call that ends within `WAIT_TIMEOUT` was interrupted.
const LIMIT: Duration = Duration::from_secs(3600);

fn node(url: &str) -> Box<dyn Node> {
    let options = NodeOptions {
        call_timeout: LIMIT,
        block_timeout: LIMIT,
        ..NodeOptions::default()
    };
    connect(&url.parse().unwrap(), &options).unwrap()
}

/// Runs `call` in its own thread, and interrupts it when `is_waiting` returns true. Checks that the call then ends, and
/// that a second call ends at once.
fn interrupted<T: 'static>(
    mut node: Box<dyn Node>,
    call: impl Fn(&mut dyn Node) -> Result<T, NodeError> + Send + 'static,
    is_waiting: impl Fn() -> bool,
) {
    let interrupter = node.interrupter();
    let (ended, end) = mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..2 {
            let fault = call(&mut *node).err().map(|error| error.fault);
            let _ = ended.send(matches!(fault, Some(NodeFault::Interrupted)));
        }
    });
    until("the call", || is_waiting().then_some(()));
    assert!(end.try_recv().is_err(), "the call waits for the node");
    interrupter.interrupt();
    assert!(end.recv_timeout(WAIT_TIMEOUT).expect("the call ends"));
    assert!(end.recv_timeout(WAIT_TIMEOUT).expect("the next call ends"));
}

#[test]
fn an_interrupt_ends_a_call_by_rpc() {
    let fake = Fake::start(&["core.txt"], 1);
    fake.trick(|_| Some(Reply::Silence));
    let url = format!("bitcoind://u:p@127.0.0.1:{}", fake.port);
    interrupted(node(&url), |node| node.info(), || !fake.seen().is_empty());
}

#[test]
fn an_interrupt_ends_a_block_request_by_rest() {
    let fake = Fake::start(&["core.txt"], 1);
    fake.trick(|(method, path)| (method == "GET" && path.contains("/block/")).then_some(Reply::Silence));
    let block = BlockHash::of_block(&fake.block(2)).unwrap();
    let url = format!("bitcoind://u:p@127.0.0.1:{}", fake.port);
    let asked = || fake.seen().iter().any(|(_, path)| path.contains("/block/"));
    interrupted(node(&url), move |node| node.block(&block), asked);
}

#[test]
fn an_interrupt_ends_a_subscription_by_zmq() {
    let publisher = Publisher::start(Some(Vec::new()));
    let fake = Fake::start(&["core.txt"], publisher.port);
    let url = format!("bitcoind://u:p@127.0.0.1:{}", fake.port);
    let wait = |node: &mut dyn Node| node.wait_for_change(&BlockHash([9; 32]), LIMIT);
    interrupted(node(&url), wait, || publisher.subscribers() == 1);
}

#[test]
fn an_interrupt_ends_a_wait_for_notifications() {
    let publisher = Publisher::start(None);
    let fake = Fake::start(&["core.txt"], publisher.port);
    let best = BlockHash::of_block(&fake.block(5)).unwrap();
    let url = format!("bitcoind://u:p@127.0.0.1:{}", fake.port);
    let asked = || fake.seen().iter().any(|(method, _)| method == "getbestblockhash");
    interrupted(node(&url), move |node| node.wait_for_change(&best, LIMIT), asked);
}

#[test]
fn an_interrupt_ends_the_handshake_of_a_web_socket() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("btcd+notls://u:p@{}", listener.local_addr().unwrap());
    let (sent, received) = mpsc::channel();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut first = [0; 16];
        stream.read_exact(&mut first).unwrap();
        sent.send(first).unwrap();
        // The server never answers; it waits until the client closes the connection.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let is_waiting = || {
        received
            .try_recv()
            .is_ok_and(|first| first.starts_with(b"GET /ws"))
    };
    interrupted(node(&url), |node| node.info(), is_waiting);
}

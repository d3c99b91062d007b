//! Tests of reorganisations: while an answer is computed, and at random times with many clients.

mod common;

use common::{Block, Client, Hook, TestChain, is_proof, serve, wait_for};
use lineside_testkit::Random;
use serde_json::Value;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MERKLE: &str = "blockchain.transaction.get_merkle";

/// Replaces the last block while the next answer is computed.
fn replace_in(hook: &Mutex<Option<Hook>>) {
    *hook.lock().expect("a lock") = Some(Box::new(|chain| chain.replace(1, &[6])));
}

#[test]
fn an_answer_during_a_reorganisation_is_from_the_new_chain() {
    let chain = TestChain::new(1, &[1, 5, 4]);
    let server = serve(&chain, |_| {});
    let mut client = Client::connect(server.tcp().expect("TCP"));
    let merkle =
        |client: &mut Client, block: &Block| client.ask(MERKLE, &format!(r#"["{}",2]"#, block.txid(1)));

    // The chain changes while the tree is read.
    let old = chain.blocks()[2].clone();
    replace_in(&chain.in_txids);
    let reply = merkle(&mut client, &old);
    assert_eq!(
        reply["error"]["code"], 1,
        "a proof of a disconnected block: {reply}"
    );

    // The chain changes while a proof is computed from a cached tree.
    let old = chain.blocks()[2].clone();
    assert!(is_proof(
        &merkle(&mut client, &old)["result"],
        &old.txid(1),
        &old.header
    ));
    replace_in(&chain.in_hash_at);
    let reply = merkle(&mut client, &old);
    assert_eq!(
        reply["error"]["code"], 1,
        "a proof of a disconnected block: {reply}"
    );

    replace_in(&chain.in_hash_at);
    let reply = client.result("blockchain.transaction.id_from_pos", "[2,3]");
    assert_eq!(reply, chain.blocks()[2].txid(3).to_string());

    replace_in(&chain.in_headers);
    let reply = client.result("blockchain.block.headers", "[2,1]");
    assert_eq!(
        reply["hex"],
        lineside_util::hex::to_hex(&chain.blocks()[2].bytes())
    );

    // All replies of a batch belong to one chain: if the chain changes while the second reply is computed, the first
    // one is computed again.
    replace_in(&chain.in_headers);
    client.send(
        r#"[{"id":1,"method":"blockchain.transaction.id_from_pos","params":[2,3]},
            {"id":2,"method":"blockchain.block.headers","params":[2,1]}]"#
            .replace('\n', "")
            .as_str(),
    );
    let reply = client.receive();
    assert_eq!(reply[0]["result"], chain.blocks()[2].txid(3).to_string());
    assert!(server.counters().recomputed >= 4, "{:?}", server.counters());
}

#[test]
fn a_chain_that_changes_all_the_time_gives_an_error_and_no_wrong_answer() {
    let chain = TestChain::new(2, &[1, 5]);
    let server = serve(&chain, |_| {});
    let mut client = Client::connect(server.tcp().expect("TCP"));
    fn restless(chain: &TestChain) {
        *chain.in_headers.lock().expect("a lock") = Some(Box::new(restless));
        chain.replace(1, &[5]);
    }
    *chain.in_headers.lock().expect("a lock") = Some(Box::new(restless));
    let (code, message) = client.error("blockchain.block.headers", "[1,1]");
    assert!(
        code == 2 && message.contains("changes too often"),
        "{code} {message}"
    );
    *chain.in_headers.lock().expect("a lock") = None;
    assert_eq!(client.result("blockchain.block.headers", "[1,1]")["count"], 1);
}

/// Line that a client received, and the request that it answers.
enum Event {
    Merkle {
        height: usize,
        txid: [u8; 32],
        reply: Value,
    },
    Tip(Value),
}

impl Event {
    fn is_true_in(&self, blocks: &[Block]) -> bool {
        match self {
            Event::Tip(tip) => {
                let last = blocks.last().expect("a block");
                tip["height"] == blocks.len() - 1 && tip["hex"] == lineside_util::hex::to_hex(&last.bytes())
            }
            Event::Merkle { height, txid, reply } => {
                let block = blocks.get(*height);
                let position = block.and_then(|block| block.txids.iter().position(|other| other == txid));
                match (block, position, reply.get("result")) {
                    (Some(block), Some(position), Some(result)) => {
                        result["pos"] == position && is_proof(result, &block.txid(position), &block.header)
                    }
                    (Some(_), None, None) => reply["error"]["message"]
                        .as_str()
                        .is_some_and(|message| message.contains("not in block")),
                    (None, _, None) => reply["error"]["message"]
                        .as_str()
                        .is_some_and(|message| message.contains("out of range")),
                    _ => false,
                }
            }
        }
    }
}

/// Requests proofs of transactions of known states of the chain until `stop`, and then until the last tip was received.
fn watch(
    server: std::net::SocketAddr,
    seed: u64,
    states: &Mutex<Vec<Vec<Block>>>,
    stop: &AtomicBool,
    replies: &AtomicU64,
) -> Vec<Event> {
    let mut client = Client::connect(server);
    let mut random = Random(seed);
    let mut events = vec![Event::Tip(client.result("blockchain.headers.subscribe", "[]"))];
    loop {
        let is_last = stop.load(Ordering::SeqCst);
        let (height, txid) = {
            let states = states.lock().expect("a lock");
            let newest = states.len() - 1;
            let state = &states[newest - random.index(4.min(states.len()))];
            let height = state.len() - 1 - random.index(3.min(state.len()));
            (height, *random.pick(&state[height].txids))
        };
        let shown = lineside_util::hex::to_display(&txid);
        client.send(&format!(
            r#"{{"id":1,"method":"{MERKLE}","params":["{shown}",{height}]}}"#
        ));
        loop {
            let mut line = client.receive();
            if line.get("method").is_some() {
                events.push(Event::Tip(line["params"][0].take()));
                continue;
            }
            let reply = line;
            events.push(Event::Merkle { height, txid, reply });
            break;
        }
        replies.fetch_add(1, Ordering::SeqCst);
        let told = events.iter().rev().find(|event| matches!(event, Event::Tip(_)));
        let states = states.lock().expect("a lock");
        if is_last && told.is_some_and(|tip| tip.is_true_in(states.last().expect("a state"))) {
            return events;
        }
    }
}

/// Checks that the events of a connection belong to states of the chain in the order of these states, so that no event
/// about a disconnected block follows a newer tip.
fn assert_ordered(events: &[Event], states: &[Vec<Block>]) {
    let mut state = 0;
    for (number, event) in events.iter().enumerate() {
        let next = (state..states.len()).find(|state| event.is_true_in(&states[*state]));
        state = next.unwrap_or_else(|| panic!("event {number} is not true in any state from {state} on"));
    }
}

#[test]
fn no_answer_of_a_disconnected_block_follows_the_new_tip() {
    let chain = TestChain::new(3, &[1, 5, 4, 9, 3, 12]);
    // The cache holds a few trees, so some trees are built again.
    let server = serve(&chain, |config| config.limits.tree_bytes = 8 << 10);
    let address = server.tcp().expect("TCP");
    let states = Mutex::new(vec![chain.blocks()]);
    let (stop, replies) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut random = Random(4);
    let all: Vec<Vec<Event>> = std::thread::scope(|scope| {
        let (states, stop, replies) = (&states, &stop, &replies);
        let clients: Vec<_> = (0..6)
            .map(|seed| scope.spawn(move || watch(address, seed, states, stop, replies)))
            .collect();
        for change in 0..300u64 {
            let depth = random.index(4);
            let more = depth + random.index(3).max(usize::from(depth == 0));
            let blocks: Vec<usize> = (0..more.max(1)).map(|_| 1 + random.index(20)).collect();
            chain.replace(depth.min(chain.blocks().len() - 2), &blocks);
            states.lock().expect("a lock").push(chain.blocks());
            // Every second change waits for replies; the others follow the previous change immediately.
            let wanted = replies.load(Ordering::SeqCst) + change % 2 * 36;
            wait_for("replies between two changes", || {
                replies.load(Ordering::SeqCst) >= wanted
            });
        }
        stop.store(true, Ordering::SeqCst);
        clients
            .into_iter()
            .map(|client| client.join().expect("a client"))
            .collect()
    });
    let states = states.into_inner().expect("a lock");
    let proofs = all
        .iter()
        .flatten()
        .filter(|event| matches!(event, Event::Merkle { reply, .. } if reply.get("result").is_some()));
    assert!(proofs.count() > 200);
    for events in &all {
        assert!(
            events
                .iter()
                .filter(|event| matches!(event, Event::Tip(_)))
                .count()
                > 20
        );
        assert_ordered(events, &states);
    }
    // Checks that `assert_ordered` detects a wrong order: the first tip after the last one.
    let mut wrong: Vec<Event> = Vec::new();
    for tip in [states.last().expect("a state"), &states[0]] {
        let (height, hex) = (
            tip.len() - 1,
            lineside_util::hex::to_hex(&tip.last().expect("a block").bytes()),
        );
        wrong.push(Event::Tip(serde_json::json!({"height": height, "hex": hex})));
    }
    let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| assert_ordered(&wrong, &states)));
    assert!(seen.is_err());
}

#[test]
fn a_client_that_does_not_read_gets_only_the_newest_tip() {
    let chain = TestChain::new(5, &[1]);
    let server = serve(&chain, |_| {});
    let mut client = Client::connect(server.tcp().expect("TCP"));
    client.result("blockchain.headers.subscribe", "[]");
    for _ in 0..50 {
        chain.replace(0, &[1]);
    }
    let mut heights = Vec::new();
    while heights.last() != Some(&50) {
        heights.push(
            client.receive()["params"][0]["height"]
                .as_u64()
                .expect("a height"),
        );
    }
    assert!(heights.is_sorted() && heights.len() <= 50, "{heights:?}");
    assert_eq!(client.result("server.ping", "[]"), Value::Null);
}

//! Tests that transactions of many threads are serializable in the order of the ledger, and that each aborted
//! transaction had a real conflict.

mod common;

use common::*;
use lineside_hybrid::answer::Answer;
use lineside_hybrid::{Code, Node, Options};
use lineside_journal::SimDisk;
use lineside_messages::hybrid::request::{Body, Head, Nonce, Read, Request, Version, Write};
use std::collections::BTreeMap;

const THREADS: u64 = 6;
const TRANSACTIONS: u64 = 150;
const KEYS: u64 = 5;

/// A transaction as its client saw it: what it read, and its outcome.
struct SeenTx {
    reads: Vec<(String, Version)>,
    writes: Vec<(String, Option<String>)>,
    place: Version,
    code: Code,
}

fn head(client: &Client, member: u64, lane: u16, counter: u64) -> Head {
    Head {
        database: client.database,
        member,
        key: 0,
        nonce: Nonce { lane, counter },
        expiry_ms: lineside_messages::hybrid::signing::unix_ms() + 30_000,
    }
}

/// Makes transactions, each of which reads two keys and writes or deletes one of them. Each thread uses its own lane.
fn transact(node: &Node<SimDisk>, lane: u16) -> Vec<SeenTx> {
    let client = Client::new();
    let member = 5 + u64::from(lane) % 3;
    let mut counter = 0;
    let mut random = u64::from(lane) + 1;
    let mut next = |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut seen = Vec::new();
    for number in 0..TRANSACTIONS {
        let first = next(KEYS - 1);
        let keys = [
            format!("key {first}"),
            format!("key {}", first + 1 + next(KEYS - 1 - first)),
        ];
        counter += 1;
        let get = Request {
            head: head(&client, member, lane, counter),
            body: Body::Get {
                sees: Default::default(),
                keys: keys.iter().map(String::as_bytes).collect(),
            },
        };
        let Answer::Cells(cells) = one(node, sign_as(&member_key(member), get)) else {
            panic!("no cells");
        };
        let versions = cells
            .iter()
            .map(|cell| cell.as_ref().map_or(Version::ABSENT, |cell| cell.version));
        let reads: Vec<(String, Version)> = keys.iter().cloned().zip(versions).collect();
        let value = format!("{lane}.{number}");
        let deletes = next(4) == 0;
        let writes: Vec<(String, Option<String>)> = keys
            .iter()
            .zip([false, deletes])
            .map(|(key, deletes)| (key.clone(), (!deletes).then(|| value.clone())))
            .collect();
        counter += 1;
        let write = Request {
            head: head(&client, member, lane, counter),
            body: Body::Write {
                reads: reads
                    .iter()
                    .map(|(key, version)| Read {
                        key: key.as_bytes(),
                        version: *version,
                    })
                    .collect(),
                writes: writes
                    .iter()
                    .map(|(key, value)| Write {
                        key: key.as_bytes(),
                        value: value.as_ref().map(String::as_bytes),
                    })
                    .collect(),
            },
        };
        match one(node, sign_as(&member_key(member), write)) {
            Answer::Placed { code, version: place } => seen.push(SeenTx {
                reads,
                writes,
                place,
                code,
            }),
            other => panic!("{other:?}"),
        }
    }
    seen
}

#[test]
fn transactions_are_serializable_in_the_order_of_the_ledger() {
    let options = Options {
        block_requests: 5,
        ..Options::default()
    };
    let node = start_with(SimDisk::new(1), options);
    let mut all: Vec<SeenTx> = std::thread::scope(|scope| {
        let node = &node;
        let threads: Vec<_> = (0..THREADS)
            .map(|lane| scope.spawn(move || transact(node, lane as u16)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    all.sort_by_key(|seen| seen.place);
    assert!(
        all.windows(2).all(|pair| pair[0].place < pair[1].place),
        "each transaction has its own position in the ledger"
    );
    let mut model: BTreeMap<String, (Version, String)> = BTreeMap::new();
    let (mut committed, mut aborted) = (0, 0);
    for seen in all {
        let is_newest = |(key, version): &(String, Version)| {
            model.get(key).map_or(Version::ABSENT, |(version, _)| *version) == *version
        };
        let newest = seen.reads.iter().all(is_newest);
        match seen.code {
            Code::Done => {
                assert!(
                    newest,
                    "{:?} was executed although it read a version that was not the newest",
                    seen.place
                );
                committed += 1;
                for (key, value) in seen.writes {
                    match value {
                        Some(value) => model.insert(key, (seen.place, value)),
                        None => model.remove(&key),
                    };
                }
            }
            Code::Conflict => {
                assert!(
                    !newest,
                    "{:?} was aborted although it read the newest versions",
                    seen.place
                );
                aborted += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(
        committed > 100 && aborted > 10,
        "{committed} committed, {aborted} aborted"
    );
    let mut client = Client::again(1 << 20);
    for key in 0..KEYS {
        let key = format!("key {key}");
        assert_eq!(
            shown(&one(&node, client.get(8, &key))),
            model.get(&key).cloned(),
            "{key}"
        );
    }
}

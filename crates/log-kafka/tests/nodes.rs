//! Test of three nodes with a real broker. It stops nodes, cuts their power and deletes their ledgers; all nodes must
//! end with the same ledger, which contains every acknowledged write. `LINESIDE_HYBRID_TRANSACTIONS` sets the number of
//! transactions.

#![cfg(feature = "kafka")]

mod common;

use bytes::Bytes;
use common::*;
use lineside_hybrid::answer::Answer;
use lineside_hybrid::ledger::{LedgerError, LedgerItem, Writer, journal_options};
use lineside_hybrid::{Code, Node};
use lineside_journal::SimDisk;
use lineside_kafka_mini::Broker;
use lineside_messages::hybrid::block::Header;
use lineside_messages::hybrid::request::{Body, Version, Write};
use lineside_messages::hybrid::sign::transaction_id;
use std::collections::BTreeMap;
use std::time::Instant;

const BATCH: usize = 100;
const KEYS: u64 = 400;
const ROUNDS: usize = 10;

/// A write of a client, with its answer.
struct AnsweredWrite {
    request: Bytes,
    writes: Vec<(String, Option<String>)>,
    answer: Answer,
}

/// One client, which signs as one member and uses one node at a time.
struct Load {
    member: u64,
    client: Client,
    random: u64,
    told: Vec<AnsweredWrite>,
}

impl Load {
    fn new(member: u64) -> Load {
        Load {
            member,
            client: Client::new(),
            random: member,
            told: Vec::new(),
        }
    }

    fn below(&mut self, below: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % below
    }

    /// Makes a request: a set, deletion or transaction, or one that conflicts, is not allowed, is forged, or was sent
    /// before. Returns it with the keys and values that it writes.
    fn make(&mut self) -> (Bytes, Vec<(String, Option<String>)>) {
        let (key, kind) = (format!("key {:03}", self.below(KEYS)), self.below(100));
        let value = format!("{} of {}", self.random, self.member);
        let client = &mut self.client;
        match kind {
            0..60 => (
                client.set(self.member, &key, None, &value),
                vec![(key, Some(value))],
            ),
            60..70 => (
                client.sign(self.member, Body::delete(key.as_bytes(), None)),
                vec![(key, None)],
            ),
            70..80 => {
                let block = self.random % 50;
                let index = u32::from(block > 0);
                let version = Some(Version { block, index });
                (
                    client.set(self.member, &key, version, &value),
                    vec![(key, Some(value))],
                )
            }
            80..90 => {
                let other = format!("{key} and more");
                let write = |key| Write {
                    key,
                    value: Some(value.as_bytes()),
                };
                let writes = vec![write(key.as_bytes()), write(other.as_bytes())];
                let request = client.sign(
                    self.member,
                    Body::Write {
                        reads: vec![],
                        writes,
                    },
                );
                (request, vec![(key, Some(value.clone())), (other, Some(value))])
            }
            90..94 => (
                client.set(self.member, "shown/x", None, &value),
                vec![("shown/x".into(), Some(value))],
            ),
            94..97 => {
                let mut bytes = client.set(self.member, &key, None, &value).to_vec();
                bytes[20] ^= 1;
                (bytes.into(), vec![])
            }
            _ => match self.told.is_empty() {
                true => (
                    client.set(self.member, &key, None, &value),
                    vec![(key, Some(value))],
                ),
                false => {
                    let before = self.below(self.told.len().min(500) as u64) as usize + 1;
                    (self.told[self.told.len() - before].request.clone(), vec![])
                }
            },
        }
    }

    /// Sends requests to a node, and checks that another node shows the last acknowledged write.
    fn run(&mut self, node: &Node<SimDisk>, other: &Node<SimDisk>, transactions: usize) {
        for _ in 0..transactions.div_ceil(BATCH) {
            let made: Vec<_> = (0..BATCH).map(|_| self.make()).collect();
            let answers = node.ask(made.iter().map(|(request, _)| request.clone()).collect());
            for ((request, writes), answer) in made.into_iter().zip(answers) {
                self.told.push(AnsweredWrite {
                    request,
                    writes,
                    answer,
                });
            }
            let last = self.told.iter().rev().take(BATCH);
            let mut set = last.filter(|told| told.answer.code() == Code::Done && told.writes.len() == 1);
            let Some(told) = set.next() else { continue };
            let (key, at) = (told.writes[0].0.clone(), version_of(&told.answer));
            if self.below(10) == 0 && other.status().read_only.is_none() {
                let shown = read(other, &mut self.client, self.member, &key).map(|(version, _)| version);
                // Another client may have deleted the key in the meantime.
                assert!(
                    shown.is_none_or(|version| version >= at),
                    "{key}: read version {shown:?} after version {at:?} was acknowledged"
                );
            }
        }
    }
}

/// Returns the headers of all blocks of a ledger.
fn headers(disk: &SimDisk) -> Vec<Header> {
    let mut headers = Vec::new();
    let genesis = genesis().encode().unwrap();
    Writer::open(disk.clone(), journal_options(), &genesis, |found| {
        if let LedgerItem::Block(stored) = found {
            headers.push(stored.header);
        }
        Ok::<_, LedgerError>(())
    })
    .unwrap();
    headers
}

/// Disturbs a node or the broker while clients send requests.
fn disturb(round: usize, transactions: usize, broker: &mut Broker, disks: &[SimDisk]) {
    match round {
        2 | 7 => {
            broker.kill();
            broker.restart().unwrap();
        }
        // Cuts the power in the middle of the round: a block takes at least two operations of the disk.
        4 => disks[1].cut_at((transactions / ROUNDS / BATCH) as u64),
        _ => {}
    }
}

/// Replaces a node or its disk between two rounds of requests.
fn replace(round: usize, broker: &Broker, disks: &mut [SimDisk], nodes: &mut Vec<Node<SimDisk>>) {
    let place = round % 3;
    let node = nodes.remove(place);
    match round {
        // The power fails: data that was not synced to the disk is lost.
        4 | 6 => {
            drop(node);
            disks[place].power_cut();
        }
        3 | 8 => {
            node.stop();
            disks[place] = SimDisk::new(round as u64 + 100);
        }
        _ => node.stop(),
    }
    let begin = Instant::now();
    let node = join(broker, disks[place].clone(), place as u32 + 1);
    let mut client = Client::again(1_000_000 * round as u64);
    read(&node, &mut client, 8, "any");
    println!(
        "round {round}: node {} is at block {} after {:.1} s",
        place + 1,
        node.status().height,
        begin.elapsed().as_secs_f64()
    );
    nodes.insert(place, node);
}

#[test]
fn three_nodes_keep_one_ledger_while_any_part_is_killed() {
    let Some(mut broker) = broker() else { return };
    let transactions = std::env::var("LINESIDE_HYBRID_TRANSACTIONS").ok();
    let transactions: usize = transactions.map_or(12_000, |count| count.parse().unwrap());
    let mut disks: Vec<SimDisk> = (1..=3).map(SimDisk::new).collect();
    let mut nodes: Vec<_> = (1..=3)
        .zip(&disks)
        .map(|(node, disk)| join(&broker, disk.clone(), node))
        .collect();
    let weak = nodes[0].status().log_weaknesses;
    assert!(
        weak.iter().any(|weak| weak.starts_with("replication.factor = 1")),
        "{weak:?}"
    );
    let mut loads: Vec<Load> = (5..8).map(Load::new).collect();
    let begin = Instant::now();
    for round in 0..ROUNDS {
        std::thread::scope(|scope| {
            for (place, load) in loads.iter_mut().enumerate() {
                let (node, other) = (&nodes[(place + round) % 3], &nodes[(place + round + 1) % 3]);
                scope.spawn(move || load.run(node, other, transactions / ROUNDS / 3));
            }
            disturb(round, transactions, &mut broker, &disks);
        });
        replace(round, &broker, &mut disks, &mut nodes);
    }
    let seconds = begin.elapsed().as_secs_f64();
    let mut client = Client::again(100_000_000);
    let status = are_equal(&nodes, &mut client);
    println!(
        "{transactions} transactions in {} blocks, {seconds:.1} s",
        status.height
    );
    what_was_told_is_true(&nodes, &loads, &mut client);
    nodes.into_iter().for_each(Node::stop);
    let ledgers: Vec<_> = disks.iter().map(headers).collect();
    assert_eq!(ledgers[0].len() as u64, status.height);
    // Compares all headers, which contain state root, previous hash and position.
    assert!(ledgers.iter().all(|ledger| *ledger == ledgers[0]));
}

fn what_was_told_is_true(nodes: &[Node<SimDisk>], loads: &[Load], client: &mut Client) {
    let mut newest: BTreeMap<&str, (Version, Option<&str>)> = BTreeMap::new();
    let mut codes: BTreeMap<&str, u64> = BTreeMap::new();
    let mut places: BTreeMap<[u8; 32], Version> = BTreeMap::new();
    for told in loads.iter().flat_map(|load| &load.told) {
        let code = told.answer.code();
        *codes.entry(code.meaning()).or_default() += 1;
        let place = match code {
            Code::Done => Some(version_of(&told.answer)),
            Code::OutcomeUnknown => {
                let id = transaction_id(&told.request[64..]);
                match one(&nodes[0], client.sign(8, Body::Outcome { id })) {
                    Answer::Placed {
                        code: Code::Done,
                        version,
                    } => Some(version),
                    _ => None,
                }
            }
            _ => None,
        };
        let Some(place) = place else { continue };
        // The request took effect once, however often it was sent, to whatever node, and after whatever restart.
        let first = *places.entry(transaction_id(&told.request[64..])).or_insert(place);
        assert_eq!(first, place);
        for (key, value) in &told.writes {
            let entry = newest.entry(key).or_insert((place, value.as_deref()));
            if entry.0 <= place {
                *entry = (place, value.as_deref());
            }
        }
    }
    println!("{codes:?}");
    for node in nodes {
        for (key, (version, value)) in &newest {
            let found = shown(&one(node, client.get(8, key)));
            assert_eq!(found, value.map(|value| (*version, value.to_string())), "{key}");
        }
    }
}

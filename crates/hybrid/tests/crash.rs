//! Tests of power cuts, a failed disk and a full disk: no acknowledged write is lost, and the ledger is intact.

mod common;

use common::*;
use lineside_hybrid::audit::{self, audit};
use lineside_hybrid::{Code, Node, Options};
use lineside_journal::{Op, SimDisk};
use lineside_messages::hybrid::request::Version;
use std::collections::BTreeMap;

/// Options with small segments, so that a run fills many of them.
fn options() -> Options {
    Options {
        block_requests: 8,
        head_every: 5,
        verify_threads: 1,
        journal: common::small_segments(),
        ..Options::default()
    }
}

/// Knowledge of a client about a key: the last acknowledged value, and the values that it has sent since then without
/// an answer.
#[derive(Default)]
struct KnownValue {
    answered: Option<(Version, String)>,
    unknown: Vec<String>,
}

/// Sets keys until the disk is dead or `calls` calls were made. Returns true if every call was answered.
fn work(
    node: &Node<SimDisk>,
    client: &mut Client,
    known: &mut BTreeMap<String, KnownValue>,
    calls: u32,
) -> bool {
    for call in 0..calls {
        let keys: Vec<String> = (0..3)
            .map(|place| format!("key {}", (call * 3 + place) % 11))
            .collect();
        let values: Vec<String> = (0..3)
            .map(|place| format!("{call}.{place} of {}", known.len()))
            .collect();
        let requests = keys
            .iter()
            .zip(&values)
            .map(|(key, value)| client.set(5, key, None, value));
        let answers = node.ask(requests.collect());
        let mut all = true;
        for ((key, value), answer) in keys.into_iter().zip(values).zip(answers) {
            let known = known.entry(key).or_default();
            match answer.code() {
                Code::Done => {
                    *known = KnownValue {
                        answered: Some((version_of(&answer), value)),
                        unknown: vec![],
                    }
                }
                Code::OutcomeUnknown => {
                    known.unknown.push(value);
                    all = false;
                }
                Code::ReadOnly => all = false,
                other => panic!("{other:?}"),
            }
        }
        if !all {
            return false;
        }
    }
    true
}

fn compare(node: &Node<SimDisk>, client: &mut Client, known: &mut BTreeMap<String, KnownValue>) {
    for (key, known) in known {
        let found = shown(&one(node, client.get(6, key)));
        let as_answered = found == known.answered;
        let as_unknown = found
            .as_ref()
            .is_some_and(|(_, value)| known.unknown.contains(value));
        assert!(
            as_answered || as_unknown,
            "{key}: the node has {found:?}, but acknowledged {:?}",
            known.answered
        );
        *known = KnownValue {
            answered: found,
            unknown: vec![],
        };
    }
}

fn is_sound(disk: &SimDisk) {
    let found = audit(
        disk.clone(),
        audit::Options {
            threads: 1,
            ..Default::default()
        },
        |_| {},
    )
    .unwrap();
    assert_eq!(found.finding, None);
}

#[test]
fn answered_writes_survive_a_power_cut() {
    for seed in 0..12 {
        let disk = SimDisk::new(seed);
        let (mut client, mut known) = (Client::new(), BTreeMap::new());
        start_with(disk.clone(), options()).stop();
        for round in 0..4 {
            let node = start_with(disk.clone(), options());
            compare(&node, &mut client, &mut known);
            disk.cut_at(seed * 7 + round * 13 + 3);
            let all = work(&node, &mut client, &mut known, 60);
            assert_eq!(all, !disk.is_dead(), "seed {seed}, round {round}");
            drop(node);
            disk.power_cut();
        }
        let node = start_with(disk.clone(), options());
        compare(&node, &mut client, &mut known);
        node.stop();
        is_sound(&disk);
    }
}

#[test]
fn a_failed_sync_stops_writes_and_falsifies_no_answer() {
    for nth in 1..8 {
        let disk = SimDisk::new(nth);
        let (mut client, mut known) = (Client::new(), BTreeMap::new());
        let node = start_with(disk.clone(), options());
        assert!(work(&node, &mut client, &mut known, 5));
        disk.fail_nth(Op::SyncData, nth);
        assert!(!work(&node, &mut client, &mut known, 60));
        assert!(node.status().read_only.is_some());
        assert_eq!(code(&node, client.set(5, "later", None, "x")), Code::ReadOnly);
        assert_eq!(
            code(&node, client.get(5, "key 1")),
            Code::Done,
            "the node still answers reads"
        );
        node.stop();
        disk.power_cut();
        let node = start_with(disk.clone(), options());
        compare(&node, &mut client, &mut known);
        assert!(work(&node, &mut client, &mut known, 3));
        node.stop();
        is_sound(&disk);
    }
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room_again() {
    let disk = SimDisk::new(1);
    let mut client = Client::new();
    let node = start_with(disk.clone(), options());
    assert_eq!(code(&node, client.set(5, "a", None, "1")), Code::Done);
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    // Writes until the segment is full. The next write waits until the disk has room for a new segment.
    let (waits, answered) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let (node, client) = (&node, &mut client);
        scope.spawn(move || {
            for round in 0..200 {
                let code = code(
                    node,
                    client.set(5, &format!("key {round}"), None, &"v".repeat(500)),
                );
                waits.send((round, code)).unwrap();
            }
        });
        while node.status().read_only.is_none() {
            std::thread::yield_now();
        }
        disk.set_capacity_bytes(None);
        for (round, code) in answered {
            assert!([Code::Done, Code::ReadOnly].contains(&code), "{round}: {code:?}");
        }
    });
    assert_eq!(node.status().read_only, None);
    assert_eq!(code(&node, client.set(5, "b", None, "2")), Code::Done);
    node.stop();
    is_sound(&disk);
}

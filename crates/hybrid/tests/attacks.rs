//! Attacks of one member, one node or a bad disk on all others.

mod common;

use common::topic::*;
use common::*;
use lineside_hybrid::answer::Answer;
use lineside_hybrid::audit::{self, audit};
use lineside_hybrid::ledger::{RECORD_HEAD, journal_options};
use lineside_hybrid::{Code, Node, Options};
use lineside_journal::{Journal, Op, SimDisk};
use lineside_messages::hybrid::block::{Sender, SignedHead, head_message};
use lineside_messages::hybrid::change::Change;
use lineside_messages::hybrid::genesis::genesis_hash;
use lineside_messages::hybrid::request::Body;
use lineside_messages::hybrid::sign::transaction_id;
use lineside_messages::hybrid::signing::unix_ms;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

const LATER_MS: u64 = 2_000_000_000_000;

fn asks(client: &mut Client, admin: u64, change: Change<'_>) -> bytes::Bytes {
    client.sign(
        admin,
        Body::Change {
            until_ms: LATER_MS,
            change,
        },
    )
}

/// Options with small segments, so that a full disk has no room for a new segment after a few writes.
fn small() -> Options {
    Options {
        verify_threads: 1,
        head_every: 0,
        block_requests: 4,
        journal: common::small_segments(),
        ..Options::default()
    }
}

#[test]
fn one_admin_cannot_use_up_the_open_votes() {
    let (node, mut client) = (start(SimDisk::new(1)), Client::new());
    let senseless = |number: u16| Change::SetQuorum { admins: number };
    for number in 1..=16 {
        let vote = asks(&mut client, 3, senseless(number + 100));
        assert_eq!(code(&node, vote), Code::Recorded);
    }
    let one_more = asks(&mut client, 3, senseless(500));
    assert_eq!(code(&node, one_more), Code::TooManyVotes);
    // Admin 1 may still join votes of other admins. After the other admins have revoked admin 1, its votes no longer
    // count.
    let rule = Change::SetRule {
        prefix: b"x",
        member: 4,
        rights: rights(true, false),
    };
    assert_eq!(code(&node, asks(&mut client, 1, rule)), Code::Recorded);
    assert_eq!(code(&node, asks(&mut client, 3, rule)), Code::Done);
    let end = Change::RevokeMember { member: 3 };
    assert_eq!(code(&node, asks(&mut client, 1, end)), Code::Recorded);
    assert_eq!(code(&node, asks(&mut client, 2, end)), Code::Done);
    for number in 1..=16 {
        let vote = asks(&mut client, 1, senseless(number + 100));
        assert_eq!(
            code(&node, vote),
            Code::Recorded,
            "the vote of a revoked admin does not count"
        );
    }
}

#[test]
fn an_expired_change_gets_an_outcome() {
    let (node, mut client) = (start(SimDisk::new(1)), Client::new());
    let change = Change::RevokeMember { member: 8 };
    let late = client.sign(1, Body::Change { until_ms: 1, change });
    let answer = one(&node, late.clone());
    assert_eq!(answer.code(), Code::BadChange);
    let id = transaction_id(&late[64..]);
    assert_eq!(one(&node, client.sign(1, Body::Outcome { id })), answer);
    assert_eq!(one(&node, late), answer);
}

#[test]
fn requests_that_are_not_allowed_are_not_ordered() {
    let (node, mut client) = (start(SimDisk::new(1)), Client::new());
    for _ in 0..10 {
        assert_eq!(
            code(&node, client.set(6, "private/a", None, "x")),
            Code::NotAllowed
        );
    }
    assert_eq!(node.status().height, 0);
}

#[test]
fn a_repeated_request_gets_its_first_outcome_after_its_expiry() {
    static CLOCK_MS: AtomicU64 = AtomicU64::new(0);
    CLOCK_MS.store(unix_ms(), Ordering::Relaxed);
    let options = Options {
        clock: || CLOCK_MS.load(Ordering::Relaxed),
        ..Options::default()
    };
    let (node, mut client) = (start_with(SimDisk::new(1), options), Client::new());
    let set = client.set(5, "a", None, "x");
    let never = client.set(5, "a", None, "y");
    let done = one(&node, set.clone());
    assert_eq!(done.code(), Code::Done);
    CLOCK_MS.fetch_add(3_600_000, Ordering::Relaxed);
    assert_eq!(one(&node, set), done);
    assert_eq!(code(&node, never), Code::Expired);
}

#[test]
fn waiting_requests_are_limited_in_bytes() {
    let options = Options {
        waiting_bytes: 1 << 16,
        ..Options::default()
    };
    let (node, mut client) = (start_with(SimDisk::new(1), options), Client::new());
    let value = "v".repeat(1 << 14);
    let (send, receive) = mpsc::channel();
    // Each call has more requests than the limit, so that some are refused, however many requests the verifying thread
    // has taken by then.
    for round in 0..64 {
        let call = (0..3).map(|place| client.set(5, &format!("{round}.{place}"), None, &value));
        let send = send.clone();
        node.submit(call.collect(), move |answers| {
            send.send(answers.iter().map(Answer::code).collect::<Vec<_>>())
                .unwrap();
        });
    }
    drop(send);
    let codes: Vec<Code> = receive.iter().flatten().collect();
    assert_eq!(codes.len(), 64 * 3);
    assert!(
        codes.contains(&Code::Busy) && codes.contains(&Code::Done),
        "{codes:?}"
    );
    // A call that is longer than the whole limit is accepted if no other request waits.
    let call: Vec<_> = (0..8)
        .map(|place| client.set(6, &format!("long {place}"), None, &value))
        .collect();
    assert!(node.ask(call).iter().all(|answer| answer.code() == Code::Done));
}

/// Fills the disk, so that the next write waits for room on the disk.
fn full(disk: &SimDisk, node: &Node<SimDisk>, client: &mut Client) {
    disk.set_capacity_bytes(Some(disk.used_bytes()));
    let mut round = 0;
    while node.status().read_only.is_none() {
        node.submit(
            vec![client.set(5, &format!("key {round}"), None, &"v".repeat(1000))],
            |_| {},
        );
        round += 1;
        std::thread::yield_now();
    }
}

#[test]
fn proofs_do_not_stop_reads_while_the_disk_is_full_and_the_node_ends() {
    let (disk, mut client) = (SimDisk::new(1), Client::new());
    let node = start_with(disk.clone(), small());
    assert_eq!(code(&node, client.set(5, "a", None, "1")), Code::Done);
    full(&disk, &node, &mut client);
    for _ in 0..500 {
        assert_eq!(code(&node, client.sign(6, Body::Prove { key: b"a" })), Code::Busy);
    }
    assert_eq!(shown(&one(&node, client.get(6, "a"))).unwrap().1, "1");
    let (send, ended) = mpsc::channel();
    std::thread::spawn(move || {
        node.stop();
        send.send(()).unwrap();
    });
    ended
        .recv_timeout(Duration::from_secs(20))
        .expect("the node ends although the disk is full");
    disk.set_capacity_bytes(None);
    let node = start_with(disk, small());
    assert_eq!(shown(&one(&node, client.get(6, "a"))).unwrap().1, "1");
}

#[test]
fn no_proof_is_made_of_blocks_that_a_failed_disk_lost() {
    let (disk, mut client) = (SimDisk::new(1), Client::new());
    let node = start_with(disk.clone(), small());
    assert_eq!(code(&node, client.set(5, "a", None, "1")), Code::Done);
    disk.fail_nth(Op::SyncData, 1);
    assert_eq!(code(&node, client.set(5, "a", None, "2")), Code::OutcomeUnknown);
    assert_eq!(
        code(&node, client.sign(6, Body::Prove { key: b"a" })),
        Code::ReadOnly
    );
    assert_eq!(shown(&one(&node, client.get(6, "a"))).unwrap().1, "1");
}

fn audited(disk: &SimDisk, tip: Option<(u64, [u8; 32])>) -> Option<String> {
    let options = audit::Options {
        threads: 1,
        tip,
        ..audit::Options::default()
    };
    let found = audit(disk.clone(), options, |_| {}).unwrap();
    found.finding.map(|finding| finding.what)
}

#[test]
fn a_conflicting_head_in_the_ledger_is_reported_by_an_audit_and_after_a_restart() {
    for (number, what) in [
        (1, "another hash for block 1"),
        (7, "block 7, which is not in the ledger"),
    ] {
        let (disk, mut client) = (SimDisk::new(1), Client::new());
        let options = Options {
            head_every: 0,
            ..Options::default()
        };
        let node = start_with(disk.clone(), options.clone());
        assert_eq!(code(&node, client.set(5, "a", None, "1")), Code::Done);
        let hash = node.status().tip_hash;
        node.stop();
        let append = |head: SignedHead| {
            let (mut journal, _) = Journal::open(disk.clone(), journal_options()).unwrap();
            journal.append(RECORD_HEAD, &head.to_bytes()).unwrap();
            journal.commit().unwrap();
        };
        append(SignedHead::sign(&client.database, 2, 1, hash, &node_key(2)));
        assert_eq!(audited(&disk, None), None);
        assert_eq!(start_with(disk.clone(), options.clone()).status().read_only, None);
        append(SignedHead::sign(
            &client.database,
            2,
            number,
            [7; 32],
            &node_key(2),
        ));
        let found = audited(&disk, None).unwrap();
        assert!(found.contains(what), "{found}");
        let why = start_with(disk.clone(), options).status().read_only.unwrap();
        assert!(why.contains("node 2 has signed 0707"), "{why}");
    }
}

#[test]
fn a_head_is_accepted_once_and_only_from_its_own_current_node() {
    let topic = Topic::default();
    let (disk, mut client) = (SimDisk::new(1), Client::new());
    let quiet = Options {
        head_every: 0,
        ..options(1)
    };
    let node = start_on(&topic, disk, quiet);
    assert_eq!(code(&node, client.set(5, "a", None, "1")), Code::Done);
    let hash = node.status().tip_hash;
    let database = client.database;
    let post = |by: u32, head: SignedHead| {
        let sender = Sender {
            node: by,
            sequence: 0,
            time_ms: 1,
        };
        topic.write(head_message(&database, sender, &head, &node_key(by)));
    };
    let good = SignedHead::sign(&database, 2, 1, hash, &node_key(2));
    // The heads are: a valid head; the same head again; a head that another node sent; a head that its node has not
    // signed.
    for (by, head) in [
        (2, good),
        (2, good),
        (3, good),
        (3, SignedHead { node: 3, ..good }),
    ] {
        post(by, head);
    }
    read(&node, &mut client, "a");
    assert_eq!((node.status().skipped, node.status().read_only), (3, None));
    let revoke = Change::RevokeNode { node: 3 };
    assert_eq!(code(&node, asks(&mut client, 1, revoke)), Code::Recorded);
    assert_eq!(code(&node, asks(&mut client, 2, revoke)), Code::Done);
    post(3, SignedHead::sign(&database, 3, 1, [9; 32], &node_key(3)));
    read(&node, &mut client, "a");
    assert_eq!((node.status().skipped, node.status().read_only), (4, None));
    // A head for a block number for which the node has signed a head before, but with another hash.
    post(2, SignedHead::sign(&database, 2, 1, [8; 32], &node_key(2)));
    assert!(why_read_only(&node).contains("node 2 has signed 0808"));
}

#[test]
fn an_audit_compares_block_0_and_names_damage_in_the_genesis() {
    let disk = SimDisk::new(1);
    let node = start(disk.clone());
    let hash = node.status().tip_hash;
    node.stop();
    assert_eq!(audited(&disk, Some((0, hash))), None);
    assert!(audited(&disk, Some((0, [1; 32]))).unwrap().contains("genesis"));
    assert_ne!(hash, genesis_hash(&genesis().encode().unwrap()));
    let (mut client, node) = (Client::new(), start(disk.clone()));
    assert_eq!(code(&node, client.set(5, "a", None, "1")), Code::Done);
    node.stop();
    let name = format!("{:020}.log", 1);
    assert!(disk.rot(&name, 100, 0x20));
    let found = audited(&disk, None).unwrap();
    assert!(found.contains("CRC"), "{found}");
}

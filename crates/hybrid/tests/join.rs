//! Tests of nodes that begin with a snapshot: they compute the same blocks as all other nodes, and accept only a
//! snapshot whose block is attested by enough admins or given by the operator.

mod common;

use common::topic::*;
use common::*;
use lineside_hybrid::answer::Answer;
use lineside_hybrid::audit::{Audit, Options as AuditOptions, SnapshotBase, audit};
use lineside_hybrid::join::{JoinError, SnapshotSummary, Trust, join, take};
use lineside_hybrid::ledger::{RECORD_ATTESTATION, RECORD_SNAPSHOT, journal_options};
use lineside_hybrid::node::{StartError, embedded};
use lineside_hybrid::snapshot::SnapshotError;
use lineside_hybrid::{Code, Node, Options};
use lineside_journal::{Journal, Reader, SimDisk};
use lineside_messages::hybrid::attestation::{ATTESTATION_BYTES, Attestation, AttestationError};
use lineside_messages::hybrid::block::{HEADER_BYTES, Hash};
use lineside_messages::hybrid::change::Change;
use lineside_messages::hybrid::genesis::Genesis;
use lineside_messages::hybrid::request::Body;
use std::io::Cursor;
use std::sync::Arc;

fn genesis_bytes() -> Vec<u8> {
    genesis().encode().unwrap()
}

fn snapshot_of(disk: &SimDisk) -> (Vec<u8>, SnapshotSummary) {
    let mut bytes = Vec::new();
    let summary = take(disk.clone(), &genesis_bytes(), &mut bytes).unwrap();
    (bytes, summary)
}

fn join_with(disk: &SimDisk, snapshot: &[u8], trust: &Trust) -> Result<SnapshotSummary, JoinError> {
    join(
        disk.clone(),
        &genesis_bytes(),
        &mut Cursor::new(snapshot),
        trust,
        journal_options(),
    )
}

fn attestation(member: u64, summary: &SnapshotSummary) -> Attestation {
    let database = Client::new().database;
    Attestation::sign(
        &database,
        member,
        summary.number,
        summary.hash,
        &member_key(member),
    )
}

/// Signs an admin's vote for a change; it is valid for an hour.
fn vote(client: &mut Client, admin: u64, change: Change<'_>) -> bytes::Bytes {
    let until_ms = 2_000_000_000_000;
    client.sign(admin, Body::Change { until_ms, change })
}

/// Fills the state with entries of every kind: values, one of them deleted; lanes; a changed member; an open vote; a
/// changed rule; an added node.
fn fill(node: &Node<SimDisk>, client: &mut Client) {
    for number in 0..40 {
        let (key, value) = (format!("key {number}"), format!("value {number}"));
        let member = 4 + number % 5;
        assert_eq!(code(node, client.set(member, &key, None, &value)), Code::Done);
    }
    assert_eq!(
        code(node, client.sign(5, Body::delete(b"key 7", None))),
        Code::Done
    );
    let own_key = Change::AddKey {
        member: 6,
        number: 3,
        key: secret(b'x', 1).public(),
    };
    let until_ms = 2_000_000_000_000;
    let change = Body::Change {
        until_ms,
        change: own_key,
    };
    assert_eq!(code(node, client.sign(6, change)), Code::Done);
    let rule = Change::SetRule {
        prefix: b"late/",
        member: 7,
        rights: rights(true, true),
    };
    assert_eq!(code(node, vote(client, 1, rule)), Code::Recorded);
    assert_eq!(code(node, vote(client, 2, rule)), Code::Done);
    let add = Change::AddNode {
        node: 9,
        key: node_key(9).public(),
    };
    assert_eq!(code(node, vote(client, 2, add)), Code::Recorded);
    assert_eq!(code(node, vote(client, 3, add)), Code::Done);
    let open = Change::RevokeMember { member: 8 };
    assert_eq!(code(node, vote(client, 1, open)), Code::Recorded);
}

fn ledger() -> (SimDisk, Client) {
    let (disk, mut client) = (SimDisk::new(1), Client::new());
    let node = start(disk.clone());
    fill(&node, &mut client);
    node.stop();
    (disk, client)
}

fn audited(disk: &SimDisk) -> Audit {
    audited_to(disk, None)
}

fn audited_to(disk: &SimDisk, tip: Option<(u64, Hash)>) -> Audit {
    let options = AuditOptions {
        threads: 1,
        genesis: Some(genesis_bytes()),
        tip,
        ..AuditOptions::default()
    };
    audit(disk.clone(), options, |_| {}).unwrap()
}

#[test]
fn a_node_that_joins_from_a_snapshot_computes_the_same_blocks_as_the_others() {
    let topic = Topic::default();
    let (disk, mut client) = (SimDisk::new(1), Client::new());
    let first = start_on(&topic, disk.clone(), options(1));
    let replayed = client.set(5, "once", None, "x");
    let answer = one(&first, replayed.clone());
    fill(&first, &mut client);
    let old = one(&first, client.get(6, "key 3"));
    first.stop();
    let (snapshot, summary) = snapshot_of(&disk);
    let joined = SimDisk::new(2);
    let trust = Trust::Attestations(vec![attestation(1, &summary), attestation(3, &summary)]);
    assert_eq!(join_with(&joined, &snapshot, &trust).unwrap(), summary);

    let nodes = vec![
        start_on(&topic, disk, options(1)),
        start_on(&topic, joined.clone(), options(2)),
        start_on(&topic, SimDisk::new(3), options(3)),
    ];
    assert_eq!(are_equal(&nodes, &mut client).height, summary.number);
    let node = &nodes[1];
    assert_eq!(one(node, client.get(6, "key 3")), old);
    assert_eq!(shown(&one(node, client.get(6, "key 7"))), None);
    // A request from before the snapshot is not executed again, although the node does not know its outcome.
    assert_eq!(answer.code(), Code::Done);
    assert_eq!(code(node, replayed.clone()), Code::NonceUsed);
    assert_eq!(one(&nodes[0], replayed), answer);
    // The vote that was open in the snapshot continues, and its result counts.
    assert_eq!(
        code(node, vote(&mut client, 2, Change::RevokeMember { member: 8 })),
        Code::Done
    );
    assert_eq!(code(&nodes[2], client.set(8, "a", None, "x")), Code::Revoked);
    assert_eq!(code(node, client.set(6, "late/a", None, "x")), Code::NotAllowed);
    for round in 0..30 {
        let key = format!("key {}", round % 10);
        assert_eq!(
            code(&nodes[round % 3], client.set(7, &key, None, "new")),
            Code::Done
        );
    }
    let tip = are_equal(&nodes, &mut client);
    // The node's own history begins after the snapshot. Its proofs equal those of other nodes.
    let history = client.sign(
        6,
        Body::History {
            key: b"key 3",
            limit: 100,
            before: None,
        },
    );
    match one(node, history) {
        Answer::History { past, more } => assert_eq!((past.len(), more), (3, false), "{past:?}"),
        other => panic!("{other:?}"),
    }
    match one(node, client.sign(6, Body::Prove { key: b"key 20" })) {
        Answer::Proof(proof) => proof.check(&tip.tip_hash, b"key 20", Some(b"value 20")).unwrap(),
        other => panic!("{other:?}"),
    }
    drop(nodes);

    // The node restarts from its own ledger. The audit accepts this ledger with its attestations.
    let node = start_on(&topic, joined.clone(), options(2));
    assert_eq!(node.status().tip_hash, tip.tip_hash);
    node.stop();
    let found = audited(&joined);
    assert_eq!(found.finding, None);
    assert_eq!(found.tip, (tip.height, tip.tip_hash));
    assert_eq!(found.blocks, tip.height - summary.number);
    let by_attestations = SnapshotBase {
        number: summary.number,
        hash: summary.hash,
        by_attestations: true,
    };
    assert_eq!(found.base, Some(by_attestations));
    // A ledger that began with a snapshot gives the same snapshot as any other ledger.
    assert_eq!(snapshot_of(&joined).1.hash, tip.tip_hash);
}

#[test]
fn a_snapshot_that_does_not_match_its_block_is_refused() {
    let (disk, _) = ledger();
    let (snapshot, summary) = snapshot_of(&disk);
    let trust = Trust::Block(summary.number, summary.hash);
    assert_eq!(snapshot_of(&disk).0, snapshot, "one snapshot of one block");
    let refused = |bytes: &[u8]| join_with(&SimDisk::new(2), bytes, &trust).unwrap_err();
    // Changes every byte of the head, and some bytes of the entries, because checking the entries takes long.
    let head = 8 + 1 + HEADER_BYTES + 8;
    for byte in (0..head).chain((head..snapshot.len()).step_by(29)) {
        let mut changed = snapshot.clone();
        changed[byte] ^= 1 << (byte % 8);
        refused(&changed);
    }
    for length in (0..head).chain((head..snapshot.len()).step_by(53)) {
        refused(&snapshot[..length]);
    }
    refused(&[&snapshot[..], b"x"].concat());
    assert!(join_with(&SimDisk::new(2), &snapshot, &trust).is_ok());
    let of_another = Genesis {
        name: "another".into(),
        ..genesis()
    };
    let error = join(
        SimDisk::new(2),
        &of_another.encode().unwrap(),
        &mut Cursor::new(&snapshot),
        &trust,
        journal_options(),
    );
    assert!(matches!(
        error,
        Err(JoinError::Snapshot(SnapshotError::OtherDatabase))
    ));
    assert!(matches!(
        take(SimDisk::new(5), &genesis_bytes(), &mut Vec::new()),
        Err(JoinError::Snapshot(SnapshotError::Genesis))
    ));
}

#[test]
fn a_snapshot_is_trusted_only_by_a_quorum_of_genesis_admins_or_the_operator() {
    let (disk, _) = ledger();
    let (snapshot, summary) = snapshot_of(&disk);
    let believe = |trust: Trust| join_with(&SimDisk::new(2), &snapshot, &trust);
    let by_attestations =
        |attestations: &[Attestation]| match believe(Trust::Attestations(attestations.to_vec())) {
            Ok(_) => Ok(()),
            Err(JoinError::Attestations(error)) => Err(error),
            Err(other) => panic!("{other}"),
        };
    let of_next = SnapshotSummary {
        number: summary.number + 1,
        ..summary
    };
    let of_other = SnapshotSummary {
        hash: [7; 32],
        ..summary
    };
    assert_eq!(
        by_attestations(&[attestation(1, &summary), attestation(2, &summary)]),
        Ok(())
    );
    let too_few = |attestations| {
        Err(AttestationError::TooFew {
            attested: attestations,
            quorum: 2,
        })
    };
    assert_eq!(by_attestations(&[]), too_few(0));
    assert_eq!(by_attestations(&[attestation(1, &summary)]), too_few(1));
    assert_eq!(
        by_attestations(&[attestation(1, &summary), attestation(1, &summary)]),
        too_few(1)
    );
    assert_eq!(
        by_attestations(&[attestation(1, &summary), attestation(5, &summary)]),
        Err(AttestationError::NotAdmin(5))
    );
    assert_eq!(
        by_attestations(&[attestation(1, &of_next), attestation(2, &summary)]),
        Err(AttestationError::OtherBlock(1))
    );
    assert_eq!(
        by_attestations(&[attestation(1, &summary), attestation(2, &of_other)]),
        Err(AttestationError::OtherBlock(2))
    );
    // Three wrong attestations: signed with another member's key, for another database, and changed after signing.
    let database = Client::new().database;
    let forged = Attestation::sign(&database, 2, summary.number, summary.hash, &member_key(3));
    let elsewhere = Attestation::sign(&[1; 16], 2, summary.number, summary.hash, &member_key(2));
    for wrong in [forged, elsewhere] {
        assert_eq!(
            by_attestations(&[attestation(1, &summary), wrong]),
            Err(AttestationError::NotSigned(2))
        );
    }
    let good = attestation(2, &summary).to_bytes();
    for byte in 0..ATTESTATION_BYTES {
        let mut changed = good;
        changed[byte] ^= 4;
        assert!(by_attestations(&[attestation(1, &summary), Attestation::from_bytes(&changed)]).is_err());
    }
    for (number, hash) in [(summary.number, [7; 32]), (summary.number - 1, summary.hash)] {
        let error = believe(Trust::Block(number, hash)).unwrap_err();
        assert!(matches!(error, JoinError::OtherBlock { .. }), "{error}");
    }
}

#[test]
fn joining_does_not_touch_an_existing_ledger() {
    let (disk, _) = ledger();
    let (snapshot, summary) = snapshot_of(&disk);
    let trust = Trust::Block(summary.number, summary.hash);
    assert!(matches!(
        join_with(&disk, &snapshot, &trust),
        Err(JoinError::NotEmpty)
    ));
    assert_eq!(start(disk).status().tip_hash, summary.hash);
}

#[test]
fn an_interrupted_join_leaves_no_ledger_or_a_complete_one() {
    let (disk, _) = ledger();
    let (snapshot, summary) = snapshot_of(&disk);
    let trust = Trust::Attestations(vec![attestation(1, &summary), attestation(3, &summary)]);
    let mut outcomes = [0; 3];
    for step in 0..200 {
        let joined = SimDisk::new(step);
        joined.cut_at(step);
        let done = join_with(&joined, &snapshot, &trust).is_ok();
        joined.power_cut();
        let key = Arc::new(node_key(1));
        match Node::start(joined, &genesis_bytes(), key, Options::default(), embedded()) {
            Ok(node) if node.status().height == 0 => outcomes[0] += 1,
            Ok(node) => {
                assert_eq!(node.status().tip_hash, summary.hash);
                outcomes[1] += 1;
                if done {
                    break;
                }
                continue;
            }
            Err(StartError::Snapshot(SnapshotError::Short)) => outcomes[2] += 1,
            Err(other) => panic!("step {step}: {other}"),
        }
        assert!(
            !done,
            "step {step}: a join reported success, but the ledger is not complete"
        );
    }
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
}

#[test]
fn an_audit_finds_changes_in_a_snapshot_and_in_its_attestations() {
    let (disk, _) = ledger();
    let (snapshot, summary) = snapshot_of(&disk);
    let joined = SimDisk::new(2);
    let trust = Trust::Attestations(vec![attestation(1, &summary), attestation(3, &summary)]);
    join_with(&joined, &snapshot, &trust).unwrap();
    assert_eq!(audited(&joined).finding, None);
    assert_eq!(
        audited_to(&joined, Some((summary.number, summary.hash))).finding,
        None
    );
    // The audit compares a given hash, or reports that the ledger does not have the block.
    for (tip, what) in [
        ((summary.number, [7; 32]), "not have the hash that was given"),
        ((summary.number - 1, [7; 32]), "begins with a snapshot of block"),
        ((1, [7; 32]), "begins with a snapshot of block"),
        ((0, [7; 32]), "genesis does not have the hash"),
        ((summary.number + 1, [7; 32]), "ends before block"),
    ] {
        let finding = audited_to(&joined, Some(tip)).finding.unwrap();
        assert!(finding.what.contains(what), "{tip:?}: {finding:?}");
    }
    let reader = Reader::open(joined).unwrap();
    let (mut records, mut all) = (reader.records(1).unwrap(), Vec::new());
    while let Some(record) = records.next().unwrap() {
        all.push((record.kind, record.payload.to_vec()));
    }
    let kinds: Vec<u8> = all.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(
        kinds[1..],
        [RECORD_SNAPSHOT, RECORD_ATTESTATION, RECORD_ATTESTATION]
    );
    let written = |records: &[(u8, Vec<u8>)]| {
        let disk = SimDisk::new(9);
        let (mut journal, _) = Journal::open_or_create(disk.clone(), 7, journal_options()).unwrap();
        for (kind, payload) in records {
            journal.append(*kind, payload).unwrap();
        }
        journal.commit().unwrap();
        disk
    };
    for (number, (_, payload)) in all.iter().enumerate().skip(1) {
        for byte in (0..payload.len()).step_by(31) {
            let mut changed = all.clone();
            changed[number].1[byte] ^= 0x10;
            let found = audited(&written(&changed));
            assert!(found.finding.is_some(), "record {number}, byte {byte}");
        }
    }
    for wrong in [
        vec![0, 2, 1, 3],
        vec![0, 1, 2],
        vec![0, 1, 1],
        vec![0, 2, 3],
        vec![0, 1, 2, 3, 1],
    ] {
        let records: Vec<_> = wrong.iter().map(|place: &usize| all[*place].clone()).collect();
        assert!(audited(&written(&records)).finding.is_some(), "{wrong:?}");
    }
    // If the ledger has no attestations, an operator has vouched for the block.
    let by_nobody = audited(&written(&all[..2]));
    assert_eq!(by_nobody.finding, None);
    assert!(!by_nobody.base.unwrap().by_attestations);
}

#[test]
fn damage_in_the_middle_of_a_snapshot_is_reported_at_its_offset() {
    let (disk, mut client) = (SimDisk::new(1), Client::new());
    let node = start(disk.clone());
    let value = "v".repeat(100_000);
    for number in 0..12 {
        let set = client.set(5, &format!("key {number}"), None, &value);
        assert_eq!(code(&node, set), Code::Done);
    }
    node.stop();
    let (snapshot, summary) = snapshot_of(&disk);
    let joined = SimDisk::new(2);
    join_with(&joined, &snapshot, &Trust::Block(summary.number, summary.hash)).unwrap();
    let (file, offset) = {
        let reader = Reader::open(joined.clone()).unwrap();
        let mut records = reader.records(3).unwrap();
        let second = records.next().unwrap().unwrap();
        assert_eq!(second.kind, RECORD_SNAPSHOT);
        (format!("{:020}.log", second.segment), second.offset)
    };
    assert!(joined.rot(&file, offset + 1_000, 1));
    let known = lineside_journal::verify(&joined).unwrap().findings.remove(0);
    let finding = audited(&joined).finding.unwrap();
    assert_eq!((finding.file, finding.offset), (known.file, known.offset));
}

#[test]
fn a_node_follows_the_log_before_it_is_added_and_takes_writes_afterwards() {
    let topic = Topic::default();
    let mut client = Client::new();
    let first = start_on(&topic, SimDisk::new(1), options(1));
    assert_eq!(code(&first, client.set(5, "a", None, "x")), Code::Done);
    let follower = start_on(&topic, SimDisk::new(2), options(7));
    assert_eq!(read(&follower, &mut client, "a"), Some("x".into()));
    let why = follower.status().read_only.unwrap();
    assert_eq!(why, "node 7 is not a node of this database yet");
    assert_eq!(code(&follower, client.set(5, "a", None, "y")), Code::ReadOnly);
    let add = Change::AddNode {
        node: 7,
        key: node_key(7).public(),
    };
    assert_eq!(code(&first, vote(&mut client, 1, add)), Code::Recorded);
    assert_eq!(code(&first, vote(&mut client, 2, add)), Code::Done);
    assert_eq!(read(&follower, &mut client, "a"), Some("x".into()));
    assert_eq!(code(&follower, client.set(5, "a", None, "y")), Code::Done);
    assert_eq!(read(&first, &mut client, "a"), Some("y".into()));
    // A revoked node takes no more writes, and cannot be started again.
    let revoke = Change::RevokeNode { node: 7 };
    assert_eq!(code(&first, vote(&mut client, 1, revoke)), Code::Recorded);
    assert_eq!(code(&first, vote(&mut client, 2, revoke)), Code::Done);
    assert_eq!(read(&follower, &mut client, "a"), Some("y".into()));
    assert_eq!(code(&follower, client.set(5, "a", None, "z")), Code::ReadOnly);
}

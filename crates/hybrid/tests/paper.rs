//! Tests of a database in the paper's mode: which requests it accepts and refuses, which fields its signatures do not
//! cover, what limits replays, and that its ledger is re-executed and audited like any other.

mod common;

use common::topic::{Topic, options, start_of};
use common::{Client, code, genesis, member_key, node_key, one, rights, start, version_of};
use lineside_hybrid::answer::Answer;
use lineside_hybrid::audit::{self, audit};
use lineside_hybrid::execute::Chain;
use lineside_hybrid::ledger::{RECORD_BLOCK, StoredBlock, journal_options};
use lineside_hybrid::node::embedded;
use lineside_hybrid::signatures::CheckedMessage;
use lineside_hybrid::{Code, Node, Options};
use lineside_journal::{Journal, Reader, SimDisk};
use lineside_messages::hybrid::block::{HEADER_BYTES, Message, transactions_hash};
use lineside_messages::hybrid::change::{Change, KeyBytes};
use lineside_messages::hybrid::genesis::{FirstMember, Genesis, database_id};
use lineside_messages::hybrid::paper::{Body, Request, VERSION_MAX, read_cell, sign};
use lineside_messages::hybrid::proof::StateProof;
use lineside_messages::hybrid::request::{self, Version};
use lineside_messages::hybrid::secret::SecretKey;
use lineside_verify::Verifier;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn paper_genesis() -> Genesis {
    Genesis {
        paper: true,
        ..genesis()
    }
}

fn open(disk: SimDisk) -> Node<SimDisk> {
    let bytes = paper_genesis().encode().unwrap();
    Node::start(
        disk,
        &bytes,
        Arc::new(node_key(1)),
        Options::default(),
        embedded(),
    )
    .unwrap()
}

/// Creates a client of native requests to this database.
fn native() -> Client {
    let mut client = Client::new();
    client.database = database_id(&paper_genesis().encode().unwrap());
    client
}

/// Builds a request with the public key of `key` and the given signature.
fn with(key: &SecretKey, body: Body<'_>, signature: &[u8; 64]) -> bytes::Bytes {
    let public_key = key.public_key().unwrap().to_sec1_uncompressed();
    Request { public_key, body }.with(signature).unwrap().into()
}

fn signed(member: u64, body: Body<'_>) -> bytes::Bytes {
    let key = member_key(member);
    with(&key, body, &sign(&key, &body))
}

fn set<'a>(key: &'a str, value: &'a str, version: u64) -> Body<'a> {
    Body::Set { key, value, version }
}

fn get(node: &Node<SimDisk>, key: &str) -> Option<(u64, String)> {
    let Answer::Cells(cells) = one(node, signed(5, Body::Get { key })) else {
        panic!("no cells");
    };
    let (version, value) = read_cell(&cells[0].as_ref()?.value);
    Some((version, String::from_utf8(value.to_vec()).unwrap()))
}

fn has(node: &Node<SimDisk>, key: &str, version: u64, value: &str) {
    assert_eq!(get(node, key), Some((version, value.to_owned())));
}

#[test]
fn a_genesis_without_the_paper_mode_keeps_its_encoding() {
    let (plain, paper) = (genesis().encode().unwrap(), paper_genesis().encode().unwrap());
    assert_eq!((plain[8], paper[8]), (1, 2));
    assert_eq!(plain[9..], paper[9..]);
    assert_ne!(database_id(&plain), database_id(&paper));
    assert_eq!(Genesis::decode(&paper).unwrap(), paper_genesis());
    let mut other = plain;
    other[8] = 3;
    assert!(Genesis::decode(&other).is_err());
}

#[test]
fn a_set_takes_effect_unless_the_version_of_the_key_is_higher() {
    let node = open(SimDisk::new(1));
    assert!(node.status().paper);
    assert_eq!(get(&node, "a"), None);
    assert_eq!(code(&node, signed(5, set("a", "1", 0))), Code::Done);
    has(&node, "a", 1, "1");
    assert_eq!(code(&node, signed(6, set("a", "2", 0))), Code::OldVersion);
    assert_eq!(code(&node, signed(6, set("a", "2", 1))), Code::Done);
    has(&node, "a", 2, "2");
    // Versions may be skipped: only a version below the key's is refused.
    assert_eq!(code(&node, signed(6, set("a", "3", 40))), Code::Done);
    has(&node, "a", 41, "3");
    assert_eq!(code(&node, signed(6, set("a", "4", 39))), Code::OldVersion);
    assert_eq!(code(&node, signed(6, set("a", "last", VERSION_MAX))), Code::Done);
    assert_eq!(
        code(&node, signed(6, set("a", "more", VERSION_MAX))),
        Code::OldVersion
    );
    has(&node, "a", VERSION_MAX + 1, "last");
}

#[test]
fn every_refusal_has_its_code() {
    let node = open(SimDisk::new(2));
    let (five, six) = (member_key(5), member_key(6));
    let body = set("a", "1", 0);
    let good = sign(&five, &body);
    let mut wrong = good;
    wrong[40] ^= 1;
    assert_eq!(code(&node, with(&five, body, &wrong)), Code::BadSignature);
    assert_eq!(code(&node, with(&six, body, &good)), Code::BadSignature);
    assert_eq!(code(&node, with(&five, body, &[0; 64])), Code::BadSignature);
    let other = SecretKey::from_bytes(lineside_verify::Curve::Secp256k1, &[77; 32]).unwrap();
    assert_eq!(
        code(&node, with(&other, body, &sign(&other, &body))),
        Code::UnknownMember
    );
    // A member's P-256 key cannot sign such a request.
    let p256 = member_key(4);
    assert_eq!(
        code(&node, with(&p256, body, &sign(&p256, &body))),
        Code::UnknownMember
    );
    // The other point with the same x coordinate is another key.
    let mut public_key = five.public_key().unwrap().to_sec1_uncompressed();
    public_key[64] ^= 2;
    let request = Request { public_key, body }.with(&good).unwrap();
    assert_eq!(code(&node, request.into()), Code::UnknownMember);
    assert_eq!(code(&node, signed(6, set("private/x", "1", 0))), Code::NotAllowed);
    assert_eq!(
        code(&node, signed(6, Body::Get { key: "private/x" })),
        Code::NotAllowed
    );
    assert_eq!(
        code(&node, signed(6, Body::Verify { key: "private/x" })),
        Code::NotAllowed
    );
    assert_eq!(code(&node, signed(5, Body::Verify { key: "a" })), Code::Unknown);
    // Malformed encodings.
    let whole = signed(5, body);
    for cut in [0, 63, 64, 100, whole.len() - 1] {
        assert_eq!(code(&node, whole.slice(..cut)), Code::Malformed, "{cut}");
    }
    let longer = [&whole[..], b"x"].concat();
    assert_eq!(code(&node, longer.into()), Code::Malformed);
    // No refused variant counted as the request itself, so the node still executes the request.
    assert_eq!(code(&node, whole.clone()), Code::Done);
    // When the request is sent again, it gets its first outcome, although its version is now too low.
    let first = one(&node, whole.clone());
    assert_eq!(
        (first.code(), version_of(&first)),
        (Code::Done, Version { block: 2, index: 0 })
    );
    let revoke = request::Body::Change {
        until_ms: u64::MAX,
        change: Change::RevokeMember { member: 5 },
    };
    let mut native = native();
    assert_eq!(code(&node, native.sign(1, revoke.clone())), Code::Recorded);
    assert_eq!(code(&node, native.sign(2, revoke)), Code::Done);
    assert_eq!(code(&node, signed(5, set("a", "2", 1))), Code::Revoked);
    assert_eq!(code(&node, signed(5, Body::Get { key: "a" })), Code::Revoked);
}

#[test]
fn each_mode_refuses_requests_of_the_other_mode() {
    let plain = start(SimDisk::new(3));
    for body in [
        set("a", "1", 0),
        Body::Get { key: "a" },
        Body::Verify { key: "a" },
    ] {
        assert_eq!(code(&plain, signed(5, body)), Code::WrongMode);
    }
    assert_eq!((plain.status().height, plain.status().paper), (0, false));

    let node = open(SimDisk::new(3));
    let mut native = native();
    let key: &[u8] = b"a";
    let sees = Default::default();
    let refused = [
        request::Body::set(key, None, b"1"),
        request::Body::delete(key, None),
        request::Body::Get {
            sees,
            keys: vec![key],
        },
        request::Body::Range {
            sees,
            start: b"",
            stop: b"",
            limit: 1,
        },
        request::Body::History {
            key,
            limit: 1,
            before: None,
        },
        request::Body::Watch { prefix: b"" },
    ];
    for body in refused {
        let what = format!("{body:?}");
        assert_eq!(code(&node, native.sign(5, body)), Code::WrongMode, "{what}");
    }
    assert_eq!(node.status().height, 0);
    assert_eq!(code(&node, native.sign(5, request::Body::Head)), Code::Done);
}

#[test]
fn a_paper_signature_covers_the_concatenated_text_in_this_database_only() {
    let node = open(SimDisk::new(4));
    let key = member_key(5);
    let signature = sign(&key, &set("a", "bc", 1));
    assert_eq!(code(&node, with(&key, set("a", "bc", 1), &signature)), Code::Done);
    // No client has signed these requests, but the node accepts them.
    assert_eq!(code(&node, with(&key, set("ab", "c", 1), &signature)), Code::Done);
    has(&node, "ab", 2, "c");
    assert_eq!(
        code(&node, with(&key, Body::Get { key: "abc1" }, &signature)),
        Code::Done
    );
    // Anyone who has seen a signed read of a key that ends with a digit can turn it into a write.
    let read = sign(&key, &Body::Get { key: "user12" });
    assert_eq!(code(&node, with(&key, set("user", "", 12), &read)), Code::Done);
    assert_eq!(code(&node, with(&key, set("use", "r", 12), &read)), Code::Done);
    has(&node, "use", 13, "r");
    // A native request contains the length of each field, so its bytes can be read in only one way.
    let plain = start(SimDisk::new(4));
    let honest = Client::new().set(5, "a", None, "bc");
    assert_eq!(
        code(&plain, with(&key, set("ab", "c", 1), &signature)),
        Code::WrongMode
    );
    let mut cut_elsewhere = honest.to_vec();
    let text = cut_elsewhere
        .windows(3)
        .position(|window| window == b"\x01a\x00")
        .unwrap();
    cut_elsewhere[text] = 2;
    assert_ne!(code(&plain, cut_elsewhere.into()), Code::Done);
}

#[test]
fn replayed_sets_change_nothing_and_replayed_reads_are_answered() {
    let disk = SimDisk::new(5);
    let node = open(disk.clone());
    let first = signed(5, set("a", "old", 0));
    let jump = signed(5, set("a", "jumped", 9));
    assert_eq!(code(&node, first.clone()), Code::Done);
    assert_eq!(code(&node, jump.clone()), Code::Done);
    let read = signed(5, Body::Get { key: "a" });
    for _ in 0..3 {
        assert_eq!(code(&node, read.clone()), Code::Done);
        // The replayed requests get their first outcome, and are not executed again.
        assert_eq!(version_of(&one(&node, first.clone())).block, 1);
        assert_eq!(version_of(&one(&node, jump.clone())).block, 2);
    }
    // A request that was refused once for its version is always refused.
    let late = signed(6, set("a", "late", 3));
    assert_eq!(code(&node, late.clone()), Code::OldVersion);
    node.stop();
    let node = open(disk);
    has(&node, "a", 10, "jumped");
    assert_eq!(code(&node, late), Code::OldVersion);
    assert_eq!(version_of(&one(&node, first)).block, 1);
    has(&node, "a", 10, "jumped");
    // A request that is signed for a future version can be used when the key reaches that version, by anyone who has a
    // copy.
    let waits = signed(6, set("a", "waited", 100));
    assert_eq!(code(&node, signed(5, set("a", "now", 10))), Code::Done);
    assert_eq!(code(&node, waits), Code::Done);
    has(&node, "a", 101, "waited");
}

/// Waits until all nodes have `height` blocks, and checks that the blocks are equal.
fn come_to(nodes: &[Node<SimDisk>], height: u64) {
    let until = Instant::now() + Duration::from_secs(60);
    let heights = || -> Vec<u64> { nodes.iter().map(|node| node.status().height).collect() };
    while heights().iter().any(|reached| *reached < height) {
        assert!(Instant::now() < until, "{:?} of {height}", heights());
        std::thread::yield_now();
    }
    let tips: Vec<_> = nodes.iter().map(|node| node.status().tip_hash).collect();
    assert!(tips.iter().all(|tip| *tip == tips[0]), "{tips:?}");
}

/// Three nodes, each with a thread that sets the same few keys, with the versions that it has read last. The third node
/// is restarted, and later loses its ledger.
#[test]
fn nodes_on_one_log_agree_and_versions_only_rise() {
    const KEYS: [&str; 3] = ["a", "b", "c"];
    let topic = Topic::default();
    let disks: Vec<SimDisk> = (1..=3).map(SimDisk::new).collect();
    let open = |node: u32, disk: &SimDisk| start_of(&paper_genesis(), &topic, disk.clone(), options(node));
    let mut nodes: Vec<_> = (1..).zip(&disks).map(|(node, disk)| open(node, disk)).collect();
    let mut done: Vec<(Version, usize, u64)> = Vec::new();
    let mut refused = 0;
    for life in 0..3_u64 {
        let said: Vec<_> = std::thread::scope(|scope| {
            let ask = |(member, node): (u64, &Node<SimDisk>)| {
                let mut said = Vec::new();
                for round in 0..40 {
                    let key = round % KEYS.len();
                    let version = get(node, KEYS[key]).map_or(0, |(version, _)| version);
                    // The value is unique, so that each request has its own position in the log.
                    let value = format!("{member} {life} {round}");
                    let answer = one(node, signed(member, set(KEYS[key], &value, version)));
                    said.push((answer, key, version + 1));
                }
                said
            };
            let threads: Vec<_> = (5..)
                .zip(&nodes)
                .map(|asked| scope.spawn(move || ask(asked)))
                .collect();
            threads
                .into_iter()
                .flat_map(|thread| thread.join().unwrap())
                .collect()
        });
        let mut height = 0;
        for (answer, key, version) in said {
            // A refused request is part of a block, too.
            if let Answer::Placed { version, .. } = &answer {
                height = height.max(version.block);
            }
            match answer.code() {
                Code::Done => done.push((version_of(&answer), key, version)),
                Code::OldVersion => refused += 1,
                other => panic!("{other:?}"),
            }
        }
        come_to(&nodes, height);
        for key in KEYS {
            assert_eq!(get(&nodes[0], key), get(&nodes[1], key));
            assert_eq!(get(&nodes[0], key), get(&nodes[2], key));
        }
        let lost = nodes.remove(2);
        lost.stop();
        nodes.push(open(
            3,
            &[disks[2].clone(), SimDisk::new(life + 9)][life as usize % 2],
        ));
        come_to(&nodes, height);
    }
    assert!(
        refused > 0,
        "no set was refused, so no two threads set a key at the same version"
    );
    done.sort_unstable();
    let mut last = [0; KEYS.len()];
    for (_, key, version) in done {
        assert!(std::mem::replace(&mut last[key], version) < version);
    }
    for (key, version) in KEYS.iter().zip(last) {
        assert_eq!(get(&nodes[1], key).unwrap().0, version);
    }
}

#[test]
fn a_set_refused_for_lack_of_rights_can_be_repeated() {
    let node = open(SimDisk::new(6));
    let mut native = native();
    let wanted = signed(6, set("shown/x", "1", 0));
    assert_eq!(code(&node, wanted.clone()), Code::NotAllowed);
    let rule = request::Body::Change {
        until_ms: u64::MAX,
        change: Change::SetRule {
            prefix: b"shown/",
            member: 6,
            rights: rights(true, true),
        },
    };
    assert_eq!(code(&node, native.sign(1, rule.clone())), Code::Recorded);
    assert_eq!(code(&node, native.sign(2, rule)), Code::Done);
    assert_eq!(code(&node, wanted), Code::Done);
}

#[test]
fn a_key_of_two_members_belongs_to_the_lower_number() {
    let key = member_key(6);
    let mut genesis = paper_genesis();
    genesis.members.push(FirstMember {
        member: 9,
        name: "the same key".into(),
        role: lineside_messages::hybrid::change::Role::User,
        key: KeyBytes::of(&key.public_key().unwrap()),
    });
    genesis.members.reverse();
    let chain = Chain::begin(&genesis.encode().unwrap()).unwrap();
    let public_key = key.public_key().unwrap().to_sec1_uncompressed();
    let (member, number, _) = chain.state().membership().key_owner(&public_key).unwrap();
    assert_eq!((member, number), (6, 0));
}

#[test]
fn verify_returns_the_block_and_a_native_proof_the_version_and_value() {
    let node = open(SimDisk::new(7));
    assert_eq!(code(&node, signed(5, set("a", "1", 4))), Code::Done);
    assert_eq!(code(&node, signed(5, set("b", "2", 0))), Code::Done);
    let Answer::Block(header) = one(&node, signed(5, Body::Verify { key: "a" })) else {
        panic!("no block");
    };
    assert_eq!(header.number, 1);
    let Answer::Proof(proof) = one(&node, native().sign(5, request::Body::Prove { key: b"a" })) else {
        panic!("no proof");
    };
    let tip = node.status().tip_hash;
    let cell = lineside_messages::hybrid::paper::cell(5, b"1");
    let again = StateProof::decode(&proof.encode(), Some(&cell)).unwrap();
    assert_eq!(again.check(&tip, b"a", Some(&cell)), Ok(()));
    for other in [lineside_messages::hybrid::paper::cell(4, b"1"), b"1".to_vec()] {
        let shown = StateProof::decode(&proof.encode(), Some(&other));
        assert!(
            shown
                .and_then(|proof| proof.check(&tip, b"a", Some(&other)))
                .is_err()
        );
    }
}

/// Makes a ledger with some sets, including refused ones, and a vote.
fn ledger(disk: SimDisk) {
    let node = open(disk);
    let sets = vec![
        signed(5, set("a", "1", 0)),
        signed(6, set("b", "2", 7)),
        signed(7, set("a", "3", 0)),
    ];
    let codes: Vec<Code> = node.ask(sets).iter().map(Answer::code).collect();
    assert_eq!(codes, [Code::Done, Code::Done, Code::OldVersion]);
    assert_eq!(code(&node, signed(6, set("private/x", "1", 0))), Code::NotAllowed);
    let change = request::Body::Change {
        until_ms: u64::MAX,
        change: Change::RevokeMember { member: 8 },
    };
    assert_eq!(code(&node, native().sign(1, change)), Code::Recorded);
    assert_eq!(code(&node, signed(5, set("a", "1", 1))), Code::Done);
    node.stop();
}

#[test]
fn executing_the_paper_ledger_again_gives_the_same_blocks() {
    let disk = SimDisk::new(8);
    ledger(disk.clone());
    let bytes = paper_genesis().encode().unwrap();
    let verifier = Verifier::new(lineside_verify::Options {
        low_s: true,
        ..Default::default()
    })
    .unwrap();
    let mut other = Chain::begin(&bytes).unwrap();
    let reader = Reader::open(disk.clone()).unwrap();
    let mut records = reader.records(2).unwrap();
    while let Some(record) = records.next().unwrap() {
        if record.kind != RECORD_BLOCK {
            continue;
        }
        let stored = StoredBlock::decode(record.payload).unwrap();
        let message = Message::decode(stored.message).unwrap();
        let membership = other.state().membership().clone();
        let checked = CheckedMessage::of(
            &message,
            transactions_hash(stored.message),
            other.database(),
            &membership,
            &verifier,
        );
        assert_eq!(checked.by_node, Some(true));
        let position = stored.header.position;
        let executed = other.execute(position, &message, &checked.signatures, &checked.digests);
        assert_eq!(executed.unwrap().header, stored.header);
    }
    let node = open(disk);
    assert_eq!(node.status().tip_hash, *other.tip_hash());
    has(&node, "b", 8, "2");
}

#[test]
fn the_audit_of_a_paper_ledger_finds_every_changed_byte() {
    let disk = SimDisk::new(9);
    ledger(disk.clone());
    let options = audit::Options {
        threads: 1,
        genesis: Some(paper_genesis().encode().unwrap()),
        ..Default::default()
    };
    let found = audit(disk.clone(), options.clone(), |_| {}).unwrap();
    assert_eq!(found.finding, None);
    let mut records = Vec::new();
    {
        let reader = Reader::open(disk).unwrap();
        let mut all = reader.records(1).unwrap();
        while let Some(record) = all.next().unwrap() {
            records.push((record.kind, record.payload.to_vec()));
        }
    }
    let place = records
        .iter()
        .position(|(kind, _)| *kind == RECORD_BLOCK)
        .unwrap();
    // Changes bytes after the header; the header is compared as in every ledger.
    let length = records[place].1.len();
    for at in (HEADER_BYTES..length).step_by(11) {
        let mut changed = records.clone();
        changed[place].1[at] ^= 1;
        let disk = SimDisk::new(10);
        let journal_options = lineside_journal::Options {
            segment_bytes: 1 << 16,
            record_bytes_max: 1 << 14,
            group_bytes_max: 1 << 15,
            ..journal_options()
        };
        let (mut journal, _) = Journal::open_or_create(disk.clone(), 7, journal_options).unwrap();
        for (kind, payload) in &changed {
            journal.append(*kind, payload).unwrap();
        }
        journal.commit().unwrap();
        drop(journal);
        let found = audit(disk, options.clone(), |_| {}).unwrap();
        let finding = found.finding.unwrap_or_else(|| panic!("byte {at} was not found"));
        assert!(finding.block == Some(1), "byte {at}: {finding:?}");
    }
}

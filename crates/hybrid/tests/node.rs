//! Tests of a node with an embedded log: its answers to requests, before and after a restart.

mod common;

use bytes::Bytes;
use common::*;
use lineside_hybrid::Code;
use lineside_hybrid::answer::Answer;
use lineside_hybrid::node::{Node, Options, embedded};
use lineside_journal::{FsDisk, SimDisk};
use lineside_messages::hybrid::change::Change;
use lineside_messages::hybrid::request::{Body, Head, Request, Sees, Version};
use lineside_messages::hybrid::sign::transaction_id;
use std::sync::Arc;
use std::sync::mpsc::channel;

#[test]
fn a_value_is_set_read_changed_and_deleted_by_version() {
    let node = start(SimDisk::new(1));
    let mut client = Client::new();
    let first = one(&node, client.set(5, "a", Some(Version::ABSENT), "one"));
    assert_eq!(first.code(), Code::Done);
    let version = version_of(&first);
    assert_eq!(version, Version { block: 1, index: 0 });
    assert_eq!(
        shown(&one(&node, client.get(6, "a"))),
        Some((version, "one".into()))
    );

    assert_eq!(
        code(&node, client.set(6, "a", Some(Version::ABSENT), "late")),
        Code::Conflict
    );
    let ahead = Version { block: 9, index: 0 };
    assert_eq!(
        code(&node, client.set(6, "a", Some(ahead), "jump")),
        Code::Conflict
    );
    assert_eq!(
        shown(&one(&node, client.get(6, "a"))),
        Some((version, "one".into()))
    );

    let second = one(&node, client.set(4, "a", Some(version), "two"));
    let delete = client.sign(4, Body::delete(b"a", Some(version_of(&second))));
    assert_eq!(code(&node, delete), Code::Done);
    assert_eq!(shown(&one(&node, client.get(6, "a"))), None);
    assert_eq!(
        code(&node, client.set(7, "a", Some(Version::ABSENT), "three")),
        Code::Done
    );
    node.stop();
}

#[test]
fn answered_writes_survive_a_restart_and_the_chain_continues() {
    let disk = SimDisk::new(2);
    let node = start(disk.clone());
    let mut client = Client::new();
    for round in 0..20 {
        let key = format!("key {}", round % 7);
        assert_eq!(
            code(&node, client.set(5, &key, None, &round.to_string())),
            Code::Done
        );
    }
    let before = node.status();
    node.stop();
    let node = start(disk);
    let after = node.status();
    assert_eq!(
        (before.height, before.tip_hash, before.state_root),
        (after.height, after.tip_hash, after.state_root)
    );
    assert_eq!(before.height, 20);
    assert_eq!(shown(&one(&node, client.get(6, "key 5"))).unwrap().1, "19");
    assert_eq!(code(&node, client.set(5, "key 5", None, "more")), Code::Done);
    assert_eq!(node.status().height, 21);
}

#[test]
fn a_repeated_request_takes_effect_once_from_any_sender_at_any_time() {
    let disk = SimDisk::new(3);
    let node = start(disk.clone());
    let mut client = Client::new();
    let set = client.set(5, "a", None, "x");
    let first = one(&node, set.clone());
    assert_eq!(one(&node, set.clone()), first);
    // Sends the same request twice in one call, so that its outcome is not known yet when the second copy is ordered.
    let other = client.set(5, "b", None, "y");
    let both = node.ask(vec![other.clone(), other]);
    assert_eq!(both[0], both[1]);
    assert_eq!(both[0].code(), Code::Done);
    node.stop();
    let node = start(disk);
    assert_eq!(one(&node, set), first);
    assert_eq!(node.status().height, 2);

    // Another request with a nonce that was already used.
    let head = Head {
        nonce: lineside_messages::hybrid::request::Nonce { lane: 0, counter: 1 },
        ..client.head(5)
    };
    let stale = Request {
        head,
        body: Body::set(b"a", None, b"z"),
    };
    assert_eq!(code(&node, sign_as(&member_key(5), stale)), Code::NonceUsed);
}

#[test]
fn every_refusal_has_its_code() {
    let node = start(SimDisk::new(4));
    let mut client = Client::new();
    let set = |client: &mut Client| Request {
        head: client.head(5),
        body: Body::set(b"k", None, b"v"),
    };
    let refused = |key: u64, request: Request<'_>| code(&node, sign_as(&member_key(key), request));

    assert_eq!(
        refused(6, set(&mut client)),
        Code::BadSignature,
        "another member's key"
    );
    let mut request = set(&mut client);
    request.head.database[0] ^= 1;
    assert_eq!(refused(5, request), Code::WrongDatabase);
    let mut request = set(&mut client);
    request.head.member = 77;
    assert_eq!(refused(5, request), Code::UnknownMember);
    let mut request = set(&mut client);
    request.head.key = 1;
    assert_eq!(refused(5, request), Code::UnknownMember);
    let mut request = set(&mut client);
    request.head.expiry_ms = 1_700_000_000_000;
    assert_eq!(refused(5, request), Code::Expired);
    let private = client.set(6, "private/x", None, "v");
    assert_eq!(code(&node, private), Code::NotAllowed);
    let shown = client.set(6, "shown/x", None, "v");
    assert_eq!(code(&node, shown), Code::NotAllowed);
    assert_eq!(code(&node, client.get(6, "private/x")), Code::NotAllowed);
    assert_eq!(code(&node, client.set(5, "private/x", None, "v")), Code::Done);
    assert_eq!(code(&node, client.get(5, "private/x")), Code::Done);

    let whole = client.set(5, "k", None, "v");
    for bytes in 0..whole.len() {
        let short = whole.slice(..bytes);
        assert_eq!(code(&node, short), Code::Malformed, "{bytes} bytes");
    }
    let mut long = whole.to_vec();
    long.push(0);
    assert_eq!(code(&node, long.into()), Code::Malformed);
    let mut high = whole.to_vec();
    negate_s(&mut high);
    assert_eq!(code(&node, high.into()), Code::HighS);
    for bit in 0..64 * 8 {
        let mut flipped = whole.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let code = code(&node, flipped.into());
        assert!(
            [Code::BadSignature, Code::HighS].contains(&code),
            "bit {bit}: {code:?}"
        );
    }
    assert_eq!(code(&node, whole), Code::Done);

    let get = Body::Get {
        sees: Sees::Local,
        keys: vec![b"k"],
    };
    let mut request = Request {
        head: client.head(5),
        body: get,
    };
    let once = sign_as(&member_key(5), request.clone());
    assert_eq!(code(&node, once.clone()), Code::Done);
    assert_eq!(
        code(&node, once),
        Code::NonceUsed,
        "an answered read is not answered again"
    );
    request.head = client.head(5);
    request.head.expiry_ms += 600_000;
    assert_eq!(refused(5, request), Code::ExpiryTooFar);
    let id = [9; 32];
    assert_eq!(code(&node, client.sign(5, Body::Outcome { id })), Code::Unknown);
    assert_eq!(
        node.status().height,
        2,
        "requests that a node refuses on its own are not in the log"
    );
}

/// Replaces s of a secp256k1 signature by n - s, which is above half the order if s was not.
fn negate_s(request: &mut [u8]) {
    let signature = k256::ecdsa::Signature::from_slice(&request[..64]).unwrap();
    let (r, s) = (signature.r(), signature.s());
    let high = k256::ecdsa::Signature::from_scalars(r.to_bytes(), (-*s).to_bytes()).unwrap();
    request[..64].copy_from_slice(&high.to_bytes());
}

#[test]
fn a_transaction_writes_all_its_keys_or_none() {
    let node = start(SimDisk::new(5));
    let mut client = Client::new();
    let version = version_of(&one(&node, client.set(5, "a", None, "1")));
    use lineside_messages::hybrid::request::{Read, Write};
    let transaction = |reads: Vec<(&'static str, Version)>, value: &'static str| Body::Write {
        reads: reads
            .into_iter()
            .map(|(key, version)| Read {
                key: key.as_bytes(),
                version,
            })
            .collect(),
        writes: ["b", "c"]
            .map(|key| Write {
                key: key.as_bytes(),
                value: Some(value.as_bytes()),
            })
            .to_vec(),
    };
    let stale = client.sign(
        5,
        transaction(vec![("a", Version::ABSENT), ("b", Version::ABSENT)], "no"),
    );
    assert_eq!(code(&node, stale), Code::Conflict);
    assert_eq!(shown(&one(&node, client.get(5, "b"))), None);
    let fresh = client.sign(
        5,
        transaction(vec![("a", version), ("b", Version::ABSENT)], "yes"),
    );
    let placed = version_of(&one(&node, fresh));
    for key in ["b", "c"] {
        assert_eq!(
            shown(&one(&node, client.get(5, key))),
            Some((placed, "yes".into()))
        );
    }
    // If one of the keys may not be written, the transaction writes nothing.
    let mixed = Body::Write {
        reads: vec![],
        writes: ["d", "private/d"]
            .map(|key| Write {
                key: key.as_bytes(),
                value: Some(b"x"),
            })
            .to_vec(),
    };
    assert_eq!(code(&node, client.sign(6, mixed)), Code::NotAllowed);
    assert_eq!(shown(&one(&node, client.get(5, "d"))), None);
}

#[test]
fn range_history_outcome_and_head_return_the_committed_state() {
    let node = start(SimDisk::new(6));
    let mut client = Client::new();
    for (key, value) in [
        ("a", "1"),
        ("b", "2"),
        ("private/p", "3"),
        ("shown/s", "4"),
        ("a", "5"),
    ] {
        assert_eq!(code(&node, client.set(5, key, None, value)), Code::Done);
    }
    let range = |start: &'static str, stop: &'static str, limit| Body::Range {
        sees: Sees::Local,
        start: start.as_bytes(),
        stop: stop.as_bytes(),
        limit,
    };
    let keys = |answer: Answer| match answer {
        Answer::Range { cells, more } => (
            cells
                .iter()
                .map(|(key, _)| String::from_utf8(key.to_vec()).unwrap())
                .collect::<Vec<_>>(),
            more,
        ),
        other => panic!("{other:?}"),
    };
    let all = one(&node, client.sign(6, range("", "", 100)));
    assert_eq!(
        keys(all),
        (vec!["a".into(), "b".into(), "shown/s".into()], false),
        "private/ is left out"
    );
    let some = one(&node, client.sign(5, range("a", "", 2)));
    assert_eq!(keys(some), (vec!["a".into(), "b".into()], true));
    let none = one(&node, client.sign(5, range("b", "a", 9)));
    assert_eq!(keys(none), (vec![], false));

    let mut page = |limit, before| {
        let history = Body::History {
            key: b"a",
            limit,
            before,
        };
        match one(&node, client.sign(6, history)) {
            Answer::History { past, more } => {
                let versions = past.iter().map(|past| past.version.block).collect::<Vec<_>>();
                (versions, more)
            }
            other => panic!("{other:?}"),
        }
    };
    let version = |block| Some(Version { block, index: 0 });
    assert_eq!(page(10, None), (vec![5, 1], false));
    assert_eq!(page(1, None), (vec![5], true));
    assert_eq!(page(0, None), (vec![], true));
    assert_eq!(page(1, version(5)), (vec![1], false));
    assert_eq!(
        page(1, version(3)),
        (vec![1], false),
        "a version that the key never had"
    );
    assert_eq!(page(1, version(1)), (vec![], false));
    assert_eq!(page(9, version(u64::MAX)), (vec![5, 1], false));
    let set = client.set(7, "z", None, "9");
    let placed = one(&node, set.clone());
    let id = transaction_id(&set[64..]);
    assert_eq!(one(&node, client.sign(6, Body::Outcome { id })), placed);
    match one(&node, client.sign(6, Body::Head)) {
        Answer::Head(head) => {
            let (header, signed) = *head;
            assert_eq!((header.number, header.hash()), (6, signed.hash));
            let verifier = Default::default();
            assert!(signed.is_signed_by(&header.database, &node_key(1).public_key().unwrap(), &verifier));
            assert!(!signed.is_signed_by(&[0; 16], &node_key(1).public_key().unwrap(), &verifier));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn proofs_prove_only_presence_and_absence() {
    let node = start(SimDisk::new(7));
    let mut client = Client::new();
    for key in 0..200 {
        assert_eq!(
            code(
                &node,
                client.set(5, &format!("key {key}"), None, &format!("value {key}"))
            ),
            Code::Done
        );
    }
    let proof =
        |client: &mut Client, key: &'static [u8]| match one(&node, client.sign(5, Body::Prove { key })) {
            Answer::Proof(proof) => *proof,
            other => panic!("{other:?}"),
        };
    let hash = node.status().tip_hash;
    let present = proof(&mut client, b"key 7");
    assert_eq!(present.check(&hash, b"key 7", Some(b"value 7")), Ok(()));
    assert!(present.encode().len() <= 1000);
    use lineside_messages::hybrid::proof::{NotProven, StateProof};
    let bytes = present.encode();
    assert_eq!(StateProof::decode(&bytes, Some(b"value 7")), Ok(present.clone()));
    assert_eq!(StateProof::decode(&bytes, None), Err(NotProven::OtherCell));
    let other = StateProof::decode(&bytes, Some(b"value 8"));
    assert!(
        other
            .and_then(|proof| proof.check(&hash, b"key 7", Some(b"value 8")))
            .is_err()
    );
    assert_eq!(
        present.check(&hash, b"key 7", Some(b"value 8")),
        Err(NotProven::OtherCell)
    );
    assert_eq!(present.check(&hash, b"key 7", None), Err(NotProven::OtherCell));
    assert!(present.check(&hash, b"key 8", Some(b"value 7")).is_err());
    assert_eq!(
        present.check(&[1; 32], b"key 7", Some(b"value 7")),
        Err(NotProven::OtherBlock)
    );
    let mut moved = present.clone();
    moved.version.index += 1;
    assert_eq!(
        moved.check(&hash, b"key 7", Some(b"value 7")),
        Err(NotProven::OtherCell)
    );
    let absent = proof(&mut client, b"no such key");
    assert_eq!(absent.check(&hash, b"no such key", None), Ok(()));
    assert!(absent.check(&hash, b"no such key", Some(b"value 7")).is_err());
    assert!(absent.check(&hash, b"key 7", None).is_err());
    assert_eq!(StateProof::decode(&absent.encode(), None), Ok(absent));
}

#[test]
fn members_keys_rules_and_the_quorum_change_by_votes() {
    let disk = SimDisk::new(8);
    let node = start(disk.clone());
    let mut client = Client::new();
    let until_ms = lineside_messages::hybrid::signing::unix_ms() + 60_000;
    let vote = |client: &mut Client, member, change| client.sign(member, Body::Change { until_ms, change });
    let add = Change::AddMember {
        member: 20,
        name: "new",
        role: lineside_messages::hybrid::change::Role::User,
        key: member_key(20).public(),
    };
    assert_eq!(
        code(&node, vote(&mut client, 5, add)),
        Code::NotAllowed,
        "a user who is not an admin"
    );
    assert_eq!(code(&node, vote(&mut client, 1, add)), Code::Recorded);
    assert_eq!(
        code(&node, vote(&mut client, 1, add)),
        Code::Recorded,
        "one admin is not a quorum"
    );
    let early = client.set(20, "n", None, "1");
    assert_eq!(code(&node, early), Code::UnknownMember);
    assert_eq!(code(&node, vote(&mut client, 2, add)), Code::Done);
    assert_eq!(code(&node, client.set(20, "n", None, "1")), Code::Done);

    // A member rotates its own key; the node then refuses the old key.
    let fresh = secret(b'k', 20);
    let rotate = Change::AddKey {
        member: 20,
        number: 1,
        key: fresh.public(),
    };
    assert_eq!(code(&node, vote(&mut client, 20, rotate)), Code::Done);
    let revoke = Change::RevokeKey {
        member: 20,
        number: 0,
    };
    assert_eq!(code(&node, vote(&mut client, 20, revoke)), Code::Done);
    assert_eq!(code(&node, client.set(20, "n", None, "2")), Code::Revoked);
    let mut head = client.head(20);
    head.key = 1;
    let by_new = Request {
        head,
        body: Body::set(b"n", None, b"3"),
    };
    assert_eq!(code(&node, sign_as(&fresh, by_new)), Code::Done);
    let mut head = client.head(20);
    head.key = 1;
    let last = Request {
        head,
        body: Body::Change {
            until_ms,
            change: Change::RevokeKey {
                member: 20,
                number: 1,
            },
        },
    };
    assert_eq!(
        code(&node, sign_as(&fresh, last)),
        Code::BadChange,
        "the last key cannot be revoked"
    );

    // Changes of rules, and revocation of admins.
    let rule = Change::SetRule {
        prefix: b"private/",
        member: 6,
        rights: rights(true, false),
    };
    assert_eq!(code(&node, vote(&mut client, 1, rule)), Code::Recorded);
    assert_eq!(code(&node, vote(&mut client, 3, rule)), Code::Done);
    assert_eq!(code(&node, client.get(6, "private/x")), Code::Done);
    let leave = Change::RevokeMember { member: 3 };
    assert_eq!(code(&node, vote(&mut client, 1, leave)), Code::Recorded);
    assert_eq!(code(&node, vote(&mut client, 2, leave)), Code::Done);
    assert_eq!(code(&node, vote(&mut client, 3, rule)), Code::Revoked);
    let too_few = Change::RevokeMember { member: 2 };
    assert_eq!(code(&node, vote(&mut client, 1, too_few)), Code::Recorded);
    assert_eq!(
        code(&node, vote(&mut client, 2, too_few)),
        Code::BadChange,
        "with a quorum of two, one of two admins cannot be revoked"
    );

    let before = node.status();
    node.stop();
    let node = start(disk);
    assert_eq!(node.status().state_root, before.state_root);
    assert_eq!(code(&node, client.set(20, "n", None, "4")), Code::Revoked);
}

#[test]
fn another_genesis_or_another_key_does_not_open_the_ledger() {
    let disk = SimDisk::new(9);
    start(disk.clone()).stop();
    let mut other = genesis();
    other.name = "other".into();
    let bytes = other.encode().unwrap();
    let options = lineside_hybrid::Options::default();
    let key = std::sync::Arc::new(node_key(1));
    assert!(lineside_hybrid::Node::start(disk.clone(), &bytes, key, options.clone(), embedded()).is_err());
    let bytes = genesis().encode().unwrap();
    let key = std::sync::Arc::new(node_key(2));
    let refused = lineside_hybrid::Node::start(disk, &bytes, key, options, embedded());
    assert!(matches!(
        refused.err().unwrap(),
        lineside_hybrid::node::StartError::NotANode(1)
    ));
}

#[test]
fn a_single_get_is_answered_on_the_calling_thread_like_any_other() {
    let (node, mut client) = (start(SimDisk::new(1)), Client::new());
    assert_eq!(code(&node, client.set(5, "a", None, "1")), Code::Done);
    let ask = |request: Bytes| {
        let (send, receive) = channel();
        node.submit_inline(vec![request], move |answers| {
            send.send((std::thread::current().id(), answers)).unwrap();
        });
        let (by, mut answers) = receive.recv().unwrap();
        assert_eq!(answers.len(), 1);
        (by == std::thread::current().id(), answers.remove(0))
    };
    let get = client.get(6, "a");
    let (here, answer) = ask(get.clone());
    assert!(here);
    assert_eq!(shown(&answer).unwrap().1, "1");
    assert_eq!(ask(get), (true, Answer::Refused(Code::NonceUsed)));
    let mut forged = client.get(6, "a").to_vec();
    forged[5] ^= 1;
    assert_eq!(ask(forged.into()), (true, Answer::Refused(Code::BadSignature)));
    assert_eq!(
        ask(client.get(6, "private/a")),
        (true, Answer::Refused(Code::NotAllowed))
    );
    // The node's own threads answer requests that wait for others, and requests that are not gets.
    let linearizable = Body::Get {
        sees: Sees::Linearizable,
        keys: vec![b"a"],
    };
    for other in [
        client.sign(6, linearizable),
        client.set(5, "b", None, "2"),
        client.sign(6, Body::Head),
        Bytes::from_static(b"nothing"),
    ] {
        assert!(!ask(other).0);
    }
    node.stop();
}

#[test]
fn the_status_reports_records_cut_at_the_start_and_acknowledged_ones_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let open = || start(FsDisk::open(folder.path()).unwrap());
    let node = open();
    let mut client = Client::new();
    for value in ["one", "two"] {
        assert_eq!(code(&node, client.set(5, "a", None, value)), Code::Done);
    }
    assert_eq!((node.status().cut, node.status().height), (None, 2));
    node.stop();
    let segments = std::fs::read_dir(folder.path()).unwrap();
    let segments = segments.map(|entry| entry.unwrap().path());
    // The last record ends at the segment's last byte that is not zero.
    let (path, mut bytes) = segments
        .filter(|path| path.is_file())
        .map(|path| (path.clone(), std::fs::read(path).unwrap()))
        .max_by_key(|(_, bytes)| bytes.len())
        .unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[last - 40] ^= 1;
    std::fs::write(path, bytes).unwrap();
    let disk = FsDisk::open(folder.path()).unwrap();
    let (genesis, options) = (genesis().encode().unwrap(), Options::default());
    let key = Arc::new(node_key(options.node));
    let refused = Node::start(disk, &genesis, key, options, embedded());
    let why = refused.err().unwrap().to_string();
    assert!(why.contains("was acknowledged"), "{why}");
    // Without the file `acknowledged`, the damage looks like a group of records that a power cut left unfinished.
    std::fs::remove_file(folder.path().join("acknowledged")).unwrap();
    let node = open();
    let status = node.status();
    assert_eq!(status.height, 1);
    let cut = status.cut.unwrap();
    assert!(cut.contains("the start removed"), "{cut}");
    node.stop();
    assert_eq!(
        open().status().cut,
        None,
        "a start that cuts nothing gives no warning"
    );
}

//! Fuzz targets for the hybrid service: requests, genesis, datagrams, content of the log and the ledger, proofs.

use crate::input::Input;
use lineside_fastpath::{FastPath, Reply, Source, Verdict};
use lineside_hybrid::Code;
use lineside_hybrid::execute::{Chain, SignatureCheck};
use lineside_hybrid::ledger::{StoredBlock, encode_block};
use lineside_hybrid::map;
use lineside_hybrid::signatures::{Digests, transaction_ids};
use lineside_hybrid::snapshot::{self, Restore, SnapshotError};
use lineside_hybrid::udp::HybridFastPath;
use lineside_hybrid::view::ReadView;
use lineside_messages::hybrid::answer::{Answered, Cell, Past};
use lineside_messages::hybrid::block::{Cargo, Message, Sender, SignedHead, request_message};
use lineside_messages::hybrid::change::{Change, Rights, Role};
use lineside_messages::hybrid::genesis::{FirstMember, FirstRule, Genesis, database_id};
use lineside_messages::hybrid::paper;
use lineside_messages::hybrid::proof::StateProof;
use lineside_messages::hybrid::request::{Body, Head, Nonce, Read, Request, Sees, Version, Write, split};
use lineside_messages::hybrid::secret::SecretKey;
use lineside_messages::hybrid::udp::{read_answer, read_request, write_answer, write_request};
use lineside_verify::Curve;
use lineside_verify::hash::keccak256;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

fn secret(number: u8) -> SecretKey {
    SecretKey::from_bytes(Curve::Secp256k1, &[number; 32]).expect("a key")
}

static GENESIS: LazyLock<Vec<u8>> = LazyLock::new(|| genesis(false));
static PAPER_GENESIS: LazyLock<Vec<u8>> = LazyLock::new(|| genesis(true));

fn genesis(paper: bool) -> Vec<u8> {
    let member = |member: u8| FirstMember {
        member: member.into(),
        name: "m".into(),
        role: if member < 3 { Role::Admin } else { Role::User },
        key: secret(member).public(),
    };
    let rule = |prefix: &[u8], member, read, write| FirstRule {
        prefix: prefix.to_vec(),
        member,
        rights: Rights { read, write },
    };
    let genesis = Genesis {
        name: "fuzz".into(),
        time_ms: 5,
        quorum: 2,
        members: (1..=3).map(member).collect(),
        nodes: vec![(1, secret(9).public())],
        rules: vec![rule(b"", 0, true, true), rule(b"p", 3, true, true)],
        paper,
    };
    genesis.encode().expect("a genesis")
}

fn bodies() -> Vec<Body<'static>> {
    let version = Version { block: 1, index: 0 };
    let write = |key, value| Write { key, value };
    vec![
        Body::set(b"a", None, b"value"),
        Body::set(b"a", Some(Version::ABSENT), b"1"),
        Body::set(b"p", Some(version), b"2"),
        Body::delete(b"a", Some(version)),
        Body::Write {
            reads: vec![Read { key: b"a", version }],
            writes: vec![write(b"a", Some(b"x")), write(b"b", None)],
        },
        Body::Change {
            until_ms: 90,
            change: Change::SetRule {
                prefix: b"p",
                member: 1,
                rights: Rights {
                    read: true,
                    write: false,
                },
            },
        },
        Body::Change {
            until_ms: 90,
            change: Change::RevokeMember { member: 3 },
        },
        Body::Change {
            until_ms: 90,
            change: Change::AddKey {
                member: 3,
                number: 1,
                key: secret(7).public(),
            },
        },
        Body::Change {
            until_ms: 90,
            change: Change::AddMember {
                member: 4,
                name: "new",
                role: Role::Admin,
                key: secret(4).public(),
            },
        },
        Body::Get {
            sees: Sees::Linearizable,
            keys: vec![b"a", b"b"],
        },
        Body::Range {
            sees: Sees::Local,
            start: b"",
            stop: b"z",
            limit: 9,
        },
        Body::Prove { key: b"a" },
        Body::History {
            key: b"a",
            limit: 3,
            before: None,
        },
        Body::History {
            key: b"a",
            limit: 3,
            before: Some(Version { block: 3, index: 1 }),
        },
        Body::Head,
        Body::Outcome { id: [3; 32] },
        Body::Watch { prefix: b"" },
    ]
}

fn signed(body: Body<'_>, member: u64, counter: u64) -> Vec<u8> {
    let head = Head {
        database: database_id(&GENESIS),
        member,
        key: 0,
        nonce: Nonce { lane: 0, counter },
        expiry_ms: 50,
    };
    Request { head, body }.encode().expect("a request")
}

pub fn request_seeds() -> Vec<Vec<u8>> {
    let mut seeds: Vec<_> = bodies().into_iter().map(|body| signed(body, 1, 7)).collect();
    seeds.push(GENESIS.clone());
    seeds.push(PAPER_GENESIS.clone());
    seeds.extend(paper_requests());
    seeds
}

/// Checks that a decoded request or genesis is encoded to the same bytes again.
pub fn request(data: &[u8]) {
    if let Ok(request) = paper::Request::decode(data) {
        assert_eq!(request.encode().as_deref(), Ok(data));
        let _ = request.body.digest();
    }
    if let Ok(request) = Request::decode(data) {
        assert_eq!(request.encode().as_deref(), Ok(data));
    }
    if let Ok(genesis) = Genesis::decode(data) {
        assert_eq!(genesis.encode().as_deref(), Ok(data));
        // The content of a genesis may be contradictory, but must not cause a panic.
        let _ = Chain::begin(data);
    }
}

pub fn datagram_seeds() -> Vec<Vec<u8>> {
    let signature = [7; 64];
    let requests = bodies().into_iter().map(|body| {
        let request = [&signature[..], &signed(body, 1, 7)].concat();
        write_request(3, &request, 400).expect("a short request")
    });
    let mut seeds: Vec<_> = requests.collect();
    let version = Version { block: 3, index: 1 };
    let cell = || Cell {
        version,
        value: b"value"[..].into(),
    };
    let past = |block, value: Option<&[u8]>| Past {
        version: Version { block, index: 0 },
        time_ms: 9,
        value: value.map(<[u8]>::to_vec),
    };
    let (tip, node) = (*PROVEN.0.tip(), &secret(9));
    let head = SignedHead::sign(PROVEN.0.database(), 1, tip.number, tip.hash(), node);
    let mut answers = vec![
        Answered::Refused(Code::Busy),
        Answered::Cells(vec![None, Some(cell())]),
        Answered::Range {
            cells: vec![(b"a"[..].into(), cell()), (b"b"[..].into(), cell())],
            more: true,
        },
        Answered::History {
            past: vec![past(3, None), past(2, Some(b"x"))],
            more: true,
        },
        Answered::Head(Box::new((tip, head))),
        Answered::Placed {
            code: Code::Conflict,
            version,
        },
    ];
    answers.extend(PROVEN.2.iter().cloned().map(Answered::Proof));
    let (header, _) = read_request(&seeds[0]).expect("a request");
    let header = *header;
    for answered in answers {
        seeds.push(answered.encode(4096).expect("short"));
        seeds.push(write_answer(&header, &answered, 4096));
    }
    seeds
}

/// Checks that a datagram that the fast path passes on is a request, and is encoded to the same bytes again. Any other
/// output must not be longer than the input, and must not be a request. A decoded answer must be encoded to the same
/// bytes again, and be valid only with its own length.
pub fn datagram(data: &[u8]) {
    let from = Source {
        address: [127, 0, 0, 1].into(),
        port: 9,
    };
    let mut reply = Reply::default();
    match HybridFastPath.answer(from, 0, data, &mut reply) {
        Verdict::Forward => {
            let (header, request) = read_request(data).expect("the fast path passes on a valid request");
            let again = write_request(header.request_id.get(), request, data.len());
            assert_eq!(again.as_deref(), Some(data));
        }
        Verdict::Reply => {
            assert!(reply.as_bytes().len() <= data.len());
            assert!(read_request(data).is_err());
            let mut none = Reply::default();
            let verdict = HybridFastPath.answer(from, 0, reply.as_bytes(), &mut none);
            assert!(
                matches!(verdict, Verdict::Drop(_)),
                "the server has answered a reply"
            );
        }
        Verdict::Drop(_) => {}
    }
    let body = read_answer(data).map_or(data, |(_, _, body)| body);
    if let Ok(answered) = Answered::decode(body) {
        assert_eq!(answered.encode(body.len()).as_deref(), Some(body));
        assert_eq!(answered.encode(body.len() - 1), None);
    }
}

/// Returns requests in the encoding of the paper, which is the encoding that is signed.
fn paper_requests() -> Vec<Vec<u8>> {
    let body = |value, version| paper::Body::Set {
        key: "a",
        value,
        version,
    };
    let bodies = [
        body("v", 0),
        body("", 1),
        body("w", 9),
        paper::Body::Get { key: "a" },
        paper::Body::Verify { key: "a" },
    ];
    let public = secret(1).public_key().expect("a point");
    let encode = |body| {
        let public_key = public.to_sec1_uncompressed();
        paper::Request { public_key, body }.encode().expect("a request")
    };
    bodies.map(encode).into()
}

/// Executes messages with any requests on a database in the paper's mode. Two nodes must get the same result, the
/// version of a key must only increase, and only the paper's sets may write.
fn paper_ledger(requests: &[Vec<u8>]) {
    let mut nodes = [(); 2].map(|()| Chain::begin(&PAPER_GENESIS).expect("a genesis"));
    let mut versions: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
    for (sequence, request) in (1..).zip(requests) {
        let sender = Sender {
            node: 1,
            sequence,
            time_ms: 10,
        };
        let message = request_message(&database_id(&PAPER_GENESIS), sender, &[request], &secret(9));
        let read = Message::decode(&message).expect("a message that was just encoded");
        let digests = Digests::of(&read);
        let [executed, other] = nodes
            .each_mut()
            .map(|node| node.execute(sequence, &read, &[SignatureCheck::Valid], &digests));
        let (executed, other) = (executed.expect("a block"), other.expect("a block"));
        assert_eq!((executed.header, &executed.codes), (other.header, &other.codes));
        for written in &executed.writes {
            assert!(paper::is_one(&request[64..]));
            let (version, _) =
                paper::read_cell(written.value.as_ref().expect("the paper's mode never deletes"));
            let last = versions.insert(written.key.to_vec(), version);
            assert!(last.is_none_or(|last| last < version), "a version decreased");
        }
    }
}

pub fn ledger_seeds() -> Vec<Vec<u8>> {
    let bodies: Vec<_> = bodies().into_iter().take(9).collect();
    let mut seeds = Vec::new();
    for first in 0..bodies.len() {
        let mut seed = Vec::new();
        for (number, body) in bodies.iter().cycle().skip(first).take(5).enumerate() {
            let member = (number % 3 + 1) as u64;
            let signed = signed(body.clone(), member, number as u64 + 1);
            seed.push(number as u8);
            seed.extend_from_slice(&(signed.len() as u16).to_le_bytes());
            seed.extend_from_slice(&signed);
        }
        seeds.push(seed);
    }
    let mut seed = Vec::new();
    for request in paper_requests() {
        seed.push(0);
        seed.extend_from_slice(&(request.len() as u16).to_le_bytes());
        seed.extend_from_slice(&request);
    }
    seeds.push(seed);
    seeds
}

/// Executes messages with any requests, which are all treated as signed. Two nodes must get the same result, the codes
/// and the state in a block must be right, and each nonce must count once.
pub fn ledger(data: &[u8]) {
    let mut input = Input(data);
    let mut requests = Vec::new();
    while !input.is_empty() && requests.len() < 64 {
        let closes = input.byte() & 3 == 0;
        let bytes = u16::from_le_bytes(input.array()).into();
        requests.push(([&[0; 64], input.take(bytes)].concat(), closes));
    }
    let all: Vec<_> = requests.iter().map(|(request, _)| request.clone()).collect();
    paper_ledger(&all);
    let mut nodes = [(); 2].map(|()| Chain::begin(&GENESIS).expect("a genesis"));
    let mut nonces = BTreeSet::new();
    let mut model: BTreeMap<Vec<u8>, Version> = BTreeMap::new();
    for (sequence, block) in (1..).zip(requests.chunk_by(|(_, closes), _| !closes)) {
        let requests: Vec<&[u8]> = block.iter().map(|(request, _)| &request[..]).collect();
        let sender = Sender {
            node: 1,
            sequence,
            time_ms: 10 * sequence,
        };
        let message = request_message(&database_id(&GENESIS), sender, &requests, &secret(9));
        let read = Message::decode(&message).expect("a message that was just encoded");
        assert_eq!(read.cargo, Cargo::Requests(requests.clone()));
        let signed = vec![SignatureCheck::Valid; requests.len()];
        let digests = Digests::of(&read);
        let [executed, other] = nodes
            .each_mut()
            .map(|node| node.execute(sequence, &read, &signed, &digests));
        let (executed, other) = (executed.expect("a block"), other.expect("a block"));
        assert_eq!((executed.header, &executed.codes), (other.header, &other.codes));
        let payload = encode_block(&executed.header, &executed.codes, &message);
        let stored = StoredBlock::decode(&payload).expect("a payload that was just encoded");
        assert_eq!((stored.header, stored.message), (executed.header, &message[..]));
        for (request, code) in requests.iter().zip(&executed.codes) {
            let Ok(request) = split(request).and_then(|(_, signed)| Request::decode(signed)) else {
                let paper = request
                    .get(64..)
                    .is_some_and(|signed| paper::Request::decode(signed).is_ok());
                assert_eq!(*code, if paper { Code::WrongMode } else { Code::Malformed });
                continue;
            };
            if [Code::Done, Code::Recorded, Code::Conflict, Code::NotAllowed].contains(code) {
                let Head { member, nonce, .. } = request.head;
                assert!(
                    nonces.insert((member, nonce.lane, nonce.counter)),
                    "a nonce counted twice"
                );
            }
        }
        for written in &executed.writes {
            match written.value {
                Some(_) => model.insert(written.key.to_vec(), written.version),
                None => model.remove(&written.key[..]),
            };
        }
        assert_eq!(nodes[0].state().keys(), model.len());
        for (key, version) in &model {
            assert_eq!(nodes[0].state().version(key), *version);
        }
    }
    let _ = Message::decode(data);
    let _ = StoredBlock::decode(data);
}

/// State with a hundred keys, and proofs of some of them.
static PROVEN: LazyLock<(Chain, ReadView, Vec<Vec<u8>>)> = LazyLock::new(|| {
    let mut chain = Chain::begin(&GENESIS).expect("a genesis");
    let mut view = ReadView::new(*chain.tip(), chain.state().membership().clone());
    let keys: Vec<String> = (0..100).map(|key| format!("key {key}")).collect();
    let requests = keys.iter().zip(1..).map(|(key, counter)| {
        let body = Body::set(key.as_bytes(), None, b"value");
        [&[0; 64][..], &signed(body, 1, counter)].concat()
    });
    let requests: Vec<_> = requests.collect();
    let sender = Sender {
        node: 1,
        sequence: 1,
        time_ms: 10,
    };
    let message = request_message(chain.database(), sender, &requests, &secret(9));
    let read = Message::decode(&message).expect("a message that was just encoded");
    let signed = vec![SignatureCheck::Valid; requests.len()];
    let executed = chain.execute(1, &read, &signed, &Digests::of(&read));
    view.apply(executed.expect("a block"), &transaction_ids(read.requests()));
    let proof = |key: &[u8]| {
        let proof = StateProof {
            header: *chain.tip(),
            version: chain.state().version(key),
            path: chain.state().prove(key),
        };
        proof.encode()
    };
    let proofs = [&b"key 3"[..], b"key 77", b"none", b"key", b"key 100"]
        .map(proof)
        .to_vec();
    (chain, view, proofs)
});

pub fn proof_seeds() -> Vec<Vec<u8>> {
    PROVEN.2.clone()
}

/// Checks that a proof that is accepted for the block's hash agrees with the state.
pub fn proof(data: &[u8]) {
    let (chain, ..) = &*PROVEN;
    for key in [&b"key 3"[..], b"key 77", b"none", b"key", b"key 100"] {
        let has = chain.state().version(key) != Version::ABSENT;
        for value in [None, Some(&b"value"[..]), Some(&b"other"[..])] {
            let Ok(proof) = StateProof::decode(data, value) else {
                continue;
            };
            assert_eq!(proof.encode(), data);
            if proof.check(chain.tip_hash(), key, value).is_ok() {
                assert_eq!(value, has.then_some(&b"value"[..]));
                assert_eq!(proof.version, chain.state().version(key));
            }
        }
    }
}

/// Offset of the state root in a snapshot's header; the next constant is the offset of the first entry.
const SNAPSHOT_ROOT: usize = 8 + 1 + 176;
const SNAPSHOT_ENTRIES: usize = 8 + 1 + 240 + 8;

fn written(chain: &Chain, view: &ReadView) -> Vec<u8> {
    let mut bytes = Vec::new();
    snapshot::write(chain, view, &mut bytes).expect("memory");
    bytes
}

pub fn snapshot_seeds() -> Vec<Vec<u8>> {
    let (chain, view, _) = &*PROVEN;
    let begun = Chain::begin(&GENESIS).expect("a genesis");
    let of_genesis = ReadView::new(*begun.tip(), begun.state().membership().clone());
    vec![written(chain, view), written(&begun, &of_genesis)]
}

/// Restores a snapshot that arrives in pieces of `piece` bytes.
fn restore(bytes: &[u8], piece: usize) -> Result<(Chain, ReadView), SnapshotError> {
    let mut restore = Restore::new(database_id(&GENESIS));
    bytes.chunks(piece).try_for_each(|piece| restore.feed(piece))?;
    restore.finish()
}

/// Returns the state root of a snapshot's entries, computed by independent code.
fn root_of(mut entries: &[u8]) -> Option<[u8; 32]> {
    let mut changes = Vec::new();
    while !entries.is_empty() {
        let mut take = |length: usize| {
            let prefix = entries.get(..length)?;
            let bytes = prefix.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
            let taken = entries.get(length..)?.get(..bytes)?;
            entries = &entries[length + bytes..];
            Some(taken)
        };
        let (place, content) = (take(2)?, take(4)?);
        changes.push(map::Change {
            key: keccak256(place),
            value: Some(keccak256(content)),
        });
    }
    let mut tree = map::Tree::new();
    tree.update(&mut changes);
    Some(tree.root())
}

/// Checks snapshots: with the state root of its entries, an accepted snapshot is encoded to the same bytes again,
/// whatever the size of the pieces. With another root, no snapshot is accepted.
pub fn snapshot(data: &[u8]) {
    let mut bytes = data.to_vec();
    if let Some(root) = bytes.get(SNAPSHOT_ENTRIES..).and_then(root_of) {
        bytes[SNAPSHOT_ROOT..SNAPSHOT_ROOT + 32].copy_from_slice(&root);
    }
    let whole = restore(&bytes, usize::MAX);
    let piece = 1 + data.len() % 97;
    assert_eq!(
        whole.as_ref().map(|_| ()).map_err(|error| *error),
        restore(&bytes, piece).map(|_| ())
    );
    if let Ok((chain, view)) = whole {
        assert_eq!(written(&chain, &view), bytes);
        bytes[SNAPSHOT_ROOT] ^= 1;
        assert_eq!(restore(&bytes, usize::MAX).err(), Some(SnapshotError::Root));
    }
}

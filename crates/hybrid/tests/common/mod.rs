//! A database for tests: its genesis, its members' keys, and signed requests.

#![allow(dead_code, reason = "each test uses a part of it")]

pub mod topic;

use bytes::Bytes;
use lineside_hybrid::answer::Answer;
use lineside_hybrid::node::embedded;
use lineside_hybrid::{Code, Node, Options};
use lineside_journal::Disk;
use lineside_messages::hybrid::change::{Rights, Role};
use lineside_messages::hybrid::genesis::{FirstMember, FirstRule, Genesis, database_id};
use lineside_messages::hybrid::request::{Body, DatabaseId, Head, MemberId, Nonce, Request, Version};
use lineside_messages::hybrid::secret::SecretKey;
use lineside_messages::hybrid::sign::sign_request;
use lineside_messages::hybrid::signing::unix_ms;
use lineside_verify::Curve;
use std::collections::HashMap;
use std::sync::{Arc, mpsc};

/// Options of a journal whose segments are small, so that it has many files.
pub fn small_segments() -> lineside_journal::Options {
    lineside_journal::Options {
        segment_bytes: 1 << 15,
        record_bytes_max: 1 << 13,
        group_bytes_max: 1 << 14,
        keep_records: true,
    }
}

/// Number of admins: members 1 to 3, of whom two are the quorum. Members 4 to 8 are users; member 4 has a P-256 key.
pub const ADMINS: u64 = 3;
pub const MEMBERS: u64 = 8;
pub const NODES: u32 = 3;

pub fn secret(kind: u8, number: u64) -> SecretKey {
    let curve = match (kind, number) {
        (b'm', 4) | (b'n', 3) => Curve::P256,
        _ => Curve::Secp256k1,
    };
    let mut bytes = [kind; 32];
    bytes[24..].copy_from_slice(&number.to_be_bytes());
    SecretKey::from_bytes(curve, &bytes).unwrap()
}

pub fn member_key(member: MemberId) -> SecretKey {
    secret(b'm', member)
}

pub fn node_key(node: u32) -> SecretKey {
    secret(b'n', node.into())
}

pub fn rights(read: bool, write: bool) -> Rights {
    Rights { read, write }
}

/// Returns the genesis of the test database. Everyone may read and write, except below `private/`, where only member 5
/// may read and write, and below `shown/`, where only member 5 may write.
pub fn genesis() -> Genesis {
    let rule = |prefix: &[u8], member, rights| FirstRule {
        prefix: prefix.to_vec(),
        member,
        rights,
    };
    Genesis {
        name: "test".into(),
        time_ms: 1_600_000_000_000,
        quorum: 2,
        members: (1..=MEMBERS)
            .map(|member| FirstMember {
                member,
                name: format!("member {member}"),
                role: if member <= ADMINS { Role::Admin } else { Role::User },
                key: member_key(member).public(),
            })
            .collect(),
        nodes: (1..=NODES).map(|node| (node, node_key(node).public())).collect(),
        rules: vec![
            rule(b"", 0, rights(true, true)),
            rule(b"private/", 5, rights(true, true)),
            rule(b"shown/", 5, rights(true, true)),
            rule(b"shown/", 0, rights(true, false)),
        ],
        paper: false,
    }
}

/// Signs requests in the name of all members, each in one lane.
pub struct Client {
    pub database: DatabaseId,
    counters: HashMap<MemberId, u64>,
}

impl Client {
    pub fn new() -> Client {
        Client {
            database: database_id(&genesis().encode().unwrap()),
            counters: HashMap::new(),
        }
    }

    /// Creates a client whose counters continue after `from`, the last counter of an earlier client.
    pub fn again(from: u64) -> Client {
        let counters = (1..=MEMBERS).map(|member| (member, from)).collect();
        Client {
            counters,
            ..Client::new()
        }
    }

    pub fn head(&mut self, member: MemberId) -> Head {
        let counter = self.counters.entry(member).or_default();
        *counter += 1;
        Head {
            database: self.database,
            member,
            key: 0,
            nonce: Nonce {
                lane: 0,
                counter: *counter,
            },
            expiry_ms: unix_ms() + 30_000,
        }
    }

    pub fn sign(&mut self, member: MemberId, body: Body<'_>) -> Bytes {
        let head = self.head(member);
        sign_as(&member_key(member), Request { head, body })
    }

    pub fn set(&mut self, member: MemberId, key: &str, read: Option<Version>, value: &str) -> Bytes {
        self.sign(member, Body::set(key.as_bytes(), read, value.as_bytes()))
    }

    pub fn get(&mut self, member: MemberId, key: &str) -> Bytes {
        let keys = vec![key.as_bytes()];
        self.sign(
            member,
            Body::Get {
                sees: Default::default(),
                keys,
            },
        )
    }
}

pub fn sign_as(key: &SecretKey, request: Request<'_>) -> Bytes {
    sign_request(key, &request.encode().unwrap()).into()
}

pub fn start<D: Disk>(disk: D) -> Node<D> {
    start_with(disk, Options::default())
}

pub fn start_with<D: Disk>(disk: D, options: Options) -> Node<D> {
    let bytes = genesis().encode().unwrap();
    Node::start(
        disk,
        &bytes,
        Arc::new(node_key(options.node)),
        options,
        embedded(),
    )
    .unwrap()
}

pub fn one<D: Disk>(node: &Node<D>, request: Bytes) -> Answer {
    node.ask(vec![request]).remove(0)
}

pub fn code<D: Disk>(node: &Node<D>, request: Bytes) -> Code {
    one(node, request).code()
}

pub fn version_of(answer: &Answer) -> Version {
    match answer {
        Answer::Placed { version, .. } => *version,
        other => panic!("not placed: {other:?}"),
    }
}

/// Returns the version and value in the answer to a get of one key.
pub fn shown(answer: &Answer) -> Option<(Version, String)> {
    match answer {
        Answer::Cells(cells) => cells[0]
            .as_ref()
            .map(|cell| (cell.version, String::from_utf8(cell.value.to_vec()).unwrap())),
        other => panic!("no cells: {other:?}"),
    }
}

/// Blocks the verifying thread of a node that has one such thread, until the returned sender is dropped. The thread
/// answers `request` itself, and this function's callback then blocks in that thread.
pub fn hold_verifier<D: Disk>(node: &Node<D>, request: Bytes) -> mpsc::Sender<()> {
    let (key_owner, held) = mpsc::channel::<()>();
    let (begin, begun) = mpsc::channel();
    node.submit(vec![request], move |_| {
        begin.send(()).unwrap();
        // `recv` returns with an error when the sender is dropped.
        let _ = held.recv();
    });
    begun.recv().unwrap();
    key_owner
}

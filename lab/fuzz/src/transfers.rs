//! Fuzz targets for the transfer service: packets to the host and the fast path, and the content of the journal and
//! snapshots.

use crate::input::Input;
use k256::ecdsa::SigningKey;
use lineside_fastpath::{BatchRequest, DropReason, FastPath, Reply, RequestOutcome, Source, Verdict};
use lineside_journal::{Options, SimDisk};
use lineside_transfer::AccountId;
use lineside_transfer::entry::Entry;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::host::{Host, SealPolicy, SessionPolicy, Setup};
use lineside_transfer::ledger::{Ledger, Limits};
use lineside_transfer::native::Outcome;
use lineside_transfer::paper::{PaperAnswer, PaperRequest};
use lineside_transfer::ring::{Record, Ring};
use lineside_transfer::settlement::Chain;
use lineside_transfer::store::{Geometry, Mode, Store};
use lineside_transfer::writer::StoreWriter;
use lineside_wire::{
    ExecuteHead, NATIVE_REPLY_BIT, Operation, SessionBody, SignedHead, TRANSFER_COMMAND_CREATE as CREATE,
    TRANSFER_COMMAND_ISSUE as ISSUE, TRANSFER_COMMAND_TRANSFER as TRANSFER,
    TRANSFER_CONTRACT_PENDING as PENDING, TRANSFER_CONTRACT_POST as POST, TRANSFER_FLAG_LINKED,
    TRANSFER_OP_EXECUTE, TRANSFER_OP_OPEN, TRANSFER_OP_REFER, TransferCode as Code, native,
};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use zerocopy::{FromZeros, IntoBytes};

const NOW_S: u64 = 1_800_000_000;
/// Maximum number of packets in one input.
const PACKETS_MAX: usize = 24;

fn from(byte: u8) -> Source {
    let address = match byte & 1 {
        0 => [127, 0, 0, 1],
        _ => [192, 0, 2, 7],
    };
    Source {
        address: address.into(),
        port: 40_000,
    }
}

fn key() -> SigningKey {
    SigningKey::from_slice(&[7; 32]).expect("a key")
}

fn store(mode: Mode) -> Arc<Store> {
    let geometry = Geometry {
        account_bits: 4,
        sessions: 4,
        rings: 1,
        ring_bits: 4,
        mode,
        ..Geometry::default()
    };
    let store = Arc::new(Store::anonymous(&geometry).expect("memory"));
    store.control().lease_until_ns.store(u64::MAX, Relaxed);
    store
}

struct Rig {
    disk: SimDisk,
    host: Host<SimDisk>,
    /// Fast path over the store that the host fills. The next field is a fast path that executes requests itself.
    fastpath: TransferFastPath,
    express: (Arc<Store>, TransferFastPath),
    /// Sum of the money that the records of the executing fast path have issued.
    issued: u128,
}

fn open(disk: SimDisk) -> Rig {
    let durable = store(Mode::Durable);
    let mut random = 1;
    let (host, _) = Host::open(
        disk.clone(),
        Options {
            segment_bytes: 256 << 10,
            record_bytes_max: 96 << 10,
            group_bytes_max: 128 << 10,
            ..Options::default()
        },
        Setup {
            limits: Limits {
                accounts: 16,
                sessions: 4,
                pendings: 1 << 20,
                keys: 1 << 20,
                key_window_s: 3600,
            },
            seal: SealPolicy {
                operations: 8,
                seconds: 10,
            },
            sessions: SessionPolicy {
                per_source: 2,
                ..SessionPolicy::default()
            },
            issuer_keys: Vec::new(),
            key_table_bytes: lineside_transfer::signed::TABLE_BYTES,
            express: None,
        },
        key(),
        Box::new(move || {
            random += 1;
            random
        }),
        Arc::clone(&durable),
        Box::new(StoreWriter::new(Arc::clone(&durable))),
    )
    .expect("it opens");
    let store = store(Mode::Express);
    store.sessions.as_slice()[0].token.store(TOKEN, Relaxed);
    Rig {
        disk,
        host,
        fastpath: TransferFastPath::new(durable),
        express: (Arc::clone(&store), TransferFastPath::new(store)),
        issued: 0,
    }
}

/// Token of the first session, which follows from the host's function `random`.
const TOKEN: u64 = 7;

impl Rig {
    fn ask(&mut self, from: Source, payload: &[u8]) -> RequestOutcome {
        let said = self.host.group(NOW_S, &[BatchRequest { from, payload }]);
        said.into_iter().next().expect("one for one")
    }
}

fn framed(packets: &[Vec<u8>]) -> Vec<u8> {
    let frame = |packet: &Vec<u8>| [&[0], &(packet.len() as u16).to_le_bytes()[..], packet].concat();
    packets.iter().flat_map(frame).collect()
}

fn session_packet(challenge: [u8; 16]) -> Vec<u8> {
    let body = SessionBody {
        challenge,
        ..SessionBody::new_zeroed()
    };
    let header = native::request_header(TRANSFER_OP_OPEN, 1, size_of::<SessionBody>() as u16);
    [header.as_bytes(), body.as_bytes()].concat()
}

fn operation(command: u8, source: u32, destination: u32, amount: u64) -> Operation {
    let mut operation = Operation::new_zeroed();
    operation.command = command;
    operation.source = AccountId::from_paper(source).0;
    if destination > 0 {
        operation.destination = AccountId::from_paper(destination).0;
    }
    operation.amount = amount.into();
    operation
}

fn operations() -> Vec<Operation> {
    let mut pending = operation(TRANSFER, 1, 2, 5);
    pending.contract = PENDING.into();
    let mut post = pending;
    post.contract = POST.into();
    let mut linked = operation(TRANSFER, 1, 2, 1);
    linked.flags = TRANSFER_FLAG_LINKED;
    vec![
        operation(CREATE, 1, 0, 50),
        operation(CREATE, 2, 0, 0),
        linked,
        operation(TRANSFER, 2, 1, 9),
        pending,
        post,
    ]
}

fn execute(sequence: u64, operations: &[Operation]) -> Vec<u8> {
    let bytes = size_of::<ExecuteHead>() + size_of_val(operations);
    let head = ExecuteHead {
        token: TOKEN.into(),
        sequence: sequence.into(),
        slot: 0.into(),
        count: (operations.len() as u16).into(),
        durability: 0.into(),
    };
    let header = native::request_header(TRANSFER_OP_EXECUTE, sequence, bytes as u16);
    [header.as_bytes(), head.as_bytes(), operations.as_bytes()].concat()
}

pub fn request_seeds() -> Vec<Vec<u8>> {
    let mut rig = open(SimDisk::new(1));
    let first = session_packet([0; 16]);
    let reply = rig.ask(from(0), &first).reply.expect("a challenge");
    let opens = [first, session_packet(std::array::from_fn(|at| reply[16 + at]))];
    let reply = rig.ask(from(0), &opens[1]).reply.expect("a session");
    assert_eq!(reply[32..40], TOKEN.to_be_bytes());
    let paper = |command, id, amount| PaperRequest::new(command, id, 1, 2, amount).to_bytes().to_vec();
    let mut refer = native::request_header(TRANSFER_OP_REFER, 5, 8 + 48)
        .as_bytes()
        .to_vec();
    refer.extend([0, 0, 0, 1, 0, 0, 0, 0]);
    refer.extend(AccountId::from_paper(1).0);
    refer.extend([0; 32]);
    let all = operations();
    let packets = [
        vec![
            paper(CREATE, 1, 50),
            paper(TRANSFER, 2, 7),
            paper(TRANSFER, 2, 7),
            paper(4, 3, 0),
        ],
        [&opens[..], &[execute(1, &all), execute(1, &all), refer]].concat(),
        [&opens[..], &[execute(1, &all[..2]), execute(2, &all[3..4])]].concat(),
        vec![execute(1, &all[..2]), execute(2, &all[3..4])],
    ];
    packets.map(|packets| framed(&packets)).to_vec()
}

/// Checks, for any packets: no reply is longer than its request; the fast path and the host drop the same packets, and
/// the fast path answers REFER like the host; two servers that are made to answer each other stop; money is neither
/// created nor lost, at the host and at a fast path that executes; after a power cut, the state is unchanged.
pub fn request(data: &[u8]) {
    let mut rig = open(SimDisk::new(1));
    let mut input = Input(data);
    for _ in 0..PACKETS_MAX {
        if input.is_empty() {
            break;
        }
        let (from, length) = (from(input.byte()), u16::from_le_bytes(input.array()));
        let payload = input.take(length.into());
        one(&mut rig, from, payload);
    }
    assert_eq!(held(&rig.express.0), rig.issued);
    let before = rig.host.ledger().to_bytes();
    assert_eq!(rig.host.ledger().sum_of_balances(), rig.host.ledger().issued());
    assert_eq!(rig.host.failed(), None);
    let disk = rig.disk.clone();
    drop(rig);
    disk.power_cut();
    assert_eq!(open(disk).host.ledger().to_bytes(), before);
}

fn one(rig: &mut Rig, from: Source, payload: &[u8]) {
    let mut by_fastpath = Reply::default();
    let verdict = rig.fastpath.answer(from, 1, payload, &mut by_fastpath);
    let mut by_express = Reply::default();
    let express = rig.express.1.answer(from, 1, payload, &mut by_express);
    let said = rig.ask(from, payload);
    assert_eq!(said.reply.is_some(), said.drop.is_none());
    for verdict in [verdict, express] {
        match verdict {
            Verdict::Drop(reason) => assert_eq!(said.drop, Some(reason)),
            _ => assert_eq!(said.drop, None),
        }
    }
    if express == Verdict::Reply {
        assert_eq!(by_express.as_bytes().len(), payload.len());
    }
    rig.issued += drain(&rig.express.0);
    let Some(reply) = said.reply else { return };
    assert!(reply.len() <= payload.len());
    if verdict == Verdict::Reply {
        assert_eq!(by_fastpath.as_bytes(), reply);
    }
    let bounced = rig.ask(from, &reply);
    let is_paper = (20..=22).contains(&reply.len());
    let ends = matches!(bounced.drop, Some(DropReason::ReplyBit | DropReason::NotARequest));
    // A reply in the paper's format that is not a refusal looks like a request. The server executes it only once more
    // and then refuses it.
    assert!(ends || is_paper, "two servers would answer each other forever");
    assert!(is_paper || reply[3] & NATIVE_REPLY_BIT != 0);
}

/// Empties the ring as the host does. Returns the money that its records have issued.
fn drain(store: &Store) -> u128 {
    let ring = Ring::of(store, 0);
    let end = ring.tail() + ring.waiting();
    let records = (ring.tail()..end).map(|at| ring.read(at).expect("written"));
    let is_money =
        |record: &Record| [CREATE, ISSUE].contains(&record.command) && record.code == Code::Done as u16;
    let issued = records
        .filter(is_money)
        .map(|record| u128::from(record.amount))
        .sum();
    ring.release(end);
    issued
}

/// Returns the sum of the balances in all cells of a fast path.
fn held(store: &Store) -> u128 {
    let cells = store.cells.as_slice().iter();
    cells.map(|cell| u128::from(cell.balance.load(Relaxed))).sum()
}

// ---- what the journal and snapshots hold ----

fn entries() -> Vec<Entry> {
    let operations = operations();
    let mut chain = Chain::new(*key().verifying_key());
    chain.push(&[1; 96]);
    vec![
        Entry::Limits {
            limits: Limits {
                accounts: 9,
                sessions: 2,
                pendings: 1 << 20,
                keys: 1 << 20,
                key_window_s: 3600,
            },
            mode: Mode::Durable,
        },
        Entry::Paper {
            request: PaperRequest::new(TRANSFER, 1, 2, 3, 4),
            answer: PaperAnswer::refused(Code::Frozen),
        },
        Entry::Partly {
            slot: 0,
            sequence: 1,
            now_s: NOW_S,
            sum: 5,
            codes: vec![Code::Frozen, Code::Done, Code::Overflow],
            operations: operations[..1].to_vec(),
            outcomes: vec![Outcome::refused(Code::Done)],
        },
        Entry::Execute {
            slot: 0,
            sequence: 1,
            now_s: NOW_S,
            outcomes: vec![Outcome::refused(Code::Overflow); operations.len()],
            operations: operations.clone(),
            signed: None,
        },
        Entry::Execute {
            slot: 1,
            sequence: 2,
            now_s: NOW_S,
            outcomes: vec![Outcome::refused(Code::Frozen); operations.len()],
            operations,
            signed: Some(Box::new(SignedHead::new_zeroed())),
        },
        Entry::Open {
            slot: 1,
            token: 2,
            opener: [3; 16],
            now_s: NOW_S,
        },
        Entry::Close { slot: 1 },
        Entry::Refused {
            slot: 1,
            sequence: 3,
            now_s: NOW_S,
            sum: 4,
            codes: vec![Code::Frozen, Code::Overflow, Code::Overflow],
            rest: 0,
        },
        Entry::Refused {
            slot: 1,
            sequence: 4,
            now_s: NOW_S,
            sum: 5,
            codes: vec![Code::UnknownAccount; 16],
            rest: 0,
        },
        Entry::Refused {
            slot: 1,
            sequence: 5,
            now_s: NOW_S,
            sum: 6,
            codes: [Code::Frozen, Code::Overflow].repeat(42),
            rest: 1,
        },
        Entry::PaperRefused {
            request: PaperRequest::new(TRANSFER, 1, 2, 3, 4),
            code: Code::Frozen,
            version: 5,
        },
        Entry::Time { now_s: NOW_S },
        Entry::Expire((AccountId([1; 16]), [2; 16])),
        Entry::Block(chain.seal(&key(), 1, 2, 3)),
    ]
}

pub fn entry_seeds() -> Vec<Vec<u8>> {
    let seed = |entry: &Entry| [&[entry.kind()], &entry.to_bytes()[..]].concat();
    entries().iter().map(seed).collect()
}

/// Checks that a record is one entry, which is encoded to the same bytes again, or is invalid.
pub fn entry(data: &[u8]) {
    let Some((kind, payload)) = data.split_first() else {
        return;
    };
    if let Some(entry) = Entry::from_record(*kind, payload) {
        assert_eq!((entry.kind(), &entry.to_bytes()[..]), (*kind, payload));
    }
}

pub fn ledger_seeds() -> Vec<Vec<u8>> {
    let mut ledger = Ledger::new(Limits {
        accounts: 9,
        sessions: 2,
        pendings: 1 << 20,
        keys: 1 << 20,
        key_window_s: 3600,
    });
    let empty = ledger.to_bytes();
    ledger.paper(&PaperRequest::new(CREATE, 1, 7, 0, 70), true);
    ledger.open(1, 5, [6; 16], NOW_S);
    ledger.execute(1, 1, &operations()[..5], |_, _| Ok(()), NOW_S);
    vec![empty, ledger.to_bytes()]
}

/// Checks that the accounts of a decoded ledger add up, and still do after further operations.
pub fn ledger(data: &[u8]) {
    let Some(mut ledger) = Ledger::from_bytes(data) else {
        return;
    };
    assert_eq!(ledger.sum_of_balances(), ledger.issued());
    let bytes = ledger.to_bytes();
    let again = Ledger::from_bytes(&bytes).expect("a ledger decodes its own encoding");
    assert_eq!(again.to_bytes(), bytes);
    for id in ledger.expired(u64::MAX) {
        assert!(ledger.expire(&id));
    }
    ledger.set_limits(Limits {
        accounts: u64::MAX,
        sessions: 1,
        pendings: 1 << 20,
        keys: 1 << 20,
        key_window_s: 3600,
    });
    let ids: Vec<AccountId> = ledger.accounts().map(|(id, _)| *id).collect();
    for pair in ids.windows(2) {
        let mut operation = operation(TRANSFER, 0, 0, 1);
        (operation.source, operation.destination) = (pair[0].0, pair[1].0);
        ledger.execute(u32::MAX, 1, &[operation], |_, _| Ok(()), NOW_S);
    }
    assert_eq!(ledger.sum_of_balances(), ledger.issued());
}

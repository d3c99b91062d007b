//! A host on a simulated disk, and packets to send to it.
#![allow(dead_code, reason = "each test uses what it needs")]

pub mod line;

use k256::ecdsa::SigningKey;
use lineside_fastpath::{BatchRequest, Source};
use lineside_journal::{Options, SimDisk};
use lineside_messages::transfer::KeyId;
use lineside_testkit::Random;
use lineside_transfer::AccountId;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::host::{Host, OpenError, OpenedLedger, SealPolicy, SessionPolicy, Setup};
use lineside_transfer::ledger::Limits;
use lineside_transfer::paper::PaperRequest;
use lineside_transfer::store::{Geometry, Store};
use lineside_transfer::writer::StoreWriter;
use lineside_wire::{
    ExecuteHead, Operation, SessionBody, TRANSFER_OP_EXECUTE, TRANSFER_OP_OPEN, TransferCode, native,
};
use std::net::Ipv4Addr;
use std::sync::Arc;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

pub const LOOPBACK: Source = Source {
    address: std::net::IpAddr::V4(Ipv4Addr::LOCALHOST),
    port: 40_000,
};
pub const ELSEWHERE: Source = Source {
    address: std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)),
    port: 40_000,
};
pub const NOW_S: u64 = 1_800_000_000;

pub fn key() -> SigningKey {
    SigningKey::from_slice(&[7; 32]).unwrap()
}

pub fn geometry() -> Geometry {
    Geometry {
        account_bits: 8,
        sessions: 16,
        ..Geometry::default()
    }
}

pub fn limits() -> Limits {
    Limits {
        accounts: 256,
        sessions: 16,
        pendings: 2_000,
        keys: 1 << 20,
        key_window_s: 3600,
    }
}

/// Journal sizes for the tests: large enough for the packets of every test, and so small that the journal has several
/// segments.
pub fn options() -> Options {
    Options {
        segment_bytes: 64 << 10,
        record_bytes_max: 8 << 10,
        group_bytes_max: 32 << 10,
        ..Options::default()
    }
}

pub struct Server {
    pub host: Host<SimDisk>,
    pub fastpath: TransferFastPath,
    pub store: Arc<Store>,
    pub opened: OpenedLedger,
}

pub fn random(seed: u64) -> Box<dyn FnMut() -> u64 + Send> {
    let mut random = Random(seed);
    Box::new(move || random.next())
}

pub fn start(disk: &SimDisk, seed: u64, seal: SealPolicy) -> Result<Server, OpenError> {
    start_with(disk, seed, seal, Vec::new())
}

/// Starts a server with keys that may issue money.
pub fn start_with(
    disk: &SimDisk,
    seed: u64,
    seal: SealPolicy,
    issuer_keys: Vec<KeyId>,
) -> Result<Server, OpenError> {
    start_in(disk, seed, seal, limits(), policy(), issuer_keys)
}

/// Session policy with four sessions for each address and default values otherwise.
pub fn policy() -> SessionPolicy {
    SessionPolicy {
        per_source: 4,
        ..SessionPolicy::default()
    }
}

/// Starts a server with these limits.
pub fn start_in(
    disk: &SimDisk,
    seed: u64,
    seal: SealPolicy,
    limits: Limits,
    policy: SessionPolicy,
    issuer_keys: Vec<KeyId>,
) -> Result<Server, OpenError> {
    let geometry = Geometry {
        sessions: limits.sessions,
        ..geometry()
    };
    let store = Arc::new(Store::anonymous(&geometry).unwrap());
    store
        .control()
        .lease_until_ns
        .store(u64::MAX, std::sync::atomic::Ordering::Relaxed);
    let fill = Box::new(StoreWriter::new(Arc::clone(&store)));
    let (host, opened) = Host::open(
        disk.clone(),
        options(),
        Setup {
            limits,
            seal,
            sessions: policy,
            issuer_keys,
            key_table_bytes: lineside_transfer::signed::TABLE_BYTES,
            express: None,
        },
        key(),
        random(seed),
        Arc::clone(&store),
        fill,
    )?;
    Ok(Server {
        host,
        fastpath: TransferFastPath::new(Arc::clone(&store)),
        store,
        opened,
    })
}

impl Server {
    pub fn ask_at(&mut self, now_s: u64, from: Source, payload: &[u8]) -> Option<Vec<u8>> {
        let said = self.host.group(now_s, &[BatchRequest { from, payload }]);
        said.into_iter().next().unwrap().reply
    }

    pub fn ask(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        self.ask_at(NOW_S, LOOPBACK, payload)
    }

    /// Returns the command field and the amount of the reply to a request in the paper's format.
    pub fn paper(&mut self, command: u8, id: u32, source: u32, destination: u32, amount: u32) -> (u32, u32) {
        let request = PaperRequest::new(command, id, source, destination, amount).to_bytes();
        let reply = self.ask(&request).unwrap();
        assert_eq!(reply[4..16], request[4..16]);
        let word = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().unwrap());
        (word(0), word(16))
    }

    pub fn open(&mut self) -> (u32, u64) {
        self.open_from(LOOPBACK)
    }

    pub fn open_from(&mut self, from: Source) -> (u32, u64) {
        let body = SessionBody::new_zeroed();
        let packet = session_packet(TRANSFER_OP_OPEN, &body);
        let first = self.ask_at(NOW_S, from, &packet).unwrap();
        let challenge = SessionBody::ref_from_bytes(&first[16..]).unwrap().challenge;
        let body = SessionBody { challenge, ..body };
        let packet = session_packet(TRANSFER_OP_OPEN, &body);
        let second = self.ask_at(NOW_S, from, &packet).unwrap();
        let body = SessionBody::ref_from_bytes(&second[16..]).unwrap();
        assert_eq!(body.sequence.get(), 1);
        (body.slot.get(), body.token.get())
    }

    /// Returns code and amount of each operation.
    pub fn execute(
        &mut self,
        session: (u32, u64),
        sequence: u64,
        operations: &[Operation],
    ) -> Vec<(TransferCode, u64)> {
        let reply = self.ask(&execute_packet(session, sequence, operations)).unwrap();
        assert_eq!(u16::from_be_bytes([reply[4], reply[5]]), 0, "status");
        outcomes(&reply)
    }
}

pub fn outcomes(reply: &[u8]) -> Vec<(TransferCode, u64)> {
    let operations = <[Operation]>::ref_from_bytes(&reply[40..]).unwrap();
    let outcome = |operation: &Operation| {
        (
            TransferCode::from_code(operation.code.get()).unwrap(),
            operation.amount.get(),
        )
    };
    operations.iter().map(outcome).collect()
}

pub fn session_packet(op: u8, body: &SessionBody) -> Vec<u8> {
    let header = native::request_header(op, 99, size_of::<SessionBody>() as u16);
    [header.as_bytes(), body.as_bytes()].concat()
}

pub fn execute_packet(session: (u32, u64), sequence: u64, operations: &[Operation]) -> Vec<u8> {
    let bytes = size_of::<ExecuteHead>() + size_of_val(operations);
    let header = native::request_header(TRANSFER_OP_EXECUTE, sequence, bytes as u16);
    let head = ExecuteHead {
        token: session.1.into(),
        sequence: sequence.into(),
        slot: session.0.into(),
        count: (operations.len() as u16).into(),
        durability: 0.into(),
    };
    [header.as_bytes(), head.as_bytes(), operations.as_bytes()].concat()
}

pub fn operation(command: u8, source: u32, destination: u32, amount: u64) -> Operation {
    let mut operation = Operation::new_zeroed();
    operation.command = command;
    operation.source = AccountId::from_paper(source).0;
    if destination != 0 {
        operation.destination = AccountId::from_paper(destination).0;
    }
    operation.amount = amount.into();
    operation
}

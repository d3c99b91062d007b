//! Fast path that executes operations, and its host, with one ring and with limits by source.

use super::{LOOPBACK, NOW_S, geometry, key, limits, options, random};
use lineside_fastpath::{BatchRequest, FastPath, Readers, Reply, Source, Verdict, lease};
use lineside_journal::SimDisk;
use lineside_transfer::claims::{Claims, Slot, StoreClaims};
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::host::{Executing, Host, SealPolicy, SessionPolicy, Setup};
use lineside_transfer::ledger::{Change, Limits};
use lineside_transfer::paper::PaperRequest;
use lineside_transfer::store::{Geometry, Mode, Store};
use lineside_transfer::writer::StoreWriter;
use lineside_wire::TRANSFER_COMMAND_CREATE as CREATE;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Number of records in a ring, which is the number of packets that the fast path can refuse before the host applies
/// them.
pub const RING: u64 = 64;

/// Claims that can be made to fail a given number of times.
#[derive(Debug)]
pub struct Failing {
    pub claims: StoreClaims,
    pub fails: AtomicU64,
}

impl Claims for Failing {
    fn claim(&self, cells: &[u32], slots: &[u32]) -> io::Result<()> {
        let left = self
            .fails
            .fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        match left {
            Ok(_) => Err(io::Error::other("injected by the test")),
            Err(_) => self.claims.claim(cells, slots),
        }
    }

    fn put(&self, step: &[(u32, Change)]) -> io::Result<()> {
        self.claims.put(step)
    }

    fn put_session(&self, slot: &Slot) -> io::Result<()> {
        self.claims.put_session(slot)
    }

    fn give_back(&self, cells: &[u32], slots: &[u32]) -> io::Result<()> {
        self.claims.give_back(cells, slots)
    }
}

pub struct ExpressServer {
    pub store: Arc<Store>,
    pub fastpath: TransferFastPath,
    pub host: Host<SimDisk>,
    pub claims: Arc<Failing>,
    pub now_s: u64,
}

pub fn stranger(network: u8) -> Source {
    Source {
        address: [203, 0, network, 1].into(),
        port: 5_000,
    }
}

pub fn store() -> Arc<Store> {
    let geometry = Geometry {
        mode: Mode::Express,
        rings: 1,
        ring_bits: RING.ilog2(),
        sessions: 256,
        ..geometry()
    };
    Arc::new(Store::anonymous(&geometry).unwrap())
}

pub fn start_on(disk: &SimDisk, store: Arc<Store>, refusals_per_s: u32) -> ExpressServer {
    let claims = Arc::new(Failing {
        claims: StoreClaims::new(Arc::clone(&store)),
        fails: AtomicU64::new(0),
    });
    let setup = Setup {
        limits: Limits {
            sessions: 256,
            ..limits()
        },
        seal: SealPolicy::default(),
        sessions: SessionPolicy {
            refusals_per_s,
            ..SessionPolicy::default()
        },
        issuer_keys: Vec::new(),
        key_table_bytes: lineside_transfer::signed::TABLE_BYTES,
        express: Some(Executing {
            readers: Readers::default(),
            lease_ns: 1 << 40,
            claims: Arc::clone(&claims) as _,
        }),
    };
    let (host, _) = Host::open(
        disk.clone(),
        options(),
        setup,
        key(),
        random(1),
        Arc::clone(&store),
        Box::new(StoreWriter::new(Arc::clone(&store))),
    )
    .unwrap();
    let fastpath = TransferFastPath::new(Arc::clone(&store));
    let mut line = ExpressServer {
        store,
        fastpath,
        host,
        claims,
        now_s: NOW_S,
    };
    line.host.tick(NOW_S);
    line
}

/// Creates accounts 1 and 2 in the fast path.
pub fn start(disk: &SimDisk, refusals_per_s: u32) -> ExpressServer {
    let mut line = start_on(disk, store(), refusals_per_s);
    for (account, amount) in [(1, 1_000_000), (2, 0)] {
        let create = PaperRequest::new(CREATE, 0, account, 0, amount).to_bytes();
        assert!(line.ask(LOOPBACK, &create).1);
    }
    line
}

impl ExpressServer {
    /// Returns the reply, and whether the fast path gave it.
    pub fn ask(&mut self, from: Source, payload: &[u8]) -> (Vec<u8>, bool) {
        let mut reply = Reply::default();
        match self.fastpath.answer(from, lease::now_ns(), payload, &mut reply) {
            Verdict::Reply => (reply.as_bytes().to_vec(), true),
            Verdict::Forward => (self.host_says(from, payload), false),
            Verdict::Drop(reason) => panic!("{reason:?}"),
        }
    }

    pub fn host_says(&mut self, from: Source, payload: &[u8]) -> Vec<u8> {
        let said = self.host.group(self.now_s, &[BatchRequest { from, payload }]);
        said.into_iter().next().unwrap().reply.unwrap()
    }
}

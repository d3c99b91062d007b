//! System under test: a host on a disk, and the fast path.

use crate::oracle::Oracle;
use k256::ecdsa::SigningKey;
use lineside_fastpath::Readers;
use lineside_journal::{Options, SimDisk};
use lineside_testkit::Random;
use lineside_transfer::claims::StoreClaims;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::host::{Executing, Host, OpenError, SealPolicy, SessionPolicy, Setup};
use lineside_transfer::ledger::Limits;
use lineside_transfer::store::{Geometry, Mode, Store};
use lineside_transfer::writer::StoreWriter;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

const LIMITS: Limits = Limits {
    accounts: 16,
    sessions: 64,
    pendings: 1 << 20,
    keys: 24,
    key_window_s: 40,
};
const SESSIONS_PER_SOURCE: usize = 48;
/// Number of the fast path's CPUs in `express`.
const CPUS: usize = 3;

pub fn key() -> SigningKey {
    SigningKey::from_slice(&[7; 32]).unwrap()
}

/// Settings of a run.
#[derive(Clone, Copy, Debug)]
pub struct RunSettings {
    pub seal: SealPolicy,
    /// log2 of the number of accounts for which the fast path has four cells each.
    pub account_bits: u32,
    pub is_express: bool,
    pub requires_signature: bool,
    /// True if records may be as large as a packet over a stream.
    pub is_large: bool,
}

impl RunSettings {
    pub fn durable(seal: SealPolicy, account_bits: u32) -> Self {
        Self {
            seal,
            account_bits,
            is_express: false,
            requires_signature: false,
            is_large: false,
        }
    }

    fn options(&self) -> Options {
        let times = if self.is_large { 32 } else { 1 };
        Options {
            segment_bytes: times * (16 << 10),
            record_bytes_max: times as u32 * (4 << 10),
            group_bytes_max: times * (6 << 10),
            ..Options::default()
        }
    }

    pub fn oracle(&self) -> Oracle {
        let mut oracle = Oracle::new(LIMITS.accounts as usize, LIMITS.sessions, SESSIONS_PER_SOURCE);
        (oracle.keys_max, oracle.key_window_s) = (LIMITS.keys as usize, LIMITS.key_window_s);
        oracle.is_express = self.is_express;
        oracle.requires_signature = self.requires_signature;
        oracle
    }
}

/// Fast path of a run; it may survive a killed host process.
pub struct SimulatedFastPath {
    pub store: Arc<Store>,
    pub fastpath: TransferFastPath,
    /// One instance of the fast path for each CPU.
    pub cpus: Vec<TransferFastPath>,
}

impl SimulatedFastPath {
    fn new(setting: &RunSettings) -> Result<Self, OpenError> {
        let geometry = Geometry {
            account_bits: setting.account_bits,
            sessions: 64,
            rings: CPUS as u32,
            ring_bits: 3,
            mode: if setting.is_express {
                Mode::Express
            } else {
                Mode::Durable
            },
            require_signature: setting.requires_signature,
            ..Geometry::default()
        };
        let store = Arc::new(Store::anonymous(&geometry)?);
        if !setting.is_express {
            store.control().lease_until_ns.store(u64::MAX, Relaxed);
        }
        Ok(Self {
            fastpath: TransferFastPath::new(Arc::clone(&store)),
            cpus: (0..CPUS)
                .map(|cpu| TransferFastPath::on_cpu(Arc::clone(&store), cpu))
                .collect(),
            store,
        })
    }
}

/// Host, together with the fast path over its store.
pub struct Server {
    pub host: Host<SimDisk>,
    pub line: SimulatedFastPath,
}

/// Starts a host. `left` is the fast path that the previous host left, if it survived.
pub fn start(
    disk: &SimDisk,
    rng: &mut Random,
    setting: &RunSettings,
    left: Option<&Arc<Store>>,
) -> Result<Server, OpenError> {
    let mut line = SimulatedFastPath::new(setting)?;
    if let Some(store) = left {
        line.store = Arc::clone(store);
        line.fastpath = TransferFastPath::new(Arc::clone(store));
        let on_cpu = |cpu| TransferFastPath::on_cpu(Arc::clone(store), cpu);
        line.cpus = (0..CPUS).map(on_cpu).collect();
    }
    let mut random = Random(rng.next());
    let (host, _) = Host::open(
        disk.clone(),
        setting.options(),
        Setup {
            limits: LIMITS,
            seal: setting.seal,
            sessions: SessionPolicy {
                per_source: SESSIONS_PER_SOURCE,
                ..SessionPolicy::default()
            },
            issuer_keys: Vec::new(),
            key_table_bytes: lineside_transfer::signed::TABLE_BYTES,
            express: setting.is_express.then(|| Executing {
                readers: Readers::default(),
                lease_ns: 1 << 60,
                claims: Arc::new(StoreClaims::new(Arc::clone(&line.store))),
            }),
        },
        key(),
        Box::new(move || random.next()),
        Arc::clone(&line.store),
        Box::new(StoreWriter::new(Arc::clone(&line.store))),
    )?;
    Ok(Server { host, line })
}

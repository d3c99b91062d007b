//! The host of a vector file of `transfer`: a ledger on a simulated disk, which follows the table of a fast path.

use super::{Disk, File, Mode};
use k256::ecdsa::SigningKey;
use lineside_fastpath::{BatchRequest, Readers, RequestOutcome, Source, lease};
use lineside_journal::{Options, SimDisk};
use lineside_transfer::claims::{Claims, StoreClaims};
use lineside_transfer::datapath;
use lineside_transfer::host::{Executing, Host, SealPolicy, SessionPolicy, Setup, audit};
use lineside_transfer::ledger::Limits;
use lineside_transfer::store::{self, Geometry, Range, Store};
use lineside_transfer::writer::{StoreWriter, TransferFill};
use lineside_wire::{TRANSFER_OP_OPEN, native};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use zerocopy::IntoBytes;

/// Time of the first vector of a file, in seconds since 1970.
pub const NOW_S: u64 = 1_800_000_000;
/// Length of a lease in nanoseconds.
const LEASE_NS: u64 = 1 << 40;

/// Returns the geometry of the fast-path table of a vector file.
///
/// # Panics
/// The file has an invalid address range.
pub fn geometry(file: &File) -> Geometry {
    let range = |text: &String| {
        let (address, bits) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address.parse().expect("an address");
        let longest = if address.is_ipv4() { 32 } else { 128 };
        Range {
            address,
            prefix_bits: bits.parse().unwrap_or(longest),
        }
    };
    Geometry {
        account_bits: file.state.account_bits,
        sessions: file.state.sessions_max,
        rings: datapath::rings().expect("CPUs"),
        ring_bits: file.state.ring_bits,
        mode: match file.state.mode {
            Mode::Durable => store::Mode::Durable,
            Mode::Express => store::Mode::Express,
        },
        paper_format: file.state.paper_format,
        require_signature: file.state.require_signature,
        issuers: file.state.issuers.iter().map(range).collect(),
    }
}

/// Host of a vector file, over the store of a fast path. Its methods panic if the host does not do what the file needs.
pub struct VectorHost {
    /// The host.
    pub host: Host<SimDisk>,
    /// Threads that answer from the store.
    pub readers: Readers,
    disk: SimDisk,
    key: SigningKey,
    store: Arc<Store>,
}

impl VectorHost {
    /// Returns the host in the state of the file. `kernel` is true if BPF programs answer from the store.
    pub fn new(file: &File, store: &Arc<Store>, kernel: bool) -> Self {
        let claims = Arc::new(StoreClaims::new(Arc::clone(store)));
        let fill = Box::new(StoreWriter::new(Arc::clone(store)));
        Self::with(file, store, Readers::new(kernel), claims, fill)
    }

    /// Returns a host with other claims on the fast path, and another writer of its table.
    pub fn with(
        file: &File,
        store: &Arc<Store>,
        readers: Readers,
        claims: Arc<dyn Claims + Send + Sync>,
        fill: Box<dyn TransferFill>,
    ) -> Self {
        let (disk, key) = (SimDisk::new(1), SigningKey::from_slice(&[7; 32]).expect("a key"));
        // Random numbers for the host: first the one that it draws for itself, then the tokens of the file, then
        // arbitrary ones.
        let tokens: Arc<Mutex<VecDeque<u64>>> = Arc::default();
        let (drawn, mut other) = (Arc::clone(&tokens), 0x1000);
        let random = move || {
            other += 1;
            drawn.lock().expect("tokens").pop_front().unwrap_or(other)
        };
        let is_express = file.state.mode == Mode::Express;
        let setup = Setup {
            limits: Limits {
                accounts: file.state.accounts_max,
                sessions: file.state.sessions_max,
                pendings: 1 << 20,
                keys: 1 << 20,
                key_window_s: 3600,
            },
            seal: SealPolicy::default(),
            // The file says how many sessions may exist; the limit by address must not be lower.
            sessions: SessionPolicy {
                trusted: vec![Range {
                    address: std::net::Ipv6Addr::UNSPECIFIED.into(),
                    prefix_bits: 0,
                }],
                ..SessionPolicy::default()
            },
            issuer_keys: Vec::new(),
            key_table_bytes: lineside_transfer::signed::TABLE_BYTES,
            express: is_express.then(|| Executing {
                readers: readers.clone(),
                lease_ns: LEASE_NS,
                claims,
            }),
        };
        let options = Options {
            segment_bytes: 64 << 10,
            record_bytes_max: 8 << 10,
            group_bytes_max: 32 << 10,
            ..Options::default()
        };
        let (host, _) = Host::open(
            disk.clone(),
            options,
            setup,
            key.clone(),
            Box::new(random),
            Arc::clone(store),
            fill,
        )
        .expect("an empty disk");
        lease::renew(&store.control().lease_until_ns, LEASE_NS);
        let mut behind = Self {
            host,
            readers,
            disk,
            key,
            store: Arc::clone(store),
        };
        let all = file.state.sessions.iter().map(|token| hex(token));
        tokens.lock().expect("tokens").extend(all);
        for (slot, token) in file.state.sessions.iter().enumerate() {
            behind.open(file.state.opener, slot as u32, hex(token));
        }
        if file.state.disk == Disk::Full {
            behind.fill_disk();
        }
        behind
    }

    /// Returns the result of one request, `at_s` seconds after [`NOW_S`].
    pub fn ask(&mut self, at_s: u64, from: Source, payload: &[u8]) -> RequestOutcome {
        let said = self.host.group(NOW_S + at_s, &[BatchRequest { from, payload }]);
        said.into_iter().next().unwrap_or_default()
    }

    fn open(&mut self, address: IpAddr, slot: u32, token: u64) {
        let from = Source {
            address,
            port: slot as u16 + 1,
        };
        let mut packet = [
            native::request_header(TRANSFER_OP_OPEN, 0, 40).as_bytes(),
            &[0; 40],
        ]
        .concat();
        let challenge = self.ask(0, from, &packet).reply.expect("a challenge");
        packet[16..32].copy_from_slice(&challenge[16..32]);
        let granted = self.ask(0, from, &packet).reply.expect("a session");
        assert_eq!(granted[4..6], [0, 0], "no session");
        assert_eq!(granted[32..40], token.to_be_bytes());
        assert_eq!(granted[48..52], slot.to_be_bytes());
    }

    /// Fills the journal's disk.
    fn fill_disk(&mut self) {
        self.disk.set_capacity_bytes(Some(self.disk.used_bytes()));
        let from = Source {
            address: [10, 0, 0, 9].into(),
            port: 9,
        };
        // The requests are a CREATE, then ISSUE of 0 again and again, until one is refused because the disk is full.
        for command in std::iter::once(1).chain(std::iter::repeat(2)) {
            let mut packet = [0; 20];
            (packet[3], packet[8]) = (command, 0xf0);
            let reply = self.ask(0, from, &packet).reply.expect("an answer");
            if reply[0] & 0x80 != 0 {
                assert_eq!(reply[16..20], [0, 0, 0, 8], "busy");
                return;
            }
        }
    }

    /// Checks at the end that the journal has all operations, and that its replay gives the same state.
    pub fn check(&mut self) {
        self.host.drain();
        assert_eq!((self.host.failed(), self.host.unjournaled()), (None, 0));
        let ledger = self.host.ledger();
        assert_eq!(ledger.sum_of_balances(), ledger.issued());
        for (id, account) in ledger.accounts() {
            let Some(index) = self.store.find(id) else {
                panic!("{id} is not in the fast path");
            };
            let found = self.store.cells.as_slice()[index].balance.load(Relaxed);
            assert_eq!(found, account.holding.balance, "{id}");
        }
        let told = audit(&self.disk, *self.key.verifying_key()).expect("an audit");
        assert_eq!(
            (told.operations, told.balances),
            (ledger.number(), ledger.sum_of_balances()),
            "the journal replays to another state"
        );
    }
}

fn hex(token: &str) -> u64 {
    u64::from_str_radix(token, 16).expect("16 hex digits")
}

//! Complete `transfer` service at an interface of the calling thread's namespace, with its own data directory.
#![allow(dead_code, reason = "each test uses what it needs")]

use lineside_fastpath::{DropReason, Readers, lease};
use lineside_journal::FsDisk;
use lineside_net::{SocketDatapath, SocketOptions};
use lineside_testkit::skipped;
use lineside_transfer::datapath as transfer;
use lineside_transfer::datapath::LineClaims;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::host::{Audit, Executing, SealPolicy, SessionPolicy, Setup, audit};
use lineside_transfer::ledger::Limits;
use lineside_transfer::server::{KEY_FILE, Report, Server as Ledger, load_key, lock};
use lineside_transfer::store::{Geometry, Mode, Range, Store};
use lineside_wire::{TRANSFER_PORT, TransferCounter};
use lineside_xdp::{AttachedMode, Interface, XdpDatapath, XdpError, XdpMode};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

pub const CREATE: u32 = 1;
pub const TRANSFER: u32 = 3;
pub const REFER: u32 = 4;
const LEASE_NS: u64 = 60_000_000_000;

/// Returns a packet in the paper's format.
pub fn paper(command: u32, id: u32, source: u32, destination: u32, amount: u32) -> Vec<u8> {
    [command, id, source, destination, amount]
        .iter()
        .flat_map(|word| word.to_be_bytes())
        .collect()
}

pub fn may_load_bpf() -> bool {
    let geometry = geometry(Mode::Durable);
    match XdpDatapath::load(vec![transfer::program(&geometry, TRANSFER_PORT)], None) {
        Ok(_) => true,
        Err(XdpError::NotAllowed(why)) => {
            skipped(format_args!("BPF is not allowed here ({why})"));
            false
        }
        Err(error) => panic!("{error}"),
    }
}

fn geometry(mode: Mode) -> Geometry {
    let issuer = |text: &str| Range {
        address: text.parse().expect("an address"),
        prefix_bits: if text.contains(':') { 128 } else { 32 },
    };
    Geometry {
        account_bits: 8,
        sessions: 8,
        rings: transfer::rings().expect("CPUs"),
        mode,
        issuers: ["10.0.0.1", "fd00::1"].map(issuer).to_vec(),
        ..Geometry::default()
    }
}

/// Running service on both address families, at port 7702.
pub struct Server {
    pub datapath: XdpDatapath,
    pub store: Arc<Store>,
    pub socket: SocketDatapath,
    pub mode: AttachedMode,
    report: Arc<Mutex<Report>>,
    data: TempDir,
}

impl Server {
    pub fn start(mode: Mode, interface: &str, xdp_mode: XdpMode) -> Self {
        Self::start_at(TRANSFER_PORT, mode, interface, xdp_mode)
    }

    /// Starts the service at the port `port`.
    pub fn start_at(port: u16, mode: Mode, interface: &str, xdp_mode: XdpMode) -> Self {
        let (geometry, data) = (geometry(mode), TempDir::new().expect("a directory"));
        let images = vec![transfer::program(&geometry, port)];
        let mut datapath = XdpDatapath::load(images, None).expect("load");
        let store = Arc::new(transfer::store(&mut datapath, &geometry).expect("store"));
        store.format(&geometry).expect("geometry");
        let readers = Readers::new(true);
        let setup = Setup {
            limits: Limits {
                accounts: 256,
                sessions: 8,
                pendings: 1 << 20,
                keys: 1 << 20,
                key_window_s: 3600,
            },
            seal: SealPolicy::default(),
            sessions: SessionPolicy::default(),
            issuer_keys: Vec::new(),
            key_table_bytes: lineside_transfer::signed::TABLE_BYTES,
            express: (mode == Mode::Express).then(|| Executing {
                readers: readers.clone(),
                lease_ns: LEASE_NS,
                claims: Arc::new(LineClaims::of(&mut datapath).expect("the program")),
            }),
        };
        let (ledger, _) = Ledger::open(data.path(), setup, Arc::clone(&store)).expect("a directory");
        let report = ledger.report();
        let fastpath = Arc::new(TransferFastPath::beside_xdp(Arc::clone(&store)));
        let options = SocketOptions {
            listen: (std::net::Ipv6Addr::UNSPECIFIED, port).into(),
            threads: 1,
            queue: 64,
        };
        let socket = SocketDatapath::start_batched_with_filter(
            &transfer::only_checked_writes(),
            options,
            fastpath,
            Box::new(ledger),
            &readers,
        )
        .expect("socket datapath");
        if mode == Mode::Durable {
            lease::renew(&store.control().lease_until_ns, LEASE_NS);
        }
        // In `express` mode, a thread of the host grants the lease. Until then, the fast path forwards everything.
        while !lease::is_valid(&store.control().lease_until_ns, lease::now_ns()) {
            std::thread::yield_now();
        }
        let interface = Interface::find(interface).expect("the interface");
        let attached = datapath.attach(&interface, xdp_mode).expect("attach");
        Self {
            datapath,
            store,
            socket,
            mode: attached,
            report,
            data,
        }
    }

    /// Returns the value of a counter of the fast path.
    pub fn count(&mut self, counter: TransferCounter) -> u64 {
        let counts: [u64; TransferCounter::ALL.len()] =
            self.datapath.counts("transfer_counts").expect("counts");
        counts[counter as usize]
    }

    pub fn drops(&mut self, reason: DropReason) -> u64 {
        let counts: [u64; DropReason::ALL.len()] = self.datapath.drop_counts(None).expect("drops");
        counts[reason as usize]
    }

    /// Returns the number of requests that the host answered.
    pub fn host_replies(&self) -> u64 {
        self.socket.counts().host_replies.load(Relaxed)
    }

    /// Waits until the host has emptied the rings.
    pub fn drained(&self) {
        let written = |store: &Store| -> u64 {
            let rings = store.rings.as_slice().iter();
            rings
                .map(|ring| ring.head.load(Relaxed) - ring.tail.load(Relaxed))
                .sum()
        };
        while written(&self.store) > 0 {
            assert_eq!(lock(&self.report).failed, None);
            std::thread::yield_now();
        }
    }

    /// Stops the service as a daemon does: first the XDP program, then the threads, and the host last. Returns the
    /// audit of the service's journal.
    pub fn end(mut self) -> Audit {
        self.datapath.detach().expect("detach");
        self.socket.stop();
        lease::end(&self.store.control().lease_until_ns);
        let report = lock(&self.report).clone();
        assert_eq!((report.failed, report.unjournaled), (None, 0));
        let key = load_key(&self.data.path().join(KEY_FILE)).expect("the key");
        let disk = FsDisk::look(self.data.path()).expect("the directory");
        let told = audit(&disk, *key.verifying_key()).expect("an audit");
        assert_eq!(told.balances, told.issued);
        assert_eq!(told.operations, report.operations);
        told
    }
}

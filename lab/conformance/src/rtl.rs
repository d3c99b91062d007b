//! The FPGA datapath: the commands that copy a store of the host into the table of the RTL, the model of the RTL, and,
//! with the feature `rtl`, the NIC that Verilator simulates.
//!
//! A service joins by an implementation of [`RtlService`].

#[cfg(feature = "rtl")]
mod nic;
#[cfg(feature = "rtl")]
mod transfer;

#[cfg(feature = "rtl")]
pub use nic::RtlDatapath;
#[cfg(feature = "rtl")]
pub use transfer::{TransferNic, TransferNicDatapath};

use crate::frames::FrameService;
use crate::spv::Spv;
use crate::transfer::Transfer;
use lineside_fastpath::{FastPath, Reply, Source, Verdict};
use lineside_rtl::{Command, NicDesign, REGISTER_SPV_PORT, REGISTER_TRANSFER_PORT, endpoint_commands};
use lineside_spv::nic as spv_nic;
use lineside_spv::store::Store;
use lineside_transfer::fastpath::TransferFastPath;
use lineside_transfer::nic as transfer_nic;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{
    FastPathList, SPV_FAST_PATH, SpvCounter, TRANSFER_FAST_PATH, TRANSFER_OP_OPEN, TransferCounter,
};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Service whose fast path the RTL has.
pub trait RtlService: FrameService {
    /// Requests that the fast path of the service answers, by datapath.
    const FAST_PATH: FastPathList;
    /// Design of the NIC.
    const DESIGN: NicDesign;
    /// Register with the UDP port of the service, which turns the service on.
    const PORT_REGISTER: u32;
    /// Index of the counter of native requests that are forwarded because of their operation.
    const FORWARDED: usize;

    /// Returns true if the RTL leaves a native request to the host although another datapath may answer it.
    fn is_left_to_host(request: &[u8]) -> bool;

    /// Lets the fast path count a native request that the RTL does not answer. Returns false if the request counts as
    /// forwarded in every state of the fast path.
    fn count_other(_fastpath: &Self::FastPath, _from: Source, _now_ns: u64, _request: &[u8]) -> bool {
        false
    }

    /// Returns the commands that copy the entries of a store into the table of the RTL.
    fn entry_commands(store: &Self::Store) -> Vec<Command>;

    /// Returns the commands that copy policies, tip, lease and epoch of a store.
    fn control_commands(store: &Self::Store) -> Vec<Command>;

    /// Returns the counters of the service of a NIC.
    #[cfg(feature = "rtl")]
    fn nic_counters(counters: &lineside_rtl::sim::SimCounters) -> Vec<u64>;
}

/// Returns the commands that bring a NIC after its reset into the state of `store`, at this interface and UDP port.
pub fn setup_commands<S: RtlService>(store: &S::Store, endpoint: &Endpoint, port: u16) -> Vec<Command> {
    let mut commands = endpoint_commands(endpoint);
    // The key must be in the NIC before the accounts of `transfer`, whose places depend on it.
    commands.extend(S::control_commands(store));
    commands.extend(S::entry_commands(store));
    commands.push(Command::register(S::PORT_REGISTER, &port.to_le_bytes()));
    commands
}

impl RtlService for Spv {
    const FAST_PATH: FastPathList = SPV_FAST_PATH;
    const DESIGN: NicDesign = NicDesign::Spv;
    const PORT_REGISTER: u32 = REGISTER_SPV_PORT;
    const FORWARDED: usize = SpvCounter::ForwardedNative as usize;

    fn is_left_to_host(request: &[u8]) -> bool {
        spv_nic::left_to_host(request).is_some()
    }

    fn entry_commands(store: &Store) -> Vec<Command> {
        spv_nic::entry_commands(store)
    }

    fn control_commands(store: &Store) -> Vec<Command> {
        spv_nic::control_commands(store)
    }

    #[cfg(feature = "rtl")]
    fn nic_counters(counters: &lineside_rtl::sim::SimCounters) -> Vec<u64> {
        counters.spv.to_vec()
    }
}

impl RtlService for Transfer {
    const FAST_PATH: FastPathList = TRANSFER_FAST_PATH;
    const DESIGN: NicDesign = NicDesign::Transfer;
    const PORT_REGISTER: u32 = REGISTER_TRANSFER_PORT;
    const FORWARDED: usize = TransferCounter::Forwarded as usize;

    fn is_left_to_host(request: &[u8]) -> bool {
        transfer_nic::left_to_host(request).is_some()
    }

    fn count_other(fastpath: &TransferFastPath, from: Source, now_ns: u64, request: &[u8]) -> bool {
        // The fast path forwards every request with this operation, and counts it by its lease.
        let mut forwarded = request.to_vec();
        forwarded[3] = TRANSFER_OP_OPEN;
        fastpath.answer(from, now_ns, &forwarded, &mut Reply::default());
        true
    }

    fn entry_commands(store: &Self::Store) -> Vec<Command> {
        transfer_nic::entry_commands(store)
    }

    fn control_commands(store: &Self::Store) -> Vec<Command> {
        transfer_nic::control_commands(store)
    }

    #[cfg(feature = "rtl")]
    fn nic_counters(counters: &lineside_rtl::sim::SimCounters) -> Vec<u64> {
        counters.transfer.to_vec()
    }
}

/// Model of the RTL: the fast path of the socket datapath, which forwards the native requests that the RTL leaves to
/// the host.
pub struct RtlModel<S: RtlService> {
    fastpath: S::FastPath,
    forwarded: AtomicU64,
}

impl<S: RtlService> RtlModel<S> {
    /// Returns the model over this fast path.
    pub fn new(fastpath: S::FastPath) -> Self {
        Self {
            fastpath,
            forwarded: AtomicU64::new(0),
        }
    }

    /// Returns the counters of the fast path.
    pub fn counters(&self) -> Vec<u64> {
        let mut counters = S::counters(&self.fastpath);
        counters[S::FORWARDED] += self.forwarded.load(Relaxed);
        counters
    }
}

impl<S: RtlService> FastPath for RtlModel<S> {
    fn answer(&self, from: Source, now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        if S::is_left_to_host(request) {
            if !S::count_other(&self.fastpath, from, now_ns, request) {
                self.forwarded.fetch_add(1, Relaxed);
            }
            return Verdict::Forward;
        }
        self.fastpath.answer(from, now_ns, request, reply)
    }

    fn changes(&self, request: &[u8]) -> bool {
        // The RTL does not check the UDP checksum of a request that it does not answer.
        !S::is_left_to_host(request) && self.fastpath.changes(request)
    }
}

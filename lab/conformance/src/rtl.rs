//! The FPGA datapath: the commands that copy a store of the host into the table of the RTL, the model of the RTL, and,
//! with the feature `rtl`, the NIC that Verilator simulates.
//!
//! A service joins by an implementation of [`RtlService`].

#[cfg(feature = "rtl")]
mod nic;

#[cfg(feature = "rtl")]
pub use nic::RtlDatapath;

use crate::frames::FrameService;
use crate::spv::Spv;
use lineside_fastpath::{FastPath, Reply, Source, Verdict};
use lineside_rtl::{
    COMMAND_BLOCK, COMMAND_BLOCK_HASH, COMMAND_LINE, COMMAND_TIP, Command, REGISTER_SPV_BLOCK_MASK,
    REGISTER_SPV_EPOCH, REGISTER_SPV_KEY, REGISTER_SPV_LEASE_UNTIL_NS, REGISTER_SPV_PAPER_FORMAT,
    REGISTER_SPV_PAPER_INDEX, REGISTER_SPV_PORT, REGISTER_SPV_SET_BITS, REGISTER_SPV_WAYS, endpoint_commands,
    folded_sum,
};
use lineside_spv::store::{self, Store};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{
    AnsweredOp, FastPathList, NATIVE_REPLY_BIT, SPV_FAST_PATH, SPV_PAPER_REQUEST_BYTES, SpvCounter, native,
};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Name of the datapath in `spec/`, on the command line and in reports.
pub const NAME: &str = "rtl";

/// Service whose fast path the RTL has.
pub trait RtlService: FrameService {
    /// Requests that the fast path of the service answers, by datapath.
    const FAST_PATH: FastPathList;
    /// Register with the UDP port of the service, which turns the service on.
    const PORT_REGISTER: u32;
    /// Index of the counter of native requests that are forwarded because of their operation.
    const FORWARDED: usize;

    /// Returns true if the payload is in the paper's format.
    fn is_paper(payload: &[u8]) -> bool;

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
    commands.extend(S::entry_commands(store));
    commands.extend(S::control_commands(store));
    commands.push(Command::register(S::PORT_REGISTER, &port.to_le_bytes()));
    commands
}

impl RtlService for Spv {
    const FAST_PATH: FastPathList = SPV_FAST_PATH;
    const PORT_REGISTER: u32 = REGISTER_SPV_PORT;
    const FORWARDED: usize = SpvCounter::ForwardedNative as usize;

    fn is_paper(payload: &[u8]) -> bool {
        payload.len() == SPV_PAPER_REQUEST_BYTES
    }

    fn entry_commands(store: &Store) -> Vec<Command> {
        let mut commands = Vec::new();
        for (slot, block) in (0u32..).zip(store.blocks.as_slice()) {
            let (root, block_hash) = (hash(&block.root), hash(&block.hash));
            let (generation, height) = (block.generation.load(Relaxed), block.height.load(Relaxed));
            let sum = folded_sum(&[&block_hash[..], &height.to_be_bytes()].concat());
            commands.push(Command::new(COMMAND_BLOCK_HASH, 0, height, sum, &block_hash));
            let sum = folded_sum(&root);
            commands.push(Command::new(COMMAND_BLOCK, slot, generation, sum, &root));
        }
        for (index, line) in (0u32..).zip(store.lines.as_slice()) {
            // The RTL writes a line as a whole, so a line that the host has written by half is an empty one.
            let generation = match line.seq.load(Relaxed) & 1 {
                0 => line.generation.load(Relaxed),
                _ => 0,
            };
            let (block, txid) = (line.block.load(Relaxed), hash(&line.txid));
            commands.push(Command::new(COMMAND_LINE, index, generation, block, &txid));
        }
        commands
    }

    fn control_commands(store: &Store) -> Vec<Command> {
        let control = store.control();
        let key = control.key.iter().map(|word| word.load(Relaxed).to_le_bytes());
        let word = |register, value: u32| Command::register(register, &value.to_le_bytes());
        let (tip, height) = (hash(&control.tip_hash), control.tip_height.load(Relaxed));
        let sum = folded_sum(&[&tip[..], &height.to_be_bytes()].concat());
        let lease = control.lease_until_ns.load(Relaxed).to_le_bytes();
        let epoch = control.epoch.load(Relaxed).to_le_bytes();
        vec![
            Command::register(REGISTER_SPV_KEY, &key.collect::<Vec<_>>().concat()),
            word(REGISTER_SPV_SET_BITS, control.set_bits.load(Relaxed)),
            word(REGISTER_SPV_WAYS, control.ways.load(Relaxed)),
            word(REGISTER_SPV_BLOCK_MASK, control.block_mask.load(Relaxed)),
            word(REGISTER_SPV_PAPER_INDEX, control.paper_index.load(Relaxed)),
            word(REGISTER_SPV_PAPER_FORMAT, control.paper_format.load(Relaxed)),
            Command::new(COMMAND_TIP, 0, height, sum, &tip),
            Command::register(REGISTER_SPV_LEASE_UNTIL_NS, &lease),
            Command::register(REGISTER_SPV_EPOCH, &epoch),
        ]
    }

    #[cfg(feature = "rtl")]
    fn nic_counters(counters: &lineside_rtl::sim::SimCounters) -> Vec<u64> {
        counters.spv.to_vec()
    }
}

fn hash(words: &[AtomicU64; 4]) -> store::Hash {
    store::bytes(&words.each_ref().map(|word| word.load(Relaxed)))
}

/// Model of the RTL: the fast path of the socket datapath, which forwards the native operations that the RTL does not
/// answer according to `spec/`.
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
        let is_other_op = !S::is_paper(request)
            && native::is_native(request)
            && request[3] & NATIVE_REPLY_BIT == 0
            && !S::FAST_PATH.answers(NAME, AnsweredOp::Native(request[3]));
        if is_other_op {
            self.forwarded.fetch_add(1, Relaxed);
            return Verdict::Forward;
        }
        self.fastpath.answer(from, now_ns, request, reply)
    }

    fn changes(&self, request: &[u8]) -> bool {
        self.fastpath.changes(request)
    }
}

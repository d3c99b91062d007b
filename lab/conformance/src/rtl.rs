//! The FPGA datapath of `spv`: the NIC that Verilator simulates, with a table that is copied from a store of the host.

use lineside_fastpath::{FastPath, Reply, Source, Verdict};
use lineside_rtl::sim::{Pauses, SimCounters, SimError, SimVerdict, Simulation};
use lineside_rtl::{
    COMMAND_BLOCK, COMMAND_BLOCK_HASH, COMMAND_LINE, COMMAND_TIP, Command, REGISTER_SPV_BLOCK_MASK,
    REGISTER_SPV_EPOCH, REGISTER_SPV_KEY, REGISTER_SPV_LEASE_UNTIL_NS, REGISTER_SPV_PAPER_FORMAT,
    REGISTER_SPV_PAPER_INDEX, REGISTER_SPV_PORT, REGISTER_SPV_SET_BITS, REGISTER_SPV_WAYS, SPV_OPS_ANSWERED,
    endpoint_commands, folded_sum,
};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::store::{self, Store};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{NATIVE_REPLY_BIT, SPV_PAPER_REQUEST_BYTES, SpvCounter, native};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Returns the commands that copy a store of the host into the table of the RTL.
pub fn table_commands(store: &Store) -> Vec<Command> {
    let hash = |words: &[AtomicU64; 4]| store::bytes(&words.each_ref().map(|word| word.load(Relaxed)));
    let control = store.control();
    let key: Vec<u8> = control
        .key
        .iter()
        .flat_map(|word| word.load(Relaxed).to_le_bytes())
        .collect();
    let word = |register, value: u32| Command::register(register, &value.to_le_bytes());
    let mut commands = vec![
        Command::register(REGISTER_SPV_KEY, &key),
        word(REGISTER_SPV_SET_BITS, control.set_bits.load(Relaxed)),
        word(REGISTER_SPV_WAYS, control.ways.load(Relaxed)),
        word(REGISTER_SPV_BLOCK_MASK, control.block_mask.load(Relaxed)),
        word(REGISTER_SPV_PAPER_INDEX, control.paper_index.load(Relaxed)),
        word(REGISTER_SPV_PAPER_FORMAT, control.paper_format.load(Relaxed)),
    ];
    for (slot, block) in (0u32..).zip(store.blocks.as_slice()) {
        let (root, block_hash, height) = (hash(&block.root), hash(&block.hash), block.height.load(Relaxed));
        let sum = folded_sum(&[&block_hash[..], &height.to_be_bytes()].concat());
        commands.push(Command::new(COMMAND_BLOCK_HASH, 0, height, sum, &block_hash));
        let generation = block.generation.load(Relaxed);
        commands.push(Command::new(
            COMMAND_BLOCK,
            slot,
            generation,
            folded_sum(&root),
            &root,
        ));
    }
    for (index, line) in (0u32..).zip(store.lines.as_slice()) {
        // The RTL writes a line as a whole, so a line that the host has written by half is an empty one.
        let is_whole = line.seq.load(Relaxed) & 1 == 0;
        let generation = if is_whole {
            line.generation.load(Relaxed)
        } else {
            0
        };
        let block = line.block.load(Relaxed);
        commands.push(Command::new(
            COMMAND_LINE,
            index,
            generation,
            block,
            &hash(&line.txid),
        ));
    }
    let (tip, height) = (hash(&control.tip_hash), control.tip_height.load(Relaxed));
    let sum = folded_sum(&[&tip[..], &height.to_be_bytes()].concat());
    commands.push(Command::new(COMMAND_TIP, 0, height, sum, &tip));
    let lease = control.lease_until_ns.load(Relaxed).to_le_bytes();
    commands.push(Command::register(REGISTER_SPV_LEASE_UNTIL_NS, &lease));
    commands.push(Command::register(
        REGISTER_SPV_EPOCH,
        &control.epoch.load(Relaxed).to_le_bytes(),
    ));
    commands
}

/// Simulated NIC that answers for `spv`.
#[derive(Debug)]
pub struct RtlDatapath(Simulation);

impl RtlDatapath {
    /// Returns a NIC with a copy of `store`, at this interface and UDP port.
    ///
    /// # Errors
    /// [`SimError`]
    pub fn over(store: &Store, endpoint: &Endpoint, port: u16) -> Result<Self, SimError> {
        let mut sim = Simulation::new()?;
        sim.execute(&endpoint_commands(endpoint))?;
        sim.execute(&table_commands(store))?;
        sim.execute(&[Command::register(REGISTER_SPV_PORT, &port.to_le_bytes())])?;
        Ok(Self(sim))
    }

    /// Sends frames back to back, apart from `pauses`. Returns the verdict on each, and the frame that left; a dropped
    /// frame is empty.
    ///
    /// # Errors
    /// [`SimError`]
    pub fn run(
        &mut self,
        now_ns: u64,
        frames: &[Vec<u8>],
        pauses: Pauses,
    ) -> Result<Vec<(SimVerdict, Vec<u8>)>, SimError> {
        self.0.set_now(now_ns);
        let (left, _) = self.0.run(frames, pauses)?;
        Ok(left.into_iter().map(|left| (left.verdict, left.frame)).collect())
    }

    /// Returns the counters.
    pub fn counters(&self) -> SimCounters {
        self.0.counters()
    }
}

/// Model of the RTL: the fast path of the socket datapath, which forwards the native operations that the RTL does not
/// answer according to `spec/spv.toml`.
pub struct RtlModel {
    fastpath: SpvFastPath,
    forwarded: AtomicU64,
}

impl RtlModel {
    /// Returns the model over this fast path.
    pub fn new(fastpath: SpvFastPath) -> Self {
        Self {
            fastpath,
            forwarded: AtomicU64::new(0),
        }
    }

    /// Returns the value of each counter of [`SpvCounter`].
    pub fn counters(&self) -> [u64; SpvCounter::ALL.len()] {
        let mut counters = self.fastpath.counters();
        counters[SpvCounter::ForwardedNative as usize] += self.forwarded.load(Relaxed);
        counters
    }
}

impl FastPath for RtlModel {
    fn answer(&self, from: Source, now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict {
        let is_other_op = request.len() != SPV_PAPER_REQUEST_BYTES
            && native::is_native(request)
            && request[3] & NATIVE_REPLY_BIT == 0
            && !SPV_OPS_ANSWERED.contains(&request[3]);
        if is_other_op {
            self.forwarded.fetch_add(1, Relaxed);
            return Verdict::Forward;
        }
        self.fastpath.answer(from, now_ns, request, reply)
    }
}

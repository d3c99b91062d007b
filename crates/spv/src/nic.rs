//! The table of `spv` in the RAM of the RTL: the writer that changes it together with the table in memory, from which
//! the socket datapath answers what the NIC forwards.

use crate::chain::Tip;
use crate::store::{self, Geometry, Hash, Store};
use crate::writer::{BlockRef, SpvFill, StoreWriter, Ticket, WriterCounts};
use lineside_rtl::{
    COMMAND_BLOCK, COMMAND_BLOCK_HASH, COMMAND_LINE, COMMAND_TIP, Command, CommandQueue,
    REGISTER_SPV_BLOCK_MASK, REGISTER_SPV_EPOCH, REGISTER_SPV_KEY, REGISTER_SPV_LEASE_UNTIL_NS,
    REGISTER_SPV_PAPER_FORMAT, REGISTER_SPV_PAPER_INDEX, REGISTER_SPV_SET_BITS, REGISTER_SPV_WAYS,
    SIM_BLOCK_BITS, SIM_LINE_BITS, folded_sum,
};
use lineside_spv_proof::Tree;
use lineside_wire::{AnsweredOp, SPV_FAST_PATH, SPV_HEADER_BYTES, SPV_PAPER_REQUEST_BYTES, native};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Returns the largest table of this geometry that the simulated NIC has room for.
pub fn geometry(wanted: Geometry) -> Geometry {
    Geometry {
        line_bits: wanted.line_bits.min(SIM_LINE_BITS),
        block_bits: wanted.block_bits.min(SIM_BLOCK_BITS),
        ..wanted
    }
}

/// Returns a line for the log if the configuration wants a larger table than the simulated NIC has room for.
pub fn room_note(wanted: Geometry) -> Option<String> {
    let has_room = wanted.line_bits <= SIM_LINE_BITS && wanted.block_bits <= SIM_BLOCK_BITS;
    (!has_room).then(|| {
        format!(
            "[spv] line_bits = {}, block_bits = {}: the simulated NIC has room for 2^{SIM_LINE_BITS} lines and \
             2^{SIM_BLOCK_BITS} blocks, and the host answers requests for all others",
            wanted.line_bits, wanted.block_bits
        )
    })
}

/// Returns the operation of a native request that the RTL leaves to the host although another datapath may answer it;
/// `None` for a request to which the RTL has the same answer as the other datapaths.
pub fn left_to_host(request: &[u8]) -> Option<AnsweredOp> {
    if request.len() == SPV_PAPER_REQUEST_BYTES {
        return None;
    }
    let op = AnsweredOp::Native(native::request_op(request)?);
    (!SPV_FAST_PATH.answers(lineside_rtl::DATAPATH, op)).then_some(op)
}

fn hash_of(words: &[AtomicU64; 4]) -> Hash {
    store::bytes(&store::load(words))
}

/// Returns the command that copies line `index` of `store`.
fn line_command(store: &Store, index: usize) -> Command {
    let line = &store.lines.as_slice()[index];
    // A line that the host has not written completely is copied as an empty one.
    let generation = match line.seq.load(Relaxed) & 1 {
        0 => line.generation.load(Relaxed),
        _ => 0,
    };
    let block = line.block.load(Relaxed);
    Command::new(
        COMMAND_LINE,
        index as u32,
        generation,
        block,
        &hash_of(&line.txid),
    )
}

/// Returns the commands that copy block slot `slot` of `store`.
fn block_commands(store: &Store, slot: u32) -> [Command; 2] {
    let block = &store.blocks.as_slice()[slot as usize];
    let (root, hash) = (hash_of(&block.root), hash_of(&block.hash));
    let (generation, height) = (block.generation.load(Relaxed), block.height.load(Relaxed));
    let sum = folded_sum(&[&hash[..], &height.to_be_bytes()].concat());
    [
        Command::new(COMMAND_BLOCK_HASH, 0, height, sum, &hash),
        Command::new(COMMAND_BLOCK, slot, generation, folded_sum(&root), &root),
    ]
}

fn tip_command(store: &Store) -> Command {
    let control = store.control();
    let (hash, height) = (hash_of(&control.tip_hash), control.tip_height.load(Relaxed));
    let sum = folded_sum(&[&hash[..], &height.to_be_bytes()].concat());
    Command::new(COMMAND_TIP, 0, height, sum, &hash)
}

fn epoch_command(store: &Store) -> Command {
    let epoch = store.control().epoch.load(Relaxed);
    Command::register(REGISTER_SPV_EPOCH, &epoch.to_le_bytes())
}

/// Returns the commands that copy all blocks and lines of `store` into the table of the RTL.
pub fn entry_commands(store: &Store) -> Vec<Command> {
    let slots = 0..store.blocks.as_slice().len() as u32;
    let lines = 0..store.lines.as_slice().len();
    let blocks = slots.flat_map(|slot| block_commands(store, slot));
    blocks
        .chain(lines.map(|index| line_command(store, index)))
        .collect()
}

/// Returns the commands that copy the policies and the tip of `store` into the registers of the RTL.
fn policy_commands(store: &Store) -> Vec<Command> {
    let control = store.control();
    let key = control.key.iter().map(|word| word.load(Relaxed).to_le_bytes());
    let word = |register, value: u32| Command::register(register, &value.to_le_bytes());
    vec![
        Command::register(REGISTER_SPV_KEY, &key.collect::<Vec<_>>().concat()),
        word(REGISTER_SPV_SET_BITS, control.set_bits.load(Relaxed)),
        word(REGISTER_SPV_WAYS, control.ways.load(Relaxed)),
        word(REGISTER_SPV_BLOCK_MASK, control.block_mask.load(Relaxed)),
        word(REGISTER_SPV_PAPER_INDEX, control.paper_index.load(Relaxed)),
        word(REGISTER_SPV_PAPER_FORMAT, control.paper_format.load(Relaxed)),
        tip_command(store),
    ]
}

/// Returns the commands that copy the policies, the tip, the lease and the epoch of `store` into the registers of the
/// RTL.
pub fn control_commands(store: &Store) -> Vec<Command> {
    let lease = store.control().lease_until_ns.load(Relaxed).to_le_bytes();
    let mut commands = policy_commands(store);
    commands.push(Command::register(REGISTER_SPV_LEASE_UNTIL_NS, &lease));
    commands.push(epoch_command(store));
    commands
}

/// Writer of the table in the RTL. It changes a table in memory by a [`StoreWriter`], and makes each change in the RTL
/// by commands.
///
/// Commands are executed in their order, so the RTL never has a line of a block that it does not have. Fills do not
/// wait for the NIC. An invalidation outside of a change of the chain, and the beginning of a change, return when the
/// NIC has executed them and has sent every answer from before.
pub struct NicWriter {
    writer: StoreWriter,
    store: Arc<Store>,
    queue: Arc<CommandQueue>,
    /// True during a change of the chain, when the NIC forwards everything.
    is_changing: bool,
}

impl NicWriter {
    /// Copies `store` into the RTL, and returns the only writer of both; `writer` is that of `store`. The lease of the
    /// RTL follows that of `store` from now on.
    pub fn new(writer: StoreWriter, store: Arc<Store>, queue: Arc<CommandQueue>) -> Self {
        queue.add(&entry_commands(&store));
        queue.add(&policy_commands(&store));
        queue.add(&[epoch_command(&store)]);
        let leased = Arc::clone(&store);
        let lease = move || leased.control().lease_until_ns.load(Relaxed);
        queue.watch(REGISTER_SPV_LEASE_UNTIL_NS, lease);
        Self {
            writer,
            store,
            queue,
            is_changing: false,
        }
    }

    /// Returns the commands that copy these lines.
    fn set_commands(&self, lines: &Range<usize>) -> Vec<Command> {
        lines
            .clone()
            .map(|index| line_command(&self.store, index))
            .collect()
    }

    /// Calls `change`, which changes at most the lines of the set of `txid`, and changes the same lines in the RTL.
    fn change_set<T>(&mut self, txid: &Hash, change: impl FnOnce(&mut StoreWriter) -> T) -> T {
        let lines = self.store.set_range(&store::words(txid));
        let before = self.set_commands(&lines);
        let done = change(&mut self.writer);
        let mut changed = self.set_commands(&lines);
        changed.retain(|command| !before.contains(command));
        if !changed.is_empty() {
            self.queue.add(&changed);
        }
        done
    }

    fn wait_unless_changing(&self) {
        if !self.is_changing {
            self.queue.flush();
        }
    }
}

impl SpvFill for NicWriter {
    fn begin(&mut self) {
        self.writer.begin();
        self.queue.add(&[epoch_command(&self.store)]);
        self.queue.flush();
        self.is_changing = true;
    }

    fn commit(&mut self, tip: &Tip, chain_state: u64) {
        self.writer.commit(tip, chain_state);
        self.queue
            .add(&[tip_command(&self.store), epoch_command(&self.store)]);
        self.is_changing = false;
    }

    fn admit(&mut self, block: &BlockRef) -> Ticket {
        let is_new = self.writer.slot_of(&block.hash).is_none();
        let ticket = self.writer.admit(block);
        if is_new {
            self.queue.add(&block_commands(&self.store, ticket.slot()));
        }
        ticket
    }

    fn fill(&mut self, txid: &Hash, ticket: Ticket, index: u32) -> bool {
        self.change_set(txid, |writer| writer.fill(txid, ticket, index))
    }

    fn fill_tree(&mut self, ticket: Ticket, header: &[u8; SPV_HEADER_BYTES], tree: &Tree) -> bool {
        // The RTL has no trees: the socket datapath answers proofs from the table in memory.
        self.writer.fill_tree(ticket, header, tree)
    }

    fn tree_nodes(&self) -> u32 {
        self.writer.tree_nodes()
    }

    fn invalidate(&mut self, txid: &Hash) -> bool {
        let has_cleared = self.change_set(txid, |writer| writer.invalidate(txid));
        self.wait_unless_changing();
        has_cleared
    }

    fn drop_block(&mut self, hash: &Hash) -> bool {
        let slot = self.writer.slot_of(hash);
        let had_slot = self.writer.drop_block(hash);
        if let Some(slot) = slot {
            self.queue.add(&block_commands(&self.store, slot));
        }
        self.wait_unless_changing();
        had_slot
    }

    fn counts(&self) -> WriterCounts {
        self.writer.counts()
    }
}

//! XDP datapath as a contestant. Only this module of the benchmark uses the crate `lineside_xdp`.

use crate::error::{BenchError, Result, io, void};
use crate::netns::{NamespacePair, SERVER_ADDRESS, SERVER_INTERFACE, SERVER_MAC};
use crate::sys;
use crate::workload::{Hash, PROVEN_TXIDS, Shape, Workload};
use lineside_fastpath::lease;
use lineside_spv::chain::Tip;
use lineside_spv::datapath as spv;
use lineside_spv::store::{Geometry, Store, words};
use lineside_spv::writer::{BlockRef, SpvFill, StoreWriter, Ticket};
use lineside_spv_proof::Tree;
use lineside_testkit::DemoBlock;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{SPV_HEADER_BYTES, SPV_PORT, SpvCounter};
use lineside_xdp::{Interface, ProgramSpec, XdpDatapath, XdpMode};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Number of blocks in the measurement of proofs; each block has 2,048 transactions.
const PROVEN_BLOCKS: usize = 64;
/// Odd multiplier whose bits are well spread, which scatters consecutive numbers.
const SCATTER: usize = 0x9e37_79b1;
/// Lease in nanoseconds; it is longer than the run of any benchmark.
const LEASE_NS: u64 = 1 << 42;

/// Loaded XDP programs with a fast-path table of 2^22 lines, which contains all TXIDs of the workload, or a part of
/// them.
pub struct XdpFastPath {
    datapath: XdpDatapath,
    root: OwnedFd,
    writer: StoreWriter,
    /// Tickets of the workload's blocks.
    tickets: Vec<Ticket>,
}

impl XdpFastPath {
    /// Loads the programs, then draws a workload for whose TXIDs the table has free lines.
    pub fn load(seed: u64, shape: Shape) -> Result<(Self, Workload)> {
        let (datapath, root, store) = Self::load_empty()?;
        let (writer, tickets, workload) = fill(store, seed, shape);
        let fastpath = Self {
            datapath,
            root,
            writer,
            tickets,
        };
        Ok((fastpath, workload))
    }

    /// Loads the programs with a table that contains every transaction of `blocks` and their Merkle trees.
    pub fn load_blocks(blocks: &[DemoBlock]) -> Result<Self> {
        let (datapath, root, store) = Self::load_empty()?;
        let (writer, tickets) = fill_blocks(store, blocks)?;
        Ok(Self {
            datapath,
            root,
            writer,
            tickets,
        })
    }

    fn load_empty() -> Result<(XdpDatapath, OwnedFd, Arc<Store>)> {
        let geometry = Geometry::default();
        let mut datapath = XdpDatapath::load(vec![image()], None)?;
        let store = spv::store(&mut datapath, &geometry)?;
        store
            .format(&geometry)
            .map_err(io("laying out the fast-path table"))?;
        datapath.start(&Endpoint::new(SERVER_MAC, false, &[SERVER_ADDRESS.into()]).unwrap_or_default())?;
        let root = datapath
            .with_root(|root| root.try_clone_to_owned())?
            .map_err(io("opening ls_root"))?;
        Ok((datapath, root, Arc::new(store)))
    }

    /// Removes all TXIDs from the table except those for whose number `keeps` returns true.
    pub fn keep(&mut self, workload: &Workload, keeps: impl Fn(u64) -> bool) {
        for (number, txid) in workload.txids.iter().enumerate() {
            if keeps(number as u64) {
                self.writer
                    .fill(txid, self.tickets[number % self.tickets.len()], 0);
            } else {
                self.writer.invalidate(txid);
            }
        }
    }

    /// Calls `measure` while the first [`PROVEN_TXIDS`] TXIDs of the workload belong, scattered, to 64 blocks with
    /// Merkle trees.
    pub fn with_proofs<T>(&mut self, workload: &Workload, measure: impl FnOnce(&mut Self) -> T) -> T {
        let txids = &workload.txids[..PROVEN_TXIDS];
        for block in 0..PROVEN_BLOCKS {
            let ticket = self.writer.admit(&BlockRef {
                hash: Workload::block_hash(workload.roots.len() + block),
                root: [0xb2; 32],
                height: block as u32,
            });
            // The TXIDs of this block have numbers in an order without a pattern that CPU caches could follow.
            let number = |index: usize| (index * PROVEN_BLOCKS + block).wrapping_mul(SCATTER) % PROVEN_TXIDS;
            let own: Vec<Hash> = (0..PROVEN_TXIDS / PROVEN_BLOCKS)
                .map(|index| txids[number(index)])
                .collect();
            for (index, txid) in (0..).zip(&own) {
                self.writer.fill(txid, ticket, index);
            }
            if let Ok(tree) = Tree::new(&own) {
                self.writer.fill_tree(ticket, &[0xb3; SPV_HEADER_BYTES], &tree);
            }
        }
        let measured = measure(self);
        for (number, txid) in txids.iter().enumerate() {
            self.writer
                .fill(txid, self.tickets[number % self.tickets.len()], 0);
        }
        measured
    }

    /// Loads the programs `count` times and replaces the running ones, while `load` sends requests. The argument of
    /// `load` becomes true when `load` must end. The calling thread must be in the server's namespace.
    pub fn replace_under<T: Send>(
        &mut self,
        count: usize,
        load: impl FnOnce(&AtomicBool) -> Result<T> + Send,
    ) -> Result<T> {
        self.datapath
            .attach(&Interface::find(SERVER_INTERFACE)?, XdpMode::Native)?;
        let done = AtomicBool::new(false);
        let (replaced, loaded) = std::thread::scope(|scope| {
            let loading = scope.spawn(|| load(&done));
            let replaced = (0..count).try_for_each(|_| self.datapath.replace(vec![image()]));
            done.store(true, Relaxed);
            (replaced, loading.join())
        });
        self.datapath.detach()?;
        replaced?;
        match loaded {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }

    /// Attaches the programs natively to the server's interface; dropping the result detaches them. The calling thread
    /// must be in the server's namespace.
    pub fn attach(&self, pair: &NamespacePair) -> Result<OwnedFd> {
        debug_assert!(sys::interface_index(SERVER_INTERFACE).is_ok());
        sys::attach_native(self.root.as_fd(), pair.server_index).map_err(io("attaching ls_root"))
    }

    /// Returns the program that receives frames first.
    pub fn root(&self) -> &OwnedFd {
        &self.root
    }

    /// Returns the number of replies of the programs since they were loaded.
    pub fn hits(&mut self) -> Result<u64> {
        self.count(SpvCounter::Hits)
    }

    /// Returns a counter of the programs since they were loaded.
    pub fn count(&mut self, counter: SpvCounter) -> Result<u64> {
        let counts: [u64; SpvCounter::ALL.len()] = self.datapath.counts("spv_counts")?;
        Ok(counts[counter as usize])
    }

    /// Returns the number of instructions that the verifier processed, by program.
    pub fn verified_instructions(&mut self) -> Result<BTreeMap<String, u32>> {
        Ok(self.datapath.verified_instructions()?.into_iter().collect())
    }
}

fn image() -> ProgramSpec {
    spv::program(&Geometry::default(), SPV_PORT)
}

/// Adds the workload's blocks to an empty store.
fn admit(writer: &mut StoreWriter, roots: &[Hash]) -> Vec<Ticket> {
    let blocks = roots.iter().enumerate().map(|(block, root)| BlockRef {
        hash: Workload::block_hash(block),
        root: *root,
        height: block as u32,
    });
    blocks.map(|block| writer.admit(&block)).collect()
}

fn open(store: &Store, writer: &mut StoreWriter) {
    lease::renew(&store.control().lease_until_ns, LEASE_NS);
    writer.begin();
    let tip = Tip {
        hash: Workload::block_hash(0),
        height: 0,
    };
    writer.commit(&tip, 0);
}

/// Draws the workload and writes it into the table.
fn fill(store: Arc<Store>, seed: u64, shape: Shape) -> (StoreWriter, Vec<Ticket>, Workload) {
    let mut writer = StoreWriter::new(Arc::clone(&store));
    let roots = Workload::roots(seed, shape);
    let tickets = admit(&mut writer, &roots);
    let workload = Workload::draw(seed, shape, |txid, block| {
        let is_empty = |line: &lineside_spv::layout::SpvLine| line.generation.load(Relaxed) == 0;
        store.set(&words(txid)).iter().any(is_empty) && writer.fill(txid, tickets[block], 0)
    });
    open(&store, &mut writer);
    (writer, tickets, workload)
}

/// Fills an empty table with every transaction of `blocks` and their Merkle trees.
fn fill_blocks(store: Arc<Store>, blocks: &[DemoBlock]) -> Result<(StoreWriter, Vec<Ticket>)> {
    let mut writer = StoreWriter::new(Arc::clone(&store));
    let mut tickets = Vec::with_capacity(blocks.len());
    for (height, block) in (0..).zip(blocks) {
        let ticket = writer.admit(&BlockRef {
            hash: block.hash,
            root: block.root,
            height,
        });
        let tree = Tree::new(&block.txids).map_err(void)?;
        let header = block.raw.first_chunk::<SPV_HEADER_BYTES>();
        let filled = (0..)
            .zip(&block.txids)
            .all(|(index, txid)| writer.fill(txid, ticket, index));
        if !filled || !header.is_some_and(|header| writer.fill_tree(ticket, header, &tree)) {
            return Err(BenchError::Void(
                "the fast-path table is too small for the blocks".into(),
            ));
        }
        tickets.push(ticket);
    }
    open(&store, &mut writer);
    Ok((writer, tickets))
}

/// Returns a table in this process's memory with the transactions of `blocks` and their Merkle trees, for the socket
/// datapath.
pub fn software_store_of(blocks: &[DemoBlock]) -> Result<Arc<Store>> {
    let store = Store::anonymous(&Geometry::default()).map_err(io("making a fast-path table"))?;
    let store = Arc::new(store);
    fill_blocks(Arc::clone(&store), blocks)?;
    Ok(store)
}

/// Returns a table in this process's memory with the workload in it, for the caches of the software contestants. If
/// more than four TXIDs belong to one set of the cache, the last four remain.
pub fn software_store(workload: &Workload) -> Result<Arc<Store>> {
    let store = Store::anonymous(&Geometry::default()).map_err(io("making a fast-path table"))?;
    let store = Arc::new(store);
    let mut writer = StoreWriter::new(Arc::clone(&store));
    let tickets = admit(&mut writer, &workload.roots);
    for (number, txid) in workload.txids.iter().enumerate() {
        writer.fill(txid, tickets[number % tickets.len()], 0);
    }
    open(&store, &mut writer);
    Ok(store)
}

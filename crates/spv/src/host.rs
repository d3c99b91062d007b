//! The host of `spv`: answers the requests that the fast path forwards from the chain, and writes the results into the
//! fast-path table (a fill).
//!
//! Locks are taken in one order: the chain, then the fast path's writer. A fill holds the chain's read lock and a
//! reorganisation holds its write lock, so a fill with data of the old chain cannot be written after the
//! reorganisation.

mod kept;
mod tables;
mod view;
mod witness;

use crate::chain::{BlockId, BlockInfo, Chain, ChainError, Located, Refused, StoreNetwork, Submitted, Tip};
use crate::fastpath::{self, FoundProof};
use crate::reader::{BlockProof, TxLocation};
use crate::request::{self, HeaderRange, Request};
use crate::store::{self, Hash};
use crate::tree_cache::TreeCache;
use crate::writer::{BlockRef, SpvFill, WriterCounts};
use lineside_fastpath::{DropReason, Host, Reader, Readers, Reply, Source, Verdict, lease};
use lineside_spv_proof::{Tree, depth_of};
use lineside_wire::{
    NATIVE_REPLY_BIT, SPV_HEADER_BYTES, SPV_PAPER_REPLY_BYTES, SPV_PROOF_DEPTH_MAX, Status, native,
};
use std::hash::{BuildHasher, RandomState};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
pub use tables::Tables;
use tokio::sync::watch;
use witness::{Key, WitnessRequest};
use zerocopy::IntoBytes;

const ECHO_PLACES: usize = 4096;
const ECHO_PAUSE_NS: u64 = 1_000_000_000;
/// Bytes of Merkle trees that the host caches: about 250 blocks of 2,048 transactions.
const TREE_CACHE_BYTES: usize = 32 << 20;
/// Bytes of witness trees that the host caches.
const WITNESS_TREE_CACHE_BYTES: usize = 16 << 20;

/// Host of the service: a chain, and the writer of the fast path that is filled from this chain.
pub struct SpvHost {
    identity: StoreNetwork,
    chain: RwLock<Box<dyn Chain>>,
    writer: Mutex<Box<dyn SpvFill + Send>>,
    readers: Readers,
    paper_format: bool,
    tables: Tables,
    echoes: Echoes,
    trees: TreeCache,
    witness_trees: TreeCache,
    /// True if the chain keeps witness data, so that blocks must be checked with their witnesses.
    keeps_witness: bool,
    /// Number of the chain's current state; every change of the chain increases it.
    generation: AtomicU64,
    /// Channel with the last announced value of `generation`.
    announced_generation: watch::Sender<u64>,
}

impl SpvHost {
    /// Returns a host over `chain` that fills the fast path through `writer`. The fast path answers at the chain's tip
    /// from this call on. `readers` must contain all threads that answer from that fast path or from this host.
    pub fn new(
        chain: impl Chain + 'static,
        mut writer: Box<dyn SpvFill + Send>,
        readers: Readers,
        paper_format: bool,
    ) -> Self {
        writer.begin();
        writer.commit(&tip_of(&chain), chain.state());
        Self {
            identity: chain.identity(),
            keeps_witness: chain.keeps_witness(),
            chain: RwLock::new(Box::new(chain)),
            writer: Mutex::new(writer),
            readers,
            paper_format,
            tables: Tables::default(),
            echoes: Echoes::default(),
            trees: TreeCache::new(TREE_CACHE_BYTES),
            witness_trees: TreeCache::new(WITNESS_TREE_CACHE_BYTES),
            generation: AtomicU64::new(0),
            announced_generation: watch::Sender::new(0),
        }
    }

    /// Returns the host, restricted to the kinds of requests in `tables`.
    #[must_use]
    pub fn with_tables(self, tables: Tables) -> Self {
        Self { tables, ..self }
    }

    /// Returns the host with a cache of at most `bytes_max` bytes of Merkle trees, instead of 32 MiB.
    #[must_use]
    pub fn with_tree_cache(self, bytes_max: usize) -> Self {
        Self {
            trees: TreeCache::new(bytes_max),
            ..self
        }
    }

    /// Returns the host with a cache of at most `bytes_max` bytes of witness trees, instead of 16 MiB.
    #[must_use]
    pub fn with_witness_tree_cache(self, bytes_max: usize) -> Self {
        Self {
            witness_trees: TreeCache::new(bytes_max),
            ..self
        }
    }

    fn chain(&self) -> RwLockReadGuard<'_, Box<dyn Chain>> {
        self.chain.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> MutexGuard<'_, Box<dyn SpvFill + Send>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts a block. If the block makes another branch the best one, the chain changes to that branch. Before any
    /// answer from the new state is sent, all answers that the change invalidates have been sent, and their cache lines
    /// have been removed. The block is durable after [`SpvHost::sync`].
    ///
    /// # Errors
    /// The reason why the block was refused; the chain then keeps no data of it. [`Refused::Storage`] can also mean
    /// that the chain accepted the block, but a step to the best branch failed. Fast path and host then both answer at
    /// the block before the failed step.
    pub fn submit(&self, raw_block: &[u8], detached: bool) -> Result<Submitted, Refused> {
        // Checking the block takes most of the time and needs no lock.
        let block = self.check(raw_block)?;
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        let submitted = self.change(chain.as_mut(), |chain, writer| {
            // A detached block is connected at once. Cache lines of its transactions may name another block that also
            // holds them, so these lines are removed.
            forget(block.txids(), writer);
            let submitted = chain.accept(&block, detached)?;
            chain.keep(&block.hash(), raw_block).map_err(Refused::Storage)?;
            let followed = follow(chain, writer);
            followed.map_err(|error| Refused::Storage(std::io::Error::other(error)))?;
            Ok(submitted)
        });
        drop(chain);
        self.make_known();
        submitted
    }

    /// Changes to the best branch of the chain. This is for a chain that received blocks by other functions than
    /// [`SpvHost::submit`].
    ///
    /// # Errors
    /// The errors of the chain. If a step fails, fast path and host both answer at the block before this step.
    pub fn follow(&self) -> Result<(), ChainError> {
        let mut chain = self.chain.write().unwrap_or_else(PoisonError::into_inner);
        self.change(chain.as_mut(), follow)
    }

    /// Returns the chain's tip; `None` if no block is connected.
    pub fn tip(&self) -> Option<Tip> {
        self.chain().tip()
    }

    /// Returns the number of blocks in the chain, and the number of transactions in these blocks.
    pub fn size(&self) -> (u64, u64) {
        self.chain().size()
    }

    /// Returns the counters of the fast path's writer.
    pub fn writer_counts(&self) -> WriterCounts {
        self.writer().counts()
    }

    /// Makes every accepted block durable.
    ///
    /// # Errors
    /// The errors of the chain. After an error the chain accepts no block.
    pub fn sync(&self) -> Result<(), ChainError> {
        self.chain.write().unwrap_or_else(PoisonError::into_inner).sync()
    }

    /// Changes the chain by `act`. During the change, the fast path forwards all requests; afterwards it answers at the
    /// new tip.
    fn change<T>(&self, chain: &mut dyn Chain, act: impl FnOnce(&mut dyn Chain, &mut dyn SpvFill) -> T) -> T {
        let mut writer = self.writer();
        writer.begin();
        // After `begin` the fast path forwards all requests, and the host finds answers only under the chain's lock,
        // which the caller of this function holds. Answers that were found earlier may still be in transmission: wait
        // until they have been sent.
        self.readers.wait();
        let done = act(chain, writer.as_mut());
        self.generation.fetch_add(1, Relaxed);
        writer.commit(&tip_of(chain), chain.state());
        done
    }

    /// Loads every transaction of the newest `blocks` connected blocks into the fast path, and as many Merkle trees of
    /// these blocks as fit. Stops at the first block that cannot be read.
    pub fn prefill(&self, blocks: u32) {
        let chain = self.chain.read().unwrap_or_else(PoisonError::into_inner);
        let Some(tip) = chain.tip().filter(|_| blocks > 0 && self.tables.roots) else {
            return;
        };
        let heights = tip.height.saturating_sub(blocks.saturating_sub(1))..=tip.height;
        let first_tree = self.first_tree(chain.as_ref(), &heights);
        for height in heights {
            let Some(block) = chain.at_height(height) else {
                continue;
            };
            let filled = self.fill_lines(chain.as_ref(), block).and_then(|()| {
                let has_tree = self.tables.proofs && height >= first_tree;
                let Some(info) = chain.block(block).filter(|_| has_tree) else {
                    return Ok(());
                };
                let tree = self.tree(chain.as_ref(), block)?;
                let mut writer = self.writer();
                let ticket = writer.admit(&block_ref(&info));
                writer.fill_tree(ticket, &info.header, &tree);
                Ok(())
            });
            if let Err(error) = filled {
                tracing::warn!(
                    %error, height,
                    "the fast path could not be filled with the newest blocks; requests fill it instead"
                );
                return;
            }
        }
    }

    /// Returns the lowest of `heights` from which all trees together fit into the fast path.
    fn first_tree(&self, chain: &dyn Chain, heights: &RangeInclusive<u32>) -> u32 {
        let mut room = self.writer().tree_nodes();
        for height in heights.clone().rev() {
            let info = chain.at_height(height).and_then(|block| chain.block(block));
            let nodes = info.and_then(|info| store::nodes_of(info.transactions));
            match room.checked_sub(nodes.unwrap_or(0)) {
                Some(left) if room > 0 => room = left,
                _ => return height.saturating_add(1),
            }
        }
        *heights.start()
    }

    fn fill_lines(&self, chain: &dyn Chain, block: BlockId) -> Result<(), ChainError> {
        for txid in chain.txids(block)?.iter() {
            self.locate_and_fill(chain, txid)?;
        }
        Ok(())
    }

    fn locate_and_fill(&self, chain: &dyn Chain, txid: &Hash) -> Result<Option<TxLocation>, ChainError> {
        let Some(location) = chain.locate(txid)? else {
            return Ok(None);
        };
        let block = located_ref(&location);
        let mut writer = self.writer();
        let ticket = writer.admit(&block);
        writer.fill(txid, ticket, location.position);
        Ok(Some(TxLocation {
            root: block.root,
            block_hash: block.hash,
            height: block.height,
        }))
    }

    /// Returns the Merkle tree of `block`, which has at most 2^14 transactions.
    fn tree(&self, chain: &dyn Chain, block: BlockId) -> Result<Arc<Tree>, ChainError> {
        self.trees.get(block, || {
            // `Tree::new` fails only for a block without transactions, and the chain has no such block.
            Tree::new(&chain.txids(block)?).map_err(|_| ChainError::NoSuchBlock(block.0))
        })
    }

    /// Returns the proof of `txid`, and writes the transaction's cache line and its block's tree into the fast path.
    fn prove_and_fill(&self, chain: &dyn Chain, txid: &Hash, room: usize) -> Result<FoundProof, ChainError> {
        let Some(location) = chain.locate(txid)? else {
            return Ok(FoundProof::Unknown);
        };
        let missing = || ChainError::NoSuchBlock(location.block.0);
        let info = chain.block(location.block).ok_or_else(missing)?;
        let (transactions, depth) = (info.transactions, depth_of(info.transactions));
        // This check precedes the computation of the tree, so that a refusal is cheap.
        if depth > room {
            return Ok(FoundProof::TooLong { transactions, depth });
        }
        let tree = self.tree(chain, location.block)?;
        let merkle_path = tree.merkle_path(location.position).ok_or_else(missing)?;
        let mut path = [[0; 32]; SPV_PROOF_DEPTH_MAX];
        let places = path.get_mut(..merkle_path.hashes().len()).ok_or_else(missing)?;
        places.copy_from_slice(merkle_path.hashes());
        let mut writer = self.writer();
        let ticket = writer.admit(&located_ref(&location));
        writer.fill(txid, ticket, location.position);
        writer.fill_tree(ticket, &info.header, &tree);
        Ok(FoundProof::Found(BlockProof {
            header: info.header,
            height: location.height,
            transactions,
            index: location.position,
            depth,
            path,
        }))
    }

    fn paper(&self, from: Source, txid: &Hash, reply: &mut Reply, sender: &Reader) -> Verdict {
        if !self.paper_format || !self.tables.roots {
            return Verdict::Drop(DropReason::PaperRefused);
        }
        let chain = self.chain.read().unwrap_or_else(PoisonError::into_inner);
        match self.locate_and_fill(chain.as_ref(), txid) {
            Ok(Some(location)) if location.root == *txid && !self.echoes.may_leave(from, lease::now_ns()) => {
                Verdict::Drop(DropReason::NotARequest)
            }
            Ok(location) => {
                sender.pin();
                put(
                    reply,
                    &location.map_or([0; SPV_PAPER_REPLY_BYTES], |place| place.root),
                )
            }
            // The paper's format has no status for an error, so no reply is sent; a client must not read "unknown" from
            // a failed lookup.
            Err(error) => {
                cannot_tell(&error);
                Verdict::Forward
            }
        }
    }

    fn native(&self, request: &[u8], reply: &mut Reply, sender: &Reader) -> Verdict {
        let parsed = match Request::parse(request) {
            Ok(Request::Roots(_, items)) if !items.iter().all(request::is_padded) => Err(Status::BadRequest),
            parsed => parsed,
        };
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(status) => return refuse(request, status, reply),
        };
        if !self.tables.answer(&parsed) {
            return refuse(request, Status::NotKept, reply);
        }
        let chain = self.chain.read().unwrap_or_else(PoisonError::into_inner);
        let tip = tip_of(chain.as_ref());
        let locate = |txid: &Hash| self.locate_and_fill(chain.as_ref(), txid);
        let written = match parsed {
            Request::Root(header, txid) => {
                locate(txid).map(|place| fastpath::put_root(reply, header, place.as_ref(), tip))
            }
            Request::Roots(header, items) => {
                let places: Result<Vec<_>, _> = items.iter().map(|item| locate(&item.root)).collect();
                places.map(|places| fastpath::put_roots(reply, header, &places, tip))
            }
            Request::Proof(header, txid, room) => self
                .prove_and_fill(chain.as_ref(), txid, room)
                .map(|found| fastpath::put_proof(reply, header, room, &found, tip)),
            Request::WitnessProof(header, txid, room) => {
                let request = WitnessRequest::new(header, Key::Txid(txid), room);
                self.witness_proof(chain.as_ref(), &request, tip, reply)
            }
            Request::WtxidProof(header, wtxid, room) => {
                let request = WitnessRequest::new(header, Key::Wtxid(wtxid), room);
                self.witness_proof(chain.as_ref(), &request, tip, reply)
            }
            Request::Headers(header, range) => {
                let headers = headers_of(chain.as_ref(), range);
                headers.map(|headers| fastpath::put_headers(reply, header, range, &headers, tip))
            }
        };
        sender.pin();
        match written {
            Ok(true) => Verdict::Reply,
            Ok(false) => Verdict::Forward,
            Err(error) => {
                cannot_tell(&error);
                refuse(request, Status::Busy, reply)
            }
        }
    }
}

/// Limits reflection loops in the paper's format. The root of a block with one transaction is that transaction's id, so
/// the reply is itself a valid request: a forged packet could make two servers send requests to each other forever. The
/// fast path never answers for these transactions (`StoreWriter::fill`), and the host answers each source at most once
/// a second.
struct Echoes {
    /// Time of the last answer to the sources that hash to this entry, in nanoseconds of CLOCK_MONOTONIC. Sources with
    /// the same entry share its limit of one answer per second, so an attacker with many sources cannot evict an entry.
    answered_ns: Box<[AtomicU64]>,
    hasher: RandomState,
}

impl Default for Echoes {
    fn default() -> Self {
        Self {
            answered_ns: (0..ECHO_PLACES).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl Echoes {
    fn may_leave(&self, to: Source, now_ns: u64) -> bool {
        let place = self.hasher.hash_one((to.address, to.port)) as usize % ECHO_PLACES;
        let last_ns = self.answered_ns[place].swap(now_ns, Relaxed);
        last_ns == 0 || now_ns.saturating_sub(last_ns) >= ECHO_PAUSE_NS
    }
}

/// Writes a refusal: the request's header with a status and no body.
fn refuse(request: &[u8], status: Status, reply: &mut Reply) -> Verdict {
    match native::refusal(request, status) {
        Some(header) => put(reply, header.as_bytes()),
        None => Verdict::Drop(DropReason::NotARequest),
    }
}

impl Host for SpvHost {
    fn serve(&self, from: Source, request: &[u8], reply: &mut Reply, sender: &Reader) -> Verdict {
        match <&Hash>::try_from(request) {
            Ok(txid) if request::is_unknown_reply(txid) => Verdict::Drop(DropReason::NotARequest),
            Ok(txid) => self.paper(from, txid, reply, sender),
            Err(_) if !native::is_native(request) => Verdict::Drop(DropReason::NotARequest),
            Err(_) if request[3] & NATIVE_REPLY_BIT != 0 => Verdict::Drop(DropReason::ReplyBit),
            Err(_) => self.native(request, reply, sender),
        }
    }
}

fn put(reply: &mut Reply, bytes: &[u8]) -> Verdict {
    if reply.put(bytes) {
        Verdict::Reply
    } else {
        Verdict::Forward
    }
}

/// Takes the steps to the best chain. Before each step, the cache lines that the step invalidates are removed from the
/// fast path, so that the fast path is correct even if the step fails.
fn follow(chain: &mut dyn Chain, writer: &mut dyn SpvFill) -> Result<(), ChainError> {
    let plan = chain.plan()?;
    for &id in &plan.disconnect {
        let block = chain.block(id).ok_or(ChainError::NoSuchBlock(id.0))?;
        writer.drop_block(&block.hash);
        chain.disconnect(id)?;
    }
    for &id in &plan.connect {
        forget(&chain.txids(id)?, writer);
        chain.connect(id)?;
    }
    Ok(())
}

/// Removes the cache lines of a block's transactions, because a line may name another block that holds the same
/// transaction.
fn forget(txids: &[Hash], writer: &mut dyn SpvFill) {
    for txid in txids {
        writer.invalidate(txid);
    }
}

fn located_ref(found: &Located) -> BlockRef {
    BlockRef {
        hash: found.block_hash,
        root: found.root,
        height: found.height,
    }
}

fn block_ref(info: &BlockInfo) -> BlockRef {
    BlockRef {
        hash: info.hash,
        root: info.root,
        height: info.height,
    }
}

/// Returns the headers of `range` that the chain has.
fn headers_of(chain: &dyn Chain, range: HeaderRange) -> Result<Vec<[u8; SPV_HEADER_BYTES]>, ChainError> {
    let mut headers = Vec::with_capacity(range.count);
    for height in (range.start..=u32::MAX).take(range.count) {
        let Some(block) = chain.at_height(height) else {
            break;
        };
        let info = chain.block(block).ok_or(ChainError::NoSuchBlock(block.0))?;
        headers.push(info.header);
    }
    Ok(headers)
}

fn cannot_tell(error: &ChainError) {
    tracing::error!(%error, "the chain store cannot look up a transaction; if this is repeated, restart the server");
}

/// Returns the chain's tip; zeros for an empty chain.
fn tip_of(chain: &dyn Chain) -> Tip {
    chain.tip().unwrap_or(Tip {
        hash: [0; 32],
        height: 0,
    })
}

//! Simulated node: all blocks of the simulation, and the chain that the node regards as the best.

use bitcoin::Transaction;
use bitcoin::hashes::Hash as _;
use lineside_bitcoin_node::{
    Announcement, BlockHash, Header, Node, NodeError, NodeFault, NodeInfo, NoticedBy,
};
use lineside_spv::store::Hash;
use lineside_testkit::{DemoBlock, DemoChain, Random, RegtestChain};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Number of transactions of each block, without the transactions that are taken from disconnected blocks.
const TRANSACTIONS: u32 = 12;
/// Maximum number of abandoned branches that may grow again.
const SIDES: usize = 8;

/// Misbehaviour of the simulated node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Habit {
    Honest,
    /// Sends blocks whose Merkle root does not match their transactions.
    WrongRoot,
    /// Behaves as a node of another network.
    OtherNetwork,
    /// Announces blocks above this height but does not send them.
    WithholdsAbove(u32),
    /// Panics, which ends the calling thread.
    Panics,
}

/// Block of the simulation, and the chain that ends with it.
pub struct KnownBlock {
    pub block: DemoBlock,
    /// Hashes of the chain by height; the last is the block's own hash.
    pub line: Arc<Vec<Hash>>,
    /// Second transaction of the block, which a block of another branch may also hold.
    spare: Option<Transaction>,
}

pub struct World {
    pub blocks: HashMap<Hash, KnownBlock>,
    /// Hashes of the node's best chain by height.
    pub best: Vec<Hash>,
    /// For every transaction, each block that holds it, and the transaction's position in this block.
    pub places: HashMap<Hash, Vec<(Hash, u32)>>,
    /// TXIDs of all transactions, the newest last.
    pub txids: Vec<Hash>,
    /// Blocks that have had enough confirmations in a best chain of the node.
    pub confirmed: HashSet<Hash>,
    min_confirmations: usize,
    sides: Vec<Hash>,
    seed: u64,
    /// Number of calls that the node will not answer, as if it were restarting.
    pub away_calls: u32,
    pub habit: Habit,
    /// True if a lost notification is never compensated by polling.
    never_polls: bool,
    lost: Option<Hash>,
    random: Random,
}

#[derive(Clone)]
pub struct SimNode(Arc<(Mutex<World>, Condvar)>);

impl SimNode {
    pub fn new(seed: u64, min_confirmations: u32, never_polls: bool) -> Self {
        let mut world = World {
            blocks: HashMap::new(),
            best: Vec::new(),
            places: HashMap::new(),
            txids: Vec::new(),
            confirmed: HashSet::new(),
            min_confirmations: min_confirmations as usize,
            sides: Vec::new(),
            seed: seed << 32,
            away_calls: 0,
            habit: Habit::Honest,
            never_polls,
            lost: None,
            random: Random(seed),
        };
        world.add(RegtestChain::genesis(), None);
        Self(Arc::new((Mutex::new(world), Condvar::new())))
    }

    pub fn world(&self) -> MutexGuard<'_, World> {
        self.0.0.lock().unwrap()
    }

    /// Changes the world and wakes all waiting threads.
    pub fn change(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.world());
        self.0.1.notify_all();
    }

    fn asked(&self) -> Result<MutexGuard<'_, World>, NodeError> {
        let mut world = self.world();
        if world.away_calls > 0 {
            world.away_calls -= 1;
            let source = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
            return Err(NodeError::new("sim", NodeFault::Connect { source }));
        }
        Ok(world)
    }
}

impl World {
    fn add(&mut self, block: DemoBlock, spare: Option<Transaction>) {
        let hash = block.hash;
        for (position, txid) in (0..).zip(&block.txids) {
            let places = self.places.entry(*txid).or_default();
            if places.is_empty() {
                self.txids.push(*txid);
            }
            places.push((hash, position));
        }
        self.best.push(hash);
        let line = Arc::new(self.best.clone());
        self.blocks.insert(hash, KnownBlock { block, line, spare });
    }

    /// Returns true if `block` is on the chain that ends with `tip`.
    pub fn is_below(&self, block: &Hash, tip: &Hash) -> bool {
        let height = self.blocks[block].line.len() - 1;
        self.blocks
            .get(tip)
            .is_some_and(|tip| tip.line.get(height) == Some(block))
    }

    /// Returns the block and the position of a transaction on the chain that ends with `tip`.
    pub fn place(&self, txid: &Hash, tip: &Hash) -> Option<(&KnownBlock, u32)> {
        let mut places = self.places.get(txid)?.iter();
        let (block, position) = places.find(|(block, _)| self.is_below(block, tip))?;
        Some((&self.blocks[block], *position))
    }

    /// Returns height and hash of the tip that a host must have after it has caught up.
    pub fn settled_tip(&self) -> Option<(u32, Hash)> {
        let height = self.best.len().checked_sub(self.min_confirmations)?;
        Some((height as u32, self.best[height]))
    }

    /// Mines `count` blocks on the best chain. Some blocks also contain a transaction of an abandoned branch.
    pub fn mine(&mut self, count: u32) {
        self.seed += 1;
        let tip = self.best[self.best.len() - 1];
        let mut chain = DemoChain::branch(self.seed, TRANSACTIONS, tip, self.best.len() as u32);
        for _ in 0..count {
            let spare = chain.payment(1);
            let again: Vec<Transaction> = self.returning().into_iter().collect();
            let block = chain.next_with(&again);
            self.add(block, Some(spare));
        }
        self.confirm();
    }

    /// Returns a transaction of an abandoned branch that is not in the best chain.
    fn returning(&mut self) -> Option<Transaction> {
        let side = self.sides.last()?;
        let line = Arc::clone(&self.blocks[side].line);
        let tip = self.best[self.best.len() - 1];
        let back = 1 + self.random.below(6) as usize;
        let spare = self.blocks[line.get(line.len().checked_sub(back)?)?]
            .spare
            .clone()?;
        let txid = spare.compute_txid().to_byte_array();
        self.place(&txid, &tip).is_none().then_some(spare)
    }

    /// Records the confirmed blocks after a change of the best chain.
    fn confirm(&mut self) {
        let end = (self.best.len() + 1).saturating_sub(self.min_confirmations);
        for hash in self.best[..end].iter().rev() {
            if !self.confirmed.insert(*hash) {
                break;
            }
        }
    }

    fn leave_branch(&mut self) {
        self.sides.push(self.best[self.best.len() - 1]);
        if self.sides.len() > SIDES {
            self.sides.remove(0);
        }
    }

    /// Removes `depth` blocks and mines `depth` + 1 blocks on a new branch.
    pub fn reorganise(&mut self, depth: usize) {
        self.leave_branch();
        let keep = self.best.len() - depth.min(self.best.len() - 1);
        self.best.truncate(keep);
        self.mine(depth as u32 + 1);
    }

    /// Extends an abandoned branch until it is the best one, by at most `depth_max` blocks.
    pub fn go_back(&mut self, depth_max: usize) {
        let side = *self.random.pick(&self.sides);
        let line = Arc::clone(&self.blocks[&side].line);
        let missing = (self.best.len() + 1).saturating_sub(line.len()).max(1);
        if missing > depth_max || self.is_below(&side, &self.best[self.best.len() - 1]) {
            return self.mine(1);
        }
        self.leave_branch();
        self.best = line.to_vec();
        self.mine(missing as u32);
    }

    /// Mines a block with a wrong target or time.
    pub fn mine_wrong(&mut self, bits: u32, time: u32) {
        self.seed += 1;
        let tip = self.best[self.best.len() - 1];
        let mut chain = DemoChain::branch(self.seed, TRANSACTIONS, tip, self.best.len() as u32);
        let block = chain.next().unwrap().mined_again(bits, time);
        self.add(block, None);
    }

    pub fn has_sides(&self) -> bool {
        !self.sides.is_empty()
    }

    /// Removes the newest `depth` blocks, like a node that was restored from a backup, and mines fewer new blocks.
    pub fn lose(&mut self, depth: usize) {
        self.leave_branch();
        let keep = self.best.len() - depth.min(self.best.len() - 1);
        self.best.truncate(keep);
        self.mine(depth as u32 - 1);
    }
}

impl Node for SimNode {
    fn info(&mut self) -> Result<NodeInfo, NodeError> {
        let world = self.asked()?;
        if world.habit == Habit::Panics {
            drop(world);
            panic!("the simulated node has a fault");
        }
        let height = world.best.len() as u32 - 1;
        Ok(NodeInfo {
            signet: None,
            chain: "regtest".into(),
            blocks: height,
            headers: height,
            best: BlockHash(world.best[height as usize]),
            pruned: false,
            prune_height: None,
            initial_block_download: false,
        })
    }

    fn hash_at(&mut self, height: u32) -> Result<BlockHash, NodeError> {
        let world = self.asked()?;
        if world.habit == Habit::OtherNetwork && height == 0 {
            return Ok(BlockHash([7; 32]));
        }
        let hash = world.best.get(height as usize);
        let fault = NodeFault::NoSuchHeight { height };
        hash.map(|hash| BlockHash(*hash))
            .ok_or_else(|| NodeError::new("sim", fault))
    }

    fn header(&mut self, hash: &BlockHash) -> Result<Header, NodeError> {
        let world = self.asked()?;
        let known = world.blocks.get(&hash.0);
        let known = known.ok_or_else(|| NodeError::new("sim", NodeFault::NoSuchBlock { hash: *hash }))?;
        let height = world.best.iter().position(|best| *best == hash.0);
        Ok(Header {
            raw: *known.block.raw.first_chunk().unwrap(),
            height: height.map(|height| height as u32),
        })
    }

    fn block(&mut self, hash: &BlockHash) -> Result<Vec<u8>, NodeError> {
        let world = self.asked()?;
        let known = world.blocks.get(&hash.0);
        let known = known.ok_or_else(|| NodeError::new("sim", NodeFault::NoSuchBlock { hash: *hash }))?;
        if let Habit::WithholdsAbove(height) = world.habit
            && known.line.len() as u32 - 1 > height
        {
            let source = std::io::Error::from(std::io::ErrorKind::TimedOut);
            return Err(NodeError::new("sim", NodeFault::Connect { source }));
        }
        let mut raw = known.block.raw.clone();
        if world.habit == Habit::WrongRoot {
            // Changes a byte of the last transaction's output; the header, and therefore the hash, is unchanged.
            let at = raw.len() - 10;
            raw[at] ^= 1;
        }
        Ok(raw)
    }

    fn wait_for_change(
        &mut self,
        known: &BlockHash,
        timeout: Duration,
    ) -> Result<Option<Announcement>, NodeError> {
        let deadline = Instant::now() + timeout;
        let mut world = self.asked()?;
        loop {
            let best = world.best[world.best.len() - 1];
            // One of eight notifications is lost; the follower then notices the change at its next poll.
            if best != known.0 && world.lost != Some(best) {
                if !world.random.one_in(8) {
                    let hash = BlockHash(best);
                    let by = NoticedBy::Poll;
                    return Ok(Some(Announcement { hash, noticed_by: by }));
                }
                world.lost = world.never_polls.then_some(best);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(None);
            }
            world = self.0.1.wait_timeout(world, left).unwrap().0;
        }
    }

    fn describe(&self) -> String {
        "sim".into()
    }
}

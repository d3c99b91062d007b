//! Generated chain and its history. Every hash in an answer identifies its block, and the history records which blocks
//! were connected in each state of the chain.

use lineside_spv::chain::{
    BlockId, BlockInfo, Chain, ChainError, CheckedBlock, Located, Network, Refused, Reorg, Submitted, Tip,
};
use lineside_spv::store::{self, Hash};
use lineside_testkit::Random;
use lineside_wire::SPV_HEADER_BYTES;
use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of blocks in the chain; the next constant is the number that always remains.
pub const HEIGHTS: usize = 24;
const KEPT_BLOCKS: usize = 8;
/// Number of different transactions for each height.
pub const POSITIONS: u32 = 32;
/// Position of two transactions of each height whose first eight bytes are equal. The fast path compares these bytes
/// first.
const TWINS: u32 = 6;
/// Number of states that the history stores. A reply is checked against a few of them.
const REMEMBERED: usize = 1 << 16;

/// Block, identified by its height and by the state of the chain in which it was connected for the first time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub born: u32,
    pub height: u32,
}

/// Transaction of one height. A block at that height, or at the next height, may contain it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tx {
    pub height: u32,
    pub position: u32,
}

impl Block {
    fn number(self) -> u32 {
        self.born << 5 | self.height
    }

    fn of_number(number: u32) -> Self {
        Self {
            born: number >> 5,
            height: number & 31,
        }
    }

    fn id(self) -> BlockId {
        BlockId(self.number())
    }
}

/// Kind of a hash.
#[derive(Clone, Copy)]
enum Kind {
    Root,
    Block,
    Txid,
}

/// Generator of all hashes of the chain. The seed determines the hashes.
#[derive(Clone, Copy, Debug)]
pub struct Names {
    seed: u64,
}

impl Names {
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    fn word(&self, kind: Kind, index: u64, number: u32) -> u64 {
        let at = (kind as u64) << 40 | index << 36 | u64::from(number);
        Random(self.seed ^ at.wrapping_mul(0xd6e8_feb8_6659_fd93)).next()
    }

    /// Returns a hash whose second word encodes the number. The other words make it possible to check the hash.
    fn hash_of(&self, kind: Kind, number: u32, first: u32) -> Hash {
        let told = self.word(kind, 9, 0) ^ u64::from(number);
        let word = |index, of| self.word(kind, index, of);
        store::bytes(&[word(0, first), told, word(2, number), word(3, number)])
    }

    /// Returns the number that a valid hash of this kind encodes.
    fn number_of(&self, kind: Kind, hash: &Hash) -> Option<u32> {
        let told = store::words(hash)[1] ^ self.word(kind, 9, 0);
        u32::try_from(told).ok()
    }

    pub fn root(&self, block: Block) -> Hash {
        self.hash_of(Kind::Root, block.number(), block.number())
    }

    pub fn hash(&self, block: Block) -> Hash {
        self.hash_of(Kind::Block, block.number(), block.number())
    }

    /// Returns a header that identifies its block twice: by its hash and by its root.
    pub fn header(&self, block: Block) -> [u8; SPV_HEADER_BYTES] {
        let mut header = [0x5a; SPV_HEADER_BYTES];
        header[4..36].copy_from_slice(&self.hash(block));
        header[36..68].copy_from_slice(&self.root(block));
        header[72..].copy_from_slice(&self.word(Kind::Block, 8, block.number()).to_le_bytes());
        header
    }

    /// Returns the TXIDs of `block` in block order.
    pub fn txids(&self, block: Block) -> Vec<Hash> {
        self.txs(block).map(|tx| self.txid(tx)).collect()
    }

    /// Returns the position of `tx` in `block`, which must contain it.
    pub fn index(&self, block: Block, tx: Tx) -> u32 {
        self.txs(block).take_while(|other| *other != tx).count() as u32
    }

    pub fn txid(&self, tx: Tx) -> Hash {
        let number = tx.height << 8 | tx.position;
        let twin = tx.position & !1 == TWINS;
        self.hash_of(Kind::Txid, number, if twin { number & !1 } else { number })
    }

    /// Returns the block with this root; `None` if the root is torn or belongs to no block.
    pub fn block_of_root(&self, root: &Hash) -> Option<Block> {
        let block = Block::of_number(self.number_of(Kind::Root, root)?);
        (self.root(block) == *root).then_some(block)
    }

    /// Returns the block with this hash; `None` if the hash is torn or belongs to no block.
    pub fn block_of_hash(&self, hash: &Hash) -> Option<Block> {
        let block = Block::of_number(self.number_of(Kind::Block, hash)?);
        (self.hash(block) == *hash).then_some(block)
    }

    fn tx_of(&self, txid: &Hash) -> Option<Tx> {
        let number = self.number_of(Kind::Txid, txid)?;
        let tx = Tx {
            height: number >> 8,
            position: number & 0xff,
        };
        (self.txid(tx) == *txid).then_some(tx)
    }

    /// Returns whether `block` contains `tx`. A block contains most transactions of its own height, and some of the
    /// height below it, which a lower block may contain as well.
    pub fn holds(&self, block: Block, tx: Tx) -> bool {
        let chance = Random(self.seed ^ u64::from(block.number()) << 8 ^ u64::from(tx.position)).next() % 16;
        match block.height.checked_sub(tx.height) {
            Some(0) => chance != 0,
            Some(1) => chance < 4,
            _ => false,
        }
    }

    fn txs(&self, block: Block) -> impl Iterator<Item = Tx> {
        let heights = block.height.saturating_sub(1)..=block.height;
        let all = heights.flat_map(|height| (0..POSITIONS).map(move |position| Tx { height, position }));
        let names = *self;
        all.filter(move |tx| names.holds(block, *tx))
    }
}

/// State of the chain: the blocks that are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Number of the state. The first state with blocks has number 1, and each change increases the number.
    pub number: u32,
    /// Number of blocks.
    pub len: usize,
    /// Number of the state in which each block was connected for the first time, by height.
    born: [u32; HEIGHTS],
}

impl State {
    /// Returns the first state, without blocks.
    pub fn empty() -> Self {
        Self {
            number: 0,
            len: 0,
            born: [0; HEIGHTS],
        }
    }

    fn at(&self, height: usize) -> Option<Block> {
        let born = *self.born[..self.len].get(height)?;
        Some(Block {
            born,
            height: height as u32,
        })
    }

    pub fn tip(&self) -> Option<Block> {
        self.at(self.len.checked_sub(1)?)
    }

    /// Returns the block that must answer for `tx`: the highest block that contains it.
    pub fn locate(&self, names: &Names, tx: Tx) -> Option<Block> {
        let candidates = [tx.height + 1, tx.height].map(|height| self.at(height as usize));
        candidates
            .into_iter()
            .flatten()
            .find(|block| names.holds(*block, tx))
    }

    /// Returns the next state. Some blocks are disconnected, and at least one new block is connected, so that each
    /// state has a different tip.
    pub fn next(&self, random: &mut Random) -> Self {
        let mut next = *self;
        next.number += 1;
        let leave = random.below(4) as usize;
        next.len -= leave.min(next.len.saturating_sub(KEPT_BLOCKS));
        let room = HEIGHTS - next.len;
        let come = 1 + random.below(leave as u64 + 2) as usize;
        let come = if room == 0 { 0 } else { come.min(room) };
        if come == 0 {
            next.len = KEPT_BLOCKS;
        }
        for _ in 0..come.max(1) {
            next.born[next.len] = next.number;
            next.len += 1;
        }
        next
    }
}

struct Slot {
    /// Number of the state; 0 while the entry is being written.
    number: AtomicU32,
    len: AtomicU32,
    born: [AtomicU32; HEIGHTS],
}

/// Past states of the chain, and the range of states that may be visible now.
pub struct History {
    slots: Vec<Slot>,
    /// Newest state whose change is complete. An answer must not show an older state.
    committed: AtomicU32,
    /// Newest state that may be visible.
    announced: AtomicU32,
}

impl History {
    pub fn new() -> Self {
        let slot = |_| Slot {
            number: AtomicU32::new(0),
            len: AtomicU32::new(0),
            born: [const { AtomicU32::new(0) }; HEIGHTS],
        };
        Self {
            slots: (0..REMEMBERED).map(slot).collect(),
            committed: AtomicU32::new(0),
            announced: AtomicU32::new(0),
        }
    }

    /// Records that the chain is about to change to `state`.
    pub fn announce(&self, state: &State) {
        let slot = &self.slots[state.number as usize % REMEMBERED];
        slot.number.store(0, Relaxed);
        fence(Release);
        slot.len.store(state.len as u32, Relaxed);
        for (place, born) in slot.born.iter().zip(state.born) {
            place.store(born, Relaxed);
        }
        slot.number.store(state.number, Release);
        self.announced.store(state.number, Release);
    }

    /// Records that the chain has changed to the state with this number.
    pub fn commit(&self, number: u32) {
        self.committed.store(number, Release);
    }

    pub fn committed(&self) -> u32 {
        self.committed.load(Acquire)
    }

    pub fn announced(&self) -> u32 {
        self.announced.load(Acquire)
    }

    /// Returns the state with this number; `None` if it is no longer stored.
    pub fn state(&self, number: u32) -> Option<State> {
        let slot = &self.slots[number as usize % REMEMBERED];
        let before = slot.number.load(Acquire);
        let state = State {
            number,
            len: slot.len.load(Relaxed) as usize,
            born: slot.born.each_ref().map(|place| place.load(Relaxed)),
        };
        fence(Acquire);
        (before == number && slot.number.load(Relaxed) == number && state.len <= HEIGHTS).then_some(state)
    }
}

/// Chain of the host. It changes to the state that the soak wants.
pub struct SoakChain {
    names: Names,
    connected: State,
    steps: u64,
    wanted: Arc<Mutex<State>>,
}

impl SoakChain {
    pub fn new(names: Names, wanted: Arc<Mutex<State>>) -> Self {
        Self {
            names,
            connected: State::empty(),
            steps: 0,
            wanted,
        }
    }
}

impl Chain for SoakChain {
    fn network(&self) -> Network {
        Network::Regtest
    }

    fn locate(&self, txid: &Hash) -> Result<Option<Located>, ChainError> {
        let found = self.names.tx_of(txid).and_then(|tx| {
            let block = self.connected.locate(&self.names, tx)?;
            Some(Located {
                block: block.id(),
                root: self.names.root(block),
                block_hash: self.names.hash(block),
                height: block.height,
                position: self.names.index(block, tx),
            })
        });
        Ok(found)
    }

    fn tip(&self) -> Option<Tip> {
        self.connected.tip().map(|block| Tip {
            hash: self.names.hash(block),
            height: block.height,
        })
    }

    fn state(&self) -> u64 {
        self.steps
    }

    fn size(&self) -> (u64, u64) {
        (self.connected.len as u64, 0)
    }

    fn at_height(&self, height: u32) -> Option<BlockId> {
        self.connected.at(height as usize).map(Block::id)
    }

    fn by_hash(&self, hash: &Hash) -> Option<BlockId> {
        let mut connected = (0..).map_while(|height| self.at_height(height));
        connected.find(|id| self.block(*id).is_some_and(|block| block.hash == *hash))
    }

    fn block(&self, id: BlockId) -> Option<BlockInfo> {
        let block = Block::of_number(id.0);
        Some(BlockInfo {
            hash: self.names.hash(block),
            parent: [0; 32],
            root: self.names.root(block),
            header: self.names.header(block),
            height: block.height,
            transactions: self.names.txs(block).count() as u32,
            detached: false,
            connected: self.connected.at(block.height as usize) == Some(block),
        })
    }

    fn txids(&self, id: BlockId) -> Result<Cow<'_, [Hash]>, ChainError> {
        let block = Block::of_number(id.0);
        Ok(Cow::Owned(self.names.txids(block)))
    }

    fn accept(&mut self, _: &CheckedBlock, _: bool) -> Result<Submitted, Refused> {
        Err(Refused::Malformed("this chain makes its own blocks".into()))
    }

    fn plan(&self) -> Result<Reorg, ChainError> {
        let wanted = *self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let common = (0..HEIGHTS).take_while(|height| {
            let (have, want) = (self.connected.at(*height), wanted.at(*height));
            have.is_some() && have == want
        });
        let common = common.count();
        let ids = |state: &State| {
            (common..state.len)
                .filter_map(|height| Some(state.at(height)?.id()))
                .collect()
        };
        let mut disconnect: Vec<BlockId> = ids(&self.connected);
        disconnect.reverse();
        Ok(Reorg {
            disconnect,
            connect: ids(&wanted),
        })
    }

    fn disconnect(&mut self, id: BlockId) -> Result<(), ChainError> {
        if self.connected.tip().map(Block::id) != Some(id) {
            return Err(ChainError::NoSuchBlock(id.0));
        }
        self.connected.len -= 1;
        self.steps += 1;
        Ok(())
    }

    fn connect(&mut self, id: BlockId) -> Result<(), ChainError> {
        let (block, len) = (Block::of_number(id.0), self.connected.len);
        if block.height as usize != len || len == HEIGHTS {
            return Err(ChainError::NoSuchBlock(id.0));
        }
        self.connected.born[len] = block.born;
        self.connected.len += 1;
        self.steps += 1;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), ChainError> {
        Ok(())
    }
}

//! Which blocks and transactions there are, and where.

use super::ids::{Ids, NO_ID};
use crate::code::TxCode;
use crate::state::TxId;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use lineside_journal::Lsn;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// A block.
#[derive(Debug)]
pub(crate) struct OfBlock {
    /// Its record of the kind BEGIN.
    pub begin: Lsn,
    /// Its record of the kind END.
    pub end: Lsn,
    /// Where the first stands in its segment; 0: not known yet.
    pub offset: AtomicU64,
    pub hash: [u8; 32],
    /// The number of its first transaction, counted from the first of the ledger.
    pub first: u64,
}

impl OfBlock {
    pub fn offset(&self) -> Option<u64> {
        Some(self.offset.load(Ordering::Relaxed)).filter(|offset| *offset != 0)
    }
}

/// The snapshot that a ledger was joined from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OfBase {
    /// The last block that it stands for.
    pub last: u64,
    pub hash: [u8; 32],
    /// The last record of it.
    pub end: Lsn,
    /// Number of transactions whose ids are in it. They are the first of [`Index::ids`].
    pub transactions: u64,
}

/// Where a transaction is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Its block.
    pub block: u64,
    /// Its place in it.
    pub index: u64,
    /// What it is marked with.
    pub code: TxCode,
}

/// A block to be added.
pub(crate) struct Entry {
    pub begin: Lsn,
    pub end: Lsn,
    pub offset: u64,
    pub hash: [u8; 32],
    pub codes: Vec<u8>,
    pub ids: Vec<Option<TxId>>,
}

/// Blocks and transactions, in order.
#[derive(Debug)]
pub(crate) struct Index {
    /// Snapshot that the first block follows; `None`: the first block is the genesis block.
    pub base: Option<OfBase>,
    /// From block [`Self::first`] on.
    pub blocks: Vec<OfBlock>,
    by_hash: HashTable<u32>,
    /// By number: the code, and the id where it is a hash in hex, else zeros.
    pub ids: Ids,
    /// Ids that are no hash in hex.
    pub others: HashMap<Box<[u8]>, u32>,
    hasher: DefaultHashBuilder,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            base: None,
            blocks: Vec::new(),
            by_hash: HashTable::new(),
            ids: Ids::default(),
            others: HashMap::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

/// The one id that is a hash in hex and still among the others.
const NO_ID_TEXT: [u8; 64] = [b'0'; 64];
/// More transactions than this are not counted.
const TRANSACTIONS_MAX: usize = u32::MAX as usize;

impl Index {
    /// An empty one with its ids and codes in these files.
    pub fn with(ids: Ids) -> Self {
        Self {
            ids,
            ..Self::default()
        }
    }

    /// Takes space for so many transactions.
    pub fn reserve(&mut self, transactions: usize) {
        self.ids.reserve(transactions);
    }

    /// Whether there is space for so many more.
    pub fn has_room(&self, transactions: usize) -> bool {
        self.ids.len() + transactions < TRANSACTIONS_MAX && self.blocks.len() < TRANSACTIONS_MAX
    }

    /// Adds the next block.
    pub fn push(&mut self, entry: Entry) {
        let number = self.blocks.len() as u32;
        self.push_block(OfBlock {
            begin: entry.begin,
            end: entry.end,
            offset: entry.offset.into(),
            hash: entry.hash,
            first: self.ids.len() as u64,
        });
        debug_assert_eq!(self.blocks.len() as u32, number + 1);
        self.ids.warm(entry.ids.iter().filter_map(|id| match id {
            Some(TxId::Hash(id)) => Some(id),
            _ => None,
        }));
        for (code, id) in entry.codes.into_iter().zip(entry.ids) {
            self.push_transaction(code, id);
        }
    }

    pub fn push_block(&mut self, block: OfBlock) {
        let number = self.blocks.len() as u32;
        let (blocks, hasher) = (&mut self.blocks, &self.hasher);
        let hash = hasher.hash_one(block.hash);
        blocks.push(block);
        let rehash =
            |&place: &u32| hasher.hash_one(blocks.get(place as usize).map_or([0; 32], |block| block.hash));
        self.by_hash.insert_unique(hash, number, rehash);
    }

    /// Adds the next transaction of the last block. Of several with one id, the first is found.
    pub fn push_transaction(&mut self, code: u8, id: Option<TxId>) {
        let number = self.ids.len() as u32;
        let id = match id {
            Some(TxId::Hash(NO_ID)) => {
                self.others.entry(NO_ID_TEXT.into()).or_insert(number);
                NO_ID
            }
            Some(TxId::Hash(id)) => id,
            Some(TxId::Other(id)) => {
                self.others.entry(id).or_insert(number);
                NO_ID
            }
            None => NO_ID,
        };
        self.ids.push(id, code);
    }

    /// The snapshot before the first block, whose ids are all that there is.
    pub fn set_base(&mut self, last: u64, hash: [u8; 32], end: Lsn) {
        self.base = Some(OfBase {
            last,
            hash,
            end,
            transactions: self.ids.len() as u64,
        });
    }

    /// The number of the first block.
    pub fn first(&self) -> u64 {
        self.base.map_or(0, |base| base.last + 1)
    }

    /// The number of the block that comes next.
    pub fn height(&self) -> u64 {
        self.first() + self.blocks.len() as u64
    }

    /// The place of a block in [`Self::blocks`], whether it is there or not yet.
    pub fn place(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first())?).ok()
    }

    /// A block.
    pub fn block(&self, number: u64) -> Option<&OfBlock> {
        self.blocks.get(self.place(number)?)
    }

    /// The header hash of the last block.
    pub fn last_hash(&self) -> Option<[u8; 32]> {
        let last = self.blocks.last().map(|block| block.hash);
        last.or(self.base.map(|base| base.hash))
    }

    /// The block with this header hash.
    pub fn block_of_hash(&self, hash: &[u8; 32]) -> Option<u64> {
        if let Some(base) = self.base.filter(|base| base.hash == *hash) {
            return Some(base.last);
        }
        let is = |place: &u32| {
            self.blocks
                .get(*place as usize)
                .is_some_and(|block| block.hash == *hash)
        };
        let found = self.by_hash.find(self.hasher.hash_one(hash), is);
        found.map(|place| self.first() + u64::from(*place))
    }

    /// The number of the first transaction with this id.
    pub fn number_of(&self, id: &TxId) -> Option<u32> {
        Some(match id {
            TxId::Hash(NO_ID) => *self.others.get(&NO_ID_TEXT[..])?,
            TxId::Hash(id) => self.ids.find(id)?,
            TxId::Other(id) => *self.others.get(id)?,
        })
    }

    /// The first transaction with this id; `None` also for one in a block before a snapshot.
    pub fn transaction(&self, id: &TxId) -> Option<Place> {
        let number = self.number_of(id)?;
        let after = self
            .blocks
            .partition_point(|block| block.first <= u64::from(number));
        let block = after.checked_sub(1)?;
        Some(Place {
            block: self.first() + block as u64,
            index: u64::from(number) - self.blocks.get(block)?.first,
            code: TxCode::from_number(self.ids.record(number as usize)?.1)?,
        })
    }

    /// Every id once, for the validator.
    pub fn all_ids(&self) -> impl Iterator<Item = TxId> {
        let first = |number: &usize| {
            let (id, _) = self.ids.record(*number)?;
            (id != NO_ID && self.ids.find(&id) == Some(*number as u32)).then_some(id)
        };
        let hashes = (0..self.ids.len()).filter_map(move |number| first(&number));
        let others = self.others.keys().map(|id| match **id == NO_ID_TEXT {
            true => TxId::Hash(NO_ID),
            false => TxId::Other(id.clone()),
        });
        hashes.map(TxId::Hash).chain(others)
    }
}

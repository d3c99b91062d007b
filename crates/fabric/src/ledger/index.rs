//! Index of the blocks and transactions of a ledger, with their positions.

use super::ids::{NO_ID, TxIdIndex};
use crate::code::TxCode;
use crate::state::TxId;
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use lineside_journal::Lsn;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};

/// Index entry of a block.
#[derive(Debug)]
pub(crate) struct BlockEntry {
    /// The record of the kind BEGIN.
    pub begin: Lsn,
    /// The record of the kind END.
    pub end: Lsn,
    /// Offset of the BEGIN record in its segment of the journal, in bytes; 0 if the offset is not known yet.
    pub offset: AtomicU64,
    pub hash: [u8; 32],
    /// Number of the first transaction, counted from the first one of the ledger.
    pub first: u64,
}

impl BlockEntry {
    pub fn offset(&self) -> Option<u64> {
        Some(self.offset.load(Ordering::Relaxed)).filter(|offset| *offset != 0)
    }
}

/// Index entry of the snapshot with which a ledger begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BaseEntry {
    /// Number of the snapshot's last block.
    pub last: u64,
    pub hash: [u8; 32],
    /// The last record of the snapshot.
    pub end: Lsn,
    /// Number of transaction ids in the snapshot. They are the first of [`Index::ids`].
    pub transactions: u64,
}

/// Position of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TxPosition {
    /// Block number.
    pub block: u64,
    /// Index in the block.
    pub index: u64,
    /// Validation code.
    pub code: TxCode,
}

/// A block to add to the index.
pub(crate) struct Entry {
    pub begin: Lsn,
    pub end: Lsn,
    pub offset: u64,
    pub hash: [u8; 32],
    pub codes: Vec<u8>,
    pub ids: Vec<Option<TxId>>,
}

/// Index of a ledger's blocks and transactions, both in the order of their numbers.
#[derive(Debug)]
pub(crate) struct Index {
    /// The snapshot before the first block; `None`: the first block is the genesis block.
    pub base: Option<BaseEntry>,
    /// Blocks from number [`Self::first`] on.
    pub blocks: Vec<BlockEntry>,
    by_hash: HashTable<u32>,
    /// Code and id of each transaction, by its number. An id that is not a hash in hex is stored as zeros.
    pub ids: TxIdIndex,
    /// Ids that are not a hash in hex.
    pub others: HashMap<Box<[u8]>, u32>,
    hasher: DefaultHashBuilder,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            base: None,
            blocks: Vec::new(),
            by_hash: HashTable::new(),
            ids: TxIdIndex::default(),
            others: HashMap::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

/// Text of the id that equals `NO_ID`; although it is a hash in hex, it is stored in `others`.
const NO_ID_TEXT: [u8; 64] = [b'0'; 64];
/// Maximum number of transactions in an index.
const TRANSACTIONS_MAX: usize = u32::MAX as usize;

impl Index {
    /// Creates an empty index with this storage of ids and codes.
    pub fn with(ids: TxIdIndex) -> Self {
        Self {
            ids,
            ..Self::default()
        }
    }

    /// Reserves memory for more transactions.
    pub fn reserve(&mut self, transactions: usize) {
        self.ids.reserve(transactions);
    }

    /// Returns whether this number of further transactions fits into the index.
    pub fn has_room(&self, transactions: usize) -> bool {
        self.ids.len() + transactions < TRANSACTIONS_MAX && self.blocks.len() < TRANSACTIONS_MAX
    }

    /// Adds the next block.
    pub fn push(&mut self, entry: Entry) {
        let number = self.blocks.len() as u32;
        self.push_block(BlockEntry {
            begin: entry.begin,
            end: entry.end,
            offset: entry.offset.into(),
            hash: entry.hash,
            first: self.ids.len() as u64,
        });
        debug_assert_eq!(self.blocks.len() as u32, number + 1);
        self.ids.prefetch(entry.ids.iter().filter_map(|id| match id {
            Some(TxId::Hash(id)) => Some(id),
            _ => None,
        }));
        for (code, id) in entry.codes.into_iter().zip(entry.ids) {
            self.push_transaction(code, id);
        }
    }

    pub fn push_block(&mut self, block: BlockEntry) {
        let number = self.blocks.len() as u32;
        let (blocks, hasher) = (&mut self.blocks, &self.hasher);
        let hash = hasher.hash_one(block.hash);
        blocks.push(block);
        let rehash =
            |&place: &u32| hasher.hash_one(blocks.get(place as usize).map_or([0; 32], |block| block.hash));
        self.by_hash.insert_unique(hash, number, rehash);
    }

    /// Adds the next transaction of the last block. If several transactions have one id, lookups return the first.
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

    /// Sets the snapshot before the first block. All ids in the index must be the snapshot's.
    pub fn set_base(&mut self, last: u64, hash: [u8; 32], end: Lsn) {
        self.base = Some(BaseEntry {
            last,
            hash,
            end,
            transactions: self.ids.len() as u64,
        });
    }

    /// Returns the number of the first block.
    pub fn first(&self) -> u64 {
        self.base.map_or(0, |base| base.last + 1)
    }

    /// Returns the number of the next block.
    pub fn height(&self) -> u64 {
        self.first() + self.blocks.len() as u64
    }

    /// Returns the index of a block in [`Self::blocks`], also for a later block that is not in the index yet.
    pub fn index_of(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first())?).ok()
    }

    /// Returns the entry of a block.
    pub fn block(&self, number: u64) -> Option<&BlockEntry> {
        self.blocks.get(self.index_of(number)?)
    }

    /// Returns the header hash of the last block.
    pub fn last_hash(&self) -> Option<[u8; 32]> {
        let last = self.blocks.last().map(|block| block.hash);
        last.or(self.base.map(|base| base.hash))
    }

    /// Returns the number of the block with this header hash.
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

    /// Returns the number of the first transaction with this id.
    pub fn number_of(&self, id: &TxId) -> Option<u32> {
        Some(match id {
            TxId::Hash(NO_ID) => *self.others.get(&NO_ID_TEXT[..])?,
            TxId::Hash(id) => self.ids.find(id)?,
            TxId::Other(id) => *self.others.get(id)?,
        })
    }

    /// Returns the position of the first transaction with this id; `None` also if it is in a block before a snapshot.
    pub fn transaction(&self, id: &TxId) -> Option<TxPosition> {
        let number = self.number_of(id)?;
        let after = self
            .blocks
            .partition_point(|block| block.first <= u64::from(number));
        let block = after.checked_sub(1)?;
        Some(TxPosition {
            block: self.first() + block as u64,
            index: u64::from(number) - self.blocks.get(block)?.first,
            code: TxCode::from_number(self.ids.record(number as usize)?.1)?,
        })
    }

    /// Returns every id once, for the validator.
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

//! The chain store: accepted blocks, the best chain among them, and lookups of transactions in the connected blocks.

mod indexes;
mod rules;
mod steps;
mod sync;

use super::checksum::crc32c;
use super::disk_index::Truth;
use super::files::{Files, Opening, Record};
use super::index::IndexedTx;
use super::kept_blocks::KeptBlocks;
use super::network::{Network, StoreNetwork};
use super::types::{
    BlockId, BlockInfo, ChainError, DETACHED_HEIGHT, IndexKind, IndexRebuilt, Located, Submitted, Tip,
};
use super::validate::{CheckedBlock, Refused, check_work};
use super::witness_files::WitnessPlace;
use bitcoin::block::Header;
use bitcoin::consensus::encode;
use bitcoin::hashes::Hash;
use bitcoin::pow::Work;
use indexes::{Blocks, Index, TXIDS, Witnessed};
use rules::{Lineage, now_s};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::path::Path;

/// Flag in [`Record::flags`] of a detached block.
const FLAG_DETACHED: u32 = 1;

/// One accepted block.
pub(super) struct Entry {
    header: [u8; 80],
    hash: [u8; 32],
    parent: Option<BlockId>,
    work: Work,
    pub(super) first: u64,
    pub(super) count: u32,
    pub(super) witness: WitnessPlace,
    height: u32,
    lineage: Lineage,
    detached: bool,
    connected: bool,
}

impl Entry {
    fn parent_hash(&self) -> [u8; 32] {
        slice32(&self.header, 4)
    }

    fn root(&self) -> [u8; 32] {
        slice32(&self.header, 36)
    }
}

fn slice32(header: &[u8; 80], at: usize) -> [u8; 32] {
    let mut out = [0; 32];
    out.copy_from_slice(&header[at..at + 32]);
    out
}

/// The embedded chain store. One thread writes; several threads may call the methods that take `&self`.
pub struct ChainStore {
    network: Network,
    identity: StoreNetwork,
    /// Raw blocks, if they are stored. This field is dropped before `files`, because a block's bytes must be written
    /// before its record.
    pub(super) kept_blocks: Option<KeptBlocks>,
    pub(super) files: Files,
    pub(super) entries: Vec<Entry>,
    by_hash: HashMap<[u8; 32], BlockId>,
    index: Index,
    /// Index of WTXIDs, if enabled.
    wtxids: Option<Index>,
    /// Blocks of the connected chain by height.
    active: Vec<BlockId>,
    best: Option<BlockId>,
    /// Digest of all accepted blocks, in order.
    history: u64,
}

impl ChainStore {
    /// Opens or creates the store in `dir`, or one in memory if `dir` is `None`, and connects its best chain. The TXID
    /// index is kept in memory.
    pub fn open(dir: Option<&Path>, network: Network) -> Result<ChainStore, ChainError> {
        Ok(ChainStore::open_with(dir, network, IndexKind::Memory)?.0)
    }

    /// Creates an empty store, with witness data if `with_witness` is set; an existing store is opened unchanged. The
    /// TXID index is kept in memory.
    ///
    /// # Errors
    /// The errors of [`ChainStore::open`].
    pub fn make(
        dir: Option<&Path>,
        network: impl Into<StoreNetwork>,
        with_witness: bool,
    ) -> Result<ChainStore, ChainError> {
        Ok(ChainStore::open_or_make(dir, network.into(), IndexKind::Memory, with_witness)?.0)
    }

    /// Opens a store like [`ChainStore::open`], with the given kind of index. The index covers exactly the blocks in
    /// the files: missing blocks are indexed now, and an index that is damaged or belongs to other blocks is rebuilt,
    /// which the second value reports.
    pub fn open_with(
        dir: Option<&Path>,
        network: Network,
        kind: IndexKind,
    ) -> Result<(ChainStore, Option<IndexRebuilt>), ChainError> {
        ChainStore::open_or_make(dir, network.into(), kind, false)
    }

    fn open_or_make(
        dir: Option<&Path>,
        new: StoreNetwork,
        kind: IndexKind,
        with_witness: bool,
    ) -> Result<(ChainStore, Option<IndexRebuilt>), ChainError> {
        let (opening, records) = match dir {
            Some(dir) => {
                let (opening, records) = Opening::read(dir, new, with_witness)?;
                (Some(opening), records)
            }
            None => (None, Vec::new()),
        };
        let identity = opening.as_ref().map_or(new, Opening::identity);
        let mut store = ChainStore {
            network: identity.network,
            identity,
            files: Files::in_memory(with_witness),
            entries: Vec::with_capacity(records.len()),
            by_hash: HashMap::with_capacity(records.len()),
            index: Index::empty()?,
            wtxids: None,
            kept_blocks: None,
            active: Vec::new(),
            best: None,
            history: 0,
        };
        for (number, record) in records.iter().enumerate() {
            store.restore(record).ok_or_else(|| ChainError::Corrupt {
                path: dir.unwrap_or(Path::new("")).join("blocks.dat"),
                record: number as u64,
                why: "contradicts the records before it",
            })?;
        }
        // The records are valid: now remove what an interrupted write left. Files that are refused stay unchanged.
        if let Some(opening) = opening {
            store.files = opening.cut()?;
        }
        let rebuilt = store.open_index(dir, kind)?;
        store.catch_up()?;
        Ok((store, rebuilt))
    }

    fn open_index(
        &mut self,
        dir: Option<&Path>,
        kind: IndexKind,
    ) -> Result<Option<IndexRebuilt>, ChainError> {
        let truth = Blocks {
            entries: &self.entries,
            files: &self.files,
        };
        let ids = self.files.len() as usize;
        let (index, rebuilt) = Index::open(dir, TXIDS, kind, &truth, (self.network, ids))?;
        self.index = index;
        Ok(rebuilt)
    }

    /// Returns the number of the block with this hash, connected or not.
    pub fn by_hash(&self, hash: &[u8; 32]) -> Option<BlockId> {
        self.by_hash.get(hash).copied()
    }

    /// Returns the network of the store in `dir`; `None` if there is no store. The directory is not changed.
    ///
    /// # Errors
    /// The file cannot be read or does not belong to a store, or the directory belongs to another service.
    pub fn network_of(dir: &Path) -> Result<Option<StoreNetwork>, ChainError> {
        super::files::network_of(dir)
    }

    /// Returns the network that this store holds, including which signet it is.
    pub fn identity(&self) -> StoreNetwork {
        self.identity
    }

    /// Returns the network that this store holds.
    pub fn network(&self) -> Network {
        self.network
    }

    /// Checks `raw_block` and accepts it. `detached` allows a block whose parent is unknown.
    ///
    /// A block on the chain is not connected by this call (see [`ChainStore::plan`]); a detached block is connected at
    /// once.
    pub fn submit(&mut self, raw_block: &[u8], detached: bool) -> Result<Submitted, Refused> {
        let block = self.check(raw_block)?;
        let submitted = self.accept(&block, detached)?;
        self.keep(&block.hash, raw_block).map_err(Refused::Storage)?;
        Ok(submitted)
    }

    /// Checks a block with or without its witnesses, as this store needs it.
    ///
    /// # Errors
    /// The first fault of the block.
    pub fn check(&self, raw_block: &[u8]) -> Result<CheckedBlock, Refused> {
        check_for(self.keeps_witness(), raw_block, self.network)
    }

    /// Accepts a block that was checked before, possibly on another thread.
    pub fn accept(&mut self, block: &CheckedBlock, detached: bool) -> Result<Submitted, Refused> {
        let full = |what: &str| Refused::Storage(std::io::Error::other(format!("too many {what}")));
        if block.network != self.network {
            return Err(Refused::TargetAboveLimit(self.network));
        }
        if let Some(&id) = self.by_hash.get(&block.hash) {
            let height = self.entries[id.0 as usize].height;
            return Ok(Submitted {
                id,
                hash: block.hash,
                height,
                already_known: true,
            });
        }
        let parent_hash = block.header.prev_blockhash.to_byte_array();
        let (height, is_detached) = match self.position_after(&parent_hash) {
            Some(position) => position,
            None if detached => (DETACHED_HEIGHT, true),
            None => return Err(Refused::UnknownParent(parent_hash)),
        };
        self.check_lineage(&block.header, &block.hash, now_s())?;
        let count = u32::try_from(block.txids.len()).map_err(|_| full("transactions"))?;
        if self.keeps_witness() {
            let witness = block.witness.as_ref().ok_or(Refused::WitnessesNotChecked)?;
            witness.check_height(self.network, height)?;
        }
        u32::try_from(self.entries.len() + 1).map_err(|_| full("blocks"))?;
        self.make_room().map_err(Refused::Storage)?;

        let mut header = [0u8; 80];
        header.copy_from_slice(&encode::serialize(&block.header));
        let mut record = Record {
            header,
            first: self.files.len(),
            count,
            height,
            flags: if is_detached { FLAG_DETACHED } else { 0 },
            txids_crc: crc32c(block.txids.as_flattened()),
            witness: WitnessPlace::default(),
        };
        self.files
            .append(&mut record, &block.txids, block.witness.as_ref());
        let id = self.enter(&record, &block.header, block.hash);
        let (entries, files) = (&self.entries, &self.files);
        self.index.add(id.0, &Blocks { entries, files });
        if let Some(wtxids) = &mut self.wtxids {
            wtxids.add(id.0, &Witnessed(Blocks { entries, files }));
        }
        Ok(Submitted {
            id,
            hash: block.hash,
            height,
            already_known: false,
        })
    }

    /// Returns the height of a block whose parent is `parent`, and true if this block is detached; `None` if the parent
    /// is unknown.
    fn position_after(&self, parent: &[u8; 32]) -> Option<(u32, bool)> {
        if *parent == [0; 32] {
            return Some((0, false));
        }
        let parent = &self.entries[self.by_hash.get(parent)?.0 as usize];
        Some(if parent.detached {
            (DETACHED_HEIGHT, true)
        } else {
            (parent.height + 1, false)
        })
    }

    /// Adds the block of one record of the files; `None` if the record contradicts earlier ones.
    fn restore(&mut self, record: &Record) -> Option<()> {
        let header: Header = encode::deserialize(&record.header).ok()?;
        let hash = check_work(&header, self.network).ok()?;
        let expected = self.position_after(&header.prev_blockhash.to_byte_array());
        let detached = record.flags & FLAG_DETACHED != 0;
        let fits = expected == Some((record.height, detached)) || (expected.is_none() && detached);
        if !fits || self.by_hash.contains_key(&hash) {
            return None;
        }
        // Every block time counts as past, because the clock may have been set back since the block was accepted.
        self.check_lineage(&header, &hash, u32::MAX).ok()?;
        self.enter(record, &header, hash);
        Some(())
    }

    /// Adds a block to the tables.
    fn enter(&mut self, record: &Record, header: &Header, hash: [u8; 32]) -> BlockId {
        let id = BlockId(self.entries.len() as u32);
        let detached = record.flags & FLAG_DETACHED != 0;
        let parent = self.by_hash.get(&slice32(&record.header, 4)).copied();
        let work = match parent {
            Some(parent) if !detached => self.entries[parent.0 as usize].work + header.work(),
            _ => header.work(),
        };
        let of_parent = parent.map(|parent| self.entries[parent.0 as usize].lineage);
        self.entries.push(Entry {
            lineage: Lineage::new(self.network, record.height, header, &hash, of_parent),
            header: record.header,
            hash,
            parent,
            work,
            first: record.first,
            count: record.count,
            witness: record.witness,
            height: record.height,
            detached,
            connected: detached,
        });
        self.by_hash.insert(hash, id);
        self.history = fold(self.history ^ u64::from(detached), &hash);
        let best = self.best.map(|best| self.entries[best.0 as usize].work);
        if !detached && best.is_none_or(|best| work > best) {
            self.best = Some(id);
        }
        id
    }

    /// Returns the last block of the connected chain; `None` if there are only detached blocks.
    pub fn tip(&self) -> Option<Tip> {
        let entry = &self.entries[self.active.last()?.0 as usize];
        Some(Tip {
            hash: entry.hash,
            height: entry.height,
        })
    }

    /// Returns the state number of [`super::Chain::state`]: a digest of the accepted blocks in order, and of the tip.
    pub fn state(&self) -> u64 {
        let tip = self.tip().map_or([0; 32], |tip| tip.hash);
        fold(self.history, &tip).max(1)
    }

    /// Returns the connected block at `height`.
    pub fn at_height(&self, height: u32) -> Option<BlockId> {
        self.active.get(height as usize).copied()
    }

    /// Returns true if this block is connected, so that the store finds its transactions.
    pub fn is_connected(&self, id: BlockId) -> bool {
        self.entries
            .get(id.0 as usize)
            .is_some_and(|entry| entry.connected)
    }

    /// Returns the location of `txid` in the connected blocks; if several hold it, in the highest one. A detached block
    /// counts only if no other block has the TXID, because its place in the chain is unknown; of several detached
    /// blocks the last one counts.
    ///
    /// # Errors
    /// [`ChainError::Index`]: the index on disk could not be read, or contradicts the blocks.
    pub fn locate(&self, txid: &[u8; 32]) -> Result<Option<Located>, ChainError> {
        let best = self.best_place(&self.index, txid, &self.truth())?;
        Ok(best.map(|place| self.located(place)))
    }

    /// Returns the location of a transaction after the coinbase by its WTXID, in the blocks that commit to their
    /// witnesses. Returns always `None` unless [`ChainStore::index_wtxids`] was called.
    ///
    /// # Errors
    /// The errors of [`ChainStore::locate`].
    pub fn locate_wtxid(&self, wtxid: &[u8; 32]) -> Result<Option<Located>, ChainError> {
        let Some(index) = &self.wtxids else {
            return Ok(None);
        };
        let best = self.best_place(index, wtxid, &Witnessed(self.truth()))?;
        // The WTXID index does not count the coinbase, so its position 0 is the block's position 1.
        let after_coinbase = |place: IndexedTx| IndexedTx {
            position: place.position + 1,
            ..place
        };
        Ok(best.map(|place| self.located(after_coinbase(place))))
    }

    fn truth(&self) -> Blocks<'_> {
        Blocks {
            entries: &self.entries,
            files: &self.files,
        }
    }

    /// Returns the preferred location of `id` in an index.
    fn best_place(
        &self,
        index: &Index,
        id: &[u8; 32],
        truth: &impl Truth,
    ) -> Result<Option<IndexedTx>, ChainError> {
        let rank = |place: IndexedTx| {
            let entry = &self.entries[place.block as usize];
            (
                !entry.detached,
                entry.height,
                place.block,
                Reverse(place.position),
            )
        };
        let mut best: Option<IndexedTx> = None;
        index.places(id, truth, |place: IndexedTx| {
            let connected = self.entries[place.block as usize].connected;
            if connected && best.is_none_or(|other| rank(place) > rank(other)) {
                best = Some(place);
            }
        })?;
        Ok(best)
    }

    fn located(&self, place: IndexedTx) -> Located {
        let entry = &self.entries[place.block as usize];
        Located {
            block: BlockId(place.block),
            root: entry.root(),
            block_hash: entry.hash,
            height: entry.height,
            position: place.position,
        }
    }

    /// Returns the block's TXIDs in order; empty for an unknown block.
    pub fn txids(&self, id: BlockId) -> &[[u8; 32]] {
        match self.entries.get(id.0 as usize) {
            Some(entry) => self.files.txids(entry.first, entry.count),
            None => &[],
        }
    }

    /// Returns the stored information about a block.
    pub fn block(&self, id: BlockId) -> Option<BlockInfo> {
        let entry = self.entries.get(id.0 as usize)?;
        Some(BlockInfo {
            hash: entry.hash,
            parent: entry.parent_hash(),
            root: entry.root(),
            header: entry.header,
            height: entry.height,
            transactions: entry.count,
            detached: entry.detached,
            connected: entry.connected,
        })
    }

    /// Returns the number of the block with this hash.
    pub fn find(&self, hash: &[u8; 32]) -> Option<BlockId> {
        self.by_hash.get(hash).copied()
    }

    /// Returns the number of accepted blocks, side branches and detached blocks included.
    pub fn blocks(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if any block was accepted without its parent.
    pub fn has_detached(&self) -> bool {
        self.entries.iter().any(|entry| entry.detached)
    }

    /// Returns the number of TXIDs in all accepted blocks.
    pub fn transactions(&self) -> usize {
        self.files.len() as usize
    }
}

/// Checks a block for a chain with or without witness data.
pub(crate) fn check_for(witness: bool, raw_block: &[u8], network: Network) -> Result<CheckedBlock, Refused> {
    if witness {
        CheckedBlock::check_with_witness(raw_block, network)
    } else {
        CheckedBlock::check(raw_block, network)
    }
}

/// Mixes a hash into a number. The multiplier is odd, so the multiplication loses no bits.
fn fold(number: u64, hash: &[u8; 32]) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&hash[..8]);
    (number ^ u64::from_le_bytes(first))
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .rotate_left(29)
}

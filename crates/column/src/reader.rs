//! Lock-free reads of the fast-path table, while its single writer changes it. This module is the specification of
//! `xdp/column_find.h`.
//!
//! The rows of a block do not change while a page refers to the block. The column's sequence number shows whether the
//! index stayed unchanged during the whole read. So the rows are current at the moment at which the reader reads their
//! block's flags: a change sets the flag `invalid` before any client can see the change.

use crate::head::{self, End, KeyWords, Lengths};
use crate::layout::{ColumnBlock, ColumnPage, ColumnTable, ColumnTops};
use crate::store::Store;
use lineside_fastpath::lease;
use lineside_wire::{
    COLUMN_BLOCK_CONTINUES, COLUMN_BLOCK_INVALID, COLUMN_BLOCK_ROWS_MAX, COLUMN_PAGE_BLOCKS,
    COLUMN_PAGES_MAX, COLUMN_SERVERS_MAX, ColumnCounter,
};
use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, fence};

/// Maximum number of blocks that a scan visits. The host answers longer scans.
pub const SCAN_BLOCKS_MAX: usize = 16;
/// Maximum number of blocks that a search tries if their heads are equal.
const EQUAL_HEADS_TRIED_MAX: usize = 8;

/// Reason why the fast path forwards a request to the host, named by the counter of such requests.
pub type ForwardReason = ColumnCounter;

/// Seqlock read section over one column. The data that was read is valid only if [`SeqlockRead::validate`] returns true
/// afterwards.
pub struct SeqlockRead<'a> {
    store: &'a Store,
    column: usize,
    table: &'a ColumnTable,
    seq: u64,
    now_ns: u64,
}

/// Position of a block in its column.
#[derive(Clone, Copy, Debug)]
struct BlockPosition {
    /// Index of the page, in the order of keys.
    page: usize,
    /// Index of the block in the page.
    block: usize,
}

/// A block of the fast-path table, as a reader sees it.
pub struct Block<'a> {
    index: usize,
    block: &'a ColumnBlock,
    records: &'a [AtomicU64],
    lengths: Lengths,
}

/// End of a range of rows.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// Key of the end.
    pub key: KeyWords,
    /// True if a row at the key belongs to the range.
    pub inclusive: bool,
}

/// Range of a scan.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Lowest key of the range.
    pub start: KeyWords,
    /// True if a row at the start does not belong to the range.
    pub start_exclusive: bool,
    /// End of the range, which is not below its start; `None`: the range extends to the end of the table.
    pub stop: Option<Stop>,
    /// Maximum number of rows; `None`: the caller decides.
    pub limit: Option<usize>,
}

impl<'a> SeqlockRead<'a> {
    /// Begins to read the column with this name.
    ///
    /// # Errors
    /// Returns the reason why the column cannot be read now.
    pub fn begin(store: &'a Store, name: &[u64; 4], now_ns: u64) -> Result<Self, ForwardReason> {
        if !lease::is_valid(&store.control().lease_until_ns, now_ns) {
            return Err(ForwardReason::NotLeased);
        }
        let section = Self::of(store, name, now_ns)?;
        let literal = store.control().literal_flags.load(Relaxed) != 0;
        match literal && section.table.invalid_blocks.load(Acquire) != 0 {
            true => Err(ForwardReason::Invalid),
            false => Ok(section),
        }
    }

    fn of(store: &'a Store, name: &[u64; 4], now_ns: u64) -> Result<Self, ForwardReason> {
        let column = store.column(name).ok_or(ForwardReason::Misses)?;
        let table = store.tables.as_slice().get(column).ok_or(ForwardReason::Misses)?;
        let seq = table.seq.load(Acquire);
        let section = Self {
            store,
            column,
            table,
            seq,
            now_ns,
        };
        (seq & 1 == 0).then_some(section).ok_or(ForwardReason::Changing)
    }

    /// Returns true if the index of the column has not changed since the section began.
    pub fn validate(&self) -> bool {
        fence(Acquire);
        self.table.seq.load(Relaxed) == self.seq
    }

    fn tops(&self) -> &'a ColumnTops {
        &self.store.tops.as_slice()[self.column]
    }

    fn pages(&self) -> usize {
        (self.table.pages.load(Relaxed) as usize).min(COLUMN_PAGES_MAX)
    }

    /// Returns a page by its number in the order of keys. While the writer changes the index, the result may be an
    /// error or a wrong page, but it never lies outside the table.
    fn page(&self, place: usize) -> Result<&'a ColumnPage, ForwardReason> {
        let page = self.tops().page.get(place).ok_or(ForwardReason::Changing)?;
        let pages = self.store.pages.as_slice();
        pages
            .get(page.load(Relaxed) as usize)
            .ok_or(ForwardReason::Changing)
    }

    fn block(&self, position: BlockPosition) -> Result<Block<'a>, ForwardReason> {
        let page = self.page(position.page)?;
        let index = page
            .block
            .get(position.block)
            .ok_or(ForwardReason::Changing)?
            .load(Relaxed) as usize;
        let block = self
            .store
            .blocks
            .as_slice()
            .get(index)
            .ok_or(ForwardReason::Changing)?;
        Ok(Block {
            index,
            block,
            records: self.store.records(index),
            lengths: Lengths::of(block.lengths.load(Relaxed)),
        })
    }

    fn previous_block(&self, place: BlockPosition) -> Result<BlockPosition, ForwardReason> {
        if place.block > 0 {
            let block = place.block - 1;
            return Ok(BlockPosition { block, ..place });
        }
        let page = place.page.checked_sub(1).ok_or(ForwardReason::Misses)?;
        let count = self.page(page)?.count.load(Relaxed) as usize;
        let block = count.checked_sub(1).ok_or(ForwardReason::Changing)?;
        Ok(BlockPosition { page, block })
    }

    fn next_block(&self, position: BlockPosition) -> Result<BlockPosition, ForwardReason> {
        let count = self.page(position.page)?.count.load(Relaxed) as usize;
        match position.block + 1 < count {
            true => Ok(BlockPosition {
                block: position.block + 1,
                ..position
            }),
            false if position.page + 1 < self.pages() => Ok(BlockPosition {
                page: position.page + 1,
                block: 0,
            }),
            false => Err(ForwardReason::Misses),
        }
    }

    /// Finds the block whose interval contains `key`, and its position.
    fn find(&self, key: &KeyWords) -> Result<(BlockPosition, Block<'a>), ForwardReason> {
        let pages = self.pages();
        if pages == 0 {
            return Err(ForwardReason::Misses);
        }
        let head = key.head(self.table.skip.load(Relaxed) as usize);
        let page = last_not_above(&self.tops().head[..pages], head);
        let heads = self.page(page)?;
        let head = key.head(heads.skip.load(Relaxed) as usize);
        let count = (heads.count.load(Relaxed) as usize).clamp(1, COLUMN_PAGE_BLOCKS);
        let block = last_not_above(&heads.head[..count], head);
        let mut position = BlockPosition { page, block };
        for _ in 0..EQUAL_HEADS_TRIED_MAX {
            let block = self.block(position)?;
            let (order, _) = head::compare_bound(key, &block.block.bound, End::Low, block.lengths.low);
            if order != Ordering::Less {
                let below = block.compare_high(key) == Ordering::Less;
                return below.then_some((position, block)).ok_or(ForwardReason::Misses);
            }
            position = self.previous_block(position)?;
        }
        Err(ForwardReason::Misses)
    }

    /// Checks that the block's rows may be answered at this moment, and marks the block as used.
    fn check(&self, block: &Block<'_>) -> Result<(), ForwardReason> {
        if block.block.flags.load(Acquire) & COLUMN_BLOCK_INVALID != 0 {
            return Err(ForwardReason::Invalid);
        }
        let server = block.block.server.load(Relaxed) as usize % COLUMN_SERVERS_MAX;
        let leased = lease::is_valid(&self.store.servers().until_ns[server], self.now_ns);
        if !leased || !lease::is_valid(&block.block.until_ns, self.now_ns) {
            return Err(ForwardReason::NotLeased);
        }
        if block.block.used.load(Relaxed) == 0 {
            block.block.used.store(1, Relaxed);
        }
        Ok(())
    }

    /// Returns the row with this key: its block, and its index in the block. Returns `None` if the table has no such
    /// row.
    ///
    /// # Errors
    /// Returns the reason why the fast path does not know whether the row exists.
    pub fn get(&self, key: &KeyWords) -> Result<Option<(Block<'a>, usize)>, ForwardReason> {
        let (_, block) = self.find(key)?;
        self.check(&block)?;
        let row = block.rows_before(key, false);
        let is_there = row < block.rows() && block.compare_row(key, row) == Ordering::Equal;
        Ok(is_there.then_some((block, row)))
    }

    /// Passes the rows of `range` to `take`, as ranges of rows in a block (block, from, to). `take` returns the number
    /// of rows that it accepted. Returns the number of accepted rows, and true if more rows may follow because the
    /// limit was reached or `take` did not accept all rows.
    ///
    /// # Errors
    /// Returns the reason why the fast path does not know these rows; [`ForwardReason::Forwarded`] if there are rows
    /// but `take` accepted none.
    pub fn scan(
        &self,
        range: &Range,
        mut take: impl FnMut(&Block<'a>, usize, usize) -> Result<usize, ForwardReason>,
    ) -> Result<(usize, bool), ForwardReason> {
        let (mut position, mut block) = self.find(&range.start)?;
        let mut rows_read = 0;
        for visited in 0..SCAN_BLOCKS_MAX {
            if visited > 0 {
                position = self.next_block(position)?;
                block = self.block(position)?;
            }
            self.check(&block)?;
            let from = match visited {
                0 => block.rows_before(&range.start, range.start_exclusive),
                _ => 0,
            };
            let last = range.stop.filter(|stop| block.ends_behind(stop));
            let to = last.map_or(block.rows(), |stop| block.rows_before(&stop.key, stop.inclusive));
            let mut rows = to.saturating_sub(from);
            let mut cut = false;
            if let Some(limit) = range.limit.filter(|limit| rows_read + rows >= *limit) {
                rows = limit - rows_read;
                cut = true;
            }
            if rows > 0 {
                let took = take(&block, from, from + rows)?;
                rows_read += took;
                cut |= took < rows;
            }
            if cut {
                return if rows_read > 0 {
                    Ok((rows_read, true))
                } else {
                    Err(ForwardReason::Forwarded)
                };
            }
            if last.is_some() || block.lengths.high.is_none() {
                return Ok((rows_read, false));
            }
            if block.block.flags.load(Acquire) & COLUMN_BLOCK_CONTINUES == 0 {
                return Err(ForwardReason::Misses);
            }
        }
        Err(ForwardReason::Misses)
    }

    /// Invalidates the block that contains `key` in the column `name`. Returns true if it was valid before.
    pub fn invalidate(store: &'a Store, name: &[u64; 4], key: &KeyWords) -> bool {
        let found = Self::of(store, name, 0).and_then(|section| Ok((section.find(key)?, section)));
        let Ok(((_, block), section)) = found else {
            return false;
        };
        set_invalid(block.block, section.table)
    }
}

/// Sets the flag `invalid`, and counts the block as invalid in its column. Returns false if the flag was already set.
pub(crate) fn set_invalid(block: &ColumnBlock, table: &ColumnTable) -> bool {
    let before = block
        .flags
        .fetch_or(COLUMN_BLOCK_INVALID, std::sync::atomic::Ordering::SeqCst);
    let newly = before & COLUMN_BLOCK_INVALID == 0;
    if newly {
        table
            .invalid_blocks
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
    newly
}

/// Returns the index of the last head that is not above `head`. Index 0 is always possible, because the first head is
/// 0.
fn last_not_above(heads: &[AtomicU64], head: u64) -> usize {
    heads
        .partition_point(|other| other.load(Relaxed) <= head)
        .saturating_sub(1)
}

impl Block<'_> {
    /// Returns the block's index in the table.
    pub fn index(&self) -> usize {
        self.index
    }

    fn rows(&self) -> usize {
        (self.block.rows.load(Relaxed) as usize).min(COLUMN_BLOCK_ROWS_MAX)
    }

    /// Returns the offset of a row's record in the block's data, in words of 64 bits.
    fn record_start(&self, row: usize) -> usize {
        match row.checked_sub(1) {
            Some(before) => self.block.end[before].load(Relaxed) as usize / 8,
            None => 0,
        }
    }

    /// Returns the records of rows `from` (inclusive) to `to` (exclusive), as words of 64 bits.
    pub fn records(&self, from: usize, to: usize) -> &[AtomicU64] {
        let (begin, end) = (
            self.record_start(from),
            self.record_start(to).min(self.records.len()),
        );
        self.records.get(begin..end).unwrap_or_default()
    }

    /// Returns the timestamp of a row, in milliseconds since 1970.
    pub fn version_ms(&self, row: usize) -> u64 {
        self.block.version_ms[row].load(Relaxed)
    }

    /// Returns key and value of a row; `None` if the writer is changing the record.
    pub fn row(&self, row: usize) -> Option<Record> {
        Record::read(self.records(row, row + 1))
    }

    fn compare_row(&self, key: &KeyWords, row: usize) -> Ordering {
        match self
            .row(row)
            .as_ref()
            .and_then(|record| KeyWords::new(record.key()))
        {
            Some(other) => key.compare(|index| other.words()[index], other.bytes()).0,
            None => Ordering::Greater,
        }
    }

    fn compare_high(&self, key: &KeyWords) -> Ordering {
        self.lengths.high.map_or(Ordering::Less, |len| {
            head::compare_bound(key, &self.block.bound, End::High, len).0
        })
    }

    /// Returns true if all keys after this block lie after `stop`.
    fn ends_behind(&self, stop: &Stop) -> bool {
        match self.compare_high(&stop.key) {
            Ordering::Less => true,
            Ordering::Equal => !stop.inclusive,
            Ordering::Greater => false,
        }
    }

    /// Returns the number of rows in the block before `key`, which is not below the block's low key. If `inclusive`, a
    /// row with this key counts, too.
    fn rows_before(&self, key: &KeyWords, inclusive: bool) -> usize {
        let (_, same) = head::compare_bound(key, &self.block.bound, End::Low, self.lengths.low);
        // All rows begin with the first `skip` bytes of the low key. If the key differs in these bytes, it is above all
        // rows.
        if same < self.lengths.skip {
            return self.rows();
        }
        let head = key.head(self.lengths.skip);
        let heads = &self.block.head[..self.rows()];
        let mut row = heads.partition_point(|other| other.load(Relaxed) < head);
        while row < heads.len() && heads[row].load(Relaxed) == head {
            match self.compare_row(key, row) {
                Ordering::Greater => {}
                Ordering::Equal if inclusive => {}
                _ => break,
            }
            row += 1;
        }
        row
    }
}

/// Copy of a row's record: key and value.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    bytes: [u8; Record::BYTES_MAX],
    key_bytes: usize,
    value_bytes: usize,
}

impl Record {
    /// Maximum number of bytes of a record.
    pub const BYTES_MAX: usize =
        (4 + lineside_wire::COLUMN_KEY_BYTES_MAX + lineside_wire::COLUMN_VALUE_BYTES_MAX).next_multiple_of(8);

    /// Copies a record. Returns `None` if the words are not a complete record.
    pub(crate) fn read(words: &[AtomicU64]) -> Option<Self> {
        let mut bytes = [0; Self::BYTES_MAX];
        let target = bytes.get_mut(..8 * words.len())?;
        for (chunk, word) in target.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        let key_bytes = usize::from(bytes[0]);
        let value_bytes = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        (4 + key_bytes + value_bytes <= 8 * words.len()).then_some(Self {
            bytes,
            key_bytes,
            value_bytes,
        })
    }

    /// Returns the key.
    pub fn key(&self) -> &[u8] {
        &self.bytes[4..4 + self.key_bytes]
    }

    /// Returns the value.
    pub fn value(&self) -> &[u8] {
        &self.bytes[4 + self.key_bytes..4 + self.key_bytes + self.value_bytes]
    }
}

//! The store read without locks, beside its one writer. The specification of `xdp/column_find.h`.
//!
//! A block's rows do not change while a page names it, and the column's sequence number says whether that was so all
//! the time. So rows are true as of the moment at which their block's flags were read: a change sets the flag before
//! anybody can see it.

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

/// Blocks that one scan goes through at most.
pub const SCAN_BLOCKS_MAX: usize = 16;
/// Blocks tried where heads do not tell them apart.
const TRIES: usize = 8;

/// Why the fast path leaves a request to the host: what is counted.
pub type Leave = ColumnCounter;

/// One column at one time; what is read in it counts only if [`Session::holds`] at its end.
pub struct Session<'a> {
    store: &'a Store,
    column: usize,
    table: &'a ColumnTable,
    seq: u64,
    now_ns: u64,
}

/// Where a block stands in its column.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Which of the pages in order.
    page: usize,
    /// Which of the page's blocks.
    block: usize,
}

/// One block.
pub struct Block<'a> {
    index: usize,
    block: &'a ColumnBlock,
    records: &'a [AtomicU64],
    lengths: Lengths,
}

/// Where a scan ends.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// The key.
    pub key: KeyWords,
    /// Whether a row at the key is still in the range.
    pub inclusive: bool,
}

/// What a scan asks for.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// Its lowest key.
    pub start: KeyWords,
    /// Whether a row at the start is not in the range.
    pub start_exclusive: bool,
    /// Where it ends; `None`: at the table's end. Not below the start.
    pub stop: Option<Stop>,
    /// Rows at most; `None`: as many as are taken.
    pub limit: Option<usize>,
}

impl<'a> Session<'a> {
    /// Begins to read the column `name`.
    ///
    /// # Errors
    /// Why it cannot be read now.
    pub fn begin(store: &'a Store, name: &[u64; 4], now_ns: u64) -> Result<Self, Leave> {
        if !lease::is_valid(&store.control().lease_until_ns, now_ns) {
            return Err(Leave::NotLeased);
        }
        let session = Self::of(store, name, now_ns)?;
        let literal = store.control().literal_flags.load(Relaxed) != 0;
        match literal && session.table.invalid_blocks.load(Acquire) != 0 {
            true => Err(Leave::Invalid),
            false => Ok(session),
        }
    }

    fn of(store: &'a Store, name: &[u64; 4], now_ns: u64) -> Result<Self, Leave> {
        let column = store.column(name).ok_or(Leave::Misses)?;
        let table = store.tables.as_slice().get(column).ok_or(Leave::Misses)?;
        let seq = table.seq.load(Acquire);
        let session = Self {
            store,
            column,
            table,
            seq,
            now_ns,
        };
        (seq & 1 == 0).then_some(session).ok_or(Leave::Changing)
    }

    /// Whether nothing that was read since the beginning has moved.
    pub fn holds(&self) -> bool {
        fence(Acquire);
        self.table.seq.load(Relaxed) == self.seq
    }

    fn tops(&self) -> &'a ColumnTops {
        &self.store.tops.as_slice()[self.column]
    }

    fn pages(&self) -> usize {
        (self.table.pages.load(Relaxed) as usize).min(COLUMN_PAGES_MAX)
    }

    /// Torn numbers lead nowhere, not out of the store.
    fn page(&self, place: usize) -> Result<&'a ColumnPage, Leave> {
        let page = self.tops().page.get(place).ok_or(Leave::Changing)?;
        let pages = self.store.pages.as_slice();
        pages.get(page.load(Relaxed) as usize).ok_or(Leave::Changing)
    }

    fn block(&self, place: Place) -> Result<Block<'a>, Leave> {
        let page = self.page(place.page)?;
        let index = page.block.get(place.block).ok_or(Leave::Changing)?.load(Relaxed) as usize;
        let block = self.store.blocks.as_slice().get(index).ok_or(Leave::Changing)?;
        Ok(Block {
            index,
            block,
            records: self.store.records(index),
            lengths: Lengths::of(block.lengths.load(Relaxed)),
        })
    }

    fn before(&self, place: Place) -> Result<Place, Leave> {
        if place.block > 0 {
            let block = place.block - 1;
            return Ok(Place { block, ..place });
        }
        let page = place.page.checked_sub(1).ok_or(Leave::Misses)?;
        let count = self.page(page)?.count.load(Relaxed) as usize;
        let block = count.checked_sub(1).ok_or(Leave::Changing)?;
        Ok(Place { page, block })
    }

    fn behind(&self, place: Place) -> Result<Place, Leave> {
        let count = self.page(place.page)?.count.load(Relaxed) as usize;
        match place.block + 1 < count {
            true => Ok(Place {
                block: place.block + 1,
                ..place
            }),
            false if place.page + 1 < self.pages() => Ok(Place {
                page: place.page + 1,
                block: 0,
            }),
            false => Err(Leave::Misses),
        }
    }

    /// The block whose interval has `key`.
    fn find(&self, key: &KeyWords) -> Result<(Place, Block<'a>), Leave> {
        let pages = self.pages();
        if pages == 0 {
            return Err(Leave::Misses);
        }
        let head = key.head(self.table.skip.load(Relaxed) as usize);
        let page = last_not_above(&self.tops().head[..pages], head);
        let heads = self.page(page)?;
        let head = key.head(heads.skip.load(Relaxed) as usize);
        let count = (heads.count.load(Relaxed) as usize).clamp(1, COLUMN_PAGE_BLOCKS);
        let block = last_not_above(&heads.head[..count], head);
        let mut place = Place { page, block };
        for _ in 0..TRIES {
            let block = self.block(place)?;
            let (order, _) = head::compare_bound(key, &block.block.bound, End::Low, block.lengths.low);
            if order != Ordering::Less {
                let below = block.compare_high(key) == Ordering::Less;
                return below.then_some((place, block)).ok_or(Leave::Misses);
            }
            place = self.before(place)?;
        }
        Err(Leave::Misses)
    }

    /// Whether the block may be answered from now on.
    fn check(&self, block: &Block<'_>) -> Result<(), Leave> {
        if block.block.flags.load(Acquire) & COLUMN_BLOCK_INVALID != 0 {
            return Err(Leave::Invalid);
        }
        let server = block.block.server.load(Relaxed) as usize % COLUMN_SERVERS_MAX;
        let leased = lease::is_valid(&self.store.servers().until_ns[server], self.now_ns);
        if !leased || !lease::is_valid(&block.block.until_ns, self.now_ns) {
            return Err(Leave::NotLeased);
        }
        if block.block.used.load(Relaxed) == 0 {
            block.block.used.store(1, Relaxed);
        }
        Ok(())
    }

    /// The block and the number of the row at `key`; `None`: there is no such row.
    ///
    /// # Errors
    /// Why the fast path cannot say.
    pub fn get(&self, key: &KeyWords) -> Result<Option<(Block<'a>, usize)>, Leave> {
        let (_, block) = self.find(key)?;
        self.check(&block)?;
        let row = block.rows_before(key, false);
        let is_there = row < block.rows() && block.compare_row(key, row) == Ordering::Equal;
        Ok(is_there.then_some((block, row)))
    }

    /// Gives the rows of `range` to `take`, some of one block at a time (block, from, to), which says how many of them
    /// it took. The number taken, and whether there may be more: the limit was reached, or not all were taken.
    ///
    /// # Errors
    /// Why the fast path cannot say; [`Leave::Forwarded`] where there are rows but none was taken.
    pub fn scan(
        &self,
        range: &Range,
        mut take: impl FnMut(&Block<'a>, usize, usize) -> Result<usize, Leave>,
    ) -> Result<(usize, bool), Leave> {
        let (mut place, mut block) = self.find(&range.start)?;
        let mut taken = 0;
        for visited in 0..SCAN_BLOCKS_MAX {
            if visited > 0 {
                place = self.behind(place)?;
                block = self.block(place)?;
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
            if let Some(limit) = range.limit.filter(|limit| taken + rows >= *limit) {
                rows = limit - taken;
                cut = true;
            }
            if rows > 0 {
                let took = take(&block, from, from + rows)?;
                taken += took;
                cut |= took < rows;
            }
            if cut {
                return if taken > 0 {
                    Ok((taken, true))
                } else {
                    Err(Leave::Forwarded)
                };
            }
            if last.is_some() || block.lengths.high.is_none() {
                return Ok((taken, false));
            }
            if block.block.flags.load(Acquire) & COLUMN_BLOCK_CONTINUES == 0 {
                return Err(Leave::Misses);
            }
        }
        Err(Leave::Misses)
    }

    /// Marks the block that has `key` in column `name` invalid. `true`: it was not yet.
    pub fn invalidate(store: &'a Store, name: &[u64; 4], key: &KeyWords) -> bool {
        let found = Self::of(store, name, 0).and_then(|session| Ok((session.find(key)?, session)));
        let Ok(((_, block), session)) = found else {
            return false;
        };
        set_invalid(block.block, session.table)
    }
}

/// Sets the flag, and counts it with the column; `false`: it was set already.
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

/// The last of these heads that is not above `head`; the first one never is.
fn last_not_above(heads: &[AtomicU64], head: u64) -> usize {
    heads
        .partition_point(|other| other.load(Relaxed) <= head)
        .saturating_sub(1)
}

impl Block<'_> {
    /// Its number.
    pub fn index(&self) -> usize {
        self.index
    }

    fn rows(&self) -> usize {
        (self.block.rows.load(Relaxed) as usize).min(COLUMN_BLOCK_ROWS_MAX)
    }

    /// Where the record `row` begins, in words.
    fn begin(&self, row: usize) -> usize {
        match row.checked_sub(1) {
            Some(before) => self.block.end[before].load(Relaxed) as usize / 8,
            None => 0,
        }
    }

    /// The records from row `from` on and before row `to`, as words.
    pub fn records(&self, from: usize, to: usize) -> &[AtomicU64] {
        let (begin, end) = (self.begin(from), self.begin(to).min(self.records.len()));
        self.records.get(begin..end).unwrap_or_default()
    }

    /// Timestamp of a row.
    pub fn version_ms(&self, row: usize) -> u64 {
        self.block.version_ms[row].load(Relaxed)
    }

    /// Key and value of a row; `None`: torn.
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

    /// Whether no key behind this block can be within `stop`.
    fn ends_behind(&self, stop: &Stop) -> bool {
        match self.compare_high(&stop.key) {
            Ordering::Less => true,
            Ordering::Equal => !stop.inclusive,
            Ordering::Greater => false,
        }
    }

    /// How many rows come before `key`, which is not below this block's low key; one at the key counts if `inclusive`.
    fn rows_before(&self, key: &KeyWords, inclusive: bool) -> usize {
        let (_, same) = head::compare_bound(key, &self.block.bound, End::Low, self.lengths.low);
        // Low key and rows begin with the same `skip` bytes, the key with higher ones.
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

/// A record, copied: its key and value.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    bytes: [u8; Record::BYTES_MAX],
    key_bytes: usize,
    value_bytes: usize,
}

impl Record {
    /// Bytes of the longest record.
    pub const BYTES_MAX: usize =
        (4 + lineside_wire::COLUMN_KEY_BYTES_MAX + lineside_wire::COLUMN_VALUE_BYTES_MAX).next_multiple_of(8);

    /// `None` where the words are no whole record.
    pub(crate) fn read(words: &[AtomicU64]) -> Option<Self> {
        let mut bytes = [0; Self::BYTES_MAX];
        let room = bytes.get_mut(..8 * words.len())?;
        for (place, word) in room.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.load(Relaxed).to_ne_bytes());
        }
        let key_bytes = usize::from(bytes[0]);
        let value_bytes = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        (4 + key_bytes + value_bytes <= 8 * words.len()).then_some(Self {
            bytes,
            key_bytes,
            value_bytes,
        })
    }

    /// Its key.
    pub fn key(&self) -> &[u8] {
        &self.bytes[4..4 + self.key_bytes]
    }

    /// Its value.
    pub fn value(&self) -> &[u8] {
        &self.bytes[4 + self.key_bytes..4 + self.key_bytes + self.value_bytes]
    }
}

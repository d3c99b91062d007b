//! The single writer of the fast-path table. Any number of readers may read the table at the same time.
//!
//! The writer has its own copy of the index: the blocks of each page, and their intervals. It changes the shared index
//! only while the column's sequence number is odd, in short sections that affect a few pages.

mod frequency_sketch;
mod read_plan;
mod split;

use crate::fill::{ColumnFill, ColumnId, FillCounts, Filled, ReadPlan, Row, ServerId};
use crate::head::{self, End, KeyWords, Lengths, SKIP_MAX};
use crate::key::{Interval, Key};
use crate::layout::{ColumnBlock, ColumnTable};
use crate::reader::set_invalid;
use crate::store::Store;
use frequency_sketch::FrequencySketch;
use lineside_fastpath::lease;
use lineside_wire::{
    COLUMN_BLOCK_CONTINUES, COLUMN_BLOCK_INVALID, COLUMN_BLOCK_ROWS_MAX, COLUMN_NO_HEAD, COLUMN_NO_ROW_HEAD,
    COLUMN_PAGE_BLOCKS, COLUMN_PAGES_MAX,
};
use split::BlockContent;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering::Relaxed, Ordering::Release, Ordering::SeqCst, fence};

/// Maximum number of blocks that are linked in one write section. Readers find nothing during the section.
const BATCH: usize = 16;
/// Number of blocks that a page has after packing, which leaves room for more.
const PACKED: usize = COLUMN_PAGE_BLOCKS * 3 / 4;

/// Writer of a [`Store`], whose memory may be a process's own or BPF maps.
pub struct ColumnWriter {
    store: Arc<Store>,
    columns: Vec<Vec<Page>>,
    contents: Vec<BlockContents>,
    free_blocks: Vec<u32>,
    free_pages: Vec<u32>,
    /// Index of the next block that eviction considers (clock algorithm).
    clock_hand: usize,
    sketch: FrequencySketch,
    counts: FillCounts,
}

/// A page with its blocks in the order of their keys. A page is empty only while its first block is being linked.
#[derive(Clone, Debug)]
struct Page {
    index: u32,
    blocks: Vec<u32>,
}

/// The writer's own description of a block.
#[derive(Clone, Copy, Debug)]
struct BlockContents {
    column: u16,
    /// True if a page refers to the block.
    linked: bool,
    interval: Interval,
}

impl ColumnWriter {
    /// Creates the writer of `store`, and empties the table. A store must have only one writer.
    pub fn new(store: Arc<Store>) -> Self {
        let block_rows = store.control().block_rows.load(Relaxed) as usize;
        let mut writer = Self {
            sketch: FrequencySketch::new(store.blocks.as_slice().len() * block_rows),
            columns: vec![Vec::new(); store.tables.as_slice().len()],
            contents: Vec::new(),
            free_blocks: Vec::new(),
            free_pages: Vec::new(),
            clock_hand: 0,
            counts: FillCounts::default(),
            store,
        };
        writer.empty();
        writer
    }

    fn empty(&mut self) {
        for column in 0..self.columns.len() {
            let section = WriteSection::begin(self.table(column));
            self.table(column).pages.store(0, Relaxed);
            self.table(column).invalid_blocks.store(0, Relaxed);
            let tops = &self.store.tops.as_slice()[column];
            tops.head
                .iter()
                .for_each(|head| head.store(COLUMN_NO_HEAD, Relaxed));
            section.end();
        }
        fence(Release);
        for block in self.store.blocks.as_slice() {
            block.flags.store(0, Relaxed);
        }
        let nothing = BlockContents {
            column: 0,
            linked: false,
            interval: Interval::ALL,
        };
        let (blocks, pages) = (
            self.store.blocks.as_slice().len(),
            self.store.pages.as_slice().len(),
        );
        self.columns.iter_mut().for_each(Vec::clear);
        self.contents = vec![nothing; blocks];
        self.free_blocks = (0..blocks as u32).rev().collect();
        self.free_pages = (0..pages as u32).rev().collect();
        (self.counts.blocks, self.counts.rows) = (0, 0);
    }

    fn table(&self, column: usize) -> &ColumnTable {
        &self.store.tables.as_slice()[column]
    }

    fn block(&self, index: u32) -> &ColumnBlock {
        &self.store.blocks.as_slice()[index as usize]
    }

    fn interval(&self, index: u32) -> &Interval {
        &self.contents[index as usize].interval
    }

    /// Returns the page, and the position in that page, at which a block with this low key is or would be inserted.
    fn position_of(&self, column: usize, low: &Key) -> (usize, usize) {
        let pages = &self.columns[column];
        // A new page has no block yet, so it counts as lying before the key.
        let is_before = |page: &Page| {
            page.blocks
                .first()
                .is_none_or(|first| self.interval(*first).low <= *low)
        };
        let pages_before = pages.partition_point(is_before);
        let page = pages_before.saturating_sub(1);
        let position = pages.get(page).map_or(0, |page| {
            page.blocks
                .partition_point(|block| self.interval(*block).low < *low)
        });
        (page, position)
    }

    /// Returns the blocks that overlap `interval`: for each page that has such blocks, the range of their positions.
    fn overlapping(&self, column: usize, interval: &Interval) -> Vec<(usize, Range<usize>)> {
        let mut overlapping = Vec::new();
        let (first, _) = self.position_of(column, &interval.low);
        for (number, page) in self.columns[column].iter().enumerate().skip(first) {
            let is_before = |block: &u32| {
                self.interval(*block)
                    .high
                    .is_some_and(|high| high <= interval.low)
            };
            let from = page.blocks.partition_point(is_before);
            let meets = |block: &&u32| self.interval(**block).overlaps(interval);
            let count = page.blocks[from..].iter().take_while(meets).count();
            let is_behind = interval
                .high
                .is_some_and(|high| self.interval(page.blocks[0]).low >= high);
            if is_behind {
                break;
            }
            if count > 0 {
                overlapping.push((number, from..from + count));
            }
        }
        overlapping
    }

    /// Returns the parts of a fill's interval that have to be installed. A valid block that remains valid for at least
    /// half as long as the fill is kept, because its rows are equally current; its rows outside the interval then need
    /// not be read again.
    fn missing(&self, column: usize, filled: &Filled<'_>) -> Vec<Interval> {
        let (mut missing, mut low) = (Vec::new(), filled.interval.low);
        let now_ns = lease::now_ns();
        let is_enough = |until_ns: u64| {
            let (left_ns, new_ns) = (
                until_ns.saturating_sub(now_ns),
                filled.until_ns.saturating_sub(now_ns),
            );
            left_ns > 0 && left_ns >= new_ns / 2
        };
        for (page, places) in self.overlapping(column, &filled.interval) {
            for index in &self.columns[column][page].blocks[places] {
                let (block, contents) = (self.block(*index), *self.interval(*index));
                let stays = block.flags.load(Relaxed) & COLUMN_BLOCK_INVALID == 0
                    && block.server.load(Relaxed) == u32::from(filled.server.0)
                    && is_enough(block.until_ns.load(Relaxed));
                if !stays {
                    continue;
                }
                let high = Some(contents.low);
                missing.push(Interval { low, high });
                let Some(end) = contents.high else {
                    missing.retain(|part| !part.is_empty());
                    return missing;
                };
                low = low.max(end);
            }
        }
        let high = filled.interval.high;
        missing.push(Interval { low, high });
        missing.retain(|part| !part.is_empty());
        missing
    }

    /// Installs an interval: removes the blocks that overlap it, then adds blocks with the new rows.
    fn install_part(&mut self, column: usize, filled: &Filled<'_>) {
        self.remove(column, &filled.interval);
        let control = self.store.control();
        let rows_max = control.block_rows.load(Relaxed) as usize;
        let room = control.data_bytes.load(Relaxed) as usize - 64;
        // The rows are distributed evenly over the blocks, so that each block has room for rows that are added later.
        let blocks = filled.rows.len().div_ceil(rows_max).max(1);
        let rows_max = filled.rows.len().div_ceil(blocks).max(1);
        let pieces = split::pieces(&filled.interval, filled.rows, rows_max, room);
        for pieces in pieces.chunks(BATCH) {
            let mut blocks = Vec::with_capacity(pieces.len());
            for piece in pieces {
                if let Some(index) = self.take_block() {
                    self.write_block(index, filled, piece);
                    blocks.push(index);
                }
            }
            self.link(column, &blocks);
        }
    }

    /// Removes the blocks that overlap `interval` from their pages, and frees them.
    fn remove(&mut self, column: usize, interval: &Interval) {
        let affected = self.overlapping(column, interval);
        let Some((first, _)) = affected.first().cloned() else {
            return;
        };
        let store = Arc::clone(&self.store);
        let section = WriteSection::begin(&store.tables.as_slice()[column]);
        let mut removed = Vec::new();
        for (page, places) in &affected {
            removed.extend(self.columns[column][*page].blocks.drain(places.clone()));
        }
        let mut pages = std::mem::take(&mut self.columns[column]);
        pages.retain(|page| {
            if page.blocks.is_empty() {
                self.free_pages.push(page.index);
            }
            !page.blocks.is_empty()
        });
        self.columns[column] = pages;
        // Rewrites the pages around the removed blocks, and the page before them, because its last block is no longer
        // continued by the next one.
        let changed = first.saturating_sub(1)..(first + 2).min(self.columns[column].len());
        changed.clone().for_each(|page| self.write_page(column, page));
        self.write_tops(column, changed.start, changed.len());
        section.end();
        for index in removed {
            self.free(column, index);
        }
    }

    /// Frees a block to which no page refers any more.
    fn free(&mut self, column: usize, index: u32) {
        if self.block(index).flags.swap(0, SeqCst) & COLUMN_BLOCK_INVALID != 0 {
            self.table(column).invalid_blocks.fetch_sub(1, SeqCst);
        }
        self.contents[index as usize].linked = false;
        self.counts.blocks -= 1;
        self.counts.rows -= u64::from(self.block(index).rows.load(Relaxed));
        self.free_blocks.push(index);
    }

    /// Returns true if `rows` rows in `intervals` fit the free blocks and the blocks that the rows replace.
    fn has_room(&self, column: usize, intervals: &[Interval], rows: usize) -> bool {
        let block_rows = self.store.control().block_rows.load(Relaxed) as usize;
        let needed = match intervals {
            [] => 0,
            _ => rows.div_ceil(block_rows.max(1)).max(1),
        };
        self.free_blocks.len() >= needed
            || intervals
                .iter()
                .any(|interval| !self.overlapping(column, interval).is_empty())
    }

    /// Returns a free block. If no block is free, evicts a block that was not used since eviction last considered it.
    fn take_block(&mut self) -> Option<u32> {
        for _ in 0..2 * self.contents.len() {
            if let Some(index) = self.free_blocks.pop() {
                return Some(index);
            }
            let hand = self.clock_hand;
            self.clock_hand = (hand + 1) % self.contents.len();
            let contents = self.contents[hand];
            if !contents.linked {
                continue;
            }
            let block = &self.store.blocks.as_slice()[hand];
            let is_invalid = block.flags.load(Relaxed) & COLUMN_BLOCK_INVALID != 0;
            if block.used.swap(0, Relaxed) == 0 || is_invalid {
                self.remove(contents.column.into(), &contents.interval);
                self.counts.evictions += 1;
            }
        }
        self.free_blocks.pop()
    }

    /// Writes all contents of a free block. No reader can find the block at this time.
    fn write_block(&mut self, index: u32, filled: &Filled<'_>, piece: &BlockContent) {
        let rows = &filled.rows[piece.rows.clone()];
        let block = self.block(index);
        // The fence orders the following writes to the block after the removal of the block from its former page.
        fence(Release);
        let low = piece.interval.low.as_bytes();
        let skip = rows
            .iter()
            .map(|row| head::common_bytes(low, row.key.as_bytes()))
            .min();
        let lengths = Lengths {
            low: low.len(),
            high: piece.interval.high.map(|high| high.as_bytes().len()),
            skip: skip.unwrap_or(0).min(SKIP_MAX),
        };
        block.lengths.store(lengths.word(), Relaxed);
        for (end, key) in [
            (End::Low, Some(piece.interval.low)),
            (End::High, piece.interval.high),
        ] {
            let key = key_words(&key.unwrap_or(Key::FIRST));
            for (word_index, word) in key.words().iter().enumerate() {
                head::bound(&block.bound, end, word_index).store(*word, Relaxed);
            }
        }
        let records = self.store.records(index as usize);
        let (mut used, mut sum) = (0, 0u64);
        for row_index in 0..COLUMN_BLOCK_ROWS_MAX {
            let mut head = COLUMN_NO_ROW_HEAD;
            let mut version_ms = 0;
            if let Some(row) = rows.get(row_index) {
                for word in split::record(row).as_chunks().0 {
                    let word = u64::from_ne_bytes(*word);
                    records[used].store(word, Relaxed);
                    sum += (word & 0xffff_ffff) + (word >> 32);
                    used += 1;
                }
                head = key_words(&row.key).head(lengths.skip);
                version_ms = row.timestamp_ms;
            }
            block.end[row_index].store(8 * used as u32, Relaxed);
            block.head[row_index].store(head, Relaxed);
            block.sum[row_index].store(sum, Relaxed);
            block.version_ms[row_index].store(version_ms, Relaxed);
        }
        block.rows.store(rows.len() as u32, Relaxed);
        block.server.store(filled.server.0.into(), Relaxed);
        block.until_ns.store(filled.until_ns, Relaxed);
        // Marks the block as used, so that the next eviction does not take it.
        block.used.store(1, Relaxed);
        self.contents[index as usize] = BlockContents {
            column: filled.column.0,
            linked: false,
            interval: piece.interval,
        };
    }

    /// Inserts written blocks into pages. Frees the blocks for which there is no page.
    fn link(&mut self, column: usize, blocks: &[u32]) {
        let store = Arc::clone(&self.store);
        let section = WriteSection::begin(&store.tables.as_slice()[column]);
        let (mut first_changed, mut last_changed, mut added) = (usize::MAX, 0, 0);
        for &index in blocks {
            self.counts.blocks += 1;
            self.counts.rows += u64::from(self.block(index).rows.load(Relaxed));
            let low = self.interval(index).low;
            let (mut page, mut position) = self.position_of(column, &low);
            let is_full = |pages: &[Page]| {
                pages
                    .get(page)
                    .is_none_or(|page| page.blocks.len() == COLUMN_PAGE_BLOCKS)
            };
            if is_full(&self.columns[column]) {
                added += 1;
                if !self.split(column, page, position) {
                    self.free(column, index);
                    continue;
                }
                (page, position) = self.position_of(column, &low);
            }
            if self.block(index).flags.swap(0, SeqCst) & COLUMN_BLOCK_INVALID != 0 {
                self.table(column).invalid_blocks.fetch_sub(1, SeqCst);
            }
            self.contents[index as usize].linked = true;
            self.columns[column][page].blocks.insert(position, index);
            first_changed = first_changed.min(page.saturating_sub(1));
            last_changed = last_changed.max(page + 2);
        }
        // A page that was split moves the pages after it, so these are written, too.
        let first = first_changed.min(self.columns[column].len());
        let last = (last_changed + added).min(self.columns[column].len());
        (first..last).for_each(|page| self.write_page(column, page));
        // If no block was inserted, no page has changed.
        self.write_tops(column, first, last.saturating_sub(first));
        section.end();
    }

    /// Makes room at `position` of the full page `page`, or adds the first page. Returns false if no page is available.
    fn split(&mut self, column: usize, page: usize, position: usize) -> bool {
        if self.free_pages.is_empty() || self.columns[column].len() == COLUMN_PAGES_MAX {
            return self.pack(column);
        }
        let Some(index) = self.free_pages.pop() else {
            return false;
        };
        let pages = &mut self.columns[column];
        let Some(full) = pages.get_mut(page) else {
            pages.push(Page {
                index,
                blocks: Vec::new(),
            });
            return true;
        };
        // Rows often arrive in ascending order. If a block is added at the end, the page is therefore split so that it
        // stays almost full.
        let at = match position {
            COLUMN_PAGE_BLOCKS => COLUMN_PAGE_BLOCKS - 1,
            _ => COLUMN_PAGE_BLOCKS / 2,
        };
        let blocks = full.blocks.split_off(at);
        pages.insert(page + 1, Page { index, blocks });
        true
    }

    /// Moves the blocks of a column into fewer pages. Returns false if this frees no page.
    fn pack(&mut self, column: usize) -> bool {
        let pages = std::mem::take(&mut self.columns[column]);
        let blocks: Vec<_> = pages
            .iter()
            .flat_map(|page| page.blocks.iter().copied())
            .collect();
        if blocks.is_empty() || blocks.len().div_ceil(PACKED) >= pages.len() {
            self.columns[column] = pages;
            return false;
        }
        let mut indexes: Vec<_> = pages.iter().map(|page| page.index).collect();
        let packed = blocks.chunks(PACKED).filter_map(|blocks| {
            let blocks = blocks.to_vec();
            indexes.pop().map(|index| Page { index, blocks })
        });
        self.columns[column] = packed.collect();
        self.free_pages.append(&mut indexes);
        for page in 0..self.columns[column].len() {
            self.write_page(column, page);
        }
        true
    }

    /// Returns the number of bytes that the heads of these blocks may skip: the length of the common prefix of all
    /// their rows, and of all their low keys except the first.
    fn skip(&self, first: u32, last: u32) -> usize {
        let begin = self.first_key(first, 0);
        let rows = self.block(last).rows.load(Relaxed) as usize;
        let end = self.first_key(last, rows.saturating_sub(1));
        let common = head::common_bytes(begin.as_bytes(), end.as_bytes());
        common.min(SKIP_MAX)
    }

    /// Returns the key of a row; the low key if the block has no rows.
    fn first_key(&self, index: u32, row: usize) -> Key {
        let low = self.interval(index).low;
        let block = self.block(index);
        if block.rows.load(Relaxed) == 0 {
            return low;
        }
        let begin = row
            .checked_sub(1)
            .map_or(0, |before| block.end[before].load(Relaxed) as usize / 8);
        let records = self.store.records(index as usize);
        let bytes: Vec<u8> = records[begin..(begin + 9).min(records.len())]
            .iter()
            .flat_map(|word| word.load(Relaxed).to_ne_bytes())
            .collect();
        Key::new(&bytes[4..4 + usize::from(bytes[0])]).unwrap_or(low)
    }

    /// Writes a page from the writer's copy of the index, and the flag `continues` of each of its blocks.
    fn write_page(&self, column: usize, number: usize) {
        let pages = &self.columns[column];
        let Some(own) = pages.get(number) else { return };
        let page = &self.store.pages.as_slice()[own.index as usize];
        let next = pages.get(number + 1).map(|page| page.blocks[0]);
        let skip = self.skip(own.blocks[0], own.blocks[own.blocks.len() - 1]);
        page.count.store(own.blocks.len() as u32, Relaxed);
        page.skip.store(skip as u32, Relaxed);
        for position in 0..COLUMN_PAGE_BLOCKS {
            let Some(&index) = own.blocks.get(position) else {
                page.head[position].store(COLUMN_NO_HEAD, Relaxed);
                continue;
            };
            let interval = self.interval(index);
            page.head[position].store(head_of(position, &interval.low, skip), Relaxed);
            page.block[position].store(index, Relaxed);
            let next_block = own.blocks.get(position + 1).copied().or(next);
            let continues = next_block.is_some_and(|behind| interval.high == Some(self.interval(behind).low));
            // Most flags are already right. An unnecessary write would remove the block from the CPU caches of readers.
            let flags = &self.block(index).flags;
            let is_set = flags.load(Relaxed) & COLUMN_BLOCK_CONTINUES != 0;
            if is_set != continues {
                flags.fetch_xor(COLUMN_BLOCK_CONTINUES, Relaxed);
            }
        }
    }

    /// Writes `count` entries of the tops from the writer's copy of the index, starting with page `first`. If the
    /// number of pages has changed, writes all entries from `first` on.
    fn write_tops(&self, column: usize, first: usize, count: usize) {
        let (table, tops) = (self.table(column), &self.store.tops.as_slice()[column]);
        let pages = &self.columns[column];
        let before = table.pages.swap(pages.len() as u32, Relaxed) as usize;
        let mut changed = first..(first + count).min(pages.len());
        if before != pages.len() {
            changed.end = pages.len();
        }
        if let (Some(first), Some(last)) = (pages.first(), pages.last()) {
            let skip = self.skip(first.blocks[0], last.blocks[last.blocks.len() - 1]);
            if table.skip.swap(skip as u32, Relaxed) != skip as u32 {
                changed = 0..pages.len();
            }
            for position in changed {
                let page = &pages[position];
                let head = head_of(position, &self.interval(page.blocks[0]).low, skip);
                tops.head[position].store(head, Relaxed);
                tops.page[position].store(page.index, Relaxed);
            }
        }
        for head in tops.head.iter().take(before).skip(pages.len()) {
            head.store(COLUMN_NO_HEAD, Relaxed);
        }
    }
}

/// Returns the head of a low key. The head at position 0 is always 0, so that it is not above any key that is searched
/// for.
fn head_of(place: usize, low: &Key, skip: usize) -> u64 {
    if place == 0 { 0 } else { key_words(low).head(skip) }
}

fn key_words(key: &Key) -> KeyWords {
    // A [`Key`] is never longer than [`KeyWords`] allows.
    KeyWords::new(key.as_bytes()).unwrap_or_else(|| unreachable!("a key of {} bytes", key.as_bytes().len()))
}

/// Seqlock write section of a column. Readers of the column find nothing until it ends.
struct WriteSection<'a> {
    table: &'a ColumnTable,
    seq: u64,
}

impl<'a> WriteSection<'a> {
    fn begin(table: &'a ColumnTable) -> Self {
        let seq = table.seq.load(Relaxed) | 1;
        table.seq.store(seq, Relaxed);
        fence(Release);
        Self { table, seq }
    }

    fn end(self) {
        self.table.seq.store(self.seq.wrapping_add(1), Release);
    }
}

impl ColumnFill for ColumnWriter {
    fn counts(&self) -> FillCounts {
        self.counts
    }

    fn install(&mut self, filled: &Filled<'_>) {
        let column = usize::from(filled.column.0);
        if filled.interval.is_empty() || column >= self.columns.len() {
            return;
        }
        let is_hot = self.sketch.count(filled);
        let missing = self.missing(column, filled);
        if !is_hot && !self.has_room(column, &missing, filled.rows.len()) {
            self.counts.cold += 1;
            return;
        }
        self.counts.fills += 1;
        for interval in missing {
            let from = filled.rows.partition_point(|row| row.key < interval.low);
            let is_inside = |row: &Row| interval.contains(&row.key);
            let to = from + filled.rows[from..].partition_point(is_inside);
            let rows = &filled.rows[from..to];
            self.install_part(
                column,
                &Filled {
                    interval,
                    rows,
                    ..*filled
                },
            );
        }
    }

    fn invalidate(&mut self, column: ColumnId, interval: &Interval) {
        let column = usize::from(column.0);
        if column >= self.columns.len() || interval.is_empty() {
            return;
        }
        for (page, places) in self.overlapping(column, interval) {
            for index in &self.columns[column][page].blocks[places] {
                let newly = set_invalid(self.block(*index), self.table(column));
                self.counts.invalidations += u64::from(newly);
            }
        }
    }

    fn clear(&mut self) {
        self.counts.invalidations += self.counts.blocks;
        self.empty();
    }

    fn plan_read(&self, column: ColumnId, asked: &Interval, rows: usize) -> ReadPlan {
        match usize::from(column.0) {
            column if column < self.columns.len() => self.plan_read_around(column, asked, rows),
            _ => ReadPlan::ahead(asked, rows),
        }
    }

    fn cached_rows(&self, column: ColumnId, asked: &Interval, rows: usize) -> Option<(Vec<Row>, bool)> {
        let column = usize::from(column.0);
        self.columns.get(column)?;
        self.cached_rows_of(column, asked, rows)
    }

    fn set_server_lease(&mut self, server: ServerId, until_ns: u64) {
        if let Some(place) = self.store.servers().until_ns.get(usize::from(server.0)) {
            place.store(until_ns, SeqCst);
        }
    }
}

impl fmt::Debug for ColumnWriter {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ColumnWriter {:?}", self.counts)
    }
}

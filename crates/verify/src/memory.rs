//! Memory for table points: aligned, zeroed, and on huge pages if the system has them. On small pages, each lookup in
//! a table of megabytes, or in one of many tables, costs a page walk. Several tables of one size share a huge page.

use crate::lanes::TablePoint;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

const HUGE_PAGE: usize = 2 << 20;
/// Minimum size in bytes of a table that shares a huge page with others of its size. Smaller tables, of keys that are
/// used little, come and go too often: a few that stay would hold many pages.
const SHARED_MIN: usize = 256 << 10;
/// Huge pages that tables share.
static SHARED: Mutex<Vec<SharedPage>> = Mutex::new(Vec::new());

/// A huge page that is divided into places for tables of one size.
struct SharedPage {
    start: NonNull<u8>,
    table_bytes: usize,
    /// Bit of each place that a table takes.
    taken: u32,
}

// SAFETY: plain memory; each place has one owner.
unsafe impl Send for SharedPage {}

impl SharedPage {
    /// Allocates a page. Its places are free.
    fn new(table_bytes: usize) -> Self {
        let memory = allocate(page_layout());
        Self {
            start: memory,
            table_bytes,
            taken: 0,
        }
    }

    /// Takes a free place for a table; `None` if the places have another size, or if there is none.
    fn take(&mut self, table_bytes: usize) -> Option<NonNull<u8>> {
        let place = self.taken.trailing_ones() as usize;
        if self.table_bytes != table_bytes || (place + 1) * table_bytes > HUGE_PAGE {
            return None;
        }
        self.taken |= 1 << place;
        // SAFETY: the place ends within the page.
        Some(unsafe { self.start.add(place * table_bytes) })
    }

    /// Gives a place back. Returns false if it is not in this page.
    fn give(&mut self, memory: NonNull<u8>) -> bool {
        let offset = memory.addr().get().wrapping_sub(self.start.addr().get());
        let is_here = offset < HUGE_PAGE;
        if is_here {
            self.taken &= !(1 << (offset / self.table_bytes));
        }
        is_here
    }
}

/// Allocates memory for a table of `bytes` bytes in a page that is shared.
fn take_shared(bytes: usize) -> NonNull<u8> {
    let mut pages = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(memory) = pages.iter_mut().find_map(|page| page.take(bytes)) {
        return memory;
    }
    let mut page = SharedPage::new(bytes);
    let memory = page.take(bytes).expect("a table that shares a page fits into it");
    pages.push(page);
    memory
}

/// Frees memory from [`take_shared`], and its page if no other table is there.
fn give_shared(memory: NonNull<u8>) {
    let mut pages = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(at) = pages.iter_mut().position(|page| page.give(memory)) else {
        return;
    };
    if pages[at].taken == 0 {
        let page = pages.swap_remove(at);
        // SAFETY: allocated in `SharedPage::new` with this layout, and no table is in it.
        unsafe { dealloc(page.start.as_ptr(), page_layout()) };
    }
}

fn page_layout() -> Layout {
    Layout::from_size_align(HUGE_PAGE, HUGE_PAGE).expect("the size of a page is far from the limit")
}

/// Allocates memory, on huge pages if it is large enough.
fn allocate(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() > 0);
    // SAFETY: the size is not zero.
    let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else {
        handle_alloc_error(layout);
    };
    // Must precede the first access, which decides the page size.
    advise(memory.as_ptr(), layout.size());
    memory
}

/// Returns whether a table of `bytes` bytes shares a huge page with others.
fn is_shared(bytes: usize) -> bool {
    (SHARED_MIN..=HUGE_PAGE / 2).contains(&bytes)
}

/// Prefetches a table point into the second-level cache: more table points are requested at a time than the first level
/// holds. Does nothing on targets for which Rust has no prefetch.
#[inline(always)]
pub(crate) fn prefetch(table_point: &TablePoint) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch is a hint that every x86-64 has; any address is allowed.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(table_point.0.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = table_point;
}

/// A fixed number of table points.
pub(crate) struct Lines {
    start: NonNull<TablePoint>,
    len: usize,
}

// SAFETY: plain memory with one owner.
unsafe impl Send for Lines {}
// SAFETY: as above; shared, it is only read.
unsafe impl Sync for Lines {}

impl Lines {
    pub(crate) fn new(len: usize) -> Self {
        let layout = layout(len);
        let memory = match is_shared(layout.size()) {
            true => take_shared(layout.size()),
            false => allocate(layout),
        };
        // SAFETY: that much was just allocated.
        unsafe { memory.write_bytes(0, layout.size()) };
        let start = memory.cast::<TablePoint>();
        Self { start, len }
    }
}

/// Aligns a table that fills huge pages to a huge page; a smaller one shares pages with others.
fn layout(len: usize) -> Layout {
    let bytes = len * size_of::<TablePoint>();
    let align = if bytes >= HUGE_PAGE {
        HUGE_PAGE
    } else {
        align_of::<TablePoint>()
    };
    Layout::from_size_align(bytes, align).expect("a table's size is far from the limit")
}

#[cfg(target_os = "linux")]
fn advise(start: *mut u8, bytes: usize) {
    if bytes >= HUGE_PAGE {
        // SAFETY: the range was just allocated; the call is a hint, and its failure has no effect.
        unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn advise(_: *mut u8, _: usize) {}

impl Drop for Lines {
    fn drop(&mut self) {
        let (memory, layout) = (self.start.cast::<u8>(), layout(self.len));
        if is_shared(layout.size()) {
            return give_shared(memory);
        }
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(memory.as_ptr(), layout) };
    }
}

impl Deref for Lines {
    type Target = [TablePoint];

    #[inline(always)]
    fn deref(&self) -> &[TablePoint] {
        // SAFETY: `start` points to `len` table points, zeroed when they were allocated; every bit pattern is a valid
        // table point.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [TablePoint] {
        // SAFETY: as in `deref`, and there is one owner.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_byte(lines: &Lines) -> usize {
        lines.as_ptr().addr()
    }

    /// Tables of one size share huge pages without overlap; a page is reused, and freed with its last table.
    #[test]
    fn tables_share_huge_pages() {
        // No other test has tables of this size.
        let bytes = 320 << 10;
        let len = bytes / size_of::<TablePoint>();
        let pages = || {
            let pages = SHARED.lock().unwrap();
            let of_size = pages.iter().filter(|page| page.table_bytes == bytes);
            of_size.map(|page| page.taken.count_ones()).collect::<Vec<_>>()
        };
        let mut tables: Vec<Lines> = (0..7).map(|_| Lines::new(len)).collect();
        assert_eq!(pages(), [6, 1]);
        let mut starts: Vec<usize> = tables.iter().map(first_byte).collect();
        starts.sort_unstable();
        assert!(starts.windows(2).all(|two| two[1] - two[0] >= bytes));
        assert!(starts.iter().all(|start| start % align_of::<TablePoint>() == 0));
        for (number, table) in tables.iter_mut().enumerate() {
            table.iter_mut().for_each(|line| line.0.fill(number as u64));
        }
        let is_own = |(number, table): (usize, &Lines)| table.iter().all(|line| line.0 == [number as u64; 8]);
        assert!(tables.iter().enumerate().all(is_own));
        // The place of a table that is dropped is taken by the next one, which is zeroed.
        let freed = first_byte(&tables[2]);
        tables.remove(2);
        let next = Lines::new(len);
        assert_eq!(first_byte(&next), freed);
        assert!(next.iter().all(|line| line.0 == [0; 8]));
        drop(tables);
        assert_eq!(pages(), [1]);
        drop(next);
        assert!(pages().is_empty());
    }
}

//! Memory for table points: aligned, zeroed, and on huge pages if the system has them. On small pages, each lookup in a
//! table of megabytes, or in one of many tables, makes the processor search its page tables. Several tables of one size
//! share a huge page.

use crate::lanes::TablePoint;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Mutex, PoisonError};

const HUGE_PAGE: usize = 2 << 20;
/// Minimum size in bytes of a table that shares a huge page with others of its size. Smaller tables belong to keys that
/// are used little, and are allocated and freed often. In shared pages, the few of them that remain would prevent many
/// pages from being freed.
const SHARED_MIN: usize = 256 << 10;
/// Huge pages that tables share at present.
static SHARED: Mutex<Vec<SharedPage>> = Mutex::new(Vec::new());

/// Huge page that is divided into places for tables of one size.
struct SharedPage {
    start: NonNull<u8>,
    table_bytes: usize,
    /// Bit mask of the places that tables use.
    taken: u32,
}

// SAFETY: the pointer refers to allocated memory that does not depend on a thread, and each place in it has one owner.
unsafe impl Send for SharedPage {}

impl SharedPage {
    /// Allocates a page, all of whose places are free.
    fn new(table_bytes: usize) -> Self {
        let memory = allocate(page_layout());
        Self {
            start: memory,
            table_bytes,
            taken: 0,
        }
    }

    /// Takes a free place for a table and returns its address; `None` if the places have another size, or if no place
    /// is free.
    fn take(&mut self, table_bytes: usize) -> Option<NonNull<u8>> {
        let place = self.taken.trailing_ones() as usize;
        if self.table_bytes != table_bytes || (place + 1) * table_bytes > HUGE_PAGE {
            return None;
        }
        self.taken |= 1 << place;
        // SAFETY: the result must be within the allocation. `place` is a number of one of the places, all of which are
        // within the page.
        Some(unsafe { self.start.add(place * table_bytes) })
    }

    /// Frees a place. Returns false if the address is not in this page.
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

/// Frees memory from [`take_shared`], and the page if no other table uses it.
fn give_shared(memory: NonNull<u8>) {
    let mut pages = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(at) = pages.iter_mut().position(|page| page.give(memory)) else {
        return;
    };
    if pages[at].taken == 0 {
        let page = pages.swap_remove(at);
        // SAFETY: `SharedPage::new` allocated the page with this layout. No table uses the page any more, and it was
        // removed from the list, so it is freed once.
        unsafe { dealloc(page.start.as_ptr(), page_layout()) };
    }
}

fn page_layout() -> Layout {
    Layout::from_size_align(HUGE_PAGE, HUGE_PAGE)
        .expect("the size of a page is far below the limit of a layout")
}

/// Allocates memory, on huge pages if it is large enough.
fn allocate(layout: Layout) -> NonNull<u8> {
    assert!(layout.size() > 0);
    // SAFETY: `alloc` requires a size that is not zero, which the line above checks.
    let Some(memory) = NonNull::new(unsafe { alloc(layout) }) else {
        handle_alloc_error(layout);
    };
    // The advice must precede the first access to the memory, at which the kernel chooses the page size.
    advise(memory.as_ptr(), layout.size());
    memory
}

/// Returns true if a table of `bytes` bytes shares a huge page with others.
fn is_shared(bytes: usize) -> bool {
    (SHARED_MIN..=HUGE_PAGE / 2).contains(&bytes)
}

/// Prefetches a table point into the second-level cache, because more table points are prefetched at a time than fit
/// into the first level. The function does nothing on targets for which Rust has no prefetch.
#[inline(always)]
pub(crate) fn prefetch(table_point: &TablePoint) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has the instruction. It is only a hint, and is allowed for any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(table_point.0.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = table_point;
}

/// Memory with a fixed number of table points.
pub(crate) struct Lines {
    start: NonNull<TablePoint>,
    len: usize,
}

// SAFETY: the pointer refers to allocated memory that does not depend on a thread and that only this value owns.
unsafe impl Send for Lines {}
// SAFETY: through a shared reference the memory is only read, so several threads may use it at the same time.
unsafe impl Sync for Lines {}

impl Lines {
    pub(crate) fn new(len: usize) -> Self {
        let layout = layout(len);
        let memory = match is_shared(layout.size()) {
            true => take_shared(layout.size()),
            false => allocate(layout),
        };
        // SAFETY: the memory was allocated above with `layout.size()` bytes, and no other code uses it yet.
        unsafe { memory.write_bytes(0, layout.size()) };
        let start = memory.cast::<TablePoint>();
        Self { start, len }
    }
}

/// Returns the layout of a table of `len` points. A table that fills huge pages is aligned to a huge page; a smaller
/// table has the alignment of its points.
fn layout(len: usize) -> Layout {
    let bytes = len * size_of::<TablePoint>();
    let align = if bytes >= HUGE_PAGE {
        HUGE_PAGE
    } else {
        align_of::<TablePoint>()
    };
    Layout::from_size_align(bytes, align).expect("the size of a table is far below the limit of a layout")
}

#[cfg(target_os = "linux")]
fn advise(start: *mut u8, bytes: usize) {
    if bytes >= HUGE_PAGE {
        // SAFETY: the caller has just allocated this range. The call is only a hint about it, and changes no contents.
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
        // SAFETY: `new` allocated this memory with the same layout, and it is freed only here.
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
        // SAFETY: `start` points to `len` valid table points, as in `deref`, and `&mut self` guarantees that no other
        // reference to them exists.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_byte(lines: &Lines) -> usize {
        lines.as_ptr().addr()
    }

    /// Checks that tables of one size share huge pages without overlap, that a freed place is used again, and that a
    /// page is freed with its last table.
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
        // After a table is dropped, the next table gets its place, and the memory is zeroed.
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

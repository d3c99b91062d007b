//! Memory for table points: aligned, zeroed, and on huge pages if the system has them. On small pages, each lookup in
//! a table of megabytes costs a page walk.

use crate::lanes::TablePoint;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const HUGE_PAGE: usize = 2 << 20;

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
        assert!(layout.size() > 0);
        // SAFETY: the size is not zero.
        let memory = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(memory.cast::<TablePoint>()) else {
            handle_alloc_error(layout);
        };
        // Must precede the first access, which decides the page size.
        advise(memory, layout.size());
        // SAFETY: that much was just allocated.
        unsafe { memory.write_bytes(0, layout.size()) };
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
        // SAFETY: allocated in `new` with the same layout.
        unsafe { dealloc(self.start.as_ptr().cast(), layout(self.len)) };
    }
}

impl Deref for Lines {
    type Target = [TablePoint];

    #[inline(always)]
    fn deref(&self) -> &[TablePoint] {
        // SAFETY: `len` table points, zeroed when allocated, and any bits are a table point.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [TablePoint] {
        // SAFETY: as in `deref`, and there is one owner.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

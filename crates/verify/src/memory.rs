//! Memory for lines: aligned, zeroed, on huge pages where the system gives them. A lookup in a table of megabytes on
//! small pages pays for a page walk each time.

use crate::lanes::Line;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

const HUGE_PAGE: usize = 2 << 20;

/// Asks for a line that will be wanted soon, into the second level cache: what is asked for at a time is more than the
/// first one holds. Does nothing where Rust has no way to say it.
#[inline(always)]
pub(crate) fn prefetch(line: &Line) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint, of every x86-64; any address would do.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(line.0.as_ptr().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

/// A fixed number of lines.
pub(crate) struct Lines {
    start: NonNull<Line>,
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
        let Some(start) = NonNull::new(memory.cast::<Line>()) else {
            handle_alloc_error(layout);
        };
        // Before the first touch, which is what makes a page small or huge.
        advise(memory, layout.size());
        // SAFETY: that much was just allocated.
        unsafe { memory.write_bytes(0, layout.size()) };
        Self { start, len }
    }
}

/// A table that fills huge pages begins at one; a smaller one shares pages with others.
fn layout(len: usize) -> Layout {
    let bytes = len * size_of::<Line>();
    let align = if bytes >= HUGE_PAGE {
        HUGE_PAGE
    } else {
        align_of::<Line>()
    };
    Layout::from_size_align(bytes, align).expect("a table's size is far from the limit")
}

#[cfg(target_os = "linux")]
fn advise(start: *mut u8, bytes: usize) {
    if bytes >= HUGE_PAGE {
        // SAFETY: the range was just allocated; the call is a hint, and its failure changes nothing.
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
    type Target = [Line];

    #[inline(always)]
    fn deref(&self) -> &[Line] {
        // SAFETY: `len` lines, zeroed when allocated, and any bits are a line.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Lines {
    fn deref_mut(&mut self) -> &mut [Line] {
        // SAFETY: as in `deref`, and there is one owner.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

//! Memory of a fast-path table: anonymous, or a BPF map that the kernel reads as well.

use memmap2::{MmapMut, MmapRaw};
use std::sync::atomic::AtomicU64;
use std::{io, marker::PhantomData};

#[cfg(target_os = "linux")]
const HUGE_PAGE: usize = 2 << 20;

/// A type that may be stored in shared memory. The generator of `spec/` implements it for the table layouts of each
/// service.
///
/// # Safety
/// The type contains only atomics, every bit pattern is a valid value, and it has no padding.
pub unsafe trait Shared: Sync {}

/// Table of `T` in memory that other threads, processes and BPF programs may read and write at the same time.
pub struct Table<T: Shared> {
    memory: MmapRaw,
    len: usize,
    kind: PhantomData<T>,
}

// SAFETY: the table owns its memory, and entries are only accessed as `T`, which is `Sync`.
unsafe impl<T: Shared> Send for Table<T> {}
// SAFETY: the table owns its memory, and entries are only accessed as `T`, which is `Sync`.
unsafe impl<T: Shared> Sync for Table<T> {}

impl<T: Shared> Table<T> {
    /// Returns a table of `len` zeroed entries in the memory of this process alone.
    ///
    /// # Errors
    /// The kernel's error if the memory cannot be mapped.
    pub fn anonymous(len: usize) -> io::Result<Self> {
        let memory = MmapMut::map_anon((len * size_of::<T>()).max(1))?;
        // With small pages, most random look-ups need a page walk. The advice is only a hint: if it fails, nothing
        // changes.
        #[cfg(target_os = "linux")]
        if memory.len() >= HUGE_PAGE {
            let _ = memory.advise(memmap2::Advice::HugePage);
        }
        Ok(Self {
            memory: memory.into(),
            len,
            kind: PhantomData,
        })
    }

    /// Returns a table of `len` entries in `memory`, such as a BPF map, or `None` if `memory` is too small.
    pub fn shared(memory: MmapRaw, len: usize) -> Option<Self> {
        (len.checked_mul(size_of::<T>())? <= memory.len()).then_some(Self {
            memory,
            len,
            kind: PhantomData,
        })
    }

    /// Returns the table as 64-bit words. This is possible because entries consist only of atomics of at most eight
    /// bytes.
    pub fn as_words(&self) -> &[AtomicU64] {
        let words = self.len * size_of::<T>() / size_of::<AtomicU64>();
        // SAFETY: the mapping is page-aligned and at least `words` words long. `Shared` guarantees that it holds only
        // atomics, and every bit pattern is a valid word.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), words) }
    }

    /// Returns the entries.
    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the mapping is page-aligned and at least `len` entries long. `Shared` guarantees that all bytes form
        // a valid `T`.
        unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), self.len) }
    }
}

impl<T: Shared> std::fmt::Debug for Table<T> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Table of {} entries of {} bytes", self.len, size_of::<T>())
    }
}

//! The XDP programs compiled natively: the same C, byte for byte, for machines that may not load BPF.
//!
//! The C keeps its maps in statics, so one [`NativePlane`] lives at a time. A frame is laid so that it ends where a
//! page that nobody may touch begins: a read past it ends the process instead of going unseen.

use crate::xdp::endpoint_bytes;
use lineside_near::FrameVerdict;
use lineside_spv::store::{Geometry, Store};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{DropReason, SPV_ROOTS_MAX, SPV_SLOT, SpvCounter};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

unsafe extern "C" {
    fn ls_native_bind(name: *const c_char, values: *mut c_void, value_bytes: u32, entries: u32) -> c_int;
    fn ls_native_set_geometry(set_bits: u32, ways: u32, paper_index: u32, block_mask: u32);
    fn ls_native_run(data: u32, data_end: u32) -> c_int;
}

const XDP_DROP: c_int = 1;
const XDP_PASS: c_int = 2;
const XDP_TX: c_int = 3;
const PAGE_BYTES: usize = 4096;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A page below 4 GiB for frames, and behind it one that nobody may touch.
struct FramePage(*mut u8);

impl FramePage {
    fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
        // SAFETY: a new anonymous mapping.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                2 * PAGE_BYTES,
                libc::PROT_NONE,
                flags,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let page = Self(page.cast());
        // SAFETY: the first page of the mapping above.
        match unsafe { libc::mprotect(page.0.cast(), PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE) } {
            0 => Ok(page),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for FramePage {
    fn drop(&mut self) {
        // SAFETY: the mapping of `new`, which nobody uses any more.
        unsafe { libc::munmap(self.0.cast(), 2 * PAGE_BYTES) };
    }
}

/// Root and `spv`, natively, over a store.
pub struct NativePlane {
    frame: FramePage,
    endpoint: Vec<u8>,
    drops: Box<[u64; DropReason::ALL.len()]>,
    counts: Box<[u64; SpvCounter::ALL.len()]>,
    /// Behind the C's maps as long as this lives.
    _held: (Arc<Store>, Box<[u64; 4]>, Vec<u64>),
    _one: MutexGuard<'static, ()>,
}

impl NativePlane {
    /// The programs over `store`, which has this geometry. Waits for another native plane to end.
    ///
    /// # Errors
    /// What the system says of the memory for frames.
    pub fn load(store: Arc<Store>, geometry: &Geometry, endpoint: &Endpoint, port: u16) -> io::Result<Self> {
        let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ports = [0; 8];
        ports[SPV_SLOT as usize] = port;
        let mut plane = Self {
            frame: FramePage::new()?,
            endpoint: endpoint_bytes(endpoint, &ports),
            drops: Box::default(),
            counts: Box::default(),
            _held: (store, Box::default(), vec![0; 9 * SPV_ROOTS_MAX]),
            _one: one,
        };
        let (store, scratch, draft) = &mut plane._held;
        // SAFETY: the store's memory is shared memory made for this, and lives as long as the plane.
        unsafe {
            let lines = store.lines.as_slice();
            bind(
                c"spv_lines",
                lines.as_ptr().cast_mut().cast(),
                256,
                geometry.lines() / 4,
            );
            let blocks = store.blocks.as_slice();
            bind(
                c"spv_blocks",
                blocks.as_ptr().cast_mut().cast(),
                128,
                blocks.len(),
            );
            let control = store.control();
            bind(
                c"spv_control",
                std::ptr::from_ref(control).cast_mut().cast(),
                size_of_val(control),
                1,
            );
            bind(c"ls_scratches", scratch.as_mut_ptr().cast(), 32, 1);
            bind(c"spv_drafts", draft.as_mut_ptr().cast(), 72 * SPV_ROOTS_MAX, 1);
            bind(
                c"ls_endpoints",
                plane.endpoint.as_mut_ptr().cast(),
                plane.endpoint.len(),
                1,
            );
            bind(
                c"ls_drop_counts",
                plane.drops.as_mut_ptr().cast(),
                size_of_val(&*plane.drops),
                1,
            );
            bind(
                c"spv_counts",
                plane.counts.as_mut_ptr().cast(),
                size_of_val(&*plane.counts),
                1,
            );
            ls_native_set_geometry(
                geometry.set_bits(),
                geometry.ways,
                geometry.paper_index.into(),
                geometry.blocks() as u32 - 1,
            );
        }
        Ok(plane)
    }

    /// Runs root on `frame`: the verdict, and the frame as it was left. A drop's reason is in the counters only.
    pub fn run(&mut self, frame: &[u8]) -> (FrameVerdict, Vec<u8>) {
        assert!(frame.len() <= PAGE_BYTES, "a frame of {} bytes", frame.len());
        // SAFETY: the frame fits below the end of the page, which is ours alone; the programs check their bounds.
        unsafe {
            let end = self.frame.0.add(PAGE_BYTES);
            let data = end.sub(frame.len());
            std::ptr::copy_nonoverlapping(frame.as_ptr(), data, frame.len());
            let verdict = match ls_native_run(data as usize as u32, end as usize as u32) {
                XDP_TX => FrameVerdict::Transmit,
                XDP_PASS => FrameVerdict::Pass,
                XDP_DROP => FrameVerdict::Drop(DropReason::SourcePort),
                other => unreachable!("the programs return no verdict {other}"),
            };
            (verdict, std::slice::from_raw_parts(data, frame.len()).to_vec())
        }
    }

    /// Drops so far, by [`DropReason`].
    pub fn drops(&self) -> [u64; DropReason::ALL.len()] {
        *self.drops
    }

    /// Counters of `spv` so far.
    pub fn counters(&self) -> [u64; SpvCounter::ALL.len()] {
        *self.counts
    }
}

/// # Safety
/// `values` must hold `entries` values and outlive every run.
unsafe fn bind(name: &CStr, values: *mut c_void, value_bytes: usize, entries: usize) {
    // SAFETY: the caller's promise; the C only stores the pointer.
    let result = unsafe { ls_native_bind(name.as_ptr(), values, value_bytes as u32, entries as u32) };
    assert_eq!(result, 0, "xdp/native/native.c does not know {name:?}");
}

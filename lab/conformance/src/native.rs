//! XDP programs compiled natively: the same C code, byte for byte, for machines that may not load BPF.
//!
//! The C code keeps its maps in static variables, so only one [`NativeDatapath`] exists at a time. Each frame ends
//! where an inaccessible page begins, so that a read past the frame ends the process instead of going unnoticed.

use lineside_fastpath::FrameVerdict;
use lineside_fastpath::memory::{Shared, Table};
use lineside_wire::DropReason;
use lineside_wire::endpoint::Endpoint;
use lineside_xdp::{ProgramSpec, SLOTS, drops_in, endpoint_bytes};
use std::any::Any;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

unsafe extern "C" {
    fn ls_native_bind(name: *const c_char, values: *mut c_void, bytes: u64) -> c_int;
    fn ls_native_unbind();
    fn ls_native_value_bytes(name: *const c_char) -> u32;
    fn ls_native_set(section: *const c_char, bytes: *const c_void, count: u32) -> c_int;
    fn ls_native_run(data: u32, data_end: u32) -> c_int;
    fn ls_native_claims(data: u32, data_end: u32) -> c_int;
}

const XDP_DROP: c_int = 1;
const XDP_PASS: c_int = 2;
const XDP_TX: c_int = 3;
const PAGE_BYTES: usize = 4096;

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Page below 4 GiB for frames, followed by an inaccessible page.
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
        // SAFETY: the range is the first page of the mapping above.
        match unsafe { libc::mprotect(page.0.cast(), PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE) } {
            0 => Ok(page),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for FramePage {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping of `new`, which is not used any more.
        unsafe { libc::munmap(self.0.cast(), 2 * PAGE_BYTES) };
    }
}

/// Map of the programs, and its memory.
pub struct NativeMap {
    name: &'static str,
    values: *mut u64,
    bytes: usize,
    /// Owner of the memory.
    _held: Box<dyn Any>,
}

impl NativeMap {
    /// Returns a map that is a table of a store, with several entries in a value.
    pub fn table<S: Send + Sync + 'static, T: Shared>(
        name: &'static str,
        store: &Arc<S>,
        table: impl FnOnce(&S) -> &Table<T>,
    ) -> Self {
        let entries = table(store).as_slice();
        Self {
            name,
            // The memory is shared and consists of atomics, so the C code may write it.
            values: entries.as_ptr().cast::<u64>().cast_mut(),
            bytes: size_of_val(entries),
            _held: Box::new(Arc::clone(store)),
        }
    }

    /// Returns a map of one value with its own memory, filled with zeros, of the size that the C code defines.
    pub fn value(name: &'static str) -> Self {
        // SAFETY: the C code only reads the name.
        let bytes = unsafe { ls_native_value_bytes(c_name(name).as_ptr()) } as usize;
        Self::of(name, vec![0; bytes.div_ceil(8)], bytes)
    }

    fn of(name: &'static str, mut words: Vec<u64>, bytes: usize) -> Self {
        Self {
            name,
            values: words.as_mut_ptr(),
            bytes,
            _held: Box::new(words),
        }
    }

    fn words(&self) -> Vec<u64> {
        // SAFETY: this number of words is in memory that `_held` keeps alive; the C code runs only on this thread, and
        // not during this call.
        (0..self.bytes / 8)
            .map(|index| unsafe { self.values.add(index).read() })
            .collect()
    }
}

/// Returns the name of a map or section as a C string.
fn c_name(name: &str) -> CString {
    CString::new(name).unwrap_or_default()
}

/// Root program and services, natively, over their stores.
pub struct NativeDatapath {
    frame: FramePage,
    maps: Vec<NativeMap>,
    _one: MutexGuard<'static, ()>,
}

impl NativeDatapath {
    /// Returns the root program and these services with their maps. Waits until another native datapath has ended.
    ///
    /// # Errors
    /// The memory for frames cannot be allocated.
    ///
    /// # Panics
    /// `xdp/native/native.c` has no such map or constant, or one of another size.
    pub fn load(services: Vec<(ProgramSpec, Vec<NativeMap>)>, endpoint: &Endpoint) -> io::Result<Self> {
        let one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let mut ports = [0; SLOTS];
        let mut maps = vec![
            NativeMap::value("ls_scratches"),
            NativeMap::value("ls_drop_counts"),
        ];
        for (image, own) in services {
            ports[image.slot as usize % SLOTS] = image.port;
            maps.extend(own);
            for (section, bytes) in image.constants {
                // SAFETY: the C code copies the bytes into its constant.
                let result = unsafe {
                    ls_native_set(
                        c_name(section).as_ptr(),
                        bytes.as_ptr().cast(),
                        bytes.len() as u32,
                    )
                };
                assert_eq!(result, 0, "xdp/native/native.c has no {section} of this size");
            }
        }
        let mut endpoint = endpoint_bytes(endpoint, &ports);
        let bytes = endpoint.len();
        endpoint.resize(bytes.next_multiple_of(8), 0);
        let words = endpoint
            .chunks_exact(8)
            .map(|word| word.try_into().map_or(0, u64::from_ne_bytes))
            .collect();
        maps.push(NativeMap::of("ls_endpoints", words, bytes));
        for map in &maps {
            let values: *mut c_void = map.values.cast();
            // SAFETY: the range is shared memory of this size, which lives as long as the datapath.
            let result = unsafe { ls_native_bind(c_name(map.name).as_ptr(), values, map.bytes as u64) };
            assert_eq!(result, 0, "xdp/native/native.c has no {} of this size", map.name);
        }
        Ok(Self {
            frame: FramePage::new()?,
            maps,
            _one: one,
        })
    }

    /// Runs the root program on `frame`. Returns the verdict and the frame after the run. The reason of a drop is
    /// visible only in the counters.
    pub fn run(&mut self, frame: &[u8]) -> (FrameVerdict, Vec<u8>) {
        self.run_program(ls_native_run, frame)
    }

    /// Runs the program that executes the host's orders in a fast path of `transfer`.
    pub fn run_claims(&mut self, order: &[u8]) -> FrameVerdict {
        self.run_program(ls_native_claims, order).0
    }

    fn run_program(
        &mut self,
        program: unsafe extern "C" fn(u32, u32) -> c_int,
        frame: &[u8],
    ) -> (FrameVerdict, Vec<u8>) {
        assert!(frame.len() <= PAGE_BYTES, "a frame of {} bytes", frame.len());
        // SAFETY: the frame fits below the end of the page, which this datapath owns; the programs check their bounds.
        unsafe {
            let end = self.frame.0.add(PAGE_BYTES);
            let data = end.sub(frame.len());
            std::ptr::copy_nonoverlapping(frame.as_ptr(), data, frame.len());
            let verdict = match program(data as usize as u32, end as usize as u32) {
                XDP_TX => FrameVerdict::Transmit,
                XDP_PASS => FrameVerdict::Pass,
                XDP_DROP => FrameVerdict::Drop(DropReason::SourcePort),
                other => unreachable!("the programs return no verdict {other}"),
            };
            (verdict, std::slice::from_raw_parts(data, frame.len()).to_vec())
        }
    }

    /// Returns the number of drops so far, by [`DropReason`].
    pub fn drops(&self) -> [u64; DropReason::ALL.len()] {
        drops_in(&self.counts("ls_drop_counts"), None)
    }

    /// Returns the counters in the map `name`; they are empty if there is no such map.
    pub fn counts(&self, name: &str) -> Vec<u64> {
        let map = self.maps.iter().find(|map| map.name == name);
        map.map_or_else(Vec::new, NativeMap::words)
    }
}

impl Drop for NativeDatapath {
    fn drop(&mut self) {
        // SAFETY: no program runs, and the C code drops its pointers to the memory that is freed next.
        unsafe { ls_native_unbind() };
    }
}

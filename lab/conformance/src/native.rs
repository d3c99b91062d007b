//! XDP programs compiled natively from the same C code, for machines on which loading BPF programs is not permitted.
//!
//! The C code stores its maps in static variables, so only one [`NativeDatapath`] can exist at a time. Each frame ends
//! where an inaccessible page begins, so that a read past the frame ends the process and does not go unnoticed.

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

/// Memory page for frames at an address below 4 GiB; an inaccessible page follows it.
struct FramePage(*mut u8);

impl FramePage {
    fn new() -> io::Result<Self> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_32BIT;
        // SAFETY: the kernel chooses the address of this new anonymous mapping, so no existing memory is affected.
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
        // SAFETY: the range is the first page of the mapping above, to which no reference exists yet.
        match unsafe { libc::mprotect(page.0.cast(), PAGE_BYTES, libc::PROT_READ | libc::PROT_WRITE) } {
            0 => Ok(page),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for FramePage {
    fn drop(&mut self) {
        // SAFETY: the range is the mapping that `new` created, and no reference into it exists any more.
        unsafe { libc::munmap(self.0.cast(), 2 * PAGE_BYTES) };
    }
}

/// Map of the programs, with its memory.
pub struct NativeMap {
    name: &'static str,
    values: *mut u64,
    bytes: usize,
    /// Value that owns the memory, and therefore keeps it alive.
    _held: Box<dyn Any>,
}

impl NativeMap {
    /// Returns a map that is a table of a store; a value of the map has several entries of the table.
    pub fn table<S: Send + Sync + 'static, T: Shared>(
        name: &'static str,
        store: &Arc<S>,
        table: impl FnOnce(&S) -> &Table<T>,
    ) -> Self {
        let entries = table(store).as_slice();
        Self {
            name,
            // The memory is shared and consists of atomics, so the C code may write to it.
            values: entries.as_ptr().cast::<u64>().cast_mut(),
            bytes: size_of_val(entries),
            _held: Box::new(Arc::clone(store)),
        }
    }

    /// Returns a map with one value in its own memory, which is filled with zeros. The C code defines its size.
    pub fn value(name: &'static str) -> Self {
        // SAFETY: the name is a C string that outlives the call, and the C code only reads it.
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
        // SAFETY: `_held` keeps memory for this number of words alive. The C code runs only on this thread, and not
        // during this call.
        (0..self.bytes / 8)
            .map(|index| unsafe { self.values.add(index).read() })
            .collect()
    }
}

/// Returns the name of a map or section as a C string.
fn c_name(name: &str) -> CString {
    CString::new(name).unwrap_or_default()
}

/// Root program and services, compiled natively, with their stores.
pub struct NativeDatapath {
    frame: FramePage,
    maps: Vec<NativeMap>,
    _one: MutexGuard<'static, ()>,
}

impl NativeDatapath {
    /// Returns the root program with these services and their maps. Waits until another native datapath has ended.
    ///
    /// # Errors
    /// The memory for frames cannot be allocated.
    ///
    /// # Panics
    /// Panics if `xdp/native/native.c` has no such map or constant, or has one of another size.
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
                // SAFETY: the bytes outlive the call, in which the C code copies them into its constant.
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
            // SAFETY: the range is shared memory of this size, which lives at least as long as this datapath.
            let result = unsafe { ls_native_bind(c_name(map.name).as_ptr(), values, map.bytes as u64) };
            assert_eq!(result, 0, "xdp/native/native.c has no {} of this size", map.name);
        }
        Ok(Self {
            frame: FramePage::new()?,
            maps,
            _one: one,
        })
    }

    /// Runs the root program on `frame`. Returns the verdict and the frame after the run. If the frame was dropped,
    /// only the counters show the reason.
    pub fn run(&mut self, frame: &[u8]) -> (FrameVerdict, Vec<u8>) {
        self.run_program(ls_native_run, frame)
    }

    /// Runs the program that carries out the host's orders (claims of accounts and sessions) in a fast path of
    /// `transfer`.
    pub fn run_claims(&mut self, order: &[u8]) -> FrameVerdict {
        self.run_program(ls_native_claims, order).0
    }

    fn run_program(
        &mut self,
        program: unsafe extern "C" fn(u32, u32) -> c_int,
        frame: &[u8],
    ) -> (FrameVerdict, Vec<u8>) {
        assert!(frame.len() <= PAGE_BYTES, "a frame of {} bytes", frame.len());
        // SAFETY: the frame fits into the page that this datapath owns, and the programs check their bounds against its
        // end.
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

    /// Returns the counters in the map `name`. The result is empty if there is no such map.
    pub fn counts(&self, name: &str) -> Vec<u64> {
        let map = self.maps.iter().find(|map| map.name == name);
        map.map_or_else(Vec::new, NativeMap::words)
    }
}

impl Drop for NativeDatapath {
    fn drop(&mut self) {
        // SAFETY: no program runs now, and the call makes the C code drop its pointers to the memory that is freed
        // next.
        unsafe { ls_native_unbind() };
    }
}

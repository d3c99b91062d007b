//! Limits and counters of the processor: clock, multiplier, instructions. Leaf module of `unsafe`.

use std::fs::File;
use std::io::{self, Read};
use std::mem::{self, size_of};
use std::os::fd::FromRawFd;
#[cfg(target_arch = "x86_64")]
use std::time::Instant;

/// Rounds of each loop, which take some tens of µs, so that an undisturbed run is found among a few.
#[cfg(target_arch = "x86_64")]
const LOOPS: u32 = 10_000;
#[cfg(target_arch = "x86_64")]
const MEASUREMENTS: usize = 5;

/// Returns the cycles per ns: the rate of additions that each wait for the one before. `None` on processors for which
/// that rate is not known to be one per cycle.
pub(super) fn clock_ghz() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    return Some(best(add_chain));
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// Returns the number of `vpmadd52luq` instructions on 512 bits per ns; `None` if the processor does not have them.
pub(super) fn multiplications_per_ns() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma") {
        // SAFETY: the processor has both features.
        return Some(best(|| unsafe { multiply() }));
    }
    None
}

/// Returns the highest rate of several runs, since disturbances only lower it.
#[cfg(target_arch = "x86_64")]
fn best(run: impl Fn() -> u32) -> f64 {
    let rate = || {
        let start = Instant::now();
        let count = run();
        f64::from(count) / start.elapsed().as_nanos() as f64
    };
    (0..MEASUREMENTS).map(|_| rate()).fold(0.0, f64::max)
}

/// Executes a chain of additions and returns their number. It adds two registers, since Golden Cove adds constants
/// without latency.
#[cfg(target_arch = "x86_64")]
fn add_chain() -> u32 {
    // SAFETY: the code changes only its own registers and the flags.
    unsafe {
        std::arch::asm!(
            "2:",
            "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}",
            "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}",
            "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}",
            "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}", "add {sum}, {one}",
            "dec {left:e}",
            "jnz 2b",
            sum = inout(reg) 0u64 => _,
            one = in(reg) 1u64,
            left = inout(reg) LOOPS => _,
            options(nomem, nostack),
        );
    }
    16 * LOOPS
}

/// Executes multiplications and returns their number. It has twelve independent sums, more than two multipliers of four
/// cycles need.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512ifma")]
fn multiply() -> u32 {
    use std::arch::x86_64::{_mm512_madd52lo_epu64, _mm512_set1_epi64};
    use std::hint::black_box;
    const SUMS: usize = 12;
    let factor = black_box(_mm512_set1_epi64(3));
    let mut sums = [factor; SUMS];
    for _ in 0..LOOPS {
        for sum in &mut sums {
            *sum = _mm512_madd52lo_epu64(*sum, factor, factor);
        }
    }
    black_box(sums);
    SUMS as u32 * LOOPS
}

/// Counter of this thread's instructions in user space.
#[derive(Debug)]
pub(super) struct Instructions {
    counter: File,
}

impl Instructions {
    /// Starts the counter. It is an error if there is no such counter, as in most virtual machines, or if reading it is
    /// not permitted.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: perf_event_attr is a plain C struct; all zeros is a valid one.
        let mut event: libbpf_sys::perf_event_attr = unsafe { mem::zeroed() };
        event.type_ = libbpf_sys::PERF_TYPE_HARDWARE;
        event.size = size_of::<libbpf_sys::perf_event_attr>() as u32;
        event.config = u64::from(libbpf_sys::PERF_COUNT_HW_INSTRUCTIONS);
        event.set_exclude_kernel(1);
        event.set_exclude_hv(1);
        // SAFETY: `event` contains its size and outlives the call; the other arguments are numbers: this thread, any
        // core, no group.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const event, 0, -1, -1, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel returned this new descriptor, and no other code knows it.
        let counter = unsafe { File::from_raw_fd(fd as libc::c_int) };
        Ok(Self { counter })
    }

    /// Returns the number of instructions so far.
    pub(super) fn read(&mut self) -> Option<u64> {
        let mut bytes = [0; 8];
        self.counter.read_exact(&mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }
}

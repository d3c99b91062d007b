//! Limits and counters of the processor: clock rate, multiplier, instructions. This module contains `unsafe` code.

use std::fs::File;
use std::io::{self, Read};
use std::mem::{self, size_of};
use std::os::fd::FromRawFd;
#[cfg(target_arch = "x86_64")]
use std::time::Instant;

/// Number of rounds of each loop. A loop takes some tens of microseconds, so that one of a few runs is not disturbed.
#[cfg(target_arch = "x86_64")]
const LOOPS: u32 = 10_000;
#[cfg(target_arch = "x86_64")]
const MEASUREMENTS: usize = 5;

/// Returns the number of cycles per nanosecond. It is the rate of additions that each need the result of the one
/// before. Returns `None` on processors for which this rate is not known to be one per cycle.
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
        // SAFETY: the check above shows that the processor has both features that `multiply` needs.
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

/// Executes a chain of dependent additions and returns their number. It adds registers, because the Golden Cove
/// microarchitecture adds constants without latency.
#[cfg(target_arch = "x86_64")]
fn add_chain() -> u32 {
    // SAFETY: the assembly code changes only the registers that it declares, and the flags.
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

/// Executes multiplications and returns their number. It has twelve independent sums, because two multipliers with a
/// latency of four cycles need at least eight to be busy.
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

/// Counter of the instructions that this thread executes in user space.
#[derive(Debug)]
pub(super) struct Instructions {
    counter: File,
}

impl Instructions {
    /// Starts the counter. Fails if the processor offers no such counter, as in most virtual machines, or if the
    /// process may not read it.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: perf_event_attr is a plain C struct, for which zeros in all bytes are a valid value.
        let mut event: libbpf_sys::perf_event_attr = unsafe { mem::zeroed() };
        event.type_ = libbpf_sys::PERF_TYPE_HARDWARE;
        event.size = size_of::<libbpf_sys::perf_event_attr>() as u32;
        event.config = u64::from(libbpf_sys::PERF_COUNT_HW_INSTRUCTIONS);
        event.set_exclude_kernel(1);
        event.set_exclude_hv(1);
        // SAFETY: `event` contains its own size and outlives the call; the other arguments are numbers (this thread,
        // any core, no group).
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const event, 0, -1, -1, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just returned this new descriptor, and no other code uses it.
        let counter = unsafe { File::from_raw_fd(fd as libc::c_int) };
        Ok(Self { counter })
    }

    /// Returns the number of instructions since the counter was started.
    pub(super) fn read(&mut self) -> Option<u64> {
        let mut bytes = [0; 8];
        self.counter.read_exact(&mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }
}

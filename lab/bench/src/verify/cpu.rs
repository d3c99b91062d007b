//! What the processor can do at most, and what it counts: clock, multiplier, instructions. Leaf of `unsafe`.

use std::fs::File;
use std::io::{self, Read};
use std::mem::{self, size_of};
use std::os::fd::FromRawFd;
#[cfg(target_arch = "x86_64")]
use std::time::Instant;

/// Rounds of each loop: some tens of µs, so that an undisturbed run is found among a few.
#[cfg(target_arch = "x86_64")]
const LOOPS: u32 = 10_000;
#[cfg(target_arch = "x86_64")]
const TRIES: usize = 5;

/// Cycles per ns: the rate of additions that each wait for the one before. `None` where that is not known to be one a
/// cycle.
pub(super) fn clock_ghz() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    return Some(best(add_chain));
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// `vpmadd52luq` on 512 bits, per ns; `None` where there is none.
pub(super) fn multiplications_per_ns() -> Option<f64> {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma") {
        // SAFETY: both features are there.
        return Some(best(|| unsafe { multiply() }));
    }
    None
}

/// The highest rate: whatever comes in between lowers it.
#[cfg(target_arch = "x86_64")]
fn best(run: impl Fn() -> u32) -> f64 {
    let rate = || {
        let start = Instant::now();
        let count = run();
        f64::from(count) / start.elapsed().as_nanos() as f64
    };
    (0..TRIES).map(|_| rate()).fold(0.0, f64::max)
}

/// How many additions it has done. Of two registers: Golden Cove adds constants without waiting.
#[cfg(target_arch = "x86_64")]
fn add_chain() -> u32 {
    // SAFETY: changes only its own registers and the flags.
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

/// How many multiplications it has done: twelve sums at a time, more than two multipliers of four cycles need.
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

/// Counts this thread's instructions, those of the kernel not.
#[derive(Debug)]
pub(super) struct Instructions {
    counter: File,
}

impl Instructions {
    /// Begins to count. An error where there is no such counter, as in most virtual machines, or one may not read it.
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: perf_event_attr is a plain C struct; all zeros is a valid one.
        let mut event: libbpf_sys::perf_event_attr = unsafe { mem::zeroed() };
        event.type_ = libbpf_sys::PERF_TYPE_HARDWARE;
        event.size = size_of::<libbpf_sys::perf_event_attr>() as u32;
        event.config = u64::from(libbpf_sys::PERF_COUNT_HW_INSTRUCTIONS);
        event.set_exclude_kernel(1);
        event.set_exclude_hv(1);
        // SAFETY: `event` says its size and outlives the call; the rest are numbers: this thread, any core, no group.
        let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const event, 0, -1, -1, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows it.
        let counter = unsafe { File::from_raw_fd(fd as libc::c_int) };
        Ok(Self { counter })
    }

    /// How many so far.
    pub(super) fn read(&mut self) -> Option<u64> {
        let mut bytes = [0; 8];
        self.counter.read_exact(&mut bytes).ok()?;
        Some(u64::from_ne_bytes(bytes))
    }
}

//! Lease of a fast path: it answers only while the lease is valid, so that the fast path of a dead host stops serving
//! stale data.

use std::sync::atomic::{AtomicU64, Ordering};

/// Returns CLOCK_MONOTONIC in ns, as the coarse clock reports it. `bpf_ktime_get_coarse_ns` reads the same clock, and
/// all leases use it.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing; CLOCK_MONOTONIC_COARSE exists on every Linux since 2.6.32.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Extends the lease, so that it ends `length_ns` nanoseconds from now.
pub fn renew(until_ns: &AtomicU64, length_ns: u64) {
    until_ns.store(now_ns().saturating_add(length_ns), Ordering::Release);
}

/// Ends the lease now.
pub fn end(until_ns: &AtomicU64) {
    until_ns.store(0, Ordering::Release);
}

/// Returns true if the fast path may still answer at `now_ns`.
pub fn is_valid(until_ns: &AtomicU64, now_ns: u64) -> bool {
    now_ns < until_ns.load(Ordering::Acquire)
}

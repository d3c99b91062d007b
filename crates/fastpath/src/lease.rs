//! The fast path answers only while its lease is valid, so that a dead host cannot leave old answers behind.

use std::sync::atomic::{AtomicU64, Ordering};

/// CLOCK_MONOTONIC now, in ns: the clock that leases and `bpf_ktime_get_coarse_ns` count on.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is valid for writing; CLOCK_MONOTONIC_COARSE exists on every Linux since 2.6.32.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Lets the fast path answer for `length_ns` from now on.
pub fn renew(until_ns: &AtomicU64, length_ns: u64) {
    until_ns.store(now_ns().saturating_add(length_ns), Ordering::Release);
}

/// Ends the lease now.
pub fn end(until_ns: &AtomicU64) {
    until_ns.store(0, Ordering::Release);
}

/// Whether the fast path may still answer at `now_ns`.
pub fn is_valid(until_ns: &AtomicU64, now_ns: u64) -> bool {
    now_ns < until_ns.load(Ordering::Acquire)
}

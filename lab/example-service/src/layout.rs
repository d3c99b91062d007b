// Generated from spec/odometer.toml by `cargo run -p lineside-spec`. Do not edit.

//! Layouts of the fast-path table of `odometer`, in memory that threads, processes and XDP share.

use lineside_fastpath::memory::Shared;
use core::sync::atomic::AtomicU64;

/// Whole fast-path table: one number, and the end of the fast path's lease.
#[repr(C)]
#[derive(Debug)]
pub struct OdometerControl {
    /// CLOCK_MONOTONIC time at which the lease ends
    pub lease_until_ns: AtomicU64,
    /// number that clients read and add to
    pub number: AtomicU64,
}

const _: () = assert!(size_of::<OdometerControl>() == 16);

// SAFETY: the struct is `repr(C)` and contains only atomics. The check of its size above shows that it
// has no padding.
unsafe impl Shared for OdometerControl {}


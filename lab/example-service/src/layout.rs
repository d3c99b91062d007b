// Generated from spec/odometer.toml by `cargo run -p lineside-spec`. Do not edit.

//! Layouts of the fast-path table of `odometer`, in memory that threads, processes and XDP share.

use lineside_fastpath::memory::Shared;
use core::sync::atomic::AtomicU64;

/// Whole fast-path table: one number, and the end of the fast path's lease.
#[repr(C)]
#[derive(Debug)]
pub struct OdometerControl {
    /// the fast path answers only before this CLOCK_MONOTONIC time
    pub lease_until_ns: AtomicU64,
    /// the number
    pub number: AtomicU64,
}

const _: () = assert!(size_of::<OdometerControl>() == 16);

// SAFETY: the struct is `repr(C)`, holds atomics alone, and its size, checked above, leaves no padding.
unsafe impl Shared for OdometerControl {}


//! Portable back end: hashes one message after another.
//!
//! The SIMD back ends also use this module for the last messages of a batch, when too few are left to keep their lanes
//! busy. The `finish` functions therefore accept the state of a lane that has processed part of a message.

pub(super) mod keccak256;
pub(super) mod sha256;

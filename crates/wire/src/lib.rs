//! Parsing, addressing, checksums and reply headers of Ethernet frames and native packets.
//!
//! No I/O, no clock, no allocation. This code is the executable specification of the frame handling in the XDP
//! programs; `lineside-lab diff` compares the two frame by frame.
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod csum;
pub mod endpoint;
pub mod frame;
#[rustfmt::skip]
mod generated;
mod meter;
pub mod native;

pub use generated::*;
pub use meter::{Metric, MetricKind};

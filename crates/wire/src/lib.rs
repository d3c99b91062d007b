//! Frames and packets of Lineside: parsing, addressing, checksums, reply headers.
//!
//! No I/O, no clock, no allocation. This code is the executable specification of what the XDP programs do with a
//! frame; `lineside-lab diff` holds the two against each other.
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

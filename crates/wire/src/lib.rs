//! Parsing, addressing, checksums and reply headers of Ethernet frames and native packets.
//!
//! This crate does no I/O, reads no clock and allocates no memory. Its code is the executable specification of the
//! frame handling in the XDP programs; `lineside-lab diff` compares the two frame by frame.
//!
//! ```
//! use lineside_wire::{NativeHeader, SPV_OP_ROOT, Status, native};
//! use zerocopy::IntoBytes;
//!
//! let request = native::request_header(SPV_OP_ROOT, 7, 0);
//! let (header, body) = native::parse_request(request.as_bytes()).expect("it is a request");
//! assert_eq!((header.request_id.get(), body.len()), (7, 0));
//! let reply: NativeHeader = native::reply_header(header, Status::Ok, 0);
//! // Nothing answers a reply, so two servers cannot answer each other for ever.
//! assert!(native::drop_reason(reply.as_bytes()).is_some());
//! ```
#![cfg_attr(not(test), no_std)]
#![forbid(unsafe_code)]

pub mod csum;
pub mod endpoint;
pub mod fast_path;
pub mod frame;
#[rustfmt::skip]
mod generated;
mod meter;
pub mod native;
pub mod trace;

pub use fast_path::{AnsweredOp, FastPathList, FastPathOp};
pub use generated::*;
pub use meter::{Metric, MetricKind};

/// Maximum payload of a datagram in bytes: a 1500-byte MTU less the IPv6 and UDP headers.
pub const PAYLOAD_BYTES_MAX: usize = 1452;

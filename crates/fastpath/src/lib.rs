//! Contract between a fast path, its host and the datapaths: requests, verdicts, replies, counters and the lease.
//!
//! A datapath gives every request to the [`FastPath`], which answers from its own small table or returns
//! [`Verdict::Forward`]. Forwarded requests go to the host, which owns the data: a [`Host`], [`BatchHost`] or
//! [`AsyncHost`], depending on how it answers. [`Readers`] lets a writer wait for answers in flight, and [`lease`]
//! bounds the time for which the table may be used without its host.
//!
//! ```text
//! request -> FastPath::answer -+-> Verdict::Reply --------------------------------------> reply
//!                              +-> Verdict::Forward -> Host, BatchHost or AsyncHost --> reply
//!                              +-> Verdict::Drop -------------------------------------> counted
//! ```
//!
//! ```
//! use lineside_fastpath::{FastPath, Reply, Source, Verdict};
//!
//! /// Answers `ping`, and forwards everything else to the host.
//! struct Ping;
//! impl FastPath for Ping {
//!     fn answer(&self, _from: Source, _now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict {
//!         match request == b"ping" && reply.put(b"pong") {
//!             true => Verdict::Reply,
//!             false => Verdict::Forward,
//!         }
//!     }
//! }
//!
//! let from = Source { address: [127, 0, 0, 1].into(), port: 5000 };
//! let mut reply = Reply::default();
//! assert_eq!(Ping.answer(from, 0, b"ping", &mut reply), Verdict::Reply);
//! assert_eq!(reply.as_bytes(), b"pong");
//! ```

pub mod challenge;
mod contract;
mod counters;
mod frame;
pub mod hash;
pub mod lease;
pub mod memory;
mod range;
mod readers;
mod steps;

pub use contract::{
    AsyncHost, BatchHost, BatchRequest, FastPath, Host, PAYLOAD_BYTES_MAX, Reply, RequestOutcome, Responder,
    Source, Verdict,
};
pub use counters::{Counters, thread_index};
pub use frame::{FrameHandler, FrameVerdict};
pub use lineside_wire::DropReason;
pub use range::{Range, address_words};
pub use readers::{Reader, Readers};
pub use steps::{Step, Steps};

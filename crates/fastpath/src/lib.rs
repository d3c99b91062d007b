//! The contract of a fast path: what it is asked, what it may say, what it counts, and until when it may speak.

pub mod challenge;
mod contract;
mod counters;
pub mod exchange;
mod frame;
pub mod hash;
pub mod lease;
pub mod memory;
mod range;
mod readers;

pub use contract::{
    Asked, FastPath, GroupHost, Host, LaterHost, PAYLOAD_BYTES_MAX, Reply, Said, Source, Verdict, WayBack,
};
pub use counters::{Counters, thread_index};
pub use frame::{FrameVerdict, Line};
pub use lineside_wire::DropReason;
pub use range::{Range, address_words};
pub use readers::{Reader, Readers};

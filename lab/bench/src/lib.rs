//! Load generators, the peers beside us, and the papers' figures: `lineside-lab bench <scenario>`.
//!
//! [`spv`] runs in one process tree on one machine: a client and a server namespace joined by a veth pair, the
//! generator on core 0, the server on core 1. [`verify`] runs in one thread, [`fabric`] in a few; they need neither
//! root nor BPF. Only ratios within one run hold.

mod af_xdp;
mod bpf;
mod client;
pub mod column;
pub mod electrum;
mod error;
pub mod fabric;
mod fastpath;
mod field;
pub mod figures;
mod gate;
pub mod hybrid;
mod import;
mod live;
mod machine;
mod memcached;
mod netns;
mod paced;
mod per_packet;
mod progress;
pub mod proof;
pub mod report;
mod servers;
pub mod software;
pub mod spv;
mod sys;
pub mod transfer;
pub mod verify;
mod workload;
mod ycsb;

pub use error::BenchError;
pub use progress::Progress;
pub use report::Report;

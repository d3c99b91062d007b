//! Load generators and compared systems for measurements of Lineside, and reproduction of the papers' measurements.
//! `lineside-lab bench <scenario>` runs them.
//!
//! [`spv`] runs in one process tree on one machine: namespaces of a client and a server joined by a veth pair, with the
//! generator on core 0 and the server on core 1. [`verify`] runs in one thread and [`fabric`] in a few; both need
//! neither root nor BPF. Only ratios within one run are meaningful.
//!
//! ```no_run
//! use lineside_bench::verify::{Options, run};
//!
//! let report = run(&Options::quick(), &mut |_| {});
//! println!("{}", report.to_json());
//! assert!(report.failures().is_empty());
//! ```

mod af_xdp;
mod bpf;
mod client;
pub mod column;
pub mod cost;
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
pub mod load;
mod machine;
mod memcached;
mod netns;
pub mod others;
mod paced;
mod per_packet;
mod progress;
pub mod proof;
pub mod report;
pub mod rtl;
mod servers;
pub mod software;
pub mod spv;
mod sys;
pub mod transfer;
pub mod verify;
mod workload;
pub mod wrong;
mod ycsb;

pub use error::BenchError;
pub use progress::Progress;
pub use report::Report;

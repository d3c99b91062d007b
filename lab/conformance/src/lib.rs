//! Conformance tools that compare every datapath of a service with the Rust model of its fast path.
//!
//! [`frames`] runs whole frames through the model, the XDP program and the same C code compiled natively ([`native`]);
//! [`spv`], [`transfer`] and [`column`] adapt the services to it. [`diff`] compares random and mutated frames, [`soak`]
//! checks replies while a chain or table changes, and [`replay`] answers a capture. [`vectors`] reads the recorded
//! cases of `vectors/`, and [`vector_check`] compares a datapath with one. [`history`] checks that the `column` cache
//! is never stale. [`steps`] checks the steps that a model records. [`rtl`] has the FPGA datapath, and with the feature
//! `rtl` the NIC that Verilator simulates.
//!
//! ```
//! use lineside_conformance::vectors;
//!
//! let files = vectors::load("spv")?;
//! assert!(files.iter().all(|file| !file.vectors.is_empty()));
//! # Ok::<(), String>(())
//! ```

pub mod column;
pub mod diff;
pub mod frames;
pub mod history;
pub mod native;
pub mod replay;
pub mod rtl;
pub mod soak;
pub mod spv;
pub mod steps;
pub mod transfer;
pub mod vector_check;
pub mod vectors;

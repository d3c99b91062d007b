//! Conformance tools: every datapath of a service is compared with its Rust model.
//!
//! [`frames`] runs whole frames through the model, the XDP program and the same C compiled natively ([`native`]);
//! [`spv`], [`transfer`] and [`column`] say how each service is run there. [`diff`] compares random and mutated frames,
//! [`soak`] checks replies while chain or table change, [`replay`] answers a capture read by [`pcap`], [`vectors`]
//! reads the recorded cases of `vectors/`, which [`hold`] holds a datapath to, and [`history`] checks that the `column`
//! cache is never stale.

pub mod column;
pub mod diff;
pub mod frames;
pub mod history;
pub mod hold;
pub mod native;
pub mod pcap;
pub mod replay;
pub mod soak;
pub mod spv;
pub mod transfer;
pub mod vectors;

//! The datapaths: they run a fast path and connect it to its host.

pub mod column;
pub mod cpu;
pub mod diff;
pub mod frames;
pub mod native;
pub mod pcap;
pub mod replay;
pub mod soak;
pub mod socket;
pub mod spv;
pub mod transfer;
pub mod xdp;

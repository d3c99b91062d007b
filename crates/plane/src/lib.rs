//! The planes: they run a near and connect it to its host.

pub mod diff;
pub mod socket;
pub mod xdp;

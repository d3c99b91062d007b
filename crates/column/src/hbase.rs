//! HBase that tells of its changes: what the coprocessor in `hbase/observer` and Lineside say to each other.
//!
//! Lineside asks each server for leases, and answers from near only while it holds one of all of them: who of them
//! serves a row need not be known then, and a region may move as it likes. A server says PRE of each change before it
//! can be seen, which is acknowledged when near has forgotten what it touches.

pub(crate) mod families;
mod listener;
pub mod notice;

pub use listener::{Counts, Listener, Options};

//! HBase that tells of its changes: what the coprocessor in `clients/java/observer` and Lineside say to each other.
//!
//! Lineside asks each server for leases, and answers a row from the fast path only while it holds that of the server
//! that it was read from; where that is not known, only while it holds all of them. A server says PRE of each change
//! before it can be seen, which is acknowledged when the fast path has forgotten what it touches.

mod listener;
pub mod notice;

pub use listener::{Counts, Listener, Options};

//! Coherence with HBase: the protocol between the coprocessor in `clients/java/observer` and Lineside.
//!
//! Lineside asks each server for leases. The fast path answers a row only while the lease of the server that the row
//! was read from is held or, if that server is unknown, while the leases of all servers are held. A server sends a PRE
//! notice of each change before the change is visible, and Lineside acknowledges it once the fast path has dropped the
//! affected rows.

mod listener;
pub mod notice;

pub use listener::{Counts, Listener, Options};

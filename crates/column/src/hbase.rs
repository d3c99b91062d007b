//! Coherence with HBase: the protocol between the coprocessor in `clients/java/observer` and Lineside.
//!
//! Lineside requests leases from each region server. The fast path answers a row only while it has the lease of the
//! server from which the row was read or, if that server is not known, the leases of all servers. A server sends a PRE
//! notice of each change before the change becomes visible. Lineside acknowledges the notice after the fast path has
//! dropped the affected rows.

mod listener;
pub mod notice;

pub use listener::{Counts, Listener, Options};

//! The `column` service: rows and ranges of a wide table, answered at the line and never stale.
//!
//! [`fastpath`] is the cache at the line over the [`store`], which [`reader`] reads by [`head`]s; [`writer`] is the one
//! hand that fills it, by [`fill`]: how the host writes what it read from the table into the fast path, and takes it
//! out again.
//!
//! [`host`] answers the rest from a [`table`], the [`embedded`] one or one of HBase by the crate
//! `lineside-hbase-client`, and changes it; [`coherence`] decides what it may put into the fast path, so that the fast
//! path is never stale, and [`servers`] hears of what others change, by [`hbase`]. [`client`] asks, in the [`native`]
//! or the [`paper`]'s format. [`history`] checks the promise.

pub mod client;
pub mod coherence;
pub mod datapath;
pub mod embedded;
pub mod fastpath;
pub mod fill;
pub mod hbase;
pub mod head;
pub mod host;
pub mod key;
pub mod native;
pub mod paper;
pub mod reader;
pub mod request;
pub mod servers;
pub mod store;
pub mod table;
pub mod writer;

//! The `column` service: rows and ranges of a wide table, answered by the fast path and never stale.
//!
//! ```text
//!  datagram -> XDP: column.bpf.c over the fast-path table -------------------------------> reply (XDP_TX)
//!                | miss, or a change, whose block it invalidates: XDP_PASS
//!  threads `fastpath-N`: ColumnFastPath over the same table -----------------------------> reply
//!                | Forward
//!  bounded queue
//!                |
//!  threads `host` (1 over the embedded table, 16 over HBase): ColumnHost
//!    get, scan:  Coherence::join (wait for the same read) -> Coherence::begin -> read the table
//!                -> Fill::finish: install the rows unless a change came meanwhile -------> reply
//!    change:     Coherence::begin_write: invalidate, block fills -> change the table, durable
//!                -> Coherence::end_write ------------------------------------------------> reply
//!
//!  embedded table: changes that wait at the same time share one fdatasync, and are visible after it.
//!  HBase: region servers announce changes by any client over UDP -> thread `column-notices`: Listener -> Servers
//!         -> begin_write and end_write -> acknowledgement. The fast path answers rows only with their server's lease.
//!  thread `lease`: renews the lease of the fast path
//! ```
//!
//! [`fastpath`] answers from [`store`] through [`reader`]; [`head`] has the form in which keys are compared. [`writer`]
//! is the single writer; [`fill`] is its interface. [`host`] reads and changes a [`table`]: the [`embedded`] one, or
//! one of HBase by the crate `lineside-hbase-client`. [`coherence`] decides what may be written into the fast-path
//! table; [`servers`] and [`hbase`] handle the changes that other clients make. The packets are in
//! `lineside-messages`, and the client in `lineside-client`.
//!
//! ```
//! use lineside_column::embedded::{Embedded, system_clock};
//! use lineside_column::table::{Change, ColumnName, Nonce, Table};
//!
//! let table = Embedded::in_memory(system_clock());
//! let column = ColumnName::new(b"entry:foo").expect("the name has a family");
//! table.change(b"row 1", &column, &Change::Put(b"value".to_vec(), None), Nonce::default())?;
//! let cells = table.get(b"row 1", &[column])?;
//! assert_eq!(cells[0].as_ref().map(|cell| cell.value.as_slice()), Some(&b"value"[..]));
//! # Ok::<(), lineside_column::table::TableError>(())
//! ```

pub mod coherence;
pub mod config;
pub mod datapath;
pub mod embedded;
pub mod fastpath;
pub mod fill;
pub mod hbase;
pub mod head;
pub mod host;
pub mod key;
#[rustfmt::skip] // generated
pub mod layout;
pub mod reader;
pub mod request;
pub mod servers;
pub mod service;
pub mod store;
pub mod table;
pub mod writer;

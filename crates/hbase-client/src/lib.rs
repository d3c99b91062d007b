//! Client of one table of an HBase cluster, without Java.
//!
//! The crate is for programs that read and change single cells and short ranges of rows from many threads, and that
//! must know exactly whether a change was made: the `column` service of Lineside, its benches and its tests. All calls
//! block, and end after the timeout with which the client was opened. Any number of threads may make calls at the same
//! time.
//!
//! There are two clients with the same calls:
//!
//! - [`rpc::HBase`] uses HBase's own RPC (protocol buffers over TCP, HBase 2.6) to the region servers. It finds regions
//!   through the registry of any master or region server, so it does not need ZooKeeper. It follows regions that split,
//!   merge or move.
//!
//! - [`thrift2::Thrift2`] uses HBase's Thrift 2 gateway. It needs only one address, but it is slower, its timeout
//!   applies to each read and write of the connection, and it does not know which server holds a row.
//!
//! ```no_run
//! use lineside_hbase_client::rpc::HBase;
//! use lineside_hbase_client::{Change, ColumnName, Nonce, TableError};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), TableError> {
//! let table = HBase::connect(&["master:16000"], b"namespace:table", Duration::from_secs(5))?;
//! let column = ColumnName::new(b"family:qualifier").expect("it has a family and is short");
//! table.change(b"row", &column, &Change::Increment(1), Nonce::default())?;
//! let cells = table.get(b"row", &[column])?;
//! # Ok(())
//! # }
//! ```
//!
//! An error says whether the change was made: [`TableError::Unknown`] is the only error after which the change may have
//! been made. Increments and appends by [`rpc`] carry a nonce, by which HBase recognises a repetition. So if the answer
//! to one of them is lost, the client repeats it on the same server. It does not repeat other changes. The gateway has
//! no nonces.
//!
//! # Limits
//!
//! - Security: neither Kerberos (SASL) nor TLS is supported, nor any other authentication. A cluster that requires
//!   them refuses the connection. Run the client in a network that the cluster trusts.
//! - Only the newest version of a cell is read, and a change touches one cell. There are no filters, no batches, no
//!   administration of tables, and no table is created.
//! - Column names have at most [`NAME_BYTES_MAX`] bytes. Row keys may have HBase's 32,767 bytes, except in reverse
//!   scans by [`thrift2`], which are exact only for keys of at most [`ROW_BYTES_MAX`] bytes.
//! - HBase does not return the lifetime (TTL) of a single cell, so [`Cell::expires_ms`] is always `None`; the lifetime
//!   of a family is known ([`rpc::HBase::family_ttl_ms`]). The gateway accepts no lifetime of a single cell.

mod error;
mod families;
mod nonce;
mod region_owner;
pub mod rpc;
pub mod thrift2;

pub use error::TableError;
pub use lineside_messages::column::{
    Cell, Change, ChangeOutcome, ColumnName, FoundCell, NAME_BYTES_MAX, ROW_BYTES_MAX, ScanRange,
};
pub use nonce::Nonce;
pub use region_owner::RegionOwner;

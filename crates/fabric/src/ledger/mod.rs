//! The ledger: stores committed blocks in a journal, and restores the state and the indexes from it after a restart.
//!
//! A [`Replica`] validates blocks and stores them. [`Blocks`] reads committed blocks from any thread.
//! [`ReadOnlyLedger`] reads a ledger that another process may have open. [`verify_ledger`] validates all blocks again.
//! [`results`] publishes the result of each block to other processes.
//!
//! `docs/fabric-ledger.md` describes the records and the guarantees.

mod base;
mod checkpoint;
mod committed;
mod committer;
mod error;
#[cfg(test)]
mod expiry_tests;
mod export;
mod identities;
mod ids;
#[cfg(test)]
mod ids_tests;
mod image;
mod index;
mod join;
mod open;
mod record;
mod redo;
mod replica;
pub mod results;
mod splice;
mod store;
pub mod totals;
mod verify;

pub use committer::DurabilityWaiter;
pub use error::LedgerError;
pub use export::export;
pub(crate) use ids::IdsAt;
pub use index::TxPosition;
pub use join::{ExpectedHashes, JoinedSnapshot, join, validator_from};
pub use open::{LedgerFindings, OpenFindings, ReadOnlyLedger, StateStore, WritableLedger, validator_at};
pub use record::{Stored, kind};
pub use replica::{AddedBlock, Replica, Setup};
pub use store::{BlockMeta, Blocks, Cursor, Writer, journal_options};
pub use verify::{Report, verify_ledger};

//! The ledger: committed blocks in a journal, what they give in memory, both there again after a restart.
//!
//! A [`Replica`] validates blocks and keeps them. [`Blocks`] reads what is committed, from any thread; [`Look`] reads
//! a ledger that another process may have open; [`verify_ledger`] validates all of it again. [`results`] tells other
//! processes of each block.
//!
//! `docs/fabric-ledger.md` has the records, and what is promised.

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

pub use committer::Waiter;
pub use error::LedgerError;
pub use export::export;
pub(crate) use ids::IdsAt;
pub use index::Place;
pub use join::{Expected, Joined, join, validator_from};
pub use open::{Begun, Found, Look, Opened, StateStore, validator_at};
pub use record::{Stored, kind};
pub use replica::{Added, Replica, Setup};
pub use store::{Blocks, Cursor, Meta, Writer, journal_options};
pub use verify::{Report, verify_ledger};

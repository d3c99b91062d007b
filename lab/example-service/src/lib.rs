//! The example of `docs/adding-a-service.md`: `odometer`, a number that clients add to and read.
//!
//! The fast path answers `read` from a table of one record; the host owns the number and answers `add`. A request that
//! its client sends again may be added twice: `transfer` shows sessions, which prevent that.

pub mod fastpath;
pub mod host;
#[rustfmt::skip]
pub mod layout;
pub mod service;

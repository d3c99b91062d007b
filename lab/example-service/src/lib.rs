//! Example of `docs/adding-a-service.md`: `odometer`, a number that clients add to and read.
//!
//! The fast path answers `read` from a table of one record. The host owns the number and answers `add`. If a client
//! resends an `add`, the number may be added twice; the sessions of `transfer` show how to prevent this.
//! ```
//! use lineside_example_service::{fastpath::Store, host::OdometerHost};
//! let host = OdometerHost::new(Store::anonymous(1).expect("there is memory").into());
//! assert_eq!((host.add(2), host.add(3)), (Some(2), Some(5)));
//! ```

pub mod fastpath;
pub mod host;
#[rustfmt::skip]
pub mod layout;
pub mod service;

//! Figures of the papers that Lineside follows, made again: measured where the machine allows it, computed by closed
//! forms where there is one, and written as CSV tables and SVG plots with the papers' values next to ours.
//!
//! [`spv`] is the paper on a cache in a network card for light clients, [`fabric`] the one on Hyperledger Fabric within
//! a SmartNIC. The contestants are those of `lineside-bench`; here are the models, the tables and the plots. Nothing of
//! this crate is linked into the daemon.

mod error;
pub mod fabric;
pub mod plot;
pub mod spv;
pub mod table;

pub use error::{PapersError, Result};

//! Reproduces the figures of the papers that Lineside follows. Values are measured where the machine allows it and
//! computed by closed forms where there is one. The results are CSV tables and SVG plots with the papers' values next
//! to Lineside's.
//!
//! Each paper has a module with the name of its service, whose `run` returns a [`section::Section`]. [`all`] runs a
//! paper by its name. The contestants are those of `lineside-bench`; this crate has the models, the tables and the
//! plots. It is not linked into the daemon.
//!
//! ```
//! use lineside_papers::table::Table;
//!
//! let mut table = Table::new(&["blocks", "time_us"]);
//! table.push(["1, 2".into(), "2.5".into()]);
//! assert_eq!(table.to_csv(), "blocks,time_us\n\"1, 2\",2.5\n");
//! ```

pub mod all;
pub mod column;
mod error;
pub mod fabric;
mod found;
pub mod hybrid;
pub mod plot;
pub mod report;
mod rtl;
pub mod section;
pub mod spv;
pub mod table;
pub mod transfer;

pub use error::{PapersError, Result};

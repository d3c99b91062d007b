//! Messages of `column`: names, cells, changes and ranges, and the packets with them in the native and in the paper
//! format.

mod cell;
mod change;
mod column_name;
mod key_range;
pub mod native;
pub mod paper;

pub use cell::{Cell, FoundCell};
pub use change::{Change, ChangeOutcome};
pub use column_name::{ColumnName, NAME_BYTES_MAX};
pub use key_range::{ROW_BYTES_MAX, ScanRange};

//! The FPGA datapath: the commands by which the host writes tables and registers of the RTL, and, with the feature
//! `sim`, the NIC as Verilator simulates it. `rtl/README.md` describes the RTL.
//!
//! ```
//! use lineside_rtl::{Command, REGISTER_SPV_PORT};
//!
//! let command = Command::register(REGISTER_SPV_PORT, &7701u16.to_le_bytes());
//! assert_eq!(command.0[..8], [5, 0, 0, 0, 32, 0, 0, 0]);
//! ```

mod command;
mod generated;
#[cfg(feature = "sim")]
pub mod sim;
mod size;

pub use command::{Command, endpoint_commands, folded_sum};
pub use generated::*;
pub use size::{SIM_BLOCK_BITS, SIM_LINE_BITS};

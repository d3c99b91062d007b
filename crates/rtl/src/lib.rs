//! The FPGA datapath: a NIC with the RTL of `rtl/`, which answers requests before they reach the host. `rtl/README.md`
//! describes the RTL.
//!
//! ```text
//! clients <-> TAP device <-> thread `nic`: Nic::process -- Reply ---> TAP device
//!                              |      ^     `-- Forward -> TAP device in another namespace -> sockets of the services
//!                              |      `-- CommandQueue <- hosts: fills, invalidations, epochs
//! ```
//!
//! [`Command`] is what the host writes into tables and registers of the RTL. [`Nic`] is a NIC, [`NicNetwork`] the
//! devices around it, and [`Bridge`] the thread that moves the frames. With the feature `sim`, the crate contains the
//! NIC as Verilator simulates it; [`simulated_nic`] returns it.
//!
//! ```
//! use lineside_rtl::{Command, REGISTER_SPV_PORT};
//!
//! let command = Command::register(REGISTER_SPV_PORT, &7701u16.to_le_bytes());
//! assert_eq!(command.0[..8], [5, 0, 0, 0, 32, 0, 0, 0]);
//! ```

mod address;
mod bridge;
mod command;
mod error;
mod generated;
mod gso;
mod network;
mod nic;
mod queue;
#[cfg(feature = "sim")]
pub mod sim;
mod size;
mod tap;
#[cfg(feature = "sim")]
mod watch;

pub use address::InterfaceAddress;
pub use bridge::{Bridge, BridgeCounts};
pub use command::{Command, endpoint_commands, folded_sum};
pub use error::RtlError;
pub use generated::*;
pub use network::{NetworkPlan, NicNetwork};
pub use nic::{BATCH, Follower, FrameBatch, Nic, NicCounters, NicDesign, NicRecord, NicResponse, NicVerdict};
pub use queue::CommandQueue;
pub use size::{SIM_BLOCK_BITS, SIM_BUCKET_BITS, SIM_LINE_BITS, SIM_RECORDS, SIM_SESSION_BITS};
pub use tap::Tap;
#[cfg(feature = "sim")]
pub use watch::{SimEvent, SimEventKind};

/// Name of the FPGA datapath in the lists of [`lineside_wire::FastPathList`], on command lines and in reports.
pub const DATAPATH: &str = "rtl";

/// True if this program contains the simulated NIC.
pub const HAS_SIMULATED_NIC: bool = cfg!(feature = "sim");

/// Returns the simulated NIC of a service after its reset: no addresses and no lease. The table of `spv` and the
/// sessions of `transfer` have undefined contents; `transfer` has no accounts.
///
/// # Errors
/// [`RtlError::NotBuilt`] without the feature `sim`, [`RtlError::NoMemory`].
pub fn simulated_nic(design: NicDesign) -> Result<Box<dyn Nic>, RtlError> {
    #[cfg(feature = "sim")]
    return Ok(Box::new(sim::Simulation::new(design)?));
    #[cfg(not(feature = "sim"))]
    {
        let _ = design;
        Err(RtlError::NotBuilt)
    }
}

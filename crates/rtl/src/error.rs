//! Errors of the FPGA datapath: one variant for each cause, with the remedy in its message.

use std::io;
use std::net::IpAddr;

/// Error of the FPGA datapath.
#[derive(Debug, thiserror::Error)]
pub enum RtlError {
    /// The program has no NIC.
    #[error(
        "this program was built without the simulated NIC: run `make rtl-setup`, then build with `--features rtl`, or \
         choose another datapath"
    )]
    NotBuilt,
    /// The process may not create the device or the network namespace.
    #[error(
        "cannot {what}: run as root, or with CAP_NET_ADMIN and CAP_SYS_ADMIN, which a TAP device and a network \
         namespace need ({source})"
    )]
    NotAllowed {
        /// Operation that failed, such as "create the TAP device lineside0".
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel offers no TAP devices here.
    #[error(
        "cannot open /dev/net/tun, which creates TAP devices: run `modprobe tun`; in a container, give it the device \
         /dev/net/tun ({0})"
    )]
    NoTun(io::Error),
    /// An interface has the name already.
    #[error(
        "there is already an interface {0}: set another name as `tap` in [datapath], or remove that interface"
    )]
    NameTaken(String),
    /// Frames for an address of the NIC would go to another interface.
    #[error(
        "this machine sends packets for the NIC at {nic} to the interface {interface}, which has the same network or a \
         route for it: set other `tap_addresses` in [datapath] and another `listen` of the service, or remove that \
         route"
    )]
    NetworkTaken {
        /// Address of the NIC.
        nic: IpAddr,
        /// Name of the other interface.
        interface: String,
    },
    /// Another system call failed.
    #[error("cannot {what}: {source}")]
    System {
        /// Operation that failed.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The NIC has more addresses than its registers.
    #[error(
        "the NIC has registers for 8 addresses of each family: give the services fewer addresses in `listen`"
    )]
    TooManyAddresses,
    /// The memory for the simulation cannot be allocated.
    #[error("no memory for the simulated NIC")]
    NoMemory,
    /// The RTL broke a rule of its streams, or a frame did not leave.
    #[error("the simulated NIC failed: {0}")]
    Fault(String),
}

/// Returns a function that converts a system error of the operation `what`.
pub(crate) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> RtlError {
    move |source| match source.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => RtlError::NotAllowed {
            what: what.into(),
            source,
        },
        _ => RtlError::System {
            what: what.into(),
            source,
        },
    }
}

//! What can go wrong in a bench.

use lineside_xdp::XdpError;
use std::io;

/// What went wrong, and where.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Namespaces and native XDP need root.
    #[error("this bench makes network namespaces and attaches XDP programs: run it as root ({0})")]
    NotAllowed(io::Error),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel refused something of the generators' BPF.
    #[error("{what}: {source}")]
    Bpf {
        /// What was being done.
        what: &'static str,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// The XDP datapath failed.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// Client and server each need a core.
    #[error("this bench needs two cores: one for the client, one for the server")]
    TooFewCores,
    /// A tool said no.
    #[error("`{command}` failed: {said}")]
    Command {
        /// The command line.
        command: String,
        /// Its standard error.
        said: String,
    },
    /// The chain store failed.
    #[error("importing: {0}")]
    Chain(String),
    /// A block was not taken, or the ledger failed.
    #[error("fabric: {0}")]
    Fabric(#[from] lineside_fabric::ledger::LedgerError),
    /// A figure that cannot be had here.
    #[error("not measured: {0}")]
    NotMeasured(String),
    /// A figure that would not mean what it says.
    #[error("void: {0}")]
    Void(String),
}

impl BenchError {
    /// True if this machine or this user cannot run the bench at all: no root, no BPF, one core, a peer that is not
    /// installed.
    pub const fn is_of_the_machine(&self) -> bool {
        matches!(
            self,
            Self::NotAllowed(_)
                | Self::NotMeasured(_)
                | Self::TooFewCores
                | Self::Xdp(XdpError::NotAllowed(_))
        )
    }
}

/// What every step of a bench gives.
pub type Result<T> = std::result::Result<T, BenchError>;

/// For `map_err`: an I/O error with what was being done.
pub fn io(what: &'static str) -> impl FnOnce(io::Error) -> BenchError {
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => BenchError::NotAllowed(source),
        _ => BenchError::Io { what, source },
    }
}

/// For `map_err`: whatever it was, the figures mean nothing.
pub fn void(error: impl std::fmt::Display) -> BenchError {
    BenchError::Void(error.to_string())
}

/// For `map_err`: what HBase, or what is built beside it in Java, says. That it is not here is no fault.
pub fn java(error: lineside_hbase_mini::Error) -> BenchError {
    use lineside_hbase_mini::Error;
    match error {
        Error::NotHere(why) => BenchError::NotMeasured(why),
        Error::Failed(said) => BenchError::Command {
            command: "java".into(),
            said,
        },
    }
}

/// For `map_err`: a BPF error with what was being done.
pub fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> BenchError {
    move |source| BenchError::Bpf { what, source }
}

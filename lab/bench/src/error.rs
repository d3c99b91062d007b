//! Errors of the benchmarks.

use lineside_xdp::XdpError;
use std::io;

/// Reason why a benchmark stopped.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The process is not root. Network namespaces, their devices and native XDP need root.
    #[error("this benchmark needs network namespaces with devices of their own: run it as root ({0})")]
    NotAllowed(io::Error),
    /// A system call failed.
    #[error("{what}: {source}")]
    Io {
        /// Action that failed.
        what: &'static str,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The kernel refused a BPF operation of the generators.
    #[error("{what}: {source}")]
    Bpf {
        /// Action that failed.
        what: &'static str,
        /// Error of the kernel.
        source: libbpf_rs::Error,
    },
    /// The XDP datapath failed.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// The machine has one core, but client and server each need one.
    #[error("this benchmark needs two cores: one for the client, one for the server")]
    TooFewCores,
    /// An external command failed.
    #[error("`{command}` failed: {said}")]
    Command {
        /// Command line of the command.
        command: String,
        /// Standard error of the command.
        said: String,
    },
    /// The chain store failed.
    #[error("importing: {0}")]
    Chain(String),
    /// A block was not accepted, or the ledger failed.
    #[error("fabric: {0}")]
    Fabric(#[from] lineside_fabric::ledger::LedgerError),
    /// A figure cannot be measured on this machine. The field is the reason.
    #[error("not measured: {0}")]
    NotMeasured(String),
    /// A figure would be meaningless. The field is the reason.
    #[error("no valid result: {0}")]
    Void(String),
}

impl BenchError {
    /// Returns true if this machine or this user cannot run the benchmark at all: no root rights, no BPF, only one
    /// core, or a compared system that is not installed.
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

/// Result of a step of a benchmark.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Returns a function for `map_err` that adds the action to an I/O error.
pub fn io(what: &'static str) -> impl FnOnce(io::Error) -> BenchError {
    move |source| match source.kind() {
        io::ErrorKind::PermissionDenied => BenchError::NotAllowed(source),
        _ => BenchError::Io { what, source },
    }
}

/// Converts an error after which the figures are meaningless; for `map_err`.
pub fn void(error: impl std::fmt::Display) -> BenchError {
    BenchError::Void(error.to_string())
}

/// Converts an error of HBase or of another Java program, for `map_err`. A missing installation becomes
/// [`BenchError::NotMeasured`].
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

/// Returns a function for `map_err` that adds the action to a BPF error.
pub fn bpf(what: &'static str) -> impl FnOnce(libbpf_rs::Error) -> BenchError {
    move |source| BenchError::Bpf { what, source }
}

//! What can go wrong with XDP: one error per cause, each with what to do about it.

use std::io;
use std::path::PathBuf;

/// What went wrong, where, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The kernel will not have BPF programs from us.
    #[error("BPF is not allowed here: run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON ({0})")]
    NotAllowed(libbpf_rs::Error),
    /// The kernel was built without BPF.
    #[error("this kernel has no BPF ({0}): Linux 6.1 or newer with CONFIG_BPF_SYSCALL is needed")]
    NoBpf(libbpf_rs::Error),
    /// A program or map asks for what the kernel does not have, or does not accept.
    #[error("{what}: {source}")]
    Kernel {
        /// What was being done.
        what: String,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// Another system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was being done.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The kernel has no memory for the maps.
    #[error(
        "no memory for {bytes} bytes of maps ({source}): make line_bits smaller, or give the service more memory"
    )]
    MapTooLarge {
        /// Bytes asked for.
        bytes: u64,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// A map that the program should have is not there, or has another size.
    #[error("map {0} is missing or has another size: the program and this binary do not belong together")]
    Map(String),
    /// The pinned maps have another shape than those of this program.
    #[error(
        "{path} holds a map of another size or layout: give the same geometry, or run `lineside xdp detach {interface}`"
    )]
    OtherLayout {
        /// The pinned map.
        path: PathBuf,
        /// Its interface.
        interface: String,
    },
    /// There is no such interface.
    #[error("there is no interface {0}: `ip link` lists them")]
    NoInterface(String),
    /// The interface has more addresses than a program can compare.
    #[error("{0} has more than 8 addresses of one family")]
    TooManyAddresses(String),
    /// The driver has no native XDP.
    #[error(
        "the driver of {interface} does not take XDP natively ({source}): set xdp_mode = \"auto\" or \"generic\""
    )]
    DriverWithoutXdp {
        /// The interface.
        interface: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// Another program is attached already; it is never replaced.
    #[error(
        "{interface} has an XDP program that is not ours: {name} (id {id}); it was left alone. \
         `bpftool prog show id {id}` tells more"
    )]
    ForeignProgram {
        /// The interface.
        interface: String,
        /// The program's number.
        id: u32,
        /// The program's name.
        name: String,
    },
    /// Another Lineside owns the interface.
    #[error("another lineside serves {0}: one owner per interface; end that one first")]
    Owned(String),
    /// There is no BPF file system where pins should go.
    #[error("{0} is not on a BPF file system: mount -t bpf bpf /sys/fs/bpf")]
    NoBpffs(PathBuf),
}

/// Sorts what libbpf says of `what` by its cause.
pub(super) fn kernel(what: impl Into<String>) -> impl FnOnce(libbpf_rs::Error) -> XdpError {
    move |source| match source.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => XdpError::NotAllowed(source),
        libbpf_rs::ErrorKind::Unsupported if errno(&source) == Some(libc::ENOSYS) => XdpError::NoBpf(source),
        _ => XdpError::Kernel {
            what: what.into(),
            source,
        },
    }
}

pub(super) fn system(what: impl Into<String>) -> impl FnOnce(io::Error) -> XdpError {
    move |source| match source.raw_os_error() {
        Some(libc::EPERM) => XdpError::NotAllowed(source.into()),
        _ => XdpError::System {
            what: what.into(),
            source,
        },
    }
}

/// The system's error number under libbpf's words.
fn errno(error: &libbpf_rs::Error) -> Option<i32> {
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(number) = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::raw_os_error)
        {
            return Some(number);
        }
        next = error.source();
    }
    None
}

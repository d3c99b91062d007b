//! Errors of the XDP datapath: one variant for each cause, with the remedy in its message.

use std::io;
use std::path::PathBuf;

/// Error of the XDP datapath.
#[derive(Debug, thiserror::Error)]
pub enum XdpError {
    /// The kernel does not allow this process to use BPF.
    #[error(
        "BPF is not allowed here: run as root, or with CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON; in a container, its \
         seccomp filter must also permit the system call bpf ({0})"
    )]
    NotAllowed(libbpf_rs::Error),
    /// The kernel was built without BPF.
    #[error(
        "this kernel has no BPF, or a seccomp filter hides it ({0}): Linux 6.1 or newer with CONFIG_BPF_SYSCALL is \
         needed, and a container must permit the system call bpf"
    )]
    NoBpf(libbpf_rs::Error),
    /// The kernel lacks, or refuses, something that a program or map needs.
    #[error("{what}: {source}")]
    Kernel {
        /// Statement of the operation that failed, such as "cannot load the root program".
        what: String,
        /// The kernel's error.
        source: libbpf_rs::Error,
    },
    /// Another system call failed.
    #[error("{what}: {source}")]
    System {
        /// Statement of the operation that failed.
        what: String,
        /// The system's error.
        source: io::Error,
    },
    /// The kernel has no memory for the maps.
    #[error(
        "no memory for {bytes} bytes of maps: make the tables of the enabled services smaller (line_bits, block_bits \
         or tree_bits in [spv], account_bits in [transfer], row_bits in [column]), or give the server more memory \
         ({source})"
    )]
    MapTooLarge {
        /// Size of the service's maps in bytes.
        bytes: u64,
        /// The kernel's error.
        source: libbpf_rs::Error,
    },
    /// A map or program is missing in the compiled object, or a map has another size.
    #[error(
        "map or program {0} is missing or has another size: the BPF object and this binary are of different builds; \
         build both again"
    )]
    Map(String),
    /// The pinned maps have another layout than the maps of this program.
    #[error(
        "{path} holds a map of another size or layout: set the same table sizes as before, or run `{}`",
        super::detach_command(interface, pin_dir)
    )]
    OtherLayout {
        /// The pinned map.
        path: PathBuf,
        /// Interface of the map.
        interface: String,
        /// Directory in which the interface has its folder of pins.
        pin_dir: PathBuf,
    },
    /// The interface does not exist.
    #[error("there is no interface {0}: `ip link` lists the interfaces")]
    NoInterface(String),
    /// The interface has more addresses than an XDP program can compare.
    #[error(
        "{0} has more than 8 addresses of one family, the most that an XDP program compares: remove some, or set \
         kind = \"socket\" in [datapath]"
    )]
    TooManyAddresses(String),
    /// The driver has no native XDP.
    #[error(
        "the driver of {interface} has no native XDP: set xdp_mode = \"auto\" or \"generic\" in [datapath] ({source})"
    )]
    DriverWithoutXdp {
        /// The interface.
        interface: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// An XDP program of another software is attached to the interface. Lineside never replaces such a program.
    #[error(
        "{interface} has an XDP program that does not belong to Lineside: {name} (id {id}); it was not changed. Detach \
         this program, or choose another interface; `bpftool prog show id {id}` describes the program"
    )]
    ForeignProgram {
        /// The interface.
        interface: String,
        /// Id of the program.
        id: u32,
        /// Name of the program.
        name: String,
    },
    /// An XDP program is attached to the interface, and it is that of another Lineside server, or its name is not known
    /// because the process may not read it.
    #[error(
        "{interface} has an XDP program already, {name} (id {id}), probably that of another server of Lineside; it was \
         not changed. Stop that server, or choose another interface; `bpftool prog show id {id}` describes the program"
    )]
    Occupied {
        /// The interface.
        interface: String,
        /// Id of the program.
        id: u32,
        /// Name of the program.
        name: String,
    },
    /// Another Lineside process owns the interface.
    #[error(
        "another process of Lineside serves {0}, and an interface has one owner; stop that process first"
    )]
    Owned(String),
    /// Two interfaces that one process is to serve have pins of different maps.
    #[error(
        "the fast paths pinned at {} and {} are of different servers, so one process cannot take over both: run \
         `{}` first, or serve the interfaces by two processes",
        interfaces[0], interfaces[1], super::detach_command(&interfaces[1], pin_dir)
    )]
    Apart {
        /// The two interfaces.
        interfaces: [String; 2],
        /// Directory in which the interfaces have their folders of pins.
        pin_dir: PathBuf,
    },
    /// The directory for the pins, or the one of an interface in it, belongs to another user.
    #[error(
        "{} belongs to another user: stop the server of that user, then remove the directory (rmdir {}), or set \
         another `pin_dir` in [datapath]",
        .0.display(), .0.display()
    )]
    OtherUser(PathBuf),
    /// The directory for the pins is not on a BPF file system.
    #[error("{0} is not on a BPF file system: mount -t bpf bpf /sys/fs/bpf")]
    NoBpffs(PathBuf),
}

/// Returns a function that converts an error of libbpf in the operation `what` to the [`XdpError`] of its cause.
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

/// Returns the system's error number in the causes of a libbpf error.
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

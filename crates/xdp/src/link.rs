//! The attachment of the root program to an interface. It is a BPF link, which can be pinned, updated atomically, and
//! detached.

use super::error::{XdpError, system};
use super::interface::{Interface, interfaces, may_lose_native_answers};
use crate::ROOT_PROGRAM;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Requested attachment mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum XdpMode {
    /// In the driver if it supports XDP and its replies cannot be lost, else generic.
    #[default]
    Auto,
    /// In the driver, before the kernel allocates a packet buffer for the frame.
    Native,
    /// In the kernel's receive path: works on any interface, but is slower.
    Generic,
}

/// Actual attachment mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachedMode {
    /// In the driver.
    Native,
    /// In the kernel's receive path.
    Generic,
}

impl AttachedMode {
    /// Returns the name used in the configuration and in messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }

    const fn flag(self) -> u32 {
        match self {
            Self::Native => libbpf_sys::XDP_FLAGS_DRV_MODE,
            Self::Generic => libbpf_sys::XDP_FLAGS_SKB_MODE,
        }
    }
}

/// The attached root program. Dropping the link detaches the program, unless the link is pinned.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    mode: AttachedMode,
}

impl Link {
    /// Attaches `program` to `interface`.
    ///
    /// # Errors
    /// [`XdpError::ForeignProgram`], [`XdpError::DriverWithoutXdp`], [`XdpError::NotAllowed`], or the system's error.
    pub fn attach(interface: &Interface, program: BorrowedFd<'_>, mode: XdpMode) -> Result<Self, XdpError> {
        refuse_foreign(interface)?;
        let create = |mode: AttachedMode| create(interface, program, mode).map(|fd| Self { fd, mode });
        let native = match mode {
            XdpMode::Generic => None,
            XdpMode::Auto if may_lose_native_answers(&interface.name) => None,
            XdpMode::Native | XdpMode::Auto => Some(create(AttachedMode::Native)),
        };
        let failed = match (native, mode) {
            (Some(Ok(link)), _) => return Ok(link),
            (Some(Err(source)), XdpMode::Native) if source.raw_os_error() == Some(libc::EOPNOTSUPP) => {
                return Err(XdpError::DriverWithoutXdp {
                    interface: interface.name.clone(),
                    source,
                });
            }
            (Some(Err(source)), XdpMode::Native) => source,
            _ => match create(AttachedMode::Generic) {
                Ok(link) => return Ok(link),
                Err(source) => source,
            },
        };
        if matches!(failed.raw_os_error(), Some(libc::EBUSY | libc::EEXIST)) {
            refuse_foreign(interface)?;
        }
        Err(system(format!("cannot attach XDP to {}", interface.name))(failed))
    }

    /// Opens the link that is pinned at `path`. Returns `None` if no link is pinned there. A link whose interface no
    /// longer exists is unpinned, and the function returns `None`.
    ///
    /// # Errors
    /// [`XdpError::ForeignProgram`] if the interface has another program than the link's; or the system's error.
    pub fn open(path: &Path, interface: &Interface) -> Result<Option<Self>, XdpError> {
        let Some(fd) = open_pin(path).map_err(system(format!("cannot open {}", path.display())))? else {
            return Ok(None);
        };
        let (program_id, index) =
            link_info(fd.as_fd()).map_err(system("cannot read the state of the pinned link"))?;
        if index != interface.index {
            std::fs::remove_file(path)
                .map_err(system(format!("cannot remove the pin {}", path.display())))?;
            return Ok(None);
        }
        match attached(interface)? {
            Some((id, mode)) if id == program_id => Ok(Some(Self { fd, mode })),
            _ => {
                refuse_foreign(interface)?;
                Ok(None)
            }
        }
    }

    /// Atomically replaces the running program by `program`, so that no frame arrives without a program.
    ///
    /// # Errors
    /// The system's error.
    pub fn replace(&self, program: BorrowedFd<'_>) -> Result<(), XdpError> {
        // SAFETY: both descriptors are open, and a null pointer means "no options".
        let result = unsafe {
            libbpf_sys::bpf_link_update(self.fd.as_raw_fd(), program.as_raw_fd(), std::ptr::null())
        };
        check(result)
            .map(drop)
            .map_err(system("cannot replace the XDP program"))
    }

    /// Pins the link at `path` of a BPF file system, so that the attachment outlives this process.
    ///
    /// # Errors
    /// The system's error.
    pub fn pin(&self, path: &Path) -> Result<(), XdpError> {
        pin(self.fd.as_fd(), path)
    }

    /// Detaches the program from the interface, even if the link is pinned or other processes hold it.
    ///
    /// # Errors
    /// The system's error.
    pub fn detach(&self) -> Result<(), XdpError> {
        // SAFETY: the descriptor of this link is open.
        let result = unsafe { libbpf_sys::bpf_link_detach(self.fd.as_raw_fd()) };
        check(result)
            .map(drop)
            .map_err(system("cannot detach the XDP program"))
    }

    /// Returns the attachment mode.
    pub fn mode(&self) -> AttachedMode {
        self.mode
    }
}

/// Pins a link or a map at `path` of a BPF file system.
///
/// # Errors
/// The system's error.
pub(super) fn pin(object: BorrowedFd<'_>, path: &Path) -> Result<(), XdpError> {
    let what = || system(format!("cannot pin {}", path.display()));
    let c_path = c_path(path).map_err(what())?;
    // SAFETY: the descriptor is open, and `c_path` is a C string that outlives the call.
    let result = unsafe { libbpf_sys::bpf_obj_pin(object.as_raw_fd(), c_path.as_ptr()) };
    check(result).map(drop).map_err(what())
}

/// Returns id and mode of the program on `interface`, or `None` if there is none.
///
/// # Errors
/// The system's error.
pub fn attached(interface: &Interface) -> Result<Option<(u32, AttachedMode)>, XdpError> {
    program_at(interface.index).map_err(system(cannot_ask(&interface.name)))
}

fn cannot_ask(interface: &str) -> String {
    format!("cannot ask the kernel for the XDP program of {interface}")
}

fn program_at(index: u32) -> io::Result<Option<(u32, AttachedMode)>> {
    for mode in [AttachedMode::Native, AttachedMode::Generic] {
        let mut id = 0;
        // SAFETY: `id` is valid for writing during the call.
        check(unsafe { libbpf_sys::bpf_xdp_query_id(index as i32, mode.flag() as i32, &mut id) })?;
        if id != 0 {
            return Ok(Some((id, mode)));
        }
    }
    Ok(None)
}

/// An XDP program of Lineside on an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachedRoot {
    /// Name of the interface.
    pub interface: String,
    /// Id of the program.
    pub id: u32,
    /// Mode of the program.
    pub mode: AttachedMode,
    /// False if this process may not read the name of the program, which needs CAP_SYS_ADMIN; the program may then
    /// belong to another project.
    pub is_certain: bool,
}

/// Returns the programs of Lineside on all interfaces of this network namespace, in the order of the interfaces' names.
///
/// # Errors
/// The system's error.
pub fn attached_roots() -> Result<Vec<AttachedRoot>, XdpError> {
    let mut found = Vec::new();
    for (index, interface) in interfaces().map_err(system("cannot list the network interfaces"))? {
        let program = match program_at(index) {
            // The interface was removed after it had been listed.
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => None,
            program => program.map_err(system(cannot_ask(&interface)))?,
        };
        let Some((id, mode)) = program else { continue };
        let name = program_name(id).ok();
        if name.as_deref().is_none_or(|name| name == ROOT_PROGRAM) {
            found.push(AttachedRoot {
                interface,
                id,
                mode,
                is_certain: name.is_some(),
            });
        }
    }
    found.sort_by(|one, other| one.interface.cmp(&other.interface));
    Ok(found)
}

/// Returns true if the interface with this index has an XDP program in its driver.
pub(super) fn has_native_program(index: u32) -> io::Result<bool> {
    let mut id = 0;
    let flags = AttachedMode::Native.flag() as i32;
    // SAFETY: `id` is valid for writing during the call.
    check(unsafe { libbpf_sys::bpf_xdp_query_id(index as i32, flags, &mut id) })?;
    Ok(id != 0)
}

fn refuse_foreign(interface: &Interface) -> Result<(), XdpError> {
    match attached(interface)? {
        None => Ok(()),
        Some((id, _)) => Err(occupied(interface.name.clone(), id, program_name(id).ok())),
    }
}

/// Returns the error for an interface that has a program of another process. `name` is `None` if this process may not
/// read the name, which needs CAP_SYS_ADMIN.
fn occupied(interface: String, id: u32, name: Option<String>) -> XdpError {
    match name {
        Some(name) if name != ROOT_PROGRAM => XdpError::ForeignProgram { interface, id, name },
        Some(name) => XdpError::Occupied { interface, id, name },
        None => XdpError::Occupied {
            interface,
            id,
            name: "whose name cannot be read here".into(),
        },
    }
}

fn create(interface: &Interface, program: BorrowedFd<'_>, mode: AttachedMode) -> io::Result<OwnedFd> {
    let options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        flags: mode.flag(),
        ..Default::default()
    };
    // SAFETY: the descriptor of the program is open, and the options outlive the call.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(
            program.as_raw_fd(),
            interface.index as i32,
            libbpf_sys::BPF_XDP,
            &options,
        )
    };
    // SAFETY: the kernel has just created this descriptor, so it has no other owner.
    check(fd).map(|fd| unsafe { OwnedFd::from_raw_fd(fd) })
}

fn check(result: i32) -> io::Result<RawFd> {
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    Ok(result)
}

fn c_path(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(io::Error::other)
}

fn open_pin(path: &Path) -> io::Result<Option<OwnedFd>> {
    let c_path = c_path(path)?;
    // SAFETY: `c_path` is a C string that outlives the call.
    match check(unsafe { libbpf_sys::bpf_obj_get(c_path.as_ptr()) }) {
        // SAFETY: the kernel has just created this descriptor, so it has no other owner.
        Ok(fd) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the id of the link's program and the index of its interface. The index 0 means that the link is detached.
fn link_info(link: BorrowedFd<'_>) -> io::Result<(u32, u32)> {
    let mut info = libbpf_sys::bpf_link_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: `bytes` is the size of `info`, which is valid for writing.
    check(unsafe { libbpf_sys::bpf_link_get_info_by_fd(link.as_raw_fd(), &mut info, &mut bytes) })?;
    if info.type_ != libbpf_sys::BPF_LINK_TYPE_XDP {
        return Err(io::Error::other("the pinned link is not an XDP link"));
    }
    // SAFETY: the link is an XDP link, so the kernel has filled the union's member `xdp`. This is one number, and every
    // bit pattern is a valid number.
    let index = unsafe { info.__bindgen_anon_1.xdp.ifindex };
    Ok((info.prog_id, index))
}

/// Returns the name of a loaded program.
fn program_name(id: u32) -> io::Result<String> {
    // SAFETY: the call takes only a number.
    let fd = check(unsafe { libbpf_sys::bpf_prog_get_fd_by_id(id) })?;
    // SAFETY: the kernel has just created this descriptor, so it has no other owner.
    let info = program_info(unsafe { OwnedFd::from_raw_fd(fd) }.as_fd())?;
    // SAFETY: the kernel ends the name with a zero byte within the 16 bytes of the field.
    Ok(unsafe { CStr::from_ptr(info.name.as_ptr()) }
        .to_string_lossy()
        .into_owned())
}

/// Returns the kernel's description of a program, including the verifier's statistics.
///
/// # Errors
/// The system's error.
pub fn program_info(program: BorrowedFd<'_>) -> io::Result<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut bytes = size_of_val(&info) as u32;
    // SAFETY: `bytes` is the size of `info`, which is valid for writing.
    let result = unsafe {
        libbpf_sys::bpf_obj_get_info_by_fd(
            program.as_raw_fd(),
            std::ptr::from_mut(&mut info).cast(),
            &mut bytes,
        )
    };
    check(result).map(|_| info)
}

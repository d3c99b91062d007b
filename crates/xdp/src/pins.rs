//! Pins of one interface: a directory in a BPF file system with the maps and the link. Pins remain when the daemon
//! ends. A directory has at most one owning process. A process that serves several interfaces owns a directory for
//! each, and pins the maps that they share in every one of them, so that each directory is complete by itself.

use super::SERVICES_MAP;
use super::error::{XdpError, kernel, system};
use libbpf_rs::{MapHandle, MapInfo};
use lineside_util::file_lock;
use std::ffi::CString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// File name under which the link is pinned; maps are pinned under their own names.
const LINK: &str = "link";
/// Magic number of the BPF file system (BPF_FS_MAGIC of linux/magic.h).
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// Directory of the pins if the configuration names no other.
pub const DEFAULT_PIN_DIR: &str = "/sys/fs/bpf/lineside";

/// Returns the command that detaches the fast path from `interface`, whose pins are in `pin_dir`.
pub fn detach_command(interface: &str, pin_dir: &Path) -> String {
    match pin_dir == Path::new(DEFAULT_PIN_DIR) {
        true => format!("lineside xdp detach {interface}"),
        false => format!("lineside xdp detach {interface} --pin-dir {}", pin_dir.display()),
    }
}

/// Directory of pins that this process owns. Dropping the value gives up the ownership, and removes an empty directory.
#[derive(Debug)]
pub struct Pins {
    path: PathBuf,
    interface: String,
    /// The open directory, locked by flock so that each interface has one owner.
    _folder: File,
    /// True if [`Pins::remove`] was called. Another process may own a new directory at the same path since then.
    is_removed: bool,
}

impl Pins {
    /// Creates and locks the folder of `interface` in `dir`.
    ///
    /// # Errors
    /// [`XdpError::NoBpffs`], [`XdpError::Owned`], or the system's error.
    pub fn own(dir: &Path, interface: &str) -> Result<Self, XdpError> {
        let path = folder_of(dir, interface);
        require_bpffs(dir)?;
        // Another process that detaches at this moment may remove the directory between its creation and its lock, so
        // the function tries again.
        for _ in 0..100 {
            fs::create_dir_all(&path).map_err(system(format!("cannot create {}", path.display())))?;
            match lock(&path, file_lock::take) {
                Ok(Some(folder)) => {
                    require_writable(&path)?;
                    return Ok(Self {
                        path,
                        interface: interface.into(),
                        _folder: folder,
                        is_removed: false,
                    });
                }
                Ok(None) => {}
                Err(TryLockError::WouldBlock) => return Err(XdpError::Owned(interface.into())),
                Err(TryLockError::Error(error)) => {
                    return Err(system(format!("cannot lock {}", path.display()))(error));
                }
            }
        }
        Err(XdpError::Owned(interface.into()))
    }

    /// Checks that `dir`, or the directory in which it would be created, is on a BPF file system.
    ///
    /// # Errors
    /// [`XdpError::NoBpffs`], or the system's error.
    pub fn check_dir(dir: &Path) -> Result<(), XdpError> {
        require_bpffs(dir)
    }

    /// Returns the names of the interfaces that have a folder in `dir`. Folders with other names are skipped.
    ///
    /// # Errors
    /// The system's error. A `dir` that does not exist is not an error: the list is empty.
    pub fn list(dir: &Path) -> io::Result<Vec<String>> {
        let entries = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                names.extend(entry.file_name().to_str().and_then(unescaped));
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns true if a running lineside owns the folder of `interface` in `dir`.
    pub fn is_owned(dir: &Path, interface: &str) -> bool {
        let locked = lock(&folder_of(dir, interface), File::try_lock);
        matches!(locked, Err(TryLockError::WouldBlock))
    }

    /// Returns the interfaces of `given` that have pinned maps in `dir`, and all other interfaces with pins of the same
    /// maps, because one process has served all of these together. The list is sorted by name.
    ///
    /// # Errors
    /// The kernel's error if the pins of an interface of `given` cannot be read.
    pub fn together(dir: &Path, given: &[String]) -> Result<Vec<String>, XdpError> {
        let mut maps = Vec::new();
        for name in given {
            maps.extend(map_id(&folder_of(dir, name).join(SERVICES_MAP))?);
        }
        let mut names = Self::list(dir).map_err(system(format!("cannot read {}", dir.display())))?;
        // A directory that cannot be read belongs to another user and is left out.
        let map_of = |name: &str| map_id(&folder_of(dir, name).join(SERVICES_MAP)).unwrap_or_default();
        names.retain(|name| map_of(name).is_some_and(|map| maps.contains(&map)));
        Ok(names)
    }

    /// Returns the id of the map that is pinned for this interface under `name`, or `None` if no such map is pinned.
    ///
    /// # Errors
    /// The kernel's error if the pin cannot be read.
    pub fn map_id(&self, name: &str) -> Result<Option<u32>, XdpError> {
        map_id(&self.map(name))
    }

    /// Returns the name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// Returns the path of the folder of `interface` in `dir`, which need not exist.
    pub fn folder_of(dir: &Path, interface: &str) -> PathBuf {
        folder_of(dir, interface)
    }

    /// Returns the directory that has the folders of all interfaces.
    pub fn dir(&self) -> &Path {
        self.path.parent().unwrap_or(&self.path)
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path at which the map `name` is pinned.
    pub fn map(&self, name: &str) -> PathBuf {
        self.path.join(name.replace('.', "_"))
    }

    /// Returns the path at which the link is pinned.
    pub fn link(&self) -> PathBuf {
        self.path.join(LINK)
    }

    /// Returns true if nothing is pinned for this interface yet.
    pub fn is_empty(&self) -> bool {
        fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_none())
    }

    /// Unpins everything and removes the directory. This detaches the link unless another process holds it open.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(mut self) -> Result<(), XdpError> {
        self.is_removed = true;
        let what = |path: &Path| system(format!("cannot remove {}", path.display()));
        // The link is removed first, so that no program keeps running with maps that are no longer pinned.
        match fs::remove_file(self.link()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(what(&self.link())(error)),
            _ => {}
        }
        let entries = fs::read_dir(&self.path).map_err(what(&self.path))?;
        for entry in entries {
            let path = entry.map_err(what(&self.path))?.path();
            fs::remove_file(&path).map_err(what(&path))?;
        }
        self.remove_folder().map_err(what(&self.path))
    }

    /// Removes the directory if it is empty, and the common directory if no other interface has pins.
    fn remove_folder(&self) -> io::Result<()> {
        fs::remove_dir(&self.path)?;
        if let Some(dir) = self.path.parent() {
            // This fails while other interfaces have a directory in the common one.
            let _ = fs::remove_dir(dir);
        }
        Ok(())
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        if !self.is_removed {
            // This fails if the directory still has pins, which then remain.
            let _ = self.remove_folder();
        }
    }
}

/// Returns the id of the map that is pinned at `path`, or `None` if nothing is pinned there.
fn map_id(path: &Path) -> Result<Option<u32>, XdpError> {
    if !path.exists() {
        return Ok(None);
    }
    let what = || kernel(format!("cannot open {}", path.display()));
    let map = MapHandle::from_pinned_path(path).map_err(what())?;
    let about = MapInfo::new(map.as_fd()).map_err(what())?;
    Ok(Some(about.info.id))
}

fn folder_of(dir: &Path, interface: &str) -> PathBuf {
    dir.join(escaped(interface))
}

/// Returns the directory name of an interface. The BPF file system refuses dots, so `.` becomes `_d` and `_` becomes
/// `__`. Different interfaces get different names, and [`unescaped`] converts a name back.
fn escaped(interface: &str) -> String {
    interface.replace('_', "__").replace('.', "_d")
}

/// Returns the interface whose directory has this name, or `None` if the name is not a result of [`escaped`].
fn unescaped(folder: &str) -> Option<String> {
    let mut interface = String::new();
    let mut rest = folder.chars();
    while let Some(letter) = rest.next() {
        interface.push(match letter {
            '_' => match rest.next()? {
                '_' => '_',
                'd' => '.',
                _ => return None,
            },
            '.' => return None,
            other => other,
        });
    }
    Some(interface)
}

/// Opens a directory, and locks it by `take`. Returns `None` if another process removed it between the two steps.
fn lock(path: &Path, take: fn(&File) -> Result<(), TryLockError>) -> Result<Option<File>, TryLockError> {
    let folder = File::open(path).map_err(TryLockError::Error)?;
    take(&folder)?;
    let same = match fs::metadata(path) {
        Ok(now) => now.ino() == folder.metadata().map_err(TryLockError::Error)?.ino(),
        Err(_) => false,
    };
    Ok(same.then_some(folder))
}

/// Refuses a directory that another user created. The daemon could not write there after it has given up root's
/// privileges.
fn require_writable(path: &Path) -> Result<(), XdpError> {
    let refused = || XdpError::OtherUser(path.into());
    let c_path = CString::new(path.as_os_str().as_bytes()).map_err(|_| refused())?;
    let wanted = libc::W_OK | libc::X_OK;
    // SAFETY: `c_path` is a C string that outlives the call.
    match unsafe { libc::faccessat(libc::AT_FDCWD, c_path.as_ptr(), wanted, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(refused()),
    }
}

/// Refuses a `dir` that is not on a BPF file system. If `dir` does not exist, its nearest existing ancestor is checked.
fn require_bpffs(dir: &Path) -> Result<(), XdpError> {
    let existing = dir
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"));
    let folder = File::open(existing).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied if existing == dir => XdpError::OtherUser(dir.into()),
        // Only root may enter the file system itself.
        io::ErrorKind::PermissionDenied => XdpError::NotAllowed(error.into()),
        _ => system(format!("cannot open {}", existing.display()))(error),
    })?;
    // SAFETY: statfs is plain data, for which all zeros are a valid value.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor of `folder` is open, and `about` is valid for writing.
    let result = unsafe { libc::fstatfs(folder.as_raw_fd(), &mut about) };
    if result == 0 && about.f_type as i64 == BPF_FS_MAGIC {
        return Ok(());
    }
    Err(XdpError::NoBpffs(dir.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_directory_can_be_converted_back_to_the_interface() {
        for (interface, folder) in [
            ("eth0", "eth0"),
            ("eth0.100", "eth0_d100"),
            ("eth0_100", "eth0__100"),
            ("eth0_d100", "eth0__d100"),
            ("a_.b", "a___db"),
            ("a._b", "a_d__b"),
            ("..", "_d_d"),
        ] {
            assert_eq!(escaped(interface), folder);
            assert_eq!(unescaped(folder).as_deref(), Some(interface));
        }
    }

    #[test]
    fn a_directory_with_another_name_belongs_to_no_interface() {
        for folder in ["eth0_100", "eth0_", "eth0.100", "_x"] {
            assert_eq!(unescaped(folder), None, "{folder}");
        }
    }
}

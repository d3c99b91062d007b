//! Pins of one interface: a folder in a BPF file system with the maps and the link, which outlive the daemon. A folder
//! has at most one owning process. A process that serves several interfaces owns a folder for each, and pins the maps
//! that they share in every one of them, so that each folder is complete without the others.

use super::SERVICES_MAP;
use super::error::{XdpError, kernel, system};
use libbpf_rs::{MapHandle, MapInfo};
use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Name of the link's pin; maps are pinned under their own names.
const LINK: &str = "link";
/// BPF_FS_MAGIC of linux/magic.h.
const BPF_FS_MAGIC: i64 = 0xcafe_4a11;

/// Folder of pins that this process owns. Dropping it releases the ownership, and removes the folder if it is empty.
#[derive(Debug)]
pub struct Pins {
    path: PathBuf,
    interface: String,
    /// The open folder, locked by flock so that each interface has one owner.
    _folder: File,
    /// True if [`Pins::remove`] was called: another process may own a new folder at the same path since then.
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
        // Another lineside that detaches at this moment may remove the folder between its creation and its lock: try
        // again.
        for _ in 0..100 {
            fs::create_dir_all(&path).map_err(system(format!("making {}", path.display())))?;
            match lock(&path) {
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
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Err(XdpError::Owned(interface.into()));
                }
                Err(error) => return Err(system(format!("locking {}", path.display()))(error)),
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
        let locked = lock(&folder_of(dir, interface));
        matches!(locked, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Returns the interfaces of `given` that have pinned maps in `dir`, and all others there with the same maps,
    /// because one process has served them together. Sorted by name.
    ///
    /// # Errors
    /// The kernel's error of reading the pins of an interface of `given`.
    pub fn together(dir: &Path, given: &[String]) -> Result<Vec<String>, XdpError> {
        let mut maps = Vec::new();
        for name in given {
            maps.extend(map_id(&folder_of(dir, name).join(SERVICES_MAP))?);
        }
        let mut names = Self::list(dir).map_err(system(format!("reading {}", dir.display())))?;
        // A folder that cannot be read belongs to another user.
        let map_of = |name: &str| map_id(&folder_of(dir, name).join(SERVICES_MAP)).unwrap_or_default();
        names.retain(|name| map_of(name).is_some_and(|map| maps.contains(&map)));
        Ok(names)
    }

    /// Returns the id of the map that is pinned here under `name`, or `None` if there is none.
    ///
    /// # Errors
    /// The kernel's error of reading the pin.
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

    /// Returns true if nothing is pinned here yet.
    pub fn is_empty(&self) -> bool {
        fs::read_dir(&self.path).is_ok_and(|mut entries| entries.next().is_none())
    }

    /// Unpins everything and removes the folder. This detaches the link unless another process holds it open.
    ///
    /// # Errors
    /// The system's error.
    pub fn remove(mut self) -> Result<(), XdpError> {
        self.is_removed = true;
        let what = |path: &Path| system(format!("removing {}", path.display()));
        // The link goes first, so that no program runs on with maps that are no longer pinned.
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

    /// Removes the folder, which fails unless it is empty, and the common folder if no other interface has pins.
    fn remove_folder(&self) -> io::Result<()> {
        fs::remove_dir(&self.path)?;
        if let Some(dir) = self.path.parent() {
            // Fails while other interfaces have a folder in it.
            let _ = fs::remove_dir(dir);
        }
        Ok(())
    }
}

impl Drop for Pins {
    fn drop(&mut self) {
        if !self.is_removed {
            // Fails if the folder has pins.
            let _ = self.remove_folder();
        }
    }
}

/// Returns the id of the map that is pinned at `path`, or `None` if nothing is pinned there.
fn map_id(path: &Path) -> Result<Option<u32>, XdpError> {
    if !path.exists() {
        return Ok(None);
    }
    let what = || kernel(format!("opening {}", path.display()));
    let map = MapHandle::from_pinned_path(path).map_err(what())?;
    let about = MapInfo::new(map.as_fd()).map_err(what())?;
    Ok(Some(about.info.id))
}

fn folder_of(dir: &Path, interface: &str) -> PathBuf {
    dir.join(escaped(interface))
}

/// Returns the folder name of an interface. The BPF file system refuses dots, so `.` becomes `_d` and `_` becomes `__`.
/// Different interfaces get different folders, and [`unescaped`] recovers the interface.
fn escaped(interface: &str) -> String {
    interface.replace('_', "__").replace('.', "_d")
}

/// Returns the interface whose folder has this name, or `None` if no interface can have it.
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

/// Opens and locks a folder. Returns `None` if it was removed in the meantime.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let folder = File::open(path)?;
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(folder.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let same = match fs::metadata(path) {
        Ok(now) => now.ino() == folder.metadata()?.ino(),
        Err(_) => false,
    };
    Ok(same.then_some(folder))
}

/// Refuses a folder that another user created: the daemon has given up root's privilege to write there nevertheless.
fn require_writable(path: &Path) -> Result<(), XdpError> {
    let refused = || {
        let path = path.display();
        system(format!(
            "{path} is another user's: remove it, or give another pin_dir"
        ))
    };
    let c_path = CString::new(path.as_os_str().as_bytes()).map_err(|error| refused()(error.into()))?;
    let wanted = libc::W_OK | libc::X_OK;
    // SAFETY: the C string outlives the call.
    match unsafe { libc::faccessat(libc::AT_FDCWD, c_path.as_ptr(), wanted, libc::AT_EACCESS) } {
        0 => Ok(()),
        _ => Err(refused()(io::Error::last_os_error())),
    }
}

/// Refuses a `dir` that is not on a BPF file system. If `dir` does not exist, its nearest existing ancestor is checked.
fn require_bpffs(dir: &Path) -> Result<(), XdpError> {
    let existing = dir
        .ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"));
    let folder = File::open(existing).map_err(system(format!("opening {}", existing.display())))?;
    // SAFETY: statfs is plain data; all zeros is a valid one.
    let mut about: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and `about` is valid for writing.
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
    fn folders_are_named_so_that_interfaces_are_found_again() {
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
    fn other_folders_are_nobodys() {
        for folder in ["eth0_100", "eth0_", "eth0.100", "_x"] {
            assert_eq!(unescaped(folder), None, "{folder}");
        }
    }
}

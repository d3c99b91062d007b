//! Control group that limits the memory of a daemon. It supports versions 1 and 2 of the kernel's interface.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{fs, io};

/// Paths and file names of one version of the kernel's interface.
struct Files {
    /// Folder of the memory controller.
    root: &'static str,
    limit: &'static str,
    /// Name of the file with the limit of memory and swap together (version 1), or of swap alone (version 2).
    swap: &'static str,
    peak: &'static str,
    /// Name of the file that contains a line `oom_kill N`.
    events: &'static str,
}

const V1: Files = Files {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    swap: "memory.memsw.limit_in_bytes",
    peak: "memory.max_usage_in_bytes",
    events: "memory.oom_control",
};
const V2: Files = Files {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    swap: "memory.swap.max",
    peak: "memory.peak",
    events: "memory.events",
};

/// Number of the next group, so that the groups of one process have different names.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// Control group. Dropping this value removes it, after its processes have ended.
pub struct Cgroup {
    folder: PathBuf,
    files: &'static Files,
}

impl Cgroup {
    /// Creates a group whose processes may use `bytes` of memory together, and no swap.
    ///
    /// # Errors
    /// Fails if the process may not create a group, or if the kernel has no memory controller.
    pub fn new(bytes: u64) -> io::Result<Self> {
        let files = match Path::new(V1.root).join(V1.limit).exists() {
            true => &V1,
            false => &V2,
        };
        let number = NEXT.fetch_add(1, Relaxed);
        let name = format!("lineside-chaos-{}-{number}", std::process::id());
        let folder = Path::new(files.root).join(name);
        fs::create_dir(&folder)?;
        let group = Self { folder, files };
        fs::write(group.folder.join(files.limit), bytes.to_string())?;
        // If the kernel does not account swap, this file does not exist.
        let swap = if std::ptr::eq(files, &V1) { bytes } else { 0 };
        let _ = fs::write(group.folder.join(files.swap), swap.to_string());
        Ok(group)
    }

    /// Returns the file into which a process that joins the group writes its id.
    pub fn processes(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Returns the maximum of the memory that the group has used so far, in bytes; `None` if the kernel does not report
    /// it.
    pub fn peak_bytes(&self) -> Option<u64> {
        let text = fs::read_to_string(self.folder.join(self.files.peak)).ok()?;
        text.trim().parse().ok()
    }

    /// Returns the number of the group's processes that the kernel has killed because memory was exhausted.
    pub fn kills(&self) -> io::Result<u64> {
        let text = fs::read_to_string(self.folder.join(self.files.events))?;
        let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        Ok(line.and_then(|number| number.parse().ok()).unwrap_or(0))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.folder);
    }
}

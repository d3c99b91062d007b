//! A BPF file system for tests that pin.

use crate::skipped;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::ptr::null;
use std::{fs, io};

const BPFFS: &str = "/sys/fs/bpf";

/// A folder to be made below a BPF file system, where the calling thread and what it starts see one; `None`, which is
/// said, where there is none. On a machine without one, root gets one that only they see, in a mount namespace of their
/// own that ends with them.
pub fn below_bpffs(name: &str) -> Option<PathBuf> {
    let is_there = || {
        let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
        mounts
            .lines()
            .any(|line| line.split(' ').nth(1).zip(line.split(' ').nth(2)) == Some((BPFFS, "bpf")))
    };
    if !is_there() && !mount_at_bpffs(c"bpf") {
        return None;
    }
    Some(Path::new(BPFFS).join(format!("lineside-test-{}-{name}", std::process::id())))
}

/// Hides the BPF file system from the calling thread and from what it starts. Returns false, and says why, where that
/// is not allowed.
#[must_use]
pub fn hide_bpffs() -> bool {
    mount_at_bpffs(c"tmpfs")
}

/// Mounts a file system where only the calling thread and what it starts see it. Returns false, and says why, where
/// that is not allowed.
fn mount_at_bpffs(kind: &CStr) -> bool {
    // SAFETY: the strings end with 0; only this thread's view of the mounts changes.
    let mounted = unsafe {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(c"none".as_ptr(), c"/".as_ptr(), null(), private, null()) == 0
            && libc::mount(kind.as_ptr(), c"/sys/fs/bpf".as_ptr(), kind.as_ptr(), 0, null()) == 0
    };
    if !mounted {
        let error = io::Error::last_os_error();
        skipped(format_args!("nothing can be mounted at {BPFFS} ({error})"));
    }
    mounted
}

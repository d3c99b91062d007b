//! BPF file systems for tests that pin objects.

use crate::skipped;
use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::ptr::null;
use std::{fs, io};

const BPFFS: &str = "/sys/fs/bpf";

/// Returns a path for a new folder in a BPF file system that the calling thread and its child processes see. If there
/// is no such file system, prints a line and returns `None`. On a machine without a BPF file system, a process of root
/// gets a private one, in a mount namespace that ends with the thread.
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

/// Hides the BPF file system from the calling thread and its child processes. If that is not permitted, prints the
/// reason and returns false.
#[must_use]
pub fn hide_bpffs() -> bool {
    mount_at_bpffs(c"tmpfs")
}

/// Mounts a file system that only the calling thread and its child processes see. If that is not permitted, prints the
/// reason and returns false.
fn mount_at_bpffs(kind: &CStr) -> bool {
    // SAFETY: the strings end with a zero byte and outlive the calls, which change only this thread's mount namespace.
    let mounted = unsafe {
        let private = libc::MS_REC | libc::MS_PRIVATE;
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(c"none".as_ptr(), c"/".as_ptr(), null(), private, null()) == 0
            && libc::mount(kind.as_ptr(), c"/sys/fs/bpf".as_ptr(), kind.as_ptr(), 0, null()) == 0
    };
    if !mounted {
        let error = io::Error::last_os_error();
        skipped(format_args!("cannot mount at {BPFFS} ({error})"));
    }
    mounted
}

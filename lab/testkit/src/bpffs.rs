//! A BPF file system for tests that pin.

use crate::skipped;
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
    if !is_there() {
        // SAFETY: the strings end with 0; only this thread's view of the mounts changes.
        let mounted = unsafe {
            libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(
                    c"none".as_ptr(),
                    c"/".as_ptr(),
                    null(),
                    libc::MS_REC | libc::MS_PRIVATE,
                    null(),
                ) == 0
                && libc::mount(
                    c"bpf".as_ptr(),
                    c"/sys/fs/bpf".as_ptr(),
                    c"bpf".as_ptr(),
                    0,
                    null(),
                ) == 0
        };
        if !mounted {
            let error = io::Error::last_os_error();
            skipped(format_args!("no BPF file system at {BPFFS} ({error})"));
            return None;
        }
    }
    Some(Path::new(BPFFS).join(format!("lineside-test-{}-{name}", std::process::id())))
}

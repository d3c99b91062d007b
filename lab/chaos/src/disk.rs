//! Small disk in memory (tmpfs). Only the thread that mounts it and its child processes see it.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null;

/// Number of bytes in one write while the disk is being filled.
const CHUNK_BYTES: usize = 1 << 16;

/// Mounts a disk of `bytes` bytes at `folder` in a mount namespace of the calling thread.
///
/// # Errors
/// Error of the operating system, for example if mounting is not permitted.
pub fn mount(folder: &Path, bytes: u64) -> io::Result<()> {
    let folder = CString::new(folder.as_os_str().as_bytes())?;
    let options = CString::new(format!("size={bytes}"))?;
    // SAFETY: all strings end with a zero byte and outlive the calls; the calls change only this thread's mount
    // namespace.
    let is_mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                c"none".as_ptr(),
                c"/".as_ptr(),
                null(),
                libc::MS_REC | libc::MS_PRIVATE,
                null(),
            ) == 0
            && libc::mount(
                c"tmpfs".as_ptr(),
                folder.as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                options.as_ptr().cast(),
            ) == 0
    };
    if is_mounted {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Writes the new file `path` until the disk is full.
///
/// # Errors
/// Fails with any error other than that of a full disk.
pub fn fill(path: &Path) -> io::Result<()> {
    let mut file = File::create(path)?;
    for size in [CHUNK_BYTES, 1] {
        let chunk = vec![0; size];
        loop {
            match file.write_all(&chunk) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::StorageFull => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

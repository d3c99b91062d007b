//! Functions for the CPU that a thread runs on, which an XDP program can observe.

use std::io;

/// Returns the CPUs that the calling thread may run on.
///
/// # Errors
/// Error of the operating system.
pub fn allowed() -> io::Result<Vec<usize>> {
    // SAFETY: zeros in all bytes are an empty set, and the kernel writes at most the size that it is given.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) != 0 {
            return Err(io::Error::last_os_error());
        }
        set
    };
    // SAFETY: the CPU numbers are below the number of bits of the set.
    Ok((0..libc::CPU_SETSIZE as usize)
        .filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) })
        .collect())
}

/// Restricts the calling thread to `cpu`.
///
/// # Errors
/// Error of the operating system.
pub fn pin(cpu: usize) -> io::Result<()> {
    // SAFETY: zeros in all bytes are an empty set, and CPU_SET checks the bounds of the set.
    let pinned = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    match pinned {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

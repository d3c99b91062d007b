//! Limits that a server sets on itself before it reads the first packet: `no_new_privs`, the files that it may use
//! (Landlock), and the system calls that it may make (seccomp). [`crate::privileges`] drops the capabilities.
//!
//! Each limit applies to the calling thread and the threads that it starts, so the daemon sets the limits before it
//! starts another thread.

mod calls;
mod files;

pub use files::{Places, landlock_fault};

use crate::process::SandboxName;
use calls::Group;
use lineside_service::CallGroup;
use seccompiler::{SeccompAction, apply_filter};

/// Rights that a server keeps.
pub struct KeptRights {
    /// Files that the server may use.
    pub places: Places,
    /// Groups of system calls that its services need in addition to those of every server.
    pub calls: Vec<CallGroup>,
    /// True if the server has XDP programs loaded.
    pub has_programs: bool,
}

/// Restricts the calling thread, and the threads that it starts, to `rights`. Returns a warning for each limit that
/// this kernel does not have.
///
/// # Errors
/// A limit cannot be set although the kernel has it.
pub fn enter(sandbox: SandboxName, rights: &KeptRights) -> anyhow::Result<Vec<String>> {
    let action = match sandbox {
        SandboxName::Off => {
            let warning =
                "[process] sandbox = \"off\": the server may use every file and system call of its user";
            return Ok(vec![warning.into()]);
        }
        SandboxName::On => SeccompAction::Errno(libc::EPERM as u32),
        SandboxName::Strict => SeccompAction::KillProcess,
    };
    let mut lacking = Vec::new();
    lacking.extend(files::restrict(&rights.places)?);
    lacking.extend(restrict_calls(action, rights)?);
    Ok(lacking)
}

/// Sets `no_new_privs`, then installs the filters for system calls.
fn restrict_calls(action: SeccompAction, rights: &KeptRights) -> anyhow::Result<Option<String>> {
    if !has_seccomp() {
        let warning = "seccomp filters cannot be used: this kernel has none, or a filter of the container forbids the \
                       call prctl; the server may make every system call";
        return Ok(Some(warning.into()));
    }
    let mut groups = vec![Group::Base, Group::Net];
    groups.extend(rights.calls.iter().map(|calls| Group::of(*calls)));
    groups.extend(rights.has_programs.then_some(Group::Xdp));
    // With several filters, the kernel applies the strictest result. The second filter forbids installing a third.
    apply_filter(&calls::without_clone3()?)?;
    apply_filter(&calls::allowing(&groups, action)?)?;
    Ok(None)
}

/// Returns true if the kernel has seccomp filters: the call with a null filter then fails with EFAULT.
fn has_seccomp() -> bool {
    // SAFETY: the filter is null, so the kernel reads and writes no memory; a kernel with filters returns EFAULT.
    let result = unsafe {
        libc::prctl(
            libc::PR_SET_SECCOMP,
            libc::SECCOMP_MODE_FILTER,
            std::ptr::null::<u8>(),
        )
    };
    result == -1 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EFAULT)
}

#[cfg(test)]
mod tests;

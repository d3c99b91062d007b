//! Limits that a serving process puts on itself before it reads the first packet: `no_new_privs`, the files that it may
//! use (Landlock), and the system calls that it may make (seccomp). Capabilities are given up in [`crate::privileges`].
//!
//! Every limit holds for the calling thread and for those that it starts, so the daemon sets them before it starts any.

mod calls;
mod files;

pub use files::Places;

use crate::process::SandboxName;
use calls::Group;
use lineside_service::CallGroup;
use seccompiler::{SeccompAction, apply_filter};

/// Rights that a process keeps.
pub struct Kept {
    /// Files that it may use.
    pub places: Places,
    /// Groups of system calls that its services make beyond those of every server.
    pub calls: Vec<CallGroup>,
    /// True if it keeps XDP programs attached.
    pub has_programs: bool,
}

/// Restricts the calling thread, and those that it starts, to `kept`. Returns what the kernel lacks for it.
///
/// # Errors
/// The reason why a limit cannot be set although the kernel has it.
pub fn enter(sandbox: SandboxName, kept: &Kept) -> anyhow::Result<Vec<String>> {
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
    lacking.extend(files::restrict(&kept.places)?);
    lacking.extend(restrict_calls(action, kept)?);
    Ok(lacking)
}

/// Installs the filters of system calls, and `no_new_privs` before them.
fn restrict_calls(action: SeccompAction, kept: &Kept) -> anyhow::Result<Option<String>> {
    if !has_seccomp() {
        let warning = "this kernel has no seccomp filters: every system call is allowed to the server";
        return Ok(Some(warning.into()));
    }
    let mut groups = vec![Group::Base, Group::Net];
    groups.extend(kept.calls.iter().map(|calls| Group::of(*calls)));
    groups.extend(kept.has_programs.then_some(Group::Xdp));
    // Where filters differ, the kernel takes the stricter answer. The second forbids to install another.
    apply_filter(&calls::without_clone3()?)?;
    apply_filter(&calls::allowing(&groups, action)?)?;
    Ok(None)
}

/// Returns whether the kernel has seccomp filters: it refuses the address of a filter, not the question.
fn has_seccomp() -> bool {
    // SAFETY: a null filter is refused (EFAULT) by a kernel that has filters; nothing is read or written.
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

//! Files that a server may use, enforced by Landlock.

use anyhow::Context;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::path::PathBuf;

/// Newest Landlock version whose rights are used; an older kernel enforces those that it has.
const NEWEST: ABI = ABI::V6;

/// Files and directories that every server may read: configuration and libraries of the name resolver, and the kernel's
/// data about processes, interfaces and processors. Missing paths are skipped.
const READ: &[&str] = &[
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/protocols",
    "/etc/resolv.conf",
    "/etc/services",
    "/lib",
    "/lib64",
    "/proc",
    "/run/NetworkManager",
    "/run/nscd",
    "/run/resolvconf",
    "/run/systemd/resolve",
    "/sys",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share/zoneinfo",
];

/// Devices that every server may read and write.
const DEVICES: &[&str] = &["/dev/null", "/dev/random", "/dev/urandom"];

/// Paths that a server may use in addition to those of every server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Directories that the server may write, with everything below them.
    pub writes: Vec<PathBuf>,
    /// Files and directories that the server may read.
    pub reads: Vec<PathBuf>,
    /// Directories in which the server may remove a directory: the empty one that it made, if the start fails.
    pub removes_below: Vec<PathBuf>,
}

/// Restricts the calling thread to `places` and the paths of every server. Returns a warning if the kernel has no
/// Landlock.
///
/// # Errors
/// The kernel refuses the rules, or a path in `places` cannot be opened.
pub(super) fn restrict(places: &Places) -> anyhow::Result<Option<String>> {
    let all = AccessFs::from_all(NEWEST);
    // A server cannot execute a file that it can write, and cannot create devices.
    let changed = all & !(AccessFs::Execute | AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .scope(Scope::Signal)?
        .create()?;
    for path in READ {
        rules = allow_known(rules, path, read | AccessFs::Execute)?;
    }
    for path in DEVICES {
        rules = allow_known(rules, path, AccessFs::ReadFile | AccessFs::WriteFile)?;
    }
    for path in &places.writes {
        rules = allow(rules, path, changed)?;
    }
    for path in &places.reads {
        rules = allow(rules, path, read)?;
    }
    for path in &places.removes_below {
        rules = allow(rules, path, AccessFs::RemoveDir)?;
    }
    let enforced = rules.restrict_self()?;
    Ok(match enforced.ruleset {
        RulesetStatus::NotEnforced => {
            let reason = landlock_fault().unwrap_or_else(|| "the kernel did not enforce the rules".into());
            Some(format!(
                "Landlock cannot be used: {reason}; the server may use every file of its user"
            ))
        }
        _ => None,
    })
}

/// Returns the reason why this process cannot use Landlock; `None` if it can.
pub fn landlock_fault() -> Option<String> {
    /// Flag of `landlock_create_ruleset` that asks for the version (linux/landlock.h).
    const VERSION: libc::c_uint = 1;
    // SAFETY: with this flag and no attributes, the call returns the version and accesses no memory.
    let result = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    };
    let error = std::io::Error::last_os_error();
    (result < 1).then(|| fault_of(&error))
}

/// Returns the reasons for an error of `landlock_create_ruleset`. A container's seccomp filter makes a call fail with
/// EPERM, or with ENOSYS as if the kernel did not have it.
fn fault_of(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => "it is not enabled in this kernel (`lsm=` of the kernel's command line)".into(),
        Some(libc::ENOSYS) => {
            "this kernel has no Landlock, or a seccomp filter of the container hides it (ENOSYS)".into()
        }
        Some(libc::EPERM) => {
            "a seccomp filter of the container or unit forbids the system call landlock_create_ruleset (EPERM)".into()
        }
        _ => format!("landlock_create_ruleset: {error}"),
    }
}

/// Allows access to a path of the system if it exists.
fn allow_known(
    rules: RulesetCreated,
    path: &str,
    access: impl Into<BitFlags<AccessFs>>,
) -> anyhow::Result<RulesetCreated> {
    match PathFd::new(path) {
        Err(_) => Ok(rules),
        Ok(opened) => add(rules, opened, path, access.into()),
    }
}

fn allow(
    rules: RulesetCreated,
    path: &PathBuf,
    access: impl Into<BitFlags<AccessFs>>,
) -> anyhow::Result<RulesetCreated> {
    let shown = path.display().to_string();
    let opened = PathFd::new(path).with_context(|| format!("cannot allow the server to use {shown}"))?;
    add(rules, opened, &shown, access.into())
}

fn add(
    rules: RulesetCreated,
    opened: PathFd,
    display_path: &str,
    access: BitFlags<AccessFs>,
) -> anyhow::Result<RulesetCreated> {
    rules
        .add_rule(PathBeneath::new(opened, access))
        .with_context(|| format!("cannot allow the server to use {display_path}"))
}

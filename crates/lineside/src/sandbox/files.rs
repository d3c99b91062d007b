//! Files that a serving process may use, by Landlock.

use anyhow::Context;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use std::path::PathBuf;

/// Newest version of Landlock that is used; older kernels enforce the part that they know.
const NEWEST: ABI = ABI::V6;

/// Files and directories that a server only reads: the resolver's configuration and libraries, and what the kernel says
/// of processes, interfaces and processors. Those that are missing are left out.
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

/// Devices that a server reads and writes.
const DEVICES: &[&str] = &["/dev/null", "/dev/random", "/dev/urandom"];

/// Places that a server changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// Directories that it changes, with all that is below them.
    pub writes: Vec<PathBuf>,
    /// Files and directories that it reads.
    pub reads: Vec<PathBuf>,
    /// Directories in which it removes an empty directory that it made, should the start fail.
    pub removes_below: Vec<PathBuf>,
}

/// Restricts the calling thread to `places` and to what every server reads. Returns what the kernel lacks.
///
/// # Errors
/// The reason why the kernel refuses, or why a place cannot be opened.
pub(super) fn restrict(places: &Places) -> anyhow::Result<Option<String>> {
    let all = AccessFs::from_all(NEWEST);
    // No file that a server can write may be run, and none is a device or a socket that another program connects to.
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
            Some("this kernel has no Landlock: the server may use every file of its user".into())
        }
        _ => None,
    })
}

/// Returns whether the kernel has no Landlock.
#[cfg(test)]
pub(super) fn restrict_is_missing() -> bool {
    let has = |rules: Result<RulesetCreated, landlock::RulesetError>| rules.is_ok();
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let handled = ruleset.handle_access(AccessFs::from_all(ABI::V1));
    !handled.is_ok_and(|ruleset| has(ruleset.create()))
}

/// Allows access to a file of the system, if it is there.
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
    let opened = PathFd::new(path).with_context(|| format!("restricting the server to {shown}"))?;
    add(rules, opened, &shown, access.into())
}

fn add(
    rules: RulesetCreated,
    opened: PathFd,
    shown: &str,
    access: BitFlags<AccessFs>,
) -> anyhow::Result<RulesetCreated> {
    rules
        .add_rule(PathBeneath::new(opened, access))
        .with_context(|| format!("restricting the server to {shown}"))
}

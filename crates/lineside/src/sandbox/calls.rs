//! System calls that a server may make, in groups, and the seccomp filter built from the groups.

use anyhow::anyhow;
use lineside_service::CallGroup;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};
use std::collections::BTreeMap;

/// Group of system calls with one purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Memory, threads, time, reading files: needed by every server.
    Base,
    /// Sockets and polling: needed by every server.
    Net,
    /// Writing files and syncing them: needed by a service with a data directory.
    Files,
    /// Creating directories: needed by a service with a database in its data directory.
    Directories,
    /// BPF maps and programs: needed by a server on the datapath `xdp`.
    Xdp,
}

/// Makes a list of system calls, each with its name and number.
macro_rules! calls {
    ($($name:ident)*) => {
        &[$((stringify!($name), $name)),*]
    };
}

/// Name and number of a system call.
type Call = (&'static str, i64);

/// System calls that every architecture has.
mod common {
    use super::Call;
    use libc::*;

    #[rustfmt::skip]
    pub const BASE: &[Call] = calls![
        SYS_brk SYS_clock_getres SYS_clock_gettime SYS_clock_nanosleep SYS_clone SYS_clone3 SYS_close SYS_dup SYS_dup3
        SYS_eventfd2 SYS_exit SYS_exit_group SYS_faccessat SYS_faccessat2 SYS_fcntl SYS_fstat SYS_futex SYS_getcwd
        SYS_getdents64 SYS_getegid SYS_geteuid SYS_getgid SYS_getpid SYS_getrandom SYS_getrusage SYS_gettid
        SYS_gettimeofday SYS_getuid SYS_ioctl SYS_lseek SYS_madvise SYS_membarrier SYS_mlock SYS_mmap SYS_mprotect
        SYS_mremap SYS_munlock SYS_munmap SYS_nanosleep SYS_newfstatat SYS_openat SYS_pipe2 SYS_prctl SYS_pread64
        SYS_prlimit64 SYS_read SYS_readlinkat SYS_readv SYS_restart_syscall SYS_rseq SYS_rt_sigaction
        SYS_rt_sigprocmask SYS_rt_sigreturn SYS_sched_getaffinity SYS_sched_setaffinity SYS_sched_yield
        SYS_set_robust_list SYS_sigaltstack SYS_statx SYS_sysinfo SYS_tgkill SYS_uname SYS_write SYS_writev
    ];
    #[rustfmt::skip]
    pub const NET: &[Call] = calls![
        SYS_accept SYS_accept4 SYS_bind SYS_connect SYS_epoll_create1 SYS_epoll_ctl SYS_epoll_pwait SYS_epoll_pwait2
        SYS_getpeername SYS_getsockname SYS_getsockopt SYS_listen SYS_ppoll SYS_recvfrom SYS_recvmmsg SYS_recvmsg
        SYS_sendmmsg SYS_sendmsg SYS_sendto SYS_setsockopt SYS_shutdown SYS_socket SYS_socketpair
    ];
    #[rustfmt::skip]
    pub const FILES: &[Call] = calls![
        SYS_fallocate SYS_fchmod SYS_fdatasync SYS_flock SYS_fstatfs SYS_fsync SYS_ftruncate SYS_pwrite64 SYS_renameat
        SYS_renameat2 SYS_unlinkat
    ];
    pub const DIRECTORIES: &[Call] = calls![SYS_mkdirat];
    #[rustfmt::skip]
    pub const XDP: &[Call] = calls![
        SYS_bpf SYS_flock SYS_fstatfs SYS_mkdirat SYS_unlinkat
    ];
}

/// Older system calls that only x86-64 has.
#[cfg(target_arch = "x86_64")]
mod older {
    use super::Call;
    use libc::*;

    #[rustfmt::skip]
    pub const BASE: &[Call] = calls![
        SYS_access SYS_arch_prctl SYS_dup2 SYS_lstat SYS_open SYS_pipe SYS_readlink SYS_stat SYS_time
    ];
    pub const NET: &[Call] = calls![SYS_epoll_wait SYS_poll SYS_select];
    pub const FILES: &[Call] = calls![SYS_rename SYS_rmdir SYS_unlink];
    pub const DIRECTORIES: &[Call] = calls![SYS_mkdir];
    pub const XDP: &[Call] = calls![SYS_mkdir SYS_rmdir SYS_unlink];
}

#[cfg(not(target_arch = "x86_64"))]
mod older {
    use super::Call;

    pub const BASE: &[Call] = &[];
    pub const NET: &[Call] = &[];
    pub const FILES: &[Call] = &[];
    pub const DIRECTORIES: &[Call] = &[];
    pub const XDP: &[Call] = &[];
}

impl Group {
    #[cfg(test)]
    const ALL: [Self; 5] = [Self::Base, Self::Net, Self::Files, Self::Directories, Self::Xdp];

    /// Converts a group that a service lists in its definition.
    pub(super) const fn of(group: CallGroup) -> Self {
        match group {
            CallGroup::Files => Self::Files,
            CallGroup::Directories => Self::Directories,
        }
    }

    /// Returns the lists of the group: the calls of every architecture, then the older ones of this architecture.
    const fn lists(self) -> [&'static [Call]; 2] {
        match self {
            Self::Base => [common::BASE, older::BASE],
            Self::Net => [common::NET, older::NET],
            Self::Files => [common::FILES, older::FILES],
            Self::Directories => [common::DIRECTORIES, older::DIRECTORIES],
            Self::Xdp => [common::XDP, older::XDP],
        }
    }

    #[cfg(test)]
    const fn who(self) -> &'static str {
        match self {
            Self::Base => "every server: memory, threads, time, reading of files",
            Self::Net => "every server: sockets, and waiting for them",
            Self::Files => {
                "`spv`, `transfer`, `fabric`, `hybrid`, and `column` with its own table: data directories"
            }
            Self::Directories => "`spv`, `fabric`, and `column` with its own table: their database",
            Self::Xdp => "servers on the datapath `xdp`",
        }
    }
}

/// Returns the table of allowed system calls in docs/operations.md, with a row for each group.
#[cfg(test)]
pub(super) fn table() -> String {
    let mut out = String::from("| allowed for | system calls |\n|---|---|\n");
    for group in Group::ALL {
        let names = |list: &[Call]| {
            let names = list.iter().map(|(name, _)| format!("`{}`", &name[4..]));
            names.collect::<Vec<_>>().join(" ")
        };
        let [common, older] = group.lists();
        out += &format!(
            "| {} | {}; on x86-64 {} |\n",
            group.who(),
            names(common),
            names(older)
        );
    }
    out
}

/// Returns the filter that allows the calls of `groups` and applies `otherwise` to all other calls.
pub(super) fn allowing(groups: &[Group], otherwise: SeccompAction) -> anyhow::Result<BpfProgram> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    for (_, number) in groups.iter().flat_map(|group| group.lists()).flatten() {
        rules.insert(*number, conditions(*number)?);
    }
    let filter = SeccompFilter::new(rules, otherwise, SeccompAction::Allow, arch()?)?;
    Ok(filter.try_into()?)
}

/// Returns the filter that fails `clone3` with ENOSYS, as an old kernel does. A filter cannot read the flags of
/// `clone3`, which are in memory; the C library then calls `clone`, whose flags [`allowing`] checks.
pub(super) fn without_clone3() -> anyhow::Result<BpfProgram> {
    let rules = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let missing = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, missing, arch()?)?;
    Ok(filter.try_into()?)
}

fn arch() -> anyhow::Result<TargetArch> {
    std::env::consts::ARCH
        .try_into()
        .map_err(|_| anyhow!("seccomp filters are not supported on {}", std::env::consts::ARCH))
}

/// Returns the conditions on an argument under which a call is allowed: any one of them suffices. An empty list allows
/// every argument.
fn conditions(number: i64) -> anyhow::Result<Vec<SeccompRule>> {
    const WRITABLE: u64 = libc::PROT_WRITE as u64;
    const EXECUTABLE: u64 = libc::PROT_EXEC as u64;
    let has = |mask: u64, value: u64| (SeccompCmpOp::MaskedEq(mask), value);
    let is = |value: u64| (SeccompCmpOp::Eq, value);
    let (argument, alternatives) = match number {
        // `clone` may only create threads, and neither a new process nor a namespace.
        libc::SYS_clone => {
            let namespaces = libc::CLONE_NEWCGROUP
                | libc::CLONE_NEWIPC
                | libc::CLONE_NEWNET
                | libc::CLONE_NEWNS
                | libc::CLONE_NEWPID
                | libc::CLONE_NEWUSER
                | libc::CLONE_NEWUTS;
            let thread = libc::CLONE_THREAD as u64;
            (0, vec![has(namespaces as u64 | thread, thread)])
        }
        // Memory may not be both writable and executable, and may not become executable later.
        libc::SYS_mmap => {
            let mask = WRITABLE | EXECUTABLE;
            (2, vec![has(mask, 0), has(mask, WRITABLE), has(mask, EXECUTABLE)])
        }
        libc::SYS_mprotect => (2, vec![has(EXECUTABLE, 0)]),
        libc::SYS_socket | libc::SYS_socketpair => {
            let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
            (0, families.map(|family| is(family as u64)).into())
        }
        libc::SYS_prctl => (
            0,
            [libc::PR_SET_NAME, PR_SET_VMA].map(|what| is(what as u64)).into(),
        ),
        // Requests about terminals, pending bytes and interfaces, made by the C library, Rust and the XDP datapath.
        libc::SYS_ioctl => {
            let requests = [
                libc::TCGETS,
                libc::TIOCGWINSZ,
                libc::TIOCOUTQ,
                libc::FIONBIO,
                libc::FIONREAD,
                libc::FIOCLEX,
                libc::SIOCGIFFLAGS,
                libc::SIOCGIFINDEX,
                libc::SIOCGIFNAME,
                SIOCETHTOOL,
            ];
            (1, requests.map(is).into())
        }
        // Signals to this process only.
        libc::SYS_tgkill => (0, vec![is(u64::from(std::process::id()))]),
        // Limits of this process only.
        libc::SYS_prlimit64 => (0, vec![is(0), is(u64::from(std::process::id()))]),
        _ => return Ok(Vec::new()),
    };
    let rule = |(operator, value)| {
        let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)?;
        SeccompRule::new(vec![condition])
    };
    let rules: Result<_, seccompiler::BackendError> = alternatives.into_iter().map(rule).collect();
    Ok(rules?)
}

/// Option of `prctl` by which the C library names memory areas for debugging tools.
const PR_SET_VMA: i32 = 0x5356_4d41;
/// Request of `ioctl` to the driver of a network interface (ethtool).
const SIOCETHTOOL: u64 = 0x8946;

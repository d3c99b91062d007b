//! Checks of the kernel, the processor, memory and limits.

use super::Finding;
use crate::config::CheckedConfig;
use crate::sandbox;
use lineside_service::ByteSize;
use lineside_verify::Backend;
use rustix::process::{Resource, getrlimit};
use std::fs;

/// Oldest kernel on which the XDP programs are tested: major and minor version.
const KERNEL_MIN: (u32, u32) = (6, 1);
/// Number of open files that a server needs at least: connections, segments of journals and tables.
const OPEN_FILES_MIN: u64 = 4096;
/// Memory that a server takes besides the `memory_max` of its services: program, stacks and buffers.
const MEMORY_BASE: u64 = 64 << 20;

pub(super) fn check(config: &CheckedConfig) -> Vec<Finding> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let nohz = fs::read_to_string("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
    let mut findings = vec![
        kernel(&release),
        processor(
            Backend::Avx512Ifma.is_available(),
            is_x86_feature_detected!("sha"),
        ),
        sandbox_of_kernel(sandbox::landlock_fault()),
        open_files(getrlimit(Resource::Nofile).maximum),
        memory(config),
    ];
    findings.extend(ticks(&nohz));
    findings
}

/// Checks the version in the kernel's release, such as `6.1.0-18-amd64`.
fn kernel(release: &str) -> Finding {
    let mut numbers = release
        .split(|letter: char| !letter.is_ascii_digit())
        .map_while(|number| number.parse().ok());
    let version: Option<(u32, u32)> = numbers.next().zip(numbers.next());
    let (major, minor) = KERNEL_MIN;
    match version {
        Some(version) if version >= KERNEL_MIN => Finding::ok("kernel", format!("Linux {release}")),
        Some(_) => Finding::warning(
            "kernel",
            format!(
                "Linux {release} is older than {major}.{minor}, the oldest version that is tested with XDP"
            ),
            "upgrade the kernel, or set kind = \"socket\" in [datapath]",
        ),
        None => Finding::warning(
            "kernel",
            format!("the kernel's release {release:?} has no version number"),
            format!("check that it is Linux {major}.{minor} or later"),
        ),
    }
}

/// Checks the instructions that make signatures and hashes fast.
fn processor(has_ifma: bool, has_sha: bool) -> Finding {
    let mut missing = Vec::new();
    if !has_ifma {
        missing.push("AVX-512 IFMA (signatures are verified one at a time)");
    }
    if !has_sha {
        missing.push("SHA extensions (SHA-256 takes several times longer)");
    }
    if missing.is_empty() {
        return Finding::ok("processor", "has AVX-512 IFMA and SHA extensions");
    }
    Finding::warning(
        "processor",
        format!("lacks {}", missing.join(" and ")),
        "all services work; use a processor of AMD Zen 4 or Intel Ice Lake, or later, where speed matters",
    )
}

fn sandbox_of_kernel(fault: Option<String>) -> Finding {
    match fault {
        None => Finding::ok("sandbox", "this process can use Landlock"),
        Some(fault) => Finding::warning(
            "sandbox",
            format!("Landlock cannot be used, so a server may use every file of its user: {fault}"),
            "use a kernel with CONFIG_SECURITY_LANDLOCK and `landlock` in its `lsm=` parameter, and a container whose \
             filter permits the calls landlock_*",
        ),
    }
}

/// Checks the hard limit on open files; `None` means that there is no limit. Servers raise their soft limit to it.
fn open_files(maximum: Option<u64>) -> Finding {
    match maximum {
        None => Finding::ok("open files", "no limit"),
        Some(limit) if limit >= OPEN_FILES_MIN => Finding::ok("open files", format!("limit of {limit}")),
        Some(limit) => Finding::warning(
            "open files",
            format!(
                "the limit is {limit}; connections may be refused, and a ledger that cannot create a file stops"
            ),
            format!("raise it to {OPEN_FILES_MIN} or more: `ulimit -Hn`, or LimitNOFILE of systemd"),
        ),
    }
}

/// Compares the available memory with the `memory_max` of the enabled services. The fast path's tables come on top and
/// are checked when the programs are loaded.
fn memory(config: &CheckedConfig) -> Finding {
    let limits = config.enabled().filter_map(|service| {
        let section = service.section();
        let text = section.get("memory_max")?.as_str()?.to_owned();
        text.parse::<ByteSize>().ok()
    });
    let needed = MEMORY_BASE + limits.map(|limit| limit.0).sum::<u64>();
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    match available(&info) {
        Some(available) => enough_memory(available, needed),
        None => Finding::warning(
            "memory",
            "/proc/meminfo does not show the available memory",
            "mount /proc",
        ),
    }
}

/// Returns the bytes in the line `MemAvailable` of `/proc/meminfo`.
fn available(info: &str) -> Option<u64> {
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn enough_memory(available: u64, needed: u64) -> Finding {
    let state = format!(
        "{} MiB available; the enabled services may use {} MiB, without the tables of the fast path",
        available >> 20,
        needed >> 20
    );
    match available >= needed {
        true => Finding::ok("memory", state),
        false => Finding::warning(
            "memory",
            state,
            "lower `memory_max` in the services' sections, or add memory",
        ),
    }
}

/// Checks `/sys/devices/system/cpu/nohz_full`, the list of processors without a periodic tick.
fn ticks(nohz_full: &str) -> Option<Finding> {
    let list = nohz_full.trim();
    let is_used = list.starts_with(|letter: char| letter.is_ascii_digit());
    is_used.then(|| {
        Finding::warning(
            "ticks",
            format!(
                "the processors {list} run without ticks (nohz_full); a change of the chain does not wait for XDP \
                 programs on them"
            ),
            "do not let these processors receive packets for `spv`",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Level;

    #[test]
    fn kernels_before_6_1_are_warned_of() {
        for (release, level) in [
            ("6.1.0-18-amd64", Level::Ok),
            ("6.18.5", Level::Ok),
            ("10.0-rc1", Level::Ok),
            ("6.0.19", Level::Warning),
            ("5.15.0-91-generic", Level::Warning),
            ("custom", Level::Warning),
        ] {
            assert_eq!(kernel(release).level, level, "{release}");
        }
    }

    #[test]
    fn a_processor_without_an_instruction_set_names_it() {
        assert_eq!(processor(true, true).level, Level::Ok);
        let without = processor(false, true);
        assert_eq!(without.level, Level::Warning);
        assert!(without.what.contains("IFMA") && !without.what.contains("SHA"));
        assert!(processor(true, false).what.contains("SHA"));
    }

    #[test]
    fn available_memory_is_read_in_kibibytes() {
        let info = "MemTotal:       24737380 kB\nMemAvailable:     2048 kB\n";
        assert_eq!(available(info), Some(2 << 20));
        assert_eq!(available("MemTotal: 5 kB\n"), None);
        assert_eq!(enough_memory(1 << 30, 1 << 29).level, Level::Ok);
        assert_eq!(enough_memory(1 << 29, 1 << 30).level, Level::Warning);
    }

    #[test]
    fn few_open_files_are_a_warning() {
        assert_eq!(open_files(None).level, Level::Ok);
        assert_eq!(open_files(Some(OPEN_FILES_MIN)).level, Level::Ok);
        assert_eq!(open_files(Some(1024)).level, Level::Warning);
    }

    #[test]
    fn processors_without_ticks_are_named() {
        assert_eq!(ticks("\n"), None);
        assert_eq!(ticks("  (null)\n"), None);
        assert!(ticks("2-3\n").expect("a warning").what.contains("2-3"));
    }
}

//! Resources that this process uses, read from `/proc/self`.

use std::fs;

/// Number of ticks of the kernel's clock in a second, as `/proc` counts them (USER_HZ) on every supported architecture.
const TICKS_PER_S: u64 = 100;

/// Resources that this process uses. A value that the system does not report is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// CPU time in user space and in the kernel, in milliseconds.
    pub cpu_ms: Option<u64>,
    /// Memory that is resident in RAM, in bytes.
    pub resident_memory_bytes: Option<u64>,
    /// Size of the address space in bytes.
    pub virtual_memory_bytes: Option<u64>,
    /// Number of open file descriptors.
    pub open_fds: Option<u64>,
    /// Maximum number of open file descriptors (soft limit); `u64::MAX` if there is no limit.
    pub max_fds: Option<u64>,
    /// Time at which the process started, in milliseconds since 1970.
    pub start_time_ms: Option<u64>,
}

impl ProcessUse {
    /// Reads the current values.
    pub fn read() -> Self {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        // While the directory is read, its own descriptor is open and is counted, so one is subtracted.
        let open_fds = fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count() as u64);
        Self {
            open_fds: open_fds.map(|fds| fds.saturating_sub(1)),
            ..Self::parse(
                &text("/proc/self/stat"),
                &text("/proc/self/status"),
                &text("/proc/self/limits"),
                &text("/proc/stat"),
            )
        }
    }

    fn parse(stat: &str, status: &str, limits: &str, system: &str) -> Self {
        // The program's name, in parentheses, may have spaces and parentheses in it.
        let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
        let fields: Vec<&str> = fields.split_whitespace().collect();
        // Field 3 of proc_pid_stat(5), the state, is the first field after the name.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let cpu = || Some(field(14)? + field(15)?);
        let boot_s = value(system, "btime ").and_then(|text| text.parse::<u64>().ok());
        let started = || Some(boot_s? * 1000 + field(22)? * 1000 / TICKS_PER_S);
        Self {
            cpu_ms: cpu().map(|ticks| ticks * 1000 / TICKS_PER_S),
            resident_memory_bytes: kib(status, "VmRSS:"),
            virtual_memory_bytes: kib(status, "VmSize:"),
            open_fds: None,
            max_fds: value(limits, "Max open files").and_then(|text| match text {
                "unlimited" => Some(u64::MAX),
                number => number.parse().ok(),
            }),
            start_time_ms: started(),
        }
    }
}

/// Returns the first word after `name` in the line that begins with `name`.
fn value<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()
}

/// Returns the bytes of a line such as `VmRSS:    1234 kB`.
fn kib(status: &str, name: &str) -> Option<u64> {
    value(status, name)?.parse::<u64>().ok().map(|kib| kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_proc_are_read() {
        let stat = "4242 (a ) b) S 1 4242 4242 0 -1 4194560 1 0 0 0 250 75 0 0 20 0 9 0 12345 1000 20 184467";
        let status = "Name:\ta\nVmPeak:\t 2000 kB\nVmSize:\t 1500 kB\nVmRSS:\t 300 kB\n";
        let limits = "Limit  Soft Limit Hard Limit Units\nMax open files            1024    524288   files\n";
        let read = ProcessUse::parse(stat, status, limits, "cpu 1 2\nbtime 1700000000\n");
        let expected = ProcessUse {
            cpu_ms: Some(3_250),
            resident_memory_bytes: Some(300 << 10),
            virtual_memory_bytes: Some(1500 << 10),
            open_fds: None,
            max_fds: Some(1024),
            start_time_ms: Some(1_700_000_123_450),
        };
        assert_eq!(read, expected);
        let unlimited = limits.replace("1024 ", "unlimited");
        let read = ProcessUse::parse("", "", &unlimited, "");
        let expected = ProcessUse {
            max_fds: Some(u64::MAX),
            ..ProcessUse::default()
        };
        assert_eq!(
            read, expected,
            "a value that the system does not report is absent"
        );
    }

    #[test]
    fn this_process_has_every_value_and_an_open_file_counts() {
        let before = ProcessUse::read();
        let held: Vec<_> = (0..100)
            .map(|_| fs::File::open("/proc/self/stat").expect("open"))
            .collect();
        let after = ProcessUse::read();
        // Other tests of this process open and close files at the same time, but fewer than a hundred.
        assert!(after.open_fds > before.open_fds, "{before:?} {after:?}");
        drop(held);
        let now_ms = std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .expect("after 1970")
            .as_millis() as u64;
        let started_ms = after.start_time_ms.expect("known");
        // The boot time is accurate to one second.
        assert!(started_ms <= now_ms + 1000 && started_ms + 3_600_000 > now_ms);
        assert!(after.cpu_ms.is_some() && after.max_fds > Some(10));
        assert!(after.virtual_memory_bytes > after.resident_memory_bytes);
        assert!(after.resident_memory_bytes > Some(1 << 16));
    }
}

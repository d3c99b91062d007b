//! Properties of this machine that decide which claims can be judged.

use super::page::Need;
use std::time::Duration;

/// Maximum number of cores that other work may use while ratios are measured.
const OTHERS_CORES_MAX: f64 = 0.2;
/// Maximum share of the processor time that a hypervisor may give to other machines during a command.
const STOLEN_MAX: f64 = 0.05;
/// Time over which other work is measured before a command.
const SAMPLE: Duration = Duration::from_secs(1);

/// Machine on which the claims are checked.
pub struct ThisMachine {
    is_root: bool,
    cores: usize,
}

impl ThisMachine {
    /// Reads the properties of this machine.
    pub fn new() -> Self {
        Self {
            is_root: is_root(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
        }
    }

    /// Returns the reason why a command with these needs cannot run here.
    pub fn lacks(&self, needs: &[Need]) -> Option<String> {
        needs.iter().find_map(|need| match need {
            Need::Root if !self.is_root => Some("the command needs root".to_owned()),
            Need::Quiet if self.cores < 2 => Some("the command needs two cores".to_owned()),
            Need::Root | Need::Quiet => None,
        })
    }
}

/// Returns true if the effective user of this process is root.
fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ids = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    ids.and_then(|ids| ids.split_whitespace().nth(1)) == Some("0")
}

/// Counters of all cores in /proc/stat, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    /// Time in which a core was not idle, stolen time included.
    busy: u64,
    /// Time that a hypervisor gave to other machines.
    stolen: u64,
    all: u64,
}

impl Ticks {
    fn now() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // The fields are user, nice, system, idle, waiting for a disk, interrupts, soft interrupts, stolen.
        let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let fields: Vec<u64> = fields
            .take(8)
            .map(|field| field.parse().ok())
            .collect::<Option<_>>()?;
        let [_, _, _, idle, waiting, _, _, stolen] = fields[..] else {
            return None;
        };
        let all = fields.iter().sum();
        Some(Self {
            busy: all - idle - waiting,
            stolen,
            all,
        })
    }

    /// Returns the share of the time since `before` that `of` counts.
    fn share_since(&self, before: &Self, of: fn(&Self) -> u64) -> f64 {
        let all = self.all.saturating_sub(before.all).max(1);
        of(self).saturating_sub(of(before)) as f64 / all as f64
    }
}

/// Work of other programs before a command.
#[derive(Debug)]
pub struct Work {
    cores: f64,
    of: usize,
}

impl Work {
    /// Measures the work of other programs for a second, in which this program only waits; `None` if the kernel's
    /// counters cannot be read.
    pub fn of_others() -> Option<Self> {
        let before = Ticks::now()?;
        std::thread::sleep(SAMPLE);
        let share = Ticks::now()?.share_since(&before, |ticks| ticks.busy);
        let of = std::thread::available_parallelism().map_or(1, usize::from);
        Some(Self {
            cores: share * of as f64,
            of,
        })
    }

    /// Returns the reason why ratios do not count, if there is too much other work.
    pub fn too_much(&self) -> Option<String> {
        let Self { cores, of } = self;
        (*cores > OTHERS_CORES_MAX).then(|| {
            format!("the machine was busy: other work used {cores:.1} of {of} cores before the command")
        })
    }
}

/// Start of a period in which stolen time is measured.
pub struct Stolen(Ticks);

impl Stolen {
    /// Begins a period; `None` if the kernel's counters cannot be read.
    pub fn now() -> Option<Self> {
        Ticks::now().map(Self)
    }

    /// Returns the reason why ratios of this period do not count, if too much time was stolen.
    pub fn too_much(&self) -> Option<String> {
        let share = Ticks::now()?.share_since(&self.0, |ticks| ticks.stolen);
        (share > STOLEN_MAX).then(|| {
            format!(
                "the machine was busy: the hypervisor took {:.0} % of its time",
                share * 100.0
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Ticks;

    #[test]
    fn shares_count_busy_and_stolen_ticks_of_all_cores() {
        let before = Ticks::parse("cpu  10 0 10 60 10 5 5 0 7 7\ncpu0 1 1\n").expect("counters");
        let after = Ticks::parse("cpu  30 0 20 90 20 5 5 30 7 7\n").expect("counters");
        assert_eq!((before.busy, before.stolen, before.all), (30, 0, 100));
        assert_eq!(after.share_since(&before, |ticks| ticks.busy), 0.6);
        assert_eq!(after.share_since(&before, |ticks| ticks.stolen), 0.3);
        assert_eq!(Ticks::parse("cpu  1 2 3\n"), None);
        assert_eq!(Ticks::parse("intr 1 2 3 4 5 6 7 8\n"), None);
    }
}

//! Measures the processor time that the machine gave to others: to processes outside of this process tree, and to the
//! hypervisor (steal time). A benchmark does not judge its gates if that share was too large.

use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display, Formatter};
use std::time::Instant;

/// Ticks per second in /proc/stat and /proc/PID/stat, which is the same on every machine.
const TICKS_PER_S: f64 = 100.0;
/// Maximum share of the machine's processor time, in percent, that others may have used in a run whose gates are
/// judged. On two cores it is a tenth of a core, so a server that needs a whole core loses at most a tenth of it.
pub const TAKEN_PERCENT_MAX: f64 = 5.0;
/// Minimum time in seconds over which shares are measured.
const SHORTEST_S: f64 = 0.5;
/// Flag of a kernel thread in /proc/PID/stat (PF_KTHREAD in include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// Processor time that others used during a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TakenTime {
    /// Share of the machine's processor time that processes outside of this process tree used, in percent.
    pub others_percent: f64,
    /// Share that the hypervisor gave to other guests (steal time), in percent.
    pub stolen_percent: f64,
    /// Largest sum of the two shares with which gates are judged, in percent.
    pub limit_percent: f64,
}

impl TakenTime {
    /// Returns the shares of others and of the hypervisor, with the limit that applies to all benchmarks.
    pub const fn new(others_percent: f64, stolen_percent: f64) -> Self {
        Self {
            others_percent,
            stolen_percent,
            limit_percent: TAKEN_PERCENT_MAX,
        }
    }

    /// Returns true if others used more time than the limit above which the gates are not judged.
    pub fn is_too_much(&self) -> bool {
        self.others_percent + self.stolen_percent > self.limit_percent
    }
}

impl Display for TakenTime {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "processor time that the machine gave to others during the run: other processes {:.1} %, the hypervisor \
             {:.1} %",
            self.others_percent, self.stolen_percent
        )?;
        match self.is_too_much() {
            true => write!(
                out,
                "; above {} % the gates are not judged: run the benchmark again on a quiet machine",
                self.limit_percent
            ),
            false => Ok(()),
        }
    }
}

/// Point in time, with the counters of the machine and of its processes.
#[derive(Clone, Debug)]
pub struct Since {
    at: Instant,
    counters: Counters,
}

impl Since {
    /// Returns the present point in time; `None` if /proc cannot be read.
    pub fn now() -> Option<Self> {
        Some(Self {
            counters: Counters::read()?,
            at: Instant::now(),
        })
    }

    /// Returns the shares of the machine's processor time that others have used since this point. Returns `None` after
    /// less than half a second, in which a few ticks would decide.
    pub fn taken(&self) -> Option<TakenTime> {
        let now = Self::now()?;
        let took_s = now.at.duration_since(self.at).as_secs_f64();
        if took_s < SHORTEST_S {
            return None;
        }
        let all = took_s * TICKS_PER_S * crate::sys::cores() as f64;
        let (others, stolen) = self.counters.taken_until(&now.counters);
        let percent = |ticks: u64| 100.0 * ticks as f64 / all;
        Some(TakenTime::new(percent(others), percent(stolen)))
    }

    /// Returns the average number of cores that others, including the hypervisor, have used since this point.
    pub fn cores(&self) -> Option<f64> {
        let taken = self.taken()?;
        Some((taken.others_percent + taken.stolen_percent) / 100.0 * crate::sys::cores() as f64)
    }
}

/// Counters in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    /// Time of processes: user, nice and system. Interrupts are not included, because they cannot be attributed.
    processes: u64,
    /// Time that the hypervisor took.
    stolen: u64,
    /// Time of this process and of its descendants, including those that have ended.
    own: u64,
    /// Time of the kernel's threads, which work for this process tree and for others.
    kernel: u64,
    /// Time of all other processes that are visible, and of their children that have ended.
    visible: u64,
}

impl Counters {
    fn read() -> Option<Self> {
        let text = |path: &str| std::fs::read_to_string(path).ok();
        let entries = std::fs::read_dir("/proc").ok()?.flatten();
        let processes = entries.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            // A process may end between the two calls; its parent counts its time from then on.
            Some((pid, Process::parse(&text(&format!("/proc/{pid}/stat"))?)?))
        });
        Self::of(&text("/proc/stat")?, &processes.collect(), std::process::id())
    }

    /// Returns the counters of the machine and of `processes`; `own` is the process id of the benchmark.
    fn of(stat: &str, processes: &BTreeMap<u32, Process>, own: u32) -> Option<Self> {
        let mut fields = stat.lines().next()?.split_whitespace().skip(1);
        let mut all = [0; 8];
        for place in &mut all {
            *place = fields.next()?.parse().ok()?;
        }
        let [user, nice, system, _idle, _waiting, _interrupts, _soft, stolen] = all;
        let tree = tree(processes, own);
        let mut counters = Self {
            processes: user + nice + system,
            stolen,
            ..Self::default()
        };
        for (pid, process) in processes {
            let sum = match () {
                () if tree.contains(pid) => &mut counters.own,
                () if process.is_kernel_thread => &mut counters.kernel,
                () => &mut counters.visible,
            };
            *sum += process.ticks;
        }
        Some(counters)
    }

    /// Returns the ticks of other processes and of the hypervisor from this point until `now`.
    fn taken_until(&self, now: &Self) -> (u64, u64) {
        let of = |of: fn(&Self) -> u64| of(now).saturating_sub(of(self));
        let known = of(|counters| counters.own) + of(|counters| counters.kernel);
        // In a container, processes of the machine are counted in /proc/stat, but not visible. Some kernels count time
        // of interrupts as time of the interrupted process, so that the difference is too small; then the visible
        // processes count.
        let others = of(|counters| counters.processes).saturating_sub(known);
        (
            others.max(of(|counters| counters.visible)),
            of(|counters| counters.stolen),
        )
    }
}

/// Process in /proc/PID/stat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    is_kernel_thread: bool,
    /// Ticks in user and kernel mode, of the process and of its children that have ended.
    ticks: u64,
}

impl Process {
    fn parse(stat: &str) -> Option<Self> {
        // The name of the program is in parentheses and may contain any character.
        let (_, rest) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = rest.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            parent: number(1)? as u32,
            is_kernel_thread: number(6)? & KERNEL_THREAD != 0,
            ticks: number(11)? + number(12)? + number(13)? + number(14)?,
        })
    }
}

/// Returns the ids of the process `root` and of all its descendants.
fn tree(processes: &BTreeMap<u32, Process>, root: u32) -> BTreeSet<u32> {
    let mut tree = BTreeSet::from([root]);
    loop {
        let children = processes
            .iter()
            .filter(|(pid, process)| tree.contains(&process.parent) && !tree.contains(pid))
            .map(|(pid, _)| *pid);
        let children: Vec<u32> = children.collect();
        if children.is_empty() {
            return tree;
        }
        tree.extend(children);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: u32, ticks: u64) -> Process {
        Process {
            parent,
            is_kernel_thread: parent == 2,
            ticks,
        }
    }

    fn counters(user: u64, stolen: u64, ticks: [u64; 5]) -> Counters {
        let stat =
            format!("cpu  {user} 20 300 4000 50000 600000 7000000 {stolen} 9 9\ncpu0 1 1 1 1 1 1 1 1 1 1\n");
        let [own, child, grandchild, kernel, other] = ticks;
        let processes = BTreeMap::from([
            (10, process(1, own)),
            (11, process(10, child)),
            (12, process(11, grandchild)),
            (3, process(2, kernel)),
            (9, process(1, other)),
        ]);
        Counters::of(&stat, &processes, 10).unwrap()
    }

    #[test]
    fn the_own_process_tree_the_kernel_and_interrupts_are_not_others() {
        let before = counters(1_000, 7, [100, 10, 1, 40, 500]);
        assert_eq!((before.own, before.kernel, before.visible), (111, 40, 500));
        assert_eq!((before.processes, before.stolen), (1_320, 7));
        // 80 ticks of the tree, 5 of the kernel, 15 of another process.
        let after = counters(1_100, 9, [150, 30, 11, 45, 515]);
        assert_eq!(before.taken_until(&after), (15, 2));
        // The processes of another container are not visible.
        let after = counters(1_100, 7, [150, 30, 11, 45, 500]);
        assert_eq!(before.taken_until(&after), (15, 0));
        // The time of interrupts in the tree exceeds that of other processes.
        let after = counters(1_090, 7, [150, 30, 11, 45, 515]);
        assert_eq!(before.taken_until(&after), (15, 0));
        assert_eq!(Counters::of("cpu  1 2 3\n", &BTreeMap::new(), 1), None);
    }

    #[test]
    fn a_process_is_read_whatever_its_name_is() {
        let stat = "77 (a) b (c) S 10 77 77 0 -1 2097216 1 2 3 4 5 6 7 8 20 0 1 0 99 0 0";
        let due = Process {
            parent: 10,
            is_kernel_thread: true,
            ticks: 26,
        };
        assert_eq!(Process::parse(stat), Some(due));
        assert_eq!(Process::parse("77 (a) S 10"), None);
    }

    #[test]
    fn a_child_process_is_not_counted_as_another_process() {
        let since = Since::now().unwrap();
        let own = since.counters.own;
        let script = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let mut child = std::process::Command::new("sh")
            .args(["-c", script])
            .spawn()
            .unwrap();
        child.wait().unwrap();
        let now = Since::now().unwrap();
        assert!(
            now.counters.own > own,
            "the time of the child belongs to the tree"
        );
        assert!(since.taken().is_none_or(|taken| taken.others_percent >= 0.0));
    }

    #[test]
    fn the_limit_applies_to_the_sum_of_both_shares() {
        assert!(!TakenTime::new(3.0, 2.0).is_too_much());
        assert!(TakenTime::new(3.0, 2.1).is_too_much());
        let text = TakenTime::new(0.0, 7.0).to_string();
        assert!(
            text.contains("the hypervisor 7.0 %; above 5 % the gates are not judged"),
            "{text}"
        );
    }
}

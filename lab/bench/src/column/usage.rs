//! Resource usage of processes as Linux counts it: processor time in ticks of 10 ms, and the number of times that
//! threads slept.

use crate::error::{Result, io};
use crate::sys;
use serde::Serialize;
use std::fs;

/// Length in nanoseconds of a tick of `/proc` (`USER_HZ` is 100 on all supported machines).
const TICK_NS: u64 = 10_000_000;

/// Resource usage of one process, or the difference of two usages.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Usage {
    /// Processor time of all threads of the process, in nanoseconds.
    pub cpu_ns: f64,
    /// Processor time of the named thread, in nanoseconds.
    pub thread_ns: f64,
    /// Number of voluntary context switches of all threads of the process.
    pub sleeps: f64,
}

impl Usage {
    /// Adds the usage between `before` and `after`.
    pub fn add(&mut self, before: &Self, after: &Self) {
        self.cpu_ns += after.cpu_ns - before.cpu_ns;
        self.thread_ns += after.thread_ns - before.thread_ns;
        self.sleeps += after.sleeps - before.sleeps;
    }

    /// Returns the usage divided by `count`, which is the usage for one operation.
    pub fn each(&self, count: f64) -> Self {
        Self {
            cpu_ns: self.cpu_ns / count,
            thread_ns: self.thread_ns / count,
            sleeps: self.sleeps / count,
        }
    }
}

/// Returns the usage of process `pid`, whose set of threads must not change; `thread` is the name of one thread.
///
/// # Errors
/// Error of the operating system.
pub fn of(pid: u32, thread: &str) -> Result<Usage> {
    let mut usage = Usage {
        cpu_ns: cpu_ns(&format!("/proc/{pid}/stat"))?,
        ..Usage::default()
    };
    for task in fs::read_dir(format!("/proc/{pid}/task")).map_err(io("reading /proc"))? {
        let path = task.map_err(io("reading /proc"))?.path();
        // A thread may end between the two reads.
        let status = fs::read_to_string(path.join("status")).unwrap_or_default();
        usage.sleeps += field(&status, "voluntary_ctxt_switches:");
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        if name.trim_end() == thread {
            usage.thread_ns += cpu_ns(&path.join("stat").display().to_string())?;
        }
    }
    Ok(usage)
}

/// Returns the usage of this process, whose set of threads may change.
///
/// # Errors
/// Error of the operating system.
pub fn own(thread: &str) -> Result<Usage> {
    let threads = of(std::process::id(), thread)?;
    Ok(Usage {
        cpu_ns: sys::process_ns() as f64,
        sleeps: sys::resource_usage().ru_nvcsw as f64,
        ..threads
    })
}

fn field(status: &str, name: &str) -> f64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name));
    value.and_then(|value| value.trim().parse().ok()).unwrap_or(0.0)
}

/// Returns user and system time, which are the 14th and 15th field of the line. The 2nd field, the name in brackets,
/// may contain blanks.
fn cpu_ns(path: &str) -> Result<f64> {
    let stat = fs::read_to_string(path).map_err(io("reading /proc"))?;
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum();
    Ok((ticks * TICK_NS) as f64)
}

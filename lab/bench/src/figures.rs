//! Single runs of the contestants of `spv`, for the figures of the papers: with a workload of any size, any hit rate of
//! the XDP datapath, and the processor time of servers.

use crate::error::{Result, io};
use crate::field::{Driven, Field};
use crate::report::latency_us;
use crate::sys;
use lineside_testkit::Random;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

pub use crate::field::{By, Who};
pub use crate::gate::median;
pub use crate::machine::Machine;
pub use crate::servers::Software;
pub use crate::sys::thread_ns;
pub use crate::workload::Shape;

/// Result of one run of a contestant.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Right replies per second; the client checks each reply.
    pub rps: f64,
    /// Median latency in µs.
    pub p50_us: f64,
    /// 99th percentile of the latency in µs.
    pub p99_us: f64,
    /// Number of requests sent.
    pub sent: u64,
    /// Number of right replies.
    pub right: u64,
    /// Number of requests without a reply. In an open loop, a server that is too slow loses requests.
    pub lost: u64,
    /// Number of wrong replies.
    pub wrong: u64,
    /// Length of the run in seconds.
    pub took_s: f64,
    /// Processor time of the server's threads in nanoseconds. If the run has no warm-up, it covers all `sent` requests.
    pub server_ns: u64,
    /// Run time of the XDP program in nanoseconds by the kernel's statistics; 0 if the statistics were not enabled.
    pub fastpath_ns: u64,
}

/// Contestants with one workload.
pub struct Setting {
    field: Field,
}

impl Setting {
    /// Creates the namespaces, loads the XDP programs and draws the workload. All TXIDs are in the table.
    ///
    /// # Errors
    /// Fails if the process has no root rights or no BPF, or if the machine has only one core.
    pub fn new(seed: u64, shape: Shape) -> Result<Self> {
        if sys::cores() < 2 {
            return Err(crate::BenchError::TooFewCores);
        }
        Ok(Self {
            field: Field::new(seed, shape, false)?,
        })
    }

    /// Keeps this percentage of the TXIDs in the table of the XDP datapath, chosen at random by their numbers. The
    /// TXIDs of a lower percentage are always among those of a higher one.
    pub fn set_hit_percent(&mut self, percent: u64) {
        let workload = Arc::clone(&self.field.workload);
        self.field
            .fastpath
            .keep(&workload, |number| is_kept(number, percent));
    }

    /// Starts the contestant `who`, sends requests to it, and stops it.
    ///
    /// # Errors
    /// Errors of namespaces, sockets and BPF.
    pub fn run(&self, who: Who, by: By, duration: Duration) -> Result<Sample> {
        let driven = self.field.run(who, by, duration)?;
        Ok(sample(&driven, 0))
    }

    /// Runs the contestant `who` while the kernel measures the run time of the XDP program, which slows the program
    /// down.
    ///
    /// # Errors
    /// Fails as [`Setting::run`] does, and with errors of the kernel's statistics.
    pub fn run_with_cost(&self, who: Who, by: By, duration: Duration) -> Result<Sample> {
        let _on = sys::count_run_time().map_err(io("turning on the run time of BPF programs"))?;
        let root = self.field.fastpath.root();
        let read = || sys::run_time_ns(root.as_fd()).map_err(io("reading the run time of ls_root"));
        let before_ns = read()?;
        let driven = self.field.run(who, by, duration)?;
        Ok(sample(&driven, read()?.saturating_sub(before_ns)))
    }
}

fn is_kept(number: u64, percent: u64) -> bool {
    Random(number).percent(percent)
}

fn sample(driven: &Driven, fastpath_ns: u64) -> Sample {
    let Driven { tally, server_ns } = driven;
    Sample {
        rps: tally.rps(),
        p50_us: latency_us(tally, 0.5),
        p99_us: latency_us(tally, 0.99),
        sent: tally.sent,
        right: tally.right,
        lost: tally.lost,
        wrong: tally.wrong.count,
        took_s: tally.took_ns as f64 / 1e9,
        server_ns: *server_ns,
        fastpath_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_selected_share_equals_the_percentage_and_grows_with_it() {
        let kept = |percent| (0..100_000).filter(move |number| is_kept(*number, percent));
        for percent in [0, 10, 50, 90, 100] {
            let share = kept(percent).count() as f64 / 1000.0;
            assert!((share - percent as f64).abs() < 0.7, "{percent}: {share}");
        }
        assert!(kept(30).all(|number| is_kept(number, 40)));
    }
}

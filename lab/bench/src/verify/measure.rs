//! Measurement in slices: the contestants run in turn for a few milliseconds each.

use super::contestants::{StepWork, Work};
use super::cpu::{self, Instructions};
use crate::gate::median;
use crate::wrong::WrongReplies;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Name of a contestant's work: primitive, contestant and case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    /// `p256`, `secp256k1`, `sha256` or `keccak256`.
    pub(super) primitive: &'static str,
    pub(super) contestant: &'static str,
    pub(super) case: &'static str,
}

/// Work of a contestant, and its results so far.
pub(super) struct Runner<'a> {
    pub(super) name: Name,
    pub(super) work: Box<dyn Work + 'a>,
    /// A slice is run in one of this many rounds: 1, or more if slices are long.
    pub(super) every: usize,
    pub(super) seen: SliceResults,
}

/// Results of all slices of one kind of work.
#[derive(Clone, Debug, Default)]
pub(super) struct SliceResults {
    /// Time of each slice in ns per signature or message.
    pub(super) ns: Vec<f64>,
    /// Number of signatures or messages in all slices.
    pub(super) count: u64,
    /// Number of instructions in all slices; `None` if they are not counted.
    pub(super) instructions: Option<u64>,
    /// Number of mismatches in slices and before them.
    pub(super) mismatches: u64,
    /// First wrong results before the slices.
    pub(super) wrong: WrongReplies,
}

/// Figures of one contestant in one case. For hashes, "signature" means "message".
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Time per signature in the best slice, in ns.
    pub best_ns: f64,
    /// Time per signature in the median slice, in ns.
    pub median_ns: f64,
    /// Signatures per second in the best slice.
    pub best_per_s: f64,
    /// Number of slices.
    pub slices: usize,
    /// Number of signatures in all slices.
    pub count: u64,
    /// Instructions per signature; absent if they cannot be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    /// Number of wrong verdicts or digests.
    pub mismatches: u64,
}

impl Figures {
    /// Returns the figures; `None` if there are no slices.
    pub(super) fn of(seen: &SliceResults) -> Option<Self> {
        let best_ns = seen.ns.iter().copied().min_by(f64::total_cmp)?;
        Some(Self {
            best_ns,
            median_ns: median(seen.ns.iter().copied())?,
            best_per_s: 1e9 / best_ns,
            slices: seen.ns.len(),
            count: seen.count,
            instructions: seen.instructions.map(|total| total as f64 / seen.count as f64),
            mismatches: seen.mismatches,
        })
    }
}

/// Best rates of the processor that were measured between the slices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    /// Clock rate in cycles per nanosecond.
    pub(super) clock_ghz: Option<f64>,
    /// Number of 512-bit multiplications per nanosecond.
    pub(super) multiplications_per_ns: Option<f64>,
}

impl Rates {
    /// Measures the rates again, and keeps the better ones.
    pub(super) fn look(&mut self) {
        // The clock is measured directly after the multiplications, because some processors lower their clock rate for
        // wide multiplications.
        let (multiplications, clock) = (cpu::multiplications_per_ns(), cpu::clock_ghz());
        let better = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        self.multiplications_per_ns = better(self.multiplications_per_ns, multiplications);
        self.clock_ghz = better(self.clock_ghz, clock);
    }
}

/// Runs all rounds. In each round, every contestant gets a slice.
pub(super) fn rounds(
    runners: &mut [Runner<'_>],
    count: usize,
    slice: Duration,
    instructions: &mut Option<Instructions>,
    rates: &mut Rates,
    tell: &mut dyn FnMut(),
) {
    let places = runners.len();
    for round in 0..count {
        tell();
        rates.look();
        for place in 0..places {
            // Each round begins with another contestant, so that no contestant always runs after the same one.
            let runner = &mut runners[(place + round * 5) % places];
            if round.is_multiple_of(runner.every) {
                run_slice(runner, slice, instructions);
            }
        }
    }
}

/// Runs one slice.
pub(super) fn run_slice(runner: &mut Runner<'_>, budget: Duration, instructions: &mut Option<Instructions>) {
    let Runner { work, seen, .. } = runner;
    seen.mismatches += work.prepare().mismatches;
    let before = instructions.as_mut().and_then(Instructions::read);
    let (start, mut done) = (Instant::now(), StepWork::default());
    let took = loop {
        done += work.step();
        let took = start.elapsed();
        if work.is_over(took >= budget) {
            break took;
        }
    };
    let after = instructions.as_mut().and_then(Instructions::read);
    seen.ns.push(took.as_nanos() as f64 / done.count as f64);
    seen.count += done.count;
    seen.mismatches += done.mismatches + work.settle();
    if let Some((before, after)) = before.zip(after) {
        *seen.instructions.get_or_insert(0) += after - before;
    }
}

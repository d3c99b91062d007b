//! Slices: who takes part, a few ms each, in turn.

use super::contestants::{Done, Work};
use super::cpu::{self, Instructions};
use crate::gate::median;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Of which contestant's which work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    /// `p256`, `secp256k1`, `sha256` or `keccak256`.
    pub(super) primitive: &'static str,
    pub(super) contestant: &'static str,
    pub(super) case: &'static str,
}

/// Somebody at work, and what was seen of it.
pub(super) struct Runner<'a> {
    pub(super) name: Name,
    pub(super) work: Box<dyn Work + 'a>,
    /// A slice in so many rounds: 1 unless slices are long.
    pub(super) every: usize,
    pub(super) seen: Seen,
}

/// What was seen in all slices.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// ns a signature or message, by slice.
    pub(super) ns: Vec<f64>,
    /// Signatures or messages in slices.
    pub(super) count: u64,
    /// Instructions in slices; `None` where they are not counted.
    pub(super) instructions: Option<u64>,
    /// In slices, and before them.
    pub(super) mismatches: u64,
}

/// One contestant's figures of one case. "Signature" is "message" where it hashes.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// ns a signature in the best slice.
    pub best_ns: f64,
    /// The median slice's.
    pub median_ns: f64,
    /// Signatures a second in the best slice.
    pub best_per_s: f64,
    /// Slices.
    pub slices: usize,
    /// Signatures in all slices.
    pub count: u64,
    /// Instructions a signature; absent where they cannot be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<f64>,
    /// Wrong verdicts or digests.
    pub mismatches: u64,
}

impl Figures {
    /// `None` without slices.
    pub(super) fn of(seen: &Seen) -> Option<Self> {
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

/// What the processor did at best between the slices.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rates {
    /// Cycles per ns.
    pub(super) clock_ghz: Option<f64>,
    /// Multiplications of 512 bits per ns.
    pub(super) multiplications_per_ns: Option<f64>,
}

impl Rates {
    /// Measures again, and keeps the better.
    pub(super) fn look(&mut self) {
        // The clock right after: some processors lower it for wide multiplications.
        let (multiplications, clock) = (cpu::multiplications_per_ns(), cpu::clock_ghz());
        let better = |a: Option<f64>, b: Option<f64>| a.into_iter().chain(b).reduce(f64::max);
        self.multiplications_per_ns = better(self.multiplications_per_ns, multiplications);
        self.clock_ghz = better(self.clock_ghz, clock);
    }
}

/// Everybody's slice in each round.
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
            // Each round begins elsewhere, so that nobody always stands behind the same neighbour.
            let runner = &mut runners[(place + round * 5) % places];
            if round.is_multiple_of(runner.every) {
                run_slice(runner, slice, instructions);
            }
        }
    }
}

/// One slice.
pub(super) fn run_slice(runner: &mut Runner<'_>, budget: Duration, instructions: &mut Option<Instructions>) {
    let Runner { work, seen, .. } = runner;
    seen.mismatches += work.prepare().mismatches;
    let before = instructions.as_mut().and_then(Instructions::read);
    let (start, mut done) = (Instant::now(), Done::default());
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

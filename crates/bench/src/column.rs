//! `lineside bench column`: what a packet costs near, by request, keys and rows held.

pub mod per_packet;
mod report;
#[cfg(test)]
mod tests;

pub use report::Report;

use crate::error::Result;
use crate::machine::Machine;
use crate::progress::Progress;
use per_packet::{CASES, PerPacket};

/// How to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Told in the report; nothing here is random.
    pub seed: u64,
    /// Rounds of a case; its figures are their least and their median.
    pub rounds: usize,
    /// Calls a round.
    pub calls: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 1,
            rounds: 21,
            calls: 1 << 19,
        }
    }
}

impl Options {
    /// In seconds.
    pub fn quick() -> Self {
        Self {
            rounds: 5,
            calls: 1 << 16,
            ..Self::default()
        }
    }
}

/// Measures all cases.
///
/// # Errors
/// What the system says; [`Void`](crate::error::BenchError::Void) where a reply was missing.
pub fn run(options: &Options, progress: &mut dyn FnMut(Progress)) -> Result<Report> {
    let machine = Machine::read();
    let mut per_packet: Vec<PerPacket> = Vec::with_capacity(CASES.len());
    for (done, case) in CASES.iter().enumerate() {
        progress(Progress {
            doing: "asking near",
            done,
            of: CASES.len(),
        });
        per_packet.push(per_packet::measure(case, options.rounds, options.calls)?);
    }
    Ok(Report::new(options, machine, per_packet))
}

//! Comparison of the simulated NIC with the Rust model for `spv`. Batches of frames pass the NIC back to back, with
//! random pauses of source and sinks.

use super::spv::{Case, endpoint, prepare};
use super::{DiffCounts, DiffError, Frames};
use crate::rtl::{RtlDatapath, RtlModel};
use lineside_fastpath::{FrameHandler, FrameVerdict, lease};
use lineside_rtl::sim::{Pauses, SimError, SimVerdict};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::store::Store;
use lineside_testkit::Random;
use lineside_wire::{SPV_PORT, SpvCounter};
use std::sync::Arc;

/// Number of frames in a batch.
const BATCH: u64 = 256;

impl From<SimError> for DiffError {
    fn from(error: SimError) -> Self {
        Self::Io(std::io::Error::other(error))
    }
}

/// Compares one case over `count` frames.
///
/// # Errors
/// The first difference in verdict, bytes or counters, or a fault of the simulation.
pub fn run(
    case: &Case,
    count: u64,
    seed: u64,
) -> Result<(DiffCounts, [u64; SpvCounter::ALL.len()]), DiffError> {
    let endpoint = endpoint(case);
    let store = Arc::new(Store::anonymous(&case.geometry)?);
    let (_writer, payloads) = prepare(case, &store, seed)?;
    let model = RtlModel::new(SpvFastPath::new(Arc::clone(&store)));
    let line = FrameHandler {
        endpoint: &endpoint,
        port: SPV_PORT,
        fastpath: &model,
    };
    let mut datapath = RtlDatapath::over(&store, &endpoint, SPV_PORT)?;
    let mut frames = Frames::new(seed, &endpoint, SPV_PORT, payloads);
    let mut random = Random(seed | 1);
    let mut seen = DiffCounts::default();
    while seen.frames < count {
        let batch: Vec<_> = (0..BATCH.min(count - seen.frames))
            .map(|_| frames.next_frame())
            .collect();
        let mut pause = || [0, 0, 30, 128, 220][random.index(5)];
        let pauses = Pauses {
            seed: seed ^ seen.frames,
            source: pause(),
            network: pause(),
            host: pause(),
        };
        let now_ns = lease::now_ns();
        let left = datapath.run(now_ns, &batch, pauses)?;
        for (request, (verdict, left)) in batch.into_iter().zip(left) {
            let mut expected = request.clone();
            let said = line.answer(now_ns, &mut expected);
            let is_same = match said {
                FrameVerdict::Transmit => verdict == SimVerdict::Reply && left == expected,
                FrameVerdict::Pass => verdict == SimVerdict::Forward && left == expected,
                FrameVerdict::Drop(_) => verdict == SimVerdict::Drop && left.is_empty(),
            };
            if !is_same {
                return Err(DiffError::Differs {
                    number: seen.frames,
                    what: format!("the model returned {said:?}, the datapath {verdict:?}"),
                    request,
                    model: expected,
                    datapath: left,
                });
            }
            seen.frames += 1;
            match said {
                FrameVerdict::Transmit => seen.transmitted += 1,
                FrameVerdict::Pass => seen.passed += 1,
                FrameVerdict::Drop(reason) => seen.dropped[reason as usize] += 1,
            }
        }
    }
    let counters = datapath.counters();
    if counters.spv != model.counters() || counters.drops != seen.dropped {
        return Err(DiffError::Differs {
            number: count,
            what: format!(
                "counters: the model has {:?} and drops {:?}, the datapath {:?} and {:?}",
                model.counters(),
                seen.dropped,
                counters.spv,
                counters.drops
            ),
            request: Vec::new(),
            model: Vec::new(),
            datapath: Vec::new(),
        });
    }
    Ok((seen, model.counters()))
}

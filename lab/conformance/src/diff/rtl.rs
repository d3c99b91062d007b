//! Comparison of the simulated NIC with the Rust model. Batches of frames pass the NIC back to back, with random pauses
//! of source and sinks.

use super::spv::{Case, endpoint, prepare, settle, table_questions};
use super::{DiffCounts, DiffError, Frames, ListedRequests, PEER_MAC};
use crate::frames::FrameService;
use crate::rtl::{RtlDatapath, RtlModel, RtlService};
use crate::spv::Spv;
use lineside_fastpath::{FrameHandler, FrameVerdict, lease};
use lineside_rtl::sim::{Pauses, SimError, SimVerdict};
use lineside_spv::store::Store;
use lineside_testkit::Random;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::frame::{self, Addressing};
use lineside_wire::{SPV_PORT, SpvCounter};
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Number of frames in a batch.
const BATCH: u64 = 256;

impl From<SimError> for DiffError {
    fn from(error: SimError) -> Self {
        Self::Io(std::io::Error::other(error))
    }
}

/// Compares one case of `spv` over `count` frames. At the end, asks both sides for every transaction of the case, so
/// that the table after the frames is compared, too.
///
/// # Errors
/// The first difference in verdict, bytes, counters or table, or a fault of the simulation.
pub fn run(
    case: &Case,
    count: u64,
    seed: u64,
) -> Result<(DiffCounts, [u64; SpvCounter::ALL.len()]), DiffError> {
    let endpoint = endpoint(case);
    let store = Arc::new(Store::anonymous(&case.geometry)?);
    let (mut writer, payloads) = prepare(case, &store, seed)?;
    let mut pair = Pair::<Spv>::new(&store, &endpoint, SPV_PORT)?;
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
        pair.compare_batch(&mut seen, &batch, pauses)?;
    }
    let counted = pair.compare_counters(&seen)?;
    settle(case, &mut writer, &store);
    pair.datapath.copy_control(&store)?;
    let questions: Vec<_> = table_questions()
        .iter()
        .filter_map(|payload| question(&endpoint, SPV_PORT, payload))
        .collect();
    let mut asked = DiffCounts::default();
    pair.compare_batch(&mut asked, &questions, Pauses::default())?;
    if asked.transmitted == 0 {
        return Err(differs(
            count,
            "no transaction of the table is answered at the end".into(),
        ));
    }
    Ok((seen, std::array::from_fn(|index| counted[index])))
}

/// Returns a valid frame from another host to the first IPv4 address of `endpoint`.
fn question(endpoint: &Endpoint, port: u16, payload: &[u8]) -> Option<Vec<u8>> {
    let addressing = Addressing {
        source_mac: PEER_MAC,
        destination_mac: endpoint.mac,
        vlan: None,
        source: Ipv4Addr::new(10, 0, 0, 9).into(),
        destination: endpoint.v4().next()?.into(),
        source_port: 40_000,
        destination_port: port,
    };
    let mut frame = vec![0; 1514];
    let bytes = frame::build(&mut frame, &addressing, payload)?;
    frame.truncate(bytes);
    Some(frame)
}

/// The model and the simulated NIC, with the same table.
struct Pair<'a, S: RtlService> {
    model: RtlModel<S>,
    datapath: RtlDatapath<S>,
    endpoint: &'a Endpoint,
    port: u16,
}

impl<'a, S: RtlService> Pair<'a, S> {
    fn new(store: &Arc<S::Store>, endpoint: &'a Endpoint, port: u16) -> Result<Self, DiffError> {
        Ok(Self {
            model: RtlModel::<S>::new(<S as FrameService>::fastpath(Arc::clone(store))),
            datapath: RtlDatapath::<S>::over(store, endpoint, port)?,
            endpoint,
            port,
        })
    }

    /// Sends a batch through both sides, and compares the results.
    fn compare_batch(
        &mut self,
        seen: &mut DiffCounts,
        batch: &[Vec<u8>],
        pauses: Pauses,
    ) -> Result<(), DiffError> {
        let line = FrameHandler {
            endpoint: self.endpoint,
            port: self.port,
            fastpath: &self.model,
        };
        let listed = ListedRequests {
            list: &S::FAST_PATH,
            datapaths: &[lineside_rtl::DATAPATH],
        };
        let now_ns = lease::now_ns();
        let left = self.datapath.run_batch(now_ns, batch, pauses)?;
        for (request, (verdict, left)) in batch.iter().zip(left) {
            let mut expected = request.clone();
            let said = line.answer(now_ns, &mut expected);
            let is_same = match said {
                FrameVerdict::Transmit => verdict == SimVerdict::Reply && left == expected,
                FrameVerdict::Pass => verdict == SimVerdict::Forward && left == expected,
                FrameVerdict::Drop(_) => verdict == SimVerdict::Drop && left.is_empty(),
            };
            let number = seen.frames;
            if !is_same {
                return Err(DiffError::Differs {
                    number,
                    what: format!("the model returned {said:?}, the datapath {verdict:?}"),
                    request: request.clone(),
                    model: expected,
                    datapath: left,
                });
            }
            seen.count(said);
            if said == FrameVerdict::Transmit {
                seen.check_listed(&listed, number, request, &left)?;
            }
        }
        Ok(())
    }

    /// Compares the counters, and returns them.
    fn compare_counters(&self, seen: &DiffCounts) -> Result<Vec<u64>, DiffError> {
        let (model, datapath) = (self.model.counters(), self.datapath.counters());
        let drops = self.datapath.dropped();
        match model == datapath && drops == seen.dropped {
            true => Ok(model),
            false => Err(differs(
                seen.frames,
                format!(
                    "counters: the model has {model:?} and drops {:?}, the datapath {datapath:?} and {drops:?}",
                    seen.dropped
                ),
            )),
        }
    }
}

fn differs(number: u64, what: String) -> DiffError {
    DiffError::Differs {
        number,
        what,
        request: Vec::new(),
        model: Vec::new(),
        datapath: Vec::new(),
    }
}

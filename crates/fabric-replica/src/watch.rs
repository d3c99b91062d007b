//! Events of a running replica, and the status that follows from them.

use crate::status::{BlockRecord, DETAILS, FabricStatus};
use lineside_fabric::TxCode;
use lineside_fabric::early::EarlyWork;
use lineside_fabric::ledger::results::{BlockResult, Publisher, Results};
use lineside_fabric::ledger::totals::{STAGES, Totals};
use lineside_fabric_grpc::client::OnLeft;
use lineside_service::{ServiceStatus, StatusBuilder, Tip};
use lineside_util::hex::to_hex;
use lineside_wire::metric;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Maximum number of blocks in a status.
const BLOCKS: u64 = 8;
/// Maximum number of codes that all of them have together: the reader of a status takes 1 MiB.
const CODES: usize = 200_000;

/// Parts of a status that do not change while the service runs.
#[derive(Clone, Debug)]
pub struct About {
    /// Channel that the replica follows.
    pub channel: String,
    /// Address and port of Deliver.
    pub listen: SocketAddr,
    /// Address and port at which blocks are received over UDP.
    pub udp: Option<SocketAddr>,
    /// Blocks in the ledger when the service started.
    pub height_at_start: u64,
}

/// Events of a replica that its status shows.
pub struct Watch {
    results: Results,
    totals: Arc<Totals>,
    sources_left: AtomicU64,
    /// Verifier of transactions that come before their block is complete.
    early: OnceLock<EarlyWork>,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// Time at which the source that is followed sent its last block.
    block: Option<Instant>,
    following: bool,
    left: Option<String>,
    stopped: Option<String>,
}

impl Watch {
    /// Returns the watch of the replica that gives its results to `publisher`.
    pub fn new(publisher: &Publisher) -> Arc<Self> {
        Arc::new(Self {
            results: publisher.results(),
            totals: publisher.totals(),
            sources_left: AtomicU64::new(0),
            early: OnceLock::new(),
            now: Mutex::default(),
        })
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a block came.
    pub fn came(&self) {
        let mut now = self.now();
        (now.block, now.following) = (Some(Instant::now()), true);
    }

    /// Notes where transactions are counted that come early. Only the first call counts.
    pub fn works_early(&self, early: EarlyWork) {
        let _ = self.early.set(early);
    }

    /// Notes that no further block is taken, and why.
    pub fn stopped(&self, why: &str) {
        let mut now = self.now();
        (now.following, now.stopped) = (false, Some(why.to_owned()));
    }

    /// Notes that nothing is served any more either, and why.
    pub fn withheld(&self, why: &str) {
        let mut now = self.now();
        now.stopped = Some(match now.stopped.take() {
            Some(stopped) => format!("{stopped}; {why}"),
            None => why.to_owned(),
        });
    }

    /// Returns a function that notes a source that is left, and then calls `told`.
    pub fn on_left(self: &Arc<Self>, told: Option<OnLeft>) -> OnLeft {
        let watch = Arc::clone(self);
        Arc::new(move |endpoint, left| {
            watch.sources_left.fetch_add(1, Ordering::Relaxed);
            let mut now = watch.now();
            (now.following, now.left) = (false, Some(format!("{endpoint}: {left}")));
            drop(now);
            if let Some(told) = &told {
                told(endpoint, left);
            }
        })
    }

    /// Adds the state at this moment to a status. `height` is the number of durable blocks.
    pub fn status(&self, about: &About, height: u64, out: &mut StatusBuilder) {
        let fabric = self.fabric(about, height);
        let mut service = ServiceStatus {
            name: "fabric".to_owned(),
            instance: Some(about.channel.clone()),
            datapath: "socket".to_owned(),
            listen: about.listen.to_string(),
            tip: fabric.blocks.first().map(|block| Tip {
                hash: block.header_hash.clone(),
                height: u32::try_from(block.number).unwrap_or(u32::MAX),
            }),
            summary: fabric.summary(),
            ..ServiceStatus::default()
        };
        let early = self.early.get().map(EarlyWork::counts).unwrap_or_default();
        let host = [
            (metric::FABRIC_HEIGHT, height),
            (metric::FABRIC_BLOCKS, self.totals.blocks()),
            (metric::FABRIC_FOLLOWING, u64::from(fabric.following)),
            (
                metric::FABRIC_SOURCES_LEFT,
                self.sources_left.load(Ordering::Relaxed),
            ),
            (metric::FABRIC_STOPPED, u64::from(fabric.stopped.is_some())),
            (metric::FABRIC_EARLY_VERIFIED, early.verified),
            (metric::FABRIC_EARLY_USED, early.used),
            (metric::FABRIC_EARLY_SKIPPED, early.skipped),
        ];
        for (metric, value) in host {
            service.set_host(metric, value);
        }
        for (code, count) in self.totals.transactions() {
            service.set_labelled(metric::FABRIC_TRANSACTIONS, code.name(), count);
        }
        for (stage, ns) in STAGES.into_iter().zip(self.totals.stages_ns()) {
            service.set_labelled(metric::FABRIC_STAGE, stage, ns);
        }
        let waiting = !fabric.following && fabric.stopped.is_none();
        if let Some(why) = &fabric.stopped {
            out.problems.push(format!("fabric: nothing more is taken: {why}"));
        }
        if let Some(left) = fabric.left.as_ref().filter(|_| waiting) {
            out.warnings
                .push(format!("fabric: no source sends blocks; {left}"));
        }
        service.details.insert(DETAILS.into(), json!(fabric));
        out.services.push(service);
    }

    fn fabric(&self, about: &About, height: u64) -> FabricStatus {
        let mut codes = 0;
        let numbers = (height.saturating_sub(BLOCKS)..height).rev();
        // A block that this process has not committed is not among the results.
        let blocks = numbers
            .map_while(|number| self.results.block(number))
            .take_while(|block| {
                codes += block.codes.len();
                codes <= CODES
            });
        let blocks = blocks.map(|block| record(&block)).collect();
        let now = self.now();
        FabricStatus {
            channel: about.channel.clone(),
            height_at_start: about.height_at_start,
            udp: about.udp.map(|udp| udp.to_string()),
            stopped: now.stopped.clone(),
            following: now.following,
            left: now.left.clone(),
            block_age_ms: now
                .block
                .map(|at| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX)),
            blocks,
        }
    }
}

fn record(block: &BlockResult) -> BlockRecord {
    let mut counts = BTreeMap::new();
    for code in &block.codes {
        let name = TxCode::from_number(*code).map_or("", TxCode::name);
        *counts.entry(name.to_owned()).or_default() += 1;
    }
    let stages = [
        block.parse_ns,
        block.verify_ns,
        block.policy_ns,
        block.mvcc_ns,
        block.ledger_ns,
        block.total_ns,
    ];
    BlockRecord {
        number: block.number,
        transactions: block.transactions,
        valid: block.valid,
        counts,
        codes: to_hex(&block.codes),
        header_hash: to_hex(&block.header_hash),
        commit_hash: block.commit_hash.as_ref().map(|hash| to_hex(hash)),
        stages_ns: STAGES.map(str::to_owned).into_iter().zip(stages).collect(),
        durable_unix_ns: block.durable_unix_ns,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_fabric_grpc::client::Left;
    use lineside_service::Snapshot;

    fn snapshot(watch: &Watch) -> Snapshot {
        let about = About {
            channel: "lab".into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7051)),
            udp: None,
            height_at_start: 2,
        };
        let mut out = StatusBuilder::default();
        watch.status(&about, 3, &mut out);
        Snapshot {
            services: out.services,
            problems: out.problems,
            warnings: out.warnings,
            ..Snapshot::default()
        }
    }

    fn of_fabric(snapshot: &Snapshot) -> FabricStatus {
        serde_json::from_value(snapshot.services[0].details[DETAILS].clone()).unwrap()
    }

    #[test]
    fn a_source_that_is_left_is_a_warning_and_a_stop_a_problem() {
        let watch = Watch::new(&Publisher::anonymous(4).unwrap());
        let fresh = snapshot(&watch);
        assert!(fresh.faults().is_empty() && fresh.warnings.is_empty());
        let text = fresh.to_string();
        assert!(
            text.contains("\n  channel lab\n  source  none has sent a block yet\n"),
            "{text}"
        );

        let told = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&told);
        let on_left = watch.on_left(Some(Arc::new(move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
        })));
        watch.came();
        assert!(of_fabric(&snapshot(&watch)).following);
        on_left("orderer:7050", &Left::Status(503));
        let left = snapshot(&watch);
        assert_eq!(told.load(Ordering::Relaxed), 1);
        assert!(left.faults().is_empty());
        assert!(
            left.warnings
                .iter()
                .any(|warning| warning.contains("orderer:7050")),
            "{left}"
        );
        assert_eq!(left.services[0].host[metric::FABRIC_SOURCES_LEFT.key], 1);
        watch.came();
        assert!(snapshot(&watch).warnings.is_empty());

        watch.stopped("a configuration that nobody signed");
        let stopped = snapshot(&watch);
        let why = "fabric: nothing more is taken: a configuration that nobody signed";
        assert_eq!(stopped.faults(), [why]);
        assert_eq!(stopped.services[0].host[metric::FABRIC_STOPPED.key], 1);
        assert!(!of_fabric(&stopped).following);
        assert!(
            stopped
                .to_string()
                .contains("\n  stopped a configuration that nobody signed\n")
        );
    }

    #[test]
    fn details_have_the_shape_that_clients_read() {
        let watch = Watch::new(&Publisher::anonymous(4).unwrap());
        let status = serde_json::to_value(&snapshot(&watch).services[0]).unwrap();
        let expected = json!({
            "channel": "lab", "height_at_start": 2, "udp": null, "stopped": null, "following": false, "left": null,
            "block_age_ms": null, "blocks": [],
        });
        assert_eq!(status["fabric"], expected);
    }
}

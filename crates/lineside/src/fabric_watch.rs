//! What a running replica says of itself on the console.

use crate::hex::to_hex;
use lineside_console::{BlockRecord, Console, FabricStatus, Observed, ServiceStatus, Snapshot, Tip};
use lineside_fabric::TxCode;
use lineside_fabric::early::EarlyWork;
use lineside_fabric::ledger::Waiter;
use lineside_fabric::ledger::results::{BlockResult, Publisher, Results};
use lineside_fabric::ledger::totals::{STAGES, Totals};
use lineside_fabric_grpc::client::OnLeft;
use lineside_wire::metric;
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

/// Blocks that `/status` has, at most.
const BLOCKS: u64 = 8;
/// Codes that all of them have together, at most: what a status's reader takes is 1 MiB.
const CODES: usize = 200_000;

/// What happens to a replica.
pub struct Watch {
    started: Instant,
    results: Results,
    totals: Arc<Totals>,
    sources_left: AtomicU64,
    /// Where transactions come before their block is whole.
    early: OnceLock<EarlyWork>,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// When the source that is followed sent its last block.
    block: Option<Instant>,
    following: bool,
    left: Option<String>,
    stopped: Option<String>,
}

impl Watch {
    /// Of the replica whose blocks `publisher` is told of.
    pub fn new(publisher: &Publisher) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
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

    /// A block came.
    pub fn came(&self) {
        let mut now = self.now();
        (now.block, now.following) = (Some(Instant::now()), true);
    }

    /// What becomes of transactions that come early is counted there. Only the first call counts.
    pub fn works_early(&self, early: EarlyWork) {
        let _ = self.early.set(early);
    }

    /// Nothing more is taken.
    pub fn stopped(&self, why: &str) {
        let mut now = self.now();
        (now.following, now.stopped) = (false, Some(why.to_owned()));
    }

    /// Notes a source that is left before `told` is told of it.
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

    /// Answers on `console`.
    pub fn serve(
        self: &Arc<Self>,
        console: SocketAddr,
        channel: &str,
        listen: SocketAddr,
        waiter: Waiter,
    ) -> io::Result<Console> {
        let (watch, channel) = (Arc::clone(self), channel.to_owned());
        let observed: Arc<dyn Observed> =
            Arc::new(move || watch.snapshot(&channel, listen, waiter.durable()));
        Console::start(console, observed)
    }

    fn snapshot(&self, channel: &str, listen: SocketAddr, height: u64) -> Snapshot {
        let fabric = self.fabric(channel, height);
        let mut service = ServiceStatus {
            name: "fabric".to_owned(),
            datapath: "socket".to_owned(),
            listen: listen.to_string(),
            tip: fabric.blocks.first().map(|block| Tip {
                hash: block.header_hash.clone(),
                height: u32::try_from(block.number).unwrap_or(u32::MAX),
            }),
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
        let stopped = fabric.stopped.iter();
        let problems = stopped
            .map(|why| format!("fabric: nothing more is taken: {why}"))
            .collect();
        let waiting = !fabric.following && fabric.stopped.is_none();
        let left = fabric.left.iter().filter(|_| waiting);
        let warnings = left
            .map(|left| format!("fabric: no source sends blocks; {left}"))
            .collect();
        service.fabric = Some(fabric);
        Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            uptime_s: self.started.elapsed().as_secs(),
            services: vec![service],
            problems,
            warnings,
        }
    }

    fn fabric(&self, channel: &str, height: u64) -> FabricStatus {
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
            channel: channel.to_owned(),
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

    fn snapshot(watch: &Arc<Watch>) -> Snapshot {
        watch.snapshot("lab", SocketAddr::from(([127, 0, 0, 1], 7051)), 3)
    }

    #[test]
    fn a_source_that_is_left_is_a_warning_and_a_stop_a_problem() {
        let watch = Watch::new(&Publisher::anonymous(4).unwrap());
        let fresh = snapshot(&watch);
        assert!(fresh.faults().is_empty() && fresh.warnings.is_empty());
        assert!(fresh.to_string().contains("none has sent a block yet"), "{fresh}");

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
    }

    fn of_fabric(snapshot: &Snapshot) -> &FabricStatus {
        snapshot.services[0].fabric.as_ref().unwrap()
    }
}

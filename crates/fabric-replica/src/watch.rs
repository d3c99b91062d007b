//! Records the events of a running replica, and makes the replica's status from them.

use crate::status::{BlockRecord, DETAILS, FabricStatus};
use lineside_fabric::TxCode;
use lineside_fabric::early::EarlyWork;
use lineside_fabric::ledger::results::{BlockResult, Publisher, Results};
use lineside_fabric::ledger::totals::{STAGES, Totals};
use lineside_fabric_grpc::client::{LeaveReason, OnEndpointLeft, OnRequestHeld};
use lineside_grpc::RefusedCalls;
use lineside_service::{ServiceStatus, StatusBuilder, Tip};
use lineside_util::hex::to_hex;
use lineside_util::histogram::Histogram;
use lineside_wire::metric;
use serde_json::json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of blocks in a status.
const STATUS_BLOCKS: u64 = 8;
/// Maximum number of validation codes in a status. The console reads a status of at most 1 MiB.
const STATUS_CODES_MAX: usize = 200_000;

/// Parts of a status that do not change while the service runs.
#[derive(Clone, Debug)]
pub struct ReplicaInfo {
    /// Channel of the replica.
    pub channel: String,
    /// Address and port at which the replica serves Deliver.
    pub listen: SocketAddr,
    /// Address and port at which blocks are received over UDP.
    pub udp: Option<SocketAddr>,
    /// Number of blocks in the ledger when the service started.
    pub height_at_start: u64,
    /// Header hash of the last block when the service started.
    pub hash_at_start: Option<[u8; 32]>,
    /// Commit hash of the last block when the service started; the genesis block has none.
    pub commit_hash_at_start: Option<[u8; 32]>,
    /// Time without a working source after which the service is unhealthy; zero means that it never is for this reason.
    pub health_after: Duration,
    /// Histogram of the durations of fdatasync of the ledger's journal.
    pub sync_times: Arc<Histogram>,
}

/// Events of a replica that its status shows.
pub struct Watch {
    results: Results,
    totals: Arc<Totals>,
    sources_left: AtomicU64,
    /// Handle of the early verification, for its counters.
    early: OnceLock<EarlyWork>,
    now: Mutex<WatchState>,
}

#[derive(Default)]
struct WatchState {
    /// Time at which the current source sent its last block.
    block: Option<Instant>,
    following: bool,
    left: Option<String>,
    stopped: Option<String>,
    /// Time since which no source has sent blocks or kept a request open; `None` while a source works.
    without_since: Option<Instant>,
    /// Number of times that the replica left a source since `without_since`.
    tries: u64,
}

impl WatchState {
    /// Records that a source works. Returns the number of failed attempts before and the time that they took; `None` if
    /// there were none.
    fn source_found(&mut self) -> Option<(u64, Duration)> {
        (self.following, self.left) = (true, None);
        let since = self.without_since.take();
        let tries = std::mem::take(&mut self.tries);
        since.filter(|_| tries > 0).map(|since| (tries, since.elapsed()))
    }
}

/// Logs that a source works after failed attempts.
fn log_found(found: Option<(u64, Duration)>, endpoint: &str) {
    if let Some((tries, time)) = found {
        tracing::info!(
            endpoint,
            "following works again: this source sends blocks, after {tries} failed attempts in {} s",
            time.as_secs()
        );
    }
}

impl Watch {
    /// Creates the watch of a replica. `publisher` publishes the results of the replica's blocks.
    pub fn new(publisher: &Publisher) -> Arc<Self> {
        Arc::new(Self {
            results: publisher.results(),
            totals: publisher.totals(),
            sources_left: AtomicU64::new(0),
            early: OnceLock::new(),
            now: Mutex::default(),
        })
    }

    fn now(&self) -> MutexGuard<'_, WatchState> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that the replica needs a source from now on. If no source works in time, the status shows a problem.
    pub fn expects_source(&self) {
        self.now().without_since.get_or_insert_with(Instant::now);
    }

    /// Records that a block arrived.
    pub fn block_arrived(&self) {
        let mut now = self.now();
        now.block = Some(Instant::now());
        let found = now.source_found();
        drop(now);
        log_found(found, "");
    }

    /// Returns a callback that records a source which keeps the request open because the channel has no newer block.
    pub fn on_held(self: &Arc<Self>) -> OnRequestHeld {
        let watch = Arc::clone(self);
        Arc::new(move |endpoint| {
            let mut now = watch.now();
            let found = now.source_found();
            drop(now);
            log_found(found, endpoint);
        })
    }

    /// Sets the handle of the early verification, whose counters the status shows. Only the first call has an effect.
    pub fn works_early(&self, early: EarlyWork) {
        let _ = self.early.set(early);
    }

    /// Records that the replica accepts no further block, and the reason.
    pub fn record_stop(&self, why: &str) {
        let mut now = self.now();
        (now.following, now.stopped) = (false, Some(why.to_owned()));
        // The reason for leaving an earlier source does not explain the stop, so the status must not show it any more.
        (now.left, now.without_since) = (None, None);
    }

    /// Records that, after a stop, the replica also serves no client any more, and the reason.
    pub fn record_withheld(&self, why: &str) {
        let mut now = self.now();
        now.stopped = Some(match now.stopped.take() {
            Some(stopped) => format!("{stopped}; {why}"),
            None => why.to_owned(),
        });
    }

    /// Returns a callback that records a source which the replica has left, and then calls `listener`. Repetitions of
    /// the same reason are reported only at the 2nd, 4th, 8th time and so on. Leaving a source because its channel is
    /// idle does not count as a failure.
    pub fn on_left(self: &Arc<Self>, listener: Option<OnEndpointLeft>) -> OnEndpointLeft {
        let watch = Arc::clone(self);
        Arc::new(move |endpoint, left| {
            if *left == LeaveReason::Silent {
                return tracing::debug!(endpoint, "{left}; the replica continues with the next source");
            }
            watch.sources_left.fetch_add(1, Ordering::Relaxed);
            let why = format!("{endpoint}: {left}");
            let mut now = watch.now();
            now.tries += 1;
            let is_news = now.left.as_ref() != Some(&why) || now.tries.is_power_of_two();
            (now.following, now.left) = (false, Some(why));
            now.without_since.get_or_insert_with(Instant::now);
            drop(now);
            if let Some(listener) = listener.as_ref().filter(|_| is_news) {
                listener(endpoint, left);
            }
        })
    }

    /// Adds the current state to a status. `height` is the number of durable blocks, and `refused` counts the calls of
    /// clients that the server refused.
    pub fn status(&self, about: &ReplicaInfo, height: u64, refused: &RefusedCalls, out: &mut StatusBuilder) {
        let fabric = self.fabric(about, height);
        let protocols = ["gRPC"].into_iter().chain(about.udp.map(|_| "UDP"));
        let mut service = ServiceStatus {
            name: "fabric".to_owned(),
            instance: Some(about.channel.clone()),
            datapath: "socket".to_owned(),
            protocols: protocols.map(str::to_owned).collect(),
            listen: about.listen.to_string(),
            // In Fabric, the height of a channel is the number of its blocks.
            tip: fabric.header_hash.clone().map(|hash| Tip {
                hash,
                block: height.saturating_sub(1),
                height: u32::try_from(height).unwrap_or(u32::MAX),
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
        for (code, count) in refused.counts() {
            service.set_labelled(metric::FABRIC_CALLS_REFUSED, code, count);
        }
        let stages = STAGES.into_iter().zip(self.totals.stages_ns());
        // The last stage is the sum of the other stages and of waiting times; it has its own histogram.
        for (stage, ns) in stages.take(STAGES.len() - 1) {
            service.set_labelled(metric::FABRIC_STAGE, stage, ns);
        }
        service.set_histogram(metric::FABRIC_COMMIT, self.totals.commit_ns());
        service.set_histogram(metric::FDATASYNC, about.sync_times.read());
        let named = |what: String| format!("fabric: channel {}: {what}", about.channel);
        if let Some(why) = &fabric.stopped {
            out.problems.push(named(format!(
                "the replica has stopped and accepts no further block: {why}"
            )));
        } else if let Some(time) = fabric.without_source_ms.map(Duration::from_millis) {
            let left = fabric.left.as_deref().unwrap_or("no orderer was reached yet");
            let what = named(format!("no source of blocks for {} s; {left}", time.as_secs()));
            if !about.health_after.is_zero() && time >= about.health_after {
                out.problems.push(what);
            } else if fabric.left.is_some() {
                out.warnings.push(what);
            }
        }
        service.details.insert(DETAILS.into(), json!(fabric));
        out.services.push(service);
    }

    fn fabric(&self, about: &ReplicaInfo, height: u64) -> FabricStatus {
        let mut codes = 0;
        let numbers = (height.saturating_sub(STATUS_BLOCKS)..height).rev();
        // The results contain only the blocks that this process has committed.
        let blocks = numbers
            .map_while(|number| self.results.block(number))
            .take_while(|block| {
                codes += block.codes.len();
                codes <= STATUS_CODES_MAX
            });
        let blocks: Vec<BlockRecord> = blocks.map(|block| record(&block)).collect();
        // If no block was committed since the start, the newest block is that of the start; later blocks are in the
        // results.
        let at_start = (height == about.height_at_start)
            .then_some((about.hash_at_start, about.commit_hash_at_start))
            .map(|(hash, commit_hash)| {
                (
                    hash.map(|hash| to_hex(&hash)),
                    commit_hash.map(|hash| to_hex(&hash)),
                )
            });
        let newest = blocks.first();
        let newest = newest.map(|block| (Some(block.header_hash.clone()), block.commit_hash.clone()));
        let (header_hash, commit_hash) = newest.or(at_start).unwrap_or_default();
        let milliseconds = |at: Instant| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
        let now = self.now();
        FabricStatus {
            channel: about.channel.clone(),
            height,
            header_hash,
            commit_hash,
            height_at_start: about.height_at_start,
            udp: about.udp.map(|udp| udp.to_string()),
            stopped: now.stopped.clone(),
            following: now.following,
            left: now.left.clone(),
            without_source_ms: now.without_since.map(milliseconds),
            block_age_ms: now.block.map(milliseconds),
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
    use lineside_service::Snapshot;

    fn snapshot(watch: &Watch) -> Snapshot {
        snapshot_after(watch, Duration::from_secs(60))
    }

    fn snapshot_after(watch: &Watch, health_after: Duration) -> Snapshot {
        let about = ReplicaInfo {
            channel: "lab".into(),
            listen: SocketAddr::from(([127, 0, 0, 1], 7051)),
            udp: None,
            height_at_start: 3,
            hash_at_start: Some([0x1a; 32]),
            commit_hash_at_start: Some([0x2b; 32]),
            health_after,
            sync_times: Arc::new(Histogram::of_times()),
        };
        let mut out = StatusBuilder::default();
        watch.status(&about, 3, &RefusedCalls::default(), &mut out);
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

    fn counting(watch: &Arc<Watch>) -> (OnEndpointLeft, Arc<AtomicU64>) {
        let told = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&told);
        let on_left = watch.on_left(Some(Arc::new(move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
        })));
        (on_left, told)
    }

    #[test]
    fn a_source_that_is_left_is_a_warning_and_a_stop_a_problem() {
        let watch = Watch::new(&Publisher::anonymous(4).unwrap());
        let fresh = snapshot(&watch);
        assert!(fresh.faults().is_empty() && fresh.warnings.is_empty());
        let text = fresh.to_string();
        assert!(
            text.contains("\n  channel lab\n  source  no orderer was reached yet\n"),
            "{text}"
        );
        // The status has the newest block although this process has committed no block.
        assert!(
            text.contains(&format!(
                "\n  newest  block 2, header hash {}, commit",
                "1a".repeat(32)
            )),
            "{text}"
        );
        // Blocks 0 to 2: the height is their number.
        let tip = fresh.services[0].tip.as_ref().unwrap();
        assert_eq!((tip.block, tip.height), (2, 3));
        assert!(text.contains(", block 2, at height 3\n"), "{text}");

        let (on_left, told) = counting(&watch);
        watch.block_arrived();
        assert!(of_fabric(&snapshot(&watch)).following);
        on_left("orderer:7050", &LeaveReason::Status(503));
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
        watch.block_arrived();
        let again = snapshot(&watch);
        assert!(again.warnings.is_empty() && of_fabric(&again).left.is_none());

        on_left("orderer:7050", &LeaveReason::Status(503));
        watch.record_stop("a configuration without signatures");
        let stopped = snapshot(&watch);
        let why = "fabric: channel lab: the replica has stopped and accepts no further block: a configuration \
                   without signatures";
        assert_eq!(stopped.faults(), [why]);
        assert_eq!(stopped.services[0].host[metric::FABRIC_STOPPED.key], 1);
        let text = stopped.to_string();
        assert!(!of_fabric(&stopped).following && !text.contains("503"), "{text}");
        assert!(text.contains("\n  stopped a configuration without signatures\n"));
    }

    #[test]
    fn a_channel_without_new_blocks_stays_healthy() {
        let watch = Watch::new(&Publisher::anonymous(4).unwrap());
        watch.expects_source();
        let (on_left, told) = counting(&watch);
        watch.on_held()("orderer:7050");
        for _ in 0..30 {
            on_left("orderer:7050", &LeaveReason::Silent);
        }
        let idle = snapshot_after(&watch, Duration::from_nanos(1));
        assert!(idle.faults().is_empty() && idle.warnings.is_empty(), "{idle}");
        assert!(of_fabric(&idle).following && told.load(Ordering::Relaxed) == 0);
        assert_eq!(idle.services[0].host[metric::FABRIC_SOURCES_LEFT.key], 0);
        let text = idle.to_string();
        assert!(
            text.contains("\n  source  waits for the next block; the channel has no newer one\n"),
            "{text}"
        );
    }

    #[test]
    fn without_a_source_for_long_the_replica_is_not_healthy() {
        let watch = Watch::new(&Publisher::anonymous(4).unwrap());
        let soon = Duration::from_secs(5);
        // While blocks arrive over UDP, the replica needs orderers only for missing blocks, so the status shows no
        // problem without an orderer.
        assert!(snapshot_after(&watch, soon).faults().is_empty());
        watch.expects_source();
        watch.now().without_since = Instant::now().checked_sub(soon);
        assert!(snapshot(&watch).faults().is_empty());
        assert!(snapshot_after(&watch, Duration::ZERO).faults().is_empty());
        let faults = snapshot_after(&watch, soon).faults().to_vec();
        assert!(
            faults.len() == 1 && faults[0].contains("channel lab: no source of blocks for 5 s"),
            "{faults:?}"
        );

        let (on_left, told) = counting(&watch);
        for _ in 0..9 {
            on_left("orderer:7050", &LeaveReason::Connect("refused".into()));
        }
        // The first, second, fourth and eighth repetition are reported.
        assert_eq!(told.load(Ordering::Relaxed), 4);
        let faults = snapshot_after(&watch, soon).faults().to_vec();
        assert!(
            faults[0].contains("orderer:7050: no connection: refused"),
            "{faults:?}"
        );
        watch.on_held()("orderer:7050");
        assert!(snapshot_after(&watch, soon).faults().is_empty());
        on_left("orderer:7050", &LeaveReason::Connect("refused".into()));
        assert_eq!(told.load(Ordering::Relaxed), 5);
    }

    #[test]
    fn details_have_the_shape_that_clients_read() {
        let watch = Watch::new(&Publisher::anonymous(4).unwrap());
        let status = serde_json::to_value(&snapshot(&watch).services[0]).unwrap();
        let expected = json!({
            "channel": "lab", "height": 3, "header_hash": "1a".repeat(32), "commit_hash": "2b".repeat(32),
            "height_at_start": 3, "udp": null, "stopped": null, "following": false, "left": null,
            "without_source_ms": null, "block_age_ms": null, "blocks": [],
        });
        assert_eq!(status["fabric"], expected);
    }
}

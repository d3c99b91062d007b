//! Soak of `spv`: threads send requests to several datapaths over one store at the same time, while the chain changes,
//! blocks and lines are evicted, and misses are filled in again. Each reply is compared with the states that the chain
//! had during the request.

mod check;
pub mod column;
mod sabotage;
mod truth;

pub use check::Fault;
pub use sabotage::Sabotage;

use crate::diff::Datapath;
use crate::frames;
use crate::spv::{self, DatapathKind};
use check::{Ask, Checked, Checker, Window};
use lineside_fastpath::{FastPath, FrameVerdict, Host, Reader, Readers, Reply, Source, Verdict, lease};
use lineside_spv::fastpath::SpvFastPath;
use lineside_spv::host::SpvHost;
use lineside_spv::store::{Geometry, Store};
use lineside_spv::writer::{SpvFill, StoreWriter, WriterCounts};
use lineside_testkit::Random;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::frame::{self, Addressing};
use lineside_wire::{SPV_PORT, SPV_PROOF_DEPTH_MAX, SPV_ROOTS_MAX, csum};
use lineside_xdp::{XdpDatapath, XdpError};
use sabotage::Saboteur;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use truth::{HEIGHTS, History, Names, POSITIONS, SoakChain, State, Tx};

/// Lease in nanoseconds; it is longer than any soak.
const LEASE_NS: u64 = 86_400_000_000_000;
/// Small geometry of the store, so that lines and blocks are evicted all the time.
const GEOMETRY: Geometry = Geometry {
    line_bits: 10,
    ways: 4,
    block_bits: 5,
    tree_bits: 10,
    paper_index: false,
    paper_format: true,
};
/// Maximum number of hashes in a path of a block, which has at most 2 * 32 transactions.
const DEPTH_MAX: usize = 6;
/// Number of positions of each height to which most requests refer.
const HOT: u32 = 8;
const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const NEAR_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));
const FAR_V4: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const NEAR_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2));
const FAR_V6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1));
const FAR_PORT: u16 = 40_000;
/// Maximum number of faults whose text the report contains.
const FAULT_TEXTS_MAX: usize = 5;

/// Options of a soak.
#[derive(Clone, Debug)]
pub struct Options {
    /// Datapaths to test, each at most once.
    pub datapaths: Vec<DatapathKind>,
    /// Number of checked replies of the fast path, over all datapaths.
    pub replies: u64,
    /// Seed of the blocks, changes and requests. The interleaving of threads still differs between runs.
    pub seed: u64,
    /// True to stop at the first fault.
    pub stop_at_fault: bool,
    /// Rule to break, so that the soak must find faults; `None` breaks no rule.
    pub sabotage: Option<Sabotage>,
}

/// Counts of one datapath.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatapathCounts {
    /// Number of replies of the fast path; each is checked.
    pub replies: u64,
    /// Number of requests that the fast path forwarded to the host. The host's replies are checked, too.
    pub forwarded: u64,
    /// Number of the replies during which the chain changed.
    pub across_change: u64,
    /// Number of further replies that could not be checked, because the states of the chain at their time were no
    /// longer stored. They are not counted above.
    pub too_late: u64,
}

/// Results of a soak.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Counts by datapath, in the order of the options.
    pub datapaths: Vec<(&'static str, DatapathCounts)>,
    /// Number of replies whose parts never belonged together.
    pub torn: u64,
    /// Number of replies that were out of date.
    pub stale: u64,
    /// Number of replies that were never true.
    pub wrong: u64,
    /// Texts of the first faults.
    pub told: Vec<String>,
    /// Number of changes of the chain.
    pub changes: u64,
    /// Number of writes into the fast-path table.
    pub written: WriterCounts,
    /// Duration of the soak.
    pub elapsed: Duration,
}

impl Report {
    /// Returns the number of checked replies of the fast path.
    pub fn replies(&self) -> u64 {
        self.datapaths.iter().map(|(_, counts)| counts.replies).sum()
    }

    /// Returns the number of faults of every kind.
    pub fn faults(&self) -> u64 {
        self.torn + self.stale + self.wrong
    }
}

/// State that the threads of a phase share.
struct Scene<'a> {
    names: Names,
    history: &'a History,
    store: Arc<Store>,
    host: SpvHost,
    readers: Readers,
    options: &'a Options,
    stop: AtomicBool,
    done: &'a AtomicU64,
    faults: Mutex<(Report, Option<XdpError>)>,
}

/// Runs the soak in two phases over one store. In the first phase, a change of the chain waits until the kernel has
/// finished the answers in progress, as in production. In the second phase it does not wait, because test runs of the
/// program make the wait unnecessary; this allows far more changes. The soak calls `progress` now and then with the
/// number of checked replies.
///
/// # Errors
/// Error of the operating system.
pub fn run(options: &Options, progress: &mut dyn FnMut(u64)) -> Result<Report, XdpError> {
    let started = Instant::now();
    let names = Names::new(options.seed);
    let (mut xdp, store) = open_store(options.datapaths.contains(&DatapathKind::Xdp))?;
    let (done, history) = (AtomicU64::new(0), History::new());
    let mut report = Report {
        datapaths: options
            .datapaths
            .iter()
            .map(|kind| (kind.name(), DatapathCounts::default()))
            .collect(),
        ..Report::default()
    };
    let phases = if xdp.is_some() {
        &[true, false][..]
    } else {
        &[false]
    };
    let mut state = State::empty();
    let mut random = Random(options.seed);
    for (number, &kernel) in phases.iter().enumerate() {
        let datapaths = options.datapaths.len().max(1) as u64;
        let left = options.replies.saturating_sub(done.load(Relaxed));
        let wanted = Arc::new(Mutex::new(state));
        let scene = Scene::new(options, names, &history, &store, kernel, &wanted, &done);
        let phase = Phase {
            datapaths: &options.datapaths,
            due: left.div_ceil((phases.len() - number) as u64).div_ceil(datapaths),
            kernel,
            number: number as u64,
        };
        let mut driver = Driver {
            state,
            random,
            wanted,
        };
        phase.run(&scene, xdp.as_mut(), &mut driver, progress, &mut report)?;
        (state, random) = (driver.state, driver.random);
        if options.stop_at_fault && report.faults() > 0 {
            break;
        }
    }
    report.elapsed = started.elapsed();
    Ok(report)
}

fn endpoint() -> Endpoint {
    Endpoint::new(NEAR_MAC, false, &[NEAR_V4, NEAR_V6]).unwrap_or_default()
}

fn open_store(kernel: bool) -> Result<(Option<XdpDatapath>, Arc<Store>), XdpError> {
    let no_memory = |source| XdpError::System {
        what: "memory for the store".into(),
        source,
    };
    if !kernel {
        return Ok((None, Arc::new(Store::anonymous(&GEOMETRY).map_err(no_memory)?)));
    }
    let mut datapath = XdpDatapath::load(vec![spv::program(&GEOMETRY, SPV_PORT)], None)?;
    datapath.start(&endpoint())?;
    let store = spv::store(&mut datapath, &GEOMETRY)?;
    store.format(&GEOMETRY).map_err(no_memory)?;
    Ok((Some(datapath), Arc::new(store)))
}

impl<'a> Scene<'a> {
    fn new(
        options: &'a Options,
        names: Names,
        history: &'a History,
        store: &Arc<Store>,
        kernel: bool,
        wanted: &Arc<Mutex<State>>,
        done: &'a AtomicU64,
    ) -> Self {
        let writer: Box<dyn SpvFill + Send> = match options.sabotage {
            Some(fault) => Box::new(Saboteur::new(Arc::clone(store), fault)),
            None => Box::new(StoreWriter::new(Arc::clone(store))),
        };
        let readers = Readers::new(kernel);
        let waited_for = match options.sabotage {
            Some(Sabotage::NoGrace) => Readers::default(),
            _ => readers.clone(),
        };
        let host = SpvHost::new(
            SoakChain::new(names, Arc::clone(wanted)),
            writer,
            waited_for,
            true,
        );
        lease::renew(&store.control().lease_until_ns, LEASE_NS);
        Self {
            names,
            history,
            store: Arc::clone(store),
            host,
            readers,
            options,
            stop: AtomicBool::new(false),
            done,
            faults: Mutex::default(),
        }
    }

    fn fault(&self, kind: Fault, datapath: &str, said: &str, ask: &Ask) {
        let mut held = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let report = &mut held.0;
        match kind {
            Fault::Torn => report.torn += 1,
            Fault::Stale => report.stale += 1,
            Fault::Wrong => report.wrong += 1,
        }
        if report.told.len() < FAULT_TEXTS_MAX {
            report
                .told
                .push(format!("{datapath}: {kind:?}: {said}; the request was {ask:?}"));
        }
        if self.options.stop_at_fault {
            self.stop.store(true, Relaxed);
        }
    }

    fn fail(&self, error: XdpError) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).1 = Some(error);
        self.stop.store(true, Relaxed);
    }
}

/// Thread that changes the chain.
struct Driver {
    state: State,
    random: Random,
    wanted: Arc<Mutex<State>>,
}

impl Driver {
    /// Makes one change of the chain, as when a node finds a new best branch.
    fn change(&mut self, scene: &Scene<'_>) {
        self.state = self.state.next(&mut self.random);
        scene.history.announce(&self.state);
        *self.wanted.lock().unwrap_or_else(PoisonError::into_inner) = self.state;
        match scene.host.follow() {
            Ok(()) => scene.history.commit(self.state.number),
            // The chain accepts each step of its own plan, so any error is a fault that the soak has to report.
            Err(error) => scene.fault(
                Fault::Wrong,
                "host",
                &error.to_string(),
                &Ask::Paper(Tx::default()),
            ),
        }
    }

    /// Fills the newest blocks into the table, as after a start, in addition to the misses that are filled.
    fn refill(&mut self, scene: &Scene<'_>) {
        scene.host.prefill(self.random.below(6) as u32);
    }

    /// Pauses between two changes; some changes follow each other without a pause. With the kernel, a change takes some
    /// 10 ms, in which the fast path does not answer, and most pauses have this length.
    fn pause(&mut self, kernel: bool) {
        let part = self.random.below(400);
        if part > 40 {
            std::thread::sleep(Duration::from_micros(part) * if kernel { 50 } else { 1 });
        }
    }
}

struct Phase<'a> {
    datapaths: &'a [DatapathKind],
    /// Number of replies that each datapath must give.
    due: u64,
    /// True if a change waits for the kernel's answers in progress.
    kernel: bool,
    number: u64,
}

impl Phase<'_> {
    fn run(
        &self,
        scene: &Scene<'_>,
        mut xdp: Option<&mut XdpDatapath>,
        driver: &mut Driver,
        progress: &mut dyn FnMut(u64),
        report: &mut Report,
    ) -> Result<(), XdpError> {
        let before = driver.state.number;
        driver.change(scene);
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for &kind in self.datapaths {
                let datapath = xdp.take_if(|_| kind == DatapathKind::Xdp);
                let seed = scene.options.seed ^ (kind as u64 + 1) << 56 ^ self.number << 48;
                threads.push(scope.spawn(move || ask_all(scene, kind, datapath, self.due, Random(seed))));
            }
            let mut shown = Instant::now();
            while !threads.iter().all(|thread| thread.is_finished()) {
                driver.change(scene);
                driver.refill(scene);
                driver.pause(self.kernel);
                if shown.elapsed() > Duration::from_millis(200) {
                    progress(scene.done.load(Relaxed));
                    shown = Instant::now();
                }
            }
            for (thread, kind) in threads.into_iter().zip(self.datapaths) {
                let counts = match thread.join() {
                    Ok(counts) => counts,
                    Err(panic) => std::panic::resume_unwind(panic),
                };
                let place = report.datapaths.iter_mut().find(|(name, _)| *name == kind.name());
                if let Some((_, sum)) = place {
                    sum.replies += counts.replies;
                    sum.forwarded += counts.forwarded;
                    sum.across_change += counts.across_change;
                    sum.too_late += counts.too_late;
                }
            }
        });
        report.changes += u64::from(driver.state.number - before);
        let written = scene.host.writer_counts();
        report.written.fills += written.fills;
        report.written.conflicts += written.conflicts;
        report.written.invalidations += written.invalidations;
        report.written.late_fills += written.late_fills;
        report.written.tree_fills += written.tree_fills;
        report.written.tree_evictions += written.tree_evictions;
        let mut held = scene.faults.lock().unwrap_or_else(PoisonError::into_inner);
        report.torn += held.0.torn;
        report.stale += held.0.stale;
        report.wrong += held.0.wrong;
        report.told.append(&mut held.0.told);
        report.told.truncate(FAULT_TEXTS_MAX);
        held.1.take().map_or(Ok(()), Err)
    }
}

/// Datapath in the form in which a thread sends requests to it.
enum DatapathHandle<'a> {
    /// Fast path that accepts payloads, as in the socket datapath.
    FastPath(Box<SpvFastPath>),
    /// Datapath that accepts whole frames.
    Frames(&'a mut dyn Datapath),
}

/// Sends requests to one datapath until it has given its number of replies, and passes forwarded requests to the host.
/// A thread runs this function for each datapath.
fn ask_all(
    scene: &Scene<'_>,
    kind: DatapathKind,
    xdp: Option<&mut XdpDatapath>,
    due: u64,
    random: Random,
) -> DatapathCounts {
    let mut native;
    let asked = match (kind, xdp) {
        (DatapathKind::Xdp, Some(datapath)) => DatapathHandle::Frames(datapath),
        (DatapathKind::Native, _) => {
            match frames::native::<spv::Spv>(&scene.store, &GEOMETRY, &endpoint(), SPV_PORT) {
                Ok(datapath) => native = datapath,
                Err(source) => {
                    let what = "memory for frames".into();
                    scene.fail(XdpError::System { what, source });
                    return DatapathCounts::default();
                }
            }
            DatapathHandle::Frames(&mut native)
        }
        _ => DatapathHandle::FastPath(Box::new(SpvFastPath::new(Arc::clone(&scene.store)))),
    };
    let mut thread = Thread {
        scene,
        kind,
        asked,
        reader: scene.readers.join(),
        random,
        checker: Checker::new(&scene.names, scene.history),
        payload: Vec::new(),
        reply: Reply::default(),
        counts: DatapathCounts::default(),
    };
    while thread.counts.replies < due && !scene.stop.load(Relaxed) {
        if let Err(error) = thread.ask() {
            scene.fail(error);
        }
    }
    thread.counts
}

struct Thread<'a> {
    scene: &'a Scene<'a>,
    kind: DatapathKind,
    asked: DatapathHandle<'a>,
    reader: Reader,
    random: Random,
    checker: Checker<'a>,
    payload: Vec<u8>,
    reply: Reply,
    counts: DatapathCounts,
}

const FROM: Source = Source {
    address: FAR_V4,
    port: FAR_PORT,
};

impl Thread<'_> {
    fn any_tx(&mut self) -> Tx {
        let hot = self.random.below(16) != 0;
        Tx {
            height: self.random.below(HEIGHTS as u64) as u32,
            position: self.random.below(if hot { HOT } else { POSITIONS }.into()) as u32,
        }
    }

    fn next_ask(&mut self) -> Ask {
        match self.random.below(8) {
            0..3 => Ask::Paper(self.any_tx()),
            3..5 => Ask::Root(self.any_tx(), self.random.next()),
            5..7 => {
                // The request has room for any path.
                let room = DEPTH_MAX + self.random.index(SPV_PROOF_DEPTH_MAX + 1 - DEPTH_MAX);
                Ask::Proof(self.any_tx(), room, self.random.next())
            }
            _ => {
                let mut all = [Tx::default(); SPV_ROOTS_MAX];
                // The table rarely contains all items of a long request, so most requests are short.
                let count = 1 + self.random.below(4) as usize * self.random.below(6) as usize;
                all[..count].fill_with(|| self.any_tx());
                Ask::Roots(all, count, self.random.next())
            }
        }
    }

    /// Sends one request to the fast path and, if the fast path forwards it, to the host.
    fn ask(&mut self) -> Result<(), XdpError> {
        let ask = self.next_ask();
        ask.write(&self.scene.names, &mut self.payload);
        let history = self.scene.history;
        let before = history.committed();
        let in_kernel = self.kind == DatapathKind::Xdp;
        if !in_kernel {
            self.reader.pin();
        }
        let answered = self.fastpath();
        self.linger();
        // A program in the kernel has sent its reply before this thread continues; a thread of the socket datapath
        // sends it only now.
        let oldest = if in_kernel { before } else { history.committed() };
        self.reader.unpin();
        let window = Window {
            oldest,
            newest: history.announced(),
        };
        let name = self.kind.name();
        match answered? {
            Some(Ok(())) => {
                let checked = self.checker.check(&ask, self.reply.as_bytes(), window, false);
                if checked == Checked::TooLate {
                    self.counts.too_late += 1;
                    return Ok(());
                }
                self.count(checked, name, &ask);
                self.counts.replies += 1;
                self.counts.across_change += u64::from(window.newest != before);
                if self.counts.replies.is_multiple_of(1024) {
                    self.scene.done.fetch_add(1024, Relaxed);
                }
                return Ok(());
            }
            Some(Err(what)) => {
                self.counts.replies += 1;
                self.scene.fault(Fault::Torn, name, what, &ask);
                return Ok(());
            }
            None => (),
        }
        self.counts.forwarded += 1;
        self.reply.clear();
        let verdict = self
            .scene
            .host
            .serve(FROM, &self.payload, &mut self.reply, &self.reader);
        self.linger();
        let oldest = history.committed();
        self.reader.unpin();
        let window = Window {
            oldest,
            newest: history.announced(),
        };
        let checked = match verdict {
            Verdict::Reply => self.checker.check(&ask, self.reply.as_bytes(), window, true),
            other => Checked::Fault(Fault::Wrong, format!("{other:?}")),
        };
        self.count(checked, "host", &ask);
        Ok(())
    }

    /// Delays some replies, as if they waited in a batch.
    fn linger(&mut self) {
        if self.random.below(512) == 0 {
            std::thread::yield_now();
        }
    }

    fn count(&mut self, checked: Checked, name: &str, ask: &Ask) {
        match checked {
            Checked::True | Checked::TooLate => (),
            Checked::Fault(fault, said) => self.scene.fault(fault, name, &said, ask),
        }
    }

    /// Returns whether the fast path answered; if it did, the value inside is the fault of the frame around the
    /// payload, if any.
    fn fastpath(&mut self) -> Result<Option<Result<(), &'static str>>, XdpError> {
        self.reply.clear();
        let datapath = match &mut self.asked {
            DatapathHandle::FastPath(fastpath) => {
                return Ok(
                    match fastpath.answer(FROM, lease::now_ns(), &self.payload, &mut self.reply) {
                        Verdict::Reply => Some(Ok(())),
                        Verdict::Forward => None,
                        Verdict::Drop(_) => Some(Err("a valid request was dropped")),
                    },
                );
            }
            DatapathHandle::Frames(datapath) => datapath,
        };
        let v6 = self.random.below(4) == 0;
        let to = Addressing {
            source_mac: FAR_MAC,
            destination_mac: NEAR_MAC,
            vlan: (self.random.below(4) == 0).then_some(7),
            source: if v6 { FAR_V6 } else { FAR_V4 },
            destination: if v6 { NEAR_V6 } else { NEAR_V4 },
            source_port: FAR_PORT,
            destination_port: SPV_PORT,
        };
        let mut room = [0; 1514];
        let bytes = frame::build(&mut room, &to, &self.payload).unwrap_or(0);
        let (verdict, left) = datapath.run(&room[..bytes])?;
        match verdict {
            FrameVerdict::Transmit => Ok(Some(unframe(&left, &to, &mut self.reply))),
            FrameVerdict::Pass if left == room[..bytes] => Ok(None),
            FrameVerdict::Pass => Ok(Some(Err("a passed frame was changed"))),
            FrameVerdict::Drop(_) => Ok(Some(Err("a valid request was dropped"))),
        }
    }
}

/// Stores the payload of the reply to a frame of `to` in `payload`; returns the fault of the frame if it has one.
fn unframe(reply: &[u8], to: &Addressing, payload: &mut Reply) -> Result<(), &'static str> {
    let found = frame::parse(reply).ok_or("the reply is not a UDP datagram")?;
    let octets = |address: IpAddr| match address {
        IpAddr::V4(v4) => csum::sum(&v4.octets()),
        IpAddr::V6(v6) => csum::sum(&v6.octets()),
    };
    let turned = (found.source, found.destination) == (to.destination, to.source)
        && (found.source_port, found.destination_port) == (to.destination_port, to.source_port)
        && (&reply[..6], &reply[6..12]) == (&to.source_mac[..], &to.destination_mac[..]);
    let udp = &reply[found.udp..found.payload().end];
    let sum = octets(found.source) + octets(found.destination) + 17 + udp.len() as u64 + csum::sum(udp);
    match () {
        () if !turned => Err("the reply has another destination"),
        () if csum::fold(sum) != 0xffff => Err("the reply's checksum is wrong"),
        () if !payload.put(&reply[found.payload()]) => Err("the reply is too long"),
        () => Ok(()),
    }
}

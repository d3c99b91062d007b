//! Checks that `column` never returns outdated rows: a row that is read through Lineside has content that the table had
//! at some moment between request and answer, whatever client changes the table and in whatever way. A scan misses no
//! row that was present the whole time.
//!
//! Some threads change rows, through Lineside and directly in the table. Others read through the fast path, through the
//! host, and directly from the table. Each cell of each answer is checked. In a first phase, the table itself reports
//! its changes. In a second phase, a server reports them whose messages get lost, and leases end. Alternatively, the
//! table is an external one ([`run_over`]) whose servers report changes.

mod actors;
mod rows;
mod server;

pub use lineside_column::coherence::Counts;
pub use rows::Fault;

use actors::Scene;
use lineside_column::coherence::{self, Coherence};
use lineside_column::embedded::{ChangeListener, Embedded};
use lineside_column::fastpath::ColumnFastPath;
use lineside_column::host::{ChangeAnnouncer, CoherenceMode, ColumnHost, Setup};
use lineside_column::servers::Servers;
use lineside_column::store::{Geometry, Store};
use lineside_column::table::{ColumnName, Table};
use lineside_column::writer::ColumnWriter;
use lineside_fastpath::{FastPath, lease};
use lineside_testkit::Random;
use rows::Row;
use server::{LossyServer, SLACK_NS};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Number of rows in each column.
const ROWS: usize = 512;
/// Names of the columns. They are as long as the name in the paper.
const COLUMNS: [&str; 2] = ["entry:foo", "entry:bar"];
/// Lease of the fast path in nanoseconds; it is renewed all the time.
const LEASE_NS: u64 = 10_000_000_000;
/// Maximum number of faults whose text the report contains.
const FAULT_TEXTS_MAX: usize = 5;
/// Maximum number of cells that the host answers for each cell that the fast path answers.
const HOST_FOR_ONE_OF_FASTPATH: u64 = 100;

/// Rule that is broken on purpose. If a check then finds no fault, the check itself is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Changes made directly in the table are not reported.
    Untold,
    /// A server does not wait for the lease to end when its begin-write notification (PRE) is not acknowledged.
    Hasty,
    /// The clock of the fast path does not advance, so no cell and no lease expires there.
    NoClock,
}

/// Options of a check.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Number of cells to check in answers of the fast path; cells of other answers are checked in addition.
    pub reads: u64,
    /// Seed of the requests. The interleaving of threads still differs between runs.
    pub seed: u64,
    /// True to stop at the first fault.
    pub stop_at_fault: bool,
    /// Rule to break, so that the check must find faults; `None` breaks no rule.
    pub sabotage: Option<Sabotage>,
}

/// Results of a check.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Number of cells that were checked.
    pub reads: u64,
    /// Number of checked cells that the fast path answered.
    pub fastpath: u64,
    /// Number of checked cells that the host answered.
    pub host: u64,
    /// Number of checked cells that were read directly from the table.
    pub direct: u64,
    /// Number of changes, both through Lineside and directly in the table.
    pub changes: u64,
    /// Number of requests that were refused or got no answer.
    pub unanswered: u64,
    /// Number of cells whose content was out of date.
    pub stale: u64,
    /// Number of cells whose content the table never had.
    pub wrong: u64,
    /// Texts of the first faults.
    pub told: Vec<String>,
    /// Counters of the coherence protocol between the table and the fast path.
    pub coherence: Vec<coherence::Counts>,
    /// Duration of the check.
    pub elapsed: Duration,
}

/// External table with a fast path for it.
#[derive(Debug)]
pub struct Over {
    /// Store from which the fast path answers.
    pub store: Arc<Store>,
    /// Coherence protocol between the table and the fast path.
    pub coherence: Arc<Coherence>,
    /// Empty table with the columns `entry:foo` and `entry:bar`. As in HBase, a deletion in it hides writes of the same
    /// millisecond.
    pub table: Arc<dyn Table>,
    /// Way in which the fast path learns of changes.
    pub coherence_mode: CoherenceMode,
}

/// Fast path that is tested: its store of the size [`geometry`], and its implementation.
pub struct TestedFastPath {
    /// Store from which the fast path answers.
    pub store: Arc<Store>,
    /// Implementation that answers from the store.
    pub fastpath: Box<dyn FastPath>,
}

/// Returns a store of the tested size, and its coherence protocol.
///
/// # Errors
/// The memory cannot be allocated.
pub fn fastpath() -> io::Result<(Arc<Store>, Arc<Coherence>)> {
    let store = Arc::new(Store::anonymous(&geometry())?);
    let coherence = coherence_of(&store);
    Ok((store, coherence))
}

fn coherence_of(store: &Arc<Store>) -> Arc<Coherence> {
    let writer = ColumnWriter::new(Arc::clone(store));
    Arc::new(Coherence::new(Box::new(writer)))
}

/// Counts that the threads share in addition to the scene.
#[derive(Debug, Default)]
struct Tally {
    fastpath: AtomicU64,
    host: AtomicU64,
    direct: AtomicU64,
    changes: AtomicU64,
    unanswered: AtomicU64,
    stale: AtomicU64,
    wrong: AtomicU64,
    told: Mutex<Vec<String>>,
    stop: AtomicBool,
}

impl Tally {
    fn reads(&self) -> u64 {
        self.fastpath.load(Relaxed) + self.host.load(Relaxed) + self.direct.load(Relaxed)
    }

    fn tell(&self, report: &mut Report) {
        report.fastpath = self.fastpath.load(Relaxed);
        report.host = self.host.load(Relaxed);
        report.direct = self.direct.load(Relaxed);
        report.reads = self.reads();
        report.changes = self.changes.load(Relaxed);
        report.unanswered = self.unanswered.load(Relaxed);
        report.stale = self.stale.load(Relaxed);
        report.wrong = self.wrong.load(Relaxed);
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        report.told.clone_from(&told);
    }

    fn fault(&self, fault: Fault, stop: bool, what: impl FnOnce() -> String) {
        match fault {
            Fault::Stale => &self.stale,
            Fault::Wrong => &self.wrong,
        }
        .fetch_add(1, Relaxed);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() < FAULT_TEXTS_MAX {
            told.push(format!("{fault:?}: {}", what()));
        }
        if stop {
            self.stop.store(true, Relaxed);
        }
    }
}

/// Checks cells that the fast path answers over the embedded table in memory. Two threads change rows, and three read
/// them. The check calls `progress` now and then with the number of checked cells.
///
/// # Errors
/// Memory or random numbers are not available.
pub fn run(options: &Options, progress: &mut dyn FnMut(u64)) -> io::Result<Report> {
    let mut here = || {
        let store = Arc::new(Store::anonymous(&geometry())?);
        let fastpath = Box::new(ColumnFastPath::new(Arc::clone(&store)));
        Ok(TestedFastPath { store, fastpath })
    };
    run_at(options, &mut here, progress)
}

/// Checks the fast path that `place` returns. The check calls `place` for each phase, after the previous phase has
/// ended.
///
/// # Errors
/// Memory or random numbers are not available, or an error of `place`.
pub fn run_at(
    options: &Options,
    place: &mut dyn FnMut() -> io::Result<TestedFastPath>,
    progress: &mut dyn FnMut(u64),
) -> io::Result<Report> {
    let started = Instant::now();
    let tally = Tally::default();
    let mut report = Report::default();
    for (phase, is_told_by_table) in [true, false].into_iter().enumerate() {
        let due = options.reads * (phase as u64 + 1) / 2;
        run_here(
            options,
            place()?,
            is_told_by_table,
            due,
            &tally,
            &mut report,
            progress,
        )?;
    }
    tally.tell(&mut report);
    report.elapsed = started.elapsed();
    Ok(report)
}

/// Checks an external table, in one phase and without cells that expire.
///
/// The check calls `meanwhile` about every 10 ms with the number of cells that the fast path has answered. When it has
/// answered `options.reads` cells, the check continues until `meanwhile` returns false.
///
/// # Errors
/// Random numbers are not available.
pub fn run_over(options: &Options, over: Over, meanwhile: &mut dyn FnMut(u64) -> bool) -> io::Result<Report> {
    let started = Instant::now();
    let tally = Tally::default();
    let mut report = Report::default();
    let fastpath = Box::new(ColumnFastPath::new(Arc::clone(&over.store)));
    let phase = Phase {
        over,
        fastpath,
        is_here: false,
        renew: &mut || {},
    };
    run_phase(options, phase, options.reads, &tally, &mut report, meanwhile)?;
    tally.tell(&mut report);
    report.elapsed = started.elapsed();
    Ok(report)
}

/// Returns the time for timestamps in milliseconds. It advances with CLOCK_MONOTONIC, because the system's clock could
/// step.
fn now_ms() -> u64 {
    exact_ns() / 1_000_000
}

/// Returns CLOCK_MONOTONIC in nanoseconds, without rounding.
fn exact_ns() -> u64 {
    static ORIGIN: std::sync::OnceLock<(Instant, u64)> = std::sync::OnceLock::new();
    let (at, ns) = ORIGIN.get_or_init(|| (Instant::now(), lease::now_ns()));
    ns + at.elapsed().as_nanos() as u64
}

/// Returns the geometry of the fast path's store.
pub fn geometry() -> Geometry {
    Geometry {
        family_bits: 0,
        column_bits: 1,
        // There is space for all rows only if all blocks are full. They are not, so the fast path evicts blocks all the
        // time.
        row_bits: ROWS.trailing_zeros(),
        value_bits: 0,
        columns: COLUMNS.map(String::from).to_vec(),
        ..Geometry::default()
    }
}

/// Phase of a check.
struct Phase<'a> {
    over: Over,
    fastpath: Box<dyn FastPath>,
    /// True if the table is the embedded one. Its cells may expire, and only its own order of changes counts.
    is_here: bool,
    renew: &'a mut dyn FnMut(),
}

fn columns() -> Vec<ColumnName> {
    let names = COLUMNS.iter();
    names
        .filter_map(|name| ColumnName::new(name.as_bytes()))
        .collect()
}

fn run_here(
    options: &Options,
    place: TestedFastPath,
    is_told_by_table: bool,
    due: u64,
    tally: &Tally,
    report: &mut Report,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let TestedFastPath { store, fastpath } = place;
    let coherence = coherence_of(&store);
    let columns = columns();
    let table = Arc::new(Embedded::in_memory(Arc::new(now_ms)));
    let mut server = None;
    let coherence_mode = if is_told_by_table {
        if options.sabotage != Some(Sabotage::Untold) {
            let announcer = ChangeAnnouncer::new(Arc::clone(&coherence), &columns);
            table.set_listener(Arc::new(announcer));
        }
        CoherenceMode::ByTable
    } else {
        let servers = Arc::new(Servers::new(Arc::clone(&coherence), SLACK_NS));
        let is_hasty = options.sabotage == Some(Sabotage::Hasty);
        let lossy = LossyServer::new(
            Arc::clone(&servers),
            columns.clone(),
            exact_ns,
            options.seed,
            is_hasty,
        );
        let lossy = Arc::new(lossy);
        table.set_listener(Arc::clone(&lossy) as Arc<dyn ChangeListener>);
        server = Some(lossy);
        CoherenceMode::ByServers(servers)
    };
    let mut renew = || {
        if let Some(server) = &server {
            server.renew();
        }
    };
    let over = Over {
        store,
        coherence,
        table,
        coherence_mode,
    };
    let phase = Phase {
        over,
        fastpath,
        is_here: true,
        renew: &mut renew,
    };
    run_phase(options, phase, due, tally, report, &mut |reads| {
        progress(reads);
        false
    })
}

fn run_phase(
    options: &Options,
    phase: Phase<'_>,
    due: u64,
    tally: &Tally,
    report: &mut Report,
    meanwhile: &mut dyn FnMut(u64) -> bool,
) -> io::Result<()> {
    let Over {
        store,
        coherence,
        table,
        coherence_mode,
    } = phase.over;
    let (columns, salt) = (
        columns(),
        u64::from(matches!(coherence_mode, CoherenceMode::ByTable)),
    );
    let setup = Setup::new(
        Arc::clone(&table),
        Arc::clone(&coherence),
        columns.clone(),
        coherence_mode,
    );
    let scene = Scene {
        fastpath: phase.fastpath,
        host: ColumnHost::new(setup)?,
        table: table.as_ref(),
        is_here: phase.is_here,
        columns: &columns,
        rows: (0..ROWS * COLUMNS.len()).map(|_| Row::default()).collect(),
        tally,
        stop: AtomicBool::new(false),
        stop_at_fault: options.stop_at_fault,
        frozen_ns: (options.sabotage == Some(Sabotage::NoClock)).then(lease::now_ns),
    };
    std::thread::scope(|scope| {
        for thread in 0..5 {
            let random = Random(options.seed ^ (thread + 1 + 8 * salt) << 32);
            let scene = &scene;
            scope.spawn(move || match thread {
                0 | 1 => scene.write(random),
                2 | 3 => scene.read(random),
                _ => scene.read_directly(random),
            });
        }
        let mut random = Random(!options.seed);
        // If the fast path answers hardly any request, that is a fault, too, and the report shows it.
        let most = due.saturating_mul(HOST_FOR_ONE_OF_FASTPATH);
        let mut wants_more = true;
        while wants_more && tally.host.load(Relaxed) < most && !tally.stop.load(Relaxed) {
            lease::renew(&store.control().lease_until_ns, LEASE_NS);
            (phase.renew)();
            let (switches, pauses) = (random.below(200) == 0, random.below(25) == 0);
            if switches {
                coherence.switch(true);
            }
            // Some pauses are longer than the lease of a server.
            std::thread::sleep(Duration::from_millis(if pauses { 90 } else { 10 }));
            if switches {
                coherence.switch(false);
            }
            let reads = tally.fastpath.load(Relaxed);
            wants_more = meanwhile(reads) || reads < due;
        }
        scene.stop.store(true, Relaxed);
    });
    report.coherence.push(coherence.counts());
    Ok(())
}

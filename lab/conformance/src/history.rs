//! The promise, checked: what is read through Lineside, row by row, is what the table held at some moment between
//! question and answer, whoever changes it and however; and a scan misses no row that was there all the while.
//!
//! Threads change rows through Lineside and straight in the table, others read through the fast path and host and
//! straight from the table; each cell of each answer is checked. In a first phase the table itself tells of its
//! changes, in a second a server whose messages get lost does, and leases end. Or over a table that is somewhere else
//! ([`run_over`]), whose servers tell.

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

/// Rows of each column.
const ROWS: usize = 512;
/// The columns, of the length of the paper's.
const COLUMNS: [&str; 2] = ["entry:foo", "entry:bar"];
/// The fast path's lease, which is renewed all the time.
const LEASE_NS: u64 = 10_000_000_000;
/// Faults that are kept in words.
const TOLD: usize = 5;
/// Cells that the host reads for one that the fast path answers, at most.
const HOST_FOR_ONE_OF_FASTPATH: u64 = 100;

/// A rule broken on purpose: a check that finds nothing then is broken itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sabotage {
    /// Changes straight in the table are not told.
    Untold,
    /// A server whose PRE is not acknowledged does not wait for its lease to end.
    Hasty,
    /// The fast path's clock stands still: no life and no lease ends there.
    NoClock,
}

/// What to check.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Cells of the fast path's answers to be checked; those of others are besides.
    pub reads: u64,
    /// The same seed gives the same requests; how threads meet is the machine's.
    pub seed: u64,
    /// End at the first fault.
    pub stop_at_fault: bool,
    /// Break a rule, to see it found.
    pub sabotage: Option<Sabotage>,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Cells checked.
    pub reads: u64,
    /// Of these, answered by the fast path.
    pub fastpath: u64,
    /// Answered by the host.
    pub host: u64,
    /// Read straight from the table.
    pub direct: u64,
    /// Changes made, through Lineside and straight.
    pub changes: u64,
    /// Requests that no answer came to, or a refusal.
    pub unanswered: u64,
    /// Cells that were not true any more.
    pub stale: u64,
    /// Cells that were never true.
    pub wrong: u64,
    /// The first faults in words.
    pub told: Vec<String>,
    /// What came between table and the fast path.
    pub coherence: Vec<coherence::Counts>,
    /// How long it took.
    pub elapsed: Duration,
}

/// A table that is somewhere else, and a fast path for it.
#[derive(Debug)]
pub struct Over {
    /// The fast path's store.
    pub store: Arc<Store>,
    /// What comes between table and the fast path.
    pub coherence: Arc<Coherence>,
    /// The table, empty, with the columns `entry:foo` and `entry:bar`. In it a deletion hides what is written in the
    /// same millisecond, as in HBase.
    pub table: Arc<dyn Table>,
    /// How the fast path learns of changes.
    pub coherence_mode: CoherenceMode,
}

/// Where the fast path stands: its store of [`geometry`], and who answers from it.
pub struct Place {
    /// The store.
    pub store: Arc<Store>,
    /// Who answers.
    pub fastpath: Box<dyn FastPath>,
}

/// A fast path of the size that is checked, and what must stand before it.
///
/// # Errors
/// What the system says of memory.
pub fn fastpath() -> io::Result<(Arc<Store>, Arc<Coherence>)> {
    let store = Arc::new(Store::anonymous(&geometry())?);
    let coherence = coherence_of(&store);
    Ok((store, coherence))
}

fn coherence_of(store: &Arc<Store>) -> Arc<Coherence> {
    let writer = ColumnWriter::new(Arc::clone(store));
    Arc::new(Coherence::new(Box::new(writer)))
}

/// What threads share beside the scene.
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
        if told.len() < TOLD {
            told.push(format!("{fault:?}: {}", what()));
        }
        if stop {
            self.stop.store(true, Relaxed);
        }
    }
}

/// Checks so many cells that the fast path answers, over the embedded table in memory: two threads change, three read.
/// `progress` is told now and then how many were.
///
/// # Errors
/// What the system says of memory or random numbers.
pub fn run(options: &Options, progress: &mut dyn FnMut(u64)) -> io::Result<Report> {
    let mut here = || {
        let store = Arc::new(Store::anonymous(&geometry())?);
        let fastpath = Box::new(ColumnFastPath::new(Arc::clone(&store)));
        Ok(Place { store, fastpath })
    };
    run_at(options, &mut here, progress)
}

/// The same with the fast path where `place` makes one, anew for each phase, when the one before has ended.
///
/// # Errors
/// What the system says of memory or random numbers, and what `place` says.
pub fn run_at(
    options: &Options,
    place: &mut dyn FnMut() -> io::Result<Place>,
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

/// The same over another table, in one phase; without cells that have a life of their own.
///
/// The run calls `meanwhile` about every 10 ms with the number of cells that the fast path answered. After
/// `options.reads` of them the run goes on for as long as `meanwhile` returns true.
///
/// # Errors
/// What the system says of random numbers.
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

/// The system's clock of timestamps would step; this one goes with CLOCK_MONOTONIC.
fn now_ms() -> u64 {
    exact_ns() / 1_000_000
}

/// CLOCK_MONOTONIC, ns, to the point.
fn exact_ns() -> u64 {
    static ORIGIN: std::sync::OnceLock<(Instant, u64)> = std::sync::OnceLock::new();
    let (at, ns) = ORIGIN.get_or_init(|| (Instant::now(), lease::now_ns()));
    ns + at.elapsed().as_nanos() as u64
}

/// How the fast path is laid out.
pub fn geometry() -> Geometry {
    Geometry {
        family_bits: 0,
        column_bits: 1,
        // Room for all rows in full blocks, which not all are: the fast path evicts all the time.
        row_bits: ROWS.trailing_zeros(),
        value_bits: 0,
        columns: COLUMNS.map(String::from).to_vec(),
        ..Geometry::default()
    }
}

/// What is checked at a time.
struct Phase<'a> {
    over: Over,
    fastpath: Box<dyn FastPath>,
    /// The table is the embedded one: its cells may have lives of their own, and it knows no order but its own.
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
    place: Place,
    is_told_by_table: bool,
    due: u64,
    tally: &Tally,
    report: &mut Report,
    progress: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let Place { store, fastpath } = place;
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
        // A fast path that answers hardly anything is a fault of its own: the report shows it.
        let most = due.saturating_mul(HOST_FOR_ONE_OF_FASTPATH);
        let mut wants_more = true;
        while wants_more && tally.host.load(Relaxed) < most && !tally.stop.load(Relaxed) {
            lease::renew(&store.control().lease_until_ns, LEASE_NS);
            (phase.renew)();
            let (switches, pauses) = (random.below(200) == 0, random.below(25) == 0);
            if switches {
                coherence.switch(true);
            }
            // Sometimes longer than a server's lease.
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

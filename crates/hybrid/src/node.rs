//! A node: threads that verify, order, check what others have ordered, execute and save.
//!
//! ```text
//! call -> verify (n threads) -> reads: answered
//!                            -> writes: order -> log -> check -> execute -> save -> answered
//! ```
//!
//! A lone get of what is here is verified by the thread that hands it in. Writes are seen by readers, and answered,
//! when the group that holds their block is on the disk.

use crate::answer::Answer;
use crate::block::Hash;
use crate::execute::GenesisError;
use crate::ledger::{LedgerError, Writer, journal_options};
use crate::log::{Deliver, LogError, Start};
pub use crate::log::{OpenLog, embedded};
use crate::open::{Opened, open};
use crate::order::{Orderer, first_sequence};
use crate::request::{DatabaseId, is_local_get, operation};
use crate::run::{CheckedEntry, Checker, Executor};
use crate::save::{Saved, Saver};
use crate::shared::{Shared, Standing};
use crate::sign::Signer;
use crate::stage::Worker;
use crate::ticket::{Call, Done, Ticket};
use crate::watch::{Sink, Watching, Wish};
use bytes::Bytes;
use crossbeam_channel::{Sender, bounded, unbounded};
use lineside_journal::Disk;
use lineside_verify::Verifier;
use lineside_wire::{HYBRID_OP_WATCH, HybridCode as Code};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Messages between two threads, at most: enough that neither waits for the other's wake-up.
const STEPS: usize = 64;

/// How a node works.
#[derive(Clone)]
pub struct Options {
    /// Its number in the genesis, or by a change.
    pub node: u32,
    /// How the verifier works; it refuses a high s in any case.
    pub verify: lineside_verify::Options,
    /// Way in which signatures are verified.
    #[cfg(feature = "laboratory")]
    pub mode: crate::laboratory::Mode,
    /// Threads that verify signatures.
    pub verify_threads: usize,
    /// Requests in a block, at most.
    pub block_requests: usize,
    /// How long a block waits for more, while others are being saved. With none under way it does not wait.
    pub block_wait: Duration,
    /// Requests that wait to be verified, at most; beyond it they are told `busy`.
    pub waiting_requests: usize,
    /// Maximum number of bytes of these requests, with what is kept for each.
    pub waiting_bytes: usize,
    /// A signed head goes into the log every so many blocks; 0: never.
    pub head_every: u64,
    /// Sizes of the ledger's journal.
    pub journal: lineside_journal::Options,
    /// Milliseconds since 1970.
    pub clock: fn() -> u64,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            node: 1,
            verify: lineside_verify::Options::default(),
            #[cfg(feature = "laboratory")]
            mode: crate::laboratory::Mode::Batch,
            verify_threads: std::thread::available_parallelism().map_or(1, usize::from),
            block_requests: 1000,
            block_wait: Duration::from_millis(2),
            waiting_requests: 100_000,
            waiting_bytes: 256 << 20,
            head_every: 1000,
            journal: journal_options(),
            clock: unix_ms,
        }
    }
}

/// The machine's clock.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

/// Why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The genesis.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A block that its message does not lead to.
    #[error("ledger: block {number}: {what}")]
    NotReproduced {
        /// Its number.
        number: u64,
        /// What differs.
        what: &'static str,
    },
    /// The verifier's back end.
    #[error(transparent)]
    Backend(#[from] lineside_verify::BackendUnavailable),
    /// The snapshot that the ledger begins with.
    #[error("ledger: {0}")]
    Snapshot(#[from] crate::snapshot::SnapshotError),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The node has another key in the database, or is revoked, or orders alone and is none of the database's.
    #[error("node {0} is none of the database's, has another key there, or is revoked")]
    NotANode(u32),
    /// Threads.
    #[error("threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// What goes to the thread that executes.
pub(crate) enum Step {
    /// Of the log, by number, in whatever order it was checked.
    Entry(u64, Box<CheckedEntry>),
    /// Of this number, too: what stands at this position is no message.
    Passed(u64, u64),
    Prove {
        key: Vec<u8>,
        ticket: Ticket,
    },
}

/// How a node is.
#[derive(Clone, Debug)]
pub struct Status {
    /// The database.
    pub database: DatabaseId,
    /// The newest block's number.
    pub height: u64,
    /// The newest block's hash.
    pub tip_hash: Hash,
    /// Time of the newest block by the ledger's clock, in milliseconds since 1970. Requests that expire before it are
    /// refused.
    pub tip_time_ms: u64,
    /// The state's root after it.
    pub state_root: Hash,
    /// Keys that have a value.
    pub keys: usize,
    /// Whether the mode is the paper's.
    pub paper: bool,
    /// Signatures verified since the start.
    pub verified: u64,
    /// In so many batches.
    pub batches: u64,
    /// Messages of the log that were no blocks.
    pub skipped: u64,
    /// Requests answered since the start, by [`Code`].
    pub codes: Vec<(Code, u64)>,
    /// Why no writes are taken, if so.
    pub read_only: Option<String>,
    /// In what the log promises less than it should.
    pub log_weaknesses: Vec<String>,
    /// Warning about the ledger's last records, where some were cut at the start.
    pub cut: Option<String>,
}

/// A running node.
pub struct Node<D: Disk> {
    shared: Arc<Shared>,
    intake: Option<Sender<Arc<Call>>>,
    /// Of the verify stage, without a thread of its own: whoever has a single get may use it.
    alone: Option<Worker<D>>,
    /// Held by the thread that [`Self::alone`] works for.
    lone: Mutex<()>,
    waiting_requests: usize,
    waiting_bytes: usize,
    cut: Option<String>,
    threads: Vec<JoinHandle<()>>,
    saver: Option<JoinHandle<Writer<D>>>,
}

impl<D: Disk> Node<D> {
    /// Opens the ledger, re-executes what is in it, and starts.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(
        disk: D,
        genesis: &[u8],
        signer: Arc<dyn Signer>,
        options: Options,
        log: OpenLog,
    ) -> Result<Node<D>, StartError> {
        // Every node must give one verdict, so this is not a choice.
        let verifier = Verifier::new(lineside_verify::Options {
            low_s: true,
            ..options.verify
        })?;
        let Opened {
            chain,
            view,
            writer,
            disagreement,
        } = open(disk, genesis, options.journal)?;
        let position = chain.tip().position;
        let cut = writer.cut().map(str::to_owned);
        let shared = Arc::new(Shared::new(*chain.database(), &options, signer, view, position));
        let standing = shared.stand(chain.state().roster());
        if standing == Standing::Other {
            return Err(StartError::NotANode(options.node));
        }
        if let Some(why) = disagreement {
            shared.refuse_for_good(&why);
        }
        let (intake, calls) = unbounded();
        let (order, ordered) = bounded(STEPS);
        let (steps, to_execute) = bounded(STEPS);
        let (save, to_save) = bounded(STEPS);
        let (saved, has_saved) = unbounded::<Saved>();
        let checker = Checker {
            shared: shared.clone(),
            verifier: verifier.clone(),
            #[cfg(feature = "laboratory")]
            mode: options.mode,
            steps: steps.clone(),
            threads: options.verify_threads.max(1),
        };
        let (others, to_check) = bounded(STEPS);
        let checkers: Vec<Checker> = vec![checker.clone(); checker.threads];
        let next = AtomicU64::new(0);
        let deliver: Deliver =
            Box::new(move |entry| checker.take(next.fetch_add(1, Ordering::Relaxed), entry, &others));
        let (lost, has_lost) = unbounded();
        let opened_log = log(Start {
            database: shared.database,
            position,
            last: (position > 0).then_some(chain.tip().transactions_hash),
            deliver,
            lost: shared.on_lost(lost.clone()),
            fault: shared.on_fault(lost),
        })?;
        let orders_alone = matches!(opened_log.end(), Ok(None));
        if orders_alone && standing == Standing::NotYet {
            // Nobody would ever add it.
            return Err(StartError::NotANode(options.node));
        }
        shared.set_log(opened_log);
        let mut threads = Vec::new();
        let mut spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.into()).spawn(work);
            thread.map(|thread| threads.push(thread))
        };
        let saver = Saver {
            shared: shared.clone(),
            writer,
            jobs: to_save,
            saved,
            lost: None,
        };
        let blocks = saver.writer.blocks();
        let alone = Worker {
            shared: shared.clone(),
            blocks,
            verifier: verifier.clone(),
            #[cfg(feature = "laboratory")]
            mode: options.mode,
            intake: calls,
            order,
            steps,
        };
        for _ in 0..options.verify_threads.max(1) {
            let worker = alone.clone();
            spawn("hybrid-verify", Box::new(move || worker.run()))?;
        }
        for checker in checkers {
            let to_check = to_check.clone();
            spawn("hybrid-check", Box::new(move || checker.run(&to_check)))?;
        }
        let sequence = first_sequence(chain.state().last_sequence(options.node), (options.clock)());
        let orderer = Orderer::new(shared.clone(), &options, sequence, ordered, has_saved, has_lost);
        spawn("hybrid-order", Box::new(move || orderer.run()))?;
        let executor = Executor {
            shared: shared.clone(),
            chain,
            verifier: verifier.clone(),
            steps: to_execute,
            save,
            last_heads: HashMap::new(),
        };
        spawn("hybrid-execute", Box::new(move || executor.run()))?;
        let saver = std::thread::Builder::new()
            .name("hybrid-save".into())
            .spawn(move || saver.run())?;
        Ok(Node {
            shared,
            intake: Some(intake),
            alone: Some(alone),
            lone: Mutex::new(()),
            waiting_requests: options.waiting_requests,
            waiting_bytes: options.waiting_bytes,
            cut,
            threads,
            saver: Some(saver),
        })
    }

    /// Hands signed requests in. `done` is called with the answers, in order, by one of the node's threads: it must not
    /// block. Beyond [`Options::waiting_requests`] and [`Options::waiting_bytes`] all are answered `busy` at once.
    pub fn submit(&self, requests: Vec<Bytes>, done: impl FnOnce(Vec<Answer>) + Send + 'static) {
        let count = requests.len();
        let done: Done = Box::new(done);
        if count == 0 {
            return done(Vec::new());
        }
        self.hand_in(Call::new(requests, done));
    }

    fn hand_in(&self, call: Arc<Call>) {
        let count = call.requests.len();
        let bytes = call.bytes();
        let before = self.shared.waiting.fetch_add(count, Ordering::AcqRel);
        let bytes_before = self.shared.waiting_bytes.fetch_add(bytes, Ordering::AcqRel);
        let fits = before + count <= self.waiting_requests && bytes_before + bytes <= self.waiting_bytes;
        let sent = match &self.intake {
            Some(intake) if fits || before == 0 => intake.send(call).map_err(|refused| refused.0),
            _ => Err(call),
        };
        if let Err(call) = sent {
            self.shared.waiting.fetch_sub(count, Ordering::AcqRel);
            self.shared.waiting_bytes.fetch_sub(bytes, Ordering::AcqRel);
            let answers = vec![(0..count).map(|place| (place, Answer::Refused(Code::Busy)))];
            call.answer(answers.into_iter().flatten());
        }
    }

    /// The same, from a thread that may help: a single get of what is here is answered by it where no other request
    /// waits, and nobody holds what is read. To wake another takes longer than to verify one signature.
    pub fn submit_helping(&self, requests: Vec<Bytes>, done: impl FnOnce(Vec<Answer>) + Send + 'static) {
        let is_lone = matches!(&requests[..], [request] if is_local_get(request));
        let Some(alone) = self.alone.as_ref().filter(|_| is_lone) else {
            return self.submit(requests, done);
        };
        let call = Call::new(requests, Box::new(done));
        let is_free = self.shared.waiting.load(Ordering::Acquire) == 0 && self.shared.can_read_view();
        // Who comes meanwhile goes where all are verified together; so do all after a panic here.
        match self.lone.try_lock() {
            Ok(_lone) if is_free => alone.work(&[call]),
            _ => self.hand_in(call),
        }
    }

    /// [`Self::submit`], and waits.
    pub fn ask(&self, requests: Vec<Bytes>) -> Vec<Answer> {
        let (send, receive) = bounded(1);
        self.submit(requests, move |answers| {
            // Nobody else receives.
            let _ = send.send(answers);
        });
        receive.recv().unwrap_or_default()
    }

    /// Has `sink` told of every write that a request to watch asks for, from now on, as long as what is returned is
    /// kept. A sink that takes no more is forgotten. Waits until the request is verified.
    ///
    /// # Errors
    /// Why the request is refused; `busy` beyond the limits.
    pub fn watch(&self, request: Bytes, sink: Sink) -> Result<Watching, Code> {
        if operation(&request) != Some(HYBRID_OP_WATCH) {
            return Err(Code::Malformed);
        }
        let (wish, mut watching) = Wish::new(sink);
        let (send, receive) = bounded(1);
        let done: Done = Box::new(move |answers| {
            let _ = send.send(answers);
        });
        self.hand_in(Call::watch(request, wish, done));
        match receive.recv().unwrap_or_default().first() {
            Some(Answer::Watching { block }) => {
                watching.block = *block;
                Ok(watching)
            }
            Some(Answer::Refused(code)) => Err(*code),
            _ => Err(Code::Malformed),
        }
    }

    /// Returns true if the database's mode is the paper's.
    pub fn is_paper(&self) -> bool {
        self.shared.read_view().roster().is_paper()
    }

    /// How it is.
    pub fn status(&self) -> Status {
        let view = self.shared.read_view();
        let tip = view.tip();
        let codes = (0..)
            .zip(&self.shared.codes)
            .filter_map(|(code, count)| Some((Code::from_code(code)?, count.load(Ordering::Relaxed))));
        Status {
            database: self.shared.database,
            height: tip.number,
            tip_hash: tip.hash(),
            tip_time_ms: tip.time_ms,
            state_root: tip.state_root,
            keys: view.keys(),
            paper: view.roster().is_paper(),
            verified: self.shared.verified.load(Ordering::Relaxed),
            batches: self.shared.batches.load(Ordering::Relaxed),
            skipped: self.shared.skipped.load(Ordering::Relaxed),
            codes: codes.collect(),
            read_only: self.shared.read_only().map(|why| why.to_string()),
            log_weaknesses: self.shared.log().map_or_else(Vec::new, |log| log.weaknesses()),
            cut: self.cut.clone(),
        }
    }

    /// Answers all that was handed in, and ends.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.intake = None;
        self.alone = None;
        // The verifiers end first, then the orderer, whose log then ends the executor, and so on.
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("hybrid: a thread has panicked");
            }
        }
        self.saver.take().map(JoinHandle::join);
        self.shared.watchers.hold().clear();
    }
}

impl<D: Disk> Drop for Node<D> {
    fn drop(&mut self) {
        self.end();
    }
}

//! A node: threads that verify, order, execute and save, and what they share.
//!
//! ```text
//! call -> verify (n threads) -> reads: answered
//!                            -> writes: order -> log -> execute -> save -> answered
//! ```
//!
//! Writes are seen by readers, and answered, when the group that holds their block is on the disk.

use crate::answer::Answer;
use crate::block::{Cargo, Hash, Message, SignedHead};
use crate::execute::{Chain, GenesisError};
use crate::ledger::{LedgerError, Stored, Writer, journal_options};
use crate::log::{Deliver, Fault, Log, LogError, Lost, Start};
pub use crate::log::{OpenLog, embedded};
use crate::open::{Opened, open};
use crate::order::{Orderer, Pending, first_sequence};
use crate::replay_window::Windows;
use crate::request::{DatabaseId, operation};
use crate::run::{CheckedEntry, Checker, Executor};
use crate::save::{Saved, Saver};
use crate::sign::Signer;
use crate::stage::{Mode, Ordered, Worker};
use crate::ticket::{Call, Done, Ticket, answer_unknown};
use crate::view::View;
use crate::watch::{Sink, Watchers, Watching, Wish};
use bytes::Bytes;
use crossbeam_channel::{Sender, bounded, unbounded};
use lineside_journal::Disk;
use lineside_verify::Verifier;
use lineside_wire::{HYBRID_OP_WATCH, HybridCode as Code};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Messages between two threads, at most: enough that neither waits for the other's wake-up.
const STEPS: usize = 64;
/// How long a linearizable read waits for what was ordered before it; then it is told `busy`.
const ORDER_WAIT: Duration = Duration::from_secs(5);

/// How a node works.
#[derive(Clone)]
pub struct Options {
    /// Its number in the genesis, or by a change.
    pub node: u32,
    /// How the verifier works; it refuses a high s in any case.
    pub verify: lineside_verify::Options,
    /// Whether signatures are verified together.
    pub mode: Mode,
    /// Threads that do.
    pub verify_threads: usize,
    /// Requests in a block, at most.
    pub block_requests: usize,
    /// How long a block waits for more, while others are being saved. With none under way it does not wait.
    pub block_wait: Duration,
    /// Requests that wait to be verified, at most; beyond it they are told `busy`.
    pub waiting_requests: usize,
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
            mode: Mode::Batch,
            verify_threads: std::thread::available_parallelism().map_or(1, usize::from),
            block_requests: 1000,
            block_wait: Duration::from_millis(2),
            waiting_requests: 100_000,
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
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The node has no key in the database, or another.
    #[error("node {0} is not one of the database's, or its key is another")]
    NotANode(u32),
    /// Threads.
    #[error("threads: {0}")]
    Threads(#[from] std::io::Error),
}

/// What goes to the thread that executes.
pub(crate) enum Step {
    Entry(Box<CheckedEntry>),
    /// What stands at this position is no message.
    Passed(u64),
    Prove {
        key: Vec<u8>,
        ticket: Ticket,
    },
}

/// Why no writes are taken.
#[derive(Default)]
struct Refusal {
    /// Until the node is started again: the first reason.
    for_good: Option<Arc<str>>,
    for_now: Option<Arc<str>>,
}

/// What a node's threads share.
pub(crate) struct Shared {
    pub database: DatabaseId,
    pub node: u32,
    pub signer: Arc<dyn Signer>,
    pub clock: fn() -> u64,
    pub waiting: AtomicUsize,
    pub verified: AtomicU64,
    pub batches: AtomicU64,
    pub skipped: AtomicU64,
    pub windows: Mutex<Windows>,
    pub watchers: Watchers,
    /// Messages of this node under way, by their sequence.
    pub pending: Mutex<HashMap<u64, Pending>>,
    /// The highest sequence of this node that came by the log.
    pub used_sequence: AtomicU64,
    pub codes: [AtomicU64; 32],
    pub head_every: u64,
    view: RwLock<View>,
    /// The log's position that the view has.
    seen: Mutex<u64>,
    saw: Condvar,
    log: RwLock<Option<Arc<dyn Log>>>,
    refuses: Mutex<Refusal>,
    is_refusing: AtomicBool,
    last_head: Mutex<Option<SignedHead>>,
}

impl Shared {
    fn new(
        database: DatabaseId,
        options: &Options,
        signer: Arc<dyn Signer>,
        opened: View,
        seen: u64,
    ) -> Shared {
        Shared {
            database,
            node: options.node,
            head_every: options.head_every,
            signer,
            clock: options.clock,
            waiting: AtomicUsize::new(0),
            verified: AtomicU64::new(0),
            batches: AtomicU64::new(0),
            skipped: AtomicU64::new(0),
            windows: Mutex::default(),
            watchers: Watchers::default(),
            pending: Mutex::default(),
            used_sequence: AtomicU64::new(0),
            codes: std::array::from_fn(|_| AtomicU64::new(0)),
            view: RwLock::new(opened),
            seen: Mutex::new(seen),
            saw: Condvar::new(),
            log: RwLock::new(None),
            refuses: Mutex::default(),
            is_refusing: AtomicBool::new(false),
            last_head: Mutex::default(),
        }
    }

    pub fn read_view(&self) -> RwLockReadGuard<'_, View> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what readers see, up to a position of the log.
    pub fn change_view(&self, position: u64, change: impl FnOnce(&mut View)) {
        change(&mut self.view.write().unwrap_or_else(PoisonError::into_inner));
        self.pass(position);
    }

    /// The view has all up to a position of the log.
    pub fn pass(&self, position: u64) {
        *self.seen() = position;
        self.saw.notify_all();
    }

    fn seen(&self) -> MutexGuard<'_, u64> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the view has all that was ordered before now.
    ///
    /// # Errors
    /// What to answer where that cannot be known, or takes too long.
    pub fn wait_for_order(&self) -> Result<(), Code> {
        let begin = Instant::now();
        let end = match self.log().map(|log| log.end()) {
            Some(Ok(None)) => return Ok(()),
            Some(Ok(Some(end))) => end,
            _ if self.read_only().is_some() => return Err(Code::ReadOnly),
            _ => return Err(Code::Busy),
        };
        let mut seen = self.seen();
        while *seen < end {
            if self.read_only().is_some() {
                return Err(Code::ReadOnly);
            }
            if begin.elapsed() > ORDER_WAIT {
                return Err(Code::Busy);
            }
            let waited = self.saw.wait_timeout(seen, Duration::from_millis(100));
            (seen, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    fn log(&self) -> Option<Arc<dyn Log>> {
        self.log.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why no writes are taken, if so.
    pub fn read_only(&self) -> Option<Arc<str>> {
        if !self.is_refusing.load(Ordering::Acquire) {
            return None;
        }
        let refuses = self.refuses.lock().unwrap_or_else(PoisonError::into_inner);
        refuses.for_good.clone().or_else(|| refuses.for_now.clone())
    }

    /// From now on no writes are taken, until the node is started again.
    pub fn refuse_for_good(&self, why: &str) {
        let mut refuses = self.refuses.lock().unwrap_or_else(PoisonError::into_inner);
        tracing::error!("hybrid: no writes are taken until the next start: {why}");
        refuses.for_good.get_or_insert_with(|| why.into());
        self.is_refusing.store(true, Ordering::Release);
    }

    /// From now on no writes are taken, or they are again.
    pub fn refuse_writes(&self, why: Option<&str>) {
        let mut refuses = self.refuses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(why) = why
            && refuses.for_now.is_none()
        {
            tracing::error!("hybrid: no writes are taken for now: {why}");
        }
        refuses.for_now = why.map(Arc::from);
        self.is_refusing
            .store(why.is_some() || refuses.for_good.is_some(), Ordering::Release);
    }

    pub fn append(&self, message: Vec<u8>) -> Result<(), LogError> {
        self.log()
            .ok_or_else(|| LogError("the node has stopped".into()))?
            .append(message)
    }

    pub fn pending(&self) -> MutexGuard<'_, HashMap<u64, Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who waits for this message of this node: of the same signature, as an earlier life of the node may have used its
    /// sequence, and anybody may write it.
    pub fn take_pending(&self, message: &Message<'_>) -> Option<Vec<Ordered>> {
        if message.node != self.node || matches!(message.cargo, Cargo::Head(_)) {
            return None;
        }
        let mut pending = self.pending();
        if pending.get(&message.sequence)?.signature != *message.signature {
            return None;
        }
        Some(pending.remove(&message.sequence)?.requests)
    }

    pub fn count(&self, code: Code) {
        if let Some(counter) = self.codes.get(code as usize) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub fn count_refused(&self, answers: &[(Ticket, Answer)]) {
        answers.iter().for_each(|(_, answer)| self.count(answer.code()));
    }

    /// The newest block's header, with this node's word for it.
    pub fn head(&self) -> Answer {
        let tip = *self.read_view().tip();
        let mut last = self.last_head.lock().unwrap_or_else(PoisonError::into_inner);
        let head = match &*last {
            Some(head) if head.number == tip.number => *head,
            _ => {
                let signed =
                    SignedHead::sign(&self.database, self.node, tip.number, tip.hash(), &*self.signer);
                *last.insert(signed)
            }
        };
        Answer::Head(Box::new((tip, head)))
    }
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
}

/// A running node.
pub struct Node<D: Disk> {
    shared: Arc<Shared>,
    intake: Option<Sender<Arc<Call>>>,
    waiting_requests: usize,
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
        let Opened { chain, view, writer } = open(disk, genesis, options.journal)?;
        let roster = chain.state().roster();
        if roster
            .node(options.node)
            .is_none_or(|key| key.curve() != signer.curve())
        {
            return Err(StartError::NotANode(options.node));
        }
        let position = chain.tip().position;
        let shared = Arc::new(Shared::new(*chain.database(), &options, signer, view, position));
        shared.check_key(&chain, options.node, &verifier)?;
        let (intake, calls) = unbounded();
        let (order, ordered) = bounded(STEPS);
        let (steps, to_execute) = bounded(STEPS);
        let (save, to_save) = bounded(STEPS);
        let (saved, has_saved) = unbounded::<Saved>();
        let entries = steps.clone();
        let checker = Checker {
            shared: shared.clone(),
            verifier: verifier.clone(),
            mode: options.mode,
        };
        let deliver: Deliver = Box::new(move |entry| match checker.check(entry) {
            Ok(checked) => entries.send(Step::Entry(Box::new(checked))).is_ok(),
            Err(position) => entries.send(Step::Passed(position)).is_ok(),
        });
        let (lost, has_lost) = unbounded();
        let opened_log = log(Start {
            database: shared.database,
            position,
            last_message: last_message(&writer)?,
            deliver,
            lost: shared.on_lost(lost.clone()),
            fault: shared.on_fault(lost),
        })?;
        *shared.log.write().unwrap_or_else(PoisonError::into_inner) = Some(opened_log);
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
        };
        let blocks = saver.writer.blocks();
        for _ in 0..options.verify_threads.max(1) {
            let worker = Worker {
                shared: shared.clone(),
                blocks: blocks.clone(),
                verifier: verifier.clone(),
                mode: options.mode,
                intake: calls.clone(),
                order: order.clone(),
                steps: steps.clone(),
            };
            spawn("hybrid-verify", Box::new(move || worker.run()))?;
        }
        // Each channel ends when all before it in the line have: dropping the intake stops the node in order.
        drop((order, steps, calls));
        let sequence = first_sequence(chain.state().last_sequence(options.node), (options.clock)());
        let orderer = Orderer::new(shared.clone(), &options, sequence, ordered, has_saved, has_lost);
        spawn("hybrid-order", Box::new(move || orderer.run()))?;
        let executor = Executor {
            shared: shared.clone(),
            chain,
            verifier: verifier.clone(),
            steps: to_execute,
            save,
        };
        spawn("hybrid-execute", Box::new(move || executor.run()))?;
        let saver = std::thread::Builder::new()
            .name("hybrid-save".into())
            .spawn(move || saver.run())?;
        Ok(Node {
            shared,
            intake: Some(intake),
            waiting_requests: options.waiting_requests,
            threads,
            saver: Some(saver),
        })
    }

    /// Hands signed requests in. `done` is called with the answers, in order, by one of the node's threads: it must not
    /// block. Beyond [`Options::waiting_requests`] all are answered `busy` at once.
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
        let before = self.shared.waiting.fetch_add(count, Ordering::AcqRel);
        let sent = match &self.intake {
            Some(intake) if before + count <= self.waiting_requests || before == 0 => {
                intake.send(call).map_err(|refused| refused.0)
            }
            _ => Err(call),
        };
        if let Err(call) = sent {
            self.shared.waiting.fetch_sub(count, Ordering::AcqRel);
            let answers = vec![(0..count).map(|place| (place, Answer::Refused(Code::Busy)))];
            call.answer(answers.into_iter().flatten());
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
            state_root: tip.state_root,
            keys: view.keys(),
            paper: view.roster().is_paper(),
            verified: self.shared.verified.load(Ordering::Relaxed),
            batches: self.shared.batches.load(Ordering::Relaxed),
            skipped: self.shared.skipped.load(Ordering::Relaxed),
            codes: codes.collect(),
            read_only: self.shared.read_only().map(|why| why.to_string()),
            log_weaknesses: self.shared.log().map_or_else(Vec::new, |log| log.weaknesses()),
        }
    }

    /// Answers all that was handed in, and ends.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.intake = None;
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

impl Shared {
    /// Whether the signer's key is the node's.
    fn check_key(&self, chain: &Chain, node: u32, verifier: &Verifier) -> Result<(), StartError> {
        let hash = *chain.tip_hash();
        let head = SignedHead::sign(&self.database, node, chain.tip().number, hash, &*self.signer);
        let key = chain.state().roster().node(node);
        match key.is_some_and(|key| head.is_signed_by(&self.database, key, verifier)) {
            true => Ok(()),
            false => Err(StartError::NotANode(node)),
        }
    }

    /// Ends the log: nothing more is delivered.
    pub fn close_log(&self) {
        let log = self.log.write().unwrap_or_else(PoisonError::into_inner).take();
        // It may take a while to end, and nobody waits for the lock.
        drop(log);
    }

    /// The log has given a message up: its outcome is unknown. The orderer hears that it is not under way any more.
    fn on_lost(self: &Arc<Self>, lost: Sender<usize>) -> Lost {
        let shared = self.clone();
        Arc::new(move |message| {
            let message = Message::decode(message).ok();
            let requests = message.and_then(|message| shared.take_pending(&message));
            if let Some(requests) = requests {
                // The orderer may be gone: the node is stopping.
                let _ = lost.send(1);
                answer_unknown(requests);
            }
        })
    }

    /// The log has ended: nothing that is under way comes back.
    fn on_fault(self: &Arc<Self>, lost: Sender<usize>) -> Fault {
        let shared = self.clone();
        Arc::new(move |why| {
            shared.refuse_for_good(&why);
            let pending = std::mem::take(&mut *shared.pending());
            let _ = lost.send(pending.len());
            pending.into_values().for_each(|one| answer_unknown(one.requests));
        })
    }
}

/// The message of the ledger's last block.
fn last_message<D: Disk>(writer: &Writer<D>) -> Result<Option<Vec<u8>>, LedgerError> {
    let blocks = writer.blocks();
    let payload = match blocks.count() {
        0 => return Ok(None),
        last => blocks.read(last)?,
    };
    // It was decoded a moment ago.
    Ok(Stored::decode(&payload)
        .ok()
        .map(|stored| stored.message.to_vec()))
}

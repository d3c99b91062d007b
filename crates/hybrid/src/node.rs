//! A node: threads that verify requests, order writes, check messages of the log, execute blocks and make them durable.
//!
//! ```text
//! call -> verify (n threads) -> reads: answered
//!                            -> writes: order -> log -> check -> execute -> save -> answered
//! ```
//!
//! A single local get is verified by the calling thread. Writes become visible to readers, and are answered, when the
//! group that holds their block is on the disk.

use crate::answer::Answer;
use crate::execute::GenesisError;
use crate::executor::{CheckedEntry, Executor, MessageVerifier};
use crate::ledger::{LedgerError, Writer, journal_options};
use crate::log::{Deliver, LogError, Start};
pub use crate::log::{OpenLog, embedded};
use crate::node_state::{MembershipStatus, NodeState};
use crate::open::{OpenedLedger, open};
use crate::persister::{PersistedGroup, Persister};
use crate::proposer::{Proposer, first_sequence};
use crate::ticket::{Call, OnAnswers, Ticket};
use crate::verify_worker::VerifyWorker;
use crate::watch::{Sink, Subscription, Watching};
use bytes::Bytes;
use crossbeam_channel::{Sender, bounded, unbounded};
use lineside_journal::Disk;
use lineside_messages::hybrid::block::Hash;
use lineside_messages::hybrid::request::{DatabaseId, is_local_get, operation};
use lineside_messages::hybrid::sign::Signer;
use lineside_messages::hybrid::signing::unix_ms;
use lineside_verify::Verifier;
use lineside_wire::{HYBRID_OP_WATCH, HybridCode as Code};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Maximum number of items in the queue between two threads: enough that neither thread has to wait until the other
/// wakes up.
const QUEUED_STEPS_MAX: usize = 64;

/// Options of a node.
#[derive(Clone)]
pub struct Options {
    /// Number of the node, as the genesis or a later change of the membership assigns it.
    pub node: u32,
    /// Options of the verifier. The node always refuses a signature whose s is above half the curve's order.
    pub verify: lineside_verify::Options,
    /// Way in which signatures are verified.
    #[cfg(feature = "laboratory")]
    pub mode: crate::laboratory::Mode,
    /// Number of threads that verify signatures.
    pub verify_threads: usize,
    /// Maximum number of requests in a block.
    pub block_requests: usize,
    /// Maximum time for which a block waits for more requests while earlier blocks are being saved. If no block is
    /// being saved, the new block does not wait.
    pub block_wait: Duration,
    /// Maximum number of requests that wait for verification; further ones are answered `busy`.
    pub waiting_requests: usize,
    /// Maximum number of bytes of the requests that wait for verification, including the memory that the node needs for
    /// each.
    pub waiting_bytes: usize,
    /// Number of blocks after which a signed head is put into the log; 0: never.
    pub head_every: u64,
    /// Sizes of the ledger's journal.
    pub journal: lineside_journal::Options,
    /// Clock, in milliseconds since 1970.
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

/// Reason why a node does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The genesis is rejected.
    #[error(transparent)]
    Genesis(#[from] GenesisError),
    /// Error of the ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    /// A stored block differs from the block that results from executing its message again.
    #[error("ledger: block {number}: {what}; run `lineside hybrid audit` on the directory")]
    NotReproduced {
        /// Number of the block.
        number: u64,
        /// Description of the difference.
        what: &'static str,
    },
    /// The backend of the verifier is not available.
    #[error(transparent)]
    Backend(#[from] lineside_verify::BackendUnavailable),
    /// The snapshot that the ledger begins with is rejected.
    #[error("ledger: {0}")]
    Snapshot(#[from] crate::snapshot::SnapshotError),
    /// Error of the log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The database has another key for this node or has revoked the node, or the node orders alone and the database
    /// does not know it.
    #[error(
        "node {0} is not a node of this database, has another key there, or is revoked; check the number of the node \
         and its key file"
    )]
    NotANode(u32),
    /// A thread cannot be started.
    #[error("cannot start a thread: {0}")]
    Threads(#[from] std::io::Error),
}

/// Input of the thread that executes messages.
pub(crate) enum ExecutorInput {
    /// Number of an entry of the log, and the checked entry. Entries arrive in the order in which their checks end.
    Entry(u64, Box<CheckedEntry>),
    /// Number and position of an entry of the log that is not a message and is skipped.
    Passed(u64, u64),
    Prove {
        key: Vec<u8>,
        ticket: Ticket,
    },
}

/// Status of a node.
#[derive(Clone, Debug)]
pub struct Status {
    /// Id of the database.
    pub database: DatabaseId,
    /// Number of the newest block.
    pub height: u64,
    /// Hash of the newest block.
    pub tip_hash: Hash,
    /// Time of the newest block by the ledger's clock, in milliseconds since 1970. Requests that expire before it are
    /// refused.
    pub tip_time_ms: u64,
    /// Root of the state after the newest block.
    pub state_root: Hash,
    /// Number of keys that have a value.
    pub keys: usize,
    /// Number of members that are not revoked.
    pub members: usize,
    /// Number of nodes that are not revoked.
    pub nodes: usize,
    /// Number of admins whose votes make a change.
    pub quorum: usize,
    /// True if the database is in the paper's mode.
    pub paper: bool,
    /// Number of signatures verified since the start.
    pub verified: u64,
    /// Number of batches in which they were verified.
    pub batches: u64,
    /// Number of messages of the log that did not become blocks.
    pub skipped: u64,
    /// Number of requests answered since the start, by [`Code`].
    pub codes: Vec<(Code, u64)>,
    /// Reason why the node takes no writes; `None` if it takes writes.
    pub read_only: Option<String>,
    /// Descriptions of the log's settings that guarantee less than they should.
    pub log_weaknesses: Vec<String>,
    /// Warning about the ledger's last records, if some were cut at the start.
    pub cut: Option<String>,
}

/// A running node.
pub struct Node<D: Disk> {
    shared: Arc<NodeState>,
    intake: Option<Sender<Arc<Call>>>,
    /// Verify worker that has no thread. A calling thread uses it for a single get.
    inline_worker: Option<VerifyWorker<D>>,
    /// Lock that a thread holds while it uses [`Self::inline_worker`].
    inline_lock: Mutex<()>,
    waiting_requests: usize,
    waiting_bytes: usize,
    cut: Option<String>,
    threads: Vec<JoinHandle<()>>,
    persister: Option<JoinHandle<Writer<D>>>,
}

impl<D: Disk> Node<D> {
    /// Opens the ledger, re-executes its content, and starts the node.
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
        // All nodes must give the same verdict, so a high s is always refused, whatever the options say.
        let verifier = Verifier::new(lineside_verify::Options {
            low_s: true,
            ..options.verify
        })?;
        let OpenedLedger {
            chain,
            view,
            writer,
            disagreement,
        } = open(disk, genesis, options.journal)?;
        let position = chain.tip().position;
        let cut = writer.cut().map(str::to_owned);
        let shared = Arc::new(NodeState::new(
            *chain.database(),
            &options,
            signer,
            view,
            position,
        ));
        let membership_status = shared.refresh_membership(chain.state().membership());
        if membership_status == MembershipStatus::Other {
            return Err(StartError::NotANode(options.node));
        }
        if let Some(why) = disagreement {
            shared.refuse_for_good(&why);
        }
        let (intake, calls) = unbounded();
        let (order, ordered) = bounded(QUEUED_STEPS_MAX);
        let (steps, to_execute) = bounded(QUEUED_STEPS_MAX);
        let (save, to_save) = bounded(QUEUED_STEPS_MAX);
        let (saved, persisted_groups) = unbounded::<PersistedGroup>();
        let checker = MessageVerifier {
            shared: shared.clone(),
            verifier: verifier.clone(),
            #[cfg(feature = "laboratory")]
            mode: options.mode,
            steps: steps.clone(),
            threads: options.verify_threads.max(1),
        };
        let (others, to_check) = bounded(QUEUED_STEPS_MAX);
        let checkers: Vec<MessageVerifier> = vec![checker.clone(); checker.threads];
        let next = AtomicU64::new(0);
        let deliver: Deliver =
            Box::new(move |entry| checker.take(next.fetch_add(1, Ordering::Relaxed), entry, &others));
        let (lost_sender, lost_messages) = unbounded();
        let opened_log = log(Start {
            database: shared.database,
            position,
            last: (position > 0).then_some(chain.tip().transactions_hash),
            deliver,
            on_lost: shared.on_lost(lost_sender.clone()),
            fault: shared.on_fault(lost_sender),
        })?;
        let orders_alone = matches!(opened_log.end(), Ok(None));
        if orders_alone && membership_status == MembershipStatus::NotYet {
            // A node with an embedded log orders alone, so no other node can add it by a vote.
            return Err(StartError::NotANode(options.node));
        }
        shared.set_log(opened_log);
        let mut threads = Vec::new();
        let mut spawn = |name: &str, work: Box<dyn FnOnce() + Send>| {
            let thread = std::thread::Builder::new().name(name.into()).spawn(work);
            thread.map(|thread| threads.push(thread))
        };
        let persister = Persister {
            shared: shared.clone(),
            writer,
            jobs: to_save,
            saved,
            failure: None,
        };
        let blocks = persister.writer.blocks();
        let inline_worker = VerifyWorker {
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
            let worker = inline_worker.clone();
            spawn("hybrid-verify", Box::new(move || worker.run()))?;
        }
        for checker in checkers {
            let to_check = to_check.clone();
            spawn("hybrid-check", Box::new(move || checker.run(&to_check)))?;
        }
        let sequence = first_sequence(chain.state().last_sequence(options.node), (options.clock)());
        let proposer = Proposer::new(
            shared.clone(),
            &options,
            sequence,
            ordered,
            persisted_groups,
            lost_messages,
        );
        spawn("hybrid-order", Box::new(move || proposer.run()))?;
        let executor = Executor {
            shared: shared.clone(),
            chain,
            verifier: verifier.clone(),
            steps: to_execute,
            save,
            last_heads: HashMap::new(),
        };
        spawn("hybrid-execute", Box::new(move || executor.run()))?;
        let persister = std::thread::Builder::new()
            .name("hybrid-save".into())
            .spawn(move || persister.run())?;
        Ok(Node {
            shared,
            intake: Some(intake),
            inline_worker: Some(inline_worker),
            inline_lock: Mutex::new(()),
            waiting_requests: options.waiting_requests,
            waiting_bytes: options.waiting_bytes,
            cut,
            threads,
            persister: Some(persister),
        })
    }

    /// Submits signed requests. One of the node's threads calls `done` with the answers, in the order of the
    /// requests; `done` must not block. Beyond [`Options::waiting_requests`] and [`Options::waiting_bytes`] all are
    /// answered `busy` at once.
    pub fn submit(&self, requests: Vec<Bytes>, done: impl FnOnce(Vec<Answer>) + Send + 'static) {
        let count = requests.len();
        let done: OnAnswers = Box::new(done);
        if count == 0 {
            return done(Vec::new());
        }
        self.enqueue(Call::new(requests, done));
    }

    fn enqueue(&self, call: Arc<Call>) {
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

    /// Like [`Self::submit`], but a single local get may be verified and answered on the calling thread, if no other
    /// request waits and the view is not locked. Waking another thread takes longer than verifying one signature.
    pub fn submit_inline(&self, requests: Vec<Bytes>, done: impl FnOnce(Vec<Answer>) + Send + 'static) {
        let is_single_local_get = matches!(&requests[..], [request] if is_local_get(request));
        let Some(inline_worker) = self.inline_worker.as_ref().filter(|_| is_single_local_get) else {
            return self.submit(requests, done);
        };
        let call = Call::new(requests, Box::new(done));
        let is_free = self.shared.waiting.load(Ordering::Acquire) == 0 && self.shared.can_read_view();
        // Concurrent callers go through the verify workers, which verify requests together. After a panic in this block
        // the lock is poisoned, so all callers do.
        match self.inline_lock.try_lock() {
            Ok(_inline_lock) if is_free => inline_worker.work(&[call]),
            _ => self.enqueue(call),
        }
    }

    /// Submits requests and waits for their answers.
    pub fn ask(&self, requests: Vec<Bytes>) -> Vec<Answer> {
        let (send, receive) = bounded(1);
        self.submit(requests, move |answers| {
            // `done` is called once and the channel holds one item, so `send` does not block.
            let _ = send.send(answers);
        });
        receive.recv().unwrap_or_default()
    }

    /// Calls `sink` for every write that a watch request asks for, until the returned value is dropped or `sink`
    /// returns false. Waits until the request is verified.
    ///
    /// # Errors
    /// Returns the code of the refusal; it is `busy` beyond the limits.
    pub fn watch(&self, request: Bytes, sink: Sink) -> Result<Watching, Code> {
        if operation(&request) != Some(HYBRID_OP_WATCH) {
            return Err(Code::Malformed);
        }
        let (subscription, mut watching) = Subscription::new(sink);
        let (send, receive) = bounded(1);
        let done: OnAnswers = Box::new(move |answers| {
            let _ = send.send(answers);
        });
        self.enqueue(Call::watch(request, subscription, done));
        match receive.recv().unwrap_or_default().first() {
            Some(Answer::Watching { block }) => {
                watching.block = *block;
                Ok(watching)
            }
            Some(Answer::Refused(code)) => Err(*code),
            _ => Err(Code::Malformed),
        }
    }

    /// Returns true if the database is in the paper's mode.
    pub fn is_paper(&self) -> bool {
        self.shared.read_view().membership().is_paper()
    }

    /// Returns the status of the node.
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
            members: view.membership().members(),
            nodes: view.membership().nodes(),
            quorum: view.membership().quorum(),
            paper: view.membership().is_paper(),
            verified: self.shared.verified.load(Ordering::Relaxed),
            batches: self.shared.batches.load(Ordering::Relaxed),
            skipped: self.shared.skipped.load(Ordering::Relaxed),
            codes: codes.collect(),
            read_only: self.shared.read_only().map(|why| why.to_string()),
            log_weaknesses: self.shared.log().map_or_else(Vec::new, |log| log.weaknesses()),
            cut: self.cut.clone(),
        }
    }

    /// Stops the node after all submitted requests are answered.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        self.intake = None;
        self.inline_worker = None;
        // The threads end one after another: first the verify workers, then the proposer, which closes the log; the end
        // of the log ends the executor, and so on.
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(
                    "hybrid: a thread of the node has panicked, which is a bug; restart the node"
                );
            }
        }
        self.persister.take().map(JoinHandle::join);
        self.shared.watchers.lock().clear();
    }
}

impl<D: Disk> Drop for Node<D> {
    fn drop(&mut self) {
        self.end();
    }
}

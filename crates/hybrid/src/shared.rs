//! What a node's threads share: what readers see, what is under way, and why no writes are taken.

use crate::answer::Answer;
use crate::block::{Cargo, Message, SignedHead};
use crate::log::{Fault, Log, LogError, Lost};
use crate::node::Options;
use crate::order::Pending;
use crate::replay_window::Windows;
use crate::request::DatabaseId;
use crate::roster::Roster;
use crate::sign::Signer;
use crate::ticket::{Ticket, answer_unknown};
use crate::view::View;
use crate::watch::Watchers;
use crossbeam_channel::Sender;
use lineside_verify::Verifier;
use lineside_wire::HybridCode as Code;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::time::{Duration, Instant};

/// How long a linearizable read waits for what was ordered before it; then it is told `busy`.
const ORDER_WAIT: Duration = Duration::from_secs(5);

/// Why no writes are taken.
#[derive(Default)]
struct Refusal {
    /// Until the node is started again: the first reason.
    for_good: Option<Arc<str>>,
    /// While this node is none of the database's; it follows all the same.
    no_node: Option<Arc<str>>,
    for_now: Option<Arc<str>>,
}

impl Refusal {
    fn why(&self) -> Option<&Arc<str>> {
        let reasons = [&self.for_good, &self.no_node, &self.for_now];
        reasons.into_iter().flatten().next()
    }
}

/// How a node stands among those of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// One of them.
    Node,
    /// There is none of its number: it may follow, and wait until it is added.
    NotYet,
    /// There is, with another key, or revoked.
    Other,
}

/// What a node's threads share.
pub(crate) struct Shared {
    pub database: DatabaseId,
    pub node: u32,
    pub signer: Arc<dyn Signer>,
    pub clock: fn() -> u64,
    pub waiting: AtomicUsize,
    pub waiting_bytes: AtomicUsize,
    /// The node is ending: nothing is waited for any more.
    pub stopping: AtomicBool,
    /// The disk has failed: what is executed is not durable, and never will be.
    pub disk_lost: AtomicBool,
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
    pub fn new(
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
            waiting_bytes: AtomicUsize::new(0),
            stopping: AtomicBool::new(false),
            disk_lost: AtomicBool::new(false),
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

    /// Whether [`Self::read_view`] would not wait now.
    pub fn can_read_view(&self) -> bool {
        !matches!(self.view.try_read(), Err(TryLockError::WouldBlock))
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
            _ if self.has_ended() => return Err(Code::ReadOnly),
            _ => return Err(Code::Busy),
        };
        let mut seen = self.seen();
        while *seen < end {
            if self.has_ended() {
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

    pub fn log(&self) -> Option<Arc<dyn Log>> {
        self.log.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why no proofs are made, if so: those of what is not durable prove nothing.
    pub fn no_proofs(&self) -> Option<Code> {
        if self.disk_lost.load(Ordering::Acquire) {
            return Some(Code::ReadOnly);
        }
        let refuses = self.refuses.lock().unwrap_or_else(PoisonError::into_inner);
        // The disk is full: proofs would wait behind blocks until it is not.
        refuses.for_now.as_ref().map(|_| Code::Busy)
    }

    /// Whether nothing more may come: no writes are taken for good.
    fn has_ended(&self) -> bool {
        self.is_refusing.load(Ordering::Acquire) && {
            let refuses = self.refuses.lock().unwrap_or_else(PoisonError::into_inner);
            refuses.for_good.is_some()
        }
    }

    /// Why no writes are taken, if so.
    pub fn read_only(&self) -> Option<Arc<str>> {
        if !self.is_refusing.load(Ordering::Acquire) {
            return None;
        }
        let refuses = self.refuses.lock().unwrap_or_else(PoisonError::into_inner);
        refuses.why().cloned()
    }

    /// From now on no writes are taken, until the node is started again.
    pub fn refuse_for_good(&self, why: &str) {
        tracing::error!("hybrid: no writes are taken until the next start: {why}");
        self.refuse(|refuses| {
            refuses.for_good.get_or_insert_with(|| why.into());
        });
    }

    /// From now on no writes are taken, or they are again.
    pub fn refuse_writes(&self, why: Option<&str>) {
        self.refuse(|refuses| {
            if let Some(why) = why
                && refuses.for_now.is_none()
            {
                tracing::error!("hybrid: no writes are taken for now: {why}");
            }
            refuses.for_now = why.map(Arc::from);
        });
    }

    fn refuse(&self, change: impl FnOnce(&mut Refusal)) {
        let mut refuses = self.refuses.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut refuses);
        self.is_refusing.store(refuses.why().is_some(), Ordering::Release);
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
    pub fn take_pending(&self, message: &Message<'_>) -> Option<Pending> {
        if message.node != self.node || matches!(message.cargo, Cargo::Head(_)) {
            return None;
        }
        let mut pending = self.pending();
        if pending.get(&message.sequence)?.signature != *message.signature {
            return None;
        }
        pending.remove(&message.sequence)
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

    /// How this node stands in a roster.
    fn standing(&self, roster: &Roster) -> Standing {
        let Some(key) = roster.any_node(self.node) else {
            return Standing::NotYet;
        };
        let head = SignedHead::sign(&self.database, self.node, 0, [0; 32], &*self.signer);
        let is_own = key.curve() == self.signer.curve()
            && head.is_signed_by(&self.database, key, &Verifier::default());
        match roster.node(self.node) {
            Some(_) if is_own => Standing::Node,
            _ => Standing::Other,
        }
    }

    /// Takes writes, or no more, as the node stands in a roster that has changed.
    pub fn stand(&self, roster: &Roster) -> Standing {
        let standing = self.standing(roster);
        let node = self.node;
        match standing {
            Standing::Other => self.refuse(|refuses| {
                refuses.no_node = Some(format!("node {node} is revoked, or its key is another").into());
            }),
            Standing::NotYet => self.refuse(|refuses| {
                refuses.no_node = Some(format!("node {node} is not one of the database's yet").into());
            }),
            Standing::Node => self.refuse(|refuses| refuses.no_node = None),
        }
        standing
    }

    /// The log is open.
    pub fn set_log(&self, log: Arc<dyn Log>) {
        *self.log.write().unwrap_or_else(PoisonError::into_inner) = Some(log);
    }

    /// Ends the log: nothing more is delivered.
    pub fn close_log(&self) {
        let log = self.log.write().unwrap_or_else(PoisonError::into_inner).take();
        // It may take a while to end, and nobody waits for the lock.
        drop(log);
    }

    /// The log has given a message up: its outcome is unknown. The orderer hears that it is not under way any more.
    pub fn on_lost(self: &Arc<Self>, lost: Sender<usize>) -> Lost {
        let shared = self.clone();
        Arc::new(move |message| {
            let message = Message::decode(message).ok();
            let pending = message.and_then(|message| shared.take_pending(&message));
            if let Some(pending) = pending {
                // The orderer may be gone: the node is stopping.
                let _ = lost.send(1);
                answer_unknown(pending.requests);
            }
        })
    }

    /// The log has ended: nothing that is under way comes back.
    pub fn on_fault(self: &Arc<Self>, lost: Sender<usize>) -> Fault {
        let shared = self.clone();
        Arc::new(move |why| {
            shared.refuse_for_good(&why);
            let pending = std::mem::take(&mut *shared.pending());
            let _ = lost.send(pending.len());
            pending.into_values().for_each(|one| answer_unknown(one.requests));
        })
    }
}

//! State shared by a node's threads: the view of readers, messages in flight, and the reason why no writes are taken.

use crate::answer::Answer;
use crate::log::{Fault, Log, LogError, Lost};
use crate::membership::Membership;
use crate::node::Options;
use crate::proposer::PendingMessage;
use crate::replay_window::Windows;
use crate::ticket::{Ticket, answer_unknown};
use crate::view::ReadView;
use crate::watch::Watchers;
use crossbeam_channel::Sender;
use lineside_messages::hybrid::block::{Cargo, Message, SignedHead};
use lineside_messages::hybrid::request::DatabaseId;
use lineside_messages::hybrid::sign::Signer;
use lineside_verify::Verifier;
use lineside_wire::HybridCode as Code;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, TryLockError};
use std::time::{Duration, Instant};

/// Maximum time for which a linearizable read waits for earlier messages of the log. After this time it is answered
/// `busy`.
const ORDER_WAIT_MAX: Duration = Duration::from_secs(5);

/// Reasons why the node takes no writes.
#[derive(Default)]
struct Refusal {
    /// First reason that lasts until the node is restarted.
    for_good: Option<Arc<str>>,
    /// Reason that lasts while this node is not a node of the database. The node still follows the log.
    no_node: Option<Arc<str>>,
    for_now: Option<Arc<str>>,
}

impl Refusal {
    fn why(&self) -> Option<&Arc<str>> {
        let reasons = [&self.for_good, &self.no_node, &self.for_now];
        reasons.into_iter().flatten().next()
    }
}

/// Status of this node in a membership of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MembershipStatus {
    /// The membership has this node, with this node's key.
    Node,
    /// The membership has no node with this node's number yet. This node may follow the log until it is added.
    NotYet,
    /// The membership has another key under this node's number, or the node is revoked.
    Other,
}

/// State shared by a node's threads.
pub(crate) struct NodeState {
    pub database: DatabaseId,
    pub node: u32,
    pub signer: Arc<dyn Signer>,
    pub clock: fn() -> u64,
    pub waiting: AtomicUsize,
    pub waiting_bytes: AtomicUsize,
    /// True if the node is stopping; threads that wait then return.
    pub stopping: AtomicBool,
    /// True if the disk has failed: executed blocks that are not durable will never become durable.
    pub disk_lost: AtomicBool,
    pub verified: AtomicU64,
    pub batches: AtomicU64,
    pub skipped: AtomicU64,
    pub windows: Mutex<Windows>,
    pub watchers: Watchers,
    /// Messages of this node that are in flight, by sequence number.
    pub pending: Mutex<HashMap<u64, PendingMessage>>,
    /// Highest sequence number of this node's messages that were read from the log.
    pub used_sequence: AtomicU64,
    pub codes: [AtomicU64; 32],
    pub head_every: u64,
    view: RwLock<ReadView>,
    /// Position of the log up to which the view is complete.
    view_position: Mutex<u64>,
    view_advanced: Condvar,
    log: RwLock<Option<Arc<dyn Log>>>,
    refusal: Mutex<Refusal>,
    is_refusing: AtomicBool,
    last_head: Mutex<Option<SignedHead>>,
}

impl NodeState {
    pub fn new(
        database: DatabaseId,
        options: &Options,
        signer: Arc<dyn Signer>,
        opened: ReadView,
        view_position: u64,
    ) -> NodeState {
        NodeState {
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
            view_position: Mutex::new(view_position),
            view_advanced: Condvar::new(),
            log: RwLock::new(None),
            refusal: Mutex::default(),
            is_refusing: AtomicBool::new(false),
            last_head: Mutex::default(),
        }
    }

    pub fn read_view(&self) -> RwLockReadGuard<'_, ReadView> {
        self.view.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if [`Self::read_view`] would not block at this moment.
    pub fn can_read_view(&self) -> bool {
        !matches!(self.view.try_read(), Err(TryLockError::WouldBlock))
    }

    /// Changes the view of readers, which then contains all messages up to `position` of the log.
    pub fn change_view(&self, position: u64, change: impl FnOnce(&mut ReadView)) {
        change(&mut self.view.write().unwrap_or_else(PoisonError::into_inner));
        self.pass(position);
    }

    /// Records that the view contains all messages up to `position` of the log.
    pub fn pass(&self, position: u64) {
        *self.view_position() = position;
        self.view_advanced.notify_all();
    }

    fn view_position(&self) -> MutexGuard<'_, u64> {
        self.view_position.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the view contains all messages that were ordered before this call.
    ///
    /// # Errors
    /// Returns the code of the answer if the log's end is not known, or if the wait takes too long.
    pub fn wait_for_order(&self) -> Result<(), Code> {
        let begin = Instant::now();
        let end = match self.log().map(|log| log.end()) {
            Some(Ok(None)) => return Ok(()),
            Some(Ok(Some(end))) => end,
            _ if self.has_ended() => return Err(Code::ReadOnly),
            _ => return Err(Code::Busy),
        };
        let mut view_position = self.view_position();
        while *view_position < end {
            if self.has_ended() {
                return Err(Code::ReadOnly);
            }
            if begin.elapsed() > ORDER_WAIT_MAX {
                return Err(Code::Busy);
            }
            let waited = self
                .view_advanced
                .wait_timeout(view_position, Duration::from_millis(100));
            (view_position, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
    }

    pub fn log(&self) -> Option<Arc<dyn Log>> {
        self.log.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns a code if no proofs are made at present. A proof of a state that is not durable proves nothing.
    pub fn no_proofs(&self) -> Option<Code> {
        if self.disk_lost.load(Ordering::Acquire) {
            return Some(Code::ReadOnly);
        }
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        // The disk is full: a proof would wait until the disk has room for the blocks before it.
        refusal.for_now.as_ref().map(|_| Code::Busy)
    }

    /// Returns true if the node takes no writes until its restart, so that the view may never advance again.
    fn has_ended(&self) -> bool {
        self.is_refusing.load(Ordering::Acquire) && {
            let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
            refusal.for_good.is_some()
        }
    }

    /// Returns the reason why the node takes no writes; `None` if it takes writes.
    pub fn read_only(&self) -> Option<Arc<str>> {
        if !self.is_refusing.load(Ordering::Acquire) {
            return None;
        }
        let refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        refusal.why().cloned()
    }

    /// Refuses writes until the node is restarted.
    pub fn refuse_for_good(&self, why: &str) {
        tracing::error!("hybrid: the node takes no writes until it is restarted: {why}");
        self.refuse(|refusal| {
            refusal.for_good.get_or_insert_with(|| why.into());
        });
    }

    /// Refuses writes for now if `why` gives a reason; accepts them again if it is `None`.
    pub fn refuse_writes(&self, why: Option<&str>) {
        self.refuse(|refusal| {
            if let Some(why) = why
                && refusal.for_now.is_none()
            {
                tracing::error!("hybrid: the node takes no writes for now: {why}");
            }
            refusal.for_now = why.map(Arc::from);
        });
    }

    fn refuse(&self, change: impl FnOnce(&mut Refusal)) {
        let mut refusal = self.refusal.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut refusal);
        self.is_refusing.store(refusal.why().is_some(), Ordering::Release);
    }

    pub fn append(&self, message: Vec<u8>) -> Result<(), LogError> {
        self.log()
            .ok_or_else(|| LogError("the node is stopping".into()))?
            .append(message)
    }

    pub fn pending(&self) -> MutexGuard<'_, HashMap<u64, PendingMessage>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes and returns the requests that wait for this message, if this node has sent it. The signature must be the
    /// same as that of the sent message: before a restart this node may have used the same sequence number, and anyone
    /// may write a message with this node's number to the log.
    pub fn take_pending(&self, message: &Message<'_>) -> Option<PendingMessage> {
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

    /// Returns the newest block's header with this node's signed head.
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

    /// Returns the status of this node in a membership of the database.
    fn membership_status(&self, membership: &Membership) -> MembershipStatus {
        let Some(key) = membership.any_node(self.node) else {
            return MembershipStatus::NotYet;
        };
        let head = SignedHead::sign(&self.database, self.node, 0, [0; 32], &*self.signer);
        let is_own = key.curve() == self.signer.curve()
            && head.is_signed_by(&self.database, key, &Verifier::default());
        match membership.node(self.node) {
            Some(_) if is_own => MembershipStatus::Node,
            _ => MembershipStatus::Other,
        }
    }

    /// Accepts or refuses writes after a change of the membership, depending on this node's status in it.
    pub fn refresh_membership(&self, membership: &Membership) -> MembershipStatus {
        let membership_status = self.membership_status(membership);
        let node = self.node;
        match membership_status {
            MembershipStatus::Other => self.refuse(|refusal| {
                let why = format!(
                    "node {node} is revoked or has another key in the database; give the number and the key file of \
                     a node of the database"
                );
                refusal.no_node = Some(why.into());
            }),
            MembershipStatus::NotYet => self.refuse(|refusal| {
                refusal.no_node = Some(format!("node {node} is not a node of this database yet").into());
            }),
            MembershipStatus::Node => self.refuse(|refusal| refusal.no_node = None),
        }
        membership_status
    }

    /// Stores the log, which was just opened.
    pub fn set_log(&self, log: Arc<dyn Log>) {
        *self.log.write().unwrap_or_else(PoisonError::into_inner) = Some(log);
    }

    /// Closes the log: it delivers no more messages.
    pub fn close_log(&self) {
        let log = self.log.write().unwrap_or_else(PoisonError::into_inner).take();
        // Dropping the log may take long, so this happens after the lock is released.
        drop(log);
    }

    /// Returns the callback for a message that the log has given up. The callback answers its requests with an unknown
    /// outcome, and lets the proposer count one message less in flight.
    pub fn on_lost(self: &Arc<Self>, lost_sender: Sender<usize>) -> Lost {
        let shared = self.clone();
        Arc::new(move |message| {
            let message = Message::decode(message).ok();
            let pending = message.and_then(|message| shared.take_pending(&message));
            if let Some(pending) = pending {
                // If the proposer has ended, the node is stopping and the error does not matter.
                let _ = lost_sender.send(1);
                answer_unknown(pending.requests);
            }
        })
    }

    /// Returns the callback for the end of the log. After it, the log delivers no message that is in flight.
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

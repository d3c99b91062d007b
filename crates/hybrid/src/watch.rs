//! Watchers: subscribers that are notified of durable writes in the order of the ledger.

use crate::membership::Membership;
use crate::state::WriteEffect;
use lineside_messages::hybrid::answer::SharedKey;
use lineside_messages::hybrid::request::{Head, MemberId, Version};
use lineside_wire::HybridCode as Code;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Maximum number of watchers of a node. Each write is compared with the prefix of every watcher.
const WATCHERS_MAX: usize = 1000;
/// Maximum number of watchers of one member.
const WATCHERS_PER_MEMBER: usize = 100;

/// A durable write below a watcher's prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The key.
    pub key: SharedKey,
    /// Version of the write.
    pub version: Version,
    /// New value; `None`: the key was deleted.
    pub value: Option<Arc<[u8]>>,
}

/// Item that a watcher receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notification {
    /// A write.
    Event(Event),
    /// The subscription has ended for this reason.
    Ended(Code),
}

/// Callback that takes notifications. It must not block. Returns false to end the subscription.
pub type Sink = Box<dyn FnMut(Notification) -> bool + Send>;

/// Handle of a subscription to writes. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Watching {
    /// Number of a block: the watcher is notified of all writes of later blocks.
    pub block: u64,
    cancelled: Arc<AtomicBool>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Release);
    }
}

/// A subscription whose watch request is not verified yet.
pub(crate) struct Subscription {
    sink: Sink,
    cancelled: Arc<AtomicBool>,
}

impl Subscription {
    pub fn new(sink: Sink) -> (Subscription, Watching) {
        let cancelled = Arc::new(AtomicBool::new(false));
        let watching = Watching {
            block: 0,
            cancelled: cancelled.clone(),
        };
        (Subscription { sink, cancelled }, watching)
    }
}

struct Watcher {
    member: MemberId,
    key: u16,
    prefix: Vec<u8>,
    subscription: Subscription,
}

/// All watchers of a node.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<Vec<Watcher>>);

impl Watchers {
    /// Locks the list of watchers. The thread that makes a block visible holds the lock until all watchers are
    /// notified. So a new watcher is notified of all blocks after the one that it saw when it was added.
    pub fn lock(&self) -> LockedWatchers<'_> {
        LockedWatchers(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) struct LockedWatchers<'a>(MutexGuard<'a, Vec<Watcher>>);

impl LockedWatchers<'_> {
    /// Adds a watcher whose request was verified. Returns false if the node or the member has the maximum number of
    /// watchers.
    pub fn add(&mut self, head: &Head, prefix: &[u8], subscription: Subscription) -> bool {
        self.0
            .retain(|watcher| !watcher.subscription.cancelled.load(Ordering::Acquire));
        let own = self.0.iter().filter(|watcher| watcher.member == head.member);
        if self.0.len() >= WATCHERS_MAX || own.count() >= WATCHERS_PER_MEMBER {
            return false;
        }
        self.0.push(Watcher {
            member: head.member,
            key: head.key,
            prefix: prefix.to_owned(),
            subscription,
        });
        true
    }

    /// Removes all watchers.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns a copy of these writes if there are watchers, and otherwise an empty list.
    pub fn copy_if_watched(&self, writes: &[WriteEffect]) -> Vec<WriteEffect> {
        match self.0.is_empty() {
            true => Vec::new(),
            false => writes.to_vec(),
        }
    }

    /// Notifies every watcher whose prefix and current rights match a write.
    pub fn notify(&mut self, membership: &Membership, writes: &[WriteEffect]) {
        self.0.retain_mut(|watcher| {
            !watcher.subscription.cancelled.load(Ordering::Acquire) && watcher.notify(membership, writes)
        });
    }
}

impl Watcher {
    fn notify(&mut self, membership: &Membership, writes: &[WriteEffect]) -> bool {
        if !membership.is_active(self.member, self.key) {
            (self.subscription.sink)(Notification::Ended(Code::Revoked));
            return false;
        }
        let below = writes.iter().filter(|write| write.key.starts_with(&self.prefix));
        for write in below {
            if !membership.rights(self.member, &write.key).read {
                continue;
            }
            let event = Event {
                key: write.key.clone(),
                version: write.version,
                value: write.value.clone(),
            };
            if !(self.subscription.sink)(Notification::Event(event)) {
                return false;
            }
        }
        true
    }
}

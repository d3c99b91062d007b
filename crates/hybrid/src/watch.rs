//! Watchers: who is told of writes when they are durable, in the ledger's order.

use crate::request::{Head, MemberId, Version};
use crate::roster::Roster;
use crate::state::{SharedKey, Written};
use lineside_wire::HybridCode as Code;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Watchers of a node, at most: each looks at every write.
const WATCHERS_MAX: usize = 1000;
/// Of one member, at most.
const WATCHERS_PER_MEMBER: usize = 100;

/// A write below a watcher's prefix. It is durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The key.
    pub key: SharedKey,
    /// When it was written.
    pub version: Version,
    /// What the key has from then on; `None`: nothing.
    pub value: Option<Arc<[u8]>>,
}

/// What a watcher is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// A write.
    Event(Event),
    /// Nothing more comes, because of this.
    Ended(Code),
}

/// Takes what a watcher is told. It must not block. False: it takes nothing more, and is forgotten.
pub type Sink = Box<dyn FnMut(Told) -> bool + Send>;

/// A watcher's end of it: when it is dropped, nothing more is told.
#[derive(Debug)]
pub struct Watching {
    /// All writes of later blocks are told.
    pub block: u64,
    gone: Arc<AtomicBool>,
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.gone.store(true, Ordering::Release);
    }
}

/// A watcher before its request was verified.
pub(crate) struct Wish {
    sink: Sink,
    gone: Arc<AtomicBool>,
}

impl Wish {
    pub fn new(sink: Sink) -> (Wish, Watching) {
        let gone = Arc::new(AtomicBool::new(false));
        let watching = Watching {
            block: 0,
            gone: gone.clone(),
        };
        (Wish { sink, gone }, watching)
    }
}

struct Watcher {
    member: MemberId,
    key: u16,
    prefix: Vec<u8>,
    wish: Wish,
}

/// All watchers of a node.
#[derive(Default)]
pub(crate) struct Watchers(Mutex<Vec<Watcher>>);

impl Watchers {
    /// Nobody is added while this is held: whoever makes a block visible holds it until all were told, so that a
    /// watcher is told of all blocks behind the one that it saw when it was added.
    pub fn hold(&self) -> Held<'_> {
        Held(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

pub(crate) struct Held<'a>(MutexGuard<'a, Vec<Watcher>>);

impl Held<'_> {
    /// Adds a watcher whose request was verified. False: there are too many.
    pub fn add(&mut self, head: &Head, prefix: &[u8], wish: Wish) -> bool {
        self.0
            .retain(|watcher| !watcher.wish.gone.load(Ordering::Acquire));
        let own = self.0.iter().filter(|watcher| watcher.member == head.member);
        if self.0.len() >= WATCHERS_MAX || own.count() >= WATCHERS_PER_MEMBER {
            return false;
        }
        self.0.push(Watcher {
            member: head.member,
            key: head.key,
            prefix: prefix.to_owned(),
            wish,
        });
        true
    }

    /// Nothing is told any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// What there is to tell of these writes, before they go elsewhere.
    pub fn keep(&self, writes: &[Written]) -> Vec<Written> {
        match self.0.is_empty() {
            true => Vec::new(),
            false => writes.to_vec(),
        }
    }

    /// Tells all whom it concerns, by the rights that they have now.
    pub fn tell(&mut self, roster: &Roster, writes: &[Written]) {
        self.0
            .retain_mut(|watcher| !watcher.wish.gone.load(Ordering::Acquire) && watcher.tell(roster, writes));
    }
}

impl Watcher {
    fn tell(&mut self, roster: &Roster, writes: &[Written]) -> bool {
        if !roster.is_active(self.member, self.key) {
            (self.wish.sink)(Told::Ended(Code::Revoked));
            return false;
        }
        let below = writes.iter().filter(|write| write.key.starts_with(&self.prefix));
        for write in below {
            if !roster.rights(self.member, &write.key).read {
                continue;
            }
            let event = Event {
                key: write.key.clone(),
                version: write.version,
                value: write.value.clone(),
            };
            if !(self.wish.sink)(Told::Event(event)) {
                return false;
            }
        }
        true
    }
}

//! Cache of tables: decides by use which keys have a table and of which width, within a fixed number of bytes.
//!
//! A *use* is a valid signature. Verdicts come after the batch, so between `look_up` and `record_verdicts` the batch's
//! signatures count as *hoped for*.
//!
//! - A key is *seen* until it is used again; that takes no memory of its own (`admission_counter`).
//! - Then it gets the smallest table, on *probation*. There the least recently used table makes room for the next,
//!   but only if it is idle or was used less often. So keys that recur in a cycle too large for the memory do not
//!   evict each other without benefit.
//! - After `HOT_USES` uses the key is *protected*. Probation has its own bytes, so any number of keys that come and go
//!   there cannot affect a protected one.
//! - Protected keys get larger tables with use. A key shares the bytes with keys that are as hot or hotter. Colder
//!   ones count less, and much colder ones nothing, and make room for it. So thousands of keys that are each used a
//!   little take nothing from one that is used much; for that, each of them would have to be used as much. Uses are
//!   halved from time to time, so they measure how hot a key is now.
//! - Among the protected, these make room: a key that is much colder, then a table above its share, then, for a new
//!   key, the least recently used one that is not much hotter. An evicted key goes back on probation, and so does an
//!   idle one.
//!
//! The cache does not know the content of tables. The caller makes the values, without the cache's lock, between
//! `next_build` and `finish_build`. Tables being built count as existing.

mod eviction;
#[cfg(test)]
mod tests;

use crate::admission_counter::AdmissionCounter;
use crate::key::PublicKey;
use hashbrown::HashTable;
use std::collections::VecDeque;

/// Number of uses from which on a table of this width pays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promotion {
    pub(crate) width: u32,
    pub(crate) uses: u64,
}

/// Widths of tables, and the number of uses after which a key gets each.
///
/// It is not known whether a key will be used again. So a table is built when the additions that it would have saved
/// so far equal the cost of building it; in the worst case the total work is about twice the minimum. A table of
/// width w has ⌈256/w⌉·2^(w-1) points, one addition each, and a use costs ⌈256/w⌉ additions; without a table it costs
/// about 350. The smallest table is an exception: most of its cost are doublings, whose cost depends on the backend,
/// so each backend defines its number of uses (`Backend::first_uses`).
///
/// | w | bytes | additions to build | to use | saved | paid back after | uses |
/// |---|---|---|---|---|---|---|
/// | 5 | 52 KiB | 832, 260 doublings | 52 | 300 | 3 | the backend's |
/// | 8 | 256 KiB | 4,096 | 32 | 20 | 205 | 256 |
/// | 10 | 832 KiB | 13,312 | 26 | 6 | 2,219 | 2,048 |
/// | 13 | 5 MiB | 81,920 | 20 | 6 | 13,653 | 16,384 |
pub(crate) const PROMOTIONS: [Promotion; 4] = [
    Promotion { width: 5, uses: 0 },
    Promotion { width: 8, uses: 256 },
    Promotion {
        width: 10,
        uses: 2_048,
    },
    Promotion {
        width: 13,
        uses: 16_384,
    },
];

/// Number of uses that make a key hot. An attacker pays as much as others for a place among the protected, and the
/// place lasts only as long as the key is used.
pub(crate) const HOT_USES: u64 = 64;

/// Difference of levels above which a key is *much colder* than another one, where a level is the number of binary
/// digits of the uses: it then has about 1/16 of the uses or less. The difference is small enough that 10,000 uses
/// count for something next to 100, and large enough that keys with the same traffic stay within it.
const MUCH_COLDER_LEVELS: usize = 3;

/// Number of signatures without a use after which a table is idle: about a second of work of one core.
pub(crate) const IDLE_AFTER_SIGNATURES: u64 = 1 << 20;

/// Maximum number of builds in the queue; further ones are forgotten until the key is seen again.
pub(crate) const QUEUED_BUILDS_MAX: usize = 512;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    Probation,
    Protected,
}
use Segment::{Probation, Protected};

struct Entry<V> {
    key: PublicKey,
    hash: u64,
    /// The table and its width.
    table: Option<(V, u32)>,
    /// Valid signatures, halved from time to time.
    uses: u64,
    /// Signatures whose verdict is still pending.
    hoped: u64,
    last_use: u64,
    /// True while a build is in the queue or running: the entry keeps its place meanwhile.
    pending: bool,
    /// `None` before its first table.
    segment: Option<Segment>,
    /// Neighbour towards the most recently used.
    newer: u32,
    older: u32,
}

impl<V> Entry<V> {
    /// Returns true if the entry has no table, no pending build and no place, so that it can be removed.
    fn is_bare(&self) -> bool {
        self.table.is_none() && !self.pending && self.segment.is_none()
    }

    /// Number of binary digits of its uses, less one.
    fn level(&self) -> usize {
        self.uses.max(1).ilog2() as usize
    }
}

/// A list of entries ordered by use, with its limit in bytes.
struct List {
    limit: usize,
    /// Bytes of existing tables, and of those being built for it.
    bytes: usize,
    entries: usize,
    newest: u32,
    oldest: u32,
}

impl List {
    fn new(limit: usize) -> Self {
        Self {
            limit,
            bytes: 0,
            entries: 0,
            newest: NONE,
            oldest: NONE,
        }
    }
}

/// A table to be built, for `finish_build`. Its bytes are reserved until then.
#[derive(Debug)]
pub(crate) struct Build {
    pub(crate) key: PublicKey,
    pub(crate) width: u32,
    slot: u32,
    segment: Segment,
}

impl Build {
    /// Kind of the build. Builds of the same kind can be done together.
    pub(crate) fn kind(&self) -> (u8, u32) {
        (self.key.curve() as u8, self.width)
    }
}

/// Result of looking up a key.
pub(crate) struct Lookup<V> {
    pub(crate) value: Option<V>,
    /// True if a build for it is in the queue or running.
    pub(crate) pending: bool,
    /// For `record_verdicts`.
    pub(crate) slot_hint: SlotHint,
}

/// Slot in which a key was found, if it was; the key may have been removed since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotHint(u32);

/// Counts of past events, and the current content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) builds: u64,
    pub(crate) evictions: u64,
    pub(crate) refusals: u64,
    pub(crate) bytes: usize,
    pub(crate) tables: usize,
    pub(crate) protected: usize,
    pub(crate) queued: usize,
}

/// Tables `V` by key. They are cloned when found, so `V` should be a cheap handle.
pub(crate) struct Cache<V> {
    bytes_of: fn(u32) -> usize,
    probation: List,
    protected: List,
    entries: Vec<Entry<V>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    admission_counter: AdmissionCounter,
    queue: VecDeque<u32>,
    /// Number of uses from which on a key gets the smallest table.
    first_uses: u64,
    /// Number of protected keys by level: the binary digits of their uses, less one.
    hot: [u32; 64],
    /// Number of signatures so far; `halve_at` is the next time at which uses are halved.
    clock: u64,
    halve_at: u64,
    /// Position at which the search for room continues if it does not begin at the least recently used.
    hand: usize,
    tables: usize,
    builds: u64,
    evictions: u64,
    refusals: u64,
}

impl<V: Clone> Cache<V> {
    /// Creates a cache whose tables of keys take at most `bytes`; a table of width w takes `bytes_of(w)`. Of these
    /// bytes, `protected_percent` percent are for hot keys. A key gets its first, smallest table after `first_uses`
    /// uses.
    pub(crate) fn new(
        bytes: usize,
        protected_percent: u8,
        first_uses: u64,
        bytes_of: fn(u32) -> usize,
    ) -> Self {
        let protected = (bytes as u128 * u128::from(protected_percent.min(100)) / 100) as usize;
        let mut cache = Self {
            bytes_of,
            probation: List::new(bytes - protected),
            protected: List::new(protected),
            entries: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            admission_counter: AdmissionCounter::new(),
            queue: VecDeque::new(),
            first_uses,
            hot: [0; 64],
            clock: 0,
            halve_at: 0,
            hand: 0,
            tables: 0,
            builds: 0,
            evictions: 0,
            refusals: 0,
        };
        cache.halve_at = cache.halving();
        cache
    }

    pub(crate) fn counts(&self) -> Counts {
        Counts {
            builds: self.builds,
            evictions: self.evictions,
            refusals: self.refusals,
            bytes: self.probation.bytes + self.protected.bytes,
            tables: self.tables,
            protected: self.protected.entries,
            queued: self.queue.len(),
        }
    }

    /// Finds the table of a key with which `hoped` signatures, at least one, are to be verified. `hash` must always
    /// be the same for the key. `record_verdicts` must follow.
    pub(crate) fn look_up(&mut self, key: &PublicKey, hash: u64, hoped: u64) -> Lookup<V> {
        self.clock += hoped;
        self.halve_when_due();
        self.demote_idle();
        let slot = match self.find(key, hash) {
            Some(slot) => slot,
            None => {
                let uses = self.admission_counter.count(hash);
                if uses + hoped < self.first_uses || self.queue.len() == QUEUED_BUILDS_MAX {
                    return Lookup {
                        value: None,
                        pending: false,
                        slot_hint: SlotHint(NONE),
                    };
                }
                self.insert(key, hash, uses)
            }
        };
        let clock = self.clock;
        let entry = &mut self.entries[slot as usize];
        entry.hoped += hoped;
        entry.last_use = clock;
        self.mark_used(slot);
        self.queue_build_if_due(slot);
        let entry = &self.entries[slot as usize];
        Lookup {
            value: entry.table.as_ref().map(|(value, _)| value.clone()),
            pending: entry.pending,
            slot_hint: SlotHint(slot),
        }
    }

    /// Records the outcome of the `hoped` signatures of one `look_up`: `valid` of them were valid.
    pub(crate) fn record_verdicts(
        &mut self,
        key: &PublicKey,
        hash: u64,
        slot_hint: SlotHint,
        hoped: u64,
        valid: u64,
    ) {
        let Some(slot) = self.find_in_slot(slot_hint, key).or_else(|| self.find(key, hash)) else {
            if valid > 0 {
                self.admission_counter.add(hash, valid);
            }
            return;
        };
        let entry = &mut self.entries[slot as usize];
        // An entry other than the looked-up one may not have counted them.
        entry.hoped = entry.hoped.saturating_sub(hoped);
        let (uses, segment) = (entry.uses + valid, entry.segment);
        self.set_uses(slot, uses);
        if segment == Some(Probation) && uses >= HOT_USES {
            self.mark_used(slot);
        }
    }

    /// Returns the table of a key, if it has one, without counting a use.
    pub(crate) fn get(&self, key: &PublicKey, hash: u64) -> Option<V> {
        let slot = self.find(key, hash)?;
        self.entries[slot as usize]
            .table
            .as_ref()
            .map(|(value, _)| value.clone())
    }

    /// Returns the next table to build, in the order of requests.
    pub(crate) fn next_build(&mut self) -> Option<Build> {
        while let Some(slot) = self.queue.pop_front() {
            if let Some(build) = self.reserve(slot) {
                return Some(build);
            }
            self.entries[slot as usize].pending = false;
            self.drop_if_bare(slot);
        }
        None
    }

    /// Reserves memory for the largest table that the entry's use justifies; `None` if no larger table fits.
    fn reserve(&mut self, slot: u32) -> Option<Build> {
        let entry = &self.entries[slot as usize];
        let key = entry.key;
        let wanted = self.target(slot);
        let smallest = PROMOTIONS[0].width;
        let candidates = match entry.segment {
            Some(segment) => [Some((segment, wanted)), None],
            None if entry.uses >= HOT_USES => [Some((Protected, wanted)), Some((Probation, smallest))],
            None => [Some((Probation, smallest)), None],
        };
        for (segment, width) in candidates.into_iter().flatten() {
            let bytes = (self.bytes_of)(width);
            if width > self.width(slot) && self.make_room(slot, segment, bytes) {
                self.list(segment).bytes += bytes;
                return Some(Build {
                    key,
                    width,
                    slot,
                    segment,
                });
            }
        }
        None
    }

    /// Stores a table in place of its key's smaller one.
    pub(crate) fn finish_build(&mut self, build: Build, value: V) {
        let Build {
            width, slot, segment, ..
        } = build;
        self.builds += 1;
        self.take_table(slot);
        self.tables += 1;
        let entry = &mut self.entries[slot as usize];
        entry.table = Some((value, width));
        entry.pending = false;
        match entry.segment {
            None => self.link(slot, segment),
            // It may have moved to another segment meanwhile, and its bytes move with it.
            Some(now) => {
                let bytes = (self.bytes_of)(width);
                self.list(segment).bytes -= bytes;
                self.list(now).bytes += bytes;
            }
        }
        self.trim();
    }

    fn find(&self, key: &PublicKey, hash: u64) -> Option<u32> {
        let same = |&slot: &u32| self.entries[slot as usize].key == *key;
        self.index.find(hash, same).copied()
    }

    /// Returns the slot in which the key was found before, if it is still there.
    fn find_in_slot(&self, slot_hint: SlotHint, key: &PublicKey) -> Option<u32> {
        let entry = self.entries.get(slot_hint.0 as usize)?;
        (entry.key == *key && !entry.is_bare()).then_some(slot_hint.0)
    }

    fn insert(&mut self, key: &PublicKey, hash: u64, uses: u64) -> u32 {
        let entry = Entry {
            key: *key,
            hash,
            table: None,
            uses,
            hoped: 0,
            last_use: self.clock,
            pending: false,
            segment: None,
            newer: NONE,
            older: NONE,
        };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.entries[slot as usize] = entry;
                slot
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        let entries = &self.entries;
        self.index
            .insert_unique(hash, slot, |&slot| entries[slot as usize].hash);
        slot
    }

    /// Removes an entry that has no table, no pending build and no place.
    fn drop_if_bare(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        if entry.is_bare() {
            if let Ok(found) = self.index.find_entry(entry.hash, |&at| at == slot) {
                found.remove();
            }
            self.free.push(slot);
        }
    }

    /// Queues a build if a larger table would pay.
    fn queue_build_if_due(&mut self, slot: u32) {
        let wanted = !self.entries[slot as usize].pending && self.target(slot) > self.width(slot);
        if wanted && self.queue.len() < QUEUED_BUILDS_MAX {
            self.entries[slot as usize].pending = true;
            self.queue.push_back(slot);
        }
    }

    fn width(&self, slot: u32) -> u32 {
        self.entries[slot as usize]
            .table
            .as_ref()
            .map_or(0, |(_, width)| *width)
    }

    /// Bytes of an entry's table.
    fn bytes(&self, slot: u32) -> usize {
        self.entries[slot as usize]
            .table
            .as_ref()
            .map_or(0, |(_, width)| (self.bytes_of)(*width))
    }

    /// A key's share of the protected bytes: equal among itself and all keys that are as hot or hotter. Colder ones
    /// count less, and much colder ones nothing.
    fn share(&self, slot: u32) -> usize {
        let entry = &self.entries[slot as usize];
        let level = entry.level();
        // Includes keys with half the uses or more, because chance and halving separate keys of the same traffic.
        let alike: u32 = self.hot[level.saturating_sub(1)..].iter().sum();
        let colder = |by: usize| level.checked_sub(by).map_or(0, |level| self.hot[level] as usize);
        let itself = usize::from(entry.segment != Some(Protected));
        let quarters = 4 * (alike as usize + itself) + 2 * colder(2) + colder(3);
        4 * self.protected.limit / quarters.max(4)
    }

    /// Width that an entry's use deserves: the smallest on probation, else the largest within its share.
    fn target(&self, slot: u32) -> u32 {
        let entry = &self.entries[slot as usize];
        let share = match entry.segment {
            Some(Protected) => self.share(slot),
            None if entry.uses >= HOT_USES => self.share(slot),
            _ => 0,
        };
        let deserved = |promotion: &&Promotion| {
            entry.uses >= promotion.uses && (self.bytes_of)(promotion.width) <= share
        };
        PROMOTIONS
            .iter()
            .rev()
            .find(deserved)
            .unwrap_or(&PROMOTIONS[0])
            .width
    }

    fn set_uses(&mut self, slot: u32, uses: u64) {
        let entry = &mut self.entries[slot as usize];
        let before = entry.level();
        entry.uses = uses;
        let now = entry.level();
        if entry.segment == Some(Protected) {
            self.hot[before] -= 1;
            self.hot[now] += 1;
        }
    }

    /// Number of signatures between two halvings: enough for each of the keys that fit to earn the largest table, and
    /// at least the number that makes a table idle.
    ///
    /// The sum of all uses is never more than twice that. So at most twice as many keys as fit can deserve the
    /// largest table at a time, even if an attacker pays for them.
    fn halving(&self) -> u64 {
        let largest = PROMOTIONS[PROMOTIONS.len() - 1];
        let room = (self.protected.limit / (self.bytes_of)(largest.width)) as u64;
        IDLE_AFTER_SIGNATURES.max(room * largest.uses)
    }

    fn halve_when_due(&mut self) {
        if self.clock < self.halve_at {
            return;
        }
        let times = 1 + (self.clock - self.halve_at) / self.halving();
        self.halve_at += times * self.halving();
        self.hot = [0; 64];
        for entry in &mut self.entries {
            entry.uses >>= times.min(63);
            if entry.segment == Some(Protected) {
                self.hot[entry.level()] += 1;
            }
        }
    }
}

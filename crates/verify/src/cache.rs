//! Cache of tables of multiples. Within a fixed number of bytes, it decides which keys have a table and of which width,
//! by the number of their valid signatures.
//!
//! A *use* of a key is a valid signature by it. The verdicts are known only after the batch, so between `look_up` and
//! `record_verdicts` the signatures of the batch are counted as *hoped* (their verdict is pending).
//!
//! - A new key is only *seen*: it is counted in `admission_counter`, which takes no memory for each key.
//! - After some uses the key gets the smallest table and is on *probation*. If the bytes for probation are used up, the
//!   least recently used table there is evicted for a new one, but only if it is idle or its key was used less often
//!   than the new key. So keys that recur in a cycle which is too large for the memory do not evict each other without
//!   benefit.
//! - After `HOT_USES` uses the key is hot and becomes *protected*. Protected keys and keys on probation have separate
//!   bytes, so any number of new keys on probation cannot affect a protected key.
//! - A protected key gets larger tables with more uses. The size is limited by the key's share of the bytes: a key
//!   shares them with the keys that are as hot or hotter (that have as many or more uses). Colder keys count less, much
//!   colder ones not at all, and their tables are evicted for the key. So thousands of keys that are each used a little
//!   take nothing from a key that is used much; to do so, each of them would have to be used as much. All numbers of
//!   uses are halved from time to time, so that they measure how hot a key is at present.
//! - If the bytes for protected keys are used up, space is made in this order: by a key that is much colder; by a table
//!   above its key's share; for a new protected key, by the least recently used key that is not much hotter. An evicted
//!   or idle protected key goes back on probation.
//! - A *prepared* key (`PreparedKey`) has a table for as long as the caller keeps a handle. Its bytes are taken from
//!   those for protected keys, whose limit is lowered by them until the last handle is dropped.
//!
//! The cache does not know the content of tables. The caller builds them between `next_build` and `finish_build`,
//! without the cache's lock. Tables that are being built count as existing.

mod eviction;
mod prepared;
#[cfg(test)]
mod tests;

use crate::admission_counter::AdmissionCounter;
use crate::key::PublicKey;
use hashbrown::HashTable;
use std::collections::VecDeque;

/// Width of a table, and number of uses from which on a table of this width saves more time than it costs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promotion {
    pub(crate) width: u32,
    pub(crate) uses: u64,
}

/// Widths of tables, and the number of uses after which a key gets each.
///
/// It is not known in advance how often a key will be used. So a table is built when the additions that it would have
/// saved so far equal the cost of building it; in the worst case the total work is about twice the minimum. A table of
/// width w has ⌈256/w⌉·2^(w-1) points, whose construction costs one addition each, and a verification with the table
/// costs ⌈256/w⌉ additions; without a table it costs about 350 additions. The smallest table is an exception: most of
/// its cost is doublings, whose cost depends on the backend, so each backend defines its number of uses
/// (`Backend::first_uses`).
///
/// | w | bytes | additions to build | additions for a use | saved by a use | uses that pay for it | uses required |
/// |---|---|---|---|---|---|---|
/// | 5 | 52 KiB | 832, and 260 doublings | 52 | 300 | 3 | `Backend::first_uses` |
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

/// Number of uses (valid signatures) that make a key hot, so that it becomes protected. An attacker's key needs as many
/// uses as any other, and stays protected only while it is used.
pub(crate) const HOT_USES: u64 = 64;

/// Difference of levels above which a key is *much colder* than another one. The level of a key is the number of binary
/// digits of its uses, so a much colder key has about 1/16 of the uses or less. The difference is small enough that a
/// key with 10,000 uses has an advantage over a key with 100, and large enough that two keys with equal traffic are not
/// treated differently.
const MUCH_COLDER_LEVELS: usize = 3;

/// Number of verified signatures, of any keys, after which a table that was not used counts as idle. One core verifies
/// this number in about a second.
pub(crate) const IDLE_AFTER_SIGNATURES: u64 = 1 << 20;

/// Maximum number of builds in the queue. A further build is not queued until its key is seen again.
pub(crate) const QUEUED_BUILDS_MAX: usize = 512;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    Probation,
    Protected,
    /// Keys that the caller has prepared. Their tables are neither evicted nor replaced.
    Prepared,
}
use Segment::{Prepared, Probation, Protected};

struct Entry<V> {
    key: PublicKey,
    hash: u64,
    /// Table of the key and its width; `None` if the key has no table.
    table: Option<(V, u32)>,
    /// Number of valid signatures, halved from time to time.
    uses: u64,
    /// Number of signatures whose verdict is still pending.
    hoped: u64,
    last_use: u64,
    /// True while a build for this key is in the queue or running. The entry is not removed during this time.
    pending: bool,
    /// Segment in whose list the entry is; `None` before its first table.
    segment: Option<Segment>,
    /// Number of handles of a prepared key; 0 in the other segments.
    handles: u32,
    /// Slot of the neighbour in the list that was used more recently.
    newer: u32,
    older: u32,
}

impl<V> Entry<V> {
    /// Returns true if the entry has no table, no pending build and is in no list, so that it can be removed.
    fn is_bare(&self) -> bool {
        self.table.is_none() && !self.pending && self.segment.is_none()
    }

    /// Returns the entry's level: the number of binary digits of its uses, minus one.
    fn level(&self) -> usize {
        self.uses.max(1).ilog2() as usize
    }
}

/// List of the entries of a segment, ordered by the time of their last use, with the segment's limit in bytes.
struct List {
    limit: usize,
    /// Number of bytes of the list's tables, and of tables that are being built for the list.
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

/// Order to build a table. Its bytes are reserved until the caller gives the table to `finish_build`.
#[derive(Debug)]
pub(crate) struct Build {
    pub(crate) key: PublicKey,
    pub(crate) width: u32,
    slot: u32,
    segment: Segment,
}

impl Build {
    /// Returns the kind of the build: curve and width. Builds of the same kind can be done together.
    pub(crate) fn kind(&self) -> (u8, u32) {
        (self.key.curve() as u8, self.width)
    }
}

/// Result of looking up a key.
pub(crate) struct Lookup<V> {
    pub(crate) value: Option<V>,
    /// True if a build for the key is in the queue or running.
    pub(crate) pending: bool,
    /// Slot of the key, which the caller gives to `record_verdicts`.
    pub(crate) slot_hint: SlotHint,
}

/// Slot in which a key was found, or a value that names no slot. The key may have been removed from the slot since
/// then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotHint(u32);

/// Numbers of past events, and of the current content of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) builds: u64,
    pub(crate) evictions: u64,
    pub(crate) refusals: u64,
    pub(crate) bytes: usize,
    pub(crate) tables: usize,
    pub(crate) protected: usize,
    pub(crate) prepared: usize,
    pub(crate) queued: usize,
}

/// Cache of values `V` (tables) by key. A value is cloned when it is found, so `V` should be a cheap handle.
pub(crate) struct Cache<V> {
    bytes_of: fn(u32) -> usize,
    probation: List,
    protected: List,
    /// Prepared keys. The limit of this list is not used: its bytes are taken from the limit of `protected`.
    prepared: List,
    entries: Vec<Entry<V>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    admission_counter: AdmissionCounter,
    queue: VecDeque<u32>,
    /// Number of uses from which on a key gets the smallest table.
    first_uses: u64,
    /// Number of protected keys by level: the binary digits of their uses, less one.
    hot: [u32; 64],
    /// Number of signatures so far, which is the cache's clock. At the value `halve_at` all numbers of uses are halved.
    clock: u64,
    halve_at: u64,
    /// Slot at which the search for an entry to evict continues, if the least recently used entries were of no use.
    hand: usize,
    tables: usize,
    builds: u64,
    evictions: u64,
    refusals: u64,
}

impl<V: Clone> Cache<V> {
    /// Creates a cache whose precomputed tables for public keys take at most `bytes`; a table of width w takes
    /// `bytes_of(w)`. Of these bytes, `protected_percent` percent are for hot keys. A key gets its first, smallest
    /// table after `first_uses` uses.
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
            prepared: List::new(protected),
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
            bytes: self.probation.bytes + self.protected.bytes + self.prepared.bytes,
            tables: self.tables,
            protected: self.protected.entries,
            prepared: self.prepared.entries,
            queued: self.queue.len(),
        }
    }

    /// Finds the table of a key with which `hoped` signatures, at least one, will be verified. `hash` must always be
    /// the same for a key. The caller must call `record_verdicts` afterwards.
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
        // If the key's entry was removed and created again since `look_up`, the new entry has not counted these
        // signatures, so the subtraction must not underflow.
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

    /// Reserves bytes for the largest table that the number of uses of the entry justifies; `None` if no table larger
    /// than the present one fits.
    fn reserve(&mut self, slot: u32) -> Option<Build> {
        let entry = &self.entries[slot as usize];
        if entry.segment == Some(Prepared) {
            return None;
        }
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
        self.entries[slot as usize].pending = false;
        if self.entries[slot as usize].segment == Some(Prepared) || self.width(slot) >= width {
            // The key was prepared during the build, and keeps the table that it got then.
            let bytes = (self.bytes_of)(width);
            self.list(segment).bytes -= bytes;
            return;
        }
        self.take_table(slot);
        self.tables += 1;
        self.entries[slot as usize].table = Some((value, width));
        let entry = &self.entries[slot as usize];
        match entry.segment {
            None => self.link(slot, segment),
            // The entry may have moved to another segment during the build; its bytes move to the same segment.
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

    /// Returns the slot in which the key was found before, if the key is still in this slot.
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
            handles: 0,
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

    /// Removes an entry if it has no table, no pending build and is in no list.
    fn drop_if_bare(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        if entry.is_bare() {
            if let Ok(found) = self.index.find_entry(entry.hash, |&at| at == slot) {
                found.remove();
            }
            self.free.push(slot);
        }
    }

    /// Queues a build if the number of uses justifies a larger table than the present one.
    fn queue_build_if_due(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        let may_grow = !entry.pending && entry.segment != Some(Prepared);
        let wanted = may_grow && self.target(slot) > self.width(slot);
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

    /// Returns the number of bytes of an entry's table.
    fn bytes(&self, slot: u32) -> usize {
        self.entries[slot as usize]
            .table
            .as_ref()
            .map_or(0, |(_, width)| (self.bytes_of)(*width))
    }

    /// Returns a key's share of the bytes for protected keys: the bytes divided by the number of keys that are as hot
    /// or hotter, the key itself included. Colder keys count less than one, and much colder ones not at all.
    fn share(&self, slot: u32) -> usize {
        let entry = &self.entries[slot as usize];
        let level = entry.level();
        // Keys with half the uses or more count as equally hot, because chance and the halving of uses make a
        // difference between keys with equal traffic.
        let alike: u32 = self.hot[level.saturating_sub(1)..].iter().sum();
        let colder = |by: usize| level.checked_sub(by).map_or(0, |level| self.hot[level] as usize);
        let itself = usize::from(entry.segment != Some(Protected));
        let quarters = 4 * (alike as usize + itself) + 2 * colder(2) + colder(3);
        4 * self.protected.limit / quarters.max(4)
    }

    /// Returns the width of table that an entry may have: the smallest one on probation, otherwise the largest one that
    /// its number of uses justifies within its share.
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

    /// Returns the number of signatures between two halvings of the numbers of uses. In this time, each of the keys
    /// whose largest tables fit into the cache can reach the uses that its largest table requires. The number is at
    /// least the number that makes a table idle.
    ///
    /// The sum of all uses is never more than twice the returned number. So at most twice as many keys as fit can reach
    /// the uses for the largest table at the same time, even if an attacker makes the signatures.
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

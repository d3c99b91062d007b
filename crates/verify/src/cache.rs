//! Which keys have a table, of which width: decided by use, within a fixed number of bytes.
//!
//! A *use* is a valid signature. Verdicts come after the batch, so a batch's signatures are *hoped for* from `look_up`
//! to `settle`.
//!
//! - A key is *seen* until it has come back; that takes no memory of its own (`sightings`).
//! - Then it gets the smallest table, on *probation*. There the least recently used makes room for the next, but only
//!   for one that was used more often, or when it lies idle: keys that come round in a circle too large for the
//!   memory do not push each other out for nothing.
//! - After `HOT` uses it is *protected*. What is on probation has bytes of its own, so however many keys come and
//!   go there, it cannot touch a protected one.
//! - Protected keys get larger tables with use. A key shares the bytes with those that are as hot as it or hotter;
//!   colder ones count less, and much colder ones nothing, and make room for it. So thousands of keys of which each is
//!   used a little take nothing from one that is used much: for that, each has to be used as much. Uses are halved
//!   from time to time: they say how hot a key is now.
//! - Who makes room among the protected: a key that is much colder, then a table above its share, then, for a key that
//!   is new there, the least recently used that is not much hotter. It goes back on probation, and so does one that
//!   lies idle.
//!
//! Nothing here knows what a table is: values are made by the caller, without the cache's lock, between `next_build`
//! and `finish_build`. What is being built counts as if it were there.

mod room;
#[cfg(test)]
mod tests;

use crate::key::PublicKey;
use crate::sightings::Sightings;
use hashbrown::HashTable;
use std::collections::VecDeque;

/// From how many uses on a table of this width pays.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rung {
    pub(crate) width: u32,
    pub(crate) uses: u64,
}

/// The widths that tables have, and the uses after which a key gets one.
///
/// Whether it will be used again nobody knows, so a table is built when the additions that it would have saved so far
/// are as many as it takes to build: whatever comes then, about twice the work is done that had to be.
/// A table of width w has ⌈256/w⌉·2^(w-1) points, an addition each, and a use costs ⌈256/w⌉ additions; without
/// one it is about 350. The smallest is the exception: most of its build are doublings, which cost a back end more or
/// less, so each says for itself from how many uses on it pays (`Backend::first_uses`).
///
/// | w | bytes | additions to build | to use | saved | paid back after | uses |
/// |---|---|---|---|---|---|---|
/// | 5 | 52 KiB | 832, 260 doublings | 52 | 300 | 3 | the back end's |
/// | 8 | 256 KiB | 4,096 | 32 | 20 | 205 | 256 |
/// | 10 | 832 KiB | 13,312 | 26 | 6 | 2,219 | 2,048 |
/// | 13 | 5 MiB | 81,920 | 20 | 6 | 13,653 | 16,384 |
pub(crate) const LADDER: [Rung; 4] = [
    Rung { width: 5, uses: 0 },
    Rung { width: 8, uses: 256 },
    Rung {
        width: 10,
        uses: 2_048,
    },
    Rung {
        width: 13,
        uses: 16_384,
    },
];

/// Uses that make a key hot. An attacker pays as much for a place among the protected as any other does, and a place
/// there lasts only as long as it is used.
pub(crate) const HOT: u64 = 64;

/// A key is *much colder* than another whose uses have more binary digits, by more than so many: than one with 16
/// times its uses, or a little less. So little that 10,000 uses count for something beside 100; so much that keys with
/// the same traffic never are.
const MUCH: usize = 3;

/// A table is idle that was not used by any of so many signatures: about a second of one core's work.
pub(crate) const IDLE: u64 = 1 << 20;

/// Wanted builds that wait; further ones are forgotten until the key is seen again.
pub(crate) const QUEUE: usize = 512;

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
    /// Signatures whose verdict is still to come.
    hoped: u64,
    last_use: u64,
    /// Whether a build is in the queue or under way: the entry keeps its place as long.
    pending: bool,
    /// None before its first table.
    segment: Option<Segment>,
    /// Towards the most recently used.
    newer: u32,
    older: u32,
}

impl<V> Entry<V> {
    /// Has neither a table, nor one coming, nor a place: no longer there.
    fn is_bare(&self) -> bool {
        self.table.is_none() && !self.pending && self.segment.is_none()
    }

    /// Binary digits of its uses, less one.
    fn level(&self) -> usize {
        self.uses.max(1).ilog2() as usize
    }
}

/// A list of entries by use, and what it may hold.
struct List {
    limit: usize,
    /// Of tables there, and of those being built for it.
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

/// A table to be built, for `finish_build`. Its bytes are set aside until then.
#[derive(Debug)]
pub(crate) struct Build {
    pub(crate) key: PublicKey,
    pub(crate) width: u32,
    slot: u32,
    segment: Segment,
}

impl Build {
    /// Builds of the same kind can be done together.
    pub(crate) fn kind(&self) -> (u8, u32) {
        (self.key.curve() as u8, self.width)
    }
}

/// What is there for a key.
pub(crate) struct Found<V> {
    pub(crate) value: Option<V>,
    /// Whether a build for it is in the queue or under way.
    pub(crate) pending: bool,
    /// For `settle`.
    pub(crate) place: Place,
}

/// Where a key was found, if it was; it may have gone since.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place(u32);

/// What became of tables so far, and what there is now.
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

/// Tables `V` by key; cloned where they are found, so a cheap handle.
pub(crate) struct Cache<V> {
    bytes_of: fn(u32) -> usize,
    probation: List,
    protected: List,
    entries: Vec<Entry<V>>,
    free: Vec<u32>,
    index: HashTable<u32>,
    sightings: Sightings,
    queue: VecDeque<u32>,
    /// Uses from which on a key gets the smallest table.
    first_uses: u64,
    /// Protected keys by the binary digits of their uses, less one.
    hot: [u32; 64],
    /// Signatures so far, and when uses are halved next.
    clock: u64,
    halve_at: u64,
    /// Where the search for room goes on that does not begin at the least recently used.
    hand: usize,
    tables: usize,
    builds: u64,
    evictions: u64,
    refusals: u64,
}

impl<V: Clone> Cache<V> {
    /// For `bytes` of tables, of which a table of width w takes `bytes_of(w)`; `protected_percent` of them are for
    /// hot keys. A key gets the smallest table after `first_uses`.
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
            sightings: Sightings::new(),
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

    /// The table of a key that `hoped` signatures, at least one, are to be verified with; `hash` is always the same
    /// for it. `settle` must follow.
    pub(crate) fn look_up(&mut self, key: &PublicKey, hash: u64, hoped: u64) -> Found<V> {
        self.clock += hoped;
        self.halve_when_due();
        self.demote_idle();
        let slot = match self.find(key, hash) {
            Some(slot) => slot,
            None => {
                let uses = self.sightings.count(hash);
                if uses + hoped < self.first_uses || self.queue.len() == QUEUE {
                    return Found {
                        value: None,
                        pending: false,
                        place: Place(NONE),
                    };
                }
                self.insert(key, hash, uses)
            }
        };
        let clock = self.clock;
        let entry = &mut self.entries[slot as usize];
        entry.hoped += hoped;
        entry.last_use = clock;
        self.use_place(slot);
        self.want(slot);
        let entry = &self.entries[slot as usize];
        Found {
            value: entry.table.as_ref().map(|(value, _)| value.clone()),
            pending: entry.pending,
            place: Place(slot),
        }
    }

    /// What became of a key's `hoped` signatures of one `look_up`: so many were valid.
    pub(crate) fn settle(&mut self, key: &PublicKey, hash: u64, place: Place, hoped: u64, valid: u64) {
        let Some(slot) = self.find_at(place, key).or_else(|| self.find(key, hash)) else {
            if valid > 0 {
                self.sightings.add(hash, valid);
            }
            return;
        };
        let entry = &mut self.entries[slot as usize];
        // Another place than that of the look-up may not know of them.
        entry.hoped = entry.hoped.saturating_sub(hoped);
        let (uses, segment) = (entry.uses + valid, entry.segment);
        self.set_uses(slot, uses);
        if segment == Some(Probation) && uses >= HOT {
            self.use_place(slot);
        }
    }

    /// The table of a key, if it has one; no use of it.
    pub(crate) fn get(&self, key: &PublicKey, hash: u64) -> Option<V> {
        let slot = self.find(key, hash)?;
        self.entries[slot as usize]
            .table
            .as_ref()
            .map(|(value, _)| value.clone())
    }

    /// The next table to build, in the order in which they were wanted.
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

    /// Sets bytes aside for the table that an entry deserves, where there are any.
    fn reserve(&mut self, slot: u32) -> Option<Build> {
        let entry = &self.entries[slot as usize];
        let key = entry.key;
        let wanted = self.target(slot);
        let smallest = LADDER[0].width;
        let places = match entry.segment {
            Some(segment) => [Some((segment, wanted)), None],
            None if entry.uses >= HOT => [Some((Protected, wanted)), Some((Probation, smallest))],
            None => [Some((Probation, smallest)), None],
        };
        for (segment, width) in places.into_iter().flatten() {
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

    /// Puts a table where its key's smaller one was.
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
            // It may have moved meanwhile, and its bytes move with it.
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

    /// The same where it was found before, if it is still there.
    fn find_at(&self, place: Place, key: &PublicKey) -> Option<u32> {
        let entry = self.entries.get(place.0 as usize)?;
        (entry.key == *key && !entry.is_bare()).then_some(place.0)
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

    /// Forgets an entry that has neither a table, nor one coming, nor a place.
    fn drop_if_bare(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        if entry.is_bare() {
            if let Ok(found) = self.index.find_entry(entry.hash, |&at| at == slot) {
                found.remove();
            }
            self.free.push(slot);
        }
    }

    /// Queues a build where a larger table would pay.
    fn want(&mut self, slot: u32) {
        let wanted = !self.entries[slot as usize].pending && self.target(slot) > self.width(slot);
        if wanted && self.queue.len() < QUEUE {
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

    /// The bytes of an entry's table.
    fn bytes(&self, slot: u32) -> usize {
        self.entries[slot as usize]
            .table
            .as_ref()
            .map_or(0, |(_, width)| (self.bytes_of)(*width))
    }

    /// A key's share of the protected bytes: equal among those that are as hot as it or hotter, and itself. Colder ones
    /// count less, and much colder ones nothing.
    fn share(&self, slot: u32) -> usize {
        let entry = &self.entries[slot as usize];
        let level = entry.level();
        // With half the uses or more, as chance and halving part keys of the same traffic.
        let alike: u32 = self.hot[level.saturating_sub(1)..].iter().sum();
        let colder = |by: usize| level.checked_sub(by).map_or(0, |level| self.hot[level] as usize);
        let itself = usize::from(entry.segment != Some(Protected));
        let quarters = 4 * (alike as usize + itself) + 2 * colder(2) + colder(3);
        4 * self.protected.limit / quarters.max(4)
    }

    /// The width that an entry's use deserves: the smallest on probation, else the largest within its share.
    fn target(&self, slot: u32) -> u32 {
        let entry = &self.entries[slot as usize];
        let share = match entry.segment {
            Some(Protected) => self.share(slot),
            None if entry.uses >= HOT => self.share(slot),
            _ => 0,
        };
        let deserved = |rung: &&Rung| entry.uses >= rung.uses && (self.bytes_of)(rung.width) <= share;
        LADDER.iter().rev().find(deserved).unwrap_or(&LADDER[0]).width
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

    /// Signatures from one halving to the next: as many as it takes until each of the keys for which there would be
    /// room has earned the largest table, and no fewer than make a table idle.
    ///
    /// All uses together are never more than twice that, so no more keys than have room for it, times two, can deserve
    /// the largest table at a time, whoever pays for them.
    fn halving(&self) -> u64 {
        let largest = LADDER[LADDER.len() - 1];
        let room = (self.protected.limit / (self.bytes_of)(largest.width)) as u64;
        IDLE.max(room * largest.uses)
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

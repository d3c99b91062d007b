//! Which keys have a table, of which width: decided by use, within a fixed number of bytes.
//!
//! - A key is *seen* until it has come back; that takes no memory of its own (`sightings`).
//! - Then it gets the smallest table, on *probation*. There the least recently used makes room for the next, but only
//!   for one that was used more often, or when it lies idle: keys that come round in a circle too large for the
//!   memory do not push each other out for nothing.
//! - After `HOT` uses it is *protected*. What is on probation has bytes of its own, so however many keys come and
//!   go there, it cannot touch a protected one. Protected keys get larger tables with use, as long as all of them could
//!   have as large ones. When one more needs room, tables above that equal share go first, then the least
//!   recently used goes back on probation, and so does one that lies idle.
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
/// are as many as it takes to build: whatever comes then, about twice the work is done that had to be. (The doublings
/// of a build are not in the reckoning. They run in one lane: with AVX-512, width 5 pays after 18 uses, not 3.)
/// A table of width w has ⌈256/w⌉·2^(w-1) points, an addition each, and a use costs ⌈256/w⌉ additions; without
/// one it is about 350.
///
/// | w | bytes | additions to build | to use | saved | paid back after | uses |
/// |---|---|---|---|---|---|---|
/// | 5 | 52 KiB | 832 | 52 | 300 | 3 | 3 |
/// | 8 | 256 KiB | 4,096 | 32 | 20 | 205 | 256 |
/// | 10 | 832 KiB | 13,312 | 26 | 6 | 2,219 | 2,048 |
/// | 13 | 5 MiB | 81,920 | 20 | 6 | 13,653 | 16,384 |
pub(crate) const LADDER: [Rung; 4] = [
    Rung { width: 5, uses: 3 },
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
    uses: u64,
    last_use: u64,
    /// Whether a build is in the queue or under way: the entry keeps its place as long.
    pending: bool,
    /// None before its first table.
    segment: Option<Segment>,
    /// Towards the most recently used.
    newer: u32,
    older: u32,
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

/// What is there for a key.
pub(crate) struct Found<V> {
    pub(crate) value: Option<V>,
    /// Whether a build for it is in the queue or under way.
    pub(crate) pending: bool,
}

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
    /// Signatures so far.
    clock: u64,
    tables: usize,
    builds: u64,
    evictions: u64,
    refusals: u64,
}

impl<V: Clone> Cache<V> {
    /// For `bytes` of tables, of which a table of width w takes `bytes_of(w)`; `protected_percent` of them are for
    /// hot keys.
    pub(crate) fn new(bytes: usize, protected_percent: u8, bytes_of: fn(u32) -> usize) -> Self {
        let protected = (bytes as u128 * u128::from(protected_percent.min(100)) / 100) as usize;
        Self {
            bytes_of,
            probation: List::new(bytes - protected),
            protected: List::new(protected),
            entries: Vec::new(),
            free: Vec::new(),
            index: HashTable::new(),
            sightings: Sightings::new(),
            queue: VecDeque::new(),
            clock: 0,
            tables: 0,
            builds: 0,
            evictions: 0,
            refusals: 0,
        }
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

    /// The table of a key that `uses` signatures, at least one, are to be verified with; `hash` is always the same
    /// for it.
    pub(crate) fn look_up(&mut self, key: &PublicKey, hash: u64, uses: u64) -> Found<V> {
        self.clock += uses;
        self.demote_idle();
        let slot = match self.find(key, hash) {
            Some(slot) => slot,
            None => {
                let seen = self.sightings.add(hash, uses);
                if seen < LADDER[0].uses || self.queue.len() == QUEUE {
                    return Found {
                        value: None,
                        pending: false,
                    };
                }
                // The uses that this sighting brings are counted below.
                self.insert(key, hash, seen - uses.min(seen))
            }
        };
        let clock = self.clock;
        let entry = &mut self.entries[slot as usize];
        entry.uses += uses;
        entry.last_use = clock;
        self.use_place(slot);
        self.want(slot);
        let entry = &self.entries[slot as usize];
        Found {
            value: entry.table.as_ref().map(|(value, _)| value.clone()),
            pending: entry.pending,
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

    fn insert(&mut self, key: &PublicKey, hash: u64, uses: u64) -> u32 {
        let entry = Entry {
            key: *key,
            hash,
            table: None,
            uses,
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
        if entry.table.is_none() && !entry.pending && entry.segment.is_none() {
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

    /// An equal share of the protected bytes, for so many keys.
    fn share(&self, keys: usize) -> usize {
        self.protected.limit / keys.max(1)
    }

    /// The width that an entry's use deserves: the smallest on probation, else the largest of which all can have one.
    fn target(&self, slot: u32) -> u32 {
        let entry = &self.entries[slot as usize];
        let share = match entry.segment {
            Some(Protected) => self.share(self.protected.entries),
            None if entry.uses >= HOT => self.share(self.protected.entries + 1),
            _ => 0,
        };
        let deserved = |rung: &&Rung| entry.uses >= rung.uses && (self.bytes_of)(rung.width) <= share;
        LADDER.iter().rev().find(deserved).unwrap_or(&LADDER[0]).width
    }
}

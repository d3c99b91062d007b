//! Eviction from the cache: the lists of the two segments, and the choice of the entries whose tables are removed to
//! make space for others.

use super::Segment::{Prepared, Probation, Protected};
use super::{Cache, HOT_USES, IDLE_AFTER_SIGNATURES, List, MUCH_COLDER_LEVELS, NONE, PROMOTIONS, Segment};

/// Maximum number of entries, beginning with the least recently used, that one search for an entry to evict examines.
const VICTIM_SEARCH_MAX: usize = 64;

/// Protected entry whose table is removed to make space for another one.
enum Victim {
    /// The entry moves to probation.
    Leaves(u32),
    /// The entry's table is larger than its share. The entry stays protected, and gets a table within its share when it
    /// is used next.
    Greedy(u32),
}

impl<V: Clone> Cache<V> {
    /// Makes an entry the most recently used one of its segment, or of the protected segment if it becomes hot.
    pub(super) fn mark_used(&mut self, slot: u32) {
        let Some(segment) = self.entries[slot as usize].segment else {
            return;
        };
        let bytes = self.bytes(slot);
        self.unlink(slot);
        if segment == Probation && self.entries[slot as usize].uses >= HOT_USES {
            self.probation.bytes -= bytes;
            let to = if self.make_room(slot, Protected, bytes) {
                Protected
            } else {
                Probation
            };
            self.list(to).bytes += bytes;
            self.link(slot, to);
            self.trim();
        } else {
            self.link(slot, segment);
        }
    }

    pub(super) fn make_room(&mut self, slot: u32, segment: Segment, bytes: usize) -> bool {
        match segment {
            Probation => self.make_room_on_probation(slot, bytes),
            Protected => self.make_room_among_protected(slot, bytes),
            // Prepared keys get their bytes from `reserve_prepared`.
            Prepared => false,
        }
    }

    fn make_room_on_probation(&mut self, slot: u32, bytes: usize) -> bool {
        if bytes > self.probation.limit {
            return false;
        }
        while self.probation.bytes + bytes > self.probation.limit {
            let oldest = self.probation.oldest;
            if oldest == NONE || oldest == slot {
                return false;
            }
            let victim = &self.entries[oldest as usize];
            let idle = victim.last_use + IDLE_AFTER_SIGNATURES < self.clock;
            let newcomer = &self.entries[slot as usize];
            if !idle && victim.uses + victim.hoped >= newcomer.uses + newcomer.hoped {
                self.refusals += 1;
                return false;
            }
            self.evict_from_probation(oldest);
        }
        true
    }

    fn make_room_among_protected(&mut self, slot: u32, bytes: usize) -> bool {
        if bytes > self.protected.limit {
            return false;
        }
        while self.protected.bytes + bytes > self.protected.limit {
            match self.victim(slot) {
                Some(Victim::Leaves(victim)) => self.demote(victim),
                Some(Victim::Greedy(victim)) => {
                    self.take_table(victim);
                    self.evictions += 1;
                }
                None => {
                    self.refusals += 1;
                    return false;
                }
            }
        }
        true
    }

    /// Returns a protected entry that gives way to the entry in `slot`. Of the least recently used entries it takes the
    /// first that is much colder; otherwise the first whose table is larger than its share; otherwise, if `slot` may
    /// replace it, the first that is not much hotter. If no such entry exists, each call examines some further entries
    /// of the cache, beginning where the previous call ended.
    fn victim(&mut self, slot: u32) -> Option<Victim> {
        let own = &self.entries[slot as usize];
        let newcomer = own.segment != Some(Protected);
        let bare = own.table.is_none();
        let (mut greedy, mut equal) = (None, None);
        let mut at = self.protected.oldest;
        for _ in 0..VICTIM_SEARCH_MAX {
            if at == NONE {
                break;
            }
            match self.makes_room(at, slot) {
                Some(Victim::Greedy(at)) => greedy = greedy.or(Some(Victim::Greedy(at))),
                None => {}
                leaves => return leaves,
            }
            let entry = &self.entries[at as usize];
            let gives_way = newcomer || bare && entry.uses < own.uses;
            if equal.is_none() && at != slot && gives_way && entry.level() <= own.level() + MUCH_COLDER_LEVELS
            {
                equal = Some(Victim::Leaves(at));
            }
            at = entry.newer;
        }
        greedy.or(equal).or_else(|| self.sweep(slot))
    }

    /// Returns the entry in `at` as a victim if it is much colder than the entry in `slot`, or if its table is larger
    /// than its share.
    fn makes_room(&self, at: u32, slot: u32) -> Option<Victim> {
        let entry = &self.entries[at as usize];
        if at == slot {
            return None;
        }
        if entry.level() + MUCH_COLDER_LEVELS < self.entries[slot as usize].level() {
            return Some(Victim::Leaves(at));
        }
        // An entry with the smallest table is never evicted because of its share.
        let bytes = self.bytes(at);
        let smallest = (self.bytes_of)(PROMOTIONS[0].width);
        (bytes > smallest && bytes > self.share(at)).then_some(Victim::Greedy(at))
    }

    fn sweep(&mut self, slot: u32) -> Option<Victim> {
        for _ in 0..VICTIM_SEARCH_MAX {
            self.hand = (self.hand + 1) % self.entries.len();
            let at = self.hand as u32;
            if self.entries[self.hand].segment == Some(Protected)
                && let Some(victim) = self.makes_room(at, slot)
            {
                return Some(victim);
            }
        }
        None
    }

    /// Moves an entry from the protected segment to the most recently used end of probation.
    pub(super) fn demote(&mut self, slot: u32) {
        let bytes = self.bytes(slot);
        self.unlink(slot);
        self.protected.bytes -= bytes;
        self.entries[slot as usize].uses = 0;
        if bytes == 0 {
            self.entries[slot as usize].segment = None;
            self.drop_if_bare(slot);
            return;
        }
        self.probation.bytes += bytes;
        self.link(slot, Probation);
        self.trim();
    }

    pub(super) fn demote_idle(&mut self) {
        while self.protected.oldest != NONE
            && self.entries[self.protected.oldest as usize].last_use + IDLE_AFTER_SIGNATURES < self.clock
        {
            self.demote(self.protected.oldest);
        }
    }

    /// Evicts tables on probation until their bytes are within the limit, after an entry was moved to probation.
    pub(super) fn trim(&mut self) {
        while self.probation.bytes > self.probation.limit && self.probation.oldest != NONE {
            self.evict_from_probation(self.probation.oldest);
        }
    }

    fn evict_from_probation(&mut self, slot: u32) {
        self.take_table(slot);
        self.evictions += 1;
        self.unlink(slot);
        self.entries[slot as usize].segment = None;
        self.drop_if_bare(slot);
    }

    /// Removes the table of an entry, if it has one.
    pub(super) fn take_table(&mut self, slot: u32) {
        let bytes = self.bytes(slot);
        let entry = &mut self.entries[slot as usize];
        if let (Some(_), Some(segment)) = (entry.table.take(), entry.segment) {
            self.tables -= 1;
            self.list(segment).bytes -= bytes;
        }
    }

    pub(super) fn list(&mut self, segment: Segment) -> &mut List {
        match segment {
            Probation => &mut self.probation,
            Protected => &mut self.protected,
            Prepared => &mut self.prepared,
        }
    }

    /// Makes an entry the most recently used one of a segment.
    pub(super) fn link(&mut self, slot: u32, segment: Segment) {
        if segment == Protected {
            self.hot[self.entries[slot as usize].level()] += 1;
        }
        let list = self.list(segment);
        let second = std::mem::replace(&mut list.newest, slot);
        list.entries += 1;
        if second == NONE {
            list.oldest = slot;
        } else {
            self.entries[second as usize].newer = slot;
        }
        let entry = &mut self.entries[slot as usize];
        (entry.segment, entry.older, entry.newer) = (Some(segment), second, NONE);
    }

    /// Removes an entry from its segment's list; the caller must link it again or clear its segment.
    pub(super) fn unlink(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        let (newer, older) = (entry.newer, entry.older);
        let Some(segment) = entry.segment else { return };
        if segment == Protected {
            self.hot[entry.level()] -= 1;
        }
        let list = self.list(segment);
        list.entries -= 1;
        if newer == NONE {
            list.newest = older;
        }
        if older == NONE {
            list.oldest = newer;
        }
        if newer != NONE {
            self.entries[newer as usize].older = older;
        }
        if older != NONE {
            self.entries[older as usize].newer = newer;
        }
    }
}

//! Who makes room for whom: the two segments' lists, and what leaves them.

use super::Segment::{Probation, Protected};
use super::{Cache, HOT, IDLE, LADDER, List, NONE, Segment};

/// How many of the least recently used are searched for one above its share.
const SEARCH: usize = 64;

impl<V: Clone> Cache<V> {
    /// Makes an entry the most recently used of its segment, or of the protected one when it becomes hot.
    pub(super) fn use_place(&mut self, slot: u32) {
        let Some(segment) = self.entries[slot as usize].segment else {
            return;
        };
        let bytes = self.bytes(slot);
        self.unlink(slot);
        if segment == Probation && self.entries[slot as usize].uses >= HOT {
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
            let idle = victim.last_use + IDLE < self.clock;
            if !idle && victim.uses >= self.entries[slot as usize].uses {
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
        let newcomer = self.entries[slot as usize].segment != Some(Protected);
        let bare = self.entries[slot as usize].table.is_none();
        // Those who have the smallest do not take it from each other.
        let share = self
            .share(self.protected.entries + usize::from(newcomer))
            .max((self.bytes_of)(LADDER[0].width));
        while self.protected.bytes + bytes > self.protected.limit {
            if let Some(greedy) = self.oldest_above(share, slot) {
                // It stays hot, and gets a table of its share when it is used next.
                self.take_table(greedy);
                self.evictions += 1;
                continue;
            }
            let oldest = self.protected.oldest;
            if oldest == NONE || oldest == slot {
                return false;
            }
            let less_used = self.entries[oldest as usize].uses < self.entries[slot as usize].uses;
            if !(newcomer || bare && less_used) {
                return false;
            }
            self.demote(oldest);
        }
        true
    }

    fn oldest_above(&self, share: usize, except: u32) -> Option<u32> {
        let mut at = self.protected.oldest;
        for _ in 0..SEARCH {
            if at == NONE {
                return None;
            }
            if at != except && self.bytes(at) > share {
                return Some(at);
            }
            at = self.entries[at as usize].newer;
        }
        None
    }

    /// From the protected to the most recently used on probation.
    fn demote(&mut self, slot: u32) {
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
            && self.entries[self.protected.oldest as usize].last_use + IDLE < self.clock
        {
            self.demote(self.protected.oldest);
        }
    }

    /// Holds probation to its limit after something was moved there.
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

    /// Parts an entry from its table, if it has one.
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
        }
    }

    /// Makes an entry the most recently used of a segment.
    pub(super) fn link(&mut self, slot: u32, segment: Segment) {
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

    /// Takes an entry out of its segment's list; it must be linked again, or forget its segment.
    fn unlink(&mut self, slot: u32) {
        let entry = &self.entries[slot as usize];
        let (newer, older) = (entry.newer, entry.older);
        let Some(segment) = entry.segment else { return };
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

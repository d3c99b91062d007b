//! Entries of prepared keys: reservation of the bytes of their tables, and the number of their handles.
//!
//! The bytes of prepared keys are taken from the limit of the protected keys and are given back to it, so the bytes of
//! all tables never exceed the cache's limit.

use super::Segment::{Prepared, Probation, Protected};
use super::{Cache, HOT_USES, NONE, PROMOTIONS};
use crate::key::PublicKey;

/// Reason why the tables of prepared keys do not fit, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NoRoom {
    /// Bytes of the smallest tables of all keys that were to be prepared.
    pub(crate) needed: usize,
    /// Bytes that prepared keys can still take.
    pub(crate) free: usize,
}

impl<V: Clone> Cache<V> {
    /// Adds a handle to a key that is prepared already. Returns false if the key is not prepared.
    pub(crate) fn share_prepared(&mut self, key: &PublicKey, hash: u64) -> bool {
        let Some(slot) = self.find(key, hash) else {
            return false;
        };
        let entry = &mut self.entries[slot as usize];
        let prepared = entry.segment == Some(Prepared);
        entry.handles += u32::from(prepared);
        prepared
    }

    /// Reserves the bytes of `count` tables of prepared keys, and returns their width: the largest one that `expected`
    /// signatures of each key justify and that fits. Tables of recurring keys are evicted for them, the least recently
    /// used ones first. The caller must give each table to `finish_prepared`.
    pub(crate) fn reserve_prepared(&mut self, count: usize, expected: u64) -> Result<u32, NoRoom> {
        let free = self.protected.limit;
        let bytes_of = self.bytes_of;
        let needed = |width: u32| bytes_of(width).saturating_mul(count);
        let fits = PROMOTIONS
            .iter()
            .rev()
            .find(|promotion| expected >= promotion.uses && needed(promotion.width) <= free);
        let no_room = NoRoom {
            needed: needed(PROMOTIONS[0].width),
            free,
        };
        let width = fits.ok_or(no_room)?.width;
        let bytes = needed(width);
        while self.protected.bytes + bytes > self.protected.limit {
            if self.protected.oldest == NONE {
                // The rest of the bytes belongs to tables that other threads are building.
                let free = self.protected.limit - self.protected.bytes;
                return Err(NoRoom { free, ..no_room });
            }
            self.demote(self.protected.oldest);
        }
        self.take_for_prepared(bytes);
        Ok(width)
    }

    /// Stores the table of a prepared key, for which bytes were reserved, and adds a handle to the key. If the key was
    /// prepared meanwhile, or has a larger table because of its use, the cache keeps that table.
    pub(crate) fn finish_prepared(&mut self, key: &PublicKey, hash: u64, width: u32, value: V) {
        self.builds += 1;
        let slot = match self.find(key, hash) {
            Some(slot) => slot,
            None => self.insert(key, hash, self.admission_counter.count(hash)),
        };
        let bytes = (self.bytes_of)(width);
        let segment = self.entries[slot as usize].segment;
        if segment == Some(Prepared) {
            self.give_back_prepared(bytes);
        } else if segment == Some(Protected) && self.width(slot) > width {
            self.give_back_prepared(bytes);
            let present = self.bytes(slot);
            self.protected.bytes -= present;
            self.take_for_prepared(present);
            self.unlink(slot);
            self.link(slot, Prepared);
        } else {
            self.take_table(slot);
            self.unlink(slot);
            self.tables += 1;
            self.entries[slot as usize].table = Some((value, width));
            self.link(slot, Prepared);
        }
        self.entries[slot as usize].handles += 1;
    }

    /// Removes a handle of a prepared key. Without handles, the key is treated like every other recurring key.
    pub(crate) fn release_prepared(&mut self, key: &PublicKey, hash: u64) {
        let Some(slot) = self.find(key, hash) else { return };
        let clock = self.clock;
        let entry = &mut self.entries[slot as usize];
        if entry.segment != Some(Prepared) {
            return;
        }
        entry.handles -= 1;
        if entry.handles > 0 {
            return;
        }
        entry.last_use = clock;
        let segment = if entry.uses >= HOT_USES {
            Protected
        } else {
            Probation
        };
        let bytes = self.bytes(slot);
        self.unlink(slot);
        self.give_back_prepared(bytes);
        self.list(segment).bytes += bytes;
        self.link(slot, segment);
        self.trim();
    }

    /// Returns the number of bytes of a key's table, 0 if it has none.
    pub(crate) fn table_bytes(&self, key: &PublicKey, hash: u64) -> usize {
        self.find(key, hash).map_or(0, |slot| self.bytes(slot))
    }

    fn take_for_prepared(&mut self, bytes: usize) {
        self.protected.limit -= bytes;
        self.prepared.bytes += bytes;
    }

    fn give_back_prepared(&mut self, bytes: usize) {
        self.protected.limit += bytes;
        self.prepared.bytes -= bytes;
    }
}

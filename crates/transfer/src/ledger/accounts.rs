//! Table of all accounts by id. An index of small entries points to slots of whole cache lines, so that many accounts
//! can be prefetched in parallel before the first of them is needed.

use super::Account;
use crate::AccountId;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// log2 of the number of slots that are allocated together; slots never move.
const CHUNK_BITS: u32 = 12;

/// Accounts by id, in the order of their creation.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    index: HashTable<SlotLocation>,
    hasher: DefaultHashBuilder,
    chunks: Vec<Vec<Slot>>,
}

/// Index entry: location of an account's slot. `tag` is half of the id's hash, so that slots of other accounts are
/// rarely read.
#[derive(Clone, Copy, Debug)]
struct SlotLocation {
    tag: u32,
    at: u32,
}

#[derive(Debug)]
#[repr(align(64))]
struct Slot {
    id: AccountId,
    account: Account,
}

/// Returns the tag of a hash. The index uses other bits, from both ends of the hash.
const fn tag(hash: u64) -> u32 {
    (hash >> 20) as u32
}

fn slot(chunks: &[Vec<Slot>], at: u32) -> &Slot {
    &chunks[(at >> CHUNK_BITS) as usize][(at & ((1 << CHUNK_BITS) - 1)) as usize]
}

impl Accounts {
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    pub(super) fn get(&self, id: &AccountId) -> Option<&Account> {
        let place = self.location(id, |at| slot(&self.chunks, at).id == *id)?;
        Some(&slot(&self.chunks, place.at).account)
    }

    pub(super) fn contains(&self, id: &AccountId) -> bool {
        self.get(id).is_some()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&AccountId, &Account)> {
        self.chunks.iter().flatten().map(|slot| (&slot.id, &slot.account))
    }

    /// Inserts or replaces an account; returns the previous value.
    pub(super) fn insert(&mut self, id: AccountId, account: Account) -> Option<Account> {
        if let Some(location) = self.location(&id, |at| slot(&self.chunks, at).id == id).copied() {
            let (chunk, within) = (location.at >> CHUNK_BITS, location.at & ((1 << CHUNK_BITS) - 1));
            let slot = &mut self.chunks[chunk as usize][within as usize];
            return Some(std::mem::replace(&mut slot.account, account));
        }
        let at = self.len() as u32;
        if at & ((1 << CHUNK_BITS) - 1) == 0 {
            self.chunks.push(Vec::with_capacity(1 << CHUNK_BITS));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            chunk.push(Slot { id, account });
        }
        let Self {
            index,
            hasher,
            chunks,
        } = self;
        let hash = hasher.hash_one(id);
        let hash_of = |place: &SlotLocation| hasher.hash_one(slot(chunks, place.at).id);
        index.insert_unique(hash, SlotLocation { tag: tag(hash), at }, hash_of);
        None
    }

    /// Removes the account that was created last.
    pub(super) fn remove_last(&mut self) {
        let Some(Slot { id, .. }) = self.chunks.last_mut().and_then(Vec::pop) else {
            return;
        };
        if self.chunks.last().is_some_and(Vec::is_empty) {
            self.chunks.pop();
        }
        let at = self.len() as u32 - 1;
        if let Ok(entry) = self
            .index
            .find_entry(self.hasher.hash_one(id), |place| place.at == at)
        {
            entry.remove();
        }
    }

    /// Prefetches accounts into the CPU's caches, all in parallel. Without this, reading each account would wait for a
    /// cache miss.
    pub(super) fn warm<const N: usize>(&self, ids: [AccountId; N]) {
        let places = ids.map(|id| self.location(&id, |_| true).map_or(0, |place| place.at));
        for at in places.into_iter().take_while(|_| self.len() > 0) {
            let Slot { id, account } = slot(&self.chunks, at);
            // Touches both cache lines of the slot, in whatever order the compiler has laid out the fields.
            std::hint::black_box((
                id.0[0],
                account.version,
                account.owner[0],
                account.holding.balance,
            ));
        }
    }

    fn location(&self, id: &AccountId, is_at: impl Fn(u32) -> bool) -> Option<&SlotLocation> {
        let hash = self.hasher.hash_one(id);
        let tag = tag(hash);
        self.index.find(hash, |place| place.tag == tag && is_at(place.at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_stay_where_they_were_put() {
        let account = |version| Account {
            version,
            ..Account::default()
        };
        let mut accounts = Accounts::default();
        accounts.warm([AccountId::from_paper(1)]);
        for id in 0..10_000 {
            assert_eq!(
                accounts.insert(AccountId::from_paper(id), account(id.into())),
                None
            );
        }
        assert_eq!(
            accounts.insert(AccountId::from_paper(7), account(70)),
            Some(account(7))
        );
        accounts.remove_last();
        accounts.remove_last();
        assert_eq!(accounts.len(), 9_998);
        assert_eq!(accounts.get(&AccountId::from_paper(9_999)), None);
        assert_eq!(accounts.get(&AccountId::from_paper(9_998)), None);
        accounts.warm([AccountId::from_paper(9_999), AccountId::from_paper(3)]);
        let versions: Vec<u64> = accounts.iter().map(|(_, account)| account.version).collect();
        let due: Vec<u64> = (0..9_998).map(|id| if id == 7 { 70 } else { id }).collect();
        assert_eq!(versions, due);
        assert_eq!(accounts.insert(AccountId::from_paper(9_999), account(5)), None);
        assert_eq!(accounts.get(&AccountId::from_paper(9_999)), Some(&account(5)));
        for id in 0..9_998 {
            assert!(accounts.contains(&AccountId::from_paper(id)));
        }
    }

    #[test]
    fn an_account_slot_has_two_cache_lines() {
        assert_eq!(size_of::<Slot>(), 128);
    }
}

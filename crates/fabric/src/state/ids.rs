//! Index of transaction ids. Only ids that the ledger on the disk does not index yet are stored in memory.

use hashbrown::HashSet;
use std::sync::Arc;

/// The ids of every transaction in the ledger, valid or not.
///
/// If a ledger indexes the ids of durable blocks (see [`rest_on`](Self::rest_on)), only the ids of later blocks are
/// stored in memory, in two generations. The older generation is dropped when all of its blocks are in the ledger.
#[derive(Default)]
pub struct TxIds {
    recent: TxIdSet,
    older: TxIdSet,
    /// Number of the last block in `older`.
    older_last: u64,
    ledger: Option<Arc<dyn KnownIds>>,
}

/// Index of the ids of durable blocks.
pub trait KnownIds: Send + Sync {
    /// Sets `known` to true for each id that a transaction of a durable block has.
    fn mark_known(&self, ids: &[Option<&TxId>], known: &mut [bool]);
    /// Returns the number of durable blocks.
    fn durable(&self) -> u64;
    /// Returns the first error of a lookup, if one failed.
    fn failure(&self) -> Option<String>;
}

#[derive(Default)]
struct TxIdSet {
    /// Ids that are a hash in hex; all clients that follow the rules use such ids.
    hashes: HashSet<[u8; 32]>,
    others: HashSet<Box<[u8]>>,
}

impl TxIdSet {
    fn contains(&self, id: &TxId) -> bool {
        match id {
            TxId::Hash(hash) => self.hashes.contains(hash),
            TxId::Other(text) => self.others.contains(text),
        }
    }

    fn insert(&mut self, id: TxId) {
        match id {
            TxId::Hash(hash) => drop(self.hashes.insert(hash)),
            TxId::Other(text) => drop(self.others.insert(text)),
        }
    }

    fn clear(&mut self) {
        self.hashes.clear();
        self.others.clear();
    }

    fn len(&self) -> usize {
        self.hashes.len() + self.others.len()
    }
}

/// A transaction id.
#[derive(Clone, PartialEq, Eq, Debug, Hash)]
pub enum TxId {
    /// An id of 64 lower-case hex digits.
    Hash([u8; 32]),
    /// Any other id.
    Other(Box<[u8]>),
}

impl TxId {
    /// Parses the id in a channel header.
    pub fn new(text: &str) -> Self {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let mut hash = [0; 32];
        if text.len() == 64 {
            let (pairs, _) = text.as_bytes().as_chunks::<2>();
            let mut read = hash.iter_mut().zip(pairs).map(|(byte, &[high, low])| {
                *byte = digit(high)? << 4 | digit(low)?;
                Some(())
            });
            if read.all(|read| read.is_some()) {
                return TxId::Hash(hash);
            }
        }
        TxId::Other(text.as_bytes().into())
    }
}

impl std::fmt::Debug for TxIds {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} ids and those of the ledger", self.len())
    }
}

impl TxIds {
    /// Returns whether the ledger has a transaction with this id.
    pub fn contains(&self, id: &TxId) -> bool {
        self.contains_each(&[Some(id)]) == [true]
    }

    /// Returns for each id whether the ledger has it. One call for many ids is several times faster than one call for
    /// each id.
    pub fn contains_each(&self, ids: &[Option<&TxId>]) -> Vec<bool> {
        let is_kept = |id: &TxId| self.recent.contains(id) || self.older.contains(id);
        let mut known = ids.iter().map(|id| id.is_some_and(is_kept)).collect::<Vec<_>>();
        if let Some(ledger) = &self.ledger {
            ledger.mark_known(ids, &mut known);
        }
        known
    }

    /// Adds an id of the block that is being committed.
    pub fn insert(&mut self, id: TxId) {
        self.recent.insert(id);
    }

    /// Sets the index of durable blocks. All ids that were or will be added must be in `ledger` once their block is
    /// durable.
    pub(crate) fn rest_on(&mut self, ledger: Arc<dyn KnownIds>) {
        self.ledger = Some(ledger);
    }

    /// Records that all blocks up to `last` are committed.
    pub(crate) fn committed(&mut self, last: u64) {
        if let Some(ledger) = &self.ledger
            && ledger.durable() > self.older_last
        {
            // `clear` keeps the memory of the set, because the set will hold about as many ids again.
            std::mem::swap(&mut self.older, &mut self.recent);
            self.recent.clear();
            self.older_last = last;
        }
    }

    /// Returns an error if a lookup failed; earlier results are then unreliable.
    ///
    /// # Errors
    /// The first failure. It persists until the ledger is opened again.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.ledger.as_ref().and_then(|ledger| ledger.failure()) {
            Some(what) => Err(what),
            None => Ok(()),
        }
    }

    /// Drops the ids in memory. The ledger's index must contain them.
    pub(crate) fn forget(&mut self) {
        (self.recent, self.older) = Default::default();
    }

    /// Returns the number of ids in memory.
    pub fn len(&self) -> usize {
        self.recent.len() + self.older.len()
    }

    /// Returns whether no id is in memory.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Index of the ids of durable blocks for the test; each block has one transaction.
    struct Ledger(AtomicU64);

    fn id(block: u64) -> TxId {
        TxId::Other(block.to_string().into_bytes().into())
    }

    impl KnownIds for Ledger {
        fn mark_known(&self, ids: &[Option<&TxId>], known: &mut [bool]) {
            let is = |of: &TxId| (0..self.durable()).any(|block| id(block) == *of);
            for (id, known) in ids.iter().zip(known) {
                *known |= id.is_some_and(is);
            }
        }

        fn durable(&self) -> u64 {
            self.0.load(Ordering::Relaxed)
        }

        fn failure(&self) -> Option<String> {
            None
        }
    }

    #[test]
    fn ids_are_kept_until_the_ledger_has_them() {
        let ledger = Arc::new(Ledger(AtomicU64::new(0)));
        let mut ids = TxIds::default();
        ids.insert(id(0));
        ids.rest_on(ledger.clone());
        for block in 1..200 {
            // The ledger has up to ten blocks less than the validator, and then has all blocks again.
            let behind = block % 11;
            ledger.0.fetch_max(block - behind.min(block), Ordering::Relaxed);
            ids.insert(id(block));
            ids.committed(block);
            for earlier in 0..=block {
                assert!(ids.contains(&id(earlier)), "block {earlier} after {block}");
                let two = [Some(&id(block + 1)), None, Some(&id(earlier))];
                assert_eq!(ids.contains_each(&two), [false, false, true]);
            }
            assert!(!ids.contains(&id(block + 1)));
            assert!(ids.len() < 40, "{} after block {block}", ids.len());
        }
    }
}

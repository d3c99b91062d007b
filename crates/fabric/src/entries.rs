//! Entries of the keys of the public state that a block reads and writes. They are looked up once, together, for all
//! decisions on the block: key-level policies, versions of reads, and metadata that a write keeps.
//!
//! The lookups do not depend on one another, so the processor loads the memory of several keys at the same time. The
//! decisions depend on one another; if they did the lookups, the processor would wait for the memory of each key
//! separately.
//!
//! Keys of a state on the disk are not looked up in advance, because the values of a whole block need not fit into
//! memory. Keys of collections are not looked up in advance either, because few transactions have them.

use crate::rwset::NsRwSet;
use crate::state::{Entry, Keys, State};
use std::borrow::Cow;
use std::hint::black_box;
use std::sync::Arc;

/// Number of reads and writes of a transaction for which memory is reserved.
const EXPECTED_KEYS: usize = 4;

/// Result of looking a key up in the state before a block.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) enum Lookup<'s> {
    /// The key was not looked up yet.
    #[default]
    Pending,
    /// The key was looked up: its entry, if it exists.
    Done(Option<&'s Entry>),
}

impl<'s> Lookup<'s> {
    /// Returns the entry of the key, which is looked up now if it was not before.
    pub fn entry(
        self,
        state: &'s State,
        namespace: &str,
        collection: &str,
        key: &[u8],
    ) -> Option<Cow<'s, Entry>> {
        match self {
            Lookup::Pending => state.get(namespace, collection, key),
            Lookup::Done(entry) => entry.map(Cow::Borrowed),
        }
    }
}

/// A lookup that is prepared, so that it can be done together with others.
enum Prepared<'s, 'k> {
    /// Keys of the namespace, hash of the key to look up, and that key.
    Key(&'s Keys, u64, &'k [u8]),
    /// The key is that of the lookup with this index, so its entry is the same.
    Same(usize),
    /// The namespace has no keys.
    Missing,
}

impl<'s, 'k> Prepared<'s, 'k> {
    fn new(keys: Option<&'s Keys>, key: &'k [u8]) -> Self {
        keys.map_or(Self::Missing, |keys| Self::Key(keys, keys.hash(key), key))
    }
}

/// Lookups of a block's keys in the public state, by transaction. Within a transaction, each namespace has the lookups
/// of the keys that it reads, then of those that it writes. The list is empty if the state is not in memory.
#[derive(Default, Debug)]
pub(crate) struct BlockEntries<'s> {
    lookups: Vec<Lookup<'s>>,
    /// Index of each transaction's first lookup.
    first: Vec<usize>,
}

impl<'s> BlockEntries<'s> {
    /// Looks up the keys of the public state of a block's transactions, which are given by their read-write sets.
    pub fn look_up<'r, 'a: 'r>(
        state: &'s State,
        rwsets: impl ExactSizeIterator<Item = &'r [NsRwSet<'a>]>,
    ) -> Self {
        let Some(namespaces) = state.in_memory() else {
            return Self::default();
        };
        let mut first = Vec::with_capacity(rwsets.len());
        let mut prepared = Vec::with_capacity(rwsets.len() * EXPECTED_KEYS);
        for rwset in rwsets {
            first.push(prepared.len());
            for of in rwset {
                let space = namespaces.get(of.namespace);
                prepare(space.map(|space| &space.public), of, &mut prepared);
            }
        }
        let mut lookups = Vec::with_capacity(prepared.len());
        for one in prepared {
            lookups.push(match one {
                Prepared::Key(keys, hash, key) => {
                    let entry = keys.find(hash, key);
                    // The reference count is stored with the value, and a later write to the key decrements it. Reading
                    // the count here loads its memory in advance.
                    black_box(entry.map(|entry| Arc::strong_count(&entry.value)));
                    Lookup::Done(entry)
                }
                Prepared::Same(place) => lookups.get(place).copied().unwrap_or_default(),
                Prepared::Missing => Lookup::Done(None),
            });
        }
        Self { lookups, first }
    }

    /// Returns the lookups of the transaction with this index.
    pub fn of_tx(&self, index: usize) -> TxEntries<'_, 's> {
        let from = self.first.get(index).copied().unwrap_or_default();
        TxEntries(self.lookups.get(from..).unwrap_or_default())
    }
}

/// Prepares the lookups of the keys of one namespace in the public state. A key that is read and written is looked up
/// once.
fn prepare<'s, 'k>(keys: Option<&'s Keys>, of: &NsRwSet<'k>, prepared: &mut Vec<Prepared<'s, 'k>>) {
    let (reads, first) = (&of.public.reads, prepared.len());
    prepared.extend(reads.iter().map(|read| Prepared::new(keys, read.key.as_bytes())));
    // Peers sort both lists by key. In lists that are not sorted, some keys are looked up twice.
    let mut place = 0;
    for write in &of.public.writes {
        while reads.get(place).is_some_and(|read| read.key < write.key) {
            place += 1;
        }
        prepared.push(match reads.get(place) {
            Some(read) if read.key == write.key => Prepared::Same(first + place),
            _ => Prepared::new(keys, write.key.as_bytes()),
        });
    }
}

/// Lookups of a transaction's keys in the public state.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct TxEntries<'e, 's>(&'e [Lookup<'s>]);

impl<'e, 's> TxEntries<'e, 's> {
    /// Returns each namespace of the transaction with its lookups.
    pub fn by_namespace<'r, 'a>(
        self,
        rwset: &'r [NsRwSet<'a>],
    ) -> impl Iterator<Item = (&'r NsRwSet<'a>, NsEntries<'e, 's>)> {
        let mut left = self.0;
        let mut next = move |count: usize| {
            let (of, after) = left.split_at(count.min(left.len()));
            left = after;
            of
        };
        rwset.iter().map(move |of| {
            let reads = next(of.public.reads.len());
            let writes = next(of.public.writes.len());
            (of, NsEntries { reads, writes })
        })
    }
}

/// Lookups of the keys of a namespace in the public state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NsEntries<'e, 's> {
    reads: &'e [Lookup<'s>],
    writes: &'e [Lookup<'s>],
}

impl<'s> NsEntries<'_, 's> {
    /// Returns the lookup of the read with this index.
    pub fn read(&self, index: usize) -> Lookup<'s> {
        self.reads.get(index).copied().unwrap_or_default()
    }

    /// Returns the lookup of the write with this index.
    pub fn write(&self, index: usize) -> Lookup<'s> {
        self.writes.get(index).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{KvRead, KvRwSet, KvWrite};
    use crate::state::{DurableMark, Height, Update, Updates};
    use lineside_testkit::Random;

    const KEYS: u64 = 40;
    const NAMESPACES: [&str; 3] = ["cc", "other", "unknown"];

    fn state() -> State {
        let mut updates = Updates::default();
        for key in (0..KEYS).filter(|key| key % 3 > 0) {
            for namespace in &NAMESPACES[..2] {
                let value = format!("{namespace} {key}");
                let version = Height { block: 1, tx: key };
                let value = Some((value.as_bytes().into(), None));
                updates.put(namespace, "", key_of(key).as_bytes(), Update { value, version });
            }
        }
        let mut state = State::default();
        state.apply(DurableMark::of(1), updates);
        state
    }

    fn key_of(number: u64) -> String {
        format!("key{number:03}")
    }

    /// Returns a read-write set with random reads and writes of `keys`, sorted or not, and with some keys twice.
    fn set<'a>(random: &mut Random, keys: &'a [String]) -> NsRwSet<'a> {
        let mut some = || {
            let count = random.below(6) as usize;
            let mut some: Vec<&str> = (0..count).map(|_| &*keys[random.below(KEYS) as usize]).collect();
            if random.below(2) == 0 {
                some.sort_unstable();
            }
            some
        };
        let reads = some().into_iter().map(|key| KvRead {
            key,
            ..KvRead::default()
        });
        let writes = some().into_iter().map(|key| KvWrite {
            key,
            ..KvWrite::default()
        });
        NsRwSet {
            namespace: NAMESPACES[random.below(3) as usize],
            public: KvRwSet {
                reads: reads.collect(),
                writes: writes.collect(),
                ..KvRwSet::default()
            },
            collections: Vec::new(),
        }
    }

    /// Each lookup of a block contains the entry that the state returns for the key.
    #[test]
    fn lookups_agree_with_the_state() {
        let (state, mut random) = (state(), Random(1));
        let keys: Vec<String> = (0..KEYS).map(key_of).collect();
        let (mut found, mut missing) = (0, 0);
        for _ in 0..300 {
            let txs: Vec<Vec<NsRwSet<'_>>> = (0..random.below(5))
                .map(|_| (0..random.below(4)).map(|_| set(&mut random, &keys)).collect())
                .collect();
            let entries = BlockEntries::look_up(&state, txs.iter().map(Vec::as_slice));
            for (index, tx) in txs.iter().enumerate() {
                let by_namespace: Vec<_> = entries.of_tx(index).by_namespace(tx).collect();
                assert_eq!(by_namespace.len(), tx.len());
                for (of, entries) in by_namespace {
                    let reads = of.public.reads.iter().map(|read| read.key).enumerate();
                    let reads = reads.map(|(index, key)| (entries.read(index), key));
                    let writes = of.public.writes.iter().map(|write| write.key).enumerate();
                    let writes = writes.map(|(index, key)| (entries.write(index), key));
                    for (lookup, key) in reads.chain(writes) {
                        let Lookup::Done(entry) = lookup else {
                            panic!("{key} was not looked up");
                        };
                        assert_eq!(entry, state.get(of.namespace, "", key.as_bytes()).as_deref());
                        *(if entry.is_some() { &mut found } else { &mut missing }) += 1;
                    }
                }
            }
        }
        assert!(found > 1_000 && missing > 1_000, "{found} {missing}");
    }

    /// If the block's keys were not looked up in advance, as for a state on the disk, each key is looked up when it is
    /// needed.
    #[test]
    fn a_pending_lookup_asks_the_state() {
        let state = state();
        let entries = BlockEntries::default();
        let keys = [key_of(1)];
        let set = NsRwSet {
            namespace: "cc",
            public: KvRwSet {
                writes: [KvWrite {
                    key: &keys[0],
                    ..KvWrite::default()
                }]
                .into_iter()
                .collect(),
                ..KvRwSet::default()
            },
            collections: Vec::new(),
        };
        let rwset = [set];
        let (_, entries) = entries.of_tx(0).by_namespace(&rwset).next().unwrap();
        let entry = entries
            .write(0)
            .entry(&state, "cc", "", keys[0].as_bytes())
            .unwrap();
        assert_eq!(entry.version, Height { block: 1, tx: 1 });
    }
}

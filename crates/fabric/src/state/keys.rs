//! The keys of a namespace, or of one of its collections, in memory: one is found by its hash, ranges by their order.

use super::{Entry, Update};
use smallvec::SmallVec;
use std::collections::{BTreeSet, HashMap};
use std::ops::Bound;

/// A key. One that is no longer than this, as nearly all are, stands in place: to compare it costs no look elsewhere.
pub type Key = SmallVec<[u8; 24]>;

/// Keys and what is under them.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Keys {
    /// Who writes keys chooses them: the hash has a secret key.
    entries: HashMap<Key, Entry>,
    /// The same keys.
    order: BTreeSet<Key>,
}

impl Keys {
    /// What is under a key.
    pub fn get(&self, key: &[u8]) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// Puts it there, whatever was.
    pub fn insert(&mut self, key: Key, entry: Entry) {
        match self.entries.get_mut(&key) {
            Some(kept) => *kept = entry,
            None => {
                self.order.insert(key.clone());
                self.entries.insert(key, entry);
            }
        }
    }

    /// Does what a block does to a key.
    pub(super) fn update(&mut self, key: Key, update: Update) {
        match update.value {
            None => self.remove(&key),
            Some((value, validation_parameter)) => {
                let version = update.version;
                self.insert(
                    key,
                    Entry {
                        value,
                        validation_parameter,
                        version,
                    },
                );
            }
        }
    }

    /// Removes a key, if it is there.
    pub fn remove(&mut self, key: &[u8]) {
        if self.entries.remove(key).is_some() {
            self.order.remove(key);
        }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Those within the bounds, in order.
    pub fn range<'a>(
        &'a self,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> impl Iterator<Item = (&'a Key, &'a Entry)> + use<'a> {
        let keys = self.order.range::<[u8], _>(bounds);
        keys.filter_map(|key| Some((key, self.entries.get(key)?)))
    }
}

impl FromIterator<(Key, Entry)> for Keys {
    fn from_iter<I: IntoIterator<Item = (Key, Entry)>>(entries: I) -> Self {
        let entries: Vec<(Key, Entry)> = entries.into_iter().collect();
        Self {
            // Those that come in order, as they do, are not sorted again.
            order: entries.iter().map(|(key, _)| key.clone()).collect(),
            entries: entries.into_iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::{Height, bounds};
    use lineside_testkit::Random;
    use std::collections::BTreeMap;

    /// An ordered map of plain keys says what must be there, whatever is put, removed and asked for.
    #[test]
    fn it_is_as_an_ordered_map() {
        let (mut keys, mut map) = (Keys::default(), BTreeMap::new());
        let mut random = Random(1);
        let (mut replaced, mut removed, mut found) = (0, 0, 0);
        for number in 0..20_000 {
            // Some are longer than what stands in place, some are the beginnings of others.
            let mut key = || vec![b'k'; random.below(40) as usize];
            let (mut one, mut other) = (key(), key());
            one.extend([random.below(4) as u8].into_iter().filter(|last| *last > 0));
            other.extend([random.below(4) as u8].into_iter().filter(|last| *last > 0));
            if random.below(3) == 0 {
                keys.remove(&one);
                removed += usize::from(map.remove(&one).is_some());
            } else {
                let entry = Entry {
                    value: one.as_slice().into(),
                    validation_parameter: None,
                    version: Height { block: number, tx: 0 },
                };
                keys.insert(Key::from_slice(&one), entry.clone());
                replaced += usize::from(map.insert(one.clone(), entry).is_some());
            }
            assert_eq!(keys.get(&other), map.get(&other));
            assert_eq!((keys.len(), keys.is_empty()), (map.len(), map.is_empty()));
            let expected = map.iter().filter(|(key, _)| {
                one.as_slice() <= key.as_slice() && (other.is_empty() || key.as_slice() < other.as_slice())
            });
            let expected: Vec<_> = expected.map(|(key, entry)| (key.as_slice(), entry)).collect();
            let range = keys.range(bounds(&one, &other));
            assert_eq!(
                range.map(|(key, entry)| (&**key, entry)).collect::<Vec<_>>(),
                expected
            );
            found += expected.len();
        }
        assert!(replaced > 1_000 && removed > 1_000 && found > 10_000);
        let again: Keys = map
            .into_iter()
            .map(|(key, entry)| (Key::from_vec(key), entry))
            .collect();
        assert_eq!(again, keys);
    }
}

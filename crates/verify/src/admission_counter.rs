//! Counter of the valid signatures of each key that has no table yet. It uses a fixed amount of memory for any number
//! of keys.

use crate::key::PublicKey;
use std::hash::{BuildHasher, RandomState};

/// Number of sets of entries; a power of two.
const SETS: usize = 4096;
/// Number of keys in a set. If a set is full, a new key replaces the least recently seen one.
const WAYS: usize = 4;
/// Mask of the bits of an entry that contain the count; the higher bits identify the key.
const COUNT_MASK: u64 = (1 << 16) - 1;

/// Hash function from keys to 64 bits. The hash of a key cannot be predicted without the function's secret.
pub(crate) struct Hasher {
    secret: [u64; 6],
}

impl Hasher {
    /// Creates a hash function with its own random secret, from the same source as the secrets of the standard
    /// library's hash maps.
    pub(crate) fn new() -> Self {
        let random = RandomState::new();
        Self {
            secret: std::array::from_fn(|i| random.hash_one(i)),
        }
    }

    /// Returns the hash of a key, by the function NH (Black, Halevi, Krawczyk, Krovetz, Rogaway: UMAC, CRYPTO '99): two
    /// keys collide with probability 2^-64 before the halves are combined. Of y only the lowest word is hashed, because
    /// only two values of y belong to an x.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &PublicKey) -> u64 {
        let (x, y) = key.point();
        let product = |a: u64, b: u64, i: usize| {
            u128::from(a.wrapping_add(self.secret[i])) * u128::from(b.wrapping_add(self.secret[i + 1]))
        };
        let sum = product(x[0], x[1], 0)
            .wrapping_add(product(x[2], x[3], 2))
            .wrapping_add(product(y[0], key.curve() as u64, 4));
        (sum >> 64) as u64 ^ (sum as u64)
    }
}

/// Numbers of signatures of recently seen keys, by the hash of the key. Two keys with the same hash are counted as one;
/// the only harm is that a table is built too early.
pub(crate) struct AdmissionCounter {
    /// Sets of entries. In each set, the most recently seen entry comes first. A zero is an empty entry.
    sets: Box<[[u64; WAYS]]>,
}

impl AdmissionCounter {
    pub(crate) fn new() -> Self {
        Self {
            sets: vec![[0; WAYS]; SETS].into_boxed_slice(),
        }
    }

    /// Returns the number of counted signatures of the key with this hash; 65,535 means 65,535 or more.
    pub(crate) fn count(&self, hash: u64) -> u64 {
        let set = &self.sets[hash as usize % SETS];
        position(set, hash).map_or(0, |at| set[at] & COUNT_MASK)
    }

    /// Adds `count` signatures of the key with this hash; `count` is at least one.
    pub(crate) fn add(&mut self, hash: u64, count: u64) {
        let set = &mut self.sets[hash as usize % SETS];
        let found = position(set, hash);
        let before = found.map_or(0, |at| set[at] & COUNT_MASK);
        set[..=found.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = hash & !COUNT_MASK | before.saturating_add(count).min(COUNT_MASK);
    }
}

/// Returns the position of a key in its set.
fn position(set: &[u64; WAYS], hash: u64) -> Option<usize> {
    set.iter()
        .position(|entry| entry & COUNT_MASK != 0 && entry & !COUNT_MASK == hash & !COUNT_MASK)
}

//! How many valid signatures a key without a table has had: a fixed amount of memory, however many keys there are.

use crate::key::PublicKey;
use std::hash::{BuildHasher, RandomState};

/// Sets of entries that share their memory; a power of two.
const SETS: usize = 4096;
/// Keys of a set. The one seen longest ago makes room for the next.
const WAYS: usize = 4;
/// The bits of an entry that count; those above tell keys apart.
const COUNTS: u64 = (1 << 16) - 1;

/// Names keys by 64 bits that nobody can foretell who does not know the secret.
pub(crate) struct Hasher {
    secret: [u64; 6],
}

impl Hasher {
    /// With a secret of its own, of the quality that std's maps have theirs.
    pub(crate) fn new() -> Self {
        let random = RandomState::new();
        Self {
            secret: std::array::from_fn(|i| random.hash_one(i)),
        }
    }

    /// NH (Black, Halevi, Krawczyk, Krovetz, Rogaway: UMAC, CRYPTO '99): for any two keys, equal with probability 2^-64
    /// before the halves are folded together. The lowest word of y is enough, because x leaves two choices for y.
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

/// Counts of the keys seen last, by hash. Two keys with the same hash are counted as one, which does no harm but a
/// table too early.
pub(crate) struct Sightings {
    /// In each set, the one seen last comes first. Zero where there is none.
    sets: Box<[[u64; WAYS]]>,
}

impl Sightings {
    pub(crate) fn new() -> Self {
        Self {
            sets: vec![[0; WAYS]; SETS].into_boxed_slice(),
        }
    }

    /// How many there were of this key; 65,535 stands for that many and more.
    pub(crate) fn count(&self, hash: u64) -> u64 {
        let set = &self.sets[hash as usize % SETS];
        position(set, hash).map_or(0, |at| set[at] & COUNTS)
    }

    /// Adds `count` of them, at least one.
    pub(crate) fn add(&mut self, hash: u64, count: u64) {
        let set = &mut self.sets[hash as usize % SETS];
        let found = position(set, hash);
        let before = found.map_or(0, |at| set[at] & COUNTS);
        set[..=found.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = hash & !COUNTS | before.saturating_add(count).min(COUNTS);
    }
}

/// Where in its set a key is.
fn position(set: &[u64; WAYS], hash: u64) -> Option<usize> {
    set.iter()
        .position(|entry| entry & COUNTS != 0 && entry & !COUNTS == hash & !COUNTS)
}

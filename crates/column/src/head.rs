//! Keys in the form in which the fast path compares them: as big-endian words, and as heads. A head is eight bytes of a
//! key, read as a number.

use lineside_wire::{COLUMN_KEY_BYTES_MAX, COLUMN_NO_END};
use std::cmp::Ordering;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of 64-bit words of the longest key.
const WORDS: usize = COLUMN_KEY_BYTES_MAX / 8;
/// Maximum number of bytes before a head. With it, the head is the last eight bytes of the longest key.
pub const SKIP_MAX: usize = COLUMN_KEY_BYTES_MAX - 8;

/// A key as big-endian 64-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyWords {
    words: [u64; WORDS + 1],
    len: usize,
}

impl KeyWords {
    /// Converts a key. Returns `None` if the key is longer than the fast path supports.
    pub fn new(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; 8 * WORDS];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        let mut words = [0; WORDS + 1];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_be_bytes(*bytes);
        }
        Some(Self {
            words,
            len: key.len(),
        })
    }

    /// Returns the length of the key in bytes.
    pub fn bytes(&self) -> usize {
        self.len
    }

    /// Returns the words of the key, padded with zeros.
    pub fn words(&self) -> &[u64] {
        &self.words[..WORDS]
    }

    /// Returns the eight bytes from offset `skip` (at most [`SKIP_MAX`]) as a number. The number is halved, so that the
    /// difference of two heads fits a signed number.
    pub fn head(&self, skip: usize) -> u64 {
        let (word, bits) = (skip.min(SKIP_MAX) / 8, 8 * (skip % 8) as u32);
        let below = (self.words[word + 1] >> 1) >> (63 - bits);
        ((self.words[word] << bits) | below) >> 1
    }

    /// Compares this key with the key that has these words and this length. Also returns the number of leading bytes
    /// that are equal in both, including zeros of the padding.
    pub fn compare(&self, words: impl Fn(usize) -> u64, len: usize) -> (Ordering, usize) {
        let used = self.len.max(len.min(8 * WORDS)).div_ceil(8);
        for index in 0..used {
            let (own, other) = (self.words[index], words(index));
            if own != other {
                let same = 8 * index + (own ^ other).leading_zeros() as usize / 8;
                return (own.cmp(&other), same);
            }
        }
        (self.len.cmp(&len), 8 * WORDS)
    }
}

/// One of the two keys that bound a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The first key of the block (inclusive).
    Low,
    /// The first key after the block (exclusive).
    High,
}

/// Lengths of a block's two keys, and the number of bytes that its heads skip. The table stores all three in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Length of the low key in bytes.
    pub low: usize,
    /// Length of the high key in bytes; `None` if the block extends to the end of the table.
    pub high: Option<usize>,
    /// Number of bytes of a key that heads skip.
    pub skip: usize,
}

impl Lengths {
    /// Decodes the three numbers from a word of the table.
    pub fn of(word: u32) -> Self {
        let high = word >> 8 & 0xff;
        Self {
            low: (word & 0xff) as usize,
            high: (high != COLUMN_NO_END).then_some(high as usize),
            skip: (word >> 16 & 0xff) as usize,
        }
    }

    /// Encodes the three numbers as a word of the table.
    pub fn word(self) -> u32 {
        let high = self.high.map_or(COLUMN_NO_END, |high| high as u32);
        self.low as u32 | high << 8 | (self.skip as u32) << 16
    }
}

/// Returns word number `index` of one of a block's two keys.
pub fn bound(words: &[AtomicU64; 2 * WORDS], end: End, index: usize) -> &AtomicU64 {
    &words[2 * index + (end == End::High) as usize]
}

/// Compares `key` with one of a block's two keys, see [`KeyWords::compare`].
pub fn compare_bound(
    key: &KeyWords,
    words: &[AtomicU64; 2 * WORDS],
    end: End,
    len: usize,
) -> (Ordering, usize) {
    key.compare(|index| bound(words, end, index).load(Relaxed), len)
}

/// Returns the number of leading bytes that two keys have in common.
pub fn common_bytes(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0u8), Just(1), Just(255), any::<u8>()], 0..=64)
    }

    proptest! {
        #[test]
        fn words_are_ordered_as_keys(a in key(), b in key(), cut in 0usize..64) {
            let fastpath = [&a[..cut.min(a.len())], &b[..]].concat();
            for b in [&b[..], &fastpath[..fastpath.len().min(64)]] {
                let (one, other) = (KeyWords::new(&a).unwrap(), KeyWords::new(b).unwrap());
                let (order, same) = one.compare(|index| other.words[index], other.len);
                prop_assert_eq!(order, a.as_slice().cmp(b));
                prop_assert!(same >= common_bytes(&a, b));
            }
        }

        #[test]
        fn heads_are_ordered_as_keys_with_the_same_beginning(a in key(), b in key(), skip in 0usize..=SKIP_MAX) {
            let begin = vec![7; skip];
            let with = |key: &[u8]| [&begin[..], &key[..key.len().min(64 - skip)]].concat();
            let (a, b) = (with(&a), with(&b));
            let head = |key: &[u8]| KeyWords::new(key).unwrap().head(skip);
            prop_assert!(head(&a).cmp(&head(&b)) as i8 * (a.cmp(&b) as i8) >= 0);
            prop_assert!(head(&a) >> 63 == 0);
        }
    }

    #[test]
    fn key_lengths_fit_in_one_word() {
        for high in [None, Some(0), Some(64)] {
            let lengths = Lengths {
                low: 64,
                high,
                skip: 56,
            };
            assert_eq!(Lengths::of(lengths.word()), lengths);
        }
    }
}

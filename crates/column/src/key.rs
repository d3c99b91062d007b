//! Row keys, and intervals of row keys, in the form that the fast path supports.

use std::fmt;

/// Maximum length in bytes of a row key in the fast path. Requests for longer keys are answered by the host.
pub const KEY_BYTES_MAX: usize = 64;
/// Maximum length in bytes of a value in the fast path. Longer values are answered by the host.
pub const VALUE_BYTES_MAX: usize = 1024;

/// A row key of up to [`KEY_BYTES_MAX`] bytes. Keys are ordered like byte strings: a prefix comes before its
/// extensions. The empty key is the first key, and no row has it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    // The derived order of the fields is the order of keys: the zero padding sorts a key before all of its extensions.
    bytes: [u8; KEY_BYTES_MAX],
    len: u8,
}

impl Key {
    /// The first key in order, which comes before all rows.
    pub const FIRST: Self = Self {
        bytes: [0; KEY_BYTES_MAX],
        len: 0,
    };

    /// Converts a key. Returns `None` if it has more than [`KEY_BYTES_MAX`] bytes.
    pub fn new(key: &[u8]) -> Option<Self> {
        let mut bytes = [0; KEY_BYTES_MAX];
        bytes.get_mut(..key.len())?.copy_from_slice(key);
        let len = key.len() as u8;
        Some(Self { bytes, len })
    }

    /// Returns the bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Returns the next key in order, so that the interval from this key to it contains only this key. Returns `None`
    /// if that key would be too long.
    pub fn successor(&self) -> Option<Self> {
        let len = usize::from(self.len);
        (len < KEY_BYTES_MAX).then(|| Self {
            len: self.len + 1,
            ..*self
        })
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.as_bytes().escape_ascii())
    }
}

/// An interval of keys, from `low` (inclusive) to `high` (exclusive). If `high` is `None`, it has no end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// First key of the interval.
    pub low: Key,
    /// First key after the interval; `None` if the interval has no end.
    pub high: Option<Key>,
}

impl Interval {
    /// Interval of all keys.
    pub const ALL: Self = Self {
        low: Key::FIRST,
        high: None,
    };

    /// Returns the smallest interval that contains the row `key`. If the key is too long for the fast path, this is the
    /// interval of all keys that begin with the key's first 64 bytes.
    pub fn of_row(key: &[u8]) -> Self {
        let mut bytes = [0; KEY_BYTES_MAX];
        let fits = key.len().min(KEY_BYTES_MAX);
        bytes[..fits].copy_from_slice(&key[..fits]);
        let low = Key {
            bytes,
            len: fits as u8,
        };
        let high = low.successor().or_else(|| {
            let last = bytes.iter().rposition(|byte| *byte != 0xff)?;
            let mut next = [0; KEY_BYTES_MAX];
            next[..last].copy_from_slice(&bytes[..last]);
            next[last] = bytes[last] + 1;
            Some(Key {
                bytes: next,
                len: last as u8 + 1,
            })
        });
        Self { low, high }
    }

    /// Returns true if the interval contains no key.
    pub fn is_empty(&self) -> bool {
        self.high.is_some_and(|high| high <= self.low)
    }

    /// Returns true if the interval contains `key`.
    pub fn contains(&self, key: &Key) -> bool {
        *key >= self.low && self.high.is_none_or(|high| *key < high)
    }

    /// Returns true if the interval contains every key of `other`.
    pub fn covers(&self, other: &Self) -> bool {
        let ends_below = match (self.high, other.high) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(ours), Some(theirs)) => theirs <= ours,
        };
        other.is_empty() || (self.low <= other.low && ends_below)
    }

    /// Returns true if a key lies in both intervals.
    pub fn overlaps(&self, other: &Self) -> bool {
        let below = |low: &Key, high: &Option<Key>| high.is_none_or(|high| *low < high);
        !self.is_empty()
            && !other.is_empty()
            && below(&self.low, &other.high)
            && below(&other.low, &self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bytes: &[u8]) -> Key {
        Key::new(bytes).unwrap()
    }

    #[test]
    fn keys_are_ordered_as_bytes() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"\0\0", b"\0a", b"a", b"a\0", b"ab"];
        for pair in keys.windows(2) {
            assert!(key(pair[0]) < key(pair[1]), "{pair:?}");
        }
        assert_eq!(Key::new(&[7; KEY_BYTES_MAX + 1]), None);
    }

    #[test]
    fn no_key_lies_between_a_key_and_its_successor() {
        assert_eq!(key(b"a").successor(), Some(key(b"a\0")));
        assert_eq!(key(&[7; KEY_BYTES_MAX]).successor(), None);
    }

    #[test]
    fn the_interval_of_a_row_contains_keys_of_every_length() {
        let interval = Interval::of_row(b"a");
        assert_eq!((interval.low, interval.high), (key(b"a"), Some(key(b"a\0"))));
        let mut long = [b'x'; 80];
        long[63] = 0xff;
        for bytes in [64, 65, 80] {
            let interval = Interval::of_row(&long[..bytes]);
            assert_eq!(interval.low, key(&long[..64]));
            // No key of 64 bytes lies between the two bounds, and all longer keys with this prefix lie before the upper
            // bound.
            let high = interval.high.unwrap();
            assert_eq!(high.as_bytes(), [&[b'x'; 62][..], b"y"].concat());
            assert!(*high.as_bytes() > long[..]);
        }
        assert_eq!(Interval::of_row(&[0xff; 70]).high, None);
    }

    #[test]
    fn intervals_overlap_if_a_key_is_in_both() {
        let interval = |low: &[u8], high: Option<&[u8]>| Interval {
            low: key(low),
            high: high.map(key),
        };
        let middle = interval(b"b", Some(b"d"));
        assert!(middle.contains(&key(b"b")) && middle.contains(&key(b"c\xff")));
        assert!(!middle.contains(&key(b"d")) && !middle.contains(&key(b"a")));
        assert!(middle.overlaps(&interval(b"c", None)) && middle.overlaps(&Interval::ALL));
        assert!(!middle.overlaps(&interval(b"d", None)) && !middle.overlaps(&interval(b"a", Some(b"b"))));
        assert!(!middle.overlaps(&interval(b"c", Some(b"c"))) && interval(b"c", Some(b"c")).is_empty());
    }
}

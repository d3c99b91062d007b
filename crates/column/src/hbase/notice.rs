//! Notices: signed datagrams between a region server of HBase and Lineside (`column_notice` in `spec/column.toml`).

use crate::key::{Interval, Key};
use lineside_wire::{
    COLUMN_NOTICE_BYTES_MAX, COLUMN_NOTICE_KEY_BYTES_MIN, COLUMN_NOTICE_MAGIC, COLUMN_NOTICE_RANGE,
    COLUMN_NOTICE_TAG_BYTES, ColumnNotice,
};
use ring::hmac;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// HMAC key that the region servers and Lineside share.
#[derive(Clone)]
pub struct NoticeKey(hmac::Key);

impl std::fmt::Debug for NoticeKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("NoticeKey")
    }
}

impl NoticeKey {
    /// Creates a key from secret bytes. Returns `None` if there are fewer than 32 bytes.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        let is_long = bytes.len() >= COLUMN_NOTICE_KEY_BYTES_MIN;
        is_long.then(|| Self(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    fn tag(&self, bytes: &[u8]) -> [u8; COLUMN_NOTICE_TAG_BYTES] {
        let mut tag = [0; COLUMN_NOTICE_TAG_BYTES];
        tag.copy_from_slice(&hmac::sign(&self.0, bytes).as_ref()[..COLUMN_NOTICE_TAG_BYTES]);
        tag
    }

    /// Returns true if `tag` is the right tag of `bytes`. The comparison takes constant time.
    fn holds(&self, bytes: &[u8], tag: &[u8]) -> bool {
        let expected = self.tag(bytes);
        let differing = expected.iter().zip(tag).fold(0, |sum, (a, b)| sum | (a ^ b));
        tag.len() == COLUMN_NOTICE_TAG_BYTES && differing == 0
    }
}

/// A complete notice that a holder of the key has signed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Fields of the notice.
    pub head: ColumnNotice,
    /// Name of the table.
    pub table: Vec<u8>,
    /// In a `pre` notice, the changed rows, or the two ends of a changed range. Empty in other notices.
    pub keys: Vec<Vec<u8>>,
}

impl Notice {
    /// Returns a notice of `kind` in which all other fields are zero.
    pub fn new(kind: u8, table: &[u8]) -> Self {
        let mut head = ColumnNotice::new_zeroed();
        head.magic.set(COLUMN_NOTICE_MAGIC);
        head.kind = kind;
        Self {
            head,
            table: table.to_vec(),
            keys: Vec::new(),
        }
    }

    /// Parses a notice and verifies its tag. Returns `None` if it is malformed or not signed with `key`.
    pub fn parse(bytes: &[u8], key: &NoticeKey) -> Option<Self> {
        let end = bytes.len().checked_sub(COLUMN_NOTICE_TAG_BYTES)?;
        let (signed_part, tag) = bytes.split_at(end);
        if !key.holds(signed_part, tag) {
            return None;
        }
        let (head, rest) = ColumnNotice::read_from_prefix(signed_part).ok()?;
        let (table, mut rest) = rest.split_at_checked(usize::from(head.table_bytes.get()))?;
        let mut keys = Vec::with_capacity(usize::from(head.keys.get()));
        for _ in 0..head.keys.get() {
            let (length, after_length) = rest.split_first()?;
            let (key, after_key) = after_length.split_at_checked(usize::from(*length))?;
            keys.push(key.to_vec());
            rest = after_key;
        }
        let is_range = head.flags & COLUMN_NOTICE_RANGE != 0;
        let is_whole = head.magic.get() == COLUMN_NOTICE_MAGIC && rest.is_empty();
        (is_whole && (!is_range || keys.len() == 2)).then(|| Self {
            head,
            table: table.to_vec(),
            keys,
        })
    }

    /// Returns the signed datagram; `None` if a key or the whole notice is too long.
    pub fn to_bytes(&self, key: &NoticeKey) -> Option<Vec<u8>> {
        let mut head = self.head;
        head.keys.set(u16::try_from(self.keys.len()).ok()?);
        head.table_bytes.set(u16::try_from(self.table.len()).ok()?);
        let mut bytes = [head.as_bytes(), &self.table].concat();
        for one in &self.keys {
            bytes.push(u8::try_from(one.len()).ok()?);
            bytes.extend_from_slice(one);
        }
        let tag = key.tag(&bytes);
        bytes.extend_from_slice(&tag);
        (bytes.len() <= COLUMN_NOTICE_BYTES_MAX).then_some(bytes)
    }

    /// Returns the intervals that a `pre` notice covers in each column.
    pub fn intervals(&self) -> Vec<Interval> {
        match &self.keys[..] {
            [low, high] if self.head.flags & COLUMN_NOTICE_RANGE != 0 => {
                // A bound that is too long for the fast path is replaced by a nearby shorter one outside the range.
                let low = Interval::of_row(low).low;
                let high = Key::new(high).filter(|high| *high != Key::FIRST);
                vec![Interval { low, high }]
            }
            rows => rows.iter().map(|row| Interval::of_row(row)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_wire::COLUMN_NOTICE_PRE;
    use proptest::prelude::*;

    fn key() -> NoticeKey {
        NoticeKey::new(&[7; 32]).unwrap()
    }

    fn notice() -> Notice {
        let mut notice = Notice::new(COLUMN_NOTICE_PRE, b"table");
        notice.head.number.set(9);
        notice.keys = vec![b"a".to_vec(), vec![b'x'; 255]];
        notice
    }

    /// Encodes and decodes a notice, checks that they are equal, and returns the result.
    fn read(mut notice: Notice) -> Notice {
        let bytes = notice.to_bytes(&key()).unwrap();
        let read = Notice::parse(&bytes, &key()).unwrap();
        (notice.head.keys, notice.head.table_bytes) = (read.head.keys, read.head.table_bytes);
        assert_eq!(read, notice);
        read
    }

    #[test]
    fn notices_round_trip() {
        let rows = read(notice()).intervals();
        assert_eq!(rows, [Interval::of_row(b"a"), Interval::of_row(&[b'x'; 64])]);
        let mut range = notice();
        range.head.flags = COLUMN_NOTICE_RANGE;
        let low = Key::new(b"a").unwrap();
        assert_eq!(read(range.clone()).intervals(), [Interval { low, high: None }]);
        range.keys = vec![Vec::new(), b"m".to_vec()];
        let high = Key::new(b"m");
        let low = Key::FIRST;
        assert_eq!(read(range.clone()).intervals(), [Interval { low, high }]);
        range.keys[1].clear();
        assert_eq!(read(range).intervals(), [Interval { low, high: None }]);
    }

    #[test]
    fn unsigned_and_truncated_notices_are_refused() {
        let bytes = notice().to_bytes(&key()).unwrap();
        assert!(Notice::parse(&bytes, &NoticeKey::new(&[8; 32]).unwrap()).is_none());
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] ^= 1;
            assert!(Notice::parse(&wrong, &key()).is_none(), "byte {at}");
            assert!(Notice::parse(&bytes[..at], &key()).is_none(), "{at} bytes");
        }
        // Notices with a right signature, but malformed contents.
        let mut range = notice();
        range.head.flags = COLUMN_NOTICE_RANGE;
        range.keys.pop();
        let bytes = range.to_bytes(&key()).unwrap();
        assert!(Notice::parse(&bytes, &key()).is_none());
        let mut longer = notice().to_bytes(&key()).unwrap();
        longer.truncate(longer.len() - COLUMN_NOTICE_TAG_BYTES);
        longer.push(0);
        let tag = key().tag(&longer);
        longer.extend_from_slice(&tag);
        assert!(Notice::parse(&longer, &key()).is_none());
        assert!(NoticeKey::new(&[7; 31]).is_none());
        let mut long = notice();
        long.keys = vec![vec![b'x'; 255]; 6];
        assert!(long.to_bytes(&key()).is_none());
    }

    proptest! {
        /// Arbitrary bytes with a right signature are either parsed completely or refused.
        #[test]
        fn a_signed_notice_is_complete_or_refused(
            mut said in prop::collection::vec(any::<u8>(), 0..300),
            at in 0..64usize,
            value: u8,
            is_fastpath_one: bool,
        ) {
            if is_fastpath_one {
                said = notice().to_bytes(&key()).unwrap();
                said.truncate(said.len() - COLUMN_NOTICE_TAG_BYTES);
                said[at] = value;
            }
            let tag = key().tag(&said);
            said.extend_from_slice(&tag);
            if let Some(read) = Notice::parse(&said, &key()) {
                prop_assert!(read.intervals().len() <= read.keys.len());
                prop_assert_eq!(read.to_bytes(&key()), Some(said));
            }
        }
    }

    /// The expected tag was computed with Python's module `hmac`.
    #[test]
    fn the_tag_is_hmac_sha256() {
        let expected = [
            0x75, 0x63, 0x85, 0x71, 0xd9, 0x1c, 0x3c, 0xc2, 0x86, 0xac, 0x15, 0x5e, 0xd6, 0x93, 0x0f, 0x8a,
        ];
        assert_eq!(key().tag(b"lineside"), expected);
    }
}

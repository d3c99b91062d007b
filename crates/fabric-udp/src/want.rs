//! Encoding of a receiver's requests for missing data, and of its greetings.

use super::mac::Session;
use super::packet::Packet;
use lineside_wire::{FABRIC_WANT_ENTRIES, WantHead, WantItem};
use zerocopy::{FromBytes, IntoBytes};

/// Maximum number of items in one request. The datagram then has 1,368 bytes.
pub(crate) const ITEMS_MAX: usize = 64;

/// Missing data that a receiver requests: segments, parts of a segment, or entries of the cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WantedItem {
    Segments {
        block: u64,
        first: u32,
        last: u32,
    },
    Parts {
        block: u64,
        segment: u32,
        first: u16,
        last: u16,
    },
    Entries {
        first: u32,
        last: u32,
    },
}

impl WantedItem {
    /// Returns a request for a whole block.
    pub fn block(block: u64) -> Self {
        Self::Segments {
            block,
            first: 0,
            last: u32::MAX,
        }
    }

    fn wire(self) -> WantItem {
        let (block, first, last, part_first, part_last) = match self {
            Self::Segments { block, first, last } => (block, first, last, 0, u16::MAX),
            Self::Parts {
                block,
                segment,
                first,
                last,
            } => (block, segment, segment, first, last),
            Self::Entries { first, last } => (FABRIC_WANT_ENTRIES, first, last, 0, u16::MAX),
        };
        WantItem {
            block: block.into(),
            first: first.into(),
            last: last.into(),
            part_first: part_first.into(),
            part_last: part_last.into(),
        }
    }

    fn read(item: &WantItem) -> Self {
        let (block, first, last) = (item.block.get(), item.first.get(), item.last.get());
        let (part_first, part_last) = (item.part_first.get(), item.part_last.get());
        if block == FABRIC_WANT_ENTRIES {
            Self::Entries { first, last }
        } else if first == last && (part_first, part_last) != (0, u16::MAX) {
            Self::Parts {
                block,
                segment: first,
                first: part_first,
                last: part_last,
            }
        } else {
            Self::Segments { block, first, last }
        }
    }
}

/// Appends the body of a request to the session `sender`. `next` is the number of the receiver's next block.
pub(crate) fn write(out: &mut Vec<u8>, sender: Session, next: u64, items: &[WantedItem]) {
    let items = items.get(..items.len().min(ITEMS_MAX)).unwrap_or_default();
    let head = WantHead {
        sender,
        next: next.into(),
        count: (items.len() as u16).into(),
        reserved: 0.into(),
    };
    out.extend_from_slice(head.as_bytes());
    for item in items {
        out.extend_from_slice(item.wire().as_bytes());
    }
}

/// Returns true if a receiver's datagram is a greeting, which names no session of a sender.
pub(crate) fn is_greeting(datagram: &[u8]) -> bool {
    let read = Packet::read(datagram).and_then(|packet| Some(read(packet.body)?.0));
    read == Some([0; 16])
}

/// Parses the body of a request: the sender's session, the number of the receiver's next block, and the items.
pub(crate) fn read(body: &[u8]) -> Option<(Session, u64, impl Iterator<Item = WantedItem>)> {
    let (head, rest) = WantHead::ref_from_prefix(body).ok()?;
    let items = <[WantItem]>::ref_from_bytes(rest).ok()?;
    let counted = items.len() == usize::from(head.count.get()) && items.len() <= ITEMS_MAX;
    counted.then(|| (head.sender, head.next.get(), items.iter().map(WantedItem::read)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_written_request_is_read_back(
            kinds in prop::collection::vec((0u8..3, 0u64..1 << 40, any::<u32>(), 0u16..9), 0..ITEMS_MAX),
            next: u64,
        ) {
            let item = |&(kind, block, at, part): &(u8, u64, u32, u16)| match kind {
                0 => WantedItem::Segments { block, first: at / 2, last: at },
                1 => WantedItem::Parts { block, segment: at, first: part, last: part + 1 },
                _ => WantedItem::Entries { first: at / 2, last: at },
            };
            let items: Vec<WantedItem> = kinds.iter().map(item).collect();
            let mut body = Vec::new();
            write(&mut body, [7; 16], next, &items);
            let (sender, read_next, read) = read(&body).unwrap();
            prop_assert_eq!((sender, read_next), ([7; 16], next));
            prop_assert_eq!(read.collect::<Vec<_>>(), items);
            body.pop();
            prop_assert!(super::read(&body).is_none());
        }
    }
}

//! Removal of bytes in an orderer's message that do not belong to the block in it. Such bytes are covered by no
//! signature, so a faulty orderer could add any amount of them.

use bytes::Bytes;
use lineside_fabric::block::Block;
use lineside_fabric::proto::Arena;

/// Returns a block without bytes that no signature covers: fields that Fabric's messages of a block, its header, data
/// and metadata do not have, and repeated fields. A peer also drops them when it stores the block. A block that
/// cannot be parsed is returned unchanged, and the validator refuses it.
pub fn without_foreign_bytes(bytes: Bytes) -> Bytes {
    let arena = Arena::new();
    let canonical = Block::read(&bytes, &arena).map(|block| without_foreign(&block, &bytes));
    canonical.ok().flatten().unwrap_or(bytes)
}

/// Returns `block`, which was parsed from `bytes`, without bytes that no signature covers; `None` if it has no such
/// bytes.
pub(crate) fn without_foreign(block: &Block<'_>, bytes: &[u8]) -> Option<Bytes> {
    if block.canonical_len() == bytes.len() {
        return None;
    }
    let canonical = block.canonical_bytes();
    tracing::warn!(
        "{} bytes that do not belong to the block were removed from an orderer's message",
        bytes.len().saturating_sub(canonical.len())
    );
    Some(canonical.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::MemorySource;
    use std::path::Path;

    fn recorded() -> Vec<Bytes> {
        let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fabric/tests/data/edge");
        MemorySource::read(&recorded, "orderer").unwrap()
    }

    #[test]
    fn recorded_blocks_stay_as_they_are() {
        let blocks = recorded();
        assert!(blocks.len() > 10);
        for block in blocks {
            let arena = Arena::new();
            let read = Block::read(&block, &arena).unwrap();
            assert_eq!(read.canonical_bytes(), block, "block {}", read.number);
            assert_eq!(read.canonical_len(), block.len());
            assert_eq!(without_foreign_bytes(block.clone()), block);
        }
    }

    #[test]
    fn bytes_that_no_hash_or_signature_covers_are_removed() {
        let block = recorded().remove(3);
        // A field 99 of the block, a field 99 of its header, and a field of the header that a later field replaces.
        let foreign = [&[0x9a, 0x06, 3][..], b"any"].concat();
        let in_header = [&[0x0a, foreign.len() as u8][..], &foreign].concat();
        let twice = [0x0a, 5, 0x12, 3, 1, 2, 3];
        for added in [&foreign[..], &in_header, &twice] {
            let lying = [added, &block].concat();
            assert_eq!(without_foreign_bytes(lying.into()), block, "{added:?}");
        }
        let behind = [&block[..], &foreign.repeat(1000)].concat();
        assert_eq!(without_foreign_bytes(behind.into()), block);
        let garbage = Bytes::from_static(b"no block");
        assert_eq!(without_foreign_bytes(garbage.clone()), garbage);
    }
}

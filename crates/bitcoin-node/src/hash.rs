//! Hashes of blocks, and fields of a block header.

use bitcoin::block::Header;
use bitcoin::consensus::encode::deserialize;
use bitcoin::hashes::Hash as _;
use lineside_util::hex;
use std::fmt;
use std::str::FromStr;

/// Length of a block header in bytes.
pub const HEADER_BYTES: usize = 80;

/// Hash of a block: the double SHA-256 of its header, in the byte order in which nodes send it. Its text has the
/// reversed byte order, as in nodes and explorers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct BlockHash(pub [u8; 32]);

impl BlockHash {
    /// Returns the hash of a header.
    pub fn of_header(header: &[u8; HEADER_BYTES]) -> BlockHash {
        let hash = bitcoin::hashes::sha256d::Hash::hash(header);
        BlockHash(hash.to_byte_array())
    }

    /// Returns the hash of a raw block; `None` if the block is shorter than a header.
    pub fn of_block(raw: &[u8]) -> Option<BlockHash> {
        raw.first_chunk().map(BlockHash::of_header)
    }
}

impl fmt::Display for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::to_display(&self.0))
    }
}

impl fmt::Debug for BlockHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for BlockHash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<BlockHash, NotAHash> {
        hex::from_display(text).map(BlockHash).ok_or(NotAHash)
    }
}

/// Error for a text that is not the hash of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a block's hash has 64 hexadecimal digits")]
pub struct NotAHash;

/// Returns the hash of the parent that a header names.
pub fn parent_of(header: &[u8; HEADER_BYTES]) -> BlockHash {
    let mut parent = [0; 32];
    parent.copy_from_slice(&header[4..36]);
    BlockHash(parent)
}

/// Returns the header in the form of the `bitcoin` crate. Decoding cannot fail, because every 80 bytes are a header.
pub(crate) fn decode(header: &[u8; HEADER_BYTES]) -> Option<Header> {
    deserialize(header).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Header of the first block of the main chain, in hexadecimal digits.
    const GENESIS: &str = "0100000000000000000000000000000000000000000000000000000000000000000000003ba3edfd7a7b12b27a\
                           c72c3e67768f617fc81bc3888a51323a9fb8aa4b1e5e4a29ab5f49ffff001d1dac2b7c";

    #[test]
    fn the_genesis_block_has_its_hash_and_no_parent() {
        let header: [u8; HEADER_BYTES] = hex::array_from_hex(GENESIS).unwrap();
        let hash = BlockHash::of_header(&header);
        let text = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
        assert_eq!(hash.to_string(), text);
        assert_eq!(text.parse(), Ok(hash));
        assert_eq!(parent_of(&header), BlockHash::default());
        assert_eq!(BlockHash::of_block(&header[..79]), None);
        assert_eq!("00".parse::<BlockHash>(), Err(NotAHash));
    }
}

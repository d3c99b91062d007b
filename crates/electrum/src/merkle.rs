//! Merkle trees of blocks, their paths, and BIP 37's partial trees.

use crate::chain::HEADER_BYTES;
use sha2::{Digest, Sha256};

/// Range of bytes of the Merkle root in a header.
const ROOT: std::ops::Range<usize> = 36..68;

/// Returns the SHA-256 of the SHA-256 of `bytes`: Bitcoin's hash of headers and tree nodes.
pub fn sha256d(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(Sha256::digest(bytes)).into()
}

/// Returns the hash of the inner node over `left` and `right`.
pub(crate) fn join(left: &[u8; 32], right: &[u8; 32]) -> [u8; 32] {
    let mut pair = [0; 64];
    pair[..32].copy_from_slice(left);
    pair[32..].copy_from_slice(right);
    sha256d(&pair)
}

/// Reason why a list of TXIDs is not the list of a block's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The list is empty, but every block has at least its coinbase transaction.
    #[error("the block has no transaction")]
    Empty,
    /// The list has more transactions than a block can have.
    #[error("the block has more than {} transactions", BlockTree::TRANSACTIONS_MAX)]
    TooMany,
    /// Two neighbouring hashes in the tree are equal, so two lists of transactions have the same root (CVE-2012-2459).
    #[error(
        "two neighbouring hashes in the Merkle tree of the block are equal, so other lists of transactions have the \
         same root (CVE-2012-2459); no proof is made from this block"
    )]
    Mutated,
    /// The TXIDs have a different Merkle root from that of the header.
    #[error("the TXIDs do not have the Merkle root of the header")]
    OtherRoot,
}

/// The whole Merkle tree of one block. It depends only on the block's hash, so it stays valid when the block is
/// disconnected; only the chain knows whether the block is connected.
#[derive(Debug)]
pub struct BlockTree {
    hash: [u8; 32],
    header: [u8; HEADER_BYTES],
    /// All levels, from the TXIDs to the root.
    nodes: Box<[[u8; 32]]>,
    /// Index of the first node of each level in `nodes`.
    levels: Box<[u32]>,
    /// One number for each transaction, in ascending order: the first six bytes of its TXID are the high bits, and its
    /// position is the low 16 bits. A search reads a few adjacent cache lines instead of TXIDs far apart.
    order: Box<[u64]>,
}

/// Number of bits of a transaction's position in an entry of `order`.
const POSITION_BITS: u32 = 16;

/// Returns the high bits of a TXID's number in `order`.
fn prefix(txid: &[u8; 32]) -> u64 {
    let [a, b, c, d, e, f, ..] = *txid;
    u64::from_be_bytes([a, b, c, d, e, f, 0, 0])
}

impl BlockTree {
    /// Maximum number of transactions in a tree. A block has at most 16,666 transactions: it has 4,000,000 weight
    /// units, and a transaction has at least 60 bytes of four units each.
    pub const TRANSACTIONS_MAX: usize = 1 << POSITION_BITS;

    /// Builds the tree over a block's TXIDs, in block order, and compares its root with the root in the header.
    ///
    /// # Errors
    /// Reason why the TXIDs do not belong to the block with this header.
    pub fn build(header: [u8; HEADER_BYTES], txids: &[[u8; 32]]) -> Result<Self, TreeError> {
        if txids.is_empty() {
            return Err(TreeError::Empty);
        }
        if txids.len() > Self::TRANSACTIONS_MAX {
            return Err(TreeError::TooMany);
        }
        let mut nodes = Vec::with_capacity(2 * txids.len() + 16);
        nodes.extend_from_slice(txids);
        let mut levels = vec![0u32];
        let (mut start, mut width) = (0, txids.len());
        while width > 1 {
            for left in (start..start + width).step_by(2) {
                let has_right = left + 1 < start + width;
                let right = if has_right { left + 1 } else { left };
                if has_right && nodes[left] == nodes[right] {
                    return Err(TreeError::Mutated);
                }
                nodes.push(join(&nodes[left], &nodes[right]));
            }
            start += width;
            width = width.div_ceil(2);
            levels.push(start as u32);
        }
        if nodes[start] != header[ROOT] {
            return Err(TreeError::OtherRoot);
        }
        let numbered = txids.iter().zip(0u64..);
        let mut order: Box<[u64]> = numbered.map(|(txid, position)| prefix(txid) | position).collect();
        order.sort_unstable();
        Ok(Self {
            hash: sha256d(&header),
            header,
            nodes: nodes.into(),
            levels: levels.into(),
            order,
        })
    }

    /// Returns the hash of the block.
    pub fn hash(&self) -> &[u8; 32] {
        &self.hash
    }

    /// Returns the header of the block.
    pub fn header(&self) -> &[u8; HEADER_BYTES] {
        &self.header
    }

    /// Returns the Merkle root, which is also in the header.
    pub fn root(&self) -> &[u8; 32] {
        &self.nodes[self.nodes.len() - 1]
    }

    /// Returns the number of transactions.
    pub fn transactions(&self) -> u32 {
        self.order.len() as u32
    }

    /// Returns the bytes of memory that the tree uses.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.nodes.len() * 32 + self.levels.len() * 4 + self.order.len() * 8
    }

    /// Returns the TXID at `position`.
    pub fn txid(&self, position: u32) -> Option<&[u8; 32]> {
        self.nodes[..self.order.len()].get(position as usize)
    }

    /// Returns the position of the transaction `txid` in the block.
    pub fn position(&self, txid: &[u8; 32]) -> Option<u32> {
        let prefix = prefix(txid);
        let first = self.order.partition_point(|entry| *entry < prefix);
        let same = self.order[first..]
            .iter()
            .take_while(|entry| **entry >> POSITION_BITS == prefix >> POSITION_BITS);
        let mut positions = same.map(|entry| *entry as u16 as usize);
        let found = positions.find(|position| self.nodes[*position] == *txid);
        found.map(|position| position as u32)
    }

    /// Returns the siblings on the path from the transaction at `position` to the root, starting at the lowest level.
    /// The second value of an item is true if a node has no sibling; the first value is then the node itself.
    ///
    /// `position` must be less than [`BlockTree::transactions`]; otherwise the path does not belong to any transaction.
    pub fn path(&self, position: u32) -> impl Iterator<Item = (&[u8; 32], bool)> {
        self.levels.windows(2).enumerate().map(move |(level, bounds)| {
            let (start, end) = (bounds[0] as usize, bounds[1] as usize);
            let own = (start + (position >> level) as usize).min(end - 1);
            let sibling = start + ((own - start) ^ 1);
            match sibling < end {
                true => (&self.nodes[sibling], false),
                false => (&self.nodes[own], true),
            }
        })
    }

    /// Returns the payload of BIP 37's message `merkleblock` with one matching transaction: header, number of
    /// transactions, hashes and flags, as Bitcoin Core's `gettxoutproof` returns it. `None` if no transaction has this
    /// position.
    pub fn merkle_block(&self, position: u32) -> Option<Vec<u8>> {
        self.txid(position)?;
        let (mut hashes, mut flags) = (Vec::new(), Vec::new());
        self.walk(
            self.levels.len() - 1,
            0,
            position as usize,
            &mut hashes,
            &mut flags,
        );
        let mut message = Vec::with_capacity(HEADER_BYTES + 16 + 32 * hashes.len() + flags.len().div_ceil(8));
        message.extend_from_slice(&self.header);
        message.extend_from_slice(&self.transactions().to_le_bytes());
        // Both counts are less than 253 (at most 17 levels), so each is one byte in Bitcoin's compact size encoding.
        message.push(hashes.len() as u8);
        hashes.iter().for_each(|hash| message.extend_from_slice(*hash));
        message.push(flags.len().div_ceil(8) as u8);
        for eight in flags.chunks(8) {
            let bits = eight.iter().enumerate();
            message.push(bits.fold(0, |byte, (bit, flag)| byte | u8::from(*flag) << bit));
        }
        Some(message)
    }

    /// Walks the tree depth-first as BIP 37 specifies: adds a flag for each visited node, and the hash of each node
    /// whose children are not visited.
    fn walk<'a>(
        &'a self,
        level: usize,
        index: usize,
        position: usize,
        hashes: &mut Vec<&'a [u8; 32]>,
        flags: &mut Vec<bool>,
    ) {
        let is_above_match = position >> level == index;
        flags.push(is_above_match);
        if level == 0 || !is_above_match {
            hashes.push(&self.nodes[self.levels[level] as usize + index]);
            return;
        }
        self.walk(level - 1, 2 * index, position, hashes, flags);
        let width = (self.levels[level] - self.levels[level - 1]) as usize;
        if 2 * index + 1 < width {
            self.walk(level - 1, 2 * index + 1, position, hashes, flags);
        }
    }
}

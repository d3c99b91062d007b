//! Paths in Merkle trees, with the checks that prevent inner nodes, copies and other positions from passing as a
//! leaf.

use crate::hash::{join, sha256d_64};
use crate::transaction::is_transaction;
use crate::{Hash, ProofError};

/// Longest path that a [`MerklePath`] can hold, in hashes.
pub const MAX_PATH: usize = 32;
/// Largest number of transactions that a block can hold: 4,000,000 units of weight, at least 240 for a transaction.
/// Bitcoin Core refuses proofs of larger blocks by the same bound (`CPartialMerkleTree::ExtractMatches`).
pub const MAX_TRANSACTIONS: u32 = 4_000_000 / (4 * 60);

/// Returns the height of the Merkle tree of a block, which is the length of every path in it: ceil(log2(count)).
pub const fn depth_of(transaction_count: u32) -> usize {
    (32 - transaction_count.saturating_sub(1).leading_zeros()) as usize
}

/// Path from a leaf of a Merkle tree to its root: the sibling at each level, the leaf's first. A fixed array of
/// [`MAX_PATH`] hashes and a length; nothing is allocated.
#[derive(Clone, Copy)]
pub struct MerklePath {
    hashes: [Hash; MAX_PATH],
    length: u8,
}

impl MerklePath {
    /// Path without hashes: the path of the only transaction of a block.
    pub const EMPTY: MerklePath = MerklePath {
        hashes: [[0; 32]; MAX_PATH],
        length: 0,
    };

    /// Copies a path. Its hashes are in wire order.
    ///
    /// # Errors
    /// [`ProofError::WrongDepth`] for more than [`MAX_PATH`] hashes.
    pub fn new(hashes: &[Hash]) -> Result<MerklePath, ProofError> {
        let mut path = MerklePath::EMPTY;
        let places = path
            .hashes
            .get_mut(..hashes.len())
            .ok_or(ProofError::WrongDepth)?;
        places.copy_from_slice(hashes);
        path.length = hashes.len() as u8;
        Ok(path)
    }

    /// Returns the siblings, the leaf's first.
    pub fn hashes(&self) -> &[Hash] {
        &self.hashes[..usize::from(self.length)]
    }

    /// Returns the root that the path leads to from `leaf` at `index`, if the number of leaves is not known. Prefer
    /// [`MerklePath::root_in`]: without the number, the server alone determines the length of the path.
    ///
    /// # Errors
    /// [`ProofError::IndexOutOfRange`]; [`ProofError::EqualSiblings`] for a left sibling that equals its node (an equal
    /// right sibling is allowed, because an odd row is filled with a copy of its last node);
    /// [`ProofError::InnerNodeIsTransaction`].
    pub fn root(&self, leaf: &Hash, index: u32) -> Result<Hash, ProofError> {
        if u64::from(index) >> self.length != 0 {
            return Err(ProofError::IndexOutOfRange);
        }
        self.climb(leaf, index, None)
    }

    /// Returns the root that the path leads to from `leaf` at `index` in a tree of `count` leaves.
    ///
    /// # Errors
    /// [`ProofError::ImpossibleTransactionCount`], [`ProofError::WrongDepth`], [`ProofError::IndexOutOfRange`],
    /// [`ProofError::EqualSiblings`], [`ProofError::MissingDuplicate`], [`ProofError::InnerNodeIsTransaction`]. The
    /// first three are checked in this order. The others are checked level by level, from the leaf to the root.
    pub fn root_in(&self, leaf: &Hash, index: u32, count: u32) -> Result<Hash, ProofError> {
        self.check_shape(index, count)?;
        self.climb(leaf, index, Some(count))
    }

    /// Checks the number of leaves, the length of the path and the index. These checks compute no hash.
    pub(crate) fn check_shape(&self, index: u32, count: u32) -> Result<(), ProofError> {
        if count == 0 || count > MAX_TRANSACTIONS {
            return Err(ProofError::ImpossibleTransactionCount);
        }
        if usize::from(self.length) != depth_of(count) {
            return Err(ProofError::WrongDepth);
        }
        if index >= count {
            return Err(ProofError::IndexOutOfRange);
        }
        Ok(())
    }

    /// Computes the root by hashing from the leaf upwards. `width` is the number of nodes in the leaf's row, if it is
    /// known.
    fn climb(&self, leaf: &Hash, index: u32, mut width: Option<u32>) -> Result<Hash, ProofError> {
        let (mut node, mut position) = (*leaf, index);
        for sibling in self.hashes() {
            let is_right = position & 1 == 1;
            let is_equal = *sibling == node;
            let is_last_of_odd = width.map(|width| !is_right && position == width - 1);
            match is_last_of_odd {
                Some(true) if !is_equal => return Err(ProofError::MissingDuplicate),
                Some(false) if is_equal => return Err(ProofError::EqualSiblings),
                None if is_equal && is_right => return Err(ProofError::EqualSiblings),
                _ => {}
            }
            let bytes = if is_right {
                join(sibling, &node)
            } else {
                join(&node, sibling)
            };
            if is_transaction(&bytes) {
                return Err(ProofError::InnerNodeIsTransaction);
            }
            node = sha256d_64(&bytes);
            position >>= 1;
            width = width.map(|width| width.div_ceil(2));
        }
        Ok(node)
    }
}

impl PartialEq for MerklePath {
    fn eq(&self, other: &MerklePath) -> bool {
        self.hashes() == other.hashes()
    }
}

impl Eq for MerklePath {}

impl core::fmt::Debug for MerklePath {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        out.debug_list()
            .entries(self.hashes().iter().map(crate::hash::Display))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_is_as_high_as_its_number_of_leaves_requires() {
        for (count, depth) in [
            (0, 0),
            (1, 0),
            (2, 1),
            (3, 2),
            (4, 2),
            (5, 3),
            (2048, 11),
            (2049, 12),
        ] {
            assert_eq!(depth_of(count), depth, "{count}");
        }
        assert_eq!(depth_of(MAX_TRANSACTIONS), 15);
        assert_eq!(depth_of(u32::MAX), 32);
    }

    #[test]
    fn a_path_holds_32_hashes_and_an_index_within_them() {
        let hashes = [[3; 32]; 33];
        assert_eq!(MerklePath::new(&hashes), Err(ProofError::WrongDepth));
        let path = MerklePath::new(&hashes[..32]).unwrap();
        assert!(path.root(&[1; 32], u32::MAX).is_ok());
        let path = MerklePath::new(&hashes[..3]).unwrap();
        assert!(path.root(&[1; 32], 7).is_ok());
        assert_eq!(path.root(&[1; 32], 8), Err(ProofError::IndexOutOfRange));
        assert_eq!(path.root(&[3; 32], 1), Err(ProofError::EqualSiblings));
        assert!(path.root(&[3; 32], 0).is_ok());
        assert_eq!(MerklePath::EMPTY.root(&[1; 32], 0), Ok([1; 32]));
        assert_eq!(
            MerklePath::EMPTY.root(&[1; 32], 1),
            Err(ProofError::IndexOutOfRange)
        );
    }
}

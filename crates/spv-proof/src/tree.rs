//! Merkle trees of whole blocks, for servers: all proofs of a block from one computation.

use crate::hash::hash_pair;
use crate::{Hash, MAX_PATH, MAX_TRANSACTIONS, MerklePath, ProofError, depth_of};

/// Merkle tree of a block with all its nodes: about 64 bytes for each transaction.
///
/// For a witness tree give WTXIDs, with 32 zero bytes for the coinbase.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Nodes of all rows, beginning with the leaves. The copy of the last node of an odd row is not stored.
    nodes: Vec<Hash>,
    /// Number of leaves.
    count: u32,
    is_mutated: bool,
}

impl Tree {
    /// Computes the tree of a block whose transactions have these ids, in the order of the block and in wire order.
    ///
    /// # Errors
    /// [`ProofError::ImpossibleTransactionCount`] for no leaves, or more than [`MAX_TRANSACTIONS`].
    pub fn new(leaves: &[Hash]) -> Result<Tree, ProofError> {
        let count = u32::try_from(leaves.len()).unwrap_or(u32::MAX);
        if count == 0 || count > MAX_TRANSACTIONS {
            return Err(ProofError::ImpossibleTransactionCount);
        }
        let mut nodes = Vec::with_capacity(2 * leaves.len() + depth_of(count));
        nodes.extend_from_slice(leaves);
        let (mut start, mut is_mutated) = (0, false);
        while nodes.len() - start > 1 {
            let end = nodes.len();
            for left in (start..end).step_by(2) {
                let right = if left + 1 < end { left + 1 } else { left };
                is_mutated |= left != right && nodes[left] == nodes[right];
                nodes.push(hash_pair(&nodes[left], &nodes[right]));
            }
            start = end;
        }
        Ok(Tree {
            nodes,
            count,
            is_mutated,
        })
    }

    /// Returns the Merkle root.
    pub fn root(&self) -> Hash {
        self.nodes[self.nodes.len() - 1]
    }

    /// Returns the number of transactions.
    pub fn transaction_count(&self) -> u32 {
        self.count
    }

    /// Returns the length of every path.
    pub fn depth(&self) -> usize {
        depth_of(self.count)
    }

    /// Returns true if two nodes with the same parent are equal. Other lists of transactions then have the same root
    /// (CVE-2012-2459), and a block with this list must be refused.
    pub fn is_mutated(&self) -> bool {
        self.is_mutated
    }

    /// Writes the path of the transaction at `index` into `out` and returns its length.
    ///
    /// # Panics
    /// Panics if `index` is not below the number of transactions.
    pub fn path(&self, index: u32, out: &mut [Hash; MAX_PATH]) -> usize {
        assert!(index < self.count, "index {index} of {} transactions", self.count);
        let (mut start, mut width, mut position) = (0, self.count as usize, index as usize);
        let mut length = 0;
        while width > 1 {
            let sibling = (position ^ 1).min(width - 1);
            out[length] = self.nodes[start + sibling];
            length += 1;
            start += width;
            width = width.div_ceil(2);
            position /= 2;
        }
        length
    }

    /// Returns the path of the transaction at `index`; `None` if the block has no transaction there.
    pub fn merkle_path(&self, index: u32) -> Option<MerklePath> {
        let mut hashes = [[0; 32]; MAX_PATH];
        let length = (index < self.count).then(|| self.path(index, &mut hashes))?;
        MerklePath::new(&hashes[..length]).ok()
    }

    /// Returns all rows, the leaves first and the root last. An odd row has no copy of its last node.
    pub fn nodes(&self) -> &[Hash] {
        &self.nodes
    }

    /// Returns the bytes of memory of the tree.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Tree>() + self.nodes.capacity() * size_of::<Hash>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bitcoin::hashes::{Hash as _, sha256d};
    use bitcoin::merkle_tree;

    fn leaves(count: u32) -> Vec<Hash> {
        (0..count)
            .map(|number| crate::sha256d(&number.to_le_bytes()))
            .collect()
    }

    #[test]
    fn roots_equal_those_of_the_bitcoin_crate_and_every_path_leads_to_them() {
        for count in (1..=70).chain([255, 256, 257, 1000, 2047, 2048, 2049]) {
            let leaves = leaves(count);
            let tree = Tree::new(&leaves).unwrap();
            let hashes = leaves.iter().map(|leaf| sha256d::Hash::from_byte_array(*leaf));
            let oracle = merkle_tree::calculate_root(hashes).unwrap().to_byte_array();
            assert_eq!(tree.root(), oracle, "{count}");
            assert!(!tree.is_mutated());
            assert_eq!(tree.transaction_count(), count);
            for (index, leaf) in (0..).zip(&leaves) {
                let path = tree.merkle_path(index).unwrap();
                assert_eq!(path.hashes().len(), tree.depth());
                assert_eq!(path.root_in(leaf, index, count), Ok(oracle), "{index} of {count}");
                assert_eq!(path.root(leaf, index), Ok(oracle));
            }
            assert_eq!(tree.merkle_path(count), None);
            assert!(tree.memory_bytes() <= 64 * count as usize + 600);
        }
    }

    #[test]
    fn a_block_with_repeated_transactions_has_the_root_of_the_original_and_is_mutated() {
        let three = leaves(3);
        let four = [three.clone(), vec![three[2]]].concat();
        let (honest, copied) = (Tree::new(&three).unwrap(), Tree::new(&four).unwrap());
        assert_eq!(honest.root(), copied.root());
        assert!(!honest.is_mutated() && copied.is_mutated());
        // Two equal pairs: equal nodes one row up.
        let six = leaves(6);
        let eight = [six.clone(), six[4..].to_vec()].concat();
        assert_eq!(Tree::new(&six).unwrap().root(), Tree::new(&eight).unwrap().root());
        assert!(Tree::new(&eight).unwrap().is_mutated());
    }

    #[test]
    fn no_transactions_and_too_many_are_refused() {
        let refused = Err(ProofError::ImpossibleTransactionCount);
        assert_eq!(Tree::new(&[]).map(|tree| tree.root()), refused);
        let many = vec![[1; 32]; MAX_TRANSACTIONS as usize + 1];
        assert_eq!(Tree::new(&many).map(|tree| tree.root()), refused);
        assert!(Tree::new(&many[1..]).is_ok());
    }
}

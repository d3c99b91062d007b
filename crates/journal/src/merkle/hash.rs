//! Hashes of leaves and nodes, one or many at once.

use sha2::Digest;

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// The root of a tree without leaves: SHA-256 of nothing.
pub const EMPTY_ROOT: Hash = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
    0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// Hashes many leaves or nodes at once. Any implementation must give what [`Sha256`] gives.
pub trait Hasher {
    /// Appends the leaf hash of each of `leaves` to `out`.
    fn leaves(&self, leaves: &[&[u8]], out: &mut Vec<Hash>);
    /// Appends the node hash of each pair (left, right) to `out`.
    fn nodes(&self, pairs: &[[Hash; 2]], out: &mut Vec<Hash>);
}

/// One after the other, by the `sha2` crate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sha256;

impl Hasher for Sha256 {
    fn leaves(&self, leaves: &[&[u8]], out: &mut Vec<Hash>) {
        out.extend(leaves.iter().map(|leaf| leaf_hash(leaf)));
    }

    fn nodes(&self, pairs: &[[Hash; 2]], out: &mut Vec<Hash>) {
        out.extend(pairs.iter().map(|[left, right]| node_hash(left, right)));
    }
}

/// SHA-256(0x00, leaf).
pub fn leaf_hash(leaf: &[u8]) -> Hash {
    sha2::Sha256::new()
        .chain_update([0])
        .chain_update(leaf)
        .finalize()
        .into()
}

/// SHA-256(0x01, left, right).
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let hash = sha2::Sha256::new().chain_update([1]);
    hash.chain_update(left).chain_update(right).finalize().into()
}

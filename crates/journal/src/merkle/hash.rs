//! Hash functions of leaves and nodes, single and batched.

use sha2::Digest;

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// Root of a tree without leaves: SHA-256 of the empty string.
pub const EMPTY_ROOT: Hash = [
    0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27,
    0xae, 0x41, 0xe4, 0x64, 0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55,
];

/// Hash function for batches of leaves and nodes. Every implementation must return the same hashes as [`Sha256`].
pub trait Hasher {
    /// Appends the leaf hash of each of `leaves` to `out`.
    fn leaves(&self, leaves: &[&[u8]], out: &mut Vec<Hash>);
    /// Appends the node hash of each pair (left, right) to `out`.
    fn nodes(&self, pairs: &[[Hash; 2]], out: &mut Vec<Hash>);
}

/// Hasher that computes one hash at a time with the `sha2` crate.
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

/// Hasher that uses a function for the SHA-256 of each message of a batch.
#[derive(Clone, Copy, Debug)]
pub struct Batch<F>(pub F);

impl<F: Fn(&[&[u8]], &mut [Hash])> Hasher for Batch<F> {
    fn leaves(&self, leaves: &[&[u8]], out: &mut Vec<Hash>) {
        let bytes = leaves.iter().map(|leaf| 1 + leaf.len()).sum();
        let (mut all, mut ends) = (Vec::with_capacity(bytes), Vec::with_capacity(leaves.len()));
        for leaf in leaves {
            all.push(0);
            all.extend_from_slice(leaf);
            ends.push(all.len());
        }
        let mut begin = 0;
        let message = |end| &all[std::mem::replace(&mut begin, end)..end];
        let messages: Vec<&[u8]> = ends.into_iter().map(message).collect();
        self.append(&messages, out);
    }

    fn nodes(&self, pairs: &[[Hash; 2]], out: &mut Vec<Hash>) {
        let mut messages = vec![[1; 65]; pairs.len()];
        for (message, pair) in messages.iter_mut().zip(pairs) {
            message[1..].copy_from_slice(pair.as_flattened());
        }
        let messages: Vec<&[u8]> = messages.iter().map(<[u8; 65]>::as_slice).collect();
        self.append(&messages, out);
    }
}

impl<F: Fn(&[&[u8]], &mut [Hash])> Batch<F> {
    fn append(&self, messages: &[&[u8]], out: &mut Vec<Hash>) {
        let before = out.len();
        out.resize(before + messages.len(), [0; 32]);
        (self.0)(messages, &mut out[before..]);
    }
}

/// Returns SHA-256(0x00, leaf).
pub fn leaf_hash(leaf: &[u8]) -> Hash {
    sha2::Sha256::new()
        .chain_update([0])
        .chain_update(leaf)
        .finalize()
        .into()
}

/// Returns SHA-256(0x01, left, right).
pub fn node_hash(left: &Hash, right: &Hash) -> Hash {
    let hash = sha2::Sha256::new().chain_update([1]);
    hash.chain_update(left).chain_update(right).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_has_the_same_hashes_as_single_messages() {
        let batch = Batch(|messages: &[&[u8]], digests: &mut [Hash]| {
            for (message, digest) in messages.iter().zip(digests) {
                *digest = sha2::Sha256::digest(message).into();
            }
        });
        for count in [0, 1, 7, 8, 9, 16, 17, 100] {
            let leaves: Vec<Vec<u8>> = (0..count).map(|index| vec![index as u8; index * 3]).collect();
            let leaves: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
            let (mut ours, mut theirs) = (vec![[9; 32]], vec![[9; 32]]);
            batch.leaves(&leaves, &mut ours);
            Sha256.leaves(&leaves, &mut theirs);
            assert_eq!(ours, theirs);
            let pairs: Vec<[Hash; 2]> = ours.windows(2).map(|two| [two[0], two[1]]).collect();
            batch.nodes(&pairs, &mut ours);
            Sha256.nodes(&pairs, &mut theirs);
            assert_eq!(ours, theirs);
        }
    }
}

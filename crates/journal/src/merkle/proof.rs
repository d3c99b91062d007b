//! Inclusion and consistency proofs: created as in RFC 6962 sections 2.1.1 and 2.1.2, verified as in RFC 9162 sections
//! 2.1.3.2 and 2.1.4.2.

use super::hash::{Hash, Hasher, node_hash};
use super::tree::root_of_hashes;

/// Returns the audit path of leaf `index` in the tree over `leaf_hashes`, from the leaf upwards; `None` if there is no
/// such leaf.
pub fn inclusion_proof(hasher: &impl Hasher, leaf_hashes: &[Hash], index: u64) -> Option<Vec<Hash>> {
    let mut rest = leaf_hashes;
    let mut index = usize::try_from(index).ok().filter(|index| *index < rest.len())?;
    let mut proof = Vec::new();
    while rest.len() > 1 {
        let (left, right) = rest.split_at(split(rest.len()));
        if index < left.len() {
            proof.push(root_of_hashes(hasher, right));
            rest = left;
        } else {
            proof.push(root_of_hashes(hasher, left));
            index -= left.len();
            rest = right;
        }
    }
    proof.reverse();
    Some(proof)
}

/// Returns whether `proof` shows that `leaf_hash` is leaf `index` of the tree with `size` leaves and this root.
pub fn verify_inclusion(leaf_hash: &Hash, index: u64, size: u64, proof: &[Hash], root: &Hash) -> bool {
    if index >= size {
        return false;
    }
    let (mut place, mut last) = (index, size - 1);
    let mut hash = *leaf_hash;
    for sibling in proof {
        if last == 0 {
            return false;
        }
        if place & 1 == 1 || place == last {
            hash = node_hash(sibling, &hash);
            (place, last) = up_from_right(place, last);
        } else {
            hash = node_hash(&hash, sibling);
        }
        (place, last) = (place >> 1, last >> 1);
    }
    last == 0 && hash == *root
}

/// Returns the position after the levels on which the right edge of the tree has no sibling.
fn up_from_right(place: u64, last: u64) -> (u64, u64) {
    let levels = if place & 1 == 1 { 0 } else { place.trailing_zeros() };
    (
        place.checked_shr(levels).unwrap_or(0),
        last.checked_shr(levels).unwrap_or(0),
    )
}

/// Returns the proof that the tree over all `leaf_hashes` is an extension of the tree over the first `old_size`;
/// `None` if there are fewer leaves. The proof is empty if `old_size` is 0 or equal to the number of leaves.
pub fn consistency_proof(hasher: &impl Hasher, leaf_hashes: &[Hash], old_size: u64) -> Option<Vec<Hash>> {
    let mut rest = leaf_hashes;
    let mut old = usize::try_from(old_size).ok().filter(|old| *old <= rest.len())?;
    let mut proof = Vec::new();
    if old == 0 {
        return Some(proof);
    }
    let mut whole = true; // `rest` begins with the old tree, whose root the verifier knows
    while old < rest.len() {
        let (left, right) = rest.split_at(split(rest.len()));
        if old <= left.len() {
            proof.push(root_of_hashes(hasher, right));
            rest = left;
        } else {
            proof.push(root_of_hashes(hasher, left));
            old -= left.len();
            rest = right;
            whole = false;
        }
    }
    if !whole {
        proof.push(root_of_hashes(hasher, rest));
    }
    proof.reverse();
    Some(proof)
}

/// Returns whether `proof` shows that the new tree begins with the tree of `old_size` leaves and `old_root`.
pub fn verify_consistency(
    old_size: u64,
    new_size: u64,
    old_root: &Hash,
    new_root: &Hash,
    proof: &[Hash],
) -> bool {
    if old_size > new_size {
        return false;
    }
    if old_size == new_size {
        return proof.is_empty() && old_root == new_root;
    }
    if old_size == 0 {
        // Every tree is an extension of the empty tree.
        return proof.is_empty() && *old_root == super::EMPTY_ROOT;
    }
    let mut path = proof.iter();
    let start = if old_size.is_power_of_two() {
        Some(old_root)
    } else {
        path.next()
    };
    let Some(start) = start else {
        return false;
    };
    let shift = (old_size - 1).trailing_ones();
    let (mut place, mut last) = ((old_size - 1) >> shift, (new_size - 1) >> shift);
    let (mut old_hash, mut new_hash) = (*start, *start);
    for sibling in path {
        if last == 0 {
            return false;
        }
        if place & 1 == 1 || place == last {
            old_hash = node_hash(sibling, &old_hash);
            new_hash = node_hash(sibling, &new_hash);
            (place, last) = up_from_right(place, last);
        } else {
            new_hash = node_hash(&new_hash, sibling);
        }
        (place, last) = (place >> 1, last >> 1);
    }
    last == 0 && old_hash == *old_root && new_hash == *new_root
}

/// Returns the largest power of two below `size`, which is 2 or more.
fn split(size: usize) -> usize {
    1 << (size - 1).ilog2()
}

//! Merkle trees by SHA-256 in lanes: sixteen leaves or nodes at once where the CPU has AVX-512.

use lineside_journal::merkle::{Hash, Hasher};
use lineside_verify::hash::sha256_batch;

/// Gives what `lineside_journal::merkle::Sha256` gives, sooner.
pub(crate) struct Lanes;

impl Hasher for Lanes {
    fn leaves(&self, leaves: &[&[u8]], out: &mut Vec<Hash>) {
        let messages: Vec<Vec<u8>> = leaves.iter().map(|leaf| [&[0], *leaf].concat()).collect();
        let messages: Vec<&[u8]> = messages.iter().map(Vec::as_slice).collect();
        batch(&messages, out);
    }

    fn nodes(&self, pairs: &[[Hash; 2]], out: &mut Vec<Hash>) {
        let mut messages = vec![[1; 65]; pairs.len()];
        for (message, [left, right]) in messages.iter_mut().zip(pairs) {
            message[1..33].copy_from_slice(left);
            message[33..].copy_from_slice(right);
        }
        let messages: Vec<&[u8]> = messages.iter().map(<[u8; 65]>::as_slice).collect();
        batch(&messages, out);
    }
}

fn batch(messages: &[&[u8]], out: &mut Vec<Hash>) {
    let before = out.len();
    out.resize(before + messages.len(), [0; 32]);
    sha256_batch(messages, &mut out[before..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use lineside_journal::merkle::Sha256;

    #[test]
    fn lanes_give_what_one_after_the_other_gives() {
        for count in [0, 1, 7, 8, 9, 16, 17, 100] {
            let leaves: Vec<Vec<u8>> = (0..count).map(|index| vec![index as u8; index * 3]).collect();
            let leaves: Vec<&[u8]> = leaves.iter().map(Vec::as_slice).collect();
            let (mut ours, mut theirs) = (vec![[9; 32]], vec![[9; 32]]);
            Lanes.leaves(&leaves, &mut ours);
            Sha256.leaves(&leaves, &mut theirs);
            assert_eq!(ours, theirs);
            let pairs: Vec<[Hash; 2]> = ours.windows(2).map(|two| [two[0], two[1]]).collect();
            Lanes.nodes(&pairs, &mut ours);
            Sha256.nodes(&pairs, &mut theirs);
            assert_eq!(ours, theirs);
        }
    }
}

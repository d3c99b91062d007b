//! Construction of proofs that a key of the map has a certain value or none.

use super::Tree;
use super::node::Node;
use lineside_messages::hybrid::map_proof::{End, Proof, bit};

impl Tree {
    /// Proves the value of a key under [`Tree::root`], or its absence.
    pub fn prove(&self, key: &[u8; 32]) -> Proof {
        let mut proof = Proof::default();
        let mut node = self.top;
        loop {
            node = match node.open() {
                Node::Empty => return proof,
                Node::Leaf(index) => {
                    let leaf = self.leaves.links(index);
                    let (own, value) = (leaf.key == *key, leaf.value);
                    proof.end_with(if own {
                        End::Own { value }
                    } else {
                        End::Other { key: leaf.key, value }
                    });
                    return proof;
                }
                Node::Fork(index) => {
                    let side = bit(key, proof.depth());
                    proof.push(Some(self.forks.hashes(index).0[1 - side]));
                    self.forks.links(index)[side]
                }
                Node::Chain(side, index) if side == bit(key, proof.depth()) => {
                    proof.push(None);
                    *self.chains.links(index)
                }
                Node::Chain(_, index) => {
                    proof.push(Some(*self.chains.hashes(index)));
                    return proof;
                }
            }
        }
    }
}

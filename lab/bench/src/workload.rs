//! What is asked and what is right: 512 blocks of 2,048 transactions each, or another shape, from a seed.

use lineside_testkit::Random;
use std::collections::BTreeMap;

/// TXID, block hash or Merkle root.
pub type Hash = [u8; 32];

/// Blocks; a power of two that divides 32,768, the number of client ports of the live generator.
pub const BLOCKS: usize = 512;
/// TXIDs, all of them known to every contestant.
pub const TXIDS: usize = BLOCKS * 2048;
/// TXIDs whose blocks' trees the fast path has in the measurement of proofs: the first of the stream, by number in 64
/// blocks of 2,048.
pub const PROVEN_TXIDS: usize = 64 * 2048;
/// Client ports of the live generator.
pub const PORTS: usize = 32_768;

/// Number of blocks and of transactions in each of them; both powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Blocks, 64 to 32,768; the generators of live frames take at most [`BLOCKS`].
    pub blocks: usize,
    /// Transactions in each block.
    pub transactions: usize,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            blocks: BLOCKS,
            transactions: TXIDS / BLOCKS,
        }
    }
}

impl Shape {
    /// Number of TXIDs, at most [`TXIDS`].
    pub const fn txids(self) -> usize {
        self.blocks * self.transactions
    }
}

/// Entry `i` belongs to block `i` modulo the number of blocks. The last two bytes of a TXID are `i mod 32,768` and those
/// of a root are its
/// block's number (little-endian), so that a reply can be told apart; all other bytes are random.
pub struct Workload {
    /// In the order in which they are asked.
    pub txids: Vec<Hash>,
    /// By block.
    pub roots: Vec<Hash>,
}

/// What a right reply carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The Merkle root of the TXID's block.
    Root,
    /// The request.
    Echo,
}

impl Workload {
    /// The roots that [`Workload::draw`] gives for this seed.
    pub fn roots(seed: u64, shape: Shape) -> Vec<Hash> {
        let mut random = Random(!seed);
        (0..shape.blocks)
            .map(|block| any_hash(&mut random, block))
            .collect()
    }

    /// Draws TXIDs, each again until `takes` it (given the TXID and its block's number).
    pub fn draw(seed: u64, shape: Shape, mut takes: impl FnMut(&Hash, usize) -> bool) -> Self {
        let mut random = Random(seed);
        let roots = Self::roots(seed, shape);
        let mut txids = Vec::with_capacity(shape.txids());
        while txids.len() < shape.txids() {
            let txid = any_hash(&mut random, txids.len() % PORTS);
            if takes(&txid, txids.len() % shape.blocks) {
                txids.push(txid);
            }
        }
        Self { txids, roots }
    }

    /// The hash of a block's header; nothing asks for it.
    pub fn block_hash(block: usize) -> Hash {
        let mut hash = [0xb1; 32];
        hash[..8].copy_from_slice(&block.to_le_bytes());
        hash
    }

    /// TXID to root, as the paper's software has it.
    pub fn tree(&self) -> BTreeMap<Hash, Hash> {
        let entries = self.txids.iter().enumerate();
        entries
            .map(|(number, txid)| (*txid, *self.root(number)))
            .collect()
    }

    /// The root of the block that entry `number` belongs to.
    fn root(&self, number: usize) -> &Hash {
        &self.roots[number % self.roots.len()]
    }

    /// Number of requests that their replies' last two bytes tell apart, at most [`BLOCKS`].
    pub fn places(&self) -> usize {
        self.roots.len().min(BLOCKS)
    }

    /// The request number `number`.
    pub fn request(&self, number: u64) -> &Hash {
        &self.txids[number as usize % self.txids.len()]
    }

    /// The right reply to it.
    pub fn reply(&self, number: u64, expect: Expect) -> &Hash {
        match expect {
            Expect::Root => self.root(number as usize),
            Expect::Echo => self.request(number),
        }
    }
}

fn any_hash(random: &mut Random, mark: usize) -> Hash {
    let mut hash = [0; 32];
    random.fill(&mut hash);
    hash[30..].copy_from_slice(&(mark as u16).to_le_bytes());
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_draws_the_same_and_every_entry_says_which_it_is() {
        let every_third = |seed| {
            let mut count = 0;
            Workload::draw(seed, Shape::default(), |_, _| {
                count += 1;
                count % 3 != 0
            })
        };
        let (one, same) = (every_third(7), every_third(7));
        assert!(one.txids == same.txids && one.roots == same.roots);
        assert_eq!(one.tree().len(), TXIDS);
        for number in [0u64, 511, 512, 40_000, (1 << 20) + 5] {
            let mark = |hash: &Hash| usize::from(u16::from_le_bytes([hash[30], hash[31]]));
            assert_eq!(mark(one.request(number)), number as usize % PORTS);
            assert_eq!(mark(one.reply(number, Expect::Root)), number as usize % BLOCKS);
        }
    }
}

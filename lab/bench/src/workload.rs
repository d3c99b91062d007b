//! Requests and right replies: by default for 512 blocks of 2,048 transactions each, derived from a seed.

use lineside_testkit::Random;
use std::collections::BTreeMap;

/// TXID, block hash or Merkle root.
pub type Hash = [u8; 32];

/// Default number of blocks. It is a power of two that divides 32,768, the number of client ports of the live
/// generator.
pub const BLOCKS: usize = 512;
/// Default number of TXIDs. Every contestant knows all of them.
pub const TXIDS: usize = BLOCKS * 2048;
/// Number of TXIDs in the measurement of proofs. They are the first TXIDs of the stream and belong to 64 blocks of
/// 2,048 transactions, whose Merkle trees are in the fast-path table.
pub const PROVEN_TXIDS: usize = 64 * 2048;
/// Number of client ports of the live generator.
pub const PORTS: usize = 32_768;

/// Number of blocks and of transactions in each block; both are powers of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Number of blocks, from 64 to 32,768. The generators of live frames support at most [`BLOCKS`].
    pub blocks: usize,
    /// Number of transactions in each block.
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
    /// Returns the number of TXIDs, at most [`TXIDS`].
    pub const fn txids(self) -> usize {
        self.blocks * self.transactions
    }
}

/// TXIDs and roots of a run. Entry `i` belongs to block `i` modulo the number of blocks. The last two bytes of a TXID
/// are `i mod 32,768` and those of a root are its block's number (little-endian), so that replies can be matched with
/// requests; all other bytes are random.
pub struct Workload {
    /// TXIDs in the order of the requests.
    pub txids: Vec<Hash>,
    /// Merkle roots by block.
    pub roots: Vec<Hash>,
}

/// Content that a reply must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The Merkle root of the block that contains the TXID.
    Root,
    /// The bytes of the request.
    Echo,
}

impl Workload {
    /// Returns the roots of [`Workload::draw`] for this seed.
    pub fn roots(seed: u64, shape: Shape) -> Vec<Hash> {
        let mut random = Random(!seed);
        (0..shape.blocks)
            .map(|block| any_hash(&mut random, block))
            .collect()
    }

    /// Draws TXIDs. If `takes` returns false for a TXID and the number of its block, draws this TXID again.
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

    /// Returns the hash of a block's header. No client requests it.
    pub fn block_hash(block: usize) -> Hash {
        let mut hash = [0xb1; 32];
        hash[..8].copy_from_slice(&block.to_le_bytes());
        hash
    }

    /// Returns the map from TXID to Merkle root that the paper's software uses.
    pub fn tree(&self) -> BTreeMap<Hash, Hash> {
        let entries = self.txids.iter().enumerate();
        entries
            .map(|(number, txid)| (*txid, *self.root(number)))
            .collect()
    }

    /// Returns the root of the block of entry `number`.
    fn root(&self, number: usize) -> &Hash {
        &self.roots[number % self.roots.len()]
    }

    /// Returns the number of requests that can be distinguished by the last two bytes of their replies; it is at most
    /// [`BLOCKS`].
    pub fn places(&self) -> usize {
        self.roots.len().min(BLOCKS)
    }

    /// Returns request `number` of the stream.
    pub fn request(&self, number: u64) -> &Hash {
        &self.txids[number as usize % self.txids.len()]
    }

    /// Returns the right reply to request `number`.
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
    fn the_same_seed_draws_the_same_entries_and_each_encodes_its_number() {
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

//! Rules of a block that depend on its ancestors: the required target at its height, and its time.
//!
//! The rules are implemented in `lineside-spv-proof`. The rules of test networks need the target of the last block that
//! does not have the minimum difficulty. Each entry stores this target, so that a check need not search the whole
//! period for it: a check reads 11 ancestors, and 2016 only at the first block of a period.

use super::super::network::Network;
use super::super::types::BlockId;
use super::super::validate::Refused;
use super::{ChainStore, Entry};
use bitcoin::block::Header;
use bitcoin::hashes::Hash;
use lineside_spv_proof::{Ancestor, check_rules_with, real_bits_after};
use std::cell::Cell;
use std::num::NonZeroU32;
use std::time::{SystemTime, UNIX_EPOCH};

/// Value of an entry that the checks of its descendants use. It has only four bytes, because the store keeps one in
/// memory for each block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lineage {
    /// Target of the last block of the period, up to this block, that does not have the minimum difficulty. `None` if
    /// the first ancestor is not the network's genesis block, so that neither height nor target is known.
    real_bits: Option<NonZeroU32>,
}

impl Lineage {
    /// Returns the value of a block, computed from the value of its parent.
    pub(super) fn new(
        network: Network,
        height: u32,
        header: &Header,
        hash: &[u8; 32],
        parent: Option<Lineage>,
    ) -> Lineage {
        let rules = network.rules();
        let bits = header.bits.to_consensus();
        let real_bits = match parent {
            Some(parent) => parent
                .real_bits
                .map(|of_parent| real_bits_after(rules, height, bits, of_parent.get())),
            None => (*hash == rules.genesis().hash()).then_some(bits),
        };
        Lineage {
            real_bits: real_bits.and_then(NonZeroU32::new),
        }
    }
}

/// Returns the current time in seconds since 1970.
pub(super) fn now_s() -> u32 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u32::try_from(now.as_secs()).unwrap_or(u32::MAX))
}

impl ChainStore {
    /// Checks a block against its ancestors. Nothing is checked for a detached block, or if the chain does not begin
    /// with the network's genesis block, because the block's height is then unknown. `now_s` is the current time in
    /// seconds since 1970.
    pub(super) fn check_lineage(&self, header: &Header, hash: &[u8; 32], now_s: u32) -> Result<(), Refused> {
        let rules = self.network.rules();
        let parent_hash = header.prev_blockhash.to_byte_array();
        if parent_hash == [0; 32] {
            return self.check_first(hash);
        }
        let Some(&parent) = self.by_hash.get(&parent_hash) else {
            return Ok(());
        };
        let above = self.entry(parent);
        let Some(real_bits) = above.lineage.real_bits else {
            return Ok(());
        };
        let fields = Ancestor {
            time: header.time,
            bits: header.bits.to_consensus(),
        };
        let height = above.height;
        let at = self.walk_from(parent);
        check_rules_with(rules, fields, height, now_s, at, || real_bits.get()).map_err(|source| {
            Refused::Rule {
                height: height + 1,
                source,
            }
        })
    }

    /// Checks a block without a parent. On regtest, chains for tests and demonstrations may begin with a block of their
    /// own; such a chain cannot follow a node.
    fn check_first(&self, hash: &[u8; 32]) -> Result<(), Refused> {
        let mut others = Network::ALL.iter().filter(|other| **other != self.network);
        let is_right = match self.network {
            Network::Regtest => others.all(|other| other.rules().genesis().hash() != *hash),
            network => network.rules().genesis().hash() == *hash,
        };
        is_right.then_some(()).ok_or(Refused::OtherGenesis(self.network))
    }

    fn entry(&self, id: BlockId) -> &Entry {
        &self.entries[id.0 as usize]
    }

    /// Returns a function that maps a height to the ancestor of `from` at this height; at the height of `from` itself,
    /// to `from`. The function is fast if each height is at most the previous one, because it continues from its last
    /// position.
    fn walk_from(&self, from: BlockId) -> impl Fn(u32) -> Ancestor {
        let last = Cell::new(from);
        move |height| {
            let mut id = last.get();
            if self.entry(id).height < height {
                id = from;
            }
            while let Some(parent) = self.entry(id).parent.filter(|_| self.entry(id).height > height) {
                id = parent;
            }
            last.set(id);
            let header = &self.entry(id).header;
            let word =
                |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
            Ancestor {
                time: word(68),
                bits: word(72),
            }
        }
    }
}

//! The store read without locks, beside its one writer. The specification of `xdp/spv_store.h`.
//!
//! An answer is whole when nothing it was made of changed while it was read: the line's sequence number, the block's
//! generation and, around all of it, the epoch.

use crate::chain::Tip;
use crate::layout::{SpvBlock, SpvLine};
use crate::store::{self, Hash, Store};
use lineside_fastpath::lease;
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, fence};

/// A time in which the fast path may answer; what is read in it counts only if [`Session::holds`] at its end.
pub struct Session<'a> {
    store: &'a Store,
    epoch: u64,
}

/// Where a transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Merkle root of the block.
    pub root: Hash,
    /// Hash of the block.
    pub block_hash: Hash,
    /// Height of the block.
    pub height: u32,
}

impl<'a> Session<'a> {
    /// `None` while the chain changes or after the lease.
    pub fn begin(store: &'a Store, now_ns: u64) -> Option<Self> {
        let control = store.control();
        let epoch = control.epoch.load(Acquire);
        let open = epoch & 1 == 0 && lease::is_valid(&control.lease_until_ns, now_ns);
        open.then_some(Self { store, epoch })
    }

    /// Whether everything read since [`Session::begin`] was of one epoch.
    pub fn holds(&self) -> bool {
        fence(Acquire);
        self.store.control().epoch.load(Relaxed) == self.epoch
    }

    /// The best block.
    pub fn tip(&self) -> Tip {
        let control = self.store.control();
        Tip {
            hash: store::bytes(&store::load(&control.tip_hash)),
            height: control.tip_height.load(Relaxed),
        }
    }

    /// Where `txid` is, if a whole line has it and its block stands. The first line of the set with the TXID's first
    /// word decides: the writer never lets a set hold two of them.
    pub fn find(&self, txid: &Hash) -> Option<Place> {
        let txid = store::words(txid);
        let mut set = self.store.set(&txid).iter();
        let line = set.find(|line| line.txid[0].load(Relaxed) == txid[0])?;
        let (slot, generation) = line_body(line, &txid)?;
        let mask = self.store.control().block_mask.load(Relaxed);
        block_body(&self.store.blocks.as_slice()[(slot & mask) as usize], generation)
    }
}

/// Slot and generation of the block that `line` refers to, if it holds `txid` and nobody wrote it meanwhile.
fn line_body(line: &SpvLine, txid: &[u64; 4]) -> Option<(u32, u32)> {
    let seq = line.seq.load(Acquire);
    let same = store::load(&line.txid) == *txid;
    let (slot, generation) = (line.block.load(Relaxed), line.generation.load(Relaxed));
    fence(Acquire);
    let whole = seq & 1 == 0 && line.seq.load(Relaxed) == seq;
    (same && whole && generation != 0).then_some((slot, generation))
}

/// What `block` says, if it is of `generation` before and after.
fn block_body(block: &SpvBlock, generation: u32) -> Option<Place> {
    if block.generation.load(Acquire) != generation {
        return None;
    }
    let place = Place {
        root: store::bytes(&store::load(&block.root)),
        block_hash: store::bytes(&store::load(&block.hash)),
        height: block.height.load(Relaxed),
    };
    fence(Acquire);
    (block.generation.load(Relaxed) == generation).then_some(place)
}

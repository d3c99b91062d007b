//! The state of the fast path of `spv` in a vector file.

use super::{Chain, File, Lease};
use lineside_fastpath::lease;
use lineside_spv::chain::Tip;
use lineside_spv::store::Store;
use lineside_spv::writer::{BlockRef, SpvFill, StoreWriter};
use lineside_spv_proof::Tree;
use std::sync::Arc;

/// Length of a valid lease in nanoseconds.
const LEASE_NS: u64 = 1 << 40;

/// Brings an empty store into the state of a vector file: its tip, its blocks with the TXIDs and trees that the fast
/// path has, its lease, and a change of the chain that is in progress. Returns the writer of the store.
///
/// # Panics
/// A tree of the file is invalid, or the store has no room for it.
pub fn fill(file: &File, store: &Arc<Store>) -> StoreWriter {
    let mut writer = StoreWriter::new(Arc::clone(store));
    writer.begin();
    let tip = Tip {
        hash: file.tip.hash.0,
        height: file.tip.height,
    };
    writer.commit(&tip, 1);
    for block in &file.blocks {
        let ticket = writer.admit(&BlockRef {
            hash: block.hash.0,
            root: block.root.0,
            height: block.height,
        });
        for (index, txid) in (0..).zip(&block.fastpath) {
            writer.fill(&txid.0, ticket, index);
        }
        if block.tree {
            let txids: Vec<_> = block.txids().collect();
            let tree = Tree::new(&txids).expect("a block of a vector file has transactions");
            let is_filled = writer.fill_tree(ticket, &block.header.0, &tree);
            assert!(is_filled, "{}: the store has no room for a tree", file.name);
        }
    }
    match file.state.lease {
        Lease::Valid => lease::renew(&store.control().lease_until_ns, LEASE_NS),
        Lease::Over => lease::end(&store.control().lease_until_ns),
    }
    if file.state.chain == Chain::Changing {
        writer.begin();
    }
    writer
}

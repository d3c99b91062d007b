//! Default chain of `demo` and `replay`: regtest's genesis block, a block with only a coinbase, then 64 blocks of 2,048
//! transactions. Each of these blocks spends the coinbase of the block before it. Light clients accept the chain as a
//! regtest chain.

use lineside_spv::chain::{ChainStore, Network};
use lineside_testkit::{DemoBlock, RegtestChain};
use std::path::Path;

/// Number of the blocks with many transactions.
pub const BLOCKS: usize = 64;
/// Number of transactions in each of the blocks with many transactions.
pub const TRANSACTIONS: u32 = 2048;
const SEED: u64 = 1;

/// Returns the blocks of the chain in order of height.
pub fn demo_blocks() -> impl Iterator<Item = DemoBlock> {
    all_blocks().skip(2)
}

fn all_blocks() -> impl Iterator<Item = DemoBlock> {
    let mut chain = RegtestChain::new(SEED);
    let first = [RegtestChain::genesis(), chain.next(&[], 0)];
    // Two of the transactions are the coinbase and the transaction that splits the previous coinbase.
    let rest = (0..BLOCKS).map(move |_| chain.next(&[], TRANSACTIONS - 2));
    first.into_iter().chain(rest)
}

/// Returns the chain in memory.
///
/// # Errors
/// The chain store refused a block, which would be a defect of the generator.
pub fn demo_store() -> anyhow::Result<ChainStore> {
    fill(ChainStore::open(None, Network::Regtest)?)
}

/// Writes the chain into a new chain store in `directory`.
///
/// # Errors
/// The directory cannot be written.
pub fn write_demo_store(directory: &Path) -> anyhow::Result<()> {
    fill(ChainStore::open(Some(directory), Network::Regtest)?).map(drop)
}

fn fill(mut chain: ChainStore) -> anyhow::Result<ChainStore> {
    for block in all_blocks() {
        chain.submit(&block.raw, false)?;
    }
    chain.catch_up()?;
    Ok(chain)
}

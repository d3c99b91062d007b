//! The chain that the demonstration and `replay` use where no other is given: 64 blocks of 2,048 transactions.

use lineside_spv::chain::{ChainStore, Network};
use lineside_testkit::{DemoBlock, DemoChain};
use std::path::Path;

/// Blocks of the chain.
pub const BLOCKS: usize = 64;
/// Transactions in each block.
pub const TRANSACTIONS: u32 = 2048;
const SEED: u64 = 1;

/// Returns the blocks of the chain, from its first on.
pub fn demo_blocks() -> impl Iterator<Item = DemoBlock> {
    DemoChain::new(SEED, TRANSACTIONS).take(BLOCKS)
}

/// Returns the chain in memory.
///
/// # Errors
/// A block that the chain store refuses, which would be a defect of the generator.
pub fn demo_store() -> anyhow::Result<ChainStore> {
    fill(ChainStore::open(None, Network::Regtest)?)
}

/// Writes the chain into a new chain store in `directory`.
///
/// # Errors
/// The system's reason why it cannot be written.
pub fn write_demo_store(directory: &Path) -> anyhow::Result<()> {
    fill(ChainStore::open(Some(directory), Network::Regtest)?).map(drop)
}

fn fill(mut chain: ChainStore) -> anyhow::Result<ChainStore> {
    for block in demo_blocks() {
        chain.submit(&block.raw, false)?;
    }
    chain.catch_up()?;
    Ok(chain)
}

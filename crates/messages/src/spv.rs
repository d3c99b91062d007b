//! Parts of the answers of `spv`.

/// Location of a transaction: the block that contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxLocation {
    /// Merkle root of the block.
    pub root: [u8; 32],
    /// Hash of the block.
    pub block_hash: [u8; 32],
    /// Height of the block.
    pub height: u32,
}

/// Last block of the connected chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tip {
    /// Hash of the block.
    pub hash: [u8; 32],
    /// Height of the block.
    pub height: u32,
}

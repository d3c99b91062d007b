//! Errors: reasons why a block is not accepted.

/// Reason why a block is not accepted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A peer would reject the block too: it is not the next block, or not the bytes that the orderer signed.
    #[error("block refused: {0}")]
    Refused(#[from] Refused),
    /// This program cannot determine the peer's decision. Validation stops before the block.
    #[error(
        "validation stopped before this block, because this program cannot determine how a peer would decide: {0}"
    )]
    Stop(#[from] Stop),
}

/// Violated rule for whole blocks. A peer that receives such a block requests the block again, any number of times.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The bytes are not a valid block.
    #[error("malformed block: {what}")]
    Malformed {
        /// The part that is wrong.
        what: &'static str,
    },
    /// The block's number is not the next one.
    #[error("the block has number {found}, but the next block is {expected}")]
    Number {
        /// The block's number.
        found: u64,
        /// The expected number.
        expected: u64,
    },
    /// The block's previous hash is not the header hash of the last block.
    #[error("the block's previous hash is not the header hash of the last block")]
    PreviousHash,
    /// The transactions do not match the data hash in the header.
    #[error("the data hash in the block's header is not the hash of the block's transactions")]
    DataHash,
    /// The block has no transactions.
    #[error("the block has no transactions")]
    Empty,
    /// The envelope of a transaction does not have the encoding that orderers write.
    #[error("transaction {index}: {what}")]
    Envelope {
        /// Index of the transaction in the block.
        index: usize,
        /// Description of the fault.
        what: &'static str,
    },
    /// The block belongs to another channel.
    #[error("the block belongs to another channel")]
    Channel,
    /// The block has fewer than five metadata entries.
    #[error("the block has {found} metadata entries, but five are required")]
    Metadata {
        /// Number of entries.
        found: usize,
    },
    /// The block's signatures do not satisfy /Channel/Orderer/BlockValidation.
    #[error("the block's signatures do not satisfy the policy /Channel/Orderer/BlockValidation")]
    Signature,
}

/// Reason why this program cannot determine a peer's decision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stop {
    /// A channel configuration that this program does not support, or that a peer would reject.
    #[error("channel configuration: {what}")]
    Config {
        /// The fault.
        what: String,
    },
    /// An identity that the channel's CAs signed, but whose form this program does not support.
    #[error("transaction {index}: identity: {what}")]
    Identity {
        /// Index of the transaction in the block.
        index: usize,
        /// The unsupported form.
        what: &'static str,
    },
    /// A transaction on which peers may disagree, halt or crash.
    #[error("transaction {index}: {what}")]
    Transaction {
        /// Index of the transaction in the block.
        index: usize,
        /// The reason.
        what: String,
    },
    /// A chaincode definition that this program does not support.
    #[error("definition of chaincode {name}: {what}")]
    Chaincode {
        /// Name of the chaincode.
        name: String,
        /// The reason.
        what: &'static str,
    },
    /// The state cannot be read or written.
    #[error("{what}")]
    State {
        /// The error, with the state's directory.
        what: String,
    },
    /// A limit of this program is exceeded.
    #[error("a limit of this program is exceeded: {what}: found {found}, and the maximum is {limit}")]
    Limit {
        /// The limited quantity, with its unit.
        what: &'static str,
        /// The actual value.
        found: usize,
        /// The limit.
        limit: usize,
    },
}

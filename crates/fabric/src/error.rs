//! Why a block is not taken.

/// What stands in a block's way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A peer would not take the block either: it is not the next one, or not what the orderer signed.
    #[error("block refused: {0}")]
    Refused(#[from] Refused),
    /// This program cannot say for sure what a peer would make of the block. It stops before it.
    #[error("stopped before the block: {0}")]
    Stop(#[from] Stop),
}

/// A rule for whole blocks that does not hold. The peer asks for the block again, for ever.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The bytes are no block.
    #[error("the bytes are no block: {what}")]
    Malformed {
        /// Which part.
        what: &'static str,
    },
    /// Another block than the next.
    #[error("it has number {found}, the next is {expected}")]
    Number {
        /// Its number.
        found: u64,
        /// The number wanted.
        expected: u64,
    },
    /// It does not follow the last block.
    #[error("its previous hash is not the last block's")]
    PreviousHash,
    /// Its transactions are not those of its header.
    #[error("its data hash is not that of its transactions")]
    DataHash,
    /// It has no transactions.
    #[error("it has no transactions")]
    Empty,
    /// A transaction's envelope is not as the orderer writes them.
    #[error("transaction {index}: {what}")]
    Envelope {
        /// Which transaction.
        index: usize,
        /// What is wrong.
        what: &'static str,
    },
    /// It is of another channel.
    #[error("it is of another channel")]
    Channel,
    /// It has fewer metadata entries than five.
    #[error("it has {found} metadata entries, not five")]
    Metadata {
        /// How many.
        found: usize,
    },
    /// Its signatures do not satisfy /Channel/Orderer/BlockValidation.
    #[error("its signatures do not satisfy the policy BlockValidation")]
    Signature,
}

/// What this program does not decide.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Stop {
    /// A channel configuration that it does not know, or that a peer would not take.
    #[error("the channel configuration: {what}")]
    Config {
        /// What is in it.
        what: String,
    },
    /// An identity that the channel's CAs signed, and that it cannot read.
    #[error("transaction {index}: an identity: {what}")]
    Identity {
        /// Which transaction.
        index: usize,
        /// What it is.
        what: &'static str,
    },
    /// A transaction on which peers may differ, halt or crash.
    #[error("transaction {index}: {what}")]
    Transaction {
        /// Which transaction.
        index: usize,
        /// What is in it.
        what: String,
    },
    /// A chaincode definition that it does not know.
    #[error("the definition of chaincode {name}: {what}")]
    Chaincode {
        /// Which one.
        name: String,
        /// What is in it.
        what: &'static str,
    },
    /// A state that cannot be read or written.
    #[error("{what}")]
    State {
        /// What the disk says.
        what: String,
    },
    /// More than this program takes.
    #[error("{what}: {found}, the limit is {limit}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How much there is.
        found: usize,
        /// How much it takes.
        limit: usize,
    },
}

//! Reasons why a proof is refused, with the numbers that the C header has for them.

use core::fmt;

/// Reason why a proof is refused. A proof that does not match the header of a full, honest node is the server's fault
/// or an attack: ask another server.
///
/// The numbers are those of `LINESIDE_SPV_...` in `clients/c/lineside_spv.h`:
///
/// | number | variant | trap |
/// |---|---|---|
/// | 0 | none: the proof holds | |
/// | 1 | [`IndexOutOfRange`](ProofError::IndexOutOfRange) | two positions of one transaction |
/// | 2 | [`WrongDepth`](ProofError::WrongDepth) | an inner node or a 64-byte transaction as a leaf (CVE-2017-12842) |
/// | 3 | [`ImpossibleTransactionCount`](ProofError::ImpossibleTransactionCount) | |
/// | 4 | [`EqualSiblings`](ProofError::EqualSiblings) | duplicated transactions (CVE-2012-2459) |
/// | 5 | [`MissingDuplicate`](ProofError::MissingDuplicate) | |
/// | 6 | [`InnerNodeIsTransaction`](ProofError::InnerNodeIsTransaction) | CVE-2017-12842 |
/// | 7 | [`TransactionOf64Bytes`](ProofError::TransactionOf64Bytes) | CVE-2017-12842 |
/// | 8 | [`WrongRoot`](ProofError::WrongRoot) | another block, another transaction, hashes in display order |
/// | 9 | [`InvalidTarget`](ProofError::InvalidTarget) | a header that costs nothing |
/// | 10 | [`WrongProofOfWork`](ProofError::WrongProofOfWork) | a header that costs nothing |
/// | 11 | [`MalformedTransaction`](ProofError::MalformedTransaction) | |
/// | 12 | [`NotCoinbase`](ProofError::NotCoinbase) | a forged commitment in a transaction that is not the coinbase |
/// | 13 | [`NoWitnessCommitment`](ProofError::NoWitnessCommitment) | |
/// | 14 | [`WrongWitnessCommitment`](ProofError::WrongWitnessCommitment) | |
/// | 15 | [`WrongCoinbaseWtxid`](ProofError::WrongCoinbaseWtxid) | the coinbase's WTXID is 0 by definition (BIP141) |
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum ProofError {
    /// The index is not below the number of transactions, or not below 2 to the power of the path's length.
    IndexOutOfRange = 1,
    /// The length of the path differs from the height of the tree of a block with this number of transactions.
    WrongDepth = 2,
    /// No block has 0 transactions, or more than [`MAX_TRANSACTIONS`](crate::MAX_TRANSACTIONS).
    ImpossibleTransactionCount = 3,
    /// A node and its sibling are equal where the tree has two nodes: on the left, or on the right of a node that is
    /// not the last of an odd row.
    EqualSiblings = 4,
    /// The sibling of the last node of an odd row is not that node itself.
    MissingDuplicate = 5,
    /// The 64 bytes from which an inner node of the path is hashed can be parsed as a transaction.
    InnerNodeIsTransaction = 6,
    /// The transaction has 64 bytes without its witness, so that it could pass as an inner node of the tree.
    TransactionOf64Bytes = 7,
    /// The path does not lead to the header's Merkle root.
    WrongRoot = 8,
    /// The header's target is negative, 0, too long, or easier than the network allows.
    InvalidTarget = 9,
    /// The header's hash is above its target.
    WrongProofOfWork = 10,
    /// The bytes are not one whole transaction.
    MalformedTransaction = 11,
    /// The transaction that should have the witness commitment is not a coinbase.
    NotCoinbase = 12,
    /// The coinbase has no output with a witness commitment.
    NoWitnessCommitment = 13,
    /// The path of the WTXID does not lead to the witness root that the coinbase commits to.
    WrongWitnessCommitment = 14,
    /// The WTXID is 0 at another index than 0, or not 0 at index 0.
    WrongCoinbaseWtxid = 15,
}

impl ProofError {
    /// All reasons, in the order of their numbers.
    pub const ALL: [ProofError; 15] = [
        ProofError::IndexOutOfRange,
        ProofError::WrongDepth,
        ProofError::ImpossibleTransactionCount,
        ProofError::EqualSiblings,
        ProofError::MissingDuplicate,
        ProofError::InnerNodeIsTransaction,
        ProofError::TransactionOf64Bytes,
        ProofError::WrongRoot,
        ProofError::InvalidTarget,
        ProofError::WrongProofOfWork,
        ProofError::MalformedTransaction,
        ProofError::NotCoinbase,
        ProofError::NoWitnessCommitment,
        ProofError::WrongWitnessCommitment,
        ProofError::WrongCoinbaseWtxid,
    ];

    /// Returns the number of the reason, 1 to 15.
    pub const fn code(self) -> i32 {
        self as i32
    }

    /// Returns a name for logs and test vectors, in the form `wrong root`.
    pub const fn name(self) -> &'static str {
        match self {
            ProofError::IndexOutOfRange => "index out of range",
            ProofError::WrongDepth => "wrong depth",
            ProofError::ImpossibleTransactionCount => "impossible transaction count",
            ProofError::EqualSiblings => "equal siblings",
            ProofError::MissingDuplicate => "missing duplicate",
            ProofError::InnerNodeIsTransaction => "inner node is transaction",
            ProofError::TransactionOf64Bytes => "transaction of 64 bytes",
            ProofError::WrongRoot => "wrong root",
            ProofError::InvalidTarget => "invalid target",
            ProofError::WrongProofOfWork => "wrong proof of work",
            ProofError::MalformedTransaction => "malformed transaction",
            ProofError::NotCoinbase => "not coinbase",
            ProofError::NoWitnessCommitment => "no witness commitment",
            ProofError::WrongWitnessCommitment => "wrong witness commitment",
            ProofError::WrongCoinbaseWtxid => "wrong coinbase wtxid",
        }
    }
}

impl fmt::Display for ProofError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the proof is refused: ")?;
        out.write_str(match self {
            ProofError::IndexOutOfRange => "its index is not below the block's number of transactions",
            ProofError::WrongDepth => {
                "its path does not have the length that the number of transactions requires"
            }
            ProofError::ImpossibleTransactionCount => "no block can have its number of transactions",
            ProofError::EqualSiblings => "a node equals its sibling, as in a mutated block (CVE-2012-2459)",
            ProofError::MissingDuplicate => "the last node of an odd row is not paired with itself",
            ProofError::InnerNodeIsTransaction => {
                "an inner node of its path is a transaction (CVE-2017-12842)"
            }
            ProofError::TransactionOf64Bytes => {
                "a transaction of 64 bytes can be an inner node (CVE-2017-12842)"
            }
            ProofError::WrongRoot => "its path does not lead to the header's Merkle root",
            ProofError::InvalidTarget => "its header has a target that the network does not allow",
            ProofError::WrongProofOfWork => "the hash of its header is above the header's target",
            ProofError::MalformedTransaction => "the bytes are not one whole transaction",
            ProofError::NotCoinbase => "the transaction with the witness commitment is not a coinbase",
            ProofError::NoWitnessCommitment => "the coinbase has no witness commitment",
            ProofError::WrongWitnessCommitment => {
                "its path does not lead to the coinbase's witness commitment"
            }
            ProofError::WrongCoinbaseWtxid => "only the coinbase, at index 0, has the WTXID 0",
        })?;
        out.write_str("; ask another server")
    }
}

impl core::error::Error for ProofError {}

//! Messages of `transfer`: identifiers of accounts, requests in the paper's format, signatures, outcomes.

mod account;
pub mod paper;
pub mod signer;

pub use account::AccountId;
pub use signer::{KeyId, Signer};

use lineside_wire::TransferCode as Code;

/// Outcome of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// `done`, or the reason of the refusal.
    pub code: Code,
    /// Balance of the source after the operation; 0 for a refusal.
    pub amount: u64,
    /// Number of the operation in the ledger; 0 if it has no number (yet).
    pub number: u64,
}

impl Outcome {
    /// Returns the outcome of a refused operation.
    pub const fn refused(code: Code) -> Self {
        Self {
            code,
            amount: 0,
            number: 0,
        }
    }
}

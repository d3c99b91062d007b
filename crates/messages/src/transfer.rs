//! Messages of `transfer`: identifiers of accounts, requests in the paper's format, signatures.

mod account;
pub mod paper;
pub mod signer;

pub use account::AccountId;
pub use signer::{KeyId, Signer};

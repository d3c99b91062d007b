//! Answers to requests, in the form in which they are sent.

use super::block::{Header, SignedHead};
use super::request::Version;
use lineside_wire::HybridCode as Code;
use std::sync::Arc;

/// Key whose bytes are shared by all references to it.
pub type SharedKey = Arc<[u8]>;

/// The value of a key with its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Version of the write.
    pub version: Version,
    /// The value.
    pub value: Arc<[u8]>,
}

/// One write in the history of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// Version of the write.
    pub version: Version,
    /// Time of the write's block, in milliseconds since 1970.
    pub time_ms: u64,
    /// Value that the write gave the key; `None`: it deleted the key.
    pub value: Option<Vec<u8>>,
}

/// Answer in the form in which it is sent to a client. A proof is bytes here, because a client can
/// decode it only together with the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// The request was refused and changed nothing, or its outcome is not known. The code says which.
    Refused(Code),
    /// Answer to get: the cell of each key.
    Cells(Vec<Option<Cell>>),
    /// Answer to a range request: cells ordered by key.
    Range {
        /// The cells, ascending by key.
        cells: Vec<(SharedKey, Cell)>,
        /// True if the request's limit ended the range and further keys follow.
        more: bool,
    },
    /// Answer to a prove request: the bytes that [`StateProof::decode`](super::proof::StateProof::decode) takes,
    /// together with the value.
    Proof(Vec<u8>),
    /// Answer to a history request.
    History {
        /// Writes, the newest first.
        past: Vec<Past>,
        /// True if the key has older writes than the returned ones.
        more: bool,
    },
    /// Answer to a head request: the header of the newest block, and the node's signature over its hash.
    Head(Box<(Header, SignedHead)>),
    /// Answer to a write, change or outcome request: the position of the transaction in the ledger, and its outcome.
    Placed {
        /// Outcome of the request.
        code: Code,
        /// Block of the request, and its index in the block.
        version: Version,
    },
}

impl Answered {
    /// Code of the answer.
    pub fn code(&self) -> Code {
        match self {
            Self::Refused(code) | Self::Placed { code, .. } => *code,
            _ => Code::Done,
        }
    }
}

/// Name of a code, as in the tables of the specification.
pub const fn code_name(code: Code) -> &'static str {
    match code {
        Code::Done => "done",
        Code::Recorded => "recorded",
        Code::Conflict => "conflict",
        Code::Malformed => "malformed",
        Code::WrongDatabase => "wrong_database",
        Code::UnknownMember => "unknown_member",
        Code::Revoked => "revoked",
        Code::BadSignature => "bad_signature",
        Code::HighS => "high_s",
        Code::NonceUsed => "nonce_used",
        Code::Expired => "expired",
        Code::NotAllowed => "not_allowed",
        Code::BadChange => "bad_change",
        Code::TooManyVotes => "too_many_votes",
        Code::TooLarge => "too_large",
        Code::Busy => "busy",
        Code::ReadOnly => "read_only",
        Code::ExpiryTooFar => "expiry_too_far",
        Code::Unknown => "unknown",
        Code::OutcomeUnknown => "outcome_unknown",
        Code::WrongMode => "wrong_mode",
        Code::OldVersion => "old_version",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_has_its_name() {
        for code in (0..).map_while(Code::from_code) {
            let camel = format!("{code:?}");
            let capitals = camel.chars().skip(1).filter(char::is_ascii_uppercase).count();
            let name = code_name(code);
            assert_eq!(name.replace('_', ""), camel.to_lowercase());
            assert_eq!(name.matches('_').count(), capitals);
        }
    }
}

//! What is answered.

use crate::block::{Header, SignedHead};
use crate::proof::StateProof;
use crate::request::Version;
use crate::state::SharedKey;
use lineside_wire::HybridCode as Code;
use std::sync::Arc;

/// A key's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// When it was written.
    pub version: Version,
    /// The value.
    pub value: Arc<[u8]>,
}

/// One write of a key's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Past {
    /// When it was written.
    pub version: Version,
    /// Its block's time, in milliseconds since 1970.
    pub time_ms: u64,
    /// What the key had from then on; `None`: nothing.
    pub value: Option<Vec<u8>>,
}

/// What is answered to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Nothing was done, or it is not known.
    Refused(Code),
    /// To get: per key its cell.
    Cells(Vec<Option<Cell>>),
    /// To range: cells by their keys, and whether there are more before the stop.
    Range {
        /// Rising by key.
        cells: Vec<(SharedKey, Cell)>,
        /// The limit ended it.
        more: bool,
    },
    /// To prove.
    Proof(Box<StateProof>),
    /// To history.
    History {
        /// The newest first.
        past: Vec<Past>,
        /// There are older ones.
        more: bool,
    },
    /// To head.
    Head(Box<(Header, SignedHead)>),
    /// To the paper's verify: the header of the block of the key's last write.
    Block(Box<Header>),
    /// To watch: all writes of blocks behind this one are told.
    Watching {
        /// The block.
        block: u64,
    },
    /// To write and change, and to outcome: where it stands in the ledger, and what became of it.
    Placed {
        /// What became of it.
        code: Code,
        /// Its block and its place there.
        version: Version,
    },
}

impl Answer {
    /// Its code.
    pub fn code(&self) -> Code {
        match self {
            Answer::Refused(code) | Answer::Placed { code, .. } => *code,
            _ => Code::Done,
        }
    }
}

/// What is answered, as it is sent: the same, but for proofs, whose bytes a client can read only with the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answered {
    /// Nothing was done, or it is not known.
    Refused(Code),
    /// To get: per key its cell.
    Cells(Vec<Option<Cell>>),
    /// To range: cells by their keys, and whether there are more before the stop.
    Range {
        /// Rising by key.
        cells: Vec<(SharedKey, Cell)>,
        /// The limit ended it.
        more: bool,
    },
    /// To prove: what [`StateProof::decode`] takes, with the value.
    Proof(Vec<u8>),
    /// To history.
    History {
        /// The newest first.
        past: Vec<Past>,
        /// There are older ones.
        more: bool,
    },
    /// To head.
    Head(Box<(Header, SignedHead)>),
    /// To write and change, and to outcome: where it stands in the ledger, and what became of it.
    Placed {
        /// What became of it.
        code: Code,
        /// Its block and its place there.
        version: Version,
    },
}

impl From<Answer> for Answered {
    fn from(answer: Answer) -> Self {
        match answer {
            Answer::Refused(code) => Self::Refused(code),
            Answer::Cells(cells) => Self::Cells(cells),
            Answer::Range { cells, more } => Self::Range { cells, more },
            Answer::Proof(proof) => Self::Proof(proof.encode()),
            Answer::History { past, more } => Self::History { past, more },
            Answer::Head(both) => Self::Head(both),
            Answer::Placed { code, version } => Self::Placed { code, version },
            // The paper's service alone has it.
            Answer::Block(_) => Self::Refused(Code::WrongMode),
            // Events do not fit one answer.
            Answer::Watching { .. } => Self::Refused(Code::TooLarge),
        }
    }
}

impl Answered {
    /// Its code.
    pub fn code(&self) -> Code {
        match self {
            Self::Refused(code) | Self::Placed { code, .. } => *code,
            _ => Code::Done,
        }
    }
}

/// A code's name, as the tables have it.
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
    fn names_are_those_of_the_codes() {
        for code in (0..).map_while(Code::from_code) {
            let camel = format!("{code:?}");
            let capitals = camel.chars().skip(1).filter(char::is_ascii_uppercase).count();
            let name = code_name(code);
            assert_eq!(name.replace('_', ""), camel.to_lowercase());
            assert_eq!(name.matches('_').count(), capitals);
        }
    }
}

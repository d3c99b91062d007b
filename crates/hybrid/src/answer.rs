//! Answers to requests, as the node makes them.

use lineside_messages::hybrid::answer::{Answered, Cell, Past, SharedKey};
use lineside_messages::hybrid::block::{Header, SignedHead};
use lineside_messages::hybrid::proof::StateProof;
use lineside_messages::hybrid::request::Version;
use lineside_wire::HybridCode as Code;

/// Answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
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
    /// Answer to a prove request.
    Proof(Box<StateProof>),
    /// Answer to a history request.
    History {
        /// Writes, the newest first.
        past: Vec<Past>,
        /// True if the key has older writes than the returned ones.
        more: bool,
    },
    /// Answer to a head request: the header of the newest block, and this node's signature over its hash.
    Head(Box<(Header, SignedHead)>),
    /// Answer to the paper's verify: the header of the block of the key's last write.
    Block(Box<Header>),
    /// Answer to a watch request: the watcher is notified of all writes of blocks after this one.
    Watching {
        /// Number of the block.
        block: u64,
    },
    /// Answer to a write, change or outcome request: the position of the transaction in the ledger, and its outcome.
    Placed {
        /// Outcome of the request.
        code: Code,
        /// Block of the request, and its index in the block.
        version: Version,
    },
}

impl Answer {
    /// Code of the answer.
    pub fn code(&self) -> Code {
        match self {
            Answer::Refused(code) | Answer::Placed { code, .. } => *code,
            _ => Code::Done,
        }
    }
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
            // Only the gRPC service of the paper's mode sends `Block`; it does not use this type.
            Answer::Block(_) => Self::Refused(Code::WrongMode),
            // A watcher receives many answers, but this form carries one answer to one request.
            Answer::Watching { .. } => Self::Refused(Code::TooLarge),
        }
    }
}

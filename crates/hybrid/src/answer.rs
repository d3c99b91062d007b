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
    /// To history: the newest first.
    History(Vec<Past>),
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

impl Answer {
    /// Its code.
    pub fn code(&self) -> Code {
        match self {
            Answer::Refused(code) | Answer::Placed { code, .. } => *code,
            _ => Code::Done,
        }
    }
}

//! Conversion of a node's answers to protobuf messages.

use super::super::answer::{self, Answered, code_name};
use super::super::{Code, request};
use super::{Cell, Cells, Event, KeyCell, KeyCells, Placed, Proof, SignedHeader, Version, Write, Writes};
use bytes::Bytes;
use prost::Message;
use std::sync::Arc;

/// Length in bytes from which a value is shared with the node's memory instead of copied.
const SHARED_BYTES: usize = 1024;

/// A message that answers a request.
pub trait Reply: Message + Default + 'static {
    /// Converts a node's answer; `None` if the answer belongs to another kind of request.
    fn of(answered: Answered) -> Option<Self>;

    /// Sets the outcome of the request.
    fn set_code(&mut self, code: Code);

    /// Creates the answer to a refused request.
    fn refused(code: Code) -> Self {
        let mut reply = Self::default();
        reply.set_code(code);
        reply
    }

    /// Converts a node's answer. If the message would have more than `bytes_max` bytes, refuses the request with
    /// `too_large` instead.
    fn within(answered: Answered, bytes_max: usize) -> Self {
        let reply = match answered {
            Answered::Refused(code) => return Self::refused(code),
            answered => Self::of(answered).unwrap_or_else(|| Self::refused(Code::Malformed)),
        };
        match reply.encoded_len() <= bytes_max {
            true => reply,
            false => Self::refused(Code::TooLarge),
        }
    }
}

macro_rules! reply {
    ($type:ident, $answer:pat => $made:expr) => {
        impl Reply for $type {
            fn of(answered: Answered) -> Option<Self> {
                let code = answered.code();
                let $answer = answered else { return None };
                let mut reply: Self = $made;
                reply.set_code(code);
                Some(reply)
            }

            fn set_code(&mut self, code: Code) {
                self.code = code as u32;
                self.code_name = code_name(code).into();
            }
        }
    };
}

reply!(Cells, Answered::Cells(cells) => Cells {
    cells: cells.into_iter().map(cell).collect(),
    ..Cells::default()
});
reply!(Placed, Answered::Placed { version: at, .. } => Placed {
    version: Some(version(at)),
    ..Placed::default()
});
reply!(KeyCells, Answered::Range { cells, more } => KeyCells {
    cells: cells.into_iter().map(|(key, cell)| KeyCell {
        key: shared(key),
        version: Some(version(cell.version)),
        value: shared(cell.value),
    }).collect(),
    more,
    ..KeyCells::default()
});
reply!(Proof, Answered::Proof(proof) => Proof {
    proof: proof.into(),
    ..Proof::default()
});
reply!(Writes, Answered::History { past, more } => Writes {
    writes: past.into_iter().map(|past| Write {
        version: Some(version(past.version)),
        time_ms: past.time_ms,
        value: past.value.map(Bytes::from),
    }).collect(),
    more,
    ..Writes::default()
});
reply!(SignedHeader, Answered::Head(both) => SignedHeader {
    header: both.0.to_bytes().to_vec().into(),
    head: both.1.to_bytes().to_vec().into(),
    ..SignedHeader::default()
});

/// Converts a version to its message.
pub fn version(version: request::Version) -> Version {
    Version {
        block: version.block,
        index: version.index,
    }
}

fn cell(cell: Option<answer::Cell>) -> Cell {
    cell.map_or_else(Cell::default, |cell| Cell {
        version: Some(version(cell.version)),
        value: shared(cell.value),
    })
}

/// Converts a shared value to bytes. A long value is not copied.
pub fn shared(bytes: Arc<[u8]>) -> Bytes {
    match bytes.len() < SHARED_BYTES {
        true => Bytes::copy_from_slice(&bytes),
        false => Bytes::from_owner(bytes),
    }
}

/// Creates the first or last event of a watcher: one with this code.
pub fn event(code: Code) -> Event {
    Event {
        code: code as u32,
        code_name: code_name(code).into(),
        ..Event::default()
    }
}

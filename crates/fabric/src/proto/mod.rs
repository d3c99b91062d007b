//! Zero-copy parser of Fabric's messages, with the behaviour of Go's protobuf (`google.golang.org/protobuf`).
//!
//! [`Message::walk`] parses a message in one pass if it has the usual form: fields in the order of their numbers, each
//! once. Other valid encodings are first normalised by [`plain::normalise`] into an [`Arena`].

mod messages;
pub mod plain;
pub mod wire;

pub use messages::*;
use plain::Schema;

/// Storage of messages that had to be normalised.
pub type Arena = typed_arena::Arena<Vec<u8>>;

/// Reason why bytes cannot be decoded as a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// Go rejects the bytes too.
    #[error("the bytes are not a valid protobuf message of this type")]
    Bad,
    /// The nesting depth, or the number of entries of a field, exceeds this program's limit; Go may accept the bytes.
    #[error("the message is nested too deeply, or one of its fields has too many entries, for this program")]
    TooLarge,
}

/// Reason why the walker cannot parse a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkError {
    /// No decoder accepts the bytes.
    Malformed,
    /// A field is out of order or occurs twice; the plain decoder is needed.
    Unordered,
    /// A field has more than [`REPEATED_ENTRIES_MAX`](crate::limits::REPEATED_MAX) entries.
    TooLarge,
}

impl From<Malformed> for WalkError {
    fn from(_: Malformed) -> Self {
        WalkError::Malformed
    }
}

/// A message whose fields borrow the bytes from which it was parsed.
pub trait Message<'a>: Sized {
    /// Returns the fields, for the plain decoder.
    fn schema() -> &'static Schema;

    /// Parses the message in one pass.
    fn walk(bytes: &'a [u8]) -> Result<Self, WalkError>;
}

/// Parses a message with [`Message::walk`], or with the plain decoder if the message is not in the usual form.
#[inline]
pub fn decode<'a, M: Message<'a>>(bytes: &'a [u8], arena: &'a Arena) -> Result<M, Malformed> {
    match M::walk(bytes) {
        Ok(message) => Ok(message),
        Err(WalkError::Malformed) => Err(Malformed::Bad),
        Err(WalkError::TooLarge) => Err(Malformed::TooLarge),
        Err(WalkError::Unordered) => decode_plain(bytes, arena),
    }
}

/// Parses a message that is not in the usual form: normalises it first.
#[cold]
pub fn decode_plain<'a, M: Message<'a>>(bytes: &'a [u8], arena: &'a Arena) -> Result<M, Malformed> {
    let ordered = arena.alloc(plain::normalise(M::schema(), bytes)?);
    M::walk(ordered).map_err(|why| match why {
        WalkError::TooLarge => Malformed::TooLarge,
        WalkError::Malformed | WalkError::Unordered => Malformed::Bad,
    })
}

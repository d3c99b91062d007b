//! Messages of Fabric, read as Go's protobuf reads them (`google.golang.org/protobuf`), without a copy.
//!
//! [`Message::walk`] goes over the bytes once and takes the form that every encoder writes: fields in the order of
//! their numbers, each once. Whatever else is valid goes through [`plain::normalise`] first, into an [`Arena`].

mod messages;
pub mod plain;
pub mod wire;

pub use messages::*;
use plain::Schema;

/// Where messages that had to be rewritten are kept.
pub type Arena = typed_arena::Arena<Vec<u8>>;

/// Why bytes are no message.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Malformed {
    /// Go refuses them too.
    #[error("not the message that it should be")]
    Bad,
    /// More messages in each other, or more entries of a field, than this program takes; Go might take them.
    #[error("larger or nested more deeply than is taken")]
    TooLarge,
}

/// Why the walker gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Walk {
    /// No decoder takes these bytes.
    Malformed,
    /// Out of order, or a field twice: not for the walker.
    Unordered,
    /// More entries of one field than [`REPEATED_MAX`](crate::limits::REPEATED_MAX).
    TooLarge,
}

impl From<Malformed> for Walk {
    fn from(_: Malformed) -> Self {
        Walk::Malformed
    }
}

/// A message whose fields point into the bytes it was read from.
pub trait Message<'a>: Sized {
    /// Its fields, for the plain decoder.
    fn schema() -> &'static Schema;

    /// Reads it in one pass.
    fn walk(bytes: &'a [u8]) -> Result<Self, Walk>;
}

/// Reads a message: by the walker, and where that gives up by the plain decoder.
#[inline]
pub fn decode<'a, M: Message<'a>>(bytes: &'a [u8], arena: &'a Arena) -> Result<M, Malformed> {
    match M::walk(bytes) {
        Ok(message) => Ok(message),
        Err(Walk::Malformed) => Err(Malformed::Bad),
        Err(Walk::TooLarge) => Err(Malformed::TooLarge),
        Err(Walk::Unordered) => decode_plain(bytes, arena),
    }
}

/// Reads a message by the plain decoder.
#[cold]
pub fn decode_plain<'a, M: Message<'a>>(bytes: &'a [u8], arena: &'a Arena) -> Result<M, Malformed> {
    let ordered = arena.alloc(plain::normalise(M::schema(), bytes)?);
    M::walk(ordered).map_err(|why| match why {
        Walk::TooLarge => Malformed::TooLarge,
        Walk::Malformed | Walk::Unordered => Malformed::Bad,
    })
}

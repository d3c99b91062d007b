//! Transport of Fabric blocks over UDP: a sender at the orderer, a receiver at the validator.
//!
//! The receiver hands out transactions before their block is complete ([`Blocks::early`]), so that a validator can
//! start on them, and complete blocks in order ([`Blocks::whole`]). Datagrams are authenticated with a shared key, and
//! not encrypted. Whether a block is valid is decided by `lineside-fabric`, of which this crate uses only the reader of
//! protobuf.
//!
//! [`Sender`] and [`Receiver`] do no I/O and have no clock: datagrams and times go in, datagrams and blocks come out.
//! [`driver`] connects them with sockets. [`paper`] understands the papers' packets. The form of datagrams is in
//! `docs/wire-formats.md`, the rules are in `docs/fabric-udp.md`.

mod assembly;
mod batch;
pub mod code;
pub mod cut;
pub mod driver;
mod mac;
pub mod packet;
pub mod paper;
mod receiver;
mod sender;
mod want;
mod window;

pub use mac::{KEY_BYTES_MIN, Session, SharedKey, ShortKey};
pub use receiver::{Counters, Heard, Receiver, ReceiverOptions};
pub use sender::{Polled, Sender, SenderCounters, SenderOptions};

use code::{Aside, Known};
use cut::Note;

/// Part of a block that has come, before the block is whole. Nothing of it may be shown to anyone yet.
#[derive(Clone, Copy, Debug)]
pub struct Early<'a> {
    /// The block's number.
    pub block: u64,
    /// The transaction's index.
    pub index: u32,
    /// Its envelope.
    pub bytes: &'a [u8],
    /// The segment that the places below are in: the envelope with its tag and length.
    pub segment: &'a [u8],
    aside: &'a Aside,
}

impl<'a> Early<'a> {
    /// Identities in it that the cache has, so that they need not be looked up by their bytes.
    pub fn known(&self) -> &'a [Known] {
        &self.aside.known
    }

    /// What the sender says where things are: hints. [`Note::check`] tells whether one is true.
    pub fn notes(&self) -> &'a [Note] {
        &self.aside.notes
    }
}

/// Why what has come of a block is of no use. It is asked for again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Dropped {
    /// The bytes are no block of this number.
    #[error("the bytes are no block of this number")]
    Malformed,
    /// Its transactions are not those of its header.
    #[error("its data hash is not that of its transactions")]
    DataHash,
    /// The other end restarted.
    #[error("the sender restarted")]
    Session,
    /// There was no room for it beside earlier blocks.
    #[error("earlier blocks need the memory")]
    Memory,
}

/// Who takes what a receiver has to give.
pub trait Blocks {
    /// A transaction has come: work on it may start, in private. Blocks and transactions may come in any order.
    fn early(&mut self, _early: Early<'_>) {}

    /// Returns true if there is room for the next block, which has `block_bytes` bytes. Without room the block stays
    /// with the receiver, and the sender waits. Only [`Receiver`] asks; [`PaperReceiver`](paper::PaperReceiver) has no
    /// place to keep a block, and hands it on.
    fn ready(&self, _block_bytes: usize) -> bool {
        true
    }

    /// The next block: byte for byte the orderer's, its data hash checked. What was made of its early transactions
    /// may be used once its previous hash and signatures hold too.
    fn whole(&mut self, number: u64, bytes: Vec<u8>);

    /// What was told early of this block is void.
    fn dropped(&mut self, _number: u64, _why: Dropped) {}

    /// What the receiver has counted, after each batch of datagrams.
    fn counted(&mut self, _counters: &Counters) {}

    /// The sender cannot give these blocks any more: get them by Deliver, then call [`Receiver::set_next`].
    fn gap(&mut self, from: u64, to: u64);
}

//! Transport of Fabric blocks over UDP: a sender at the orderer, a receiver at the validator.
//!
//! The receiver hands out transactions before their block is complete ([`BlockSink::on_early`]), so that a validator
//! can start on them, and complete blocks in order ([`BlockSink::on_block`]). Datagrams are authenticated with a shared
//! key, but not encrypted. `lineside-fabric` decides whether a block is valid; this crate uses only the protobuf reader
//! of `lineside-fabric`.
//!
//! [`Sender`] and [`Receiver`] do no I/O and have no clock: datagrams and times are inputs, datagrams and blocks are
//! outputs. [`driver`] connects them with sockets. [`paper`] supports the packets of the paper on which this protocol
//! is based (`docs/papers.md`); other comments call them the paper format. `docs/wire-formats.md` has the form of
//! datagrams, and `docs/fabric-udp.md` the rules.
//!
//! ```
//! use lineside_fabric::proto::wire::{put_bytes, put_number};
//! use lineside_fabric_udp::{BlockSink, PollResult, Receiver, ReceiverOptions, Sender, SenderOptions, SharedKey};
//! use sha2::{Digest, Sha256};
//!
//! struct LastBlock(Option<u64>);
//! impl BlockSink for LastBlock {
//!     fn on_block(&mut self, number: u64, _bytes: Vec<u8>) {
//!         self.0 = Some(number);
//!     }
//!     fn on_gap(&mut self, _from: u64, _to: u64) {}
//! }
//!
//! let (mut header, mut data, mut block) = (Vec::new(), Vec::new(), Vec::new());
//! put_bytes(&mut header, 3, &Sha256::digest(b"envelope"));
//! put_bytes(&mut data, 1, b"envelope");
//! put_bytes(&mut block, 1, &header);
//! put_bytes(&mut block, 2, &data);
//!
//! let key = || SharedKey::new(&[7; 32]).expect("32 bytes are enough");
//! let mut sender = Sender::new(key(), [1; 16], SenderOptions::default());
//! let mut receiver = Receiver::new(key(), [2; 16], 0, ReceiverOptions::default());
//! let (mut blocks, mut datagram) = (LastBlock(None), Vec::new());
//! sender.push(0, block.into());
//! for now_ns in (0..100).map(|step| step * 1_000_000) {
//!     datagram.clear();
//!     while sender.poll(now_ns, &mut datagram) == PollResult::Datagram {
//!         receiver.datagram(now_ns, &datagram, &mut blocks);
//!         datagram.clear();
//!     }
//!     if receiver.write_request(now_ns, &mut datagram) {
//!         sender.datagram(now_ns, &datagram);
//!     }
//! }
//! assert_eq!(blocks.0, Some(0));
//! ```

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
pub use receiver::{Counters, DatagramOrigin, Receiver, ReceiverOptions};
pub use sender::{PollResult, Sender, SenderCounters, SenderOptions};

use code::{CachedIdentity, SegmentNotes};
use cut::Note;

/// A transaction that arrived before its block is complete. Its content must not become visible to clients yet.
#[derive(Clone, Copy, Debug)]
pub struct EarlyTx<'a> {
    /// Number of the block.
    pub block: u64,
    /// Index of the transaction.
    pub index: u32,
    /// Envelope of the transaction.
    pub bytes: &'a [u8],
    /// Segment of the transaction: the envelope with its tag and length. The positions of identities and annotations
    /// refer to this segment.
    pub segment: &'a [u8],
    aside: &'a SegmentNotes,
}

impl<'a> EarlyTx<'a> {
    /// Returns the positions of the identities that came from the cache, so that the user need not look them up by
    /// their bytes.
    pub fn cached_identities(&self) -> &'a [CachedIdentity] {
        &self.aside.cached_identities
    }

    /// Returns the sender's annotations. They are hints and may be wrong; [`Note::check`] checks one of them.
    pub fn notes(&self) -> &'a [Note] {
        &self.aside.notes
    }
}

/// Reason why the receiver discards the received part of a block. It then requests the block again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum DropReason {
    /// The bytes are not the block of this number.
    #[error("the bytes are not a block with this number")]
    Malformed,
    /// The transactions do not match the header.
    #[error("the block's data hash does not match its transactions")]
    DataHash,
    /// The sender restarted.
    #[error("the sender restarted")]
    Session,
    /// Earlier blocks need the memory of this block.
    #[error("earlier blocks need the memory")]
    Memory,
}

/// User of the blocks that a receiver restores.
pub trait BlockSink {
    /// Takes a transaction whose block is not complete. The user may work on it in advance, but without a visible
    /// effect. Blocks and transactions may arrive in any order.
    fn on_early(&mut self, _early: EarlyTx<'_>) {}

    /// Returns true if the user can take the next block, which has `block_bytes` bytes, now. If not, the block stays
    /// with the receiver, and the sender waits. Only [`Receiver`] calls this method;
    /// [`PaperReceiver`](paper::PaperReceiver) cannot store a block, and always passes it on.
    fn has_room(&self, _block_bytes: usize) -> bool {
        true
    }

    /// Takes the next block. Its bytes are those that the orderer delivered, and its data hash is checked unless
    /// [`ReceiverOptions::data_hash`] is false. Results for its early transactions may be used once its previous hash
    /// and signatures are verified too.
    fn on_block(&mut self, number: u64, bytes: Vec<u8>);

    /// Discards the early transactions of this block and all results for them.
    fn on_dropped(&mut self, _number: u64, _why: DropReason) {}

    /// Takes the receiver's counters after each batch of datagrams.
    fn on_counters(&mut self, _counters: &Counters) {}

    /// Reports that the sender no longer has the blocks `from` to `to`. The user must fetch them with Deliver and then
    /// call [`Receiver::set_next`].
    fn on_gap(&mut self, from: u64, to: u64);
}

//! Where a server has its blocks from.

use crate::filtered::filter;
use bytes::Bytes;
use lineside_fabric::access::SignedBy;
use lineside_fabric::block::Block;
use lineside_fabric::config::Config;
use lineside_fabric::ledger::Place;
use lineside_fabric::proto::Arena;
use lineside_fabric::{TxCode, replay};
use lineside_verify::Verifier;
use prost::Message;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Why a block cannot be had. It ends the stream, with status `UNAVAILABLE`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

impl From<Unavailable> for tonic::Status {
    fn from(error: Unavailable) -> Self {
        Self::unavailable(error.0)
    }
}

/// A channel's committed blocks, and who may read them. Its calls may block: they are made where that does no harm.
pub trait Source: Send + Sync + 'static {
    /// The channel's name.
    fn channel(&self) -> &str;

    /// How many blocks there are; it changes when one is committed. A block below it, from the first
    /// on, can be had.
    fn heights(&self) -> watch::Receiver<u64>;

    /// The number of the first block that can be had; more than 0 where the channel was joined from a snapshot.
    fn first(&self) -> u64 {
        0
    }

    /// A block, as it was committed.
    ///
    /// # Errors
    /// Where it is not there, or cannot be read.
    fn block(&self, number: u64) -> Result<Bytes, Unavailable>;

    /// A `FilteredBlock`, encoded.
    ///
    /// # Errors
    /// Where the block is not there, or cannot be read.
    fn filtered(&self, number: u64) -> Result<Bytes, Unavailable> {
        let filtered = filter(&self.block(number)?).map_err(|error| Unavailable(error.to_string()))?;
        Ok(filtered.encode_to_vec().into())
    }

    /// Returns the place and the code of the transaction with an id, of several the first; `None`: no block has it.
    ///
    /// # Errors
    /// It cannot be read whether a block has it.
    fn transaction(&self, _id: &str) -> Result<Option<Place>, Unavailable> {
        Ok(None)
    }

    /// Returns the number of the block with a header hash; `None`: there is none.
    fn number_of(&self, _header_hash: &[u8; 32]) -> Option<u64> {
        None
    }

    /// Counts configurations. When it rises, running requests are asked for again whether they are permitted.
    fn config_sequence(&self) -> u64;

    /// Whether who signed a request may have a resource (`event/Block`, `event/FilteredBlock`).
    fn permits(&self, resource: &str, by: SignedBy<'_>) -> bool;

    /// Returns true if the source does not know the channel's current configuration, and so not who may read: a replica
    /// has stopped before a block that it cannot decide. The server then serves no client: calls for blocks end with
    /// status 503, and all others with UNAVAILABLE. A source that begins to withhold its blocks notifies the receivers
    /// of [`heights`](Self::heights).
    fn withholds(&self) -> bool {
        false
    }
}

/// Who may read from [`Memory`].
#[derive(Clone)]
pub enum Access {
    /// Everybody.
    Everybody,
    /// Whom a channel's configuration lets.
    Config(Arc<Config>, Verifier),
}

/// Blocks in memory.
pub struct Memory {
    channel: String,
    blocks: Mutex<Vec<Bytes>>,
    heights: watch::Sender<u64>,
    access: Mutex<Access>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Memory {
    /// A channel with these blocks, all of them to be seen.
    pub fn new(channel: &str, blocks: Vec<Bytes>, access: Access) -> Self {
        let memory = Self::hidden(channel, blocks, access);
        memory.show(u64::MAX);
        memory
    }

    /// A channel with these blocks, none of them to be seen yet.
    pub fn hidden(channel: &str, blocks: Vec<Bytes>, access: Access) -> Self {
        Self {
            channel: channel.to_owned(),
            blocks: Mutex::new(blocks),
            heights: watch::Sender::new(0),
            access: Mutex::new(access),
        }
    }

    /// The blocks of a folder in the recorded form, `orderer` or `committed`.
    ///
    /// # Errors
    /// Where a file cannot be read.
    pub fn read(folder: &Path, form: &str) -> Result<Vec<Bytes>, replay::ReplayError> {
        let mut blocks = Vec::new();
        while let Some(block) = replay::read(folder, blocks.len() as u64, form)? {
            blocks.push(block.into());
        }
        Ok(blocks)
    }

    /// Adds a block, to be seen at once.
    pub fn push(&self, block: Bytes) {
        lock(&self.blocks).push(block);
        self.show(u64::MAX);
    }

    /// Lets blocks below this number be seen, as far as there are any.
    pub fn show(&self, height: u64) {
        let height = height.min(lock(&self.blocks).len() as u64);
        self.heights.send_if_modified(|shown| {
            let more = height > *shown;
            *shown = height.max(*shown);
            more
        });
    }

    /// From now on others may read.
    pub fn set_access(&self, access: Access) {
        *lock(&self.access) = access;
    }

    /// How many blocks there are, seen or not.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        lock(&self.blocks).len() as u64
    }

    /// Returns the number of receivers that wait for blocks, one for each stream that is served.
    pub fn followers(&self) -> usize {
        self.heights.receiver_count()
    }

    /// How many blocks can be seen.
    pub fn height(&self) -> u64 {
        *self.heights.borrow()
    }
}

/// Returns the place of a transaction in a block.
fn place_in(bytes: &[u8], block: u64, id: &str) -> Option<Place> {
    let filtered = filter(bytes).ok()?;
    let mut transactions = filtered.filtered_transactions.iter().zip(0..);
    let (found, index) = transactions.find(|(transaction, _)| transaction.txid == id)?;
    let code = u8::try_from(found.tx_validation_code).ok();
    Some(Place {
        block,
        index,
        code: code.and_then(TxCode::from_number)?,
    })
}

impl Source for Memory {
    fn channel(&self) -> &str {
        &self.channel
    }

    fn heights(&self) -> watch::Receiver<u64> {
        self.heights.subscribe()
    }

    fn block(&self, number: u64) -> Result<Bytes, Unavailable> {
        let blocks = lock(&self.blocks);
        let block = usize::try_from(number).ok().and_then(|number| blocks.get(number));
        block
            .cloned()
            .ok_or_else(|| Unavailable(format!("there is no block {number}")))
    }

    fn transaction(&self, id: &str) -> Result<Option<Place>, Unavailable> {
        let blocks = lock(&self.blocks);
        let mut seen = blocks.iter().take(self.height() as usize).zip(0..);
        Ok(seen.find_map(|(bytes, number)| place_in(bytes, number, id)))
    }

    fn number_of(&self, header_hash: &[u8; 32]) -> Option<u64> {
        let blocks = lock(&self.blocks);
        let mut seen = blocks.iter().take(self.height() as usize).zip(0..);
        let found = seen.find(|(bytes, _)| {
            let arena = Arena::new();
            Block::read(bytes, &arena).is_ok_and(|block| block.hash() == *header_hash)
        });
        found.map(|(_, number)| number)
    }

    fn config_sequence(&self) -> u64 {
        match &*lock(&self.access) {
            Access::Everybody => 0,
            Access::Config(config, _) => config.sequence,
        }
    }

    fn permits(&self, resource: &str, by: SignedBy<'_>) -> bool {
        let access = lock(&self.access).clone();
        match access {
            Access::Everybody => true,
            Access::Config(config, verifier) => config
                .guard(resource)
                .is_some_and(|path| config.permits(&path, by, &verifier)),
        }
    }
}

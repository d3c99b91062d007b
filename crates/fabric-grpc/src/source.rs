//! Sources of the blocks that a server delivers.

use crate::filtered::filter;
use bytes::Bytes;
use lineside_fabric::access::SignedBy;
use lineside_fabric::block::Block;
use lineside_fabric::config::Config;
use lineside_fabric::ledger::TxPosition;
use lineside_fabric::proto::Arena;
use lineside_fabric::{TxCode, replay};
use lineside_verify::Verifier;
use prost::Message;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// Reason why a block is not available. The stream then ends with the status `UNAVAILABLE`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

impl From<Unavailable> for tonic::Status {
    fn from(error: Unavailable) -> Self {
        Self::unavailable(error.0)
    }
}

/// Committed blocks of a channel, and the permissions to read them. The methods may block, so the server calls them on
/// threads that may block.
pub trait CommittedSource: Send + Sync + 'static {
    /// Returns the name of the channel.
    fn channel(&self) -> &str;

    /// Returns a receiver for the number of blocks, which changes with each commit. All blocks from
    /// [`first`](Self::first) up to that number, without it, are available.
    fn heights(&self) -> watch::Receiver<u64>;

    /// Returns the number of the first available block. It is above 0 if the channel was joined from a snapshot.
    fn first(&self) -> u64 {
        0
    }

    /// Returns a block as it was committed.
    ///
    /// # Errors
    /// The block does not exist, or cannot be read.
    fn block(&self, number: u64) -> Result<Bytes, Unavailable>;

    /// Returns an encoded `FilteredBlock`.
    ///
    /// # Errors
    /// The block does not exist, or cannot be read.
    fn filtered(&self, number: u64) -> Result<Bytes, Unavailable> {
        let filtered = filter(&self.block(number)?).map_err(|error| Unavailable(error.to_string()))?;
        Ok(filtered.encode_to_vec().into())
    }

    /// Returns the position and code of the first transaction with an id; `None` if no block contains such a
    /// transaction.
    ///
    /// # Errors
    /// The index cannot be read, so it is not known whether there is such a transaction.
    fn transaction(&self, _id: &str) -> Result<Option<TxPosition>, Unavailable> {
        Ok(None)
    }

    /// Returns the number of the block with a header hash; `None` if there is no such block.
    fn number_of(&self, _header_hash: &[u8; 32]) -> Option<u64> {
        None
    }

    /// Returns the number of configurations that the channel has had. When it rises, the server checks the permissions
    /// of running requests again.
    fn config_sequence(&self) -> u64;

    /// Returns true if the signer of a request may access a resource (`event/Block`, `event/FilteredBlock`).
    fn permits(&self, resource: &str, by: SignedBy<'_>) -> bool;

    /// Returns true if the source does not know the channel's current configuration, and therefore does not know which
    /// clients may read. This is so after a replica has stopped before a block that it cannot decide. The server then
    /// serves no client: calls for blocks end with status 503, and all other calls with UNAVAILABLE. A source that
    /// begins to withhold its blocks notifies the receivers of [`heights`](Self::heights).
    fn withholds(&self) -> bool {
        false
    }
}

/// Permission to read from [`MemorySource`].
#[derive(Clone)]
pub enum ReadAccess {
    /// Every client may read.
    Everybody,
    /// The clients may read that a channel's configuration permits.
    Config(Arc<Config>, Verifier),
}

/// Source of blocks that are in memory, for tests and the mock orderer.
pub struct MemorySource {
    channel: String,
    blocks: Mutex<Vec<Bytes>>,
    heights: watch::Sender<u64>,
    access: Mutex<ReadAccess>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemorySource {
    /// Creates a channel with these blocks, all of them visible.
    pub fn new(channel: &str, blocks: Vec<Bytes>, access: ReadAccess) -> Self {
        let memory = Self::with_hidden_blocks(channel, blocks, access);
        memory.show(u64::MAX);
        memory
    }

    /// Creates a channel with these blocks, none of them visible yet.
    pub fn with_hidden_blocks(channel: &str, blocks: Vec<Bytes>, access: ReadAccess) -> Self {
        Self {
            channel: channel.to_owned(),
            blocks: Mutex::new(blocks),
            heights: watch::Sender::new(0),
            access: Mutex::new(access),
        }
    }

    /// Reads the blocks of a folder in the recorded form, `orderer` or `committed`.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(folder: &Path, form: &str) -> Result<Vec<Bytes>, replay::ReplayError> {
        let mut blocks = Vec::new();
        while let Some(block) = replay::read(folder, blocks.len() as u64, form)? {
            blocks.push(block.into());
        }
        Ok(blocks)
    }

    /// Adds a block and makes all blocks visible.
    pub fn push(&self, block: Bytes) {
        lock(&self.blocks).push(block);
        self.show(u64::MAX);
    }

    /// Makes the blocks below this number visible, as far as they exist.
    pub fn show(&self, height: u64) {
        let height = height.min(lock(&self.blocks).len() as u64);
        self.heights.send_if_modified(|shown| {
            let more = height > *shown;
            *shown = height.max(*shown);
            more
        });
    }

    /// Changes the permission to read.
    pub fn set_access(&self, access: ReadAccess) {
        *lock(&self.access) = access;
    }

    /// Returns the number of blocks, visible or not.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u64 {
        lock(&self.blocks).len() as u64
    }

    /// Returns the number of receivers that wait for blocks, one for each stream that is served.
    pub fn followers(&self) -> usize {
        self.heights.receiver_count()
    }

    /// Returns the number of visible blocks.
    pub fn height(&self) -> u64 {
        *self.heights.borrow()
    }
}

/// Returns the position and code of a transaction in a block; `None` if the block does not contain it.
fn place_in(bytes: &[u8], block: u64, id: &str) -> Option<TxPosition> {
    let filtered = filter(bytes).ok()?;
    let mut transactions = filtered.filtered_transactions.iter().zip(0..);
    let (found, index) = transactions.find(|(transaction, _)| transaction.txid == id)?;
    let code = u8::try_from(found.tx_validation_code).ok();
    Some(TxPosition {
        block,
        index,
        code: code.and_then(TxCode::from_number)?,
    })
}

impl CommittedSource for MemorySource {
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
            .ok_or_else(|| Unavailable(format!("the channel has no block {number}")))
    }

    fn transaction(&self, id: &str) -> Result<Option<TxPosition>, Unavailable> {
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
            ReadAccess::Everybody => 0,
            ReadAccess::Config(config, _) => config.sequence,
        }
    }

    fn permits(&self, resource: &str, by: SignedBy<'_>) -> bool {
        let access = lock(&self.access).clone();
        match access {
            ReadAccess::Everybody => true,
            ReadAccess::Config(config, verifier) => config
                .guard(resource)
                .is_some_and(|path| config.permits(&path, by, &verifier)),
        }
    }
}

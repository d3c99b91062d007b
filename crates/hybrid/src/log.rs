//! The order of all messages: what every node reads in one and the same order.

use crate::block::Hash;
use crate::request::DatabaseId;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A message in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its place; rising, with gaps where the log has other things.
    pub position: u64,
    /// The message.
    pub message: Vec<u8>,
}

/// Why a message was not ordered, or perhaps was.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("log: {0}")]
pub struct LogError(pub String);

/// Takes what the log has ordered, one after the other. False: nobody listens any more.
pub type Deliver = Box<dyn Fn(Entry) -> bool + Send>;

/// Told of a message that was appended and whose order the log has given up. It may have been ordered all the same, and
/// come; it is not appended again.
pub type Lost = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// Told why the log does not go on: nothing more is delivered, and the node takes no more writes until it is started
/// again.
pub type Fault = Arc<dyn Fn(String) + Send + Sync>;

/// What a log is opened with.
pub struct Start {
    /// The database.
    pub database: DatabaseId,
    /// The last position that the ledger has; 0: none. The log goes on behind it.
    pub position: u64,
    /// What the ledger has at that position: Keccak-256 of the message without its signature, as the block's header has
    /// it. The log must have the same there. `None` at position 0.
    pub last: Option<Hash>,
    /// Takes what is ordered.
    pub deliver: Deliver,
    /// Takes what is given up.
    pub lost: Lost,
    /// Takes the end of it all.
    pub fault: Fault,
}

/// Opens a log.
pub type OpenLog = Box<dyn FnOnce(Start) -> Result<Arc<dyn Log>, LogError>>;

/// The log of a node that orders alone.
pub fn embedded() -> OpenLog {
    Box::new(|start| Ok(Arc::new(Embedded::new(start.position, start.deliver))))
}

/// A log that orders messages. What is ordered is delivered, to every node, by the way that was given when it was
/// opened.
pub trait Log: Send + Sync {
    /// Orders a message, or hands it to who will. Returns before it is delivered.
    ///
    /// # Errors
    /// [`LogError`]: it may have been ordered all the same.
    fn append(&self, message: Vec<u8>) -> Result<(), LogError>;

    /// The position that all messages have passed which were ordered before now, for reads that must see them; `None`
    /// where this node orders alone, and has delivered them.
    ///
    /// # Errors
    /// [`LogError`].
    fn end(&self) -> Result<Option<u64>, LogError> {
        Ok(None)
    }

    /// In what the log promises less than it should, in words.
    fn weaknesses(&self) -> Vec<String> {
        Vec::new()
    }
}

/// One node's own order. A message is durable with its block, in the ledger: there is no second journal.
pub struct Embedded {
    next: AtomicU64,
    deliver: Mutex<Deliver>,
}

impl Embedded {
    /// Goes on behind the ledger's last position.
    pub fn new(last_position: u64, deliver: Deliver) -> Embedded {
        Embedded {
            next: AtomicU64::new(last_position + 1),
            deliver: Mutex::new(deliver),
        }
    }
}

impl Log for Embedded {
    fn append(&self, message: Vec<u8>) -> Result<(), LogError> {
        // Under the lock, so that positions rise in the order of delivery.
        let deliver = self.deliver.lock().unwrap_or_else(PoisonError::into_inner);
        let position = self.next.fetch_add(1, Ordering::Relaxed);
        match deliver(Entry { position, message }) {
            true => Ok(()),
            false => Err(LogError("the node has stopped".into())),
        }
    }
}

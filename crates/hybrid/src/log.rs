//! The log: the total order of all messages. Every node reads the same messages in the same order.

use lineside_messages::hybrid::block::Hash;
use lineside_messages::hybrid::request::DatabaseId;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A message at its position of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Position of the message. Positions rise, with gaps where the log has other entries.
    pub position: u64,
    /// The message.
    pub message: Vec<u8>,
}

/// Error of appending a message. The message may nevertheless have been ordered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("log: {0}")]
pub struct LogError(pub String);

/// Callback that receives the ordered messages one by one. Returns false when the receiver has ended.
pub type Deliver = Box<dyn Fn(Entry) -> bool + Send>;

/// Callback for a message that was appended but whose ordering the log has abandoned. The message may nevertheless
/// have been ordered and delivered. The log does not append it again.
pub type Lost = Arc<dyn Fn(&[u8]) + Send + Sync>;

/// Callback that receives the reason why the log has ended. After it, no message is delivered, and the node takes no
/// writes until it is restarted.
pub type Fault = Arc<dyn Fn(String) + Send + Sync>;

/// Parameters with which a log is opened.
pub struct Start {
    /// Id of the database.
    pub database: DatabaseId,
    /// Position of the last message in the ledger; 0 if there is none. The log continues after it.
    pub position: u64,
    /// Hash of the message at that position in the ledger: Keccak-256 of the message without its signature, as in the
    /// block's header. The log must have the same message there. `None` at position 0.
    pub last: Option<Hash>,
    /// Receives the ordered messages.
    pub deliver: Deliver,
    /// Receives each message that the log has given up.
    pub on_lost: Lost,
    /// Receives the reason when the log ends.
    pub fault: Fault,
}

/// Function that opens a log.
pub type OpenLog = Box<dyn FnOnce(Start) -> Result<Arc<dyn Log>, LogError>>;

/// Opens the log of a node that orders messages alone.
pub fn embedded() -> OpenLog {
    Box::new(|start| Ok(Arc::new(Embedded::new(start.position, start.deliver))))
}

/// A log that orders messages. It delivers them to every node through the callback given when it was opened.
pub trait Log: Send + Sync {
    /// Orders a message, or passes it on to be ordered. Returns before the message is delivered.
    ///
    /// # Errors
    /// [`LogError`]; the message may nevertheless have been ordered.
    fn append(&self, message: Vec<u8>) -> Result<(), LogError>;

    /// Returns a position such that all messages that were ordered before this call lie at or below it. A linearizable
    /// read waits until its node has executed the log up to this position. `None` if this node orders alone and has
    /// delivered all messages.
    ///
    /// # Errors
    /// [`LogError`].
    fn end(&self) -> Result<Option<u64>, LogError> {
        Ok(None)
    }

    /// Describes each setting of the log that guarantees less than it should.
    fn weaknesses(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Log of a single node, which orders messages itself. A message becomes durable with its block in the ledger, so there
/// is no second journal.
pub struct Embedded {
    next: AtomicU64,
    deliver: Mutex<Deliver>,
}

impl Embedded {
    /// Creates a log that continues after the last position of the ledger.
    pub fn new(last_position: u64, deliver: Deliver) -> Embedded {
        Embedded {
            next: AtomicU64::new(last_position + 1),
            deliver: Mutex::new(deliver),
        }
    }
}

impl Log for Embedded {
    fn append(&self, message: Vec<u8>) -> Result<(), LogError> {
        // The lock is held while the message is delivered, so that messages are delivered in the order of their
        // positions.
        let deliver = self.deliver.lock().unwrap_or_else(PoisonError::into_inner);
        let position = self.next.fetch_add(1, Ordering::Relaxed);
        match deliver(Entry { position, message }) {
            true => Ok(()),
            false => Err(LogError("the node is stopping".into())),
        }
    }
}

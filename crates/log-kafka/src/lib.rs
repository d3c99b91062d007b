//! Log of a ledger database in Kafka: the only partition of a topic defines the order of messages for all nodes.
//!
//! A message of the log is the value of a record; nodes ignore keys, headers and timestamps. The record at `offset` has
//! the position `offset + 1`, because position 0 is the genesis. `docs/hybrid-kafka.md` describes the guarantees and
//! their limits.
//!
//! Without the cargo feature `kafka` the build has no librdkafka, and [`open`] returns an error.
//!
//! ```
//! use lineside_log_kafka::{Address, BadAddress, Options};
//!
//! let address: Address = "kafka://a:9092,b:9092/orders".parse()?;
//! assert_eq!((address.brokers.as_str(), address.topic.as_deref()), ("a:9092,b:9092", Some("orders")));
//! let options = Options::new(address);
//! assert!(!options.allow_weak_kafka);
//! # Ok::<(), BadAddress>(())
//! ```

mod address;
#[cfg(feature = "kafka")]
mod begin;
#[cfg(feature = "kafka")]
mod kafka;
pub mod settings;
#[cfg(feature = "kafka")]
mod topic;

pub use address::{Address, BadAddress};

use lineside_hybrid::log::OpenLog;
use std::time::Duration;

/// Options of the log.
#[derive(Clone, Debug)]
pub struct Options {
    /// Address of the log.
    pub address: Address,
    /// True if a topic that guarantees less than it should is accepted. The node's status then lists its weak settings.
    pub allow_weak_kafka: bool,
    /// Time for which Kafka may be unreachable before the log gives up a message. The outcome of the message's requests
    /// is then unknown.
    pub message_timeout: Duration,
    /// Maximum time for which the start waits for each answer from Kafka.
    pub answer_timeout: Duration,
}

impl Options {
    /// Returns the default options.
    pub fn new(address: Address) -> Options {
        Options {
            address,
            allow_weak_kafka: false,
            message_timeout: Duration::from_secs(60),
            answer_timeout: Duration::from_secs(10),
        }
    }
}

/// Opens the log of a node whose messages Kafka orders. Creates the topic if it does not exist.
#[cfg(feature = "kafka")]
pub fn open(options: Options) -> OpenLog {
    Box::new(move |start| Ok(std::sync::Arc::new(kafka::Kafka::open(&options, start)?)))
}

/// Opens the log of a node whose messages Kafka orders. This build has no Kafka, so opening fails.
#[cfg(not(feature = "kafka"))]
pub fn open(options: Options) -> OpenLog {
    Box::new(move |_| {
        Err(lineside_hybrid::log::LogError(format!(
            "kafka://{}: this build has no Kafka; build it with the cargo feature `kafka`",
            options.address.brokers
        )))
    })
}

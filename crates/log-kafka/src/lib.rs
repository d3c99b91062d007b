//! The order of a ledger database in Kafka: a topic of one partition is the one order of all its nodes.
//!
//! A message of the log is a record's value; keys, headers and timestamps are not looked at. Record `offset` stands at
//! position `offset + 1`, as position 0 is the genesis. `docs/hybrid-kafka.md` says what is promised, and what is not.
//!
//! Without the cargo feature `kafka` there is no librdkafka in the build, and [`open`] says so.

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

/// How the log is reached, and what is asked of it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where.
    pub address: Address,
    /// Whether a topic that promises less than it should is taken; it is named in the node's status.
    pub allow_weak_kafka: bool,
    /// How long Kafka may be away until a message is given up, and its requests' outcome is unknown.
    pub message_timeout: Duration,
    /// How long an answer of Kafka is waited for at the start.
    pub answer_timeout: Duration,
}

impl Options {
    /// The usual ones.
    pub fn new(address: Address) -> Options {
        Options {
            address,
            allow_weak_kafka: false,
            message_timeout: Duration::from_secs(60),
            answer_timeout: Duration::from_secs(10),
        }
    }
}

/// The log of a node whose messages Kafka orders. Creates the topic where it is not there.
#[cfg(feature = "kafka")]
pub fn open(options: Options) -> OpenLog {
    Box::new(move |start| Ok(std::sync::Arc::new(kafka::Kafka::open(&options, start)?)))
}

/// The log of a node whose messages Kafka orders: not in this build.
#[cfg(not(feature = "kafka"))]
pub fn open(options: Options) -> OpenLog {
    Box::new(move |_| {
        Err(lineside_hybrid::log::LogError(format!(
            "kafka://{}: this build has no Kafka; build it with the cargo feature `kafka`",
            options.address.brokers
        )))
    })
}

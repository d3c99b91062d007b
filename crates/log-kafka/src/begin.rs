//! Start of a log: the node begins to read at the record of its ledger's last block, and checks that the record equals
//! that block's message.

use crate::Options;
use crate::kafka::{PARTITION, Watch, is_out_of_range};
use lineside_hybrid::log::{LogError, Start};
use lineside_messages::hybrid::block::{Hash, transactions_hash};
use lineside_util::hex::to_hex;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use std::time::{Duration, Instant};

/// Maximum duration of one attempt to read a record.
const POLL_WAIT: Duration = Duration::from_millis(100);

/// Positions the consumer after the ledger's last position. If ledger and log do not match, returns the reason.
pub(crate) fn begin(
    consumer: &BaseConsumer<Watch>,
    topic: &str,
    options: &Options,
    start: &Start,
) -> Result<Option<String>, LogError> {
    let failed = |error: KafkaError| {
        LogError(format!(
            "cannot read topic {topic} in Kafka: {error}; check the brokers"
        ))
    };
    let range = consumer.fetch_watermarks(topic, PARTITION, options.answer_timeout);
    let (low, high) = range.map_err(failed)?;
    let last = i64::try_from(start.position).unwrap_or(i64::MAX);
    // If the ledger is empty, the node needs the log from its beginning. Otherwise it needs the record of the ledger's
    // last block, to compare it with that block.
    if low > (last - 1).max(0) || high < last {
        return Ok(Some(does_not_reach(topic, start.position, low, high)));
    }
    let mut from = TopicPartitionList::new();
    from.add_partition_offset(topic, PARTITION, Offset::Offset((last - 1).max(0)))
        .and_then(|()| consumer.assign(&from))
        .map_err(failed)?;
    let Some(expected) = &start.last else {
        return Ok(None);
    };
    let until = Instant::now() + options.answer_timeout;
    while Instant::now() < until {
        match consumer.poll(POLL_WAIT) {
            None => {}
            Some(Ok(record)) if record.offset() == last - 1 => {
                let actual_hash = transactions_hash(record.payload().unwrap_or_default());
                return Ok((actual_hash != *expected)
                    .then(|| differs(topic, start.position, expected, &actual_hash)));
            }
            // The record at the wanted offset is missing: it was deleted, or is the marker of a transaction.
            Some(Ok(_)) => return Ok(Some(does_not_reach(topic, start.position, low, high))),
            Some(Err(error)) if is_out_of_range(&error) => {
                return Ok(Some(does_not_reach(topic, start.position, low, high)));
            }
            Some(Err(error)) => {
                tracing::warn!("hybrid: reading from Kafka failed: {error}; the node tries again")
            }
        }
    }
    Err(LogError(format!(
        "topic {topic}: Kafka did not deliver the record at offset {} in time; check the brokers and start again",
        last - 1
    )))
}

/// Returns the message for a log that lacks the ledger's last position, or the position after it.
pub(crate) fn does_not_reach(topic: &str, position: u64, low: i64, high: i64) -> String {
    let has = match high > low {
        true => format!("positions {} to {high}", low + 1),
        false => format!("no message before position {}", high + 1),
    };
    format!(
        "the ledger's last position is {position}, but topic {topic} in Kafka has {has}: the topic was truncated, or \
         is another topic of the same name; restore the topic, or set the ledger's own topic in `log` (--log)"
    )
}

fn differs(topic: &str, position: u64, expected: &Hash, found: &Hash) -> String {
    format!(
        "topic {topic} in Kafka does not belong to this ledger: its message at offset {} differs from the ledger's \
         message at position {position} (Keccak-256 of the signed part: {} in Kafka, {} in the ledger). The topic was \
         replaced or changed; restore it, or set the ledger's own topic in `log` (--log)",
        position - 1,
        to_hex(found),
        to_hex(expected)
    )
}

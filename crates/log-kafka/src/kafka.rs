//! The log in Kafka: a producer that sends messages, and a thread that reads all messages back in their order.

use crate::Options;
use crate::begin::{begin, does_not_reach};
use crate::topic::{Topic, client};
use lineside_hybrid::log::{Deliver, Entry, Fault, Log, LogError, Lost, Start};
use rdkafka::client::ClientContext;
use rdkafka::config::{FromClientConfigAndContext, RDKafkaLogLevel};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DeliveryResult, Producer, ProducerContext, ThreadedProducer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Number of the topic's only partition.
pub(crate) const PARTITION: i32 = 0;
/// Maximum time for which the reading thread waits for a record before it checks whether it must end.
const POLL_WAIT: Duration = Duration::from_millis(100);
/// Maximum time for which a linearizable read waits until Kafka reports the end offset of the partition.
const END_WAIT: Duration = Duration::from_secs(2);

/// A log in Kafka.
pub(crate) struct Kafka {
    topic: String,
    weaknesses: Vec<String>,
    answer_timeout: Duration,
    producer: ThreadedProducer<Report>,
    consumer: Arc<BaseConsumer<Watch>>,
    is_ending: Arc<AtomicBool>,
    /// Becomes true before the node is notified of a fault. After that, the log accepts no message.
    has_fault: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Kafka {
    pub fn open(options: &Options, start: Start) -> Result<Kafka, LogError> {
        let topic = options.address.topic_of(&start.database);
        let weaknesses = Topic::new(&topic, options)?.ready()?;
        for weakness in &weaknesses {
            tracing::warn!("hybrid: topic {topic} in Kafka can lose acknowledged messages: {weakness}");
        }
        let failed = |error: KafkaError| LogError(error.to_string());
        let has_fault = Arc::new(AtomicBool::new(false));
        let producer = producer(options, start.on_lost.clone()).map_err(failed)?;
        let consumer = Arc::new(consumer(options, &topic).map_err(failed)?);
        let why_not = begin(&consumer, &topic, options, &start)?;
        let mut kafka = Kafka {
            topic: topic.clone(),
            weaknesses,
            answer_timeout: options.answer_timeout.min(END_WAIT),
            producer,
            consumer: consumer.clone(),
            is_ending: Arc::default(),
            has_fault: has_fault.clone(),
            reader: None,
        };
        let Start {
            position,
            deliver,
            fault,
            ..
        } = start;
        let reader = Reader {
            topic,
            consumer,
            position,
            deliver,
            fault,
            ends: kafka.is_ending.clone(),
            has_fault,
        };
        if let Some(why_not) = why_not {
            reader.fail(why_not);
            return Ok(kafka);
        }
        let thread = std::thread::Builder::new().name("hybrid-kafka".into());
        let thread = thread.spawn(move || reader.run());
        kafka.reader = Some(thread.map_err(|error| LogError(error.to_string()))?);
        Ok(kafka)
    }
}

impl Log for Kafka {
    fn append(&self, message: Vec<u8>) -> Result<(), LogError> {
        if self.has_fault.load(Ordering::Acquire) {
            return Err(LogError(
                "reading from Kafka has ended after an error; restart the node".into(),
            ));
        }
        // The producer is idempotent: if librdkafka cannot send messages exactly once any more, it reports a fatal
        // error.
        if let Some((code, why)) = self.producer.client().fatal_error() {
            return Err(LogError(format!(
                "the Kafka producer has failed: {code}: {why}; restart the node"
            )));
        }
        let record = BaseRecord::<(), [u8]>::to(&self.topic)
            .partition(PARTITION)
            .payload(&message);
        // `send` copies the message into librdkafka's queue.
        self.producer
            .send(record)
            .map_err(|(error, _)| LogError(error.to_string()))
    }

    /// Returns the position of the last record that all in-sync replicas have. Every record that a node has
    /// acknowledged lies at or below this position.
    fn end(&self) -> Result<Option<u64>, LogError> {
        if self.has_fault.load(Ordering::Acquire) {
            return Err(LogError(
                "reading from Kafka has ended after an error; restart the node".into(),
            ));
        }
        let range = self
            .consumer
            .fetch_watermarks(&self.topic, PARTITION, self.answer_timeout);
        let (_, high) = range.map_err(|error| LogError(error.to_string()))?;
        // `high` is the offset after the last record. The position of a record is its offset plus one, so `high` is
        // also the last record's position.
        Ok(Some(u64::try_from(high).unwrap_or(0)))
    }

    fn weaknesses(&self) -> Vec<String> {
        self.weaknesses.clone()
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Release);
        if self
            .reader
            .take()
            .map(JoinHandle::join)
            .is_some_and(|ended| ended.is_err())
        {
            tracing::error!(
                "hybrid: the thread that reads from Kafka has panicked, which is a bug; restart the node"
            );
        }
    }
}

fn producer(options: &Options, on_lost: Lost) -> Result<ThreadedProducer<Report>, KafkaError> {
    let mut config = client(options);
    config
        .set("enable.idempotence", "true")
        .set("acks", "all")
        // The node already gathers requests into messages, so the producer sends each message at once.
        .set("linger.ms", "0")
        .set("compression.type", "none")
        .set("message.max.bytes", "1048576")
        .set(
            "message.timeout.ms",
            options.message_timeout.as_millis().max(1000).to_string(),
        );
    ThreadedProducer::from_config_and_context(&config, Report { on_lost })
}

fn consumer(options: &Options, topic: &str) -> Result<BaseConsumer<Watch>, KafkaError> {
    let mut config = client(options);
    config
        // librdkafka requires a consumer group. The node commits no offsets, because the ledger knows its position.
        .set("group.id", topic)
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        // If the position is missing in Kafka, the consumer must report an error and not continue at another position.
        .set("auto.offset.reset", "error")
        // The consumer also reads records of open transactions. Otherwise every client that leaves a transaction open
        // would stop all nodes.
        .set("isolation.level", "read_uncommitted")
        .set("check.crcs", "true")
        .set("fetch.error.backoff.ms", "100")
        .set("fetch.message.max.bytes", "8388608");
    BaseConsumer::from_config_and_context(&config, Watch)
}

/// Receiver of the producer's delivery reports.
struct Report {
    on_lost: Lost,
}

impl ClientContext for Report {
    fn log(&self, level: RDKafkaLogLevel, part: &str, line: &str) {
        note(level, part, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!("hybrid: the Kafka client reports: {error}: {reason}");
    }
}

impl ProducerContext for Report {
    type DeliveryOpaque = ();

    fn delivery(&self, delivered: &DeliveryResult<'_>, (): ()) {
        if let Err((error, message)) = delivered {
            tracing::error!(
                "hybrid: a message could not be delivered to Kafka and is not sent again: {error}; the node answers \
                 the requests in this message with `outcome_unknown`. Check the brokers"
            );
            (self.on_lost)(message.payload().unwrap_or_default());
        }
    }
}

/// Receiver of the consumer's events.
pub(crate) struct Watch;

impl ClientContext for Watch {
    fn log(&self, level: RDKafkaLogLevel, part: &str, line: &str) {
        note(level, part, line);
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::warn!("hybrid: the Kafka client reports: {error}: {reason}");
    }
}

impl ConsumerContext for Watch {}

fn note(level: RDKafkaLogLevel, part: &str, line: &str) {
    match level {
        RDKafkaLogLevel::Emerg
        | RDKafkaLogLevel::Alert
        | RDKafkaLogLevel::Critical
        | RDKafkaLogLevel::Error => {
            tracing::warn!("hybrid: the Kafka client reports: {part}: {line}");
        }
        _ => tracing::debug!("hybrid: kafka: {part}: {line}"),
    }
}

/// State of the reading thread.
struct Reader {
    topic: String,
    consumer: Arc<BaseConsumer<Watch>>,
    /// Position of the last message that was delivered or is in the ledger.
    position: u64,
    deliver: Deliver,
    fault: Fault,
    ends: Arc<AtomicBool>,
    has_fault: Arc<AtomicBool>,
}

impl Reader {
    fn run(mut self) {
        let consumer = self.consumer.clone();
        while !self.ends.load(Ordering::Acquire) {
            match consumer.poll(POLL_WAIT) {
                None => {}
                Some(Ok(record)) => {
                    let position = u64::try_from(record.offset()).unwrap_or(0) + 1;
                    if position <= self.position {
                        return self.fail(format!(
                            "Kafka delivered position {position} after position {}; check the topic, then restart \
                             the node",
                            self.position
                        ));
                    }
                    self.position = position;
                    let message = record.payload().unwrap_or_default().to_vec();
                    if !(self.deliver)(Entry { position, message }) {
                        return;
                    }
                }
                Some(Err(error)) => match self.why_fatal(&error) {
                    Some(why) => return self.fail(why),
                    // Kafka is unreachable or has a new leader. librdkafka reconnects without help.
                    None => {
                        tracing::warn!("hybrid: reading from Kafka failed: {error}; the node tries again")
                    }
                },
            }
        }
    }

    /// Returns the reason if reading cannot continue after this error; `None` if it can.
    fn why_fatal(&self, error: &KafkaError) -> Option<String> {
        if is_out_of_range(error) {
            let range = self
                .consumer
                .fetch_watermarks(&self.topic, PARTITION, Duration::from_secs(5));
            return Some(match range {
                Ok((low, high)) => does_not_reach(&self.topic, self.position, low, high),
                Err(_) => format!(
                    "position {}, the next one to read, is no longer in topic {} in Kafka; restore the topic",
                    self.position + 1,
                    self.topic
                ),
            });
        }
        match error {
            KafkaError::MessageConsumptionFatal(code) => {
                Some(format!("the Kafka consumer has failed: {code}; restart the node"))
            }
            KafkaError::MessageConsumption(
                code @ (RDKafkaErrorCode::UnknownTopicOrPartition
                | RDKafkaErrorCode::UnknownTopic
                | RDKafkaErrorCode::UnknownPartition),
            ) => Some(format!(
                "topic {} does not exist in Kafka any more: {code}; restore the topic",
                self.topic
            )),
            _ => None,
        }
    }

    fn fail(&self, why: String) {
        self.has_fault.store(true, Ordering::Release);
        (self.fault)(why);
    }
}

/// Returns true if the error means that the partition does not have the next record to read.
pub(crate) fn is_out_of_range(error: &KafkaError) -> bool {
    matches!(
        error,
        KafkaError::MessageConsumption(
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange
        ) | KafkaError::MessageConsumptionFatal(
            RDKafkaErrorCode::AutoOffsetReset | RDKafkaErrorCode::OffsetOutOfRange
        )
    )
}

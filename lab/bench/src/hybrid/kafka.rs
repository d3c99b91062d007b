//! Kafka as the ordering service: one broker on loopback, with a new topic for each run.

use crate::error::{BenchError, Result};
use lineside_hybrid::node::OpenLog;
use lineside_kafka_mini::{Broker, Error, Jars};
use lineside_log_kafka::{Address, Options, open};
use std::path::Path;
use std::time::Duration;

/// Time-out of requests to the broker. It is long because other processes may use the machine, too.
const BROKER_TIMEOUT: Duration = Duration::from_secs(60);

/// Running broker.
pub struct Kafka {
    broker: Broker,
    topics: usize,
}

impl Kafka {
    /// Starts a broker with its data below `folder`.
    ///
    /// # Errors
    /// [`BenchError::NotMeasured`] if Kafka is not available.
    pub fn start(folder: &Path) -> Result<Kafka> {
        if !cfg!(feature = "kafka") {
            let why = "this build does not support Kafka; build it with the cargo feature `kafka`";
            return Err(BenchError::NotMeasured(why.into()));
        }
        let data = folder.join("kafka").display().to_string();
        let broker = Jars::fetch().and_then(|jars| jars.start(&[("log.dirs", &data)]));
        let broker = broker.map_err(|error| match error {
            Error::NotHere(why) => BenchError::NotMeasured(why),
            Error::Failed(said) => BenchError::NotMeasured(format!("Kafka does not start: {said}")),
        })?;
        Ok(Kafka { broker, topics: 0 })
    }

    /// Returns a log that uses a new topic.
    pub fn log(&mut self) -> OpenLog {
        self.topics += 1;
        open(Options {
            // A single broker has its log on only one disk, so the weak setting must be allowed.
            allow_weak_kafka: true,
            answer_timeout: BROKER_TIMEOUT,
            message_timeout: BROKER_TIMEOUT,
            ..Options::new(Address {
                brokers: self.broker.address(),
                topic: Some(format!("run-{}", self.topics)),
            })
        })
    }
}

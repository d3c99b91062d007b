//! Kafka beside the nodes: one real broker on loopback, a topic of its own for each run.

use crate::error::{BenchError, Result};
use lineside_hybrid::node::OpenLog;
use lineside_kafka_mini::{Broker, Error, Jars};
use lineside_log_kafka::{Address, Options, open};
use std::path::Path;
use std::time::Duration;

/// Others may use this machine too.
const PATIENCE: Duration = Duration::from_secs(60);

/// A broker.
pub struct Kafka {
    broker: Broker,
    topics: usize,
}

impl Kafka {
    /// Starts it, with its data below `folder`.
    ///
    /// # Errors
    /// [`BenchError::NotMeasured`] where it cannot be had.
    pub fn start(folder: &Path) -> Result<Kafka> {
        if !cfg!(feature = "kafka") {
            let why = "this build has no Kafka: build it with the cargo feature `kafka`";
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

    /// A log in a topic that nobody has.
    pub fn log(&mut self) -> OpenLog {
        self.topics += 1;
        open(Options {
            // A broker alone keeps its order on one disk.
            allow_weak_kafka: true,
            answer_timeout: PATIENCE,
            message_timeout: PATIENCE,
            ..Options::new(Address {
                brokers: self.broker.address(),
                topic: Some(format!("run-{}", self.topics)),
            })
        })
    }
}

//! The topic of a log: this module finds or creates it, and checks its settings.

use crate::Options;
use crate::settings::{NEW_TOPIC_SETTINGS, Settings, replication};
use futures_executor::block_on;
use lineside_hybrid::log::LogError;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::Metadata;
use std::time::Instant;

/// Returns the configuration that all clients of the brokers share.
pub(crate) fn client(options: &Options) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", &options.address.brokers)
        .set("client.id", "lineside-hybrid")
        // A missing topic is reported as missing. Otherwise a broker would create it with default settings when a
        // client asks for it.
        .set("allow.auto.create.topics", "false")
        .set("socket.nagle.disable", "true")
        .set("reconnect.backoff.ms", "50")
        .set("reconnect.backoff.max.ms", "1000");
    config
}

pub(crate) struct Topic<'a> {
    pub name: &'a str,
    options: &'a Options,
    admin: AdminClient<DefaultClientContext>,
}

impl<'a> Topic<'a> {
    pub fn new(name: &'a str, options: &'a Options) -> Result<Topic<'a>, LogError> {
        let admin = client(options).create();
        Ok(Topic {
            name,
            options,
            admin: admin.map_err(|error| LogError(error.to_string()))?,
        })
    }

    /// Makes sure that the topic exists and has safe settings. Returns its weak settings if the options allow them.
    pub fn ready(&self) -> Result<Vec<String>, LogError> {
        let brokers = self.options.address.brokers.as_str();
        let metadata = self.metadata()?;
        if self.partitions(&metadata).is_none() {
            self.create(metadata.brokers().len())?;
        }
        let weak = self.settings()?.weaknesses();
        match weak.is_empty() || self.options.allow_weak_kafka {
            true => Ok(weak),
            false => Err(LogError(format!(
                "topic {} at {brokers} does not keep all messages in their order: {}; correct its settings, or allow a \
                 weak topic (--allow-weak-kafka, allow_weak_kafka = true)",
                self.name,
                weak.join("; ")
            ))),
        }
    }

    /// Reads the metadata of all topics, because a request for a single topic may create it.
    fn metadata(&self) -> Result<Metadata, LogError> {
        let brokers = &self.options.address.brokers;
        let metadata = self
            .admin
            .inner()
            .fetch_metadata(None, self.options.answer_timeout);
        metadata.map_err(|error| {
            LogError(format!(
                "no answer from Kafka at {brokers}: {error}; check the address, and that Kafka runs"
            ))
        })
    }

    /// Returns the number of partitions, and the number of replicas of the first one; `None` if the topic does not
    /// exist.
    fn partitions(&self, metadata: &Metadata) -> Option<(usize, usize)> {
        let topics = metadata.topics().iter();
        let topic = topics.into_iter().find(|topic| topic.name() == self.name)?;
        let first = topic.partitions().iter().find(|partition| partition.id() == 0)?;
        Some((topic.partitions().len(), first.replicas().len()))
    }

    fn create(&self, brokers: usize) -> Result<(), LogError> {
        let (replicas, in_sync) = replication(brokers);
        let in_sync = in_sync.to_string();
        let mut topic = NewTopic::new(self.name, 1, TopicReplication::Fixed(replicas as i32));
        for (name, value) in NEW_TOPIC_SETTINGS {
            topic = topic.set(name, value);
        }
        let topic = topic.set("min.insync.replicas", &in_sync);
        // Checks the settings before it creates the topic, so that no topic with weak settings is created.
        let settings = Settings {
            values: topic
                .config
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            replicas,
            partitions: 1,
        };
        let weak = settings.weaknesses();
        if !weak.is_empty() && !self.options.allow_weak_kafka {
            return Err(LogError(format!(
                "there is no topic {}, and a new topic on {brokers} broker(s) would be unsafe: {}; add brokers, or \
                 allow a weak topic (--allow-weak-kafka, allow_weak_kafka = true)",
                self.name,
                weak.join("; ")
            )));
        }
        let result = block_on(self.admin.create_topics([&topic], &self.admin_options()));
        let failed =
            |why: &dyn std::fmt::Display| LogError(format!("cannot create the topic {}: {why}", self.name));
        let mut results = result.map_err(|error| failed(&error))?;
        match results.pop() {
            // `TopicAlreadyExists` means that another node has created the topic in the meantime.
            Some(Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(()),
            Some(Err((_, code))) => Err(failed(&code)),
            None => Err(failed(&"no answer")),
        }
    }

    fn settings(&self) -> Result<Settings, LogError> {
        let failed = |why: &dyn std::fmt::Display| {
            LogError(format!("topic {}: cannot read its settings: {why}", self.name))
        };
        let resources = [ResourceSpecifier::Topic(self.name)];
        // Some brokers may not know a new topic yet, so reading its settings is tried again.
        let until = Instant::now() + self.options.answer_timeout;
        let (resource, (partitions, replicas)) = loop {
            let result = block_on(self.admin.describe_configs(&resources, &self.admin_options()));
            let resource = result.map_err(|error| failed(&error))?.pop();
            let partitions = self.partitions(&self.metadata()?);
            match (resource, partitions) {
                (Some(Ok(resource)), Some(partitions)) => break (resource, partitions),
                (Some(Ok(_)), None) | (Some(Err(RDKafkaErrorCode::UnknownTopicOrPartition)), _)
                    if Instant::now() < until => {}
                (Some(Err(code)), _) => return Err(failed(&code)),
                _ => return Err(failed(&"no answer")),
            }
        };
        let values = resource.entries.into_iter();
        Ok(Settings {
            values: values
                .filter_map(|entry| Some((entry.name, entry.value?)))
                .collect(),
            replicas,
            partitions,
        })
    }

    fn admin_options(&self) -> AdminOptions {
        let timeout = Some(self.options.answer_timeout);
        AdminOptions::new()
            .request_timeout(timeout)
            .operation_timeout(timeout)
    }
}

//! Tests of conditions under which a node refuses to continue, and of the messages that it then gives. The tests use
//! one real broker, with a topic for each case.

#![cfg(feature = "kafka")]

mod common;

use common::*;
use futures_executor::block_on;
use lineside_hybrid::node::StartError;
use lineside_hybrid::{Code, Node};
use lineside_journal::SimDisk;
use lineside_kafka_mini::Broker;
use lineside_log_kafka::Options;
use lineside_messages::hybrid::block::{Sender, SignedHead, head_message, request_message};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use std::time::Duration;

/// A third party with access to the broker that may write and delete anything.
struct OtherWriter(Broker);

impl OtherWriter {
    fn config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.0.address());
        config
    }

    fn write(&self, topic: &str, messages: &[Vec<u8>]) {
        let producer: BaseProducer = self
            .config()
            .set("message.max.bytes", "1048576")
            .create()
            .unwrap();
        for message in messages {
            let record = BaseRecord::<(), [u8]>::to(topic).partition(0).payload(message);
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(Duration::from_secs(60)).unwrap();
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        self.config().create().unwrap()
    }

    fn create(&self, name: &str, settings: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, 1, TopicReplication::Fixed(1));
        for (setting, value) in settings {
            topic = topic.set(setting, value);
        }
        let results = block_on(self.admin().create_topics([&topic], &waits())).unwrap();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    fn delete(&self, topic: &str) {
        let results = block_on(self.admin().delete_topics(&[topic], &waits())).unwrap();
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }

    fn log(&self, topic: &str) -> Options {
        let address = format!("kafka://{}/{topic}", self.0.address()).parse().unwrap();
        Options {
            address,
            ..log_options(&self.0)
        }
    }

    fn join(&self, topic: &str, disk: &SimDisk, node: u32) -> Node<SimDisk> {
        try_join(disk.clone(), node_options(node), self.log(topic)).unwrap()
    }
}

fn waits() -> AdminOptions {
    let minute = Some(Duration::from_secs(60));
    AdminOptions::new()
        .operation_timeout(minute)
        .request_timeout(minute)
}

#[test]
fn a_node_refuses_a_topic_that_does_not_match_its_ledger() {
    let Some(broker) = broker() else { return };
    let mut other = OtherWriter(broker);
    weak_settings_are_refused(&other);
    foreign_messages_are_skipped(&other);
    another_record_at_the_ledgers_end_is_shown(&other);
    a_log_that_was_cut_is_shown(&other);
    a_topic_that_is_deleted_ends_writing(&other);
    while_the_broker_is_away_the_outcome_is_unknown(&mut other);
}

fn weak_settings_are_refused(other: &OtherWriter) {
    let strict = |topic: &str| {
        let log = Options {
            allow_weak_kafka: false,
            ..other.log(topic)
        };
        match try_join(SimDisk::new(1), node_options(1), log) {
            Err(StartError::Log(error)) => error.to_string(),
            Err(error) => panic!("{error}"),
            Ok(_) => panic!("taken"),
        }
    };
    let why = strict("new");
    assert!(
        why.contains("no topic new") && why.contains("replication.factor = 1, should be 3"),
        "{why}"
    );
    other.create(
        "weak",
        &[("retention.ms", "604800000"), ("cleanup.policy", "compact")],
    );
    let why = strict("weak");
    for weak in [
        "retention.ms = 604800000, should be -1",
        "cleanup.policy = compact, should be delete",
        "min.insync.replicas = 1, should be 2 or more",
        "replication.factor = 1, should be 3 or more",
        "allow_weak_kafka",
    ] {
        assert!(why.contains(weak), "{weak} is not in: {why}");
    }
    // Although the node refused, it has not created the topic. Now it creates the topic, with the best settings that
    // one broker allows.
    let node = other.join("new", &SimDisk::new(1), 1);
    let weak = node.status().log_weaknesses;
    assert_eq!(
        weak,
        [
            "min.insync.replicas = 1, should be 2 or more",
            "replication.factor = 1, should be 3 or more"
        ]
    );
}

fn foreign_messages_are_skipped(other: &OtherWriter) {
    let disks = [SimDisk::new(1), SimDisk::new(2)];
    let nodes = [
        other.join("foreign", &disks[0], 1),
        other.join("foreign", &disks[1], 2),
    ];
    let mut client = Client::new();
    assert_eq!(code(&nodes[0], client.set(5, "a", None, "first")), Code::Done);
    let sender = Sender {
        node: 1,
        sequence: u64::MAX - 1,
        time_ms: 1,
    };
    let body = [client.set(5, "a", None, "forged")];
    let forged = request_message(&client.database, sender, &body, &member_key(5));
    // A node's own message, which a third party has read and writes to the topic again.
    let second = Sender {
        node: 2,
        sequence: 7,
        time_ms: 1,
    };
    let own = request_message(&client.database, second, &body, &node_key(2));
    let garbage = [vec![], b"garbage".to_vec(), vec![7; 1_000_000], forged];
    other.write("foreign", &garbage);
    other.write("foreign", &[own.clone(), own]);
    assert_eq!(
        read(&nodes[1], &mut client, 8, "a").map(|(_, value)| value),
        Some("forged".into())
    );
    assert_eq!(are_equal(&nodes, &mut client).skipped, 5);
    assert_eq!(code(&nodes[1], client.set(6, "a", None, "second")), Code::Done);
    assert_eq!(are_equal(&nodes, &mut client).height, 3);
    // A signed head that contradicts the ledger: each node reports its own block and the signed one.
    let lie = SignedHead::sign(&client.database, 2, 1, [7; 32], &node_key(2));
    let lie = head_message(&client.database, Sender { node: 2, ..sender }, &lie, &node_key(2));
    other.write("foreign", &[lie]);
    for node in &nodes {
        let why = why_read_only(node);
        assert!(
            why.contains("node 2 has signed 0707") && why.contains("in this ledger it is"),
            "{why}"
        );
        assert_eq!(code(node, client.set(5, "a", None, "no")), Code::ReadOnly);
    }
}

fn another_record_at_the_ledgers_end_is_shown(other: &OtherWriter) {
    let (disk, mut client) = (SimDisk::new(1), Client::new());
    let node = other.join("ours", &disk, 1);
    assert_eq!(code(&node, client.set(5, "a", None, "x")), Code::Done);
    node.stop();
    // Starts the ledger with a topic that has another record at the ledger's last position.
    other.create("theirs", &[]);
    let signed = [&[0; 64][..], b"else"].concat();
    other.write("theirs", &[signed, b"more".to_vec()]);
    let node = other.join("theirs", &disk, 1);
    let why = why_read_only(&node);
    let theirs: String = lineside_verify::hash::keccak256(b"else")
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert!(
        why.contains("topic theirs in Kafka does not belong to this ledger") && why.contains(&theirs),
        "{why}"
    );
    assert_eq!(code(&node, client.set(5, "a", None, "y")), Code::ReadOnly);
    assert_eq!(
        shown(&one(&node, client.get(6, "a"))).map(|(_, value)| value),
        Some("x".into())
    );
    node.stop();
    // With its own topic, the node continues.
    let node = other.join("ours", &disk, 1);
    assert_eq!(code(&node, client.set(5, "a", None, "y")), Code::Done);
}

fn a_log_that_was_cut_is_shown(other: &OtherWriter) {
    let (disk, mut client) = (SimDisk::new(1), Client::new());
    let node = other.join("cut", &disk, 1);
    for _ in 0..3 {
        assert_eq!(code(&node, client.set(5, "a", None, "x")), Code::Done);
    }
    node.stop();
    other.create("short", &[]);
    other.write("short", &[b"else".to_vec()]);
    let node = other.join("short", &disk, 1);
    let why = why_read_only(&node);
    assert!(
        why.contains("last position is 3") && why.contains("has positions 1 to 1"),
        "{why}"
    );
}

fn a_topic_that_is_deleted_ends_writing(other: &OtherWriter) {
    let (disk, mut client) = (SimDisk::new(1), Client::new());
    let node = other.join("deleted", &disk, 1);
    assert_eq!(code(&node, client.set(5, "a", None, "x")), Code::Done);
    other.delete("deleted");
    println!("{}", why_read_only(&node));
    assert_eq!(code(&node, client.set(5, "a", None, "y")), Code::ReadOnly);
}

fn while_the_broker_is_away_the_outcome_is_unknown(other: &mut OtherWriter) {
    let (disk, mut client) = (SimDisk::new(1), Client::new());
    let short = |other: &OtherWriter| Options {
        message_timeout: Duration::from_secs(2),
        ..other.log("away")
    };
    let node = try_join(disk.clone(), node_options(1), short(other)).unwrap();
    assert_eq!(code(&node, client.set(5, "a", None, "x")), Code::Done);
    other.0.kill();
    let request = client.set(5, "a", None, "y");
    assert_eq!(code(&node, request.clone()), Code::OutcomeUnknown);
    // The node still answers local reads.
    assert_eq!(
        shown(&one(&node, client.get(6, "a"))).map(|(_, value)| value),
        Some("x".into())
    );
    other.0.restart().unwrap();
    // The node did not repeat the request by itself. When the client sends it again, it is executed once.
    assert_eq!(
        read(&node, &mut client, 8, "a").map(|(_, value)| value),
        Some("x".into())
    );
    let first = loop {
        // The producer may need a moment to reach the broker again.
        let answer = one(&node, request.clone());
        if answer.code() != Code::OutcomeUnknown {
            break answer;
        }
    };
    assert_eq!(first.code(), Code::Done);
    assert_eq!(one(&node, request.clone()), first);
    node.stop();
    let node = other.join("away", &disk, 1);
    assert_eq!(
        read(&node, &mut client, 8, "a").map(|(_, value)| value),
        Some("y".into())
    );
    assert_eq!(node.status().height, 2);
}

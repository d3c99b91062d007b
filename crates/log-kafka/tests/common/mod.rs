//! A Kafka broker for tests, and nodes that use it.

#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

#[path = "../../../hybrid/tests/common/mod.rs"]
mod database;

pub use database::*;

use lineside_hybrid::node::{StartError, Status};
use lineside_hybrid::{Node, Options};
use lineside_journal::SimDisk;
use lineside_kafka_mini::{Broker, Error, Jars};
use lineside_messages::hybrid::request::{Body, Sees, Version};
use std::sync::Arc;
use std::time::Duration;

/// Starts a broker. Returns `None` and prints a line if this machine cannot run one.
pub fn broker() -> Option<Broker> {
    match Jars::fetch().and_then(|jars| jars.start(&[])) {
        Ok(broker) => Some(broker),
        Err(Error::NotHere(why)) => {
            println!("skipped: no Kafka here: {why}");
            None
        }
        Err(failed) => panic!("{failed}"),
    }
}

/// Options of a log at this broker. A single broker has weak settings, which these options accept.
pub fn log_options(broker: &Broker) -> lineside_log_kafka::Options {
    let address = format!("kafka://{}", broker.address()).parse().unwrap();
    lineside_log_kafka::Options {
        allow_weak_kafka: true,
        // The timeouts are long, because other programs use this machine, too.
        answer_timeout: Duration::from_secs(60),
        message_timeout: Duration::from_secs(120),
        ..lineside_log_kafka::Options::new(address)
    }
}

pub fn node_options(node: u32) -> Options {
    Options {
        node,
        verify_threads: 1,
        head_every: 10,
        ..Options::default()
    }
}

pub fn try_join(
    disk: SimDisk,
    options: Options,
    log: lineside_log_kafka::Options,
) -> Result<Node<SimDisk>, StartError> {
    let genesis = genesis().encode().unwrap();
    let key = Arc::new(node_key(options.node));
    Node::start(disk, &genesis, key, options, lineside_log_kafka::open(log))
}

pub fn join(broker: &Broker, disk: SimDisk, node: u32) -> Node<SimDisk> {
    try_join(disk, node_options(node), log_options(broker)).unwrap()
}

/// Reads one key with a linearizable read, which is repeated while the node answers `busy`.
pub fn read(node: &Node<SimDisk>, client: &mut Client, member: u64, key: &str) -> Option<(Version, String)> {
    loop {
        let keys = vec![key.as_bytes()];
        let sees = Sees::Linearizable;
        let answer = one(node, client.sign(member, Body::Get { sees, keys }));
        if answer.code() != lineside_hybrid::Code::Busy {
            return shown(&answer);
        }
    }
}

/// Checks that all nodes have the same state after a linearizable read by each.
pub fn are_equal<'a>(nodes: impl IntoIterator<Item = &'a Node<SimDisk>>, client: &mut Client) -> Status {
    let read_all = nodes.into_iter().map(|node| {
        read(node, client, 8, "any");
        node.status()
    });
    let statuses: Vec<Status> = read_all.collect();
    for status in &statuses {
        assert_eq!(status.tip_hash, statuses[0].tip_hash, "{statuses:?}");
        assert_eq!(status.state_root, statuses[0].state_root);
        assert_eq!(status.read_only, None);
    }
    statuses[0].clone()
}

/// Waits until the node refuses writes, and returns the reason.
pub fn why_read_only(node: &Node<SimDisk>) -> String {
    loop {
        match node.status().read_only {
            Some(why) => return why,
            None => std::thread::park_timeout(Duration::from_millis(5)),
        }
    }
}

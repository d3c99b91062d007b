//! Two nodes of the shipped program that use one log in a real Kafka broker. Their sandbox is strict: a system call of
//! librdkafka that the filter does not allow would end the process.

#![cfg(feature = "kafka")]

mod house;

use house::{HybridDatabase, Server, TWO_MEMBERS};
use lineside_kafka_mini::{Error, Jars};

/// Starts node `number` with the data directory `ledger<number>`.
fn node(house: &HybridDatabase, number: u32, broker: &str) -> Server {
    let config = format!(
        "[process]\nsandbox = \"strict\"\n[console]\nlisten = \"127.0.0.1:0\"\n[hybrid]\nnode = {number}\n\
         node_key = \"node{number}.key\"\ndata = \"ledger{number}\"\nlisten = \"127.0.0.1:0\"\nudp = \"off\"\n\
         log = \"kafka://{broker}\"\nallow_weak_kafka = true\n"
    );
    let file = format!("node{number}.toml");
    std::fs::write(house.path(&file), config).unwrap();
    Server::start(house.command(&["serve", "--json", "--config", &file]))
}

#[test]
fn two_nodes_apply_the_same_order_under_a_strict_sandbox() {
    let broker = match Jars::fetch().and_then(|jars| jars.start(&[])) {
        Ok(broker) => broker,
        Err(Error::NotHere(why)) => return println!("skipped: no Kafka here: {why}"),
        Err(failed) => panic!("{failed}"),
    };
    let nodes = ["--node", "node1.key", "--node", "node2.key"];
    let house = HybridDatabase::new(&[&TWO_MEMBERS[..], &nodes].concat());
    let one = node(&house, 1, &broker.address());
    let two = node(&house, 2, &broker.address());
    one.done(&house, "set", "alice.key", &["from", "one"]);
    two.done(&house, "set", "bob.key", &["back", "two"]);
    for server in [&one, &two] {
        for (name, value) in [("from", "one"), ("back", "two")] {
            let got = server.done(&house, "get", "alice.key", &["--linearizable", name]);
            assert_eq!(got[0]["value"], value, "{got:?}");
        }
    }
    one.terminate();
    two.terminate();
    // A node that starts again reads the log from the last block that it has stored.
    let again = node(&house, 2, &broker.address());
    again.done(&house, "set", "bob.key", &["third", "three"]);
    let got = again.done(&house, "get", "alice.key", &["--linearizable", "third"]);
    assert_eq!(got[0]["value"], "three", "{got:?}");
    again.terminate();
}

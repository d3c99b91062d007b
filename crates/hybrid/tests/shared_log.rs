//! Tests of three nodes that share one log. In these tests, others write to the log as well, it loses messages, and it
//! ends.

mod common;

use common::topic::*;
use common::*;
use lineside_hybrid::{Code, Options};
use lineside_journal::SimDisk;
use lineside_messages::hybrid::block::{
    MESSAGE_HEAD_BYTES, Message, Sender, SignedHead, head_message, request_message,
};
use lineside_messages::hybrid::signing::unix_ms;

#[test]
fn a_linearizable_read_sees_what_another_node_has_answered() {
    let topic = Topic::default();
    let (nodes, mut client) = (three(&topic), Client::new());
    for round in 0..100_usize {
        let value = round.to_string();
        let set = client.set(5, "a", None, &value);
        assert_eq!(code(&nodes[round % 3], set), Code::Done);
        assert_eq!(read(&nodes[(round + 1) % 3], &mut client, "a"), Some(value));
        // Nodes skip entries that are not messages.
        topic.write(b"?".to_vec());
    }
    assert_eq!(are_equal(&nodes, &mut client).height, 100);
}

#[test]
fn a_request_sent_to_two_nodes_and_again_later_takes_effect_once() {
    let topic = Topic::default();
    let (nodes, mut client) = (three(&topic), Client::new());
    let request = client.set(5, "a", None, "once");
    let (first, second) = (one(&nodes[0], request.clone()), one(&nodes[1], request.clone()));
    assert_eq!((first.code(), &first), (Code::Done, &second));
    drop(nodes);
    let nodes = three(&topic);
    are_equal(&nodes, &mut Client::again(100));
    assert_eq!(one(&nodes[2], request), first);
}

#[test]
fn a_message_that_the_log_gave_up_is_not_resent_and_counts_if_it_arrives() {
    let topic = Topic::default();
    let (nodes, mut client) = (three(&topic), Client::new());
    topic.lose(true);
    let never = client.set(5, "never", None, "x");
    let late = client.set(6, "late", None, "x");
    assert_eq!(code(&nodes[0], never.clone()), Code::OutcomeUnknown);
    assert_eq!(code(&nodes[0], late.clone()), Code::OutcomeUnknown);
    let lost = topic.lose(false);
    assert_eq!(lost.len(), 2);
    assert!(topic.messages().is_empty());
    topic.write(lost[1].clone());
    assert_eq!(read(&nodes[1], &mut client, "late"), Some("x".into()));
    assert_eq!(code(&nodes[0], late), Code::Done);
    assert_eq!(read(&nodes[1], &mut client, "never"), None);
    // The lost message arrives after a later message of its node, so all nodes skip it. The client may send the request
    // again.
    topic.write(lost[0].clone());
    assert_eq!(read(&nodes[2], &mut client, "never"), None);
    are_equal(&nodes, &mut client);
    assert_eq!(code(&nodes[2], never), Code::Done);
    are_equal(&nodes, &mut client);
}

#[test]
fn a_node_that_lost_its_ledger_reuses_no_sequence() {
    let topic = Topic::default();
    let mut client = Client::new();
    let node = start_on(&topic, SimDisk::new(1), options(1));
    for round in 0..20 {
        assert_eq!(
            code(&node, client.set(5, "a", None, &round.to_string())),
            Code::Done
        );
    }
    drop(node);
    // The node orders new requests while it still reads its own earlier messages from the log.
    let node = start_on(&topic, SimDisk::new(2), options(1));
    assert_eq!(code(&node, client.set(5, "a", None, "new")), Code::Done);
    drop(node);
    // After its clock went back, the node may use a sequence number again. Then it does not know the outcome of a
    // request, but it never reports a wrong outcome.
    let clock = Options {
        clock: || unix_ms() - 10_000,
        ..options(1)
    };
    let node = start_on(&topic, SimDisk::new(3), clock);
    for round in 0..40 {
        let (value, key) = (format!("again {round}"), format!("key {round}"));
        let request = client.set(7, &key, None, &value);
        match code(&node, request.clone()) {
            Code::Done => assert_eq!(read(&node, &mut client, &key), Some(value)),
            Code::OutcomeUnknown => {
                assert_eq!(read(&node, &mut client, &key), None);
                assert_eq!(code(&node, request), Code::Done);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn messages_of_strangers_in_the_log_are_skipped_by_every_node() {
    let topic = Topic::default();
    let (nodes, mut client) = (three(&topic), Client::new());
    assert_eq!(code(&nodes[0], client.set(5, "a", None, "first")), Code::Done);
    let first = topic.messages().remove(0);
    let sender = Sender {
        node: 1,
        sequence: u64::MAX,
        time_ms: 1,
    };
    let body = [client.set(5, "b", None, "forged")];
    let forged = request_message(&client.database, sender, &body, &member_key(5));
    let mut changed = first.clone();
    *changed.last_mut().unwrap() ^= 1;
    let other = Sender { node: 9, ..sender };
    let unknown = request_message(&client.database, other, &body, &node_key(9));
    for foreign in [
        vec![],
        b"garbage".to_vec(),
        vec![0; 1 << 20],
        forged,
        changed,
        unknown,
        first,
    ] {
        topic.write(foreign);
    }
    let status = are_equal(&nodes, &mut client);
    assert_eq!((status.height, status.skipped), (1, 7));
    assert_eq!(code(&nodes[1], client.set(5, "a", None, "second")), Code::Done);
    // A message with this node's number that this node has not sent. It could be from before a restart, or from another
    // machine that has the node's key.
    let twin = Sender {
        node: 1,
        sequence: u64::MAX / 2,
        time_ms: 1,
    };
    let body = [client.set(5, "b", None, "twin")];
    topic.write(request_message(&client.database, twin, &body, &node_key(1)));
    assert_eq!(read(&nodes[0], &mut client, "b"), Some("twin".into()));
    assert_eq!(code(&nodes[0], client.set(5, "c", None, "third")), Code::Done);
    are_equal(&nodes, &mut client);
}

#[test]
fn a_message_changed_in_the_log_is_skipped_by_its_sender_too() {
    let topic = Topic::default();
    let (nodes, mut client) = (three(&topic), Client::new());
    assert_eq!(code(&nodes[0], client.set(5, "a", None, "true")), Code::Done);
    let more = client.set(5, "b", None, "more").to_vec();
    let changes: [Change; 3] = [
        // Changes a byte of the sender's clock, which precedes the reserved bytes and the count in the message's head.
        Box::new(|message| with(message, |bytes| bytes[MESSAGE_HEAD_BYTES - 10] ^= 1)),
        Box::new(|message| with(message, |bytes| *bytes.last_mut().unwrap() ^= 1)),
        Box::new(move |message| {
            with(message, |bytes| {
                bytes[MESSAGE_HEAD_BYTES - 1] += 1;
                bytes.extend((more.len() as u32).to_be_bytes());
                bytes.extend(&more);
            })
        }),
    ];
    for (skipped, change) in (1..).zip(changes) {
        // Changes only messages with requests, because nodes may write signed heads at any time.
        topic.change(
            move |message| match Message::decode(&message).unwrap().requests() {
                [] => message,
                _ => change(message),
            },
        );
        assert_eq!(
            code(&nodes[0], client.set(5, "a", None, "true")),
            Code::OutcomeUnknown
        );
        topic.change_no_more();
        let status = are_equal(&nodes, &mut client);
        assert_eq!((status.height, status.skipped >= skipped), (1, true));
    }
    assert_eq!(code(&nodes[0], client.set(5, "a", None, "again")), Code::Done);
    assert_eq!(are_equal(&nodes, &mut client).height, 2);
    assert_eq!(read(&nodes[1], &mut client, "b"), None);
}

fn with(mut message: Vec<u8>, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    change(&mut message);
    message
}

#[test]
fn after_the_end_of_the_log_a_node_still_answers_reads_and_reports_why() {
    let topic = Topic::default();
    let (nodes, mut client) = (three(&topic), Client::new());
    assert_eq!(code(&nodes[0], client.set(5, "a", None, "x")), Code::Done);
    are_equal(&nodes, &mut client);
    topic.end();
    let set = client.set(5, "a", None, "y");
    assert!(matches!(
        code(&nodes[0], set),
        Code::OutcomeUnknown | Code::ReadOnly
    ));
    assert_eq!(why_read_only(&nodes[0]), "the log was cut");
    assert_eq!(code(&nodes[0], client.set(5, "a", None, "z")), Code::ReadOnly);
    assert_eq!(shown(&one(&nodes[0], client.get(6, "a"))).unwrap().1, "x");
}

#[test]
fn conflicting_heads_are_reported() {
    let topic = Topic::default();
    let (nodes, mut client) = (three(&topic), Client::new());
    assert_eq!(code(&nodes[0], client.set(5, "a", None, "x")), Code::Done);
    are_equal(&nodes, &mut client);
    let lie = SignedHead::sign(&client.database, 2, 1, [7; 32], &node_key(2));
    let sender = Sender {
        node: 2,
        sequence: 0,
        time_ms: 1,
    };
    topic.write(head_message(&client.database, sender, &lie, &node_key(2)));
    let why = why_read_only(&nodes[0]);
    assert!(
        why.contains("node 2 has signed 0707") && why.contains("for block 1"),
        "{why}"
    );
}

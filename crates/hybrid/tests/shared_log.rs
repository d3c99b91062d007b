//! Three nodes on one log that others write to as well, that loses messages, and that may end.

mod common;

use common::*;
use lineside_hybrid::block::{Sender, SignedHead, head_message, request_message};
use lineside_hybrid::log::{Entry, Log, LogError, Lost, OpenLog};
use lineside_hybrid::node::{Status, unix_ms};
use lineside_hybrid::request::{Body, Sees};
use lineside_hybrid::{Code, Node, Options};
use lineside_journal::SimDisk;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

/// A log in memory: message i stands at position i + 1.
#[derive(Clone, Default)]
struct Topic(Arc<Inner>);

#[derive(Default)]
struct Inner {
    messages: Mutex<Vec<Vec<u8>>>,
    changed: Condvar,
    /// What is appended is given up, and kept here.
    lost: Mutex<Option<Vec<Vec<u8>>>>,
    ended: AtomicBool,
}

impl Topic {
    fn write(&self, message: Vec<u8>) {
        self.0.messages.lock().unwrap().push(message);
        self.0.changed.notify_all();
    }

    fn messages(&self) -> Vec<Vec<u8>> {
        self.0.messages.lock().unwrap().clone()
    }

    fn lose(&self, loses: bool) -> Vec<Vec<u8>> {
        let kept = std::mem::replace(&mut *self.0.lost.lock().unwrap(), loses.then(Vec::new));
        kept.unwrap_or_default()
    }

    fn end(&self) {
        let messages = self.0.messages.lock().unwrap();
        self.0.ended.store(true, Ordering::Release);
        drop(messages);
        self.0.changed.notify_all();
    }

    fn open(&self) -> OpenLog {
        let topic = self.clone();
        Box::new(move |start| {
            let stop = Arc::new(AtomicBool::new(false));
            let (reads, stops, mut next) = (topic.clone(), stop.clone(), start.position as usize);
            let (deliver, fault) = (start.deliver, start.fault);
            let reader = std::thread::spawn(move || {
                let mut messages = reads.0.messages.lock().unwrap();
                while !stops.load(Ordering::Acquire) {
                    if reads.0.ended.load(Ordering::Acquire) {
                        drop(messages);
                        return fault("the log was cut".into());
                    }
                    let Some(message) = messages.get(next).cloned() else {
                        messages = reads.0.changed.wait(messages).unwrap();
                        continue;
                    };
                    drop(messages);
                    next += 1;
                    let position = next as u64;
                    if !deliver(Entry { position, message }) {
                        return;
                    }
                    messages = reads.0.messages.lock().unwrap();
                }
            });
            let (lost, reader) = (start.lost, Some(reader));
            Ok(Arc::new(View {
                topic,
                lost,
                stop,
                reader,
            }))
        })
    }
}

/// One node's way to it.
struct View {
    topic: Topic,
    lost: Lost,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Log for View {
    fn append(&self, message: Vec<u8>) -> Result<(), LogError> {
        if self.topic.0.ended.load(Ordering::Acquire) {
            return Err(LogError("it was cut".into()));
        }
        if let Some(kept) = self.topic.0.lost.lock().unwrap().as_mut() {
            kept.push(message.clone());
            (self.lost)(&message);
            return Ok(());
        }
        self.topic.write(message);
        Ok(())
    }

    fn end(&self) -> Result<Option<u64>, LogError> {
        Ok(Some(self.topic.0.messages.lock().unwrap().len() as u64))
    }
}

impl Drop for View {
    fn drop(&mut self) {
        let messages = self.topic.0.messages.lock().unwrap();
        self.stop.store(true, Ordering::Release);
        drop(messages);
        self.topic.0.changed.notify_all();
        self.reader.take().map(JoinHandle::join);
    }
}

fn options(node: u32) -> Options {
    Options {
        node,
        verify_threads: 1,
        // So that the log mostly ends with something that is no block.
        head_every: 1,
        ..Options::default()
    }
}

fn join(topic: &Topic, disk: SimDisk, options: Options) -> Node<SimDisk> {
    let genesis = genesis().encode().unwrap();
    let key = Arc::new(node_key(options.node));
    Node::start(disk, &genesis, key, options, topic.open()).unwrap()
}

fn three(topic: &Topic) -> Vec<Node<SimDisk>> {
    (1..=NODES)
        .map(|node| join(topic, SimDisk::new(node.into()), options(node)))
        .collect()
}

/// A read of all that was ordered before.
fn read(node: &Node<SimDisk>, client: &mut Client, key: &str) -> Option<String> {
    let keys = vec![key.as_bytes()];
    let request = client.sign(
        6,
        Body::Get {
            sees: Sees::Linearizable,
            keys,
        },
    );
    shown(&one(node, request)).map(|(_, value)| value)
}

/// Waits for the thread that finds it out.
fn why_read_only(node: &Node<SimDisk>) -> String {
    loop {
        match node.status().read_only {
            Some(why) => return why,
            None => std::thread::yield_now(),
        }
    }
}

/// After a linearizable read by each, all are the same.
fn are_equal(nodes: &[Node<SimDisk>], client: &mut Client) -> Status {
    let statuses: Vec<Status> = nodes
        .iter()
        .map(|node| {
            read(node, client, "any");
            node.status()
        })
        .collect();
    for status in &statuses {
        assert_eq!(status.tip_hash, statuses[0].tip_hash, "{statuses:?}");
        assert_eq!(status.read_only, None);
    }
    statuses[0].clone()
}

#[test]
fn a_linearizable_read_sees_what_another_node_has_answered() {
    let topic = Topic::default();
    let (nodes, mut client) = (three(&topic), Client::new());
    for round in 0..100_usize {
        let value = round.to_string();
        let set = client.set(5, "a", None, &value);
        assert_eq!(code(&nodes[round % 3], set), Code::Done);
        assert_eq!(read(&nodes[(round + 1) % 3], &mut client, "a"), Some(value));
        // What is no message at all is passed too.
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
fn a_message_that_was_given_up_is_never_sent_again_and_counts_if_it_comes() {
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
    // Behind a later one of its node it is skipped, by all; the request may be sent again.
    topic.write(lost[0].clone());
    assert_eq!(read(&nodes[2], &mut client, "never"), None);
    are_equal(&nodes, &mut client);
    assert_eq!(code(&nodes[2], never), Code::Done);
    are_equal(&nodes, &mut client);
}

#[test]
fn a_node_that_lost_its_ledger_uses_no_sequence_again() {
    let topic = Topic::default();
    let mut client = Client::new();
    let node = join(&topic, SimDisk::new(1), options(1));
    for round in 0..20 {
        assert_eq!(
            code(&node, client.set(5, "a", None, &round.to_string())),
            Code::Done
        );
    }
    drop(node);
    // It orders while it reads again what it has ordered before.
    let node = join(&topic, SimDisk::new(2), options(1));
    assert_eq!(code(&node, client.set(5, "a", None, "new")), Code::Done);
    drop(node);
    // With a clock that went back it may use one again, and then does not know the outcome: but never a wrong one.
    let clock = Options {
        clock: || unix_ms() - 10_000,
        ..options(1)
    };
    let node = join(&topic, SimDisk::new(3), clock);
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
fn what_others_write_to_the_log_is_skipped_by_all() {
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
    // A message of a node that the node has not sent: another life of it has, or another machine with its key.
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
fn a_log_that_ends_leaves_a_node_that_says_why_and_answers() {
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
fn heads_that_disagree_are_shown() {
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

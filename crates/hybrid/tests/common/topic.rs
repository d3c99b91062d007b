//! A log in memory that several nodes share. A test can make it lose or change messages, or end it.

use super::*;
use lineside_hybrid::log::{Entry, Log, LogError, Lost, OpenLog};
use lineside_hybrid::node::Status;
use lineside_journal::SimDisk;
use lineside_messages::hybrid::request::Sees;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex};
use std::thread::JoinHandle;

/// A log in memory. Message i (from 0) has the position i + 1.
#[derive(Clone, Default)]
pub struct Topic(Arc<Inner>);

#[derive(Default)]
struct Inner {
    messages: Mutex<Vec<Vec<u8>>>,
    changed: Condvar,
    /// If set, the log gives up every appended message and stores it here instead.
    lost: Mutex<Option<Vec<Vec<u8>>>>,
    ended: AtomicBool,
    /// If set, the log applies this function to every appended message.
    change: Mutex<Option<Change>>,
}

pub type Change = Box<dyn Fn(Vec<u8>) -> Vec<u8> + Send>;

impl Topic {
    /// Makes the log change all messages that are appended from now on, as a malicious operator of the log could.
    pub fn change(&self, change: impl Fn(Vec<u8>) -> Vec<u8> + Send + 'static) {
        *self.0.change.lock().unwrap() = Some(Box::new(change));
    }

    pub fn change_no_more(&self) {
        *self.0.change.lock().unwrap() = None;
    }

    pub fn write(&self, message: Vec<u8>) {
        self.0.messages.lock().unwrap().push(message);
        self.0.changed.notify_all();
    }

    pub fn messages(&self) -> Vec<Vec<u8>> {
        self.0.messages.lock().unwrap().clone()
    }

    pub fn lose(&self, loses: bool) -> Vec<Vec<u8>> {
        let kept = std::mem::replace(&mut *self.0.lost.lock().unwrap(), loses.then(Vec::new));
        kept.unwrap_or_default()
    }

    pub fn end(&self) {
        let messages = self.0.messages.lock().unwrap();
        self.0.ended.store(true, Ordering::Release);
        drop(messages);
        self.0.changed.notify_all();
    }

    pub fn open(&self) -> OpenLog {
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
            let (lost, reader) = (start.on_lost, Some(reader));
            Ok(Arc::new(NodeLog {
                topic,
                lost,
                stop,
                reader,
            }))
        })
    }
}

/// Access of one node to the log.
struct NodeLog {
    topic: Topic,
    lost: Lost,
    stop: Arc<AtomicBool>,
    reader: Option<JoinHandle<()>>,
}

impl Log for NodeLog {
    fn append(&self, message: Vec<u8>) -> Result<(), LogError> {
        if self.topic.0.ended.load(Ordering::Acquire) {
            return Err(LogError("it was cut".into()));
        }
        if let Some(kept) = self.topic.0.lost.lock().unwrap().as_mut() {
            kept.push(message.clone());
            (self.lost)(&message);
            return Ok(());
        }
        let message = match &*self.topic.0.change.lock().unwrap() {
            Some(change) => change(message),
            None => message,
        };
        self.topic.write(message);
        Ok(())
    }

    fn end(&self) -> Result<Option<u64>, LogError> {
        Ok(Some(self.topic.0.messages.lock().unwrap().len() as u64))
    }
}

impl Drop for NodeLog {
    fn drop(&mut self) {
        let messages = self.topic.0.messages.lock().unwrap();
        self.stop.store(true, Ordering::Release);
        drop(messages);
        self.topic.0.changed.notify_all();
        self.reader.take().map(JoinHandle::join);
    }
}

pub fn options(node: u32) -> Options {
    Options {
        node,
        verify_threads: 1,
        // With a head after each block, the log usually ends with a message that is not a block.
        head_every: 1,
        ..Options::default()
    }
}

pub fn start_on(topic: &Topic, disk: SimDisk, options: Options) -> Node<SimDisk> {
    start_of(&genesis(), topic, disk, options)
}

/// Starts a node of the database that has this genesis.
pub fn start_of(genesis: &Genesis, topic: &Topic, disk: SimDisk, options: Options) -> Node<SimDisk> {
    let genesis = genesis.encode().unwrap();
    let key = Arc::new(node_key(options.node));
    Node::start(disk, &genesis, key, options, topic.open()).unwrap()
}

pub fn three(topic: &Topic) -> Vec<Node<SimDisk>> {
    (1..=NODES)
        .map(|node| start_on(topic, SimDisk::new(node.into()), options(node)))
        .collect()
}

/// Reads one key with a linearizable read.
pub fn read(node: &Node<SimDisk>, client: &mut Client, key: &str) -> Option<String> {
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

/// Waits until the node refuses writes, and returns the reason.
pub fn why_read_only(node: &Node<SimDisk>) -> String {
    loop {
        match node.status().read_only {
            Some(why) => return why,
            None => std::thread::yield_now(),
        }
    }
}

/// Checks that all nodes have the same state after a linearizable read by each.
pub fn are_equal(nodes: &[Node<SimDisk>], client: &mut Client) -> Status {
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

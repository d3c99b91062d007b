//! Subscriptions to the node's notifications of blocks.

use crate::error::NodeFault;
use crate::hash::BlockHash;
use crate::node::NoticedBy;
use crate::socket::BlockNotices;
use crate::stream::{Address, Stream};
use crate::zmq::{Decoder, Event, Topic, ZmqError, announced, opening};
use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CALL: &str = "ZMQ notifications";
const READ_BYTES: usize = 4096;
/// Maximum number of notifications that are read at once.
const DRAINED_MAX: usize = 10_000;

/// Subscription to the notifications of blocks.
pub(crate) enum Notifier {
    Zmq(Subscriber),
    Socket(Box<BlockNotices>),
}

impl Notifier {
    /// Waits for the next notification of a block. Dropping the future loses no notification.
    pub(crate) async fn next(&mut self) -> Result<Option<BlockHash>, NodeFault> {
        match self {
            Notifier::Zmq(subscriber) => subscriber.next().await.map(Some),
            Notifier::Socket(notices) => notices.next().await,
        }
    }

    /// Reads the notifications that have already arrived. Returns the newest block among them other than `known`.
    pub(crate) fn drain(&mut self, known: &BlockHash) -> Result<Option<BlockHash>, NodeFault> {
        let mut newest = None;
        for _ in 0..DRAINED_MAX {
            match self.next().now_or_never() {
                None => break,
                Some(Ok(hash)) => newest = hash.filter(|hash| hash != known).or(newest),
                Some(Err(fault)) => return Err(fault),
            }
        }
        Ok(newest)
    }

    pub(crate) fn noticed_by(&self) -> NoticedBy {
        match self {
            Notifier::Zmq(_) => NoticedBy::Zmq,
            Notifier::Socket(_) => NoticedBy::WebSocket,
        }
    }
}

/// A ZMQ socket of the kind SUB.
pub(crate) struct Subscriber {
    stream: Stream,
    decoder: Decoder,
}

impl Subscriber {
    /// Connects to a publisher and subscribes to `topic`. Returns when the publisher has answered the handshake.
    pub(crate) async fn open(address: &Address, topic: Topic) -> Result<Subscriber, NodeFault> {
        let mut stream = address.open().await?;
        stream
            .write_all(&opening(&[topic.name()]))
            .await
            .map_err(connection_lost)?;
        let mut subscriber = Subscriber {
            stream,
            decoder: Decoder::default(),
        };
        subscriber.event().await?;
        Ok(subscriber)
    }

    async fn event(&mut self) -> Result<Event, NodeFault> {
        let mut bytes = [0; READ_BYTES];
        loop {
            if let Some(event) = self.decoder.next().map_err(malformed)? {
                return Ok(event);
            }
            match self.stream.read(&mut bytes).await.map_err(connection_lost)? {
                0 => return Err(connection_lost(std::io::ErrorKind::UnexpectedEof.into())),
                count => self.decoder.push(&bytes[..count]),
            }
        }
    }

    async fn next(&mut self) -> Result<BlockHash, NodeFault> {
        loop {
            match self.event().await? {
                Event::Message(frames) => {
                    if let Some(hash) = announced(&frames) {
                        return Ok(hash);
                    }
                }
                Event::Ping(pong) => self.stream.write_all(&pong).await.map_err(connection_lost)?,
                Event::Command => {}
            }
        }
    }
}

fn connection_lost(error: std::io::Error) -> NodeFault {
    NodeFault::Lost {
        call: CALL,
        why: error.to_string(),
    }
}

fn malformed(error: ZmqError) -> NodeFault {
    NodeFault::Malformed {
        call: CALL,
        why: error.to_string(),
    }
}

/// ZMQ publisher of a node's blocks: its address, and the topic to subscribe to.
#[derive(Clone, Debug)]
pub(crate) struct Publisher {
    pub(crate) address: Address,
    pub(crate) topic: Topic,
}

impl Publisher {
    /// Chooses a publisher from the answer to `getzmqnotifications`. The topic `sequence` is the second choice, because
    /// it also announces every transaction. `node` is the host of the RPC: the address of a publisher that listens on
    /// every address.
    pub(crate) fn choose(offered: &[(String, String)], node: &str) -> Option<Publisher> {
        let of = |kind: &str, topic| {
            let addresses = offered.iter().filter(|(found, _)| found == kind);
            let mut found = addresses.filter_map(|(_, address)| tcp_address(address, node));
            found.next().map(|address| Publisher { address, topic })
        };
        of("pubhashblock", Topic::HashBlock).or_else(|| of("pubsequence", Topic::Sequence))
    }
}

/// Parses `tcp://HOST:PORT`. A wildcard as the host is replaced by `node`, the host of the RPC.
fn tcp_address(text: &str, node: &str) -> Option<Address> {
    let (host, port) = text.strip_prefix("tcp://")?.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let everywhere = matches!(host, "*" | "0.0.0.0" | "::");
    Some(Address {
        host: if everywhere { node } else { host }.to_owned(),
        port: port.parse().ok()?,
        tls: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_publisher_of_blocks_is_chosen_and_a_wildcard_address_means_the_rpc_host() {
        let offered = |all: &[(&str, &str)]| {
            let all: Vec<_> = all.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
            Publisher::choose(&all, "node.example").map(|found| {
                let Address { host, port, .. } = found.address;
                (found.topic, host, port)
            })
        };
        let hashblock = ("pubhashblock", "tcp://127.0.0.1:28332");
        let sequence = ("pubsequence", "tcp://0.0.0.0:28333");
        let found = offered(&[("pubrawtx", "tcp://h:1"), sequence, hashblock]);
        assert_eq!(found, Some((Topic::HashBlock, "127.0.0.1".into(), 28332)));
        assert_eq!(
            offered(&[sequence]),
            Some((Topic::Sequence, "node.example".into(), 28333))
        );
        let six = offered(&[("pubhashblock", "tcp://[::1]:9")]);
        assert_eq!(six, Some((Topic::HashBlock, "::1".into(), 9)));
        for none in ["ipc:///tmp/x", "tcp://host", "tcp://host:port", ""] {
            assert_eq!(offered(&[("pubhashblock", none)]), None, "{none}");
        }
    }
}

//! [`FastPath`], the traits of hosts, and the types of requests and replies.

pub use lineside_wire::PAYLOAD_BYTES_MAX;

use crate::{Reader, Steps};
use lineside_wire::DropReason;
use lineside_wire::trace::{Rule, Trace};
use std::net::{IpAddr, SocketAddr};

/// Decision about a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The reply was written.
    Reply,
    /// The host must answer. The request is unchanged.
    Forward,
    /// No reply is sent. The reason is counted.
    Drop(DropReason),
}

/// Sender of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// IP address; an IPv4-mapped IPv6 address is stored as IPv4.
    pub address: IpAddr,
    /// UDP port.
    pub port: u16,
}

impl From<SocketAddr> for Source {
    fn from(from: SocketAddr) -> Self {
        Self {
            address: from.ip().to_canonical(),
            port: from.port(),
        }
    }
}

/// Buffer for the payload of a reply, at most [`PAYLOAD_BYTES_MAX`] bytes.
#[derive(Debug)]
pub struct Reply {
    bytes: [u8; PAYLOAD_BYTES_MAX],
    len: usize,
}

impl Default for Reply {
    fn default() -> Self {
        Self {
            bytes: [0; PAYLOAD_BYTES_MAX],
            len: 0,
        }
    }
}

impl Reply {
    /// Empties the buffer.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends `bytes`. Returns false and appends nothing if they do not fit.
    #[must_use]
    pub fn put(&mut self, bytes: &[u8]) -> bool {
        match self.bytes.get_mut(self.len..self.len + bytes.len()) {
            Some(room) => {
                room.copy_from_slice(bytes);
                self.len += bytes.len();
                true
            }
            None => false,
        }
    }

    /// Returns the bytes written so far.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Part of a service that answers requests from its own small table. It runs in XDP or, in user space, before the host.
pub trait FastPath: Sync {
    /// Answers `request`, the UDP payload sent by `from`, into `reply`, or returns another verdict.
    ///
    /// `now_ns` is CLOCK_MONOTONIC in nanoseconds. `reply` is empty on entry. It is sent only with [`Verdict::Reply`],
    /// and in XDP only if it is as long as the request.
    fn answer(&self, from: Source, now_ns: u64, request: &[u8], reply: &mut Reply) -> Verdict;

    /// Does what [`FastPath::answer`] does, and records each decision in `steps`. A fast path that does not override
    /// this method is recorded as one decision.
    fn explain(
        &self,
        from: Source,
        now_ns: u64,
        request: &[u8],
        reply: &mut Reply,
        steps: &mut Steps,
    ) -> Verdict {
        let verdict = self.answer(from, now_ns, request, reply);
        steps.require(Rule::FastPath, 0..request.len(), verdict == Verdict::Reply);
        verdict
    }

    /// Returns true if answering `request` may change the fast-path table. In XDP, such a request is answered only if
    /// its UDP checksum is correct; otherwise it is passed to the kernel, which decides.
    fn changes(&self, _request: &[u8]) -> bool {
        false
    }
}

/// Part of a service that owns the data and answers the requests that the fast path forwards.
pub trait Host: Sync {
    /// Answers `request` into `reply`, which is empty on entry. [`Verdict::Forward`] means that no answer is possible:
    /// the request is dropped without being counted.
    ///
    /// The reply is never longer than the request. If `serve` returns [`Verdict::Reply`], it has called [`Reader::pin`]
    /// on `sender` before the answer could become stale, and its caller calls [`Reader::unpin`] once the reply is sent.
    /// In this way, a writer can wait for all answers that its change makes stale.
    fn serve(&self, from: Source, request: &[u8], reply: &mut Reply, sender: &Reader) -> Verdict;
}

/// One request of a batch to a [`BatchHost`].
#[derive(Clone, Copy, Debug)]
pub struct BatchRequest<'a> {
    /// Sender.
    pub from: Source,
    /// Payload of a datagram, or a native packet of a TCP stream.
    pub payload: &'a [u8],
}

/// Outcome of one request of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestOutcome {
    /// Reply to send; `None` if there is none.
    pub reply: Option<Vec<u8>>,
    /// Reason of a drop that is to be counted.
    pub drop: Option<DropReason>,
}

impl RequestOutcome {
    /// Returns the outcome of an answered request.
    pub const fn reply(bytes: Vec<u8>) -> Self {
        Self {
            reply: Some(bytes),
            drop: None,
        }
    }

    /// Returns the outcome of a dropped request. The reason is counted.
    pub const fn drop(reason: DropReason) -> Self {
        Self {
            reply: None,
            drop: Some(reason),
        }
    }
}

/// Host that answers requests in batches. It releases the replies of a batch once the batch is durable, and may execute
/// the next batch during the sync.
pub trait BatchHost: Send {
    /// Executes a batch of requests. [`BatchHost::take`] returns the outcomes.
    fn execute(&mut self, requests: &[BatchRequest<'_>]);

    /// Returns the outcomes of the oldest executed batch that was not yet taken, in the order of its requests. Returns
    /// `None` if that batch is not durable yet or if there is no batch. If `waits` is true, the call waits until the
    /// batch is durable, and returns `None` only if there is no batch. A reply to a datagram is never longer than its
    /// request.
    fn take(&mut self, waits: bool) -> Option<Vec<RequestOutcome>>;

    /// Executes a batch and returns its outcomes. Takes and discards the outcomes of earlier batches first.
    fn execute_and_take(&mut self, requests: &[BatchRequest<'_>]) -> Vec<RequestOutcome> {
        self.execute(requests);
        let mut outcomes = Vec::new();
        while let Some(next) = self.take(true) {
            outcomes = next;
        }
        outcomes
    }

    /// Does background work. The caller calls it after each [`BatchHost::call_interval_max`] in which no request came.
    fn idle(&mut self);

    /// Ends the host. The caller passes no request afterwards, and no fast path of this process answers any more.
    fn end(&mut self) {}

    /// Returns the longest time between two calls of this host, with requests or to [`BatchHost::idle`].
    fn call_interval_max(&self) -> std::time::Duration {
        std::time::Duration::from_millis(50)
    }
}

/// Sends the replies to a batch of requests that an [`AsyncHost`] took.
pub trait Responder: Send + Sync {
    /// Returns the maximum length in bytes of the reply to the request with this `index` in its batch.
    fn reply_bytes_max(&self, index: usize) -> usize;

    /// Sends replies, each with the index of its request. Each request is answered at most once. Does not block:
    /// replies that the system does not accept at once are lost, as UDP datagrams may be.
    fn send(&self, replies: Vec<(usize, Vec<u8>)>);
}

/// Host that answers asynchronously, in any order.
pub trait AsyncHost: Send + Sync {
    /// Returns the maximum length in bytes of the reply to a request of `request_bytes`. It exceeds `request_bytes`
    /// only for sources to which amplification does no harm, such as trusted addresses.
    fn reply_bytes_max(&self, _from: Source, request_bytes: usize) -> usize {
        request_bytes
    }

    /// Takes a batch of requests that were received together. Must not block. A request that is never answered counts
    /// as waiting until `responder` is dropped.
    fn take(&self, requests: Vec<Vec<u8>>, responder: std::sync::Arc<dyn Responder>);
}

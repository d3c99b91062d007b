//! Passes requests to an [`AsyncHost`], which answers asynchronously, and sends its replies.

use super::Shared;
use super::batch::ReplyAddress;
use super::clock::precise_ns;
use lineside_fastpath::{AsyncHost, Responder, Source};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Connection of one receiving thread to the host.
pub(super) struct AsyncDispatch {
    pub socket: Arc<UdpSocket>,
    pub shared: Arc<Shared>,
    pub host: Arc<dyn AsyncHost>,
    /// Maximum number of requests that wait for an answer.
    pub queue: usize,
    pub received: ReceivedBatch,
}

/// Requests of one received batch, with the reply address and the maximum reply length in bytes of each.
#[derive(Default)]
pub(super) struct ReceivedBatch {
    reply_limits: Vec<(ReplyAddress, usize)>,
    requests: Vec<Vec<u8>>,
}

impl AsyncDispatch {
    /// Adds a request to the batch that [`Self::submit`] passes to the host. Returns false if too many requests are
    /// waiting.
    pub fn add_request(&mut self, reply_address: ReplyAddress, request: &[u8]) -> bool {
        if self.shared.open.load(Relaxed) + self.received.reply_limits.len() >= self.queue {
            return false;
        }
        let reply_bytes_max = self
            .host
            .reply_bytes_max(Source::from(reply_address.peer), request.len());
        self.received.reply_limits.push((reply_address, reply_bytes_max));
        self.received.requests.push(request.to_vec());
        true
    }

    /// Hands the gathered batch to the host. `now_ns` is the time at which it was received.
    pub fn submit(&mut self, now_ns: u64) {
        let ReceivedBatch {
            reply_limits,
            requests,
        } = std::mem::take(&mut self.received);
        if requests.is_empty() {
            return;
        }
        self.shared.open.fetch_add(requests.len(), Relaxed);
        let count = requests.len() as u64;
        self.shared.progress.add_forwarded(count, now_ns);
        self.shared.counts.host_batch.record(count);
        let responder = BatchResponder {
            socket: Arc::clone(&self.socket),
            shared: Arc::clone(&self.shared),
            open: AtomicUsize::new(reply_limits.len()),
            reply_limits,
            received_ns: now_ns,
        };
        self.host.take(requests, Arc::new(responder));
    }
}

/// Sends the replies to one batch.
struct BatchResponder {
    socket: Arc<UdpSocket>,
    shared: Arc<Shared>,
    /// Reply address of each request, and the maximum length of its reply in bytes.
    reply_limits: Vec<(ReplyAddress, usize)>,
    /// Number of requests that are not answered yet.
    open: AtomicUsize,
    /// CLOCK_MONOTONIC time in ns at which the batch was received.
    received_ns: u64,
}

impl BatchResponder {
    /// Counts `count` requests as answered, or all remaining ones if fewer are open.
    fn close(&self, count: usize) {
        let closed = self
            .open
            .fetch_update(Relaxed, Relaxed, |open| Some(open - open.min(count)));
        let closed = closed.unwrap_or_default().min(count);
        if closed > 0 {
            self.shared.open.fetch_sub(closed, Relaxed);
            let now_ns = precise_ns();
            let latency_ns = now_ns.saturating_sub(self.received_ns);
            let latency = &self.shared.counts.host_latency;
            latency.record_many(latency_ns, closed as u64);
            self.shared.progress.finish(closed as u64, now_ns);
        }
    }
}

impl Responder for BatchResponder {
    fn reply_bytes_max(&self, index: usize) -> usize {
        self.reply_limits
            .get(index)
            .map_or(0, |(_, reply_bytes_max)| *reply_bytes_max)
    }

    fn send(&self, replies: Vec<(usize, Vec<u8>)>) {
        let counts = &self.shared.counts;
        self.close(replies.len());
        let mut datagrams = Vec::with_capacity(replies.len());
        for (index, reply) in replies {
            match self.reply_limits.get(index) {
                Some((reply_address, reply_bytes_max)) if reply.len() <= *reply_bytes_max => {
                    datagrams.push((reply_address, reply))
                }
                _ => _ = counts.amplification.fetch_add(1, Relaxed),
            }
        }
        let sent = self.shared.send_datagrams(&self.socket, datagrams);
        counts.host_replies.fetch_add(sent, Relaxed);
    }
}

impl Drop for BatchResponder {
    fn drop(&mut self) {
        self.close(usize::MAX);
    }
}

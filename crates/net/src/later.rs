//! Passes requests to a [`AsyncHost`], which answers asynchronously, and sends its replies.

use super::Shared;
use super::batch::Route;
use lineside_fastpath::{AsyncHost, Responder, Source, lease};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Connection of one receiving thread to the host.
pub(super) struct Later {
    pub socket: Arc<UdpSocket>,
    pub shared: Arc<Shared>,
    pub host: Arc<dyn AsyncHost>,
    /// Maximum number of requests that wait for an answer.
    pub queue: usize,
    pub gathered: Gathered,
}

/// Requests of one received batch, with the route and the maximum reply length in bytes of each.
#[derive(Default)]
pub(super) struct Gathered {
    ways: Vec<(Route, usize)>,
    requests: Vec<Vec<u8>>,
}

impl Later {
    /// Adds a request to the batch that will be handed over. Returns false if too many requests are waiting.
    pub fn gather(&mut self, route: Route, request: &[u8]) -> bool {
        if self.shared.open.load(Relaxed) + self.gathered.ways.len() >= self.queue {
            return false;
        }
        let room = self.host.reply_bytes_max(Source::from(route.peer), request.len());
        self.gathered.ways.push((route, room));
        self.gathered.requests.push(request.to_vec());
        true
    }

    /// Hands the gathered batch to the host.
    pub fn hand_over(&mut self) {
        let Gathered { ways, requests } = std::mem::take(&mut self.gathered);
        if requests.is_empty() {
            return;
        }
        self.shared.open.fetch_add(requests.len(), Relaxed);
        self.shared.progress.hand(requests.len() as u64, lease::now_ns());
        let back = Back {
            socket: Arc::clone(&self.socket),
            shared: Arc::clone(&self.shared),
            open: AtomicUsize::new(ways.len()),
            ways,
        };
        self.host.take(requests, Arc::new(back));
    }
}

/// Sends the replies to one batch.
struct Back {
    socket: Arc<UdpSocket>,
    shared: Arc<Shared>,
    /// Route of each request, and the maximum length of its reply in bytes.
    ways: Vec<(Route, usize)>,
    /// Number of requests that are not answered yet.
    open: AtomicUsize,
}

impl Back {
    /// Counts `count` requests, or as many as are left, as no longer waiting.
    fn close(&self, count: usize) {
        let closed = self
            .open
            .fetch_update(Relaxed, Relaxed, |open| Some(open - open.min(count)));
        let closed = closed.unwrap_or_default().min(count);
        if closed > 0 {
            self.shared.open.fetch_sub(closed, Relaxed);
            self.shared.progress.finish(closed as u64, lease::now_ns());
        }
    }
}

impl Responder for Back {
    fn reply_bytes_max(&self, place: usize) -> usize {
        self.ways.get(place).map_or(0, |(_, room)| *room)
    }

    fn send(&self, replies: Vec<(usize, Vec<u8>)>) {
        let counts = &self.shared.counts;
        self.close(replies.len());
        let mut datagrams = Vec::with_capacity(replies.len());
        for (place, reply) in replies {
            match self.ways.get(place) {
                Some((route, room)) if reply.len() <= *room => datagrams.push((route, reply)),
                _ => _ = counts.amplification.fetch_add(1, Relaxed),
            }
        }
        let sent = self.shared.send_datagrams(&self.socket, datagrams);
        counts.host_replies.fetch_add(sent, Relaxed);
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        self.close(usize::MAX);
    }
}

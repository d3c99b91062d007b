//! Requests on their way to a host that answers later, and back.

use super::Shared;
use super::batch::Route;
use lineside_fastpath::{LaterHost, Source, WayBack, lease};
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The way to the host, for one receiving thread.
pub(super) struct Later {
    pub socket: Arc<UdpSocket>,
    pub shared: Arc<Shared>,
    pub host: Arc<dyn LaterHost>,
    /// Requests that wait for an answer, at most.
    pub queue: usize,
    pub gathered: Gathered,
}

/// Requests that came together.
#[derive(Default)]
pub(super) struct Gathered {
    ways: Vec<(Route, usize)>,
    requests: Vec<Vec<u8>>,
}

impl Later {
    /// Whether there is room for one more; then it goes with the others of its batch.
    pub fn gather(&mut self, route: Route, request: &[u8]) -> bool {
        if self.shared.open.load(Relaxed) + self.gathered.ways.len() >= self.queue {
            return false;
        }
        let room = self.host.reply_bytes_max(Source::from(route.peer), request.len());
        self.gathered.ways.push((route, room));
        self.gathered.requests.push(request.to_vec());
        true
    }

    /// Hands over what was gathered.
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

/// The way back of some requests.
struct Back {
    socket: Arc<UdpSocket>,
    shared: Arc<Shared>,
    /// Where each came from, and how long its reply may be.
    ways: Vec<(Route, usize)>,
    /// How many were not answered.
    open: AtomicUsize,
}

impl Back {
    /// So many wait no more.
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

impl WayBack for Back {
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

//! Bounds of a server, and its counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bounds of one server. Each protects the other clients from one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of Electrum clients at a time; more are closed at once.
    pub clients: usize,
    /// Maximum number of Electrum clients of one IPv4 address or IPv6 network of 64 bits.
    pub clients_by_network: usize,
    /// Maximum number of bytes of one line from a client. A longer one is answered with an error, and its client is
    /// closed. A transaction to broadcast is one line, of two digits for each byte.
    pub line_bytes: usize,
    /// Maximum number of bytes of one line from the upstream server.
    pub upstream_line_bytes: usize,
    /// Maximum number of requests in one batch.
    pub batch: usize,
    /// Requests of one client that wait for the upstream server at a time. At this number no further request of the
    /// client is read until one of them is answered.
    pub in_flight: usize,
    /// Bytes of replies that wait until their client reads them. At this number neither the client nor its upstream
    /// connection is read, so that at most one more reply (for a batch, one set of replies) is added.
    pub queued_bytes: usize,
    /// Bytes of lines and replies of all clients together, as far as one client has more than a few kibibytes of them.
    /// One network has a quarter of it at most. A client that asks for more is closed.
    pub memory_bytes: usize,
    /// Maximum number of subscriptions of one client that are kept at the upstream server.
    pub subscriptions: usize,
    /// Maximum number of such subscriptions of all clients together.
    pub subscriptions_in_all: usize,
    /// Requests of one client a second, on average; beyond it the client is read more slowly. A reply of many headers
    /// and a tree that is not in the cache count as several.
    pub requests_per_second: u32,
    /// Requests that one client may send at once after a pause.
    pub burst: u32,
    /// Time without a request after which a client is closed. The protocol names roughly 10 minutes.
    pub idle: Duration,
    /// Time from the first byte of a line until its end, and from the connection until the first request's end.
    pub line_time: Duration,
    /// Time without progress after which a client that does not read its replies is closed.
    pub stall: Duration,
    /// Time that the upstream server has for a call and for the opening of a connection.
    pub call_time: Duration,
    /// Time for a TLS handshake.
    pub handshake: Duration,
    /// Maximum number of headers in one reply. The protocol recommends at least 2016.
    pub headers: u32,
    /// Bytes of Merkle trees that are kept.
    pub tree_bytes: usize,
    /// Merkle trees of blocks, and proofs of headers for a checkpoint, that are made at a time.
    pub tree_builds: usize,
    /// Maximum number of HTTP connections at a time.
    pub http_clients: usize,
    /// Maximum number of HTTP connections of one network.
    pub http_clients_by_network: usize,
    /// HTTP requests of one network a second, on average; beyond it they are answered with status 429. A tree that is
    /// not in the cache counts as several.
    pub http_requests_per_second: u32,
    /// HTTP requests that one network may send at once after a pause.
    pub http_burst: u32,
    /// Time after which an HTTP connection is closed, whatever it does.
    pub http_connection_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            clients: 4_000,
            clients_by_network: 100,
            line_bytes: 1 << 20,
            upstream_line_bytes: 16 << 20,
            batch: 256,
            in_flight: 256,
            queued_bytes: 1 << 20,
            memory_bytes: 256 << 20,
            subscriptions: 20_000,
            subscriptions_in_all: 1_000_000,
            requests_per_second: 2_000,
            burst: 10_000,
            idle: Duration::from_secs(600),
            line_time: Duration::from_secs(30),
            stall: Duration::from_secs(20),
            call_time: Duration::from_secs(30),
            handshake: Duration::from_secs(10),
            headers: 2016,
            tree_bytes: 64 << 20,
            tree_builds: 2,
            http_clients: 500,
            http_clients_by_network: 50,
            http_requests_per_second: 2_000,
            http_burst: 10_000,
            http_connection_time: Duration::from_secs(600),
        }
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the start of a server, but for those that are called current.
        #[derive(Debug, Default)]
        pub struct Counters {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        /// Values of [`Counters`] at one time.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct CounterValues {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counters {
            /// Reads each counter; a set that is read while requests run need not be of one moment.
            pub fn values(&self) -> CounterValues {
                CounterValues {
                    $($name: self.$name.load(Ordering::Relaxed),)*
                }
            }
        }
    };
}

counters! {
    /// Current number of Electrum clients.
    clients,
    /// Electrum connections that were let in.
    accepted,
    /// Connections, Electrum and HTTP, that were refused because a limit of clients was reached.
    refused,
    /// Requests of Electrum clients, each of a batch counted.
    requests,
    /// Requests that were answered here with a result.
    answered,
    /// Requests that were answered with an error, also such that came from the upstream server.
    errors,
    /// Requests that were sent to the upstream server.
    forwarded,
    /// Forwarded requests that failed because the upstream server was away or too slow.
    upstream_failures,
    /// Notifications that were queued for clients.
    notifications,
    /// Clients that were closed because they sent a line that is too long.
    closed_line,
    /// Clients that were closed because a line, the first request or the next request did not come in time.
    closed_idle,
    /// Clients that were closed because their TLS handshake failed or took too long.
    closed_handshake,
    /// Clients that were closed because they did not read.
    closed_stalled,
    /// Clients that were closed because their lines and replies took too much memory.
    closed_memory,
    /// Times that a client had to wait because of its rate of requests.
    throttled,
    /// Merkle trees that were built.
    trees_built,
    /// Replies that were computed again because the chain had changed meanwhile.
    recomputed,
    /// HTTP requests, those that were refused included.
    http_requests,
    /// HTTP requests that were refused because of their network's rate.
    http_throttled,
    /// Current number of HTTP connections.
    http_clients,
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

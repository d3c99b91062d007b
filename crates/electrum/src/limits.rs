//! Limits of a server, and its counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Limits of one server. Each limit protects the other clients from one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of concurrent Electrum clients. Further connections are closed immediately.
    pub clients: usize,
    /// Maximum number of Electrum clients of one IPv4 address or IPv6 network of 64 bits.
    pub clients_by_network: usize,
    /// Maximum number of bytes of one line from a client. A longer line is answered with an error, and its connection
    /// is closed. A transaction to broadcast is one line, with two digits for each byte.
    pub line_bytes: usize,
    /// Maximum number of bytes of one line from the upstream server.
    pub upstream_line_bytes: usize,
    /// Maximum number of requests in one batch.
    pub batch: usize,
    /// Maximum number of requests of one client that wait for the upstream server. At this number, no further request
    /// of the client is read until one of them is answered.
    pub in_flight: usize,
    /// Maximum number of bytes of replies that wait until their client reads them. When this number is reached, the
    /// server reads neither from the client nor from the client's upstream connection, so at most one more reply (for a
    /// batch, one set of replies) is added.
    pub queued_bytes: usize,
    /// Maximum number of bytes of lines and replies of all clients together; a few kibibytes of each client do not
    /// count. One network may use a quarter of it. A connection that needs more is closed.
    pub memory_bytes: usize,
    /// Maximum number of subscriptions of one client at the upstream server.
    pub subscriptions: usize,
    /// Maximum number of subscriptions of all clients together at the upstream server.
    pub subscriptions_in_all: usize,
    /// Average number of requests of one client per second. If a client sends more, it is read more slowly. A reply of
    /// many headers and a tree that is not in the cache count as several requests.
    pub requests_per_second: u32,
    /// Number of requests that one client may send at once after a pause.
    pub burst: u32,
    /// Time without a request after which a client is disconnected. The protocol specifies about 10 minutes.
    pub idle: Duration,
    /// Maximum time from the first byte of a line to its end, and from the start of the connection to the end of the
    /// first request.
    pub line_time: Duration,
    /// Time without progress after which a client that does not read its replies is disconnected.
    pub stall: Duration,
    /// Maximum time for a call to the upstream server, and for opening a connection to it.
    pub call_time: Duration,
    /// Maximum time for a TLS handshake.
    pub handshake: Duration,
    /// Maximum number of headers in one reply. The protocol recommends at least 2016.
    pub headers: u32,
    /// Maximum number of bytes of Merkle trees in the cache.
    pub tree_bytes: usize,
    /// Maximum number of concurrent computations of Merkle trees of blocks and of proofs of headers for a checkpoint.
    pub tree_builds: usize,
    /// Maximum number of concurrent HTTP connections.
    pub http_clients: usize,
    /// Maximum number of HTTP connections of one network.
    pub http_clients_by_network: usize,
    /// Average number of HTTP requests of one network per second. Further requests are answered with status 429. A tree
    /// that is not in the cache counts as several requests.
    pub http_requests_per_second: u32,
    /// Number of HTTP requests that one network may send at once after a pause.
    pub http_burst: u32,
    /// Time after which an HTTP connection is closed, even if it is in use.
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
        /// Counters since the start of a server. Values that are described as current can also decrease.
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
            /// Reads each counter. If requests run at the same time, the values may belong to different moments.
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
    /// Electrum connections that were accepted.
    accepted,
    /// Connections, Electrum and HTTP, that were refused because a limit of clients was reached.
    refused,
    /// Requests of Electrum clients; each request of a batch counts.
    requests,
    /// Requests that this server itself answered with a result.
    answered,
    /// Requests that were answered with an error, including errors from the upstream server.
    errors,
    /// Requests that were sent to the upstream server.
    forwarded,
    /// Forwarded requests that failed because the upstream server was unreachable or too slow.
    upstream_failures,
    /// Notifications that were queued for clients.
    notifications,
    /// Clients that were disconnected because they sent a line that is too long.
    closed_line,
    /// Clients that were disconnected because a line, the first request or the next request did not arrive in time.
    closed_idle,
    /// Clients that were disconnected because their TLS handshake failed or took too long.
    closed_handshake,
    /// Clients that were disconnected because they did not read their replies.
    closed_stalled,
    /// Clients that were disconnected because their lines and replies used too much memory.
    closed_memory,
    /// Number of times that a client had to wait because of its rate of requests.
    throttled,
    /// Merkle trees that were built.
    trees_built,
    /// Replies that were computed again because the chain had changed during the computation.
    recomputed,
    /// HTTP requests, including those that were refused.
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

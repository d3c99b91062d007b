//! Limits of a server over all its connections: connections, calls, and the bytes of their messages.
//!
//! A network is an IPv4 address or an IPv6 /64. Each network that is not trusted (a "stranger") may use a limited share
//! of each resource, and all strangers together leave a part for trusted networks. If the limit of connections is
//! reached, a new connection replaces one that has been idle for [`Limits::idle`]. HTTP/2 pings do not count as use of
//! a connection.

use crate::call::{Call, Incoming, RequestBody};
use crate::pool::Pool;
use crate::refused::RefusedCalls;
use lineside_util::network::network_of;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, oneshot};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http;

/// Number of untrusted networks that, with the maximum each, use up all connections or calls for untrusted networks:
/// each may use 1/8 of the limit.
const NETWORKS: usize = 8;
/// Divisor of the bytes of messages: each untrusted network may use 1/4 of the limit.
const BYTE_NETWORKS: usize = 4;
/// Size of an HTTP/2 frame in bytes. If fewer bytes of messages are free, the status says that new clients are refused.
const FRAME_BYTES: usize = 16 << 10;
/// Minimum interval between two log lines about refused connections, in milliseconds.
const SAY_EVERY_MS: u64 = 10_000;

/// Function that returns true for a trusted address.
pub type Trusted = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Limits of a server.
#[derive(Clone)]
pub struct Limits {
    /// Maximum number of connections at a time.
    pub connections: usize,
    /// Maximum number of calls at a time over all connections. Further calls are answered RESOURCE_EXHAUSTED.
    pub calls: usize,
    /// Maximum number of calls at a time on one connection. Further calls wait.
    pub streams: u32,
    /// Maximum number of bytes of messages of calls in progress over all connections: requests as they arrive, and
    /// answers until they have been sent. Calls that exceed it are answered RESOURCE_EXHAUSTED.
    pub memory_bytes: usize,
    /// Time without a call after which a connection may be closed to make room for a new one.
    pub idle: Duration,
    /// Maximum time for a TLS handshake, and again for the client's first bytes.
    pub handshake: Duration,
    /// Maximum time for a call's message to arrive.
    pub message_wait: Duration,
    /// Networks that are not limited to a share.
    pub trusted: Trusted,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1_000,
            calls: 2_000,
            streams: 256,
            memory_bytes: 64 << 20,
            idle: Duration::from_secs(60),
            handshake: Duration::from_secs(10),
            message_wait: Duration::from_secs(30),
            trusted: Arc::new(|address| address.is_loopback()),
        }
    }
}

/// Amounts that one network uses.
#[derive(Debug, Default)]
pub(crate) struct Network {
    is_trusted: bool,
    connections: AtomicUsize,
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

/// State of one connection that its calls share.
#[derive(Debug)]
pub(crate) struct Connection {
    network: Arc<Network>,
    /// Number of calls in progress.
    pub calls: AtomicUsize,
    /// Number of calls in progress whose client does not read its answer.
    pub unread: AtomicUsize,
    /// Time of the last use, in milliseconds since the gate was created.
    used_ms: AtomicU64,
    close: Mutex<Option<oneshot::Sender<()>>>,
}

#[derive(Default)]
struct Open {
    next: u64,
    connections: HashMap<u64, Arc<Connection>>,
    networks: HashMap<IpAddr, Weak<Network>>,
}

/// The limits of one server, and the amounts that its clients use.
pub struct Gate {
    limits: Limits,
    connections: Pool,
    calls: Pool,
    bytes: Pool,
    open: Mutex<Open>,
    /// Notified when a call has released bytes.
    pub(crate) freed: Notify,
    started: Instant,
    refused: AtomicU64,
    said_ms: AtomicU64,
    /// Calls that the server refused. The server counts them itself, because it chooses their codes.
    pub refused_calls: RefusedCalls,
}

/// State of a [`Gate`] (the limits on connections and calls of one server), as the status of its service shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Reasons why new clients are refused.
    pub problems: Vec<String>,
    /// Limits that are nearly reached.
    pub warnings: Vec<String>,
    /// Number of open connections.
    pub connections: usize,
    /// Number of connections that were refused.
    pub refused: u64,
}

/// An admitted connection. Dropping it lets the gate admit another one.
pub(crate) struct Admitted {
    gate: Arc<Gate>,
    id: u64,
    pub connection: Arc<Connection>,
    /// Becomes ready when the gate closes this connection in favour of another one.
    pub close: oneshot::Receiver<()>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.gate.remove(&mut self.gate.open(), self.id);
    }
}

impl Gate {
    /// Returns a gate that enforces `limits` and has no connections yet.
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            connections: Pool::new(limits.connections, NETWORKS),
            calls: Pool::new(limits.calls, NETWORKS),
            bytes: Pool::new(limits.memory_bytes, BYTE_NETWORKS),
            open: Mutex::default(),
            freed: Notify::new(),
            started: Instant::now(),
            refused: AtomicU64::new(0),
            said_ms: AtomicU64::new(0),
            refused_calls: RefusedCalls::default(),
            limits,
        })
    }

    /// Returns the limits of the gate.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Admits a connection. Returns `None` if a limit is reached and no idle connection can be closed to make room.
    pub(crate) fn connect(self: &Arc<Self>, address: IpAddr) -> Option<Admitted> {
        let mut open = self.open();
        let network = self.network(&mut open, address);
        while !self.connections.take(&network.connections, network.is_trusted, 1) {
            let Some(id) = self.idle_connection(&open, &network) else {
                self.refuse(address);
                return None;
            };
            self.remove(&mut open, id);
        }
        let (sender, close) = oneshot::channel();
        let connection = Arc::new(Connection {
            network,
            calls: AtomicUsize::new(0),
            unread: AtomicUsize::new(0),
            used_ms: AtomicU64::new(self.now_ms()),
            close: Mutex::new(Some(sender)),
        });
        let id = open.next;
        open.next += 1;
        open.connections.insert(id, Arc::clone(&connection));
        Some(Admitted {
            gate: Arc::clone(self),
            id,
            connection,
            close,
        })
    }

    fn network(&self, open: &mut Open, address: IpAddr) -> Arc<Network> {
        let name = network_of(address);
        if let Some(network) = open.networks.get(&name).and_then(Weak::upgrade) {
            return network;
        }
        if open.networks.len() > 2 * self.limits.connections {
            open.networks.retain(|_, network| network.strong_count() > 0);
        }
        let network = Arc::new(Network {
            is_trusted: (self.limits.trusted)(address.to_canonical()),
            ..Network::default()
        });
        open.networks.insert(name, Arc::downgrade(&network));
        network
    }

    /// Returns the idle connection to close so that `network` can get a new one. If `network` has reached its share,
    /// only its own connections are candidates. Otherwise the candidates are the connections of the untrusted network
    /// that has the most, or, if `network` is trusted, all connections. The candidate that has been idle longest is
    /// chosen.
    fn idle_connection(&self, open: &Open, network: &Arc<Network>) -> Option<u64> {
        let own_only = !network.is_trusted && self.connections.network_is_full(&network.connections);
        let may_close = |connection: &Connection| match (own_only, network.is_trusted) {
            (true, _) => Arc::ptr_eq(&connection.network, network),
            (false, true) => true,
            (false, false) => !connection.network.is_trusted,
        };
        let idle = self.idle(open);
        let candidates = idle.filter(|(_, connection)| may_close(connection));
        let rank = |connection: &Connection| {
            let Network {
                is_trusted,
                connections,
                ..
            } = &*connection.network;
            let used_ms = connection.used_ms.load(Ordering::Acquire);
            (
                *is_trusted,
                usize::MAX - connections.load(Ordering::Acquire),
                used_ms,
            )
        };
        let chosen = candidates.min_by_key(|(id, connection)| (rank(connection), **id));
        chosen.map(|(id, _)| *id)
    }

    /// Returns the connections that are idle and may be closed in favour of a new one.
    fn idle<'a>(&self, open: &'a Open) -> impl Iterator<Item = (&'a u64, &'a Arc<Connection>)> {
        let (now_ms, idle_ms) = (self.now_ms(), self.limits.idle.as_millis());
        open.connections.iter().filter(move |(_, connection)| {
            let unused_ms = now_ms.saturating_sub(connection.used_ms.load(Ordering::Acquire));
            let calls = connection.calls.load(Ordering::Acquire);
            calls == connection.unread.load(Ordering::Acquire) && u128::from(unused_ms) >= idle_ms
        })
    }

    fn remove(&self, open: &mut Open, id: u64) {
        let Some(connection) = open.connections.remove(&id) else {
            return;
        };
        let network = &connection.network;
        self.connections
            .give_back(&network.connections, network.is_trusted, 1);
        let close = connection
            .close
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        // The receiver is missing if the connection has ended already; then nothing has to be closed.
        close.map(|close| close.send(()));
    }

    fn refuse(&self, address: IpAddr) {
        let refused = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        let (now_ms, said_ms) = (self.now_ms(), self.said_ms.load(Ordering::Relaxed));
        if refused == 1 || now_ms.saturating_sub(said_ms) >= SAY_EVERY_MS {
            self.said_ms.store(now_ms, Ordering::Relaxed);
            tracing::info!(
                %address,
                refused,
                "a gRPC connection is refused: the limit on connections of all clients, of untrusted clients or of \
                 this client's network is reached; networks in `trusted_sources` have no limit of their own"
            );
        }
    }

    /// Counts a call before its message is read, and limits the size and the arrival time of the message.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if too many calls are in progress.
    pub fn call(
        self: &Arc<Self>,
        request: http::Request<Body>,
        message: Incoming,
    ) -> Result<(http::Request<Body>, Call), Status> {
        let peer = request.extensions().get::<crate::Peer>();
        let connection = peer.and_then(|peer| peer.connection.clone());
        let connection =
            connection.ok_or_else(|| Status::internal("the call has no connection information"))?;
        let network = &connection.network;
        if !self.calls.take(&network.calls, network.is_trusted, 1) {
            return Err(Status::resource_exhausted(
                "too many calls are in progress; try again later",
            ));
        }
        let call = Call::new(Arc::clone(self), connection, message);
        let counted = call.counted();
        Ok((
            request.map(|body| Body::new(RequestBody::new(body, counted, message))),
            call,
        ))
    }

    pub(crate) fn end_call(&self, connection: &Connection) {
        let network = &connection.network;
        self.calls.give_back(&network.calls, network.is_trusted, 1);
        self.used(connection);
    }

    /// Records that a connection is in use now.
    pub(crate) fn used(&self, connection: &Connection) {
        connection.used_ms.store(self.now_ms(), Ordering::Release);
    }

    pub(crate) fn take_bytes(&self, connection: &Connection, bytes: usize) -> bool {
        let network = &connection.network;
        let taken = self.bytes.take(&network.bytes, network.is_trusted, bytes);
        if !taken {
            self.close_unread();
        }
        taken
    }

    pub(crate) fn take_bytes_beyond(&self, connection: &Connection, bytes: usize) {
        let network = &connection.network;
        self.bytes.take_beyond(&network.bytes, network.is_trusted, bytes);
    }

    /// Takes bytes from the limit, even more than the share of the network, if the network uses no bytes yet.
    pub(crate) fn take_bytes_alone(&self, connection: &Connection, bytes: usize) -> bool {
        let network = &connection.network;
        let taken = self.bytes.take_alone(&network.bytes, network.is_trusted, bytes);
        if !taken {
            self.close_unread();
        }
        taken
    }

    pub(crate) fn give_back_bytes(&self, connection: &Connection, bytes: usize) {
        let network = &connection.network;
        self.bytes.give_back(&network.bytes, network.is_trusted, bytes);
        self.freed.notify_waiters();
    }

    /// Closes one connection whose client has not read its answers for [`Limits::idle`], if there is one.
    fn close_unread(&self) {
        let mut open = self.open();
        let is_unread = |connection: &Connection| connection.unread.load(Ordering::Acquire) > 0;
        let unread = self
            .idle(&open)
            .find(|(_, connection)| is_unread(connection))
            .map(|(id, _)| *id);
        if let Some(id) = unread {
            self.remove(&mut open, id);
        }
    }

    /// Returns the number of bytes of messages of calls in progress.
    pub fn bytes_under_way(&self) -> usize {
        self.bytes.used().0
    }

    /// Returns the reasons why new clients are refused, and the limits that are nearly reached.
    pub fn standing(&self) -> Standing {
        let open = self.open();
        let can_close = self
            .idle(&open)
            .any(|(_, connection)| !connection.network.is_trusted);
        let pools = [
            ("connections", &self.connections, 1, can_close),
            ("calls at a time", &self.calls, 1, false),
            ("bytes of calls in progress", &self.bytes, FRAME_BYTES, false),
        ];
        let mut standing = Standing {
            connections: open.connections.len(),
            refused: self.refused.load(Ordering::Relaxed),
            ..Standing::default()
        };
        for (name, pool, amount, can_close) in pools {
            let (used, limit) = pool.used();
            if pool.is_full_for_strangers(amount) && !can_close {
                let why = format!(
                    "new clients are refused: {used} of {limit} {name} are in use, and any free ones are for \
                     `trusted_sources`"
                );
                standing.problems.push(why);
            } else if pool.is_nearly_full() {
                standing
                    .warnings
                    .push(format!("{used} of {limit} {name} are in use"));
            }
        }
        standing
    }
}

#[cfg(test)]
#[path = "gate_tests.rs"]
mod tests;

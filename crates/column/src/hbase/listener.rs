//! Thread that requests leases from the table's servers, receives their notices of changes, and acknowledges the
//! notices.

use super::notice::{Notice, NoticeKey};
use crate::coherence::ColumnRange;
use crate::fill::ColumnId;
use crate::servers::{ChangeProgress, Servers};
use lineside_fastpath::lease;
use lineside_wire::{
    COLUMN_NOTICE_ACK, COLUMN_NOTICE_ASK, COLUMN_NOTICE_BYTES_MAX, COLUMN_NOTICE_GRANT, COLUMN_NOTICE_OPENED,
    COLUMN_NOTICE_POST, COLUMN_NOTICE_PRE,
};
use std::collections::{HashSet, VecDeque};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Read timeout of the socket. After it, the thread checks leases and requests new ones.
const READ_TIMEOUT: Duration = Duration::from_millis(10);
/// Interval in nanoseconds between lease requests to a server that grants no lease.
const LEASE_REQUEST_INTERVAL_NS: u64 = 100_000_000;
/// Maximum number of unanswered lease requests to one server. A grant for an older request is ignored.
const LEASE_REQUESTS_MAX: usize = 4;
/// Maximum duration of a lease in milliseconds. A longer grant is ignored.
const LEASE_MS_MAX: u32 = 60_000;
/// Maximum number of server names that are remembered. A server has a new name after each start.
const SERVER_NAMES_MAX: usize = 65_536;

/// Options of a [`Listener`].
#[derive(Debug)]
pub struct Options {
    /// Address at which the thread receives notices. The servers' settings must name the same address.
    pub listen: SocketAddr,
    /// Addresses of all servers that may hold a part of the table. The thread requests leases from each of them.
    pub servers: Vec<SocketAddr>,
    /// Key shared with the servers.
    pub key: NoticeKey,
    /// Name of the table in HBase's form.
    pub table: Vec<u8>,
    /// Number of columns in the fast path. A notice about a row affects all of them.
    pub columns: u16,
}

/// Numbers of notices since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of notices that were accepted.
    pub accepted: u64,
    /// Number of notices that were rejected.
    pub refused: u64,
}

#[derive(Debug, Default)]
struct Shared {
    stop: AtomicBool,
    accepted: AtomicU64,
    refused: AtomicU64,
}

/// Handle of the listening thread. Dropping it ends the thread.
#[derive(Debug)]
pub struct Listener {
    shared: Arc<Shared>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

/// Unanswered lease requests to one server, newest first: the request's random token, and its time in nanoseconds.
#[derive(Debug, Default)]
struct LeaseRequests {
    outstanding: VecDeque<(u64, u64)>,
    next_ns: u64,
}

struct ListenerThread {
    socket: UdpSocket,
    options: Options,
    servers: Arc<Servers>,
    on_region_opened: Box<dyn Fn() + Send>,
    lease_requests: Vec<LeaseRequests>,
    /// Hashed names of the servers that have granted a lease from an address in `servers`.
    server_names: HashSet<u64>,
    shared: Arc<Shared>,
}

impl Listener {
    /// Starts to listen for notices to `servers`. If `servers` was made by [`Servers::all_of`], `options` must list the
    /// same number of servers. `on_region_opened` is called before a notice about an opened region is acknowledged,
    /// because the description of the table may have changed.
    ///
    /// # Errors
    /// The system's error of the socket or the thread.
    pub fn start(
        options: Options,
        servers: Arc<Servers>,
        on_region_opened: Box<dyn Fn() + Send>,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind(options.listen)?;
        socket.set_read_timeout(Some(READ_TIMEOUT))?;
        let address = socket.local_addr()?;
        let shared = Arc::new(Shared::default());
        let mut listener_thread = ListenerThread {
            socket,
            lease_requests: options.servers.iter().map(|_| LeaseRequests::default()).collect(),
            server_names: HashSet::new(),
            options,
            servers,
            on_region_opened,
            shared: Arc::clone(&shared),
        };
        let thread = std::thread::Builder::new().name("column-notices".into());
        Ok(Self {
            shared,
            address,
            thread: Some(thread.spawn(move || listener_thread.run())?),
        })
    }

    /// Returns the address at which the thread listens.
    pub const fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the numbers of notices since the start.
    pub fn counts(&self) -> Counts {
        Counts {
            accepted: self.shared.accepted.load(Relaxed),
            refused: self.shared.refused.load(Relaxed),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // If the thread has panicked, its message was already printed.
            let _ = thread.join();
        }
    }
}

impl ListenerThread {
    fn run(&mut self) {
        let mut bytes = [0; COLUMN_NOTICE_BYTES_MAX + 1];
        let mut checked_ns = 0;
        while !self.shared.stop.load(Relaxed) {
            // An error is a timeout, or the ICMP reply to a notice that this thread sent to a closed port. Neither
            // needs an action.
            if let Ok((length, from)) = self.socket.recv_from(&mut bytes) {
                let is_taken = self.handle(&bytes[..length], from);
                let count = match is_taken {
                    true => &self.shared.accepted,
                    false => &self.shared.refused,
                };
                count.fetch_add(1, Relaxed);
            }
            let now_ns = lease::now_ns();
            if now_ns.saturating_sub(checked_ns) >= READ_TIMEOUT.as_nanos() as u64 {
                checked_ns = now_ns;
                self.servers.tick(now_ns);
                self.ask(now_ns);
            }
        }
    }

    /// Sends a lease request to each server for which it is due.
    fn ask(&mut self, now_ns: u64) {
        for (lease_requests, server) in self.lease_requests.iter_mut().zip(&self.options.servers) {
            let mut token = [0; 8];
            if lease_requests.next_ns > now_ns || getrandom::fill(&mut token).is_err() {
                continue;
            }
            lease_requests.next_ns = now_ns + LEASE_REQUEST_INTERVAL_NS;
            lease_requests.outstanding.truncate(LEASE_REQUESTS_MAX - 1);
            lease_requests
                .outstanding
                .push_front((u64::from_be_bytes(token), now_ns));
            let mut question = Notice::new(COLUMN_NOTICE_ASK, &self.options.table);
            question.head.token = token.into();
            send(&self.socket, &self.options.key, *server, &question);
        }
    }

    /// Handles a notice. Returns true if it was accepted.
    fn handle(&mut self, bytes: &[u8], from: SocketAddr) -> bool {
        let notice = Notice::parse(bytes, &self.options.key);
        let Some(notice) = notice.filter(|notice| notice.table == self.options.table) else {
            return false;
        };
        let Some(server) = self.options.servers.iter().position(|server| *server == from) else {
            self.record_unknown_writer(from, &notice);
            return false;
        };
        let head = &notice.head;
        let progress = ChangeProgress {
            epoch: head.epoch.get(),
            oldest_open: head.oldest_open.get(),
        };
        match head.kind {
            COLUMN_NOTICE_PRE => self.on_pre(server, progress, &notice),
            COLUMN_NOTICE_POST => {
                self.servers.apply_progress(server, progress);
                true
            }
            COLUMN_NOTICE_GRANT => self.granted(server, progress, &notice),
            _ => false,
        }
    }

    fn on_pre(&self, server: usize, progress: ChangeProgress, notice: &Notice) -> bool {
        let touched: Vec<ColumnRange> = (notice.intervals().into_iter())
            .flat_map(|interval| (0..self.options.columns).map(move |column| (ColumnId(column), interval)))
            .collect();
        let expires_ms = notice.head.expires_ms.get();
        if expires_ms != 0 {
            self.servers.record_expiry(&touched, expires_ms, now_ms());
        }
        if notice.head.flags & COLUMN_NOTICE_OPENED != 0 {
            (self.on_region_opened)();
        }
        let number = notice.head.number.get();
        if !self.servers.on_pre(server, progress, number, &touched) {
            return false;
        }
        let mut answer = Notice::new(COLUMN_NOTICE_ACK, &self.options.table);
        answer.head.epoch = notice.head.epoch;
        answer.head.number = notice.head.number;
        send(
            &self.socket,
            &self.options.key,
            self.options.servers[server],
            &answer,
        );
        true
    }

    /// Handles the grant of a lease. It is accepted only if it answers one of the last lease requests, because the
    /// lease begins when that request was sent.
    fn granted(&mut self, server: usize, progress: ChangeProgress, notice: &Notice) -> bool {
        let outstanding = &self.lease_requests[server].outstanding;
        let token = notice.head.token.get();
        let Some((_, sent_ns)) = outstanding
            .iter()
            .find(|(lease_requests, _)| *lease_requests == token)
            .copied()
        else {
            return false;
        };
        if self.server_names.len() < SERVER_NAMES_MAX {
            self.server_names.insert(notice.head.server.get());
        }
        let lease_ms = notice.head.lease_ms.get().min(LEASE_MS_MAX);
        let lease_ns = u64::from(lease_ms) * 1_000_000;
        self.lease_requests[server].next_ns =
            sent_ns + (lease_ns / 5).clamp(LEASE_REQUEST_INTERVAL_NS / 10, LEASE_REQUEST_INTERVAL_NS * 2);
        let next = notice.head.number.get();
        self.servers.set_name(server, notice.head.server.get());
        (self.servers).granted(server, progress, next, sent_ns, lease_ns, lease::now_ns());
        true
    }

    /// Handles a notice from an address that is not in `servers`. If it has the name of a known server, someone replays
    /// a datagram: it is not acknowledged. Any other notice of a change comes from a server that is missing in
    /// `servers`; without an acknowledgement that server waits until no lease can exist.
    fn record_unknown_writer(&self, from: SocketAddr, notice: &Notice) {
        if self.server_names.contains(&notice.head.server.get()) {
            return;
        }
        let is_change = [COLUMN_NOTICE_PRE, COLUMN_NOTICE_POST].contains(&notice.head.kind);
        if is_change && !self.servers.has_unknown_writer() {
            match self.servers.has_lease_per_server() {
                true => {
                    tracing::warn!(
                        %from,
                        "a server that is not in `servers` changes the table: the rows that this server holds are not \
                         cached; add the server to `servers` and restart"
                    )
                }
                false => tracing::error!(
                    %from,
                    "a server that is not in `servers` changes the table: the fast path stays empty; add the server to \
                     `servers` and restart"
                ),
            }
            self.servers.record_unknown_writer();
        }
    }
}

/// Sends a notice. If it cannot be sent, the effect is the same as if the network had lost it.
fn send(socket: &UdpSocket, key: &NoticeKey, to: SocketAddr, notice: &Notice) {
    let sent = notice.to_bytes(key).map(|bytes| socket.send_to(&bytes, to));
    if let Some(Err(error)) = sent {
        tracing::debug!(%to, %error, "column: cannot send a notice to a server of the table");
    }
}

fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests;

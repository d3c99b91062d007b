//! The socket plane: user space, any machine. One thread receives and answers in batches from near; one host thread
//! behind a bounded queue answers what near forwards.

mod batch;

use batch::{BATCH, Batch};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError};
use lineside_near::{Host, Near, Reply, Source, Verdict, lease};
use lineside_wire::DropReason;
use lineside_wire::endpoint::Endpoint;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a thread waits before it looks whether it shall stop.
const PATIENCE: Duration = Duration::from_millis(50);

/// What a socket plane counted.
#[derive(Debug, Default)]
pub struct SocketCounts {
    /// Requests answered by near.
    pub near_replies: AtomicU64,
    /// Requests answered by the host.
    pub host_replies: AtomicU64,
    /// Requests dropped because the host's queue was full.
    pub queue_full: AtomicU64,
    /// Datagrams longer than any request.
    pub oversize: AtomicU64,
    /// Replies withheld because they were longer than their request (rule 5).
    pub amplification: AtomicU64,
    /// Drops by [`DropReason`].
    pub drops: [AtomicU64; DropReason::ALL.len()],
}

impl SocketCounts {
    fn drop(&self, reason: DropReason) {
        self.drops[reason as usize].fetch_add(1, Relaxed);
    }
}

struct Forwarded {
    from: SocketAddr,
    request: Vec<u8>,
}

struct Shared {
    near: Arc<dyn Near + Send + Sync>,
    host: Arc<dyn Host + Send + Sync>,
    counts: SocketCounts,
    stop: AtomicBool,
}

/// A near and its host behind one UDP socket, until it is dropped.
pub struct SocketPlane {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    local: SocketAddr,
}

impl SocketPlane {
    /// Listens on `listen` and answers from `near` and `host`; at most `queue` requests wait for the host.
    ///
    /// # Errors
    /// What the system says of the address or the threads.
    pub fn start(
        listen: SocketAddr,
        queue: usize,
        near: Arc<dyn Near + Send + Sync>,
        host: Arc<dyn Host + Send + Sync>,
    ) -> io::Result<Self> {
        let socket = Arc::new(UdpSocket::bind(listen)?);
        socket.set_read_timeout(Some(PATIENCE))?;
        let local = socket.local_addr()?;
        let (counts, stop) = (SocketCounts::default(), AtomicBool::new(false));
        let shared = Arc::new(Shared {
            near,
            host,
            counts,
            stop,
        });
        let (sender, receiver) = crossbeam_channel::bounded(queue);
        let mut plane = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
            local,
        };
        let (near_socket, near_shared) = (Arc::clone(&socket), Arc::clone(&shared));
        let near_thread = std::thread::Builder::new().name("lineside-near".into());
        plane
            .threads
            .push(near_thread.spawn(move || near_loop(&near_socket, &near_shared, local, &sender))?);
        let host_thread = std::thread::Builder::new().name("lineside-host".into());
        plane
            .threads
            .push(host_thread.spawn(move || host_loop(&socket, &shared, &receiver))?);
        Ok(plane)
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// What it counted so far.
    pub fn counts(&self) -> &SocketCounts {
        &self.shared.counts
    }
}

impl Drop for SocketPlane {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so already; there is nothing to add here.
            let _ = thread.join();
        }
    }
}

fn near_loop(socket: &UdpSocket, shared: &Shared, local: SocketAddr, host: &Sender<Forwarded>) {
    // Own and loopback sources are the kernel's to refuse here; what is left are addresses nobody may answer to.
    let mut endpoint = Endpoint::default();
    endpoint.loopback = true;
    let mut batch = Batch::default();
    let mut replies: Vec<(usize, Reply)> = Vec::with_capacity(BATCH);
    while !shared.stop.load(Relaxed) {
        let Ok(count) = batch.receive(socket) else { return };
        let now_ns = lease::now_ns();
        replies.clear();
        for index in 0..count {
            let Some((from, request)) = batch.get(index) else {
                shared.counts.oversize.fetch_add(1, Relaxed);
                continue;
            };
            let source = Source::from(from);
            if let Some(reason) = endpoint.refuses_source(source.address, source.port) {
                shared.counts.drop(reason);
                continue;
            }
            if from == local {
                shared.counts.drop(DropReason::SourceAddress);
                continue;
            }
            let mut reply = Reply::default();
            match shared.near.answer(source, now_ns, request, &mut reply) {
                Verdict::Reply if reply.as_bytes().len() <= request.len() => replies.push((index, reply)),
                Verdict::Reply => _ = shared.counts.amplification.fetch_add(1, Relaxed),
                Verdict::Drop(reason) => shared.counts.drop(reason),
                Verdict::Forward => match host.try_send(Forwarded {
                    from,
                    request: request.to_vec(),
                }) {
                    Ok(()) => (),
                    Err(TrySendError::Full(_)) => _ = shared.counts.queue_full.fetch_add(1, Relaxed),
                    Err(TrySendError::Disconnected(_)) => return,
                },
            }
        }
        let sent = batch.send(socket, &mut replies);
        shared.counts.near_replies.fetch_add(sent as u64, Relaxed);
    }
}

fn host_loop(socket: &UdpSocket, shared: &Shared, forwarded: &Receiver<Forwarded>) {
    while !shared.stop.load(Relaxed) {
        let Forwarded { from, request } = match forwarded.recv_timeout(PATIENCE) {
            Ok(forwarded) => forwarded,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        let mut reply = Reply::default();
        match shared.host.serve(Source::from(from), &request, &mut reply) {
            Verdict::Reply if reply.as_bytes().len() <= request.len() => {
                if socket.send_to(reply.as_bytes(), from).is_ok() {
                    shared.counts.host_replies.fetch_add(1, Relaxed);
                }
            }
            Verdict::Reply => _ = shared.counts.amplification.fetch_add(1, Relaxed),
            Verdict::Drop(reason) => shared.counts.drop(reason),
            Verdict::Forward => (),
        }
    }
}

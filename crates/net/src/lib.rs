//! The socket datapath: runs a service's fast path and host in user space, on any machine.
//!
//! Receiving threads share one UDP port (SO_REUSEPORT) and answer in batches from the fast path. Requests that the fast
//! path forwards go to the host in one of three ways: through a bounded queue to host threads, usually one, that answer
//! one by one ([`Host`]); through a bounded queue to a thread that answers in batches ([`BatchHost`], which also gets
//! requests over TCP); or directly to an [`AsyncHost`], which takes each batch as it was received and answers
//! asynchronously.
//!
//! ```text
//! UDP port -> threads `fastpath-N`: FastPath::answer -----------------------------------------------------> reply
//!               | Forward, one of:
//!               +-> queue -> threads `host`: Host::serve -------------------------------------------------> reply
//!               +-> queue -> thread `host`: BatchHost::execute a batch, then BatchHost::take -------------> replies
//!               +-> AsyncHost::take a batch ... Responder::send ------------------------------------------> replies
//! TCP port -> thread `streams`: FastPath::answer, or the queue of the BatchHost --------------------------> replies
//! thread `neighbours`: withholds replies to addresses that do not resolve
//! ```
//!
//! ```
//! use lineside_fastpath::{FastPath, Host, Reader, Readers, Reply, Source, Verdict};
//! use lineside_net::{SocketDatapath, SocketOptions};
//! use std::sync::Arc;
//!
//! /// Fast path that forwards everything, and host that sends each request back.
//! struct Echo;
//! impl FastPath for Echo {
//!     fn answer(&self, _: Source, _now_ns: u64, _: &[u8], _: &mut Reply) -> Verdict {
//!         Verdict::Forward
//!     }
//! }
//! impl Host for Echo {
//!     fn serve(&self, _: Source, request: &[u8], reply: &mut Reply, _: &Reader) -> Verdict {
//!         if reply.put(request) { Verdict::Reply } else { Verdict::Forward }
//!     }
//! }
//!
//! let listen = "127.0.0.1:0".parse().expect("it is an address");
//! let options = SocketOptions { listen, threads: 1, queue: 64 };
//! let datapath = SocketDatapath::start(options, Arc::new(Echo), Arc::new(Echo), &Readers::default())?;
//! let client = std::net::UdpSocket::bind("127.0.0.1:0")?;
//! client.send_to(b"ping", datapath.local_addr())?;
//! let mut reply = [0; 16];
//! let bytes = client.recv(&mut reply)?;
//! assert_eq!(&reply[..bytes], b"ping");
//! # Ok::<(), std::io::Error>(())
//! ```

mod admission;
mod async_host;
mod batch;
mod clock;
mod host;
mod neighbours;
mod progress;
mod queue;
mod stream;

use async_host::{AsyncDispatch, ReceivedBatch};
use batch::{BATCH, Batch, ReplyAddress};
use clock::precise_ns;
use crossbeam_channel::{Sender, TrySendError};
use lineside_fastpath::{
    AsyncHost, BatchHost, DropReason, FastPath, Host, Reader, Readers, Reply, Source, Verdict, lease,
};
use lineside_util::histogram::Histogram;
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{NativeHeader, Status, native};
use neighbours::Unresolved;
use progress::Progress;
use queue::QueueSender;
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use stream::Writer;
use zerocopy::{FromBytes, IntoBytes};

/// Maximum time for which a thread waits for packets before it checks whether the datapath is being stopped.
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Requested size of the receive buffer in bytes, so that a burst of requests waits instead of being lost. The kernel
/// may grant less.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Requested size of the send buffer in bytes. It is large, so that queued replies to neighbours that do not resolve
/// leave room for others. The kernel may grant less, but always more than one such neighbour can occupy.
const SEND_BUFFER_BYTES: libc::c_int = 8 << 20;
/// Port of the discard protocol (RFC 863). A server of this protocol never sends, so no requests come from this port.
const DISCARD_PORT: u16 = 9;
/// Maximum number of free UDP ports that are tried to find one that is free on TCP too, if the caller allows any port.
const PORTS_TRIED: usize = 16;

/// Counters of a socket datapath.
#[derive(Debug)]
pub struct SocketCounts {
    /// Datagrams received.
    pub received: AtomicU64,
    /// Requests answered by the fast path.
    pub fastpath_replies: AtomicU64,
    /// Requests answered by the host.
    pub host_replies: AtomicU64,
    /// Requests that found the host's queue full. Native requests get the reply `busy`, others are dropped.
    pub queue_full: AtomicU64,
    /// Datagrams longer than the maximum payload.
    pub oversize: AtomicU64,
    /// Replies withheld because they were longer than their request, to prevent amplification.
    pub amplification: AtomicU64,
    /// TCP connections that are open now.
    pub connections: AtomicU64,
    /// TCP connections refused because the maximum number was open.
    pub connections_refused: AtomicU64,
    /// Replies by UDP that could not be sent: the send buffer was full, the kernel refused them, or their destination
    /// is a neighbour that does not resolve.
    pub unsent: AtomicU64,
    /// Drops by [`DropReason`].
    pub drops: [AtomicU64; DropReason::ALL.len()],
    /// Time in ns from the moment at which a request enters the host's queue until the host has finished the request.
    pub host_latency: Histogram,
    /// Number of requests of each batch that the host executed; empty for a host that answers one by one.
    pub host_batch: Histogram,
}

impl Default for SocketCounts {
    fn default() -> Self {
        Self {
            received: AtomicU64::default(),
            fastpath_replies: AtomicU64::default(),
            host_replies: AtomicU64::default(),
            queue_full: AtomicU64::default(),
            oversize: AtomicU64::default(),
            amplification: AtomicU64::default(),
            connections: AtomicU64::default(),
            connections_refused: AtomicU64::default(),
            unsent: AtomicU64::default(),
            drops: Default::default(),
            host_latency: Histogram::of_times(),
            host_batch: Histogram::of_counts(),
        }
    }
}

impl SocketCounts {
    fn drop(&self, reason: DropReason) {
        self.drops[reason as usize].fetch_add(1, Relaxed);
    }
}

/// Options of a socket datapath.
#[derive(Clone, Copy, Debug)]
pub struct SocketOptions {
    /// Address and port; port 0 means any free port.
    pub listen: SocketAddr,
    /// Receiving threads, at least 1.
    pub threads: usize,
    /// Maximum number of requests that wait for the host.
    pub queue: usize,
}

impl SocketOptions {
    /// Returns the number of UDP sockets of the datapath: one for each receiving thread, and one for the host.
    pub const fn sockets(&self) -> usize {
        (if self.threads == 0 { 1 } else { self.threads }) + 1
    }
}

/// Source of the UDP sockets of a datapath.
enum SocketSource {
    /// New sockets of the network namespace of this thread.
    New,
    /// Sockets of the caller.
    Given(Vec<Socket>),
}

impl SocketSource {
    /// Returns a socket that is not bound, for the family of `address`.
    fn next(&mut self, address: SocketAddr) -> io::Result<Socket> {
        match self {
            Self::New => Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP)),
            Self::Given(sockets) => {
                let too_few =
                    || io::Error::other("internal error: too few sockets were opened for the service");
                sockets.pop().ok_or_else(too_few)
            }
        }
    }
}

/// Work for the host: the request of a datagram, or one or more consecutive requests of a TCP stream.
struct QueuedRequests {
    from: Source,
    transport: Transport,
    bytes: Vec<u8>,
    count: usize,
    /// CLOCK_MONOTONIC time in ns at which the requests were received.
    received_ns: u64,
}

impl QueuedRequests {
    fn requests(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = Some(&self.bytes[..]);
        std::iter::from_fn(move || {
            let bytes = rest.take()?;
            let Transport::Stream(_) = self.transport else {
                return Some(bytes);
            };
            let packet = stream::first_packet(bytes).ok().flatten()?;
            rest = Some(&bytes[packet.len()..]);
            Some(packet)
        })
    }
}

/// Transport by which a reply returns.
enum Transport {
    Datagram(ReplyAddress),
    Stream(Arc<Writer>),
}

/// Host that answers the requests that the fast path forwards.
enum HostKind {
    /// Answers one by one, in this number of threads.
    Single(Arc<dyn Host + Send + Sync>, usize),
    Batched(Box<dyn BatchHost>),
    Async(Arc<dyn AsyncHost>),
}

/// Way in which one receiving thread passes requests to the host.
enum Dispatch {
    Single(QueueSender<QueuedRequests>),
    Batched(Sender<QueuedRequests>),
    Async(AsyncDispatch),
}

struct Shared {
    fastpath: Arc<dyn FastPath + Send + Sync>,
    counts: SocketCounts,
    progress: Progress,
    /// CLOCK_MONOTONIC time of the last refused connection, in ns; 0 if there was none.
    refused_ns: AtomicU64,
    has_streams: bool,
    takes_batches: bool,
    /// Addresses to which no reply is sent at the moment, because the kernel cannot resolve them.
    unresolved: Unresolved,
    /// CLOCK_MONOTONIC time in ns at which the oldest batch that is not durable was executed; 0 if there is none.
    undurable_since_ns: AtomicU64,
    /// Number of requests that an [`AsyncHost`] has received and not answered yet.
    open: AtomicUsize,
    stop: AtomicBool,
    local: SocketAddr,
}

impl Shared {
    /// Sends replies of a host without blocking, and counts those that could not be sent. Returns the number sent.
    fn send_datagrams(&self, socket: &UdpSocket, mut datagrams: Vec<(&ReplyAddress, Vec<u8>)>) -> u64 {
        let all = datagrams.len();
        if self.unresolved.is_any() {
            datagrams.retain(|(reply_address, _)| !self.unresolved.contains(reply_address.peer.ip()));
        }
        if all == 0 {
            return 0;
        }
        let left = batch::send_all(socket, &datagrams);
        self.progress
            .add_sends(left, datagrams.len() - left, lease::now_ns());
        self.counts.unsent.fetch_add((all - left) as u64, Relaxed);
        left as u64
    }
}

/// A fast path and its host at one port. Dropping it stops it.
pub struct SocketDatapath {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SocketDatapath {
    /// Starts the threads of a datapath, which listen at `options.listen` and answer from `fastpath` and `host`. Every
    /// thread that answers registers in `readers`.
    ///
    /// # Errors
    /// The system's error of binding the address or starting a thread; `AddrInUse` also if the port would be shared
    /// with another process.
    pub fn start(
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host: Arc<dyn Host + Send + Sync>,
        readers: &Readers,
    ) -> io::Result<Self> {
        Self::start_with(options, fastpath, HostKind::Single(host, 1), readers, &[])
    }

    /// Like [`SocketDatapath::start`], with UDP sockets that exist already, such as sockets of another network
    /// namespace. They have the family of `options.listen` and are not bound; [`SocketOptions::sockets`] is the number
    /// that is needed.
    ///
    /// # Errors
    /// See [`SocketDatapath::start`]; also if there are too few sockets.
    pub fn start_on(
        sockets: Vec<OwnedFd>,
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host: Arc<dyn Host + Send + Sync>,
        readers: &Readers,
    ) -> io::Result<Self> {
        let source = SocketSource::Given(sockets.into_iter().map(Socket::from).collect());
        Self::start_from(source, options, fastpath, HostKind::Single(host, 1), readers, &[])
    }

    /// Like [`SocketDatapath::start`], with `host_threads` threads that call the host in parallel: for a host that
    /// waits for other systems.
    ///
    /// # Errors
    /// See [`SocketDatapath::start`].
    pub fn start_with_host_threads(
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host: Arc<dyn Host + Send + Sync>,
        host_threads: usize,
        readers: &Readers,
    ) -> io::Result<Self> {
        Self::start_with(
            options,
            fastpath,
            HostKind::Single(host, host_threads.max(1)),
            readers,
            &[],
        )
    }

    /// Like [`SocketDatapath::start`], with a host that answers in batches. It listens on UDP and on TCP at the same
    /// address and port. A TCP stream carries native packets back to back, each as long as its header says; replies are
    /// sent in the order in which they become ready.
    ///
    /// # Errors
    /// See [`SocketDatapath::start`].
    pub fn start_batched(
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host: Box<dyn BatchHost>,
        readers: &Readers,
    ) -> io::Result<Self> {
        Self::start_with(options, fastpath, HostKind::Batched(host), readers, &[])
    }

    /// Like [`SocketDatapath::start_batched`], but the kernel drops datagrams that `filter` refuses. The filter is a
    /// classic BPF program that sees each datagram from its UDP header on.
    ///
    /// # Errors
    /// See [`SocketDatapath::start`].
    pub fn start_batched_with_filter(
        filter: &[SockFilter],
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host: Box<dyn BatchHost>,
        readers: &Readers,
    ) -> io::Result<Self> {
        Self::start_with(options, fastpath, HostKind::Batched(host), readers, filter)
    }

    /// Like [`SocketDatapath::start_batched_with_filter`], with UDP sockets that exist already, as for
    /// [`SocketDatapath::start_on`]. It listens on UDP only.
    ///
    /// # Errors
    /// See [`SocketDatapath::start_on`].
    pub fn start_batched_on(
        sockets: Vec<OwnedFd>,
        filter: &[SockFilter],
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host: Box<dyn BatchHost>,
        readers: &Readers,
    ) -> io::Result<Self> {
        let source = SocketSource::Given(sockets.into_iter().map(Socket::from).collect());
        Self::start_from(
            source,
            options,
            fastpath,
            HostKind::Batched(host),
            readers,
            filter,
        )
    }

    /// Like [`SocketDatapath::start`], on UDP only, with a host that answers asynchronously. The host gets each
    /// received batch as a whole; at most `options.queue` requests wait for an answer. The host may still answer its
    /// requests after the datapath has ended.
    ///
    /// # Errors
    /// See [`SocketDatapath::start`].
    pub fn start_async(
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host: Arc<dyn AsyncHost>,
        readers: &Readers,
    ) -> io::Result<Self> {
        Self::start_with(options, fastpath, HostKind::Async(host), readers, &[])
    }

    fn start_with(
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host_kind: HostKind,
        readers: &Readers,
        filter: &[SockFilter],
    ) -> io::Result<Self> {
        Self::start_from(SocketSource::New, options, fastpath, host_kind, readers, filter)
    }

    fn start_from(
        mut source: SocketSource,
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host_kind: HostKind,
        readers: &Readers,
        filter: &[SockFilter],
    ) -> io::Result<Self> {
        let streams = matches!((&host_kind, &source), (HostKind::Batched(_), SocketSource::New));
        let (sockets, listener) = bind_both(&mut source, &options, filter, streams)?;
        let local = sockets[0].local_addr()?;
        let shared = Arc::new(Shared {
            fastpath,
            counts: SocketCounts::default(),
            progress: Progress::default(),
            refused_ns: AtomicU64::new(0),
            has_streams: streams,
            takes_batches: !matches!(host_kind, HostKind::Single(..)),
            unresolved: Unresolved::default(),
            undurable_since_ns: AtomicU64::new(0),
            open: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            local,
        });
        let (sender, receiver) = crossbeam_channel::bounded(options.queue);
        let (queue_sender, queue_receiver) = queue::bounded(options.queue);
        let datapath = Self {
            shared: Arc::clone(&shared),
            threads: Mutex::default(),
        };
        let host_socket = Arc::new(bind_host(&mut source, local)?);
        let mut outlets = vec![Arc::clone(&host_socket)];
        for (index, socket) in sockets.into_iter().enumerate() {
            let (shared, reader, socket) = (Arc::clone(&shared), readers.join(), Arc::new(socket));
            outlets.push(Arc::clone(&socket));
            let dispatch = match &host_kind {
                HostKind::Async(host) => Dispatch::Async(AsyncDispatch {
                    socket: Arc::clone(&host_socket),
                    shared: Arc::clone(&shared),
                    host: Arc::clone(host),
                    queue: options.queue,
                    received: ReceivedBatch::default(),
                }),
                HostKind::Single(..) => Dispatch::Single(queue_sender.clone()),
                HostKind::Batched(_) => Dispatch::Batched(sender.clone()),
            };
            let run = move || fastpath_loop(&socket, &shared, dispatch, &reader);
            datapath.spawn(&format!("fastpath-{index}"), run)?;
        }
        match host_kind {
            HostKind::Single(host, threads) => {
                for _ in 0..threads {
                    let (socket, shared) = (Arc::clone(&host_socket), Arc::clone(&shared));
                    let (host, queue_receiver, reader) =
                        (Arc::clone(&host), queue_receiver.clone(), readers.join());
                    let run =
                        move || host::serve_one_by_one(&socket, &shared, &*host, &queue_receiver, &reader);
                    datapath.spawn("host", run)?;
                }
            }
            HostKind::Batched(host) => {
                if let Some(listener) = listener {
                    let streams = stream::listen(listener, Arc::clone(&shared), sender, readers.join())?;
                    datapath.threads().push(streams);
                }
                let shared = Arc::clone(&shared);
                let run = move || host::serve_in_batches(&host_socket, &shared, host, &receiver);
                datapath.spawn("host", run)?;
            }
            HostKind::Async(_) => {}
        }
        datapath.spawn("neighbours", move || neighbours::watch(&outlets, &shared))?;
        Ok(datapath)
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        self.threads().push(thread);
        Ok(())
    }

    /// Ends the threads; the thread of a host that answers in batches ends last. A second call does nothing.
    pub fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
        for thread in std::mem::take(&mut *self.threads()) {
            // A thread that panicked has already printed its message.
            let _ = thread.join();
        }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the address and port on which the datapath listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.local
    }

    /// Returns the counters.
    pub fn counts(&self) -> &SocketCounts {
        &self.shared.counts
    }

    /// Returns the maximum number of TCP connections, or `None` if the datapath has UDP only.
    pub fn connections_max(&self) -> Option<usize> {
        self.shared.has_streams.then_some(admission::CONNECTIONS_MAX)
    }

    /// Returns true if the host takes its requests in batches, whose sizes [`SocketCounts::host_batch`] counts.
    pub fn takes_batches(&self) -> bool {
        self.shared.takes_batches
    }

    /// Returns the time since a client without a connection was refused one because the maximum number was open, or
    /// `None` if that has not happened.
    pub fn since_refusal(&self) -> Option<Duration> {
        let refused_ns = self.shared.refused_ns.load(Relaxed);
        (refused_ns > 0).then(|| Duration::from_nanos(lease::now_ns().saturating_sub(refused_ns)))
    }

    /// Returns the number of requests that wait for the host.
    pub fn waiting(&self) -> u64 {
        self.shared.progress.waiting()
    }

    /// Returns the number of requests that were passed to the host.
    pub fn passed_to_host(&self) -> u64 {
        self.shared.progress.forwarded_count()
    }

    /// Returns the age of the oldest batch that the host has executed and that is not durable yet, or zero if there is
    /// none; `None` if the host does not answer in batches.
    pub fn durability_lag(&self) -> Option<Duration> {
        let lag_ns = match self.shared.undurable_since_ns.load(Relaxed) {
            0 => 0,
            since_ns => precise_ns().saturating_sub(since_ns),
        };
        self.shared.has_streams.then(|| Duration::from_nanos(lag_ns))
    }

    /// Returns the time for which requests have waited without any of them being finished by the host, or for which the
    /// host could not send any reply. Returns zero while the host makes progress or has nothing to do.
    pub fn stalled(&self) -> Duration {
        Duration::from_nanos(self.shared.progress.stalled_ns(lease::now_ns()))
    }
}

impl Drop for SocketDatapath {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Binds the UDP sockets of `options` and, if `streams` is true, a TCP listener at the same address. A port that is
/// free on UDP may be in use on TCP; if `options` allow any port, the function then tries other ports.
fn bind_both(
    source: &mut SocketSource,
    options: &SocketOptions,
    filter: &[SockFilter],
    streams: bool,
) -> io::Result<(Vec<UdpSocket>, Option<TcpListener>)> {
    let mut tries = if options.listen.port() == 0 {
        PORTS_TRIED
    } else {
        1
    };
    loop {
        let sockets = bind_all(source, options.listen, options.threads.max(1), filter)?;
        if !streams {
            return Ok((sockets, None));
        }
        tries -= 1;
        match TcpListener::bind(sockets[0].local_addr()?) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse && tries > 0 => {}
            listener => return Ok((sockets, Some(listener?))),
        }
    }
}

/// Binds `count` sockets to one port. With SO_REUSEPORT alone, a second process of the same user could silently take
/// half of the requests. The first socket therefore binds the port exclusively, and only then allows the others to
/// share it.
fn bind_all(
    source: &mut SocketSource,
    listen: SocketAddr,
    count: usize,
    filter: &[SockFilter],
) -> io::Result<Vec<UdpSocket>> {
    let first = bind(source, listen, false, filter)?;
    SockRef::from(&first).set_reuse_port(true)?;
    let listen = first.local_addr()?;
    let others = (1..count).map(|_| bind(source, listen, true, filter));
    std::iter::once(Ok(first)).chain(others).collect()
}

fn bind(
    source: &mut SocketSource,
    listen: SocketAddr,
    shared: bool,
    filter: &[SockFilter],
) -> io::Result<UdpSocket> {
    let socket = source.next(listen)?;
    socket.set_reuse_port(shared)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    if !filter.is_empty() {
        socket.attach_filter(filter)?;
    }
    socket.bind(&listen.into())?;
    let socket = UdpSocket::from(socket);
    batch::grow_send_buffer(&socket, SEND_BUFFER_BYTES)?;
    batch::report_ttl(&socket, listen.is_ipv6())?;
    socket.set_read_timeout(Some(STOP_CHECK_INTERVAL))?;
    if listen.ip().is_unspecified() {
        // A reply must leave from the address that the request was sent to.
        batch::report_destinations(&socket, listen.is_ipv6())?;
    }
    Ok(socket)
}

/// Returns the socket from which the host sends, bound to the port of `local`. The socket receives no requests: it is
/// connected to a port from which no datagrams come, and the kernel delivers to a connected socket only datagrams of
/// its peer. The host can still send to other addresses.
fn bind_host(source: &mut SocketSource, local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = source.next(local)?;
    socket.set_reuse_port(true)?;
    socket.bind(&local.into())?;
    let own = match local.ip() {
        IpAddr::V4(v4) if v4.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(v6) if v6.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        own => own,
    };
    let mut nobody = local;
    nobody.set_ip(own);
    nobody.set_port(DISCARD_PORT);
    socket.connect(&nobody.into())?;
    let socket = UdpSocket::from(socket);
    batch::grow_send_buffer(&socket, SEND_BUFFER_BYTES)?;
    Ok(socket)
}

impl Dispatch {
    /// Passes a request to the host. Returns `Some(true)` if the host has taken it, `Some(false)` if the host or its
    /// queue is full, and `None` if the host has ended.
    fn take(&mut self, reply_address: ReplyAddress, request: &[u8], now_ns: u64) -> Option<bool> {
        let forwarded = |reply_address: ReplyAddress| QueuedRequests {
            from: Source::from(reply_address.peer),
            transport: Transport::Datagram(reply_address),
            bytes: request.to_vec(),
            count: 1,
            received_ns: now_ns,
        };
        match self {
            Self::Async(async_host) => Some(async_host.add_request(reply_address, request)),
            Self::Single(hosts) => hosts.put(forwarded(reply_address)),
            Self::Batched(host) => match host.try_send(forwarded(reply_address)) {
                Ok(()) => Some(true),
                Err(TrySendError::Full(_)) => Some(false),
                Err(TrySendError::Disconnected(_)) => None,
            },
        }
    }
}

fn fastpath_loop(socket: &UdpSocket, shared: &Shared, mut dispatch: Dispatch, reader: &Reader) {
    let mut batch = Batch::default();
    let mut replies: Vec<(usize, Reply)> = Vec::with_capacity(BATCH);
    while !shared.stop.load(Relaxed) {
        let Ok(count) = batch.receive(socket) else { return };
        shared.counts.received.fetch_add(count as u64, Relaxed);
        let (now_ns, received_ns) = (lease::now_ns(), precise_ns());
        replies.clear();
        let (mut forwarded_count, mut busy_count) = (0, 0);
        reader.pin();
        for index in 0..count {
            let Some((reply_address, request)) = batch.get(index) else {
                shared.counts.oversize.fetch_add(1, Relaxed);
                continue;
            };
            if let Some(reason) = refuses(&reply_address, shared.local) {
                shared.counts.drop(reason);
                continue;
            }
            let mut reply = Reply::default();
            match shared
                .fastpath
                .answer(Source::from(reply_address.peer), now_ns, request, &mut reply)
            {
                Verdict::Reply if reply.as_bytes().len() <= request.len() => replies.push((index, reply)),
                Verdict::Reply => _ = shared.counts.amplification.fetch_add(1, Relaxed),
                Verdict::Drop(reason) => shared.counts.drop(reason),
                Verdict::Forward => match dispatch.take(reply_address, request, received_ns) {
                    Some(true) => forwarded_count += 1,
                    Some(false) => {
                        shared.counts.queue_full.fetch_add(1, Relaxed);
                        if busy(request, &mut reply) {
                            replies.push((index, reply));
                            busy_count += 1;
                        }
                    }
                    None => return,
                },
            }
        }
        let ready = replies.len();
        if shared.unresolved.is_any() {
            let sender = |index| batch.sender(index);
            replies.retain(|(index, _)| sender(*index).is_some_and(|to| !shared.unresolved.contains(to)));
        }
        let sent = batch.send(socket, &replies);
        reader.unpin();
        let answered = sent.saturating_sub(busy_count) as u64;
        shared.counts.fastpath_replies.fetch_add(answered, Relaxed);
        if sent < ready {
            shared.counts.unsent.fetch_add((ready - sent) as u64, Relaxed);
        }
        match &mut dispatch {
            Dispatch::Async(async_host) => async_host.submit(received_ns),
            Dispatch::Single(_) | Dispatch::Batched(_) => {
                shared.progress.add_forwarded(forwarded_count, received_ns);
            }
        }
    }
}

/// Returns the reason to drop a datagram because of its source or destination; `None` if it may be answered. The kernel
/// has already dropped datagrams whose forged source is a loopback address or an address of this machine. This function
/// refuses other addresses and ports that must not be answered, such as the service's own port; datagrams sent to
/// broadcast or multicast addresses; and packets whose hop limit was used up by two servers answering each other.
fn refuses(reply_address: &ReplyAddress, local: SocketAddr) -> Option<DropReason> {
    let mut anywhere = Endpoint::default();
    anywhere.loopback = true;
    let peer = Source::from(reply_address.peer);
    if peer.port == local.port() {
        return Some(DropReason::SourcePort);
    }
    anywhere
        .refuses_source(peer.address, peer.port)
        .or(reply_address
            .to_broadcast_or_multicast
            .then_some(DropReason::SourceAddress))
        .or(reply_address.has_no_hop_left.then_some(DropReason::HopLimit))
}

/// Writes the reply `busy` to a native request. Returns false for a request in a paper's format, which has no such
/// reply.
fn busy(request: &[u8], reply: &mut Reply) -> bool {
    match NativeHeader::ref_from_prefix(request) {
        Ok((header, _)) if native::is_native(request) => {
            reply.clear();
            reply.put(native::reply_header(header, Status::Busy, 0).as_bytes())
        }
        _ => false,
    }
}

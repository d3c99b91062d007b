//! The socket datapath: user space, any machine. Threads that share one port (SO_REUSEPORT) receive and answer in
//! batches from the fast path; host threads behind a bounded queue, mostly one, answer what the fast path forwards, one
//! by one or in groups; or a host is handed what came together, and answers when it can.

mod batch;
mod host;
mod later;
mod neighbours;
mod places;
mod progress;
mod queue;
mod stream;

use batch::{BATCH, Batch, Route};
use crossbeam_channel::{Sender, TrySendError};
use later::{Gathered, Later};
use lineside_fastpath::{
    DropReason, FastPath, GroupHost, Host, LaterHost, Reader, Readers, Reply, Source, Verdict, lease,
};
use lineside_wire::endpoint::Endpoint;
use lineside_wire::{NativeHeader, Status, native};
use neighbours::Unresolved;
use progress::Progress;
use queue::Putter;
use socket2::{Domain, Protocol, SockFilter, SockRef, Socket, Type};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use stream::Writer;
use zerocopy::{FromBytes, IntoBytes};

/// How long a thread waits before it looks whether it shall stop.
const PATIENCE: Duration = Duration::from_millis(50);
/// Receive buffer asked for, so that a burst waits instead of being lost; the kernel may give less.
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// Send buffer asked for, so that replies to neighbours that do not resolve leave room for others; the kernel may give
/// less, but more than one such neighbour takes.
const SEND_BUFFER_BYTES: libc::c_int = 8 << 20;
/// Port of the discard protocol (RFC 863), from which no request comes.
const DISCARD_PORT: u16 = 9;
/// Free ports of UDP tried, where any will do, until one is free on TCP too.
const PORTS_TRIED: usize = 16;

/// What a socket datapath counted.
#[derive(Debug, Default)]
pub struct SocketCounts {
    /// Datagrams that came.
    pub received: AtomicU64,
    /// Requests answered by the fast path.
    pub fastpath_replies: AtomicU64,
    /// Requests answered by the host.
    pub host_replies: AtomicU64,
    /// Requests that found the host's queue full: native ones are answered `busy`, others dropped.
    pub queue_full: AtomicU64,
    /// Datagrams longer than any request.
    pub oversize: AtomicU64,
    /// Replies withheld because they were longer than their request (rule 5).
    pub amplification: AtomicU64,
    /// TCP connections that are open.
    pub connections: AtomicU64,
    /// TCP connections that were refused because all places were taken.
    pub connections_refused: AtomicU64,
    /// Replies by UDP that could not leave: the send buffer was full, the kernel refused them, or their destination is
    /// a neighbour that does not resolve.
    pub unsent: AtomicU64,
    /// Drops by [`DropReason`].
    pub drops: [AtomicU64; DropReason::ALL.len()],
}

impl SocketCounts {
    fn drop(&self, reason: DropReason) {
        self.drops[reason as usize].fetch_add(1, Relaxed);
    }
}

/// How a socket datapath runs.
#[derive(Clone, Copy, Debug)]
pub struct SocketOptions {
    /// Address and port; port 0: any free one.
    pub listen: SocketAddr,
    /// Receiving threads, at least 1.
    pub threads: usize,
    /// Requests that may wait for the host.
    pub queue: usize,
}

/// On its way to the host: a datagram's request, or those of a stream that came together, one behind the other.
struct Forwarded {
    from: Source,
    way: Way,
    bytes: Vec<u8>,
    count: usize,
}

impl Forwarded {
    fn requests(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = Some(&self.bytes[..]);
        std::iter::from_fn(move || {
            let bytes = rest.take()?;
            let Way::Stream(_) = self.way else {
                return Some(bytes);
            };
            let packet = stream::first_packet(bytes).ok().flatten()?;
            rest = Some(&bytes[packet.len()..]);
            Some(packet)
        })
    }
}

/// How its reply goes back.
enum Way {
    Datagram(Route),
    Stream(Arc<Writer>),
}

/// Who answers what the fast path forwards.
enum Answerer {
    /// One by one, by so many threads.
    Each(Arc<dyn Host + Send + Sync>, usize),
    Groups(Box<dyn GroupHost>),
    Later(Arc<dyn LaterHost>),
}

/// The way from the fast path to the host, for one receiving thread.
enum Onward {
    Queue(Putter<Forwarded>),
    Groups(Sender<Forwarded>),
    Later(Later),
}

struct Shared {
    fastpath: Arc<dyn FastPath + Send + Sync>,
    counts: SocketCounts,
    progress: Progress,
    /// Time of the last refused connection, CLOCK_MONOTONIC; 0: none was.
    refused_ns: AtomicU64,
    has_streams: bool,
    /// Addresses to which nothing is sent at the moment.
    unresolved: Unresolved,
    /// Requests that a host which answers later has not answered.
    open: AtomicUsize,
    stop: AtomicBool,
    local: SocketAddr,
}

impl Shared {
    /// Sends the replies of a host without waiting, and counts those that could not leave. Returns how many left.
    fn send_datagrams(&self, socket: &UdpSocket, mut datagrams: Vec<(&Route, Vec<u8>)>) -> u64 {
        let all = datagrams.len();
        if self.unresolved.is_any() {
            datagrams.retain(|(route, _)| !self.unresolved.contains(route.peer.ip()));
        }
        if all == 0 {
            return 0;
        }
        let left = batch::send_all(socket, &datagrams);
        self.progress.sent(left, datagrams.len() - left, lease::now_ns());
        self.counts.unsent.fetch_add((all - left) as u64, Relaxed);
        left as u64
    }
}

/// A fast path and its host behind one UDP port, until it is dropped.
pub struct SocketDatapath {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl SocketDatapath {
    /// Listens, and answers from `fastpath` and `host`; every thread joins `readers`.
    ///
    /// # Errors
    /// What the system says of the address or the threads; `AddrInUse` also where another process would share the port.
    pub fn start(
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host: Arc<dyn Host + Send + Sync>,
        readers: &Readers,
    ) -> io::Result<Self> {
        Self::start_with(options, fastpath, Answerer::Each(host, 1), readers, &[])
    }

    /// The same with `host_threads` threads that ask the host side by side: for one that waits for others.
    ///
    /// # Errors
    /// As [`SocketDatapath::start`].
    pub fn start_side_by_side(
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host: Arc<dyn Host + Send + Sync>,
        host_threads: usize,
        readers: &Readers,
    ) -> io::Result<Self> {
        Self::start_with(
            options,
            fastpath,
            Answerer::Each(host, host_threads.max(1)),
            readers,
            &[],
        )
    }

    /// The same with a host that answers in groups, on UDP and, at the same address and port, on TCP: native packets
    /// one after the other, each as long as its header says, and replies in the order in which they are ready.
    ///
    /// # Errors
    /// As [`SocketDatapath::start`].
    pub fn start_in_groups(
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host: Box<dyn GroupHost>,
        readers: &Readers,
    ) -> io::Result<Self> {
        Self::start_with(options, fastpath, Answerer::Groups(host), readers, &[])
    }

    /// [`SocketDatapath::start_in_groups`], where datagrams that `filter` refuses end in the kernel. It is a program of
    /// classic BPF, and sees them from their UDP header on.
    ///
    /// # Errors
    /// As [`SocketDatapath::start`].
    pub fn start_in_groups_behind(
        filter: &[SockFilter],
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host: Box<dyn GroupHost>,
        readers: &Readers,
    ) -> io::Result<Self> {
        Self::start_with(options, fastpath, Answerer::Groups(host), readers, filter)
    }

    /// The same with a host that answers later, on UDP alone. What came together is handed to it together;
    /// `options.queue` requests at most wait for their answers. The host may still answer what it took when the
    /// datapath has ended.
    ///
    /// # Errors
    /// As [`SocketDatapath::start`].
    pub fn start_later(
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        host: Arc<dyn LaterHost>,
        readers: &Readers,
    ) -> io::Result<Self> {
        Self::start_with(options, fastpath, Answerer::Later(host), readers, &[])
    }

    fn start_with(
        options: SocketOptions,
        fastpath: Arc<dyn FastPath + Send + Sync>,
        answerer: Answerer,
        readers: &Readers,
        filter: &[SockFilter],
    ) -> io::Result<Self> {
        let streams = matches!(answerer, Answerer::Groups(_));
        let (sockets, listener) = bind_both(&options, filter, streams)?;
        let local = sockets[0].local_addr()?;
        let shared = Arc::new(Shared {
            fastpath,
            counts: SocketCounts::default(),
            progress: Progress::default(),
            refused_ns: AtomicU64::new(0),
            has_streams: streams,
            unresolved: Unresolved::default(),
            open: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            local,
        });
        let (sender, receiver) = crossbeam_channel::bounded(options.queue);
        let (putter, taker) = queue::bounded(options.queue);
        let datapath = Self {
            shared: Arc::clone(&shared),
            threads: Mutex::default(),
        };
        let host_socket = Arc::new(bind_host(local)?);
        let mut outlets = vec![Arc::clone(&host_socket)];
        for (index, socket) in sockets.into_iter().enumerate() {
            let (shared, reader, socket) = (Arc::clone(&shared), readers.join(), Arc::new(socket));
            outlets.push(Arc::clone(&socket));
            let onward = match &answerer {
                Answerer::Later(host) => Onward::Later(Later {
                    socket: Arc::clone(&host_socket),
                    shared: Arc::clone(&shared),
                    host: Arc::clone(host),
                    queue: options.queue,
                    gathered: Gathered::default(),
                }),
                Answerer::Each(..) => Onward::Queue(putter.clone()),
                Answerer::Groups(_) => Onward::Groups(sender.clone()),
            };
            let run = move || fastpath_loop(&socket, &shared, onward, &reader);
            datapath.spawn(&format!("fastpath-{index}"), run)?;
        }
        match answerer {
            Answerer::Each(host, threads) => {
                for _ in 0..threads {
                    let (socket, shared) = (Arc::clone(&host_socket), Arc::clone(&shared));
                    let (host, taker, reader) = (Arc::clone(&host), taker.clone(), readers.join());
                    let run = move || host::one_by_one(&socket, &shared, &*host, &taker, &reader);
                    datapath.spawn("host", run)?;
                }
            }
            Answerer::Groups(host) => {
                if let Some(listener) = listener {
                    let streams = stream::listen(listener, Arc::clone(&shared), sender, readers.join())?;
                    datapath.threads().push(streams);
                }
                let shared = Arc::clone(&shared);
                let run = move || host::in_groups(&host_socket, &shared, host, &receiver);
                datapath.spawn("host", run)?;
            }
            Answerer::Later(_) => {}
        }
        datapath.spawn("neighbours", move || neighbours::watch(&outlets, &shared))?;
        Ok(datapath)
    }

    fn spawn(&self, name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        self.threads().push(thread);
        Ok(())
    }

    /// Ends its threads, a host that answers in groups last. Again is the same as once.
    pub fn stop(&self) {
        self.shared.stop.store(true, Relaxed);
        for thread in std::mem::take(&mut *self.threads()) {
            // A thread that panicked has said so already; there is nothing to add here.
            let _ = thread.join();
        }
    }

    fn threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.local
    }

    /// What it counted so far.
    pub fn counts(&self) -> &SocketCounts {
        &self.shared.counts
    }

    /// Number of places for TCP connections; `None` where the datapath is UDP alone.
    pub fn connection_places(&self) -> Option<usize> {
        self.shared.has_streams.then_some(places::PLACES)
    }

    /// Time since a TCP connection of a client that had none was refused because all places were taken; `None`: none
    /// was.
    pub fn since_refusal(&self) -> Option<Duration> {
        let refused_ns = self.shared.refused_ns.load(Relaxed);
        (refused_ns > 0).then(|| Duration::from_nanos(lease::now_ns().saturating_sub(refused_ns)))
    }

    /// Number of requests that wait for the host.
    pub fn waiting(&self) -> u64 {
        self.shared.progress.waiting()
    }

    /// Time for which the host has dealt with none of the requests that wait for it, or has got none of its replies
    /// out; zero while it works or has nothing to do.
    pub fn stalled(&self) -> Duration {
        Duration::from_nanos(self.shared.progress.stalled_ns(lease::now_ns()))
    }
}

impl Drop for SocketDatapath {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The sockets of `options`, and with `streams` a listener at the same address. A port that is free on UDP may be taken
/// on TCP; where any free one was asked for, others are tried.
fn bind_both(
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
        let sockets = bind_all(options.listen, options.threads.max(1), filter)?;
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

/// `count` sockets on one port. SO_REUSEPORT would let a second process of the same user take half of the requests
/// without a word, so the first takes the port alone, and only then shares it with the others.
fn bind_all(listen: SocketAddr, count: usize, filter: &[SockFilter]) -> io::Result<Vec<UdpSocket>> {
    let first = bind(listen, false, filter)?;
    SockRef::from(&first).set_reuse_port(true)?;
    let listen = first.local_addr()?;
    let others = (1..count).map(|_| bind(listen, true, filter));
    std::iter::once(Ok(first)).chain(others).collect()
}

fn bind(listen: SocketAddr, shared: bool, filter: &[SockFilter]) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(listen), Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_reuse_port(shared)?;
    socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES)?;
    if !filter.is_empty() {
        socket.attach_filter(filter)?;
    }
    socket.bind(&listen.into())?;
    let socket = UdpSocket::from(socket);
    batch::grow_send_buffer(&socket, SEND_BUFFER_BYTES)?;
    batch::tell_ttl(&socket, listen.is_ipv6())?;
    socket.set_read_timeout(Some(PATIENCE))?;
    if listen.ip().is_unspecified() {
        // Replies must leave from the address that was asked.
        batch::tell_destinations(&socket, listen.is_ipv6())?;
    }
    Ok(socket)
}

/// Socket that the host sends from, at the port of `local`. It gets no requests: it is connected to a port that nobody
/// sends from, and the kernel gives a connected socket the datagrams of its peer alone. It may still send to others.
fn bind_host(local: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::for_address(local), Type::DGRAM, Some(Protocol::UDP))?;
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

impl Onward {
    /// Whether the host, or its queue, has room for a request; `None`: the host has ended.
    fn take(&mut self, route: Route, request: &[u8]) -> Option<bool> {
        let forwarded = |route: Route| Forwarded {
            from: Source::from(route.peer),
            way: Way::Datagram(route),
            bytes: request.to_vec(),
            count: 1,
        };
        match self {
            Self::Later(later) => Some(later.gather(route, request)),
            Self::Queue(hosts) => hosts.put(forwarded(route)),
            Self::Groups(host) => match host.try_send(forwarded(route)) {
                Ok(()) => Some(true),
                Err(TrySendError::Full(_)) => Some(false),
                Err(TrySendError::Disconnected(_)) => None,
            },
        }
    }
}

fn fastpath_loop(socket: &UdpSocket, shared: &Shared, mut onward: Onward, reader: &Reader) {
    let mut batch = Batch::default();
    let mut replies: Vec<(usize, Reply)> = Vec::with_capacity(BATCH);
    while !shared.stop.load(Relaxed) {
        let Ok(count) = batch.receive(socket) else { return };
        shared.counts.received.fetch_add(count as u64, Relaxed);
        let now_ns = lease::now_ns();
        replies.clear();
        let mut handed = 0;
        reader.enter();
        for index in 0..count {
            let Some((route, request)) = batch.get(index) else {
                shared.counts.oversize.fetch_add(1, Relaxed);
                continue;
            };
            if let Some(reason) = refuses(&route, shared.local) {
                shared.counts.drop(reason);
                continue;
            }
            let mut reply = Reply::default();
            match shared
                .fastpath
                .answer(Source::from(route.peer), now_ns, request, &mut reply)
            {
                Verdict::Reply if reply.as_bytes().len() <= request.len() => replies.push((index, reply)),
                Verdict::Reply => _ = shared.counts.amplification.fetch_add(1, Relaxed),
                Verdict::Drop(reason) => shared.counts.drop(reason),
                Verdict::Forward => match onward.take(route, request) {
                    Some(true) => handed += 1,
                    Some(false) => {
                        shared.counts.queue_full.fetch_add(1, Relaxed);
                        if busy(request, &mut reply) {
                            replies.push((index, reply));
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
        reader.leave();
        shared.counts.fastpath_replies.fetch_add(sent as u64, Relaxed);
        if sent < ready {
            shared.counts.unsent.fetch_add((ready - sent) as u64, Relaxed);
        }
        match &mut onward {
            Onward::Later(later) => later.hand_over(),
            Onward::Queue(_) | Onward::Groups(_) => shared.progress.hand(handed, now_ns),
        }
    }
}

/// Own and loopback sources are the kernel's to refuse here; what is left are addresses and ports that nobody may
/// answer to, our own port among them, requests sent to everybody, and what comes back to us again and again.
fn refuses(route: &Route, local: SocketAddr) -> Option<DropReason> {
    let mut anywhere = Endpoint::default();
    anywhere.loopback = true;
    let peer = Source::from(route.peer);
    if peer.port == local.port() {
        return Some(DropReason::SourcePort);
    }
    anywhere
        .refuses_source(peer.address, peer.port)
        .or(route.to_everybody.then_some(DropReason::SourceAddress))
        .or(route.has_no_hop_left.then_some(DropReason::HopLimit))
}

/// The reply to a native request that found no room; `false`: the paper's formats have no such answer.
fn busy(request: &[u8], reply: &mut Reply) -> bool {
    match NativeHeader::ref_from_prefix(request) {
        Ok((header, _)) if native::is_native(request) => {
            reply.clear();
            reply.put(native::reply_header(header, Status::Busy, 0).as_bytes())
        }
        _ => false,
    }
}

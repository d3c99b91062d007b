//! Serves native packets over TCP. One thread reads from all connections. It also writes the output that a client could
//! not receive at once.
//!
//! Replies are sent in the order in which they become ready: replies of the fast path before those of the host. Clients
//! match replies to requests by their request id. If the input is not a native packet, the server closes the
//! connection. A client that has shut down its sending side gets the replies to everything it has sent; then the server
//! closes the connection.

use super::admission::{self, Admission, OpenConnection};
use super::clock::precise_ns;
use super::{QueuedRequests, STOP_CHECK_INTERVAL, Shared, Transport};
use crossbeam_channel::{SendTimeoutError, Sender};
use lineside_fastpath::{PAYLOAD_BYTES_MAX, Reader, Reply, Source, Verdict, lease};
use lineside_util::log_limit::LogLimit;
use lineside_util::network::network_of;
use lineside_wire::{NATIVE_MAGIC, NativeHeader};
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use zerocopy::FromBytes;

/// Maximum number of bytes of replies that wait for a client to read them. A connection with more is closed.
const BACKLOG_BYTES: usize = 1 << 20;
/// Time for which replies may wait for a client, or a packet may be incomplete, before the connection is closed.
const CLIENT_STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of bytes that are read from a connection before the next connection is read.
const TURN_BYTES: usize = 64 << 10;
/// Maximum number of readiness events per poll.
const EVENTS: usize = 256;
const LISTENER: Token = Token(usize::MAX);

/// Accepts connections of `listener` and answers them, until the datapath stops.
pub(super) fn listen(
    listener: std::net::TcpListener,
    shared: Arc<Shared>,
    host: Sender<QueuedRequests>,
    reader: Reader,
) -> io::Result<JoinHandle<()>> {
    listener.set_nonblocking(true)?;
    let mut listener = TcpListener::from_std(listener);
    let poll = Poll::new()?;
    poll.registry()
        .register(&mut listener, LISTENER, Interest::READABLE)?;
    let streams = Streams {
        poll,
        listener,
        open: HashMap::new(),
        readable: VecDeque::new(),
        next: 0,
        read_buffer: vec![0; TURN_BYTES].into_boxed_slice(),
        host,
        shared,
        reader,
    };
    std::thread::Builder::new()
        .name("streams".into())
        .spawn(move || streams.run())
}

/// Output of a connection. The host's thread and the thread that reads the connections both write to it.
pub(super) struct Writer {
    stream: TcpStream,
    out: Mutex<Output>,
    /// Number of requests of this connection that the host has received and not finished.
    pending: AtomicUsize,
}

#[derive(Default)]
struct Output {
    bytes: Vec<u8>,
    sent: usize,
    /// Time since which the client has accepted no byte of the waiting output.
    stuck: Option<Instant>,
    /// True once the client has shut down its sending side: the connection ends after the last reply.
    is_last: bool,
    ended: bool,
}

impl Writer {
    fn out(&self) -> MutexGuard<'_, Output> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a reply, which the next [`Writer::flush`] sends. Returns false if the connection has ended.
    pub(super) fn put(&self, reply: &[u8]) -> bool {
        let mut out = self.out();
        let waiting = out.bytes.len() - out.sent;
        if waiting > 0 && waiting + reply.len() > BACKLOG_BYTES {
            self.shut(&mut out);
        }
        if !out.ended {
            out.bytes.extend_from_slice(reply);
        }
        !out.ended
    }

    /// Writes as much as the client accepts now. The thread that reads the connections writes the rest later.
    pub(super) fn flush(&self) {
        let mut out = self.out();
        while out.sent < out.bytes.len() && !out.ended {
            match (&self.stream).write(&out.bytes[out.sent..]) {
                Ok(count) => {
                    out.sent += count;
                    out.stuck = None;
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => {
                        out.stuck.get_or_insert_with(Instant::now);
                        let sent = std::mem::take(&mut out.sent);
                        out.bytes.drain(..sent);
                        return;
                    }
                    ErrorKind::Interrupted => {}
                    _ => self.shut(&mut out),
                },
            }
        }
        out.bytes.clear();
        out.sent = 0;
        if out.is_last && self.pending.load(Relaxed) == 0 {
            self.shut(&mut out);
        }
    }

    /// Counts `count` requests as finished by the host. The caller calls [`Writer::flush`] afterwards.
    pub(super) fn finish(&self, count: usize) {
        self.pending.fetch_sub(count, Relaxed);
    }

    /// Ends the connection after the host has finished every request and all replies were sent.
    fn end_with_last_reply(&self) {
        self.out().is_last = true;
        self.flush();
    }

    fn has_ended(&self) -> bool {
        self.out().ended
    }

    fn is_stuck(&self) -> bool {
        let stuck = self.out().stuck;
        stuck.is_some_and(|since| since.elapsed() > CLIENT_STALL_TIMEOUT)
    }

    fn end(&self) {
        self.shut(&mut self.out());
    }

    fn shut(&self, out: &mut Output) {
        out.ended = true;
        // The connection may have ended already, so an error is ignored. The thread that reads the connections sees the
        // shutdown as the end of the input.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

/// A connection, with the input that is not yet a complete packet.
struct Connection {
    from: Source,
    /// Network that the connection counts towards, for the limit of connections of one network.
    network: IpAddr,
    /// Time of the last request, or of the connection's start.
    last_used: Instant,
    writer: Arc<Writer>,
    input: Vec<u8>,
    /// Time since which the input ends with an incomplete packet.
    incomplete_since: Option<Instant>,
    /// True while the connection is in `Streams::readable`.
    is_queued: bool,
}

/// All connections.
struct Streams {
    poll: Poll,
    listener: TcpListener,
    open: HashMap<Token, Connection>,
    /// Connections that may have more input to read.
    readable: VecDeque<Token>,
    next: usize,
    read_buffer: Box<[u8]>,
    host: Sender<QueuedRequests>,
    shared: Arc<Shared>,
    reader: Reader,
}

impl Streams {
    fn run(mut self) {
        let mut events = Events::with_capacity(EVENTS);
        let mut checked = Instant::now();
        while !self.shared.stop.load(Relaxed) {
            let wait = if self.readable.is_empty() {
                STOP_CHECK_INTERVAL
            } else {
                Duration::ZERO
            };
            match self.poll.poll(&mut events, Some(wait)) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            }
            for event in &events {
                match self.open.get_mut(&event.token()) {
                    None if event.token() == LISTENER => self.accept(),
                    // The connection was closed in the meantime.
                    None => {}
                    Some(connection) => {
                        if event.is_writable() {
                            connection.writer.flush();
                        }
                        if !std::mem::replace(&mut connection.is_queued, true) {
                            self.readable.push_back(event.token());
                        }
                    }
                }
            }
            for _ in 0..self.readable.len() {
                self.read_next();
            }
            if checked.elapsed() > STOP_CHECK_INTERVAL {
                checked = Instant::now();
                self.open.retain(|_, connection| {
                    let has_stalled = |since: Instant| since.elapsed() > CLIENT_STALL_TIMEOUT;
                    let is_stuck =
                        connection.writer.is_stuck() || connection.incomplete_since.is_some_and(has_stalled);
                    if is_stuck {
                        connection.writer.end();
                    }
                    !is_stuck && !connection.writer.has_ended()
                });
                self.count();
            }
        }
    }

    fn accept(&mut self) {
        while let Ok((stream, peer)) = self.listener.accept() {
            let connections: Vec<OpenConnection<Token>> = self
                .open
                .iter()
                .map(|(token, connection)| OpenConnection {
                    token: *token,
                    network: connection.network,
                    last_used: connection.last_used,
                })
                .collect();
            // A refused connection is closed when `stream` is dropped. The client sees that its connection ended.
            match admission::admit(&connections, network_of(peer.ip()), Instant::now()) {
                Admission::Free => {}
                Admission::Replace(token) => self.close(token),
                Admission::NetworkLimit => {
                    log_refusal(
                        peer,
                        "the client's network already has the maximum number of connections",
                    );
                    continue;
                }
                Admission::FairShareReached => {
                    log_refusal(
                        peer,
                        "the maximum number of connections is open, and the client's network has some of them",
                    );
                    self.shared.counts.connections_refused.fetch_add(1, Relaxed);
                    continue;
                }
                Admission::Full => {
                    log_refusal(peer, "the maximum number of connections is open");
                    self.shared.counts.connections_refused.fetch_add(1, Relaxed);
                    self.shared.refused_ns.store(lease::now_ns(), Relaxed);
                    continue;
                }
            }
            let _ = self.start(stream, peer);
        }
        self.count();
    }

    fn close(&mut self, token: Token) {
        if let Some(connection) = self.open.remove(&token) {
            connection.writer.end();
        }
    }

    fn count(&self) {
        self.shared
            .counts
            .connections
            .store(self.open.len() as u64, Relaxed);
    }

    fn start(&mut self, mut stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let token = Token(self.next);
        self.next += 1;
        self.poll
            .registry()
            .register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        let connection = Connection {
            from: Source::from(peer),
            network: network_of(peer.ip()),
            last_used: Instant::now(),
            writer: Arc::new(Writer {
                stream,
                out: Mutex::default(),
                pending: AtomicUsize::new(0),
            }),
            input: Vec::new(),
            incomplete_since: None,
            is_queued: false,
        };
        self.open.insert(token, connection);
        Ok(())
    }

    /// Reads once from the connection whose turn it is, and answers the packets that are complete.
    fn read_next(&mut self) {
        let Some(token) = self.readable.pop_front() else {
            return;
        };
        let Some(connection) = self.open.get_mut(&token) else {
            return;
        };
        match read(connection, &mut self.read_buffer) {
            Ok(ReadOutcome::Nothing) => connection.is_queued = false,
            Ok(ReadOutcome::Bytes) if answer(connection, &self.shared, &self.host, &self.reader).is_ok() => {
                self.readable.push_back(token);
            }
            Ok(ReadOutcome::End) if connection.input.is_empty() => {
                connection.is_queued = false;
                connection.writer.end_with_last_reply();
            }
            // The client sees the end of its connection, so the server does not report it.
            Ok(ReadOutcome::Bytes | ReadOutcome::End) | Err(_) => self.close(token),
        }
    }
}

/// Logs that a TCP connection was refused, but at most once in ten seconds.
fn log_refusal(peer: SocketAddr, why: &str) {
    static LIMIT: LogLimit = LogLimit::new(Duration::from_secs(10));
    if let Some(left_out) = LIMIT.admit() {
        let address = peer.ip();
        tracing::info!(%address, not_logged = left_out, "a TCP connection is refused: {why}");
    }
}

/// Result of reading from a connection.
enum ReadOutcome {
    /// Bytes were added to the input.
    Bytes,
    /// No more bytes are available at the moment.
    Nothing,
    /// The client has shut down its sending side.
    End,
}

/// Reads once, and appends the bytes to the input of the connection.
fn read(connection: &mut Connection, read_buffer: &mut [u8]) -> io::Result<ReadOutcome> {
    loop {
        match (&connection.writer.stream).read(read_buffer) {
            Ok(0) => return Ok(ReadOutcome::End),
            Ok(count) => {
                connection.input.extend_from_slice(&read_buffer[..count]);
                return Ok(ReadOutcome::Bytes);
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => return Ok(ReadOutcome::Nothing),
                ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
}

/// Answers all complete packets, from the fast path or through the host.
fn answer(
    connection: &mut Connection,
    shared: &Shared,
    host: &Sender<QueuedRequests>,
    reader: &Reader,
) -> io::Result<()> {
    let Connection {
        from,
        writer,
        input,
        incomplete_since,
        last_used,
        ..
    } = connection;
    let (mut at, mut bytes, mut count) = (0, Vec::new(), 0);
    reader.pin();
    let parsed = loop {
        match first_packet(&input[at..]) {
            Ok(Some(request)) => {
                at += request.len();
                if !fastpath(*from, request, shared, writer) {
                    bytes.extend_from_slice(request);
                    count += 1;
                }
            }
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    writer.flush();
    reader.unpin();
    input.drain(..at);
    if at > 0 {
        *last_used = Instant::now();
    }
    match (input.is_empty(), at) {
        (true, _) => *incomplete_since = None,
        (false, 0) => _ = incomplete_since.get_or_insert_with(Instant::now),
        (false, _) => *incomplete_since = Some(Instant::now()),
    }
    if count == 0 {
        return parsed;
    }
    let now_ns = precise_ns();
    shared.progress.add_forwarded(count as u64, now_ns);
    writer.pending.fetch_add(count, Relaxed);
    let mut waiting = QueuedRequests {
        from: *from,
        transport: Transport::Stream(Arc::clone(writer)),
        bytes,
        count,
        received_ns: now_ns,
    };
    // For TCP, the server waits for room in the queue instead of sending a `busy` reply.
    while let Err(error) = host.send_timeout(waiting, STOP_CHECK_INTERVAL) {
        match error {
            SendTimeoutError::Timeout(_) if shared.stop.load(Relaxed) => {
                return Err(ErrorKind::ConnectionAborted.into());
            }
            SendTimeoutError::Timeout(back) => waiting = back,
            SendTimeoutError::Disconnected(_) => return Err(ErrorKind::BrokenPipe.into()),
        }
    }
    parsed
}

/// Returns the packet at the start of `input`, or `None` if it is incomplete.
pub(super) fn first_packet(input: &[u8]) -> io::Result<Option<&[u8]>> {
    let Ok((header, _)) = NativeHeader::ref_from_prefix(input) else {
        return Ok(None);
    };
    if header.magic.get() != NATIVE_MAGIC {
        return Err(ErrorKind::InvalidData.into());
    }
    let bytes = size_of::<NativeHeader>() + usize::from(header.length.get());
    Ok(input.get(..bytes))
}

/// Answers a request from the fast path. Returns false if the host must answer it.
fn fastpath(from: Source, request: &[u8], shared: &Shared, writer: &Writer) -> bool {
    if request.len() > PAYLOAD_BYTES_MAX {
        return false;
    }
    let mut reply = Reply::default();
    match shared.fastpath.answer(from, lease::now_ns(), request, &mut reply) {
        Verdict::Reply => {
            if writer.put(reply.as_bytes()) {
                shared.counts.fastpath_replies.fetch_add(1, Relaxed);
            }
            true
        }
        Verdict::Drop(_) | Verdict::Forward => false,
    }
}

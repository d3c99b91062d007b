//! Native packets over TCP: each connection has a thread that reads requests and one that writes replies.
//!
//! Replies come in the order in which they are ready, near's before the host's: clients tell them apart by their
//! request id. What is not a native packet ends the connection.

use super::{Forwarded, PATIENCE, Shared, Way};
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender};
use lineside_near::{PAYLOAD_BYTES_MAX, Reader, Readers, Reply, Source, Verdict, lease};
use lineside_wire::{NATIVE_MAGIC, NativeHeader};
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;
use zerocopy::FromBytes;

/// Connections at a time; more are closed as they come.
const CONNECTIONS: usize = 512;
/// Replies that may wait for a client to take them; one that leaves more loses its connection.
const REPLIES: usize = 4096;
/// How long one write may wait for a client.
const SLOW: Duration = Duration::from_secs(10);

/// Takes connections at `listen` until the plane stops.
pub(super) fn listen(
    listen: SocketAddr,
    shared: Arc<Shared>,
    host: Sender<Forwarded>,
    readers: &Readers,
) -> io::Result<JoinHandle<()>> {
    let readers = readers.clone();
    let listener = TcpListener::bind(listen)?;
    // Looked at once in PATIENCE: an accept that waits could not be told to stop.
    listener.set_nonblocking(true)?;
    let run = move || {
        let open = Arc::new(AtomicUsize::new(0));
        while !shared.stop.load(Relaxed) {
            match listener.accept() {
                Ok((stream, peer)) => {
                    if open.load(Relaxed) < CONNECTIONS {
                        // What cannot be set up is closed: the client sees it.
                        let _ = start(stream, peer, &shared, &host, &open, readers.join());
                    }
                }
                Err(_) => wait_readable(&listener),
            }
        }
    };
    std::thread::Builder::new().name("accept".into()).spawn(run)
}

fn wait_readable(listener: &TcpListener) {
    use std::os::fd::AsRawFd;
    let mut poll = libc::pollfd {
        fd: listener.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: one pollfd that outlives the call.
    unsafe { libc::poll(&mut poll, 1, PATIENCE.as_millis() as libc::c_int) };
}

/// Counts a connection as long as it is there.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

fn start(
    stream: TcpStream,
    peer: SocketAddr,
    shared: &Arc<Shared>,
    host: &Sender<Forwarded>,
    open: &Arc<AtomicUsize>,
    reader: Reader,
) -> io::Result<()> {
    open.fetch_add(1, Relaxed);
    let count = Open(Arc::clone(open));
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(SLOW))?;
    let out = stream.try_clone()?;
    let (replies, ready) = crossbeam_channel::bounded(REPLIES);
    std::thread::Builder::new()
        .name("stream-out".into())
        .spawn(move || write(out, &ready))?;
    let (shared, host) = (Arc::clone(shared), host.clone());
    let run = move || {
        let _count = count;
        // Why a connection ended is the client's to see.
        let _ = read(&stream, peer, &shared, &host, &replies, &reader);
        let _ = stream.shutdown(std::net::Shutdown::Read);
    };
    std::thread::Builder::new().name("stream-in".into()).spawn(run)?;
    Ok(())
}

/// Writes replies until nobody has any more, or the client does not take them.
fn write(stream: TcpStream, ready: &Receiver<Vec<u8>>) {
    let mut out = BufWriter::with_capacity(64 << 10, &stream);
    let mut written = Ok(());
    while written.is_ok() {
        let reply = match ready.try_recv() {
            Ok(reply) => reply,
            Err(_) => {
                written = out.flush();
                match ready.recv_timeout(SLOW) {
                    Ok(reply) => reply,
                    Err(RecvTimeoutError::Timeout) => continue,
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        };
        written = written.and_then(|()| out.write_all(&reply));
    }
    let _ = out.flush();
    // Also ends the reader, where it was the client that did not take its replies.
    let _ = stream.shutdown(std::net::Shutdown::Both);
}

/// Reads packets until the client ends, or sends what is none.
fn read(
    stream: &TcpStream,
    peer: SocketAddr,
    shared: &Shared,
    host: &Sender<Forwarded>,
    replies: &Sender<Vec<u8>>,
    reader: &Reader,
) -> io::Result<()> {
    let from = Source::from(peer);
    let mut input = BufReader::with_capacity(64 << 10, stream);
    loop {
        let mut request = vec![0; size_of::<NativeHeader>()];
        read_exact(&mut input, &mut request, shared)?;
        let Ok((header, _)) = NativeHeader::ref_from_prefix(&request) else {
            return Err(ErrorKind::InvalidData.into());
        };
        if header.magic.get() != NATIVE_MAGIC {
            return Err(ErrorKind::InvalidData.into());
        }
        let body = request.len() + usize::from(header.length.get());
        request.resize(body, 0);
        read_exact(&mut input, &mut request[size_of::<NativeHeader>()..], shared)?;
        reader.enter();
        let answered = near(from, &request, shared);
        reader.leave();
        if let Some(reply) = answered {
            replies
                .try_send(reply)
                .map_err(|_| io::Error::from(ErrorKind::WouldBlock))?;
            continue;
        }
        let mut waiting = Forwarded {
            from,
            way: Way::Stream(replies.clone()),
            request,
        };
        // A stream waits for its turn instead of being told `busy`.
        loop {
            match host.send_timeout(waiting, PATIENCE) {
                Ok(()) => break,
                Err(SendTimeoutError::Timeout(back)) => waiting = back,
                Err(SendTimeoutError::Disconnected(_)) => return Err(ErrorKind::BrokenPipe.into()),
            }
            stopped(shared)?;
        }
    }
}

/// Near's reply, where it is near's to answer.
fn near(from: Source, request: &[u8], shared: &Shared) -> Option<Vec<u8>> {
    if request.len() > PAYLOAD_BYTES_MAX {
        return None;
    }
    let mut reply = Reply::default();
    match shared.near.answer(from, lease::now_ns(), request, &mut reply) {
        Verdict::Reply => {
            shared.counts.near_replies.fetch_add(1, Relaxed);
            Some(reply.as_bytes().to_vec())
        }
        Verdict::Drop(_) | Verdict::Forward => None,
    }
}

fn stopped(shared: &Shared) -> io::Result<()> {
    match shared.stop.load(Relaxed) {
        true => Err(ErrorKind::ConnectionAborted.into()),
        false => Ok(()),
    }
}

/// Fills `bytes`, looking now and then whether the plane stops.
fn read_exact(input: &mut impl Read, mut bytes: &mut [u8], shared: &Shared) -> io::Result<()> {
    while !bytes.is_empty() {
        match input.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => stopped(shared)?,
                ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
    Ok(())
}

//! A connection to one service of a server. It carries the calls of many threads at the same time; each call has a
//! number, by which its answer is recognised.
//!
//! A caller appends its call to the outbox. If no other thread is writing, it then writes all calls in the outbox. One
//! thread reads answers, and passes each to its caller. When a connection dies, all of its calls fail for the same
//! reason.

use super::frame::{self, Exception, HEADER_BYTES_MAX, RESPONSE_BYTES_MAX};
use bytes::Bytes;
use prost::Message;
use std::collections::{HashMap, HashSet};
use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Maximum number of bytes that are read from the socket at a time.
const READ_BYTES: usize = 64 << 10;
/// Maximum number of abandoned calls whose answers may still arrive. If it is exceeded, the server is too slow, and the
/// connection is closed.
const ABANDONED_CALLS_MAX: usize = 1024;
/// Maximum number that identifies a call. Java's numbers are signed, so the highest bit is not used.
const CALL_ID_MAX: u32 = i32::MAX as u32;
/// Names of the exceptions with which a server that requires authentication refuses a connection.
const ACCESS_DENIED_EXCEPTIONS: [&str; 2] = ["AccessDeniedException", "FatalConnectionException"];

/// Reason why a call failed. Each says whether the server may have executed the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The call was not sent, so it was not executed.
    NotSent(String),
    /// No answer arrived. The server may have executed the call.
    NoAnswer(String),
    /// The answer is invalid, and a repetition would not help. The server may have executed the call.
    Wrong(String),
    /// The server answered with an exception.
    Said(Exception),
    /// The server refuses the connection.
    Denied(String),
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSent(why) | Self::NoAnswer(why) | Self::Wrong(why) | Self::Denied(why) => {
                f.write_str(why)
            }
            Self::Said(exception) => exception.fmt(f),
        }
    }
}

type Answer = Result<Bytes, Failure>;

#[derive(Debug, Default)]
struct Calls {
    next_id: u32,
    waiting: HashMap<u32, SyncSender<Answer>>,
    /// Numbers of the calls whose callers do not wait any more.
    abandoned_calls: HashSet<u32>,
    /// Number of answers that have arrived on the connection.
    answers: u64,
    dead: Option<Failure>,
}

#[derive(Debug, Default)]
struct Outbox {
    bytes: Vec<u8>,
    /// True while a thread writes; it stays true after writing has failed.
    is_taken: bool,
}

#[derive(Debug)]
struct Shared {
    stream: TcpStream,
    peer: String,
    calls: Mutex<Calls>,
    outbox: Mutex<Outbox>,
}

/// A connection to a service. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Connection {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

impl Connection {
    /// Connects to `service` at `peer` (`host:port`). Connecting, and each write, takes at most `timeout`.
    pub(super) fn open(peer: &str, service: &str, timeout: Duration) -> Result<Self, Failure> {
        let not_sent = |error: io::Error| Failure::NotSent(format!("{peer}: {error}"));
        let stream = connect(peer, timeout).map_err(not_sent)?;
        stream.set_nodelay(true).map_err(not_sent)?;
        stream.set_write_timeout(Some(timeout)).map_err(not_sent)?;
        let incoming = stream.try_clone().map_err(not_sent)?;
        (&stream).write_all(&frame::opening(service)).map_err(not_sent)?;
        let shared = Arc::new(Shared {
            stream,
            peer: peer.to_owned(),
            calls: Mutex::default(),
            outbox: Mutex::default(),
        });
        let reading = Arc::clone(&shared);
        let reader = std::thread::Builder::new()
            .name("hbase".into())
            .spawn(move || {
                let why = reading.read(BufReader::with_capacity(READ_BYTES, incoming));
                reading.die(why);
            })
            .map_err(not_sent)?;
        Ok(Self {
            shared,
            reader: Some(reader),
        })
    }

    /// Returns true if the connection can take calls.
    pub(super) fn is_alive(&self) -> bool {
        self.shared.calls().dead.is_none()
    }

    /// Makes a call, and waits for its answer until `deadline`.
    pub(super) fn call(&self, method: &str, message: &impl Message, deadline: Instant) -> Answer {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(Failure::NotSent(format!(
                "{}: the time limit was reached before the call",
                self.shared.peer
            )));
        }
        let (sender, receiver) = sync_channel(1);
        let (id, answers_before) = self.shared.register(sender)?;
        let timeout_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX).max(1);
        self.shared.send(&frame::request(id, method, timeout_ms, message));
        match receiver.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(answer) => answer,
            Err(_) => match self.shared.give_up(id, answers_before) {
                Some(failure) => Err(failure),
                // The answer has just arrived, so it is in the channel.
                None => receiver.recv().unwrap_or_else(|_| Err(self.shared.silent())),
            },
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.die(Failure::NoAnswer(format!(
            "{}: the connection was closed",
            self.shared.peer
        )));
        if let Some(reader) = self.reader.take() {
            // If the thread has panicked, its message was already printed.
            let _ = reader.join();
        }
    }
}

fn connect(peer: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in peer.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

impl Shared {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn outbox(&self) -> MutexGuard<'_, Outbox> {
        self.outbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn silent(&self) -> Failure {
        Failure::NoAnswer(format!("{}: the server did not answer in time", self.peer))
    }

    /// Registers a call. Returns its number, and the number of answers that arrived before it.
    fn register(&self, sender: SyncSender<Answer>) -> Result<(u32, u64), Failure> {
        let mut calls = self.calls();
        if let Some(dead) = &calls.dead {
            return Err(match dead {
                Failure::Denied(why) => Failure::Denied(why.clone()),
                dead => Failure::NotSent(dead.to_string()),
            });
        }
        let id = loop {
            calls.next_id = (calls.next_id + 1) & CALL_ID_MAX;
            let id = calls.next_id;
            if !calls.waiting.contains_key(&id) && !calls.abandoned_calls.contains(&id) {
                break id;
            }
        };
        calls.waiting.insert(id, sender);
        Ok((id, calls.answers))
    }

    /// Abandons the call `id`. Returns `None` if its answer has already arrived. Closes the connection if the server
    /// has answered no call since this one was made, or if too many calls were abandoned.
    fn give_up(&self, id: u32, heard: u64) -> Option<Failure> {
        let mut calls = self.calls();
        calls.waiting.remove(&id)?;
        calls.abandoned_calls.insert(id);
        let is_lost = calls.answers == heard || calls.abandoned_calls.len() > ABANDONED_CALLS_MAX;
        drop(calls);
        if is_lost {
            self.die(self.silent());
        }
        Some(self.silent())
    }

    /// Writes a call, and then the calls that other threads append in the meantime.
    fn send(&self, call: &[u8]) {
        let mut outbox = self.outbox();
        outbox.bytes.extend_from_slice(call);
        if outbox.is_taken {
            return;
        }
        outbox.is_taken = true;
        while !outbox.bytes.is_empty() {
            let bytes = std::mem::take(&mut outbox.bytes);
            drop(outbox);
            if let Err(error) = (&self.stream).write_all(&bytes) {
                self.die(Failure::NoAnswer(format!("{}: {error}", self.peer)));
                return;
            }
            outbox = self.outbox();
        }
        outbox.is_taken = false;
    }

    /// Closes the connection. If it is already closed, the first reason is kept.
    fn die(&self, why: Failure) {
        let mut calls = self.calls();
        let why = calls.dead.get_or_insert(why).clone();
        let waiting = std::mem::take(&mut calls.waiting);
        drop(calls);
        for sender in waiting.into_values() {
            // If the caller does not wait any more, it does not receive the reason.
            let _ = sender.send(Err(why.clone()));
        }
        // An error means that the socket is already closed.
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Reads answers until the connection ends. Returns the reason for its end.
    fn read(&self, mut incoming: impl Read) -> Failure {
        loop {
            match self.read_one(&mut incoming) {
                Ok(None) => {}
                Ok(Some(failure)) => return failure,
                Err(error) => return Failure::NoAnswer(format!("{}: {error}", self.peer)),
            }
        }
    }

    /// Reads one frame, and passes it to its caller. Returns a reason if the connection must end.
    fn read_one(&self, incoming: &mut impl Read) -> io::Result<Option<Failure>> {
        let mut length = [0; 4];
        incoming.read_exact(&mut length)?;
        let length = u32::from_be_bytes(length) as usize;
        let is_too_long = length > RESPONSE_BYTES_MAX;
        let read_length = if is_too_long { HEADER_BYTES_MAX } else { length };
        let mut bytes = Vec::with_capacity(read_length.min(READ_BYTES));
        incoming
            .by_ref()
            .take(read_length as u64)
            .read_to_end(&mut bytes)?;
        if bytes.len() < read_length {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let wrong = |why: frame::Malformed| Failure::NoAnswer(format!("{}: {why}", self.peer));
        let (call_id, answer) = if is_too_long {
            let discarded = (length - read_length) as u64;
            if io::copy(&mut incoming.take(discarded), &mut io::sink())? < discarded {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let why = format!("{}: an answer of {length} bytes is too long", self.peer);
            match frame::call_of(bytes.into()) {
                Ok(id) => (Some(id), Err(Failure::Wrong(why))),
                Err(error) => return Ok(Some(wrong(error))),
            }
        } else {
            match frame::parse(bytes.into()) {
                Ok(response) => (response.call_id, response.outcome.map_err(Failure::Said)),
                Err(error) => return Ok(Some(wrong(error))),
            }
        };
        Ok(self.deliver_answer(call_id, answer))
    }

    fn deliver_answer(&self, call_id: Option<u32>, answer: Answer) -> Option<Failure> {
        let peer = &self.peer;
        let Some(id) = call_id.filter(|id| *id <= CALL_ID_MAX) else {
            // A frame without a call number concerns the whole connection.
            return Some(match answer {
                Err(Failure::Said(said)) if ACCESS_DENIED_EXCEPTIONS.contains(&said.name()) => {
                    Failure::Denied(format!(
                        "{peer} refuses the connection; this client does not support Kerberos (SASL): {said}"
                    ))
                }
                Err(failure) => Failure::NoAnswer(format!("{peer}: {failure}")),
                Ok(_) => Failure::NoAnswer(format!("{peer}: an answer has no call number")),
            });
        };
        let mut calls = self.calls();
        calls.answers += 1;
        let Some(sender) = calls.waiting.remove(&id) else {
            let is_late = calls.abandoned_calls.remove(&id);
            let why = || Failure::NoAnswer(format!("{peer}: an answer belongs to no call that was made"));
            return (!is_late).then(why);
        };
        drop(calls);
        // If the caller does not wait any more, it does not receive the answer.
        let _ = sender.send(answer);
        None
    }
}

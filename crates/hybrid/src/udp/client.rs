//! A client: signs requests, asks a node by UDP, again when no answer comes, and believes only the answer to its own.
//!
//! A write is sent again as it is: it counts once, and its answer is the same. A read counts once too, so it is signed
//! anew.

use super::codec::{REQUEST_BYTES_MAX, read_answer, write_request};
use crate::answer::Answered;
use crate::codec::Malformed;
use crate::node::unix_ms;
use crate::request::{Body, Sees, Version};
use crate::signing::{Identity, Signing, counter_now};
use bytes::Bytes;
use lineside_fastpath::PAYLOAD_BYTES_MAX;
use lineside_fastpath::exchange::open;
use lineside_wire::{HYBRID_DATAGRAM_BYTES_MAX, HybridCode as Code, Status};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// First pause before a read is asked again; each is twice the one before.
const READ_PAUSE: Duration = Duration::from_millis(100);
/// The same of a write: its block is made and goes to the disk.
const WRITE_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// It cannot be asked.
    #[error("the request cannot be made: {0}")]
    Malformed(#[from] Malformed),
    /// It does not fit a datagram.
    #[error("the request has {0} bytes, and by UDP {REQUEST_BYTES_MAX} at most: use gRPC")]
    TooLong(usize),
    /// Nothing came in time. A write may have been done: the same may be sent again, or asked for by its id.
    #[error("no answer from {server} within {timeout:?}: does `lineside hybrid serve` listen there by UDP?")]
    Timeout {
        /// Who was asked.
        server: SocketAddr,
        /// How long.
        timeout: Duration,
    },
    /// The server takes it for no request.
    #[error("{server}: {}", status.meaning())]
    Status {
        /// Who was asked.
        server: SocketAddr,
        /// Its status.
        status: Status,
    },
    /// The answer is not the one encoding of any.
    #[error("the server's answer cannot be read: {0}")]
    Answer(Malformed),
    /// The system's word.
    #[error("asking {server}: {source}")]
    Io {
        /// Who was asked.
        server: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// What is asked.
enum Question<'a> {
    /// Signed anew each time.
    Read(Body<'a>),
    /// Signed once.
    Write(&'a [u8]),
}

impl Question<'_> {
    /// What the answer to the last of so many datagrams says of them all: one may have been done before the node, for
    /// now or from then on, would not do it.
    fn last_answer(&self, answered: Answered, sent: u32) -> Answered {
        match (self, &answered) {
            (Self::Write(_), Answered::Refused(Code::ReadOnly | Code::Revoked | Code::Expired))
                if sent > 1 =>
            {
                Answered::Refused(Code::OutcomeUnknown)
            }
            _ => answered,
        }
    }
}

/// What is heard of an answer.
enum Heard {
    /// It is there.
    Answered(Answered),
    /// Not now: ask again later.
    Later(Code),
}

/// Asks one node. One question at a time.
pub struct Client {
    server: SocketAddr,
    socket: UdpSocket,
    signing: Signing,
    timeout: Duration,
    next_id: u64,
    resent: u64,
}

impl Client {
    /// A client of `server` that waits at most `timeout` for an answer, less than the 30 seconds that a request counts;
    /// counters begin with the clock: [`counter_now`].
    ///
    /// # Errors
    /// What the system says of a socket to that address.
    pub fn connect(server: SocketAddr, identity: Identity, timeout: Duration) -> Result<Self, AskError> {
        let io = |source| AskError::Io { server, source };
        Ok(Self {
            server,
            socket: open(server).map_err(io)?,
            signing: Signing::new(identity, counter_now(unix_ms())),
            timeout,
            // Unguessable, so that who does not see the requests cannot forge answers.
            next_id: getrandom::u64().map_err(|error| io(io::Error::other(error)))?,
            resent: 0,
        })
    }

    /// Signs.
    pub fn signing(&self) -> &Signing {
        &self.signing
    }

    /// How often something was asked again.
    pub fn resent(&self) -> u64 {
        self.resent
    }

    /// What a read, a proof, the head or an outcome is answered with.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn read(&mut self, body: Body<'_>) -> Result<Answered, AskError> {
        self.ask(&Question::Read(body))
    }

    /// What a signed write or change is answered with.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn write(&mut self, request: &[u8]) -> Result<Answered, AskError> {
        self.ask(&Question::Write(request))
    }

    /// Cells of keys, which must rise.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn get(&mut self, sees: Sees, keys: &[&[u8]]) -> Result<Answered, AskError> {
        let keys = keys.to_vec();
        self.read(Body::Get { sees, keys })
    }

    /// Sets a key that must have the version `read`, or whatever it has.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn set(&mut self, key: &[u8], read: Option<Version>, value: &[u8]) -> Result<Answered, AskError> {
        let request = self.signing.sign(Body::set(key, read, value))?;
        self.write(&request)
    }

    fn ask(&mut self, question: &Question<'_>) -> Result<Answered, AskError> {
        let server = self.server;
        let (first_id, end) = (self.next_id, Instant::now() + self.timeout);
        let mut pause = match question {
            Question::Read(_) => READ_PAUSE,
            Question::Write(_) => WRITE_PAUSE,
        };
        let (mut later, mut laters, mut sent) = (None, 0, 0);
        while Instant::now() < end {
            let datagram = self.datagram(question, first_id)?;
            match self.socket.send(&datagram) {
                // The answer to an earlier request: nobody listens there. A server may be starting: go on.
                Err(error) if error.kind() != ErrorKind::ConnectionRefused => {
                    return Err(AskError::Io {
                        server,
                        source: error,
                    });
                }
                _ => sent += 1,
            }
            self.resent += u64::from(sent > 1);
            match self.hear(first_id, (Instant::now() + pause).min(end))? {
                Some(Heard::Answered(answered)) => return Ok(question.last_answer(answered, sent)),
                Some(Heard::Later(code)) => (later, laters) = (Some(code), laters + 1),
                None => {}
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
        let timeout = self.timeout;
        later
            // Of a write that was sent more often than it was refused one may have been taken.
            .filter(|_| matches!(question, Question::Read(_)) || laters == sent)
            .map(Answered::Refused)
            .ok_or(AskError::Timeout { server, timeout })
    }

    /// The next datagram of a question whose first one has this id.
    fn datagram(&mut self, question: &Question<'_>, first_id: u64) -> Result<Vec<u8>, AskError> {
        let signed: Bytes;
        let (id, request, answer_bytes) = match question {
            // An answer to any of them will do.
            Question::Read(body) => {
                signed = self.signing.sign(body.clone())?;
                let id = self.next_id;
                self.next_id = id.wrapping_add(1);
                let answer_bytes = match body {
                    // As short as that of a write.
                    Body::Outcome { .. } => 0,
                    _ => HYBRID_DATAGRAM_BYTES_MAX,
                };
                (id, &signed[..], answer_bytes)
            }
            Question::Write(request) => {
                self.next_id = first_id.wrapping_add(1);
                (first_id, *request, 0)
            }
        };
        write_request(id, request, answer_bytes).ok_or(AskError::TooLong(request.len()))
    }

    /// Waits for an answer to one of the datagrams since the first one. Where it is to be asked later, until then.
    fn hear(&self, first_id: u64, until: Instant) -> Result<Option<Heard>, AskError> {
        let io = |source| AskError::Io {
            server: self.server,
            source,
        };
        let mut later = None;
        let mut reply = [0; PAYLOAD_BYTES_MAX + 1];
        while let Some(left) = until
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            self.socket.set_read_timeout(Some(left)).map_err(io)?;
            match self.socket.recv(&mut reply) {
                Ok(bytes) => match self.understand(first_id, reply.get(..bytes).unwrap_or_default())? {
                    Some(Heard::Answered(answered)) => return Ok(Some(Heard::Answered(answered))),
                    Some(Heard::Later(code)) => later = Some(Heard::Later(code)),
                    None => {}
                },
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                    ErrorKind::ConnectionRefused => {
                        std::thread::sleep(until.saturating_duration_since(Instant::now()));
                    }
                    _ => return Err(io(error)),
                },
            }
        }
        Ok(later)
    }

    /// What a datagram says, if it answers one of those since the first one.
    fn understand(&self, first_id: u64, datagram: &[u8]) -> Result<Option<Heard>, AskError> {
        let is_ours = |id: &u64| id.wrapping_sub(first_id) < self.next_id.wrapping_sub(first_id);
        let Some((_, status, body)) = read_answer(datagram).filter(|(id, ..)| is_ours(id)) else {
            return Ok(None);
        };
        match status {
            Status::Ok => {}
            Status::Busy => return Ok(Some(Heard::Later(Code::Busy))),
            status => {
                let server = self.server;
                return Err(AskError::Status { server, status });
            }
        }
        let answered = Answered::decode(body).map_err(AskError::Answer)?;
        Ok(Some(match answered {
            Answered::Refused(Code::Busy) => Heard::Later(Code::Busy),
            // Of reads only. A network may double a datagram, and bring the second one's refusal first.
            Answered::Refused(Code::NonceUsed) => Heard::Later(Code::NonceUsed),
            answered => Heard::Answered(answered),
        }))
    }
}

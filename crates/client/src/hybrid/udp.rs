//! Client over UDP: signs requests, sends them to a node, repeats them when no answer comes, and accepts only answers
//! to its own requests.
//!
//! A write is repeated unchanged: it is executed once, and its answer stays the same. A read is valid only once too,
//! so each repetition is signed again with a new nonce.

use super::outcome::{self, Answer, Read, Step};
use super::{AskError, TransactionOutcome};
use crate::exchange::open;
use bytes::Bytes;
use lineside_messages::hybrid::answer::Answered;
use lineside_messages::hybrid::request::{Body, Sees, Version};
use lineside_messages::hybrid::signing::{Identity, Signing, counter_now, expiry_of, id_of, unix_ms};
use lineside_messages::hybrid::udp::{read_answer, write_request};
use lineside_wire::{HYBRID_DATAGRAM_BYTES_MAX, HybridCode as Code, PAYLOAD_BYTES_MAX, Status};
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

/// Time to wait for an answer before a read is sent again for the first time. Each later wait is twice as long.
const READ_RESEND_PAUSE: Duration = Duration::from_millis(100);
/// Time to wait for an answer before a write is sent again for the first time. It is longer than for reads, because a
/// write is answered only when its block is on the disk.
const WRITE_RESEND_PAUSE: Duration = Duration::from_millis(250);
const RESEND_PAUSE_MAX: Duration = Duration::from_secs(2);

/// Question that the client sends to a node, possibly several times.
enum Question<'a> {
    /// A read, which is signed again for each datagram. It is valid until the given time in milliseconds since 1970, or
    /// for 30 seconds.
    Read(Body<'a>, Option<u64>),
    /// A write, which is signed once.
    Write(&'a [u8]),
}

impl Question<'_> {
    /// Returns the answer to a question of which `sent` datagrams were sent. For a write, a refusal of the last
    /// datagram becomes `outcome_unknown` if an earlier datagram may have been executed.
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

/// Content of a reply.
enum ReplyContent {
    /// The answer.
    Answered(Answered),
    /// The node cannot answer now: the client asks again.
    Retry(Code),
}

/// Client of one node. It asks one question at a time.
pub struct Client {
    server: SocketAddr,
    socket: UdpSocket,
    signing: Signing,
    timeout: Duration,
    next_id: u64,
    resent: u64,
}

impl Client {
    /// Creates a client of `server` that waits at most `timeout` for an answer. `timeout` must be less than the 30
    /// seconds for which a request is valid. Counters start from the clock, see [`counter_now`].
    ///
    /// # Errors
    /// Returns errors of opening a socket for that address.
    pub fn connect(server: SocketAddr, identity: Identity, timeout: Duration) -> Result<Self, AskError> {
        let io = |source| AskError::Io { server, source };
        Ok(Self {
            server,
            socket: open(server).map_err(io)?,
            signing: Signing::new(identity, counter_now(unix_ms())),
            timeout,
            // The first id is random, so that an attacker who does not see the requests cannot forge answers.
            next_id: getrandom::u64().map_err(|error| io(io::Error::other(error)))?,
            resent: 0,
        })
    }

    /// Returns the signer of this client's requests.
    pub fn signing(&self) -> &Signing {
        &self.signing
    }

    /// Returns the number of datagrams that were sent again.
    pub fn resent(&self) -> u64 {
        self.resent
    }

    /// Sends a read: a get, a range, a history, a proof, the head or an outcome.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn read(&mut self, body: Body<'_>) -> Result<Answered, AskError> {
        self.ask(&Question::Read(body, None))
    }

    /// Sends a signed write or change.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn write(&mut self, request: &[u8]) -> Result<Answered, AskError> {
        self.ask(&Question::Write(request))
    }

    /// Reads the cells of keys, which must be in ascending order.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn get(&mut self, sees: Sees, keys: &[&[u8]]) -> Result<Answered, AskError> {
        let keys = keys.to_vec();
        self.read(Body::Get { sees, keys })
    }

    /// Sets a key. If `read` names a version, the key must have this version.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn set(&mut self, key: &[u8], read: Option<Version>, value: &[u8]) -> Result<Answered, AskError> {
        let request = self.signing.sign(Body::set(key, read, value))?;
        self.write(&request)
    }

    /// Asks for the outcome of a transaction. `expiry_ms` is the time at which its request expires, in milliseconds
    /// since 1970: [`expiry_of`] the request, or that in [`AskError::OutcomeUnknown`]. Without it, the outcome of a
    /// transaction that the node does not have is never final.
    ///
    /// # Errors
    /// [`AskError`].
    pub fn outcome(&mut self, id: [u8; 32], expiry_ms: Option<u64>) -> Result<TransactionOutcome, AskError> {
        let mut read = Read::First;
        loop {
            let until_ms = match read {
                Read::Until(until_ms) => Some(until_ms),
                Read::First | Read::Last => None,
            };
            let answer = match self.ask(&Question::Read(Body::Outcome { id }, until_ms))? {
                Answered::Placed { code, version } => Answer::Placed { code, version },
                Answered::Refused(code) => Answer::Refused(code),
                _ => return Err(AskError::Answer("it does not answer the request".into())),
            };
            match outcome::next(read, answer, expiry_ms) {
                Step::Again(next) => read = next,
                Step::End(outcome) => return outcome,
            }
        }
    }

    fn ask(&mut self, question: &Question<'_>) -> Result<Answered, AskError> {
        let server = self.server;
        let (first_id, end) = (self.next_id, Instant::now() + self.timeout);
        let mut pause = match question {
            Question::Read(..) => READ_RESEND_PAUSE,
            Question::Write(_) => WRITE_RESEND_PAUSE,
        };
        let (mut retry, mut laters, mut sent) = (None, 0, 0);
        while Instant::now() < end {
            let datagram = self.datagram(question, first_id)?;
            match self.socket.send(&datagram) {
                // This error reports that an earlier datagram found no server listening. The server may be starting, so
                // the client continues.
                Err(error) if error.kind() != ErrorKind::ConnectionRefused => {
                    return Err(AskError::Io {
                        server,
                        source: error,
                    });
                }
                _ => sent += 1,
            }
            self.resent += u64::from(sent > 1);
            match self.wait_for_answer(first_id, (Instant::now() + pause).min(end))? {
                Some(ReplyContent::Answered(answered)) => return Ok(question.last_answer(answered, sent)),
                Some(ReplyContent::Retry(code)) => (retry, laters) = (Some(code), laters + 1),
                None => {}
            }
            pause = (pause * 2).min(RESEND_PAUSE_MAX);
        }
        let timeout = self.timeout;
        retry
            // If a write was sent more often than it was refused, it may have been executed, so its outcome is unknown.
            .filter(|_| matches!(question, Question::Read(..)) || laters == sent)
            .map(Answered::Refused)
            .ok_or_else(|| match question {
                Question::Read(..) => AskError::Timeout { server, timeout },
                Question::Write(request) => AskError::OutcomeUnknown {
                    id: id_of(request),
                    expiry_ms: expiry_of(request),
                    why: format!("no answer from {server} within {timeout:?}"),
                },
            })
    }

    /// Builds the next datagram of a question; `first_id` is the id of the question's first datagram.
    fn datagram(&mut self, question: &Question<'_>, first_id: u64) -> Result<Vec<u8>, AskError> {
        let signed: Bytes;
        let (id, request, answer_bytes) = match question {
            // Each datagram of a read has its own id, and the client accepts an answer to any of them.
            Question::Read(body, expiry_ms) => {
                signed = match expiry_ms {
                    Some(expiry_ms) => self.signing.sign_until(body.clone(), *expiry_ms)?,
                    None => self.signing.sign(body.clone())?,
                };
                let id = self.next_id;
                self.next_id = id.wrapping_add(1);
                let answer_bytes = match body {
                    // The answer to an outcome request is as short as the answer to a write, so no padding is needed.
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

    /// Waits until `until` for an answer to one of the datagrams from `first_id` on. A reply that means "ask again
    /// later" does not end the wait; it is returned if no other answer arrives.
    fn wait_for_answer(&self, first_id: u64, until: Instant) -> Result<Option<ReplyContent>, AskError> {
        let io = |source| AskError::Io {
            server: self.server,
            source,
        };
        let mut retry = None;
        let mut reply = [0; PAYLOAD_BYTES_MAX + 1];
        while let Some(left) = until
            .checked_duration_since(Instant::now())
            .filter(|left| !left.is_zero())
        {
            self.socket.set_read_timeout(Some(left)).map_err(io)?;
            match self.socket.recv(&mut reply) {
                Ok(bytes) => match self.parse_reply(first_id, reply.get(..bytes).unwrap_or_default())? {
                    Some(ReplyContent::Answered(answered)) => {
                        return Ok(Some(ReplyContent::Answered(answered)));
                    }
                    Some(ReplyContent::Retry(code)) => retry = Some(ReplyContent::Retry(code)),
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
        Ok(retry)
    }

    /// Parses a reply. Returns `None` if it does not answer one of the datagrams from `first_id` on.
    fn parse_reply(&self, first_id: u64, datagram: &[u8]) -> Result<Option<ReplyContent>, AskError> {
        let is_ours = |id: &u64| id.wrapping_sub(first_id) < self.next_id.wrapping_sub(first_id);
        let Some((_, status, body)) = read_answer(datagram).filter(|(id, ..)| is_ours(id)) else {
            return Ok(None);
        };
        match status {
            Status::Ok => {}
            Status::Busy => return Ok(Some(ReplyContent::Retry(Code::Busy))),
            status => {
                let server = self.server;
                return Err(AskError::Status { server, status });
            }
        }
        let answered = Answered::decode(body).map_err(|error| AskError::Answer(error.to_string()))?;
        Ok(Some(match answered {
            Answered::Refused(Code::Busy) => ReplyContent::Retry(Code::Busy),
            // This code occurs only for reads: the network may duplicate a datagram, and the refusal of the second copy
            // may arrive before the answer to the first.
            Answered::Refused(Code::NonceUsed) => ReplyContent::Retry(Code::NonceUsed),
            answered => ReplyContent::Answered(answered),
        }))
    }
}

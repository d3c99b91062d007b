//! A client of `column`: asks over UDP, again when no answer comes, and believes only the answer to its own request.
//! Changes are made in a session, where repeating is safe.

use crate::native::{self, Answer, Ask, REPLY_HEAD_BYTES, Rows, Sender};
use crate::paper::{PaperAnswer, PaperRequest};
use crate::table::{Change, ColumnName};
use lineside_fastpath::PAYLOAD_BYTES_MAX;
use lineside_fastpath::exchange::{Again, ExchangeError, exchange, open};
use lineside_wire::{
    COLUMN_OP_OPEN, COLUMN_OP_SWITCH, COLUMN_REPLY_MORE, COLUMN_REPLY_NOT_APPLIED, ColumnSession,
    NATIVE_REPLY_BIT, NativeHeader, Status, native as wire,
};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::ops::ControlFlow;
use std::time::Duration;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// Nothing came in time. A change may have been made.
    #[error("no answer from {server} within {timeout:?}: does `lineside column serve` listen there?")]
    Timeout {
        /// Who was asked.
        server: SocketAddr,
        /// How long.
        timeout: Duration,
    },
    /// The server's host was overloaded all the time.
    #[error("{0} is busy: ask again later")]
    Busy(SocketAddr),
    /// The server refused it; of `outcome_unknown`, a change may have been made.
    #[error("{server}: {}", status.meaning())]
    Refused {
        /// Who was asked.
        server: SocketAddr,
        /// Its status.
        status: Status,
    },
    /// A key, name or value is longer than the format can say, or all together longer than a packet.
    #[error("this does not fit a packet of {PAYLOAD_BYTES_MAX} bytes")]
    TooLong,
    /// The system's word.
    #[error("asking {server}: {source}")]
    Io {
        /// Who was asked.
        server: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

impl From<ExchangeError> for ClientError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Timeout { server, timeout } => Self::Timeout { server, timeout },
            ExchangeError::Busy(server) => Self::Busy(server),
            ExchangeError::Io { server, source } => Self::Io { server, source },
        }
    }
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done.
    Done,
    /// Done; this is what the cell holds now.
    Now(Vec<u8>),
    /// Done; what the cell holds now has so many bytes, and fits no packet.
    Long(u64),
    /// Nothing changed: it did not hold what was expected.
    NotApplied,
}

/// Asks one server. Not shared: one question at a time.
#[derive(Debug)]
pub struct Client {
    server: SocketAddr,
    socket: UdpSocket,
    timeout: Duration,
    next_id: u64,
    resent: u64,
    /// Where the session stands; the next change has the next nonce.
    session: Option<Sender>,
}

impl Client {
    /// A client of `server` that waits at most `timeout` for an answer.
    ///
    /// # Errors
    /// What the system says of a socket to that address.
    pub fn connect(server: SocketAddr, timeout: Duration) -> Result<Self, ClientError> {
        let io = |source| ClientError::Io { server, source };
        Ok(Self {
            server,
            socket: open(server).map_err(io)?,
            timeout,
            // Unguessable, so that who does not see the requests cannot forge replies.
            next_id: getrandom::u64().map_err(|error| io(io::Error::other(error)))?,
            resent: 0,
            session: None,
        })
    }

    /// How often a request was sent again.
    pub fn resent(&self) -> u64 {
        self.resent
    }

    /// The cells of a row that has them: which column, and its value. With the whole answer.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get(&mut self, key: &[u8], columns: &[ColumnName]) -> Result<Answer, ClientError> {
        let ask = Ask::Get(key.to_vec(), columns.to_vec());
        // Room for the longest values that the fast path has, or else for all that a packet holds.
        self.ask(&ask, PAYLOAD_BYTES_MAX)
    }

    /// [`Client::get`] with room for values of so many bytes together, in a packet that is no longer than it must be.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get_short(
        &mut self,
        key: &[u8],
        columns: &[ColumnName],
        value_bytes: usize,
    ) -> Result<Answer, ClientError> {
        let ask = Ask::Get(key.to_vec(), columns.to_vec());
        let rows = columns.len() * native::row_bytes(key.len(), 8) + value_bytes.next_multiple_of(8);
        self.ask(&ask, REPLY_HEAD_BYTES + rows)
    }

    /// As many rows of a range as fit a packet; whether there may be more is a flag of the answer.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn scan(&mut self, rows: &Rows, columns: &[ColumnName]) -> Result<Answer, ClientError> {
        self.ask(&Ask::Scan(rows.clone(), columns.to_vec()), PAYLOAD_BYTES_MAX)
    }

    /// All rows of a range, packet after packet: no snapshot, but no row is missed that is there all the while; those
    /// that fit no packet are named. Hands over each answer, until it is told to stop.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn scan_all(
        &mut self,
        rows: &Rows,
        columns: &[ColumnName],
        mut each: impl FnMut(Answer) -> ControlFlow<()>,
    ) -> Result<(), ClientError> {
        let mut rows = rows.clone();
        let mut left = usize::from(rows.limit);
        loop {
            let answer = self.scan(&rows, columns)?;
            let count = answer.count();
            let is_full = rows.limit != 0 && count >= left;
            let goes_on = answer.flags & COLUMN_REPLY_MORE != 0 && !is_full;
            if goes_on && count == 0 {
                // There is room for a row, or for the word that there is not.
                return Err(ClientError::TooLong);
            }
            let rest = answer.rest(rows.reverse).filter(|_| goes_on);
            let is_over = each(answer).is_break();
            let Some((start, exclusive)) = rest.filter(|_| !is_over) else {
                return Ok(());
            };
            (rows.start, rows.start_exclusive) = (start, exclusive);
            if rows.limit != 0 {
                left -= count;
                rows.limit = left as u16;
            }
        }
    }

    /// Changes one cell, in a session that is opened with the first change.
    ///
    /// # Errors
    /// See [`ClientError`]. After [`ClientError::Timeout`] and `outcome_unknown` it may have been made or not.
    pub fn change(
        &mut self,
        key: &[u8],
        column: &ColumnName,
        change: &Change,
    ) -> Result<Outcome, ClientError> {
        let mut sender = match self.session {
            Some(sender) => sender,
            None => self.open()?,
        };
        sender.nonce += 1;
        let room = match change {
            Change::Increment(_) | Change::Append(_) => PAYLOAD_BYTES_MAX,
            _ => 0,
        };
        let ask = Ask::Change(key.to_vec(), *column, change.clone(), sender);
        // What is not known to have been made or not ends the session: no later answer can be mistaken for another's.
        self.session = None;
        let answer = self.ask(&ask, room);
        let is_known = match &answer {
            Ok(_) => true,
            Err(ClientError::Refused { status, .. }) => {
                ![Status::NoSession, Status::Sequence, Status::Reused].contains(status)
            }
            Err(error) => matches!(error, ClientError::TooLong),
        };
        if is_known {
            let was_sent = !matches!(answer, Err(ClientError::TooLong));
            sender.nonce -= u64::from(!was_sent);
            self.session = Some(sender);
        }
        let answer = answer?;
        if answer.flags & COLUMN_REPLY_NOT_APPLIED != 0 {
            return Ok(Outcome::NotApplied);
        }
        if let Some(long) = answer.left_out.first() {
            return Ok(Outcome::Long(long.value_bytes));
        }
        Ok(match answer.rows.into_iter().next() {
            Some((_, _, value)) => Outcome::Now(value),
            None => Outcome::Done,
        })
    }

    /// Has the fast path forget everything and stay empty (`off`), or fill again. Where it is so already, nothing else
    /// happens.
    ///
    /// # Errors
    /// See [`ClientError`]; `unauthorised` unless asked from the server's machine or its `trusted_sources`.
    pub fn switch(&mut self, off: bool) -> Result<(), ClientError> {
        self.exchange(&Ask::Switch(off), 0, |op, body| {
            (op == COLUMN_OP_SWITCH && body == native::switch(off).as_bytes()).then_some(())
        })
    }

    /// Asks in the paper's format, with room for so many rows. A `put` is sent once only: repeated, it might undo what
    /// another did meanwhile.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn paper(&mut self, request: &PaperRequest, rows: usize) -> Result<PaperAnswer, ClientError> {
        let sent = request.to_bytes(rows).ok_or(ClientError::TooLong)?;
        // The format names no request: an answer to an earlier one must find nobody.
        let socket = open(self.server).map_err(|source| ClientError::Io {
            server: self.server,
            source,
        })?;
        let answer = |reply: &[u8]| PaperAnswer::parse(request, reply).map(Ok);
        if !matches!(request, PaperRequest::Put(..)) {
            return Ok(exchange(&socket, self.server, self.timeout, &sent, answer)?.0);
        }
        let io = |source| ClientError::Io {
            server: self.server,
            source,
        };
        socket.set_read_timeout(Some(self.timeout)).map_err(io)?;
        socket.send(&sent).map_err(io)?;
        let mut reply = [0; PAYLOAD_BYTES_MAX];
        match socket.recv(&mut reply) {
            Ok(bytes) => answer(&reply[..bytes])
                .and_then(|answer: Result<_, Again>| answer.ok())
                .ok_or_else(|| io(io::Error::from(io::ErrorKind::InvalidData))),
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind()) => {
                Err(ClientError::Timeout {
                    server: self.server,
                    timeout: self.timeout,
                })
            }
            Err(error) => Err(io(error)),
        }
    }

    fn open(&mut self) -> Result<Sender, ClientError> {
        let challenge = self.session(&ColumnSession::new_zeroed())?.challenge;
        let granted = self.session(&ColumnSession {
            challenge,
            ..ColumnSession::new_zeroed()
        })?;
        Ok(Sender {
            slot: granted.slot.get(),
            token: granted.token.get(),
            nonce: 0,
        })
    }

    fn session(&mut self, asked: &ColumnSession) -> Result<ColumnSession, ClientError> {
        self.exchange(&Ask::Open(*asked), 0, |op, body| {
            (op == COLUMN_OP_OPEN)
                .then(|| ColumnSession::read_from_bytes(body).ok())
                .flatten()
        })
    }

    fn ask(&mut self, ask: &Ask, reply_bytes: usize) -> Result<Answer, ClientError> {
        // Packets are whole words.
        let reply_bytes = reply_bytes.min(PAYLOAD_BYTES_MAX / 8 * 8);
        self.exchange(ask, reply_bytes, |op, body| {
            (op != COLUMN_OP_OPEN)
                .then(|| native::parse_reply(body))
                .flatten()
        })
    }

    fn exchange<T>(
        &mut self,
        ask: &Ask,
        reply_bytes: usize,
        read: impl Fn(u8, &[u8]) -> Option<T>,
    ) -> Result<T, ClientError> {
        let (id, server) = (self.next_id, self.server);
        self.next_id = self.next_id.wrapping_add(1);
        let request = native::request(id, ask, reply_bytes).ok_or(ClientError::TooLong)?;
        let op = request[3];
        let answer = |datagram: &[u8]| {
            let (header, body) = NativeHeader::ref_from_prefix(datagram).ok()?;
            let is_ours = wire::is_native(datagram)
                && header.op == op | NATIVE_REPLY_BIT
                && header.request_id.get() == id
                && usize::from(header.length.get()) == body.len();
            let status = Status::from_code(header.status.get()).filter(|_| is_ours)?;
            match status {
                Status::Busy => Some(Err(Again::Busy)),
                // A refused change has no body; a get of a row that is too long names the row.
                Status::TooLong if body.is_empty() => Some(Ok(Err(ClientError::Refused { server, status }))),
                Status::Ok | Status::Unknown | Status::TooLong => Some(Ok(Ok(read(op, body)?))),
                status => Some(Ok(Err(ClientError::Refused { server, status }))),
            }
        };
        let (answer, resent) = exchange(&self.socket, server, self.timeout, &request, answer)?;
        self.resent += resent;
        answer
    }
}

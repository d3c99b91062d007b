//! Client of `column` over UDP. It sends a request again until it is answered, and accepts only the answer to its own
//! request. It makes changes in a session, so that the server executes a repeated change only once.

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

/// Reason why the client has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No reply arrived in time. A change may or may not have been made.
    #[error(
        "no answer from {server} within {timeout:?}; check that `lineside column serve` runs and listens there"
    )]
    Timeout {
        /// Server to which the request was sent.
        server: SocketAddr,
        /// Time for which the client waited.
        timeout: Duration,
    },
    /// The server answered `busy` to each repetition until the time was over.
    #[error("{0} is busy; try again later")]
    Busy(SocketAddr),
    /// The server refused the request. With the status `outcome_unknown`, a change may have been made.
    #[error("{server}: {}", status.meaning())]
    Refused {
        /// Server to which the request was sent.
        server: SocketAddr,
        /// Status of the reply.
        status: Status,
    },
    /// A key, name or value is too long for the format, or all of them together do not fit a packet.
    #[error(
        "a key, column name or value of the request is too long, or the request does not fit a packet of \
         {PAYLOAD_BYTES_MAX} bytes; use shorter ones"
    )]
    TooLong,
    /// A system call failed.
    #[error("cannot reach {server}: {source}")]
    Io {
        /// Server to which the request was sent.
        server: SocketAddr,
        /// Error of the system call.
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

/// Result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The change was made.
    Done,
    /// The change was made, and the cell now has this value.
    Now(Vec<u8>),
    /// The change was made, and the cell now has a value of this many bytes, which is too long for a packet.
    Long(u64),
    /// Nothing changed, because the cell did not have the expected value.
    NotApplied,
}

/// Client of one server. It sends one request at a time.
#[derive(Debug)]
pub struct Client {
    server: SocketAddr,
    socket: UdpSocket,
    timeout: Duration,
    next_id: u64,
    resent: u64,
    /// Session, with the nonce of the session's last change. The next change uses the next nonce.
    session: Option<Sender>,
}

impl Client {
    /// Returns a client of `server` that waits at most `timeout` for an answer.
    ///
    /// # Errors
    /// The system's error of opening the socket.
    pub fn connect(server: SocketAddr, timeout: Duration) -> Result<Self, ClientError> {
        let io = |source| ClientError::Io { server, source };
        Ok(Self {
            server,
            socket: open(server).map_err(io)?,
            timeout,
            // The first id is random, so that an attacker who does not see the requests cannot forge replies.
            next_id: getrandom::u64().map_err(|error| io(io::Error::other(error)))?,
            resent: 0,
            session: None,
        })
    }

    /// Returns how many times requests were sent again.
    pub fn resent(&self) -> u64 {
        self.resent
    }

    /// Returns the cells of a row. Columns without a cell are left out.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get(&mut self, key: &[u8], columns: &[ColumnName]) -> Result<Answer, ClientError> {
        let ask = Ask::Get(key.to_vec(), columns.to_vec());
        // The request is padded to the maximum length, so that the reply may use a whole packet.
        self.ask(&ask, PAYLOAD_BYTES_MAX)
    }

    /// Like [`Client::get`], in a packet that is only large enough for values of `value_bytes` bytes in total.
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

    /// Returns as many rows of a range as fit a packet. A flag of the answer says that more rows may follow.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn scan(&mut self, rows: &Rows, columns: &[ColumnName]) -> Result<Answer, ClientError> {
        self.ask(&Ask::Scan(rows.clone(), columns.to_vec()), PAYLOAD_BYTES_MAX)
    }

    /// Reads all rows of a range, packet by packet, and passes each answer to `each` until `each` returns `Break`. The
    /// result is not a snapshot, but it has every row that exists during the whole scan. Of a row that does not fit a
    /// packet, it has only the key.
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
                // The packet has room for one row, or for the key of a row that does not fit, so the server should have
                // made progress.
                return Err(ClientError::TooLong);
            }
            let rest = answer.continuation(rows.reverse).filter(|_| goes_on);
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

    /// Changes one cell. The first change opens a session.
    ///
    /// # Errors
    /// See [`ClientError`]. After [`ClientError::Timeout`] and the status `outcome_unknown`, the change may or may not
    /// have been made.
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
        // If the outcome of this change stays unknown, the session is dropped, so that no later answer can be
        // attributed to the wrong change.
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

    /// Switches the fast path off (and so empties it), or on again. Has no effect if it is already in that state.
    ///
    /// # Errors
    /// See [`ClientError`]. The status is `unauthorised` unless the client is on the server's machine or in the
    /// server's `trusted_sources`.
    pub fn switch(&mut self, off: bool) -> Result<(), ClientError> {
        self.exchange(&Ask::Switch(off), 0, |op, body| {
            (op == COLUMN_OP_SWITCH && body == native::switch(off).as_bytes()).then_some(())
        })
    }

    /// Sends a request in the paper format, with room for `rows` rows. A `put` is sent only once, because a repetition
    /// could overwrite a later change of another client.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn paper(&mut self, request: &PaperRequest, rows: usize) -> Result<PaperAnswer, ClientError> {
        let sent = request.to_bytes(rows).ok_or(ClientError::TooLong)?;
        // The format has no request ids. A new socket for each request ensures that replies to earlier requests are not
        // mistaken for the reply to this one.
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
        // The length of a packet is a multiple of eight bytes.
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
                // A `too_long` refusal of a change has no body. The `too_long` reply to a get has a body, which names
                // the row.
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

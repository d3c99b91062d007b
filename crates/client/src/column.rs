//! Client of `column` over UDP. It sends a request again until it is answered, and accepts only the answer to its own
//! request. It makes changes in a session, so that the server executes a repeated change only once.

pub use crate::error::{ClientError, NoOutcome, OutcomeId};
pub use lineside_messages::column::native::{Answer, LeftOut, Rows};
pub use lineside_messages::column::paper::{PaperAnswer, PaperRequest};
pub use lineside_messages::column::{Change, ColumnName, NAME_BYTES_MAX, ROW_BYTES_MAX, native, paper};

use crate::exchange::{Again, Link, exchange, open};
use lineside_messages::column::native::{Ask, REPLY_HEAD_BYTES, Sender};
use lineside_wire::{
    COLUMN_OP_OPEN, COLUMN_OP_SWITCH, COLUMN_REPLY_MORE, COLUMN_REPLY_NOT_APPLIED, ColumnSession,
    NATIVE_REPLY_BIT, NativeHeader, PAYLOAD_BYTES_MAX, Status, native as wire,
};
use std::io;
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::time::Duration;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Name of the service.
const SERVICE: &str = "column";
/// Refusals that a repeated change gets only if its first copy got them, too.
const DEFINITE_REFUSALS: &[Status] = &[
    Status::BadRequest,
    Status::NotANumber,
    Status::TooLong,
    Status::Unauthorised,
    Status::UnknownFamily,
    Status::UnsupportedVersion,
];
/// Refusals after which a session cannot be continued.
const ENDS_SESSION: &[Status] = &[
    Status::BadRequest,
    Status::NoSession,
    Status::Reused,
    Status::Sequence,
    Status::Unauthorised,
    Status::UnsupportedVersion,
];
/// Maximum number of changes without an outcome that a client remembers for [`Client::resume`].
const UNANSWERED_MAX: usize = 64;

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

/// Change whose outcome is unknown.
#[derive(Debug)]
struct Unanswered {
    sender: Sender,
    ask: Ask,
    room_bytes: usize,
}

/// Client of one server. It sends one request at a time.
#[derive(Debug)]
pub struct Client {
    link: Link,
    /// Session, with the nonce of the session's last change. The next change uses the next nonce.
    session: Option<Sender>,
    /// Changes whose outcome is unknown, the oldest first.
    unanswered: Vec<Unanswered>,
}

impl Client {
    /// Returns a client of `server` that waits at most `timeout` for an answer.
    ///
    /// # Errors
    /// The system's error of opening the socket.
    pub fn connect(server: SocketAddr, timeout: Duration) -> Result<Self, ClientError> {
        Ok(Self {
            link: Link::open(server, timeout)?,
            session: None,
            unanswered: Vec::new(),
        })
    }

    /// Returns how many times requests were sent again.
    pub fn resent(&self) -> u64 {
        self.link.resent
    }

    /// Returns the cells of a row. Columns without a cell are left out.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn get(&mut self, key: &[u8], columns: &[ColumnName]) -> Result<Answer, ClientError> {
        let ask = Ask::Get(key.to_vec(), columns.to_vec());
        // The request is padded to the maximum length, so that the reply may use a whole packet.
        self.ask(&ask, PAYLOAD_BYTES_MAX, None)
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
        self.ask(&ask, REPLY_HEAD_BYTES + rows, None)
    }

    /// Returns as many rows of a range as fit a packet. A flag of the answer says that more rows may follow.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn scan(&mut self, rows: &Rows, columns: &[ColumnName]) -> Result<Answer, ClientError> {
        self.ask(
            &Ask::Scan(rows.clone(), columns.to_vec()),
            PAYLOAD_BYTES_MAX,
            None,
        )
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
    /// See [`ClientError`]. After [`ClientError::OutcomeUnknown`], the change may or may not have been made:
    /// [`Client::resume`] finds its outcome.
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
        let room_bytes = match change {
            Change::Increment(_) | Change::Append(_) => PAYLOAD_BYTES_MAX,
            _ => 0,
        };
        let ask = Ask::Change(key.to_vec(), *column, change.clone(), sender);
        self.make(
            Unanswered {
                sender,
                ask,
                room_bytes,
            },
            false,
        )
    }

    /// Sends a change again whose outcome is unknown, and returns its outcome. The change is made once.
    ///
    /// # Errors
    /// See [`ClientError`]. [`ClientError::NothingToResume`] if the last changes of this client without an outcome do
    /// not include this one.
    pub fn resume(&mut self, id: &OutcomeId) -> Result<Outcome, ClientError> {
        let position = self.unanswered.iter().position(|change| change.id() == *id);
        let position = position.ok_or_else(|| ClientError::NothingToResume(id.clone()))?;
        let change = self.unanswered.remove(position);
        self.make(change, true)
    }

    fn make(&mut self, change: Unanswered, is_resumed: bool) -> Result<Outcome, ClientError> {
        // If the outcome of this change stays unknown, the session is left, so that no later answer can be attributed
        // to the wrong change.
        self.session = None;
        let resent_before = self.link.resent;
        let answer = self.ask(&change.ask, change.room_bytes, Some(change.id()));
        let is_repeated = is_resumed || self.link.resent > resent_before;
        let answer =
            answer.map_err(|error| error.of_refused_change(is_repeated, DEFINITE_REFUSALS, change.id()));
        let mut sender = change.sender;
        match &answer {
            Ok(_) => self.session = Some(sender),
            Err(ClientError::Refused { status, .. }) if !ENDS_SESSION.contains(status) => {
                self.session = Some(sender);
            }
            // The change was not sent, so the next change uses its number.
            Err(ClientError::TooLong) => {
                sender.nonce -= 1;
                self.session = Some(sender);
            }
            Err(ClientError::OutcomeUnknown { .. }) => {
                if self.unanswered.len() == UNANSWERED_MAX {
                    self.unanswered.remove(0);
                }
                self.unanswered.push(change);
            }
            Err(_) => {}
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
        self.exchange(&Ask::Switch(off), 0, None, |op, body| {
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
        let socket = open(self.link.server).map_err(|source| ClientError::Io {
            server: self.link.server,
            source,
        })?;
        let answer = |reply: &[u8]| PaperAnswer::parse(request, reply).map(Ok);
        let PaperRequest::Put(key, ..) = request else {
            let answered = exchange(&socket, self.link.server, self.link.timeout, &sent, answer);
            return Ok(answered.map_err(|error| ClientError::of(error, SERVICE))?.0);
        };
        let io = |source| ClientError::Io {
            server: self.link.server,
            source,
        };
        socket.set_read_timeout(Some(self.link.timeout)).map_err(io)?;
        socket.send(&sent).map_err(io)?;
        let mut reply = [0; PAYLOAD_BYTES_MAX];
        match socket.recv(&mut reply) {
            Ok(bytes) => answer(&reply[..bytes])
                .and_then(|answer: Result<_, Again>| answer.ok())
                .ok_or(ClientError::Malformed(self.link.server)),
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::TimedOut].contains(&error.kind()) => {
                Err(ClientError::OutcomeUnknown {
                    server: self.link.server,
                    cause: NoOutcome::Timeout(self.link.timeout),
                    id: OutcomeId::PaperPut { key: key.clone() },
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
        self.exchange(&Ask::Open(*asked), 0, None, |op, body| {
            (op == COLUMN_OP_OPEN)
                .then(|| ColumnSession::read_from_bytes(body).ok())
                .flatten()
        })
    }

    fn ask(
        &mut self,
        ask: &Ask,
        reply_bytes: usize,
        outcome: Option<OutcomeId>,
    ) -> Result<Answer, ClientError> {
        // The length of a packet is a multiple of eight bytes.
        let reply_bytes = reply_bytes.min(PAYLOAD_BYTES_MAX / 8 * 8);
        self.exchange(ask, reply_bytes, outcome, |op, body| {
            (op != COLUMN_OP_OPEN)
                .then(|| native::parse_reply(body))
                .flatten()
        })
    }

    fn exchange<T>(
        &mut self,
        ask: &Ask,
        reply_bytes: usize,
        outcome: Option<OutcomeId>,
        read: impl Fn(u8, &[u8]) -> Option<T>,
    ) -> Result<T, ClientError> {
        let (id, server) = (self.link.take_id(), self.link.server);
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
                Status::TooLong if body.is_empty() => Some(Ok(Err(refused(server, status)))),
                Status::Ok | Status::Unknown | Status::TooLong => Some(Ok(Ok(read(op, body)?))),
                status => Some(Ok(Err(refused(server, status)))),
            }
        };
        self.link
            .exchange(&request, answer)
            .map_err(|error| ClientError::of_exchange(error, SERVICE, outcome))?
    }
}

impl Unanswered {
    fn id(&self) -> OutcomeId {
        OutcomeId::ColumnChange {
            slot: self.sender.slot,
            nonce: self.sender.nonce,
        }
    }
}

fn refused(server: SocketAddr, status: Status) -> ClientError {
    ClientError::Refused {
        server,
        status,
        expected: 0,
    }
}

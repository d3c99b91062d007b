//! Client of `transfer`: sends requests over UDP, repeats them until a reply comes, and accepts only the reply to its
//! own request. Repeating is safe: the server executes a repeated request once.

mod operations;
mod session;

pub use crate::error::{ClientError, NoOutcome, OutcomeId};
pub use lineside_messages::transfer::{AccountId, KeyId, Signer, paper, signer};
pub use lineside_wire::{Operation, TransferCode as Code};
pub use operations::{
    IdempotencyKey, create, freeze, in_packets, issue, keyed, linked, new_idempotency_key, pending, post,
    transfer, unfreeze, void,
};
pub use session::Session;

use crate::exchange::{Again, Link};
use lineside_wire::{
    BalanceItem, ExecuteHead, NATIVE_REPLY_BIT, NativeHeader, ReferHead, SessionBody, SignedHead, Status,
    TRANSFER_OP_CLOSE, TRANSFER_OP_EXECUTE, TRANSFER_OP_OPEN, TRANSFER_OP_REFER, TRANSFER_OP_SESSION,
    TRANSFER_OP_SIGNED, TRANSFER_PAPER_REFUSED, native,
};
use paper::PaperRequest;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Name of the service.
const SERVICE: &str = "transfer";

/// Maximum number of operations in one datagram.
pub const DATAGRAM_OPERATIONS: usize =
    (lineside_wire::PAYLOAD_BYTES_MAX - 16 - size_of::<ExecuteHead>()) / size_of::<Operation>();

/// Maximum number of operations in one signed datagram.
pub const SIGNED_OPERATIONS: usize =
    (lineside_wire::PAYLOAD_BYTES_MAX - 16 - size_of::<SignedHead>() - size_of::<ExecuteHead>())
        / size_of::<Operation>();

/// Refusals that a repeated packet gets only if its first copy got them, too.
const DEFINITE_REFUSALS: &[Status] = &[
    Status::Unauthorised,
    Status::BadRequest,
    Status::UnsupportedVersion,
];

/// Outcome of one operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// `done`, or the reason of the refusal.
    pub code: Code,
    /// Balance of the source after the operation; `None` for a refusal, which says nothing about the balance.
    pub balance: Option<u64>,
    /// Number of the operation in the ledger; 0 if it has no number (yet).
    pub number: u64,
}

impl Outcome {
    fn new(code: Code, amount: u64, number: u64) -> Self {
        let balance = (code == Code::Done).then_some(amount);
        Self {
            code,
            balance,
            number,
        }
    }
}

/// Result of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Outcome of each operation.
    pub outcomes: Vec<Outcome>,
    /// True if the operations were durable before the reply was sent; false if they become durable within a bounded
    /// delay.
    pub is_durable: bool,
}

/// State of an account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Total balance.
    pub balance: u64,
    /// Part of the balance that pending transfers reserve.
    pub held: u64,
    /// Number of changes of the account.
    pub version: u64,
    /// True if the account is frozen: neither debits nor credits are possible.
    pub frozen: bool,
}

/// Client of one server. Sends one request at a time.
pub struct Client {
    link: Link,
    signer: Option<Signer>,
}

impl Client {
    /// Creates a client of `server` that waits at most `timeout` for a reply.
    ///
    /// # Errors
    /// Error of the system when it opens a socket to that address.
    pub fn connect(server: SocketAddr, timeout: Duration) -> Result<Self, ClientError> {
        Ok(Self {
            link: Link::open(server, timeout)?,
            signer: None,
        })
    }

    /// Sets the key that signs operations from now on; `None`: operations are not signed.
    pub fn sign_with(&mut self, signer: Option<Signer>) {
        self.signer = signer;
    }

    /// Returns the maximum number of operations in one packet: one less if it is signed.
    pub fn operations_max(&self) -> usize {
        match self.signer {
            None => DATAGRAM_OPERATIONS,
            Some(_) => SIGNED_OPERATIONS,
        }
    }

    /// Returns the number of repeated requests.
    pub fn resent(&self) -> u64 {
        self.link.resent
    }

    /// Sends one request in the paper's format. A request without a transaction id (0) is sent only once, because a
    /// repetition would be executed again.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn paper(&mut self, request: &PaperRequest) -> Result<Outcome, ClientError> {
        let sent = request.to_bytes();
        let answer = |reply: &[u8]| {
            let reply = PaperRequest::parse(reply)?;
            let mut checked = reply;
            checked.command &= !TRANSFER_PAPER_REFUSED;
            checked.amount = request.amount;
            if checked != *request {
                return None;
            }
            Some(match reply.is_refusal() {
                false => Ok(Outcome::new(Code::Done, reply.amount.into(), 0)),
                true => match Code::from_code(reply.amount as u16)? {
                    Code::Busy => Err(Again::Busy),
                    // A refusal with the code `done` is malformed.
                    Code::Done => return None,
                    code => Ok(Outcome::new(code, 0, 0)),
                },
            })
        };
        let source = request.source;
        if request.command == u32::from(lineside_wire::TRANSFER_COMMAND_REFER) {
            let answered = self.link.exchange(&sent, answer);
            return answered.map_err(|error| ClientError::of(error, SERVICE));
        }
        if request.is_numbered() {
            let id = OutcomeId::PaperTransfer {
                source,
                transaction_id: request.transaction_id,
            };
            let answered = self.link.exchange(&sent, answer);
            return answered.map_err(|error| ClientError::of_change(error, SERVICE, id));
        }
        self.once(&sent, OutcomeId::UnnumberedPaperTransfer { source }, answer)
    }

    /// Sends one datagram, with a change, and waits for the reply.
    fn once<T>(
        &self,
        sent: &[u8],
        id: OutcomeId,
        answer: impl Fn(&[u8]) -> Option<Result<T, Again>>,
    ) -> Result<T, ClientError> {
        let server = self.link.server;
        let io = |source| ClientError::Io { server, source };
        self.link
            .socket
            .set_read_timeout(Some(self.link.timeout))
            .map_err(io)?;
        self.link.socket.send(sent).map_err(io)?;
        let mut reply = [0; lineside_wire::PAYLOAD_BYTES_MAX];
        loop {
            match self
                .link
                .socket
                .recv(&mut reply)
                .map(|bytes| answer(&reply[..bytes]))
            {
                Ok(Some(Ok(answer))) => return Ok(answer),
                Ok(Some(Err(Again::Busy))) => return Err(ClientError::Busy(server)),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                        return Err(ClientError::OutcomeUnknown {
                            server,
                            cause: NoOutcome::Timeout(self.link.timeout),
                            id,
                        });
                    }
                    io::ErrorKind::Interrupted => {}
                    // No socket listens at the server's port, so the datagram was not read.
                    io::ErrorKind::ConnectionRefused => return Err(io(error)),
                    kind => {
                        return Err(ClientError::OutcomeUnknown {
                            server,
                            cause: NoOutcome::Io(kind),
                            id,
                        });
                    }
                },
            }
        }
    }

    /// Opens a session.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn open(&mut self) -> Result<Session, ClientError> {
        let challenge = self
            .session_body(TRANSFER_OP_OPEN, &SessionBody::new_zeroed())?
            .challenge;
        let with_challenge = SessionBody {
            challenge,
            ..SessionBody::new_zeroed()
        };
        let granted = self
            .session_body(TRANSFER_OP_OPEN, &with_challenge)
            .map_err(|error| match error {
                ClientError::Busy(server) => ClientError::NoSession(server),
                other => other,
            })?;
        let (slot, token) = (granted.slot.get(), granted.token.get());
        Ok(Session::new(slot, token, granted.sequence.get()))
    }

    /// Closes a session. Returns false if the server did not have it, which may be the case because an earlier copy of
    /// this request closed it, and the reply was lost.
    ///
    /// # Errors
    /// See [`ClientError`]. [`ClientError::Unanswered`] if a packet of the session has no reply yet: without the
    /// session, [`Client::resume`] could never find its outcome. [`Session::abandon`] gives up the outcome.
    pub fn close(&mut self, session: &Session) -> Result<bool, ClientError> {
        if let Some(id) = session.unanswered_id() {
            return Err(ClientError::Unanswered(id));
        }
        match self.session_body(TRANSFER_OP_CLOSE, &body_of(session)) {
            Ok(_) => Ok(true),
            Err(ClientError::Refused {
                status: Status::NoSession,
                ..
            }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns the next sequence number of a session. After a crash, a client learns from it whether its last packet
    /// was executed.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn next_sequence(&mut self, session: &Session) -> Result<u64, ClientError> {
        let body = self.session_body(TRANSFER_OP_SESSION, &body_of(session))?;
        Ok(body.sequence.get())
    }

    /// Executes 1 to [`Client::operations_max`] operations as the session's next packet, exactly once.
    ///
    /// # Errors
    /// See [`ClientError`]. After [`ClientError::OutcomeUnknown`] the session executes no other operations
    /// ([`ClientError::Unanswered`]) until [`Client::resume`], or this method with the same operations, has found the
    /// outcome.
    pub fn execute(
        &mut self,
        session: &mut Session,
        operations: &[Operation],
    ) -> Result<Executed, ClientError> {
        let most = self.operations_max();
        if !(1..=most).contains(&operations.len()) {
            return Err(ClientError::Count {
                items: "operations",
                count: operations.len(),
                most,
            });
        }
        match session.unanswered() {
            None => self.send(session, operations, false),
            Some(before) if before == operations => self.send(session, operations, true),
            Some(before) => Err(ClientError::Unanswered(session.id(before))),
        }
    }

    /// Sends the session's packet whose outcome is unknown again, and returns its outcome; `None` if all packets of the
    /// session have replies. The packet is executed once.
    ///
    /// # Errors
    /// See [`ClientError`]. If the cause of [`ClientError::OutcomeUnknown`] is a refusal with [`Status::NoSession`],
    /// [`Status::Sequence`] or [`Status::Reused`], the server has no reply to the packet, and never will. Then only the
    /// idempotency keys of the operations find their outcome, or the accounts show it; [`Session::abandon`] gives up
    /// the packet.
    pub fn resume(&mut self, session: &mut Session) -> Result<Option<Executed>, ClientError> {
        match session.unanswered().map(<[Operation]>::to_vec) {
            None => Ok(None),
            Some(operations) => self.send(session, &operations, true).map(Some),
        }
    }

    /// Sends a packet. `is_resumed` is true if a copy of it may have been sent before.
    fn send(
        &mut self,
        session: &mut Session,
        operations: &[Operation],
        is_resumed: bool,
    ) -> Result<Executed, ClientError> {
        let head = ExecuteHead {
            token: session.token.into(),
            sequence: session.next.into(),
            slot: session.slot.into(),
            count: (operations.len() as u16).into(),
            durability: 0.into(),
        };
        let mut body = [head.as_bytes(), operations.as_bytes()].concat();
        let mut op = TRANSFER_OP_EXECUTE;
        if let Some(signer) = &self.signer {
            let signed = signer.sign(&head, operations);
            body.splice(..0, signed.as_bytes().iter().copied());
            op = TRANSFER_OP_SIGNED;
        }
        let id = session.id(operations);
        let resent_before = self.link.resent;
        let executed = self.ask(op, Some(id.clone()), &body, |status, reply| {
            let (answered, rest) = ExecuteHead::ref_from_prefix(reply).ok()?;
            if status != Status::Ok {
                return Some(Err((status, answered.sequence.get())));
            }
            // The reply to another packet says nothing about this one.
            let is_ours = ExecuteHead {
                durability: 0.into(),
                ..*answered
            } == head;
            let replies = <[Operation]>::ref_from_bytes(rest).ok().filter(|_| is_ours)?;
            let outcome = |reply: &Operation| {
                let code = Code::from_code(reply.code.get())?;
                Some(Outcome::new(code, reply.amount.get(), reply.number.get()))
            };
            let outcomes: Option<Vec<_>> = replies.iter().map(outcome).collect();
            Some(Ok(Executed {
                outcomes: outcomes.filter(|outcomes| outcomes.len() == operations.len())?,
                is_durable: answered.durability.get() == lineside_wire::TRANSFER_DURABLE,
            }))
        });
        let is_repeated = is_resumed || self.link.resent > resent_before;
        let executed = executed.map_err(|error| {
            let (server, cause) = match error {
                ClientError::Busy(server) if is_resumed => (server, NoOutcome::Refused(Status::Busy)),
                ClientError::Io { server, source } if is_resumed => (server, NoOutcome::Io(source.kind())),
                error => return error.of_refused_change(is_repeated, DEFINITE_REFUSALS, id),
            };
            ClientError::OutcomeUnknown { server, cause, id }
        });
        match &executed {
            Ok(_) => session.executed(),
            Err(ClientError::OutcomeUnknown { .. }) => session.unknown(operations),
            // No copy of the packet was executed.
            Err(_) => session.abandon(),
        }
        executed
    }

    /// Returns the states of 1 to 29 accounts; `None` for an account that does not exist.
    ///
    /// # Errors
    /// See [`ClientError`].
    pub fn refer(&mut self, accounts: &[AccountId]) -> Result<Vec<Option<Balance>>, ClientError> {
        let most = lineside_wire::TRANSFER_REFER_MAX;
        if !(1..=most).contains(&accounts.len()) {
            return Err(ClientError::Count {
                items: "accounts",
                count: accounts.len(),
                most,
            });
        }
        let head = ReferHead {
            count: (accounts.len() as u32).into(),
            ..ReferHead::new_zeroed()
        };
        let mut body = head.as_bytes().to_vec();
        for account in accounts {
            body.extend_from_slice(&account.0);
            body.resize(body.len() + size_of::<BalanceItem>() - 16, 0);
        }
        self.ask(TRANSFER_OP_REFER, None, &body, |status, reply| {
            if status != Status::Ok {
                return Some(Err((status, 0)));
            }
            let (_, rest) = ReferHead::ref_from_prefix(reply).ok()?;
            let items = <[BalanceItem]>::ref_from_bytes(rest).ok()?;
            let same = items.len() == accounts.len()
                && items
                    .iter()
                    .zip(accounts)
                    .all(|(item, account)| item.account == account.0);
            let balance = |item: &BalanceItem| {
                (item.code.get() == Code::Done as u16).then_some(Balance {
                    balance: item.balance.get(),
                    held: item.held.get(),
                    version: item.version.get(),
                    frozen: item.frozen.get() != 0,
                })
            };
            same.then(|| Ok(items.iter().map(balance).collect()))
        })
    }

    fn session_body(&mut self, op: u8, body: &SessionBody) -> Result<SessionBody, ClientError> {
        self.ask(op, None, body.as_bytes(), |status, reply| match status {
            Status::Ok => SessionBody::read_from_bytes(reply).ok().map(Ok),
            status => Some(Err((status, 0))),
        })
    }

    /// Sends a native request; a change has an `outcome` id. `read` receives status and body, and returns the result or
    /// the status that refuses the request.
    fn ask<T>(
        &mut self,
        op: u8,
        outcome: Option<OutcomeId>,
        body: &[u8],
        read: impl Fn(Status, &[u8]) -> Option<Result<T, (Status, u64)>>,
    ) -> Result<T, ClientError> {
        let (id, server) = (self.link.take_id(), self.link.server);
        let header = native::request_header(op, id, body.len() as u16);
        let request = [header.as_bytes(), body].concat();
        let answer = |datagram: &[u8]| {
            let (header, body) = NativeHeader::ref_from_prefix(datagram).ok()?;
            let is_answer = native::is_native(datagram)
                && header.op == op | NATIVE_REPLY_BIT
                && header.request_id.get() == id
                && usize::from(header.length.get()) == body.len();
            let status = Status::from_code(header.status.get()).filter(|_| is_answer)?;
            if status == Status::Busy {
                return Some(Err(Again::Busy));
            }
            let read = match (status, body.len()) {
                (Status::Ok, _) => read(status, body)?,
                (status, 0) => Err((status, 0)),
                (status, _) => read(status, body)?,
            };
            Some(Ok(read.map_err(|(status, expected)| ClientError::Refused {
                server,
                status,
                expected,
            })))
        };
        self.link
            .exchange(&request, answer)
            .map_err(|error| ClientError::of_exchange(error, SERVICE, outcome))?
    }
}

fn body_of(session: &Session) -> SessionBody {
    SessionBody {
        token: session.token.into(),
        slot: session.slot.into(),
        ..SessionBody::new_zeroed()
    }
}

//! Errors of all clients.

use crate::exchange::ExchangeError;
use lineside_util::hex::to_hex;
use lineside_wire::{PAYLOAD_BYTES_MAX, SPV_PROOF_DEPTH_MAX, SPV_WITNESS_ROOM_MAX, Status};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Id of a change whose outcome is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutcomeId {
    /// Packet of a session of `transfer`. [`resume`](crate::transfer::Client::resume) of the session sends the same
    /// packet again, which is executed once. If the session's next sequence number
    /// ([`next_sequence`](crate::transfer::Client::next_sequence)) is above `sequence`, the packet was executed.
    TransferPacket {
        /// Slot number of the session.
        slot: u32,
        /// Sequence number of the packet.
        sequence: u64,
        /// Idempotency keys of the operations, if all of them have one. Then the operations can also be sent again in
        /// another session.
        idempotency_keys: Vec<[u8; 16]>,
    },
    /// Request to `transfer` in the paper's format, with a transaction id. A repetition gets the first reply.
    PaperTransfer {
        /// Source account.
        source: u32,
        /// Transaction id.
        transaction_id: u32,
    },
    /// Request to `transfer` in the paper's format without a transaction id, which cannot be repeated safely.
    UnnumberedPaperTransfer {
        /// Source account, whose balance shows the outcome.
        source: u32,
    },
    /// Change of a cell of `column`. [`resume`](crate::column::Client::resume) sends it again, and it is made once.
    ColumnChange {
        /// Number of the session.
        slot: u32,
        /// Number of the change in the session.
        nonce: u64,
    },
    /// Request `put` to `column` in the paper's format, which cannot be repeated safely.
    PaperPut {
        /// Key of the row, whose cell shows the outcome.
        key: Vec<u8>,
    },
    /// Transaction of `hybrid`, or a change of its membership: a request for the outcome of this id returns it.
    HybridTransaction([u8; 32]),
}

impl OutcomeId {
    /// Returns the way to learn the outcome.
    const fn remedy(&self) -> &'static str {
        match self {
            Self::TransferPacket { .. } => {
                "resume the session, which sends the same packet again and executes it once"
            }
            Self::PaperTransfer { .. } => "send the same request again, which is executed once",
            Self::UnnumberedPaperTransfer { .. } => "ask for the balance; do not send it again",
            Self::ColumnChange { .. } => "resume it, which makes it once, or read the cell",
            Self::PaperPut { .. } => "read the cell",
            Self::HybridTransaction(_) => "ask for the outcome of this id",
        }
    }
}

impl fmt::Display for OutcomeId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TransferPacket { slot, sequence, .. } => write!(out, "packet {sequence} of session {slot}"),
            Self::PaperTransfer {
                source,
                transaction_id,
            } => write!(out, "request {transaction_id} of account {source}"),
            Self::UnnumberedPaperTransfer { source } => {
                write!(out, "a request of account {source} without a transaction id")
            }
            Self::ColumnChange { slot, nonce } => write!(out, "change {nonce} of session {slot}"),
            Self::PaperPut { key } => write!(out, "a put to the row {}", key.escape_ascii()),
            Self::HybridTransaction(id) => write!(out, "transaction {}", to_hex(id)),
        }
    }
}

/// Reason why the outcome of a change is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoOutcome {
    /// No answer arrived within this time.
    Timeout(Duration),
    /// The server answered with this status, which does not exclude that an earlier copy of the request was executed.
    Refused(Status),
    /// The system refused a socket operation after a copy of the request was sent.
    Io(io::ErrorKind),
}

impl NoOutcome {
    fn text(&self, server: SocketAddr) -> String {
        match self {
            Self::Timeout(timeout) => format!("no answer from {server} within {timeout:?}"),
            Self::Io(kind) => format!("no answer from {server} ({kind})"),
            Self::Refused(status) => format!("{server} answered a repetition with: {}", status.meaning()),
        }
    }
}

impl fmt::Display for NoOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout(timeout) => write!(out, "no answer within {timeout:?}"),
            Self::Io(kind) => write!(out, "no answer ({kind})"),
            Self::Refused(status) => write!(out, "the answer to a repetition was: {}", status.meaning()),
        }
    }
}

/// Reason why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClientError {
    /// No answer arrived in time. The request changes nothing, so it can be sent again.
    #[error("no answer from {server} within {timeout:?}: does `lineside {service} serve` listen there?")]
    Timeout {
        /// Server that received the request.
        server: SocketAddr,
        /// Time that the client waited.
        timeout: Duration,
        /// Name of the service.
        service: &'static str,
    },
    /// The change may or may not have been executed. Before another way is tried, its outcome must be found by its id.
    #[error(
        "{}, so that the outcome of {id} is unknown: {}",
        cause.text(*server),
        id.remedy()
    )]
    OutcomeUnknown {
        /// Server that received the request.
        server: SocketAddr,
        /// Reason why the outcome is unknown.
        cause: NoOutcome,
        /// Id to ask for.
        id: OutcomeId,
    },
    /// `transfer`: an earlier packet of the session has no reply yet. Nothing was sent.
    #[error("{0} has no reply yet: resume the session, or execute the same operations again, before others")]
    Unanswered(OutcomeId),
    /// The server's host was overloaded during all attempts, and the request was not executed.
    #[error("{0} is busy: ask again later")]
    Busy(SocketAddr),
    /// The server refused the request as a whole.
    #[error("{server}: refused ({}): {}", status.name(), status.meaning())]
    Refused {
        /// Server that received the request.
        server: SocketAddr,
        /// Status of the reply.
        status: Status,
        /// `transfer`: sequence number that the server expects, if the reply has one; otherwise 0.
        expected: u64,
    },
    /// The request has no item, or more items than a packet can contain.
    #[error("{count} {items} in one request: 1 to {most} are possible")]
    Count {
        /// Name of the items.
        items: &'static str,
        /// Number of items of the request.
        count: usize,
        /// Maximum number.
        most: usize,
    },
    /// `column`: a key, name or value is too long for the format, or all of them together do not fit a packet.
    #[error(
        "a key, column name or value of the request is too long, or the request does not fit a packet of \
         {PAYLOAD_BYTES_MAX} bytes; use shorter ones"
    )]
    TooLong,
    /// `column`: this client has no change with this id whose outcome is unknown.
    #[error(
        "{0}: this client has no such change without an outcome; resume a change with the client that made it"
    )]
    NothingToResume(OutcomeId),
    /// `column`: the reply to a `put` in the paper's format is malformed.
    #[error("{0}: the reply is malformed; is the server a column server of this version?")]
    Malformed(SocketAddr),
    /// The system refused a socket operation.
    #[error("cannot exchange packets with {server}: {source}")]
    Io {
        /// Server that received the request.
        server: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// `spv`: the Merkle path is longer than a packet of this service can hold.
    #[error(
        "{server}: the Merkle path has {depth} hashes, but a UDP reply contains at most {SPV_PROOF_DEPTH_MAX}; \
         use the Electrum or HTTP interface of the server"
    )]
    LongPath {
        /// Server that received the request.
        server: SocketAddr,
        /// Length of the path.
        depth: u32,
    },
    /// `spv`: the Merkle paths and the coinbase of a witness proof are longer than a packet of this service can hold.
    #[error(
        "{server}: the witness proof needs {bytes} bytes for its paths and the coinbase, and a reply holds at most \
         {SPV_WITNESS_ROOM_MAX}; verify the transaction by its TXID alone"
    )]
    LongWitnessProof {
        /// Server that received the request.
        server: SocketAddr,
        /// Number of bytes that the paths and the coinbase need.
        bytes: u64,
    },
    /// `spv`: the server's store was created without witness data.
    #[error(
        "{0} keeps no witness data: ask a server whose store was created with `lineside spv init --witness`"
    )]
    WitnessNotKept(SocketAddr),
    /// `spv`: the transaction's block has no witness commitment.
    #[error(
        "{0}: the transaction's block commits to no witnesses, as all blocks before segwit; verify it by its TXID alone"
    )]
    NoWitnessCommitment(SocketAddr),
    /// `spv`: the server does not answer this kind of request.
    #[error("{0} does not answer this kind of request (`tables` in its [spv] section): ask another server")]
    NotServed(SocketAddr),
    /// `transfer`: the server granted no session.
    #[error(
        "{0} grants no session: it is busy, or this address has reached \
         its limit of sessions; close those that are no longer needed"
    )]
    NoSession(SocketAddr),
}

impl ClientError {
    /// Converts the error of an exchange with a server of `service`.
    pub(crate) fn of(error: ExchangeError, service: &'static str) -> Self {
        match error {
            ExchangeError::Timeout { server, timeout } => Self::Timeout {
                server,
                timeout,
                service,
            },
            ExchangeError::Busy { server, .. } => Self::Busy(server),
            ExchangeError::Io { server, source, .. } => Self::Io { server, source },
        }
    }

    /// Converts the error of an exchange that asked for a change: the outcome is unknown, unless the server answered
    /// `busy` to every copy of the request, or no copy was sent.
    pub(crate) fn of_change(error: ExchangeError, service: &'static str, id: OutcomeId) -> Self {
        match error {
            ExchangeError::Io {
                server,
                source,
                is_sent: true,
            } => Self::OutcomeUnknown {
                server,
                cause: NoOutcome::Io(source.kind()),
                id,
            },
            ExchangeError::Timeout { server, timeout }
            | ExchangeError::Busy {
                server,
                timeout,
                is_every_copy: false,
            } => Self::OutcomeUnknown {
                server,
                cause: NoOutcome::Timeout(timeout),
                id,
            },
            error => Self::of(error, service),
        }
    }

    /// Converts the error of an exchange that asked for the change `outcome`, or for no change.
    pub(crate) fn of_exchange(
        error: ExchangeError,
        service: &'static str,
        outcome: Option<OutcomeId>,
    ) -> Self {
        match outcome {
            None => Self::of(error, service),
            Some(id) => Self::of_change(error, service, id),
        }
    }

    /// Converts the refusal of a change. If an earlier copy of the request was sent (`is_repeated`), that copy may have
    /// been executed, so only a status in `definite` is a definite refusal.
    pub(crate) fn of_refused_change(self, is_repeated: bool, definite: &[Status], id: OutcomeId) -> Self {
        match self {
            Self::Refused { server, status, .. }
                if status == Status::OutcomeUnknown || (is_repeated && !definite.contains(&status)) =>
            {
                Self::OutcomeUnknown {
                    server,
                    cause: NoOutcome::Refused(status),
                    id,
                }
            }
            error => error,
        }
    }
}

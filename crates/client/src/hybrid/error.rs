//! Errors of the clients of `hybrid`, over UDP and gRPC.

use lineside_messages::hybrid::answer::code_name;
use lineside_messages::hybrid::udp::REQUEST_BYTES_MAX;
use lineside_messages::hybrid::{Code, Malformed};
use lineside_util::hex::to_hex;
use lineside_wire::Status;
#[cfg(feature = "grpc")]
use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Reason why the client has no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The request cannot be encoded.
    #[error("cannot encode the request: {0}")]
    Malformed(#[from] Malformed),
    /// UDP: the request does not fit in a datagram. Nothing was sent.
    #[error(
        "the request has {0} bytes, but UDP allows at most {REQUEST_BYTES_MAX}; use gRPC (--server instead of --udp)"
    )]
    TooLong(usize),
    /// UDP: no answer to a read arrived in time.
    #[error(
        "no answer from {server} within {timeout:?}; check that `lineside hybrid serve` runs there and listens for UDP"
    )]
    Timeout {
        /// Address of the server.
        server: SocketAddr,
        /// Time for which the client has waited.
        timeout: Duration,
    },
    /// No definite answer to a write or change arrived, and it may have been executed. Ask for the outcome of its id.
    #[error(
        "{why}, so that the outcome of transaction {} is unknown: ask for the outcome of this id",
        to_hex(id)
    )]
    OutcomeUnknown {
        /// Id of the transaction.
        id: [u8; 32],
        /// Time at which the request expires, in milliseconds since 1970.
        expiry_ms: u64,
        /// Reason why there is no definite answer.
        why: String,
    },
    /// UDP: the server answered with a status instead of an answer.
    #[error("{server}: {}", status.meaning())]
    Status {
        /// Address of the server.
        server: SocketAddr,
        /// Status in the header of the server's reply.
        status: Status,
    },
    /// The node refused a request of the paper's service, or the read of an outcome. The answers to all other requests
    /// contain the code instead.
    #[error("refused: {}: {}", code_name(*.0), .0.meaning())]
    Refused(Code),
    /// The answer is malformed, has a code unknown to this version, or lacks a required field.
    #[error("the server's answer is malformed: {0}; is the server a hybrid node of this version?")]
    Answer(String),
    /// UDP: the system refused a socket operation.
    #[error("cannot exchange datagrams with {server}: {source}")]
    Io {
        /// Address of the server.
        server: SocketAddr,
        /// Error of the system.
        source: io::Error,
    },
    /// gRPC: the endpoint is invalid, or no server answers at that address.
    #[cfg(feature = "grpc")]
    #[error("cannot connect to {endpoint}: {why}")]
    Connect {
        /// Address of the endpoint.
        endpoint: String,
        /// Reason of the failure.
        why: String,
    },
    /// gRPC: the call failed. A batch of writes, or a set in the paper's mode, may have been executed or not. All other
    /// requests with this error change nothing or were not executed.
    #[cfg(feature = "grpc")]
    #[error("the call failed: {}", why_broken(.0))]
    Broken(tonic::Status),
}

#[cfg(feature = "grpc")]
impl From<tonic::Status> for AskError {
    fn from(status: tonic::Status) -> Self {
        // The message of this error already contains the status, so the status is not given as a source as well.
        Self::Broken(status)
    }
}

/// Describes a status with its causes. If a connection was closed, only the causes explain why.
#[cfg(feature = "grpc")]
pub(super) fn why_broken(status: &tonic::Status) -> String {
    let mut words = status.message().to_owned();
    let mut below = status.source();
    while let Some(cause) = below {
        let cause_words = cause.to_string();
        if !words.ends_with(&cause_words) {
            words = format!("{words}: {cause_words}");
        }
        below = cause.source();
    }
    words
}

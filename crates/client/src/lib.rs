//! Clients of Lineside's services, without server code. [`spv`] asks for locations, proofs and headers of Bitcoin
//! transactions, and verifies them with an own chain of headers ([`spv_proof`]). [`transfer`] opens sessions and
//! executes operations, signed or not. [`column`] reads and changes rows. [`hybrid`] signs requests to a ledger
//! database, over UDP or, with the feature `grpc`, over gRPC.
//!
//! ```text
//!   Client::proof, Client::execute, ...
//!      |  request with a random id
//!      v
//!   exchange: sends the same bytes again, at growing intervals, until the deadline
//!      |  connected socket: only datagrams from the server's address arrive
//!      v
//!   parser: id, operation, length and content must be right; other datagrams are ignored
//!      |
//!      v
//!   answer, or ClientError: Refused, Busy, Timeout; OutcomeUnknown if a change may have been executed
//! ```
//!
//! A client sends one request at a time and blocks until the answer, at most for the time-out that it was created with.
//! Every request is safe to repeat: a change is executed once, by its session and number. If no definite answer to a
//! change arrives, the error is [`ClientError::OutcomeUnknown`], whose id is the one to ask for.
//!
//! ```no_run
//! use lineside_client::transfer::{AccountId, Client, transfer};
//! use lineside_client::ClientError;
//! use std::time::Duration;
//!
//! let mut client = Client::connect("127.0.0.1:7702".parse()?, Duration::from_secs(3))?;
//! let mut session = client.open()?;
//! let packet = [transfer(AccountId::from_paper(1), AccountId::from_paper(2), 30)];
//! let executed = match client.execute(&mut session, &packet) {
//!     // Sends the same packet again, which is executed once. Until it has a reply, the session refuses other packets.
//!     Err(ClientError::OutcomeUnknown { .. }) => client.resume(&mut session)?,
//!     executed => Some(executed?),
//! };
//! println!("{executed:?}");
//! client.close(&session)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod column;
mod error;
pub mod exchange;
pub mod hybrid;
pub mod spv;
pub mod transfer;

pub use error::{ClientError, NoOutcome, OutcomeId};
pub use lineside_messages as messages;
pub use lineside_spv_proof as spv_proof;
pub use lineside_verify::{Curve, PublicKey, Verifier};
pub use lineside_wire as wire;

/// Examples of the README and of `docs/client-rust.md`, which the tests compile.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../README.md")]
    struct Readme;

    #[cfg(feature = "grpc")]
    #[doc = include_str!("../../../docs/client-rust.md")]
    struct Page;
}

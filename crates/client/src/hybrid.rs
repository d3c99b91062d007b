//! Clients of `hybrid`: [`udp::Client`] over UDP and, with the feature `grpc`, [`grpc::Client`] over gRPC. Both sign
//! requests with the [`Identity`] of a member. Proofs are checked without a node, by [`proof::StateProof::check`].

mod error;
#[cfg(feature = "grpc")]
pub mod grpc;
mod outcome;
pub mod udp;

pub use error::AskError;
pub use lineside_messages::hybrid::{
    Code, Malformed, answer, attestation, block, change, genesis, map_proof, paper, proof, request, secret,
    sign, signing,
};
pub use outcome::TransactionOutcome;
pub use signing::Identity;

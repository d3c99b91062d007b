//! Messages of `hybrid`: signed requests, answers, blocks, the genesis, and proofs that are checked without a node.

pub mod answer;
pub mod attestation;
pub mod block;
pub mod change;
pub mod codec;
pub mod genesis;
#[cfg(feature = "grpc")]
pub mod grpc;
pub mod map_proof;
pub mod paper;
pub mod proof;
pub mod request;
pub mod secret;
pub mod sign;
pub mod signing;
pub mod udp;

pub use codec::Malformed;
/// Outcome of a request, and of a read.
pub use lineside_wire::HybridCode as Code;

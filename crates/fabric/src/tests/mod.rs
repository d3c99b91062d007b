//! Tests that look behind the public face of the crate.

mod crafted;
mod curves;
mod early;
mod expiry;
mod hostile;
mod members;
mod mutation;
pub(crate) mod network;
mod protobuf;
mod update;
mod vouching;

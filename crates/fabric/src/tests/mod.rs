//! Tests that use private parts of the crate.

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

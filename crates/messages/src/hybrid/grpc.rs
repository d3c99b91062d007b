//! Messages of `proto/hybrid.proto` as Rust types. The server passes the signed bytes of a request on without a copy.

#![allow(missing_docs, reason = "proto/hybrid.proto explains every field")]

mod answers;
pub mod paper;

pub use answers::{Reply, event, shared, version};

use bytes::Bytes;
use prost::Message;

/// Maximum number of bytes of a message to or from the server.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;

/// Name of the gRPC response header that contains the number of a refusal's code, in the paper's service.
pub const CODE_HEADER: &str = "lineside-code";

#[derive(Clone, PartialEq, Message)]
pub struct Signed {
    #[prost(bytes = "bytes", tag = "1")]
    pub request: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct SignedBatch {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub requests: Vec<Bytes>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub struct Version {
    #[prost(uint64, tag = "1")]
    pub block: u64,
    #[prost(uint32, tag = "2")]
    pub index: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Cell {
    #[prost(message, optional, tag = "1")]
    pub version: Option<Version>,
    #[prost(bytes = "bytes", tag = "2")]
    pub value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct Cells {
    #[prost(uint32, tag = "1")]
    pub code: u32,
    #[prost(string, tag = "2")]
    pub code_name: String,
    #[prost(message, repeated, tag = "3")]
    pub cells: Vec<Cell>,
}

#[derive(Clone, PartialEq, Message)]
pub struct CellsBatch {
    #[prost(message, repeated, tag = "1")]
    pub answers: Vec<Cells>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Placed {
    #[prost(uint32, tag = "1")]
    pub code: u32,
    #[prost(string, tag = "2")]
    pub code_name: String,
    #[prost(message, optional, tag = "3")]
    pub version: Option<Version>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PlacedBatch {
    #[prost(message, repeated, tag = "1")]
    pub answers: Vec<Placed>,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyCell {
    #[prost(bytes = "bytes", tag = "1")]
    pub key: Bytes,
    #[prost(message, optional, tag = "2")]
    pub version: Option<Version>,
    #[prost(bytes = "bytes", tag = "3")]
    pub value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct KeyCells {
    #[prost(uint32, tag = "1")]
    pub code: u32,
    #[prost(string, tag = "2")]
    pub code_name: String,
    #[prost(message, repeated, tag = "3")]
    pub cells: Vec<KeyCell>,
    #[prost(bool, tag = "4")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Proof {
    #[prost(uint32, tag = "1")]
    pub code: u32,
    #[prost(string, tag = "2")]
    pub code_name: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub proof: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct Write {
    #[prost(message, optional, tag = "1")]
    pub version: Option<Version>,
    #[prost(uint64, tag = "2")]
    pub time_ms: u64,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub value: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Writes {
    #[prost(uint32, tag = "1")]
    pub code: u32,
    #[prost(string, tag = "2")]
    pub code_name: String,
    #[prost(message, repeated, tag = "3")]
    pub writes: Vec<Write>,
    #[prost(bool, tag = "4")]
    pub more: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct SignedHeader {
    #[prost(uint32, tag = "1")]
    pub code: u32,
    #[prost(string, tag = "2")]
    pub code_name: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub header: Bytes,
    #[prost(bytes = "bytes", tag = "4")]
    pub head: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub struct Event {
    #[prost(uint32, tag = "1")]
    pub code: u32,
    #[prost(string, tag = "2")]
    pub code_name: String,
    #[prost(message, optional, tag = "3")]
    pub version: Option<Version>,
    #[prost(bytes = "bytes", tag = "4")]
    pub key: Bytes,
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub value: Option<Bytes>,
}

impl From<Version> for super::request::Version {
    fn from(version: Version) -> Self {
        Self {
            block: version.block,
            index: version.index,
        }
    }
}

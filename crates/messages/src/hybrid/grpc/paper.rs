//! Messages of `proto/paper.proto` as Rust types.

#![allow(missing_docs, reason = "proto/paper.proto explains every field")]

use prost::Message;

#[derive(Clone, PartialEq, Eq, Message)]
pub struct GetRequest {
    #[prost(string, tag = "1")]
    pub pubkey: String,
    #[prost(string, tag = "2")]
    pub signature: String,
    #[prost(string, tag = "3")]
    pub key: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct GetResponse {
    #[prost(string, tag = "1")]
    pub pubkey: String,
    #[prost(string, tag = "2")]
    pub signature: String,
    #[prost(string, tag = "3")]
    pub value: String,
    #[prost(int64, tag = "4")]
    pub version: i64,
    #[prost(uint32, tag = "100")]
    pub code: u32,
    #[prost(string, tag = "101")]
    pub code_name: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct SetRequest {
    #[prost(string, tag = "1")]
    pub pubkey: String,
    #[prost(string, tag = "2")]
    pub signature: String,
    #[prost(string, tag = "3")]
    pub key: String,
    #[prost(string, tag = "4")]
    pub value: String,
    #[prost(int64, tag = "5")]
    pub version: i64,
    #[prost(string, tag = "6")]
    pub tx_id: String,
    #[prost(string, tag = "7")]
    pub hash: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct SetResponse {
    #[prost(string, tag = "1")]
    pub pubkey: String,
    #[prost(string, tag = "2")]
    pub signature: String,
    #[prost(string, tag = "3")]
    pub txid: String,
    #[prost(uint32, tag = "100")]
    pub code: u32,
    #[prost(string, tag = "101")]
    pub code_name: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct VerifyRequest {
    #[prost(string, tag = "1")]
    pub pubkey: String,
    #[prost(string, tag = "2")]
    pub signature: String,
    #[prost(string, tag = "3")]
    pub key: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct VerifyResponse {
    #[prost(string, tag = "1")]
    pub pubkey: String,
    #[prost(string, tag = "2")]
    pub signature: String,
    #[prost(string, tag = "3")]
    pub block_id: String,
    #[prost(string, tag = "4")]
    pub block_hash: String,
    #[prost(string, tag = "5")]
    pub txn_hash: String,
    #[prost(uint32, tag = "100")]
    pub code: u32,
    #[prost(string, tag = "101")]
    pub code_name: String,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct BatchGetRequest {
    #[prost(message, repeated, tag = "1")]
    pub requests: Vec<GetRequest>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct BatchGetResponse {
    #[prost(message, repeated, tag = "1")]
    pub responses: Vec<GetResponse>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct BatchSetRequest {
    #[prost(message, repeated, tag = "1")]
    pub requests: Vec<SetRequest>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub struct BatchSetResponse {
    #[prost(message, repeated, tag = "1")]
    pub responses: Vec<SetResponse>,
}

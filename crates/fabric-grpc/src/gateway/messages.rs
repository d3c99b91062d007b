//! Messages of `gateway.Gateway` and `protos.Endorser`. The messages declare only the fields that this crate reads or
//! writes.

use crate::messages::SeekPosition;
use bytes::Bytes;
use prost::Message;

/// `gateway.SignedCommitStatusRequest` and `gateway.SignedChaincodeEventsRequest`, which have the same fields.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct SignedRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub request: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub signature: Bytes,
}

/// `gateway.CommitStatusRequest`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct CommitStatusRequest {
    #[prost(string, tag = "1")]
    pub transaction_id: String,
    #[prost(string, tag = "2")]
    pub channel_id: String,
    #[prost(bytes = "vec", tag = "3")]
    pub identity: Vec<u8>,
}

/// `gateway.CommitStatusResponse`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct CommitStatusResponse {
    #[prost(int32, tag = "1")]
    pub result: i32,
    #[prost(uint64, tag = "2")]
    pub block_number: u64,
}

/// `gateway.ChaincodeEventsRequest`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChaincodeEventsRequest {
    #[prost(string, tag = "1")]
    pub channel_id: String,
    #[prost(string, tag = "2")]
    pub chaincode_id: String,
    #[prost(bytes = "vec", tag = "3")]
    pub identity: Vec<u8>,
    #[prost(message, optional, tag = "4")]
    pub start_position: Option<SeekPosition>,
    #[prost(string, tag = "5")]
    pub after_transaction_id: String,
}

/// `gateway.ChaincodeEventsResponse`. Events are declared as bytes, which have the same encoding. All events of a
/// response are slices of one buffer, which counts as a whole against the limit on bytes in transit.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChaincodeEventsResponse {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub events: Vec<Bytes>,
    #[prost(uint64, tag = "2")]
    pub block_number: u64,
}

/// `gateway.EvaluateRequest`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct EvaluateRequest {
    #[prost(message, optional, tag = "3")]
    pub proposed_transaction: Option<SignedProposal>,
}

/// `gateway.EvaluateResponse`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct EvaluateResponse {
    #[prost(message, optional, tag = "1")]
    pub result: Option<ChaincodeResponse>,
}

/// `protos.SignedProposal`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct SignedProposal {
    #[prost(bytes = "bytes", tag = "1")]
    pub proposal_bytes: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub signature: Bytes,
}

/// `protos.Proposal`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct Proposal {
    #[prost(bytes = "bytes", tag = "1")]
    pub header: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub payload: Bytes,
}

/// `common.Header`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct Header {
    #[prost(bytes = "bytes", tag = "1")]
    pub channel_header: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub signature_header: Bytes,
}

/// `common.ChannelHeader`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChannelHeader {
    #[prost(int32, tag = "1")]
    pub kind: i32,
    #[prost(string, tag = "4")]
    pub channel_id: String,
    #[prost(string, tag = "5")]
    pub tx_id: String,
    #[prost(uint64, tag = "6")]
    pub epoch: u64,
    #[prost(bytes = "bytes", tag = "7")]
    pub extension: Bytes,
}

/// `common.SignatureHeader`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct SignatureHeader {
    #[prost(bytes = "vec", tag = "1")]
    pub creator: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    pub nonce: Vec<u8>,
}

/// `protos.ChaincodeHeaderExtension`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChaincodeHeaderExtension {
    #[prost(message, optional, tag = "2")]
    pub chaincode_id: Option<ChaincodeId>,
}

/// `protos.ChaincodeID`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChaincodeId {
    #[prost(string, tag = "2")]
    pub name: String,
}

/// `protos.ChaincodeProposalPayload`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChaincodeProposalPayload {
    #[prost(bytes = "bytes", tag = "1")]
    pub input: Bytes,
}

/// `protos.ChaincodeInvocationSpec`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChaincodeInvocationSpec {
    #[prost(message, optional, tag = "1")]
    pub chaincode_spec: Option<ChaincodeSpec>,
}

/// `protos.ChaincodeSpec`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChaincodeSpec {
    #[prost(message, optional, tag = "3")]
    pub input: Option<ChaincodeInput>,
}

/// `protos.ChaincodeInput`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChaincodeInput {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    pub args: Vec<Bytes>,
}

/// `protos.ProposalResponse`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ProposalResponse {
    #[prost(message, optional, tag = "4")]
    pub response: Option<ChaincodeResponse>,
}

/// `protos.Response`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChaincodeResponse {
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(string, tag = "2")]
    pub message: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub payload: Bytes,
}

/// `common.BlockchainInfo`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct BlockchainInfo {
    #[prost(uint64, tag = "1")]
    pub height: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub current_block_hash: Vec<u8>,
    #[prost(bytes = "vec", tag = "3")]
    pub previous_block_hash: Vec<u8>,
}

/// `protos.ProcessedTransaction`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ProcessedTransaction {
    /// The encoded envelope.
    #[prost(bytes = "bytes", tag = "1")]
    pub transaction_envelope: Bytes,
    #[prost(int32, tag = "2")]
    pub validation_code: i32,
}

/// `protos.ChannelQueryResponse`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChannelQueryResponse {
    #[prost(message, repeated, tag = "1")]
    pub channels: Vec<ChannelInfo>,
}

/// `protos.ChannelInfo`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChannelInfo {
    #[prost(string, tag = "1")]
    pub channel_id: String,
}

/// `common.OrdererBlockMetadata`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct OrdererBlockMetadata {
    #[prost(message, optional, tag = "1")]
    pub last_config: Option<LastConfig>,
}

/// `common.LastConfig`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct LastConfig {
    #[prost(uint64, tag = "1")]
    pub index: u64,
}

//! Protobuf messages of the services. Parts that are signed or hashed are declared as bytes, so that they are passed on
//! unchanged.

use bytes::Bytes;
use lineside_grpc::Answers;
use prost::{Message, Oneof};

/// `common.Status`
pub mod status {
    #![allow(missing_docs)]
    pub const SUCCESS: i32 = 200;
    pub const BAD_REQUEST: i32 = 400;
    pub const FORBIDDEN: i32 = 403;
    pub const NOT_FOUND: i32 = 404;
    pub const INTERNAL_SERVER_ERROR: i32 = 500;
    pub const SERVICE_UNAVAILABLE: i32 = 503;
}

/// `SeekInfo.behavior`: the stream ends at the first block that does not exist yet.
pub const FAIL_IF_NOT_READY: i32 = 1;
/// `SeekInfo.content_type`: blocks without their transactions.
pub const HEADER_WITH_SIG_BYTES: i32 = 1;

/// `common.Envelope`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct Envelope {
    #[prost(bytes = "bytes", tag = "1")]
    pub payload: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub signature: Bytes,
}

/// `orderer.SeekInfo`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct SeekInfo {
    #[prost(message, optional, tag = "1")]
    pub start: Option<SeekPosition>,
    #[prost(message, optional, tag = "2")]
    pub stop: Option<SeekPosition>,
    #[prost(int32, tag = "3")]
    pub behavior: i32,
    #[prost(int32, tag = "4")]
    pub error_response: i32,
    #[prost(int32, tag = "5")]
    pub content_type: i32,
}

/// `orderer.SeekPosition`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct SeekPosition {
    #[prost(oneof = "Position", tags = "1, 2, 3, 4")]
    pub position: Option<Position>,
}

/// Block at which a range of requested blocks begins or ends (`orderer.SeekPosition`).
#[derive(Clone, PartialEq, Oneof)]
#[allow(missing_docs)]
pub enum Position {
    #[prost(message, tag = "1")]
    Newest(Empty),
    #[prost(message, tag = "2")]
    Oldest(Empty),
    #[prost(message, tag = "3")]
    Specified(SeekSpecified),
    #[prost(message, tag = "4")]
    NextCommit(Empty),
}

impl Position {
    /// Returns the position of the block with this number.
    pub fn block(number: u64) -> Self {
        Self::Specified(SeekSpecified { number })
    }
}

impl From<Position> for SeekPosition {
    fn from(position: Position) -> Self {
        Self {
            position: Some(position),
        }
    }
}

/// A message without fields.
#[derive(Clone, PartialEq, Message)]
pub struct Empty {}

/// `orderer.SeekSpecified`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct SeekSpecified {
    #[prost(uint64, tag = "1")]
    pub number: u64,
}

/// `orderer.DeliverResponse` and `protos.DeliverResponse`, whose common fields are equal. Blocks are declared as bytes,
/// which have the same encoding, so that they are passed on unchanged and without a copy.
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct DeliverResponse {
    #[prost(oneof = "DeliverContent", tags = "1, 2, 3")]
    pub delivered: Option<DeliverContent>,
}

/// Content of a response.
#[derive(Clone, PartialEq, Oneof)]
#[allow(missing_docs)]
pub enum DeliverContent {
    #[prost(int32, tag = "1")]
    Status(i32),
    #[prost(bytes = "bytes", tag = "2")]
    Block(Bytes),
    #[prost(bytes = "bytes", tag = "3")]
    FilteredBlock(Bytes),
}

impl DeliverContent {
    /// Counts a block among the answers in transit to a client; `None` if the limit on bytes in transit does not admit
    /// it now.
    pub(crate) fn count_in_transit(&self, answers: &Answers) -> Option<Self> {
        Some(match self {
            Self::Status(status) => Self::Status(*status),
            Self::Block(bytes) => Self::Block(answers.count_until_encoded(bytes)?),
            Self::FilteredBlock(bytes) => Self::FilteredBlock(answers.count_until_encoded(bytes)?),
        })
    }
}

impl From<DeliverContent> for DeliverResponse {
    fn from(delivered: DeliverContent) -> Self {
        Self {
            delivered: Some(delivered),
        }
    }
}

/// `protos.FilteredBlock`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct FilteredBlock {
    #[prost(string, tag = "1")]
    pub channel_id: String,
    #[prost(uint64, tag = "2")]
    pub number: u64,
    #[prost(message, repeated, tag = "4")]
    pub filtered_transactions: Vec<FilteredTransaction>,
}

/// `protos.FilteredTransaction`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct FilteredTransaction {
    #[prost(string, tag = "1")]
    pub txid: String,
    #[prost(int32, tag = "2")]
    pub kind: i32,
    #[prost(int32, tag = "3")]
    pub tx_validation_code: i32,
    #[prost(message, optional, tag = "4")]
    pub transaction_actions: Option<FilteredTransactionActions>,
}

/// `protos.FilteredTransactionActions`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct FilteredTransactionActions {
    #[prost(message, repeated, tag = "1")]
    pub chaincode_actions: Vec<FilteredChaincodeAction>,
}

/// `protos.FilteredChaincodeAction`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct FilteredChaincodeAction {
    #[prost(message, optional, tag = "1")]
    pub chaincode_event: Option<ChaincodeEvent>,
}

/// `protos.ChaincodeEvent`
#[derive(Clone, PartialEq, Message)]
#[allow(missing_docs)]
pub struct ChaincodeEvent {
    #[prost(string, tag = "1")]
    pub chaincode_id: String,
    #[prost(string, tag = "2")]
    pub tx_id: String,
    #[prost(string, tag = "3")]
    pub event_name: String,
    #[prost(bytes = "bytes", tag = "4")]
    pub payload: Bytes,
}

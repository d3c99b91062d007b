//! The messages of HBase 2.6 that the client uses. The field numbers are those of RPC.proto, Client.proto, HBase.proto,
//! Cell.proto, Comparator.proto, Registry.proto and Master.proto. Required fields of answers are optional here, so that
//! the client notices a missing field.

use bytes::Bytes;
use prost::Message;

/// Value of RegionSpecifierType.REGION_NAME.
pub(super) const REGION_NAME: i32 = 1;
/// Value of CompareType.EQUAL.
pub(super) const EQUAL: i32 = 2;
/// Value of CellType.PUT, the only type of cells that readers get.
pub(super) const CELL_PUT: i32 = 4;
/// Value of Scan.ReadType.PREAD, which is for short scans.
pub(super) const PREAD: i32 = 2;
/// Values of MutationType.
pub(super) const APPEND: i32 = 0;
pub(super) const INCREMENT: i32 = 1;
pub(super) const PUT: i32 = 2;
pub(super) const DELETE: i32 = 3;
/// Value of DeleteType that deletes all versions of a column.
pub(super) const DELETE_MULTIPLE_VERSIONS: i32 = 1;

// ---- RPC.proto ----

#[derive(Clone, PartialEq, Message)]
pub(super) struct UserInformation {
    #[prost(string, required, tag = "1")]
    pub(super) effective_user: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ConnectionHeader {
    #[prost(message, optional, tag = "1")]
    pub(super) user_info: Option<UserInformation>,
    #[prost(string, optional, tag = "2")]
    pub(super) service_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestHeader {
    #[prost(uint32, optional, tag = "1")]
    pub(super) call_id: Option<u32>,
    #[prost(string, optional, tag = "3")]
    pub(super) method_name: Option<String>,
    #[prost(bool, optional, tag = "4")]
    pub(super) request_param: Option<bool>,
    /// Time limit of the call, in milliseconds.
    #[prost(uint32, optional, tag = "7")]
    pub(super) timeout: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct CellBlockMeta {
    #[prost(uint32, optional, tag = "1")]
    pub(super) length: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ExceptionResponse {
    #[prost(string, optional, tag = "1")]
    pub(super) exception_class_name: Option<String>,
    #[prost(string, optional, tag = "2")]
    pub(super) stack_trace: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) hostname: Option<String>,
    #[prost(int32, optional, tag = "4")]
    pub(super) port: Option<i32>,
    #[prost(bool, optional, tag = "5")]
    pub(super) do_not_retry: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseHeader {
    #[prost(uint32, optional, tag = "1")]
    pub(super) call_id: Option<u32>,
    #[prost(message, optional, tag = "2")]
    pub(super) exception: Option<ExceptionResponse>,
    #[prost(message, optional, tag = "3")]
    pub(super) cell_block_meta: Option<CellBlockMeta>,
}

// ---- HBase.proto, Cell.proto, Comparator.proto ----

#[derive(Clone, PartialEq, Message)]
pub(super) struct TableName {
    #[prost(bytes = "vec", required, tag = "1")]
    pub(super) namespace: Vec<u8>,
    #[prost(bytes = "vec", required, tag = "2")]
    pub(super) qualifier: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BytesBytesPair {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub(super) first: Bytes,
    #[prost(bytes = "bytes", required, tag = "2")]
    pub(super) second: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct NameBytesPair {
    #[prost(string, required, tag = "1")]
    pub(super) name: String,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(super) value: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ColumnFamilySchema {
    #[prost(bytes = "bytes", required, tag = "1")]
    pub(super) name: Bytes,
    #[prost(message, repeated, tag = "2")]
    pub(super) attributes: Vec<BytesBytesPair>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TableSchema {
    #[prost(message, optional, tag = "1")]
    pub(super) table_name: Option<TableName>,
    #[prost(message, repeated, tag = "3")]
    pub(super) column_families: Vec<ColumnFamilySchema>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RegionInfo {
    #[prost(uint64, required, tag = "1")]
    pub(super) region_id: u64,
    #[prost(message, optional, tag = "2")]
    pub(super) table_name: Option<TableName>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(super) start_key: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(super) end_key: Option<Bytes>,
    #[prost(bool, optional, tag = "5")]
    pub(super) offline: Option<bool>,
    #[prost(bool, optional, tag = "6")]
    pub(super) split: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RegionSpecifier {
    #[prost(int32, required, tag = "1")]
    pub(super) kind: i32,
    #[prost(bytes = "bytes", required, tag = "2")]
    pub(super) value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ServerName {
    #[prost(string, required, tag = "1")]
    pub(super) host_name: String,
    #[prost(uint32, optional, tag = "2")]
    pub(super) port: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RegionLocation {
    #[prost(message, optional, tag = "1")]
    pub(super) region_info: Option<RegionInfo>,
    #[prost(message, optional, tag = "2")]
    pub(super) server_name: Option<ServerName>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Cell {
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(super) row: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(super) family: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub(super) qualifier: Option<Bytes>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) timestamp: Option<u64>,
    #[prost(int32, optional, tag = "5")]
    pub(super) cell_type: Option<i32>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub(super) value: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ByteArrayComparable {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(super) value: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct BinaryComparator {
    #[prost(message, required, tag = "1")]
    pub(super) comparable: ByteArrayComparable,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Comparator {
    #[prost(string, required, tag = "1")]
    pub(super) name: String,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) serialized_comparator: Option<Vec<u8>>,
}

// ---- Client.proto ----

#[derive(Clone, PartialEq, Message)]
pub(super) struct Column {
    #[prost(bytes = "vec", required, tag = "1")]
    pub(super) family: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(super) qualifier: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Get {
    #[prost(bytes = "vec", required, tag = "1")]
    pub(super) row: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    pub(super) column: Vec<Column>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Row {
    #[prost(message, repeated, tag = "1")]
    pub(super) cell: Vec<Cell>,
    #[prost(int32, optional, tag = "2")]
    pub(super) associated_cell_count: Option<i32>,
    #[prost(bool, optional, tag = "4")]
    pub(super) stale: Option<bool>,
    #[prost(bool, optional, tag = "5")]
    pub(super) partial: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetRequest {
    #[prost(message, required, tag = "1")]
    pub(super) region: RegionSpecifier,
    #[prost(message, required, tag = "2")]
    pub(super) get: Get,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct GetResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) result: Option<Row>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Condition {
    #[prost(bytes = "vec", required, tag = "1")]
    pub(super) row: Vec<u8>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) family: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(super) qualifier: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "4")]
    pub(super) compare_type: Option<i32>,
    #[prost(message, optional, tag = "5")]
    pub(super) comparator: Option<Comparator>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct QualifierValue {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(super) qualifier: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) value: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "4")]
    pub(super) delete_type: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ColumnValue {
    #[prost(bytes = "vec", required, tag = "1")]
    pub(super) family: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    pub(super) qualifier_value: Vec<QualifierValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Mutation {
    #[prost(bytes = "vec", optional, tag = "1")]
    pub(super) row: Option<Vec<u8>>,
    #[prost(int32, optional, tag = "2")]
    pub(super) mutate_type: Option<i32>,
    #[prost(message, repeated, tag = "3")]
    pub(super) column_value: Vec<ColumnValue>,
    #[prost(message, repeated, tag = "5")]
    pub(super) attribute: Vec<NameBytesPair>,
    #[prost(uint64, optional, tag = "9")]
    pub(super) nonce: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MutateRequest {
    #[prost(message, required, tag = "1")]
    pub(super) region: RegionSpecifier,
    #[prost(message, required, tag = "2")]
    pub(super) mutation: Mutation,
    #[prost(message, optional, tag = "3")]
    pub(super) condition: Option<Condition>,
    #[prost(uint64, optional, tag = "4")]
    pub(super) nonce_group: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MutateResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) result: Option<Row>,
    #[prost(bool, optional, tag = "2")]
    pub(super) processed: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Scan {
    #[prost(message, repeated, tag = "1")]
    pub(super) column: Vec<Column>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(super) start_row: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "4")]
    pub(super) stop_row: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "10")]
    pub(super) max_result_size: Option<u64>,
    #[prost(bool, optional, tag = "15")]
    pub(super) reversed: Option<bool>,
    #[prost(uint32, optional, tag = "17")]
    pub(super) caching: Option<u32>,
    #[prost(bool, optional, tag = "21")]
    pub(super) include_start_row: Option<bool>,
    #[prost(bool, optional, tag = "22")]
    pub(super) include_stop_row: Option<bool>,
    #[prost(int32, optional, tag = "23")]
    pub(super) read_type: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScanRequest {
    #[prost(message, optional, tag = "1")]
    pub(super) region: Option<RegionSpecifier>,
    #[prost(message, optional, tag = "2")]
    pub(super) scan: Option<Scan>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) scanner_id: Option<u64>,
    #[prost(uint32, optional, tag = "4")]
    pub(super) number_of_rows: Option<u32>,
    #[prost(bool, optional, tag = "5")]
    pub(super) close_scanner: Option<bool>,
    #[prost(uint64, optional, tag = "6")]
    pub(super) next_call_seq: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ScanResponse {
    #[prost(uint32, repeated, packed = "false", tag = "1")]
    pub(super) cells_per_result: Vec<u32>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) scanner_id: Option<u64>,
    #[prost(message, repeated, tag = "5")]
    pub(super) results: Vec<Row>,
    #[prost(bool, optional, tag = "6")]
    pub(super) stale: Option<bool>,
    #[prost(bool, optional, tag = "8")]
    pub(super) more_results_in_region: Option<bool>,
}

// ---- Registry.proto, Master.proto ----

/// Content of GetMetaRegionLocationsRequest and GetActiveMasterRequest, which have no fields.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Nothing {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct MetaRegionLocations {
    #[prost(message, repeated, tag = "1")]
    pub(super) meta_locations: Vec<RegionLocation>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ActiveMaster {
    #[prost(message, optional, tag = "1")]
    pub(super) server_name: Option<ServerName>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TableDescriptorsRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) table_names: Vec<TableName>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TableDescriptors {
    #[prost(message, repeated, tag = "1")]
    pub(super) table_schema: Vec<TableSchema>,
}

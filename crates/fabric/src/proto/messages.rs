//! Fabric's messages, with the field numbers of fabric-protos.
//!
//! A `lazy` field contains a message that is not decoded together with the enclosing message, because a message of this
//! type may contain itself.

use super::plain::{Field, Kind, Schema};
use super::{Message, WalkError, wire};
use crate::limits::REPEATED_ENTRIES_MAX;
use smallvec::{Array, SmallVec};

/// Entries of a field that has at most four entries in nearly all messages. Up to four entries are stored without an
/// allocation: one thread would allocate them and another would free them, which is the most expensive case for the
/// allocator.
pub type Few<T> = SmallVec<[T; 4]>;
/// Entries of a field that has at most two entries in nearly all messages; see [`Few`].
pub type Pair<T> = SmallVec<[T; 2]>;

/// Expands to the Rust type of a field.
macro_rules! field_type {
    ($life:lifetime, bytes) => { &$life [u8] };
    ($life:lifetime, string) => { &$life str };
    ($life:lifetime, optional_string) => { Option<&$life str> };
    ($life:lifetime, optional_int32) => { Option<i32> };
    ($life:lifetime, optional_int64) => { Option<i64> };
    ($life:lifetime, optional_bytes) => { Option<&$life [u8]> };
    ($life:lifetime, uint64) => { u64 };
    ($life:lifetime, uint32) => { u32 };
    ($life:lifetime, int64) => { i64 };
    ($life:lifetime, int32) => { i32 };
    ($life:lifetime, bool) => { bool };
    ($life:lifetime, repeated_bytes) => { Vec<&$life [u8]> };
    ($life:lifetime, repeated_string) => { Vec<&$life str> };
    ($life:lifetime, message $inner:ident) => { Option<$inner<$life>> };
    ($life:lifetime, lazy $inner:ident) => { Option<&$life [u8]> };
    ($life:lifetime, repeated $inner:ident) => { Vec<$inner<$life>> };
    ($life:lifetime, few $inner:ident) => { Few<$inner<$life>> };
    ($life:lifetime, pair $inner:ident) => { Pair<$inner<$life>> };
    ($life:lifetime, repeated_lazy $inner:ident) => { Vec<&$life [u8]> };
}

/// Expands to the field's kind for the plain decoder.
macro_rules! field_kind {
    (bytes) => {
        Kind::Bytes
    };
    (optional_bytes) => {
        Kind::Bytes
    };
    (string) => {
        Kind::Text
    };
    (optional_string) => {
        Kind::Text
    };
    (repeated_bytes) => {
        Kind::ManyBytes
    };
    (repeated_string) => {
        Kind::ManyText
    };
    (message $inner:ident) => {
        Kind::Message(<$inner<'static> as Message<'static>>::schema)
    };
    (lazy $inner:ident) => {
        Kind::Message(<$inner<'static> as Message<'static>>::schema)
    };
    (repeated $inner:ident) => {
        Kind::ManyMessages(<$inner<'static> as Message<'static>>::schema)
    };
    (few $inner:ident) => {
        Kind::ManyMessages(<$inner<'static> as Message<'static>>::schema)
    };
    (pair $inner:ident) => {
        Kind::ManyMessages(<$inner<'static> as Message<'static>>::schema)
    };
    (repeated_lazy $inner:ident) => {
        Kind::ManyMessages(<$inner<'static> as Message<'static>>::schema)
    };
    ($scalar:ident) => {
        Kind::Varint
    };
}

/// Expands to the wire type of a field.
macro_rules! field_wire {
    (uint64) => {
        wire::VARINT
    };
    (uint32) => {
        wire::VARINT
    };
    (int64) => {
        wire::VARINT
    };
    (int32) => {
        wire::VARINT
    };
    (optional_int32) => {
        wire::VARINT
    };
    (optional_int64) => {
        wire::VARINT
    };
    (bool) => {
        wire::VARINT
    };
    ($($other:ident)+) => {
        wire::BYTES
    };
}

/// Expands to true if a field may occur several times in a row, otherwise to false.
macro_rules! field_many {
    (repeated_bytes) => {
        true
    };
    (repeated_string) => {
        true
    };
    (repeated $inner:ident) => {
        true
    };
    (few $inner:ident) => {
        true
    };
    (pair $inner:ident) => {
        true
    };
    (repeated_lazy $inner:ident) => {
        true
    };
    ($($other:ident)+) => {
        false
    };
}

/// Expands to the code that reads a field's value.
macro_rules! field_read {
    ($place:expr, $bytes:ident, bytes) => {
        $place = wire::length_delimited(&mut $bytes)?
    };
    ($place:expr, $bytes:ident, optional_bytes) => {
        $place = Some(wire::length_delimited(&mut $bytes)?)
    };
    ($place:expr, $bytes:ident, string) => {
        $place = text(&mut $bytes)?
    };
    ($place:expr, $bytes:ident, optional_string) => {
        $place = Some(text(&mut $bytes)?)
    };
    ($place:expr, $bytes:ident, uint64) => {
        $place = wire::varint(&mut $bytes)?
    };
    ($place:expr, $bytes:ident, uint32) => {
        $place = wire::varint(&mut $bytes)? as u32
    };
    ($place:expr, $bytes:ident, int64) => {
        $place = wire::varint(&mut $bytes)? as i64
    };
    ($place:expr, $bytes:ident, int32) => {
        $place = wire::varint(&mut $bytes)? as i32
    };
    ($place:expr, $bytes:ident, optional_int32) => {
        $place = Some(wire::varint(&mut $bytes)? as i32)
    };
    ($place:expr, $bytes:ident, optional_int64) => {
        $place = Some(wire::varint(&mut $bytes)? as i64)
    };
    ($place:expr, $bytes:ident, bool) => {
        $place = wire::varint(&mut $bytes)? != 0
    };
    ($place:expr, $bytes:ident, repeated_bytes) => {
        push(&mut $place, wire::length_delimited(&mut $bytes)?)?
    };
    ($place:expr, $bytes:ident, repeated_string) => {
        push(&mut $place, text(&mut $bytes)?)?
    };
    ($place:expr, $bytes:ident, message $inner:ident) => {
        $place = Some($inner::walk(wire::length_delimited(&mut $bytes)?)?)
    };
    ($place:expr, $bytes:ident, lazy $inner:ident) => {
        $place = Some(wire::length_delimited(&mut $bytes)?)
    };
    ($place:expr, $bytes:ident, repeated $inner:ident) => {
        push(&mut $place, $inner::walk(wire::length_delimited(&mut $bytes)?)?)?
    };
    ($place:expr, $bytes:ident, few $inner:ident) => {
        push_few(&mut $place, $inner::walk(wire::length_delimited(&mut $bytes)?)?)?
    };
    ($place:expr, $bytes:ident, pair $inner:ident) => {
        push_few(&mut $place, $inner::walk(wire::length_delimited(&mut $bytes)?)?)?
    };
    ($place:expr, $bytes:ident, repeated_lazy $inner:ident) => {
        push(&mut $place, wire::length_delimited(&mut $bytes)?)?
    };
}

macro_rules! messages {
    ($(
        $(#[$doc:meta])*
        $name:ident { $( $number:literal $field:ident: $kind:ident $($inner:ident)? $(, oneof $oneof:literal)?; )+ }
    )+) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        #[allow(missing_docs)]
        pub struct $name<'a> {
            $( pub $field: field_type!('a, $kind $($inner)?), )+
            #[doc(hidden)]
            pub lifetime: std::marker::PhantomData<&'a ()>,
        }

        impl<'a> Message<'a> for $name<'a> {
            fn schema() -> &'static Schema {
                static SCHEMA: Schema = Schema {
                    fields: &[ $( Field {
                        number: $number,
                        kind: field_kind!($kind $($inner)?),
                        oneof: 0 $( + $oneof )?,
                    }, )+ ],
                };
                &SCHEMA
            }

            #[inline]
            fn walk(mut bytes: &'a [u8]) -> Result<Self, WalkError> {
                let mut message = Self::default();
                let mut last = 0;
                #[allow(unused_mut)]
                let mut oneofs = 0u8;
                while !bytes.is_empty() {
                    let (number, wire_type) = wire::tag(&mut bytes)?;
                    if number <= last {
                        let again = match number {
                            $( $number => field_many!($kind $($inner)?), )+
                            _ => false,
                        };
                        if number < last || !again {
                            return Err(WalkError::Unordered);
                        }
                    }
                    last = number;
                    match (number, wire_type) {
                        $( ($number, field_wire!($kind $($inner)?)) => {
                            $( if oneofs & 1 << $oneof != 0 {
                                return Err(WalkError::Unordered);
                            }
                            oneofs |= 1 << $oneof; )?
                            field_read!(message.$field, bytes, $kind $($inner)?);
                        } )+
                        _ => wire::skip(number, wire_type, &mut bytes)?,
                    }
                }
                let _ = oneofs;
                Ok(message)
            }
        }
    )+ };
}

#[inline]
fn push<T>(entries: &mut Vec<T>, entry: T) -> Result<(), WalkError> {
    if entries.len() >= REPEATED_ENTRIES_MAX {
        return Err(WalkError::TooLarge);
    }
    entries.push(entry);
    Ok(())
}

#[inline]
fn push_few<A: Array>(entries: &mut SmallVec<A>, entry: A::Item) -> Result<(), WalkError> {
    if entries.len() >= REPEATED_ENTRIES_MAX {
        return Err(WalkError::TooLarge);
    }
    entries.push(entry);
    Ok(())
}

fn text<'a>(bytes: &mut &'a [u8]) -> Result<&'a str, WalkError> {
    std::str::from_utf8(wire::length_delimited(bytes)?).map_err(|_| WalkError::Malformed)
}

messages! {
    /// `common.Block`
    Block { 1 header: message BlockHeader; 2 data: message BlockData; 3 metadata: message BlockMetadata; }
    /// `common.BlockHeader`
    BlockHeader { 1 number: uint64; 2 previous_hash: bytes; 3 data_hash: bytes; }
    /// `common.BlockData`
    BlockData { 1 data: repeated_bytes; }
    /// `common.BlockMetadata`
    BlockMetadata { 1 metadata: repeated_bytes; }
    /// `common.Metadata`
    Metadata { 1 value: bytes; 2 signatures: repeated MetadataSignature; }
    /// `common.MetadataSignature`
    MetadataSignature { 1 signature_header: bytes; 2 signature: bytes; 3 identifier_header: bytes; }
    /// `common.IdentifierHeader`
    IdentifierHeader { 1 identifier: uint32; 2 nonce: bytes; }
    /// `common.Envelope`
    Envelope { 1 payload: bytes; 2 signature: bytes; }
    /// `common.Payload`
    Payload { 1 header: message Header; 2 data: bytes; }
    /// `common.Header`
    Header { 1 channel_header: bytes; 2 signature_header: bytes; }
    /// `google.protobuf.Timestamp`
    Timestamp { 1 seconds: int64; 2 nanos: int32; }
    /// `common.ChannelHeader`
    ChannelHeader {
        1 kind: int32;
        2 version: int32;
        3 timestamp: message Timestamp;
        4 channel_id: string;
        5 tx_id: string;
        6 epoch: uint64;
        7 extension: bytes;
        8 tls_cert_hash: bytes;
    }
    /// `common.SignatureHeader`
    SignatureHeader { 1 creator: bytes; 2 nonce: bytes; }
    /// `peer.ChaincodeHeaderExtension`
    ChaincodeHeaderExtension { 2 chaincode_id: message ChaincodeId; }
    /// `peer.ChaincodeID`
    ChaincodeId { 1 path: string; 2 name: string; 3 version: string; }
    /// `peer.Transaction`
    Transaction { 1 actions: few TransactionAction; }
    /// `peer.TransactionAction`
    TransactionAction { 1 header: bytes; 2 payload: bytes; }
    /// `peer.ChaincodeActionPayload`
    ChaincodeActionPayload { 1 chaincode_proposal_payload: bytes; 2 action: message ChaincodeEndorsedAction; }
    /// `peer.ChaincodeEndorsedAction`
    ChaincodeEndorsedAction { 1 proposal_response_payload: bytes; 2 endorsements: few Endorsement; }
    /// `peer.Endorsement`
    Endorsement { 1 endorser: bytes; 2 signature: bytes; }
    /// `peer.ProposalResponsePayload`
    ProposalResponsePayload { 1 proposal_hash: bytes; 2 extension: bytes; }
    /// `peer.ChaincodeAction`
    ChaincodeAction {
        1 results: bytes;
        2 events: bytes;
        3 response: message Response;
        4 chaincode_id: message ChaincodeId;
    }
    /// `peer.Response`
    Response { 1 status: int32; 2 message: string; 3 payload: bytes; }
    /// `peer.ChaincodeEvent`
    ChaincodeEvent { 1 chaincode_id: string; 2 tx_id: string; 3 event_name: string; 4 payload: bytes; }
    /// `rwset.TxReadWriteSet`
    TxReadWriteSet { 1 data_model: int32; 2 ns_rwset: few NsReadWriteSet; }
    /// `rwset.NsReadWriteSet`
    NsReadWriteSet { 1 namespace: string; 2 rwset: bytes; 3 collections: repeated CollectionHashedReadWriteSet; }
    /// `rwset.CollectionHashedReadWriteSet`
    CollectionHashedReadWriteSet { 1 collection_name: string; 2 hashed_rwset: bytes; 3 pvt_rwset_hash: bytes; }
    /// `kvrwset.KVRWSet`
    KvRwSet {
        1 reads: pair KvRead;
        2 range_queries: repeated RangeQueryInfo;
        3 writes: pair KvWrite;
        4 metadata_writes: repeated KvMetadataWrite;
    }
    /// `kvrwset.KVRead`
    KvRead { 1 key: string; 2 version: message Version; }
    /// `kvrwset.Version`
    Version { 1 block_num: uint64; 2 tx_num: uint64; }
    /// `kvrwset.RangeQueryInfo`
    RangeQueryInfo {
        1 start_key: string;
        2 end_key: string;
        3 itr_exhausted: bool;
        4 raw_reads: message QueryReads, oneof 1;
        5 merkle: message MerkleSummary, oneof 1;
    }
    /// `kvrwset.QueryReads`
    QueryReads { 1 reads: repeated KvRead; }
    /// `kvrwset.QueryReadsMerkleSummary`
    MerkleSummary { 1 max_degree: uint32; 2 max_level: uint32; 3 max_level_hashes: repeated_bytes; }
    /// `kvrwset.KVWrite`
    KvWrite { 1 key: string; 2 is_delete: bool; 3 value: bytes; }
    /// `kvrwset.KVMetadataWrite`
    KvMetadataWrite { 1 key: string; 2 entries: repeated KvMetadataEntry; }
    /// `kvrwset.KVMetadataEntry`
    KvMetadataEntry { 1 name: string; 2 value: bytes; }
    /// `kvrwset.HashedRWSet`
    HashedRwSet {
        1 reads: repeated KvReadHash;
        2 writes: repeated KvWriteHash;
        3 metadata_writes: repeated KvMetadataWriteHash;
    }
    /// `kvrwset.KVReadHash`
    KvReadHash { 1 key_hash: bytes; 2 version: message Version; }
    /// `kvrwset.KVWriteHash`
    KvWriteHash { 1 key_hash: bytes; 2 is_delete: bool; 3 value_hash: bytes; 4 is_purge: bool; }
    /// `kvrwset.KVMetadataWriteHash`
    KvMetadataWriteHash { 1 key_hash: bytes; 2 entries: repeated KvMetadataEntry; }
    /// `privacyenabledstate.SnapshotRecord`
    SnapshotRecord { 1 key: bytes; 2 value: bytes; 3 metadata: bytes; 4 version: bytes; }
    /// `msp.SerializedIdentity`
    SerializedIdentity { 1 mspid: string; 2 id_bytes: bytes; }
    /// `common.SignaturePolicyEnvelope`
    SignaturePolicyEnvelope { 1 version: int32; 2 rule: lazy SignaturePolicy; 3 identities: repeated MspPrincipal; }
    /// `common.SignaturePolicy`
    SignaturePolicy { 1 signed_by: optional_int32, oneof 1; 2 n_out_of: lazy NOutOf, oneof 1; }
    /// `common.SignaturePolicy.NOutOf`
    NOutOf { 1 n: int32; 2 rules: repeated_lazy SignaturePolicy; }
    /// `msp.MSPPrincipal`
    MspPrincipal { 1 classification: int32; 2 principal: bytes; }
    /// `msp.MSPRole`
    MspRole { 1 msp_identifier: string; 2 role: int32; }
    /// `msp.OrganizationUnit`
    OrganizationUnit { 1 msp_identifier: string; 2 unit: string; 3 certifiers_identifier: bytes; }
    /// `msp.MSPIdentityAnonymity`
    IdentityAnonymity { 1 anonymity: int32; }
    /// `msp.CombinedPrincipal`
    CombinedPrincipal { 1 principals: repeated MspPrincipal; }
    /// `peer.ApplicationPolicy`
    ApplicationPolicy {
        1 signature_policy: lazy SignaturePolicyEnvelope, oneof 1;
        2 channel_config_policy_reference: optional_string, oneof 1;
    }
    /// `common.ImplicitMetaPolicy`
    ImplicitMetaPolicy { 1 sub_policy: string; 2 rule: int32; }
    /// `common.ConfigEnvelope`
    ConfigEnvelope { 1 config: message Config; }
    /// `common.Config`
    Config { 1 sequence: uint64; 2 channel_group: lazy ConfigGroup; }
    /// `common.ConfigUpdateEnvelope`
    ConfigUpdateEnvelope { 1 config_update: bytes; 2 signatures: repeated ConfigSignature; }
    /// `common.ConfigSignature`
    ConfigSignature { 1 signature_header: bytes; 2 signature: bytes; }
    /// `common.ConfigGroup`
    ConfigGroup {
        1 version: uint64;
        2 groups: repeated ConfigGroupEntry;
        3 values: repeated ConfigValueEntry;
        4 policies: repeated ConfigPolicyEntry;
        5 mod_policy: string;
    }
    /// An entry of `ConfigGroup.groups`.
    ConfigGroupEntry { 1 key: string; 2 value: lazy ConfigGroup; }
    /// An entry of `ConfigGroup.values`.
    ConfigValueEntry { 1 key: string; 2 value: message ConfigValue; }
    /// An entry of `ConfigGroup.policies`.
    ConfigPolicyEntry { 1 key: string; 2 value: message ConfigPolicy; }
    /// `common.ConfigValue`
    ConfigValue { 1 version: uint64; 2 value: bytes; 3 mod_policy: string; }
    /// `common.ConfigPolicy`
    ConfigPolicy { 1 version: uint64; 2 policy: message Policy; 3 mod_policy: string; }
    /// `common.Policy`
    Policy { 1 kind: int32; 2 value: bytes; }
    /// `common.Capabilities`
    Capabilities { 1 capabilities: repeated CapabilityEntry; }
    /// An entry of `Capabilities.capabilities`.
    CapabilityEntry { 1 key: string; 2 value: bytes; }
    /// `common.HashingAlgorithm`
    HashingAlgorithm { 1 name: string; }
    /// `peer.ACLs`
    Acls { 1 acls: repeated AclEntry; }
    /// An entry of `ACLs.acls`.
    AclEntry { 1 key: string; 2 value: message ApiResource; }
    /// `peer.APIResource`
    ApiResource { 1 policy_ref: string; }
    /// `common.Orderers`
    Orderers { 1 consenters: repeated Consenter; }
    /// `common.Consenter`
    Consenter { 1 id: uint32; 2 host: string; 3 port: uint32; 4 msp_id: string; 5 identity: bytes; }
    /// `msp.MSPConfig`
    MspConfig { 1 kind: int32; 2 config: bytes; }
    /// `msp.FabricMSPConfig`
    FabricMspConfig {
        1 name: string;
        2 root_certs: repeated_bytes;
        3 intermediate_certs: repeated_bytes;
        4 admins: repeated_bytes;
        5 revocation_list: repeated_bytes;
        7 organizational_units: repeated FabricOuIdentifier;
        8 crypto_config: message FabricCryptoConfig;
        11 node_ous: message FabricNodeOus;
    }
    /// `msp.FabricOUIdentifier`
    FabricOuIdentifier { 1 certificate: bytes; 2 unit: string; }
    /// `msp.FabricCryptoConfig`
    FabricCryptoConfig { 1 signature_hash_family: string; 2 identity_hash_function: string; }
    /// `msp.FabricNodeOUs`
    FabricNodeOus {
        1 enable: bool;
        2 client: message FabricOuIdentifier;
        3 peer: message FabricOuIdentifier;
        4 admin: message FabricOuIdentifier;
        5 orderer: message FabricOuIdentifier;
    }
    /// `lifecycle.StateMetadata`
    StateMetadata { 1 datatype: string; 2 fields: repeated_string; }
    /// `lifecycle.StateData`
    StateData {
        1 int64: optional_int64, oneof 1;
        2 bytes: optional_bytes, oneof 1;
        3 string: optional_string, oneof 1;
    }
    /// `lifecycle.ChaincodeValidationInfo`
    ChaincodeValidationInfo { 1 validation_plugin: string; 2 validation_parameter: bytes; }
    /// `lifecycle.ChaincodeEndorsementInfo`
    ChaincodeEndorsementInfo { 1 version: string; 2 init_required: bool; 3 endorsement_plugin: string; }
    /// `peer.CollectionConfigPackage`
    CollectionConfigPackage { 1 configs: repeated CollectionConfig; }
    /// `peer.CollectionConfig`
    CollectionConfig { 1 fixed: message StaticCollectionConfig, oneof 1; }
    /// `peer.StaticCollectionConfig`
    StaticCollectionConfig {
        1 name: string;
        5 block_to_live: uint64;
        8 endorsement_policy: lazy ApplicationPolicy;
    }
}

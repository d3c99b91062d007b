// Generated from spec/*.toml by `cargo run -p lineside-spec`. Do not edit.

use crate::fast_path::{FastPathList, FastPathOp};
use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Default TCP port of the console.
pub const CONSOLE_PORT: u16 = 7700;

/// Magic number in the first field of a native packet.
pub const NATIVE_MAGIC: u16 = 0x4c53;

/// Version of the native format.
pub const NATIVE_VERSION: u8 = 1;

/// Bit that is set in the field `op` of replies.
pub const NATIVE_REPLY_BIT: u8 = 0x80;

/// UDP port of `spv`.
pub const SPV_PORT: u16 = 7701;

/// Slot of `spv` in the program array.
pub const SPV_SLOT: u32 = 1;

/// UDP port of `transfer`.
pub const TRANSFER_PORT: u16 = 7702;

/// Slot of `transfer` in the program array.
pub const TRANSFER_SLOT: u32 = 2;

/// UDP port of `column`.
pub const COLUMN_PORT: u16 = 7703;

/// Slot of `column` in the program array.
pub const COLUMN_SLOT: u32 = 3;

/// UDP port of `fabric`.
pub const FABRIC_PORT: u16 = 7704;

/// Slot of `fabric` in the program array.
pub const FABRIC_SLOT: u32 = 4;

/// UDP port of `hybrid`.
pub const HYBRID_PORT: u16 = 7705;

/// Slot of `hybrid` in the program array.
pub const HYBRID_SLOT: u32 = 5;

/// UDP port of `odometer`.
pub const ODOMETER_PORT: u16 = 7707;

/// Slot of `odometer` in the program array.
pub const ODOMETER_SLOT: u32 = 4;

/// Ports of all services.
pub const SERVICE_PORTS: [u16; 5] = [7701, 7702, 7703, 7704, 7705];

/// Header of every native packet.
///
/// Size: 16 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NativeHeader {
    /// magic number 0x4c53 ("LS")
    pub magic: U16,
    /// version of the format, 1
    pub version: u8,
    /// operation; bit 7 is set in replies
    pub op: u8,
    /// 0 in a request; status code in a reply
    pub status: U16,
    /// number of bytes after this header
    pub length: U16,
    /// chosen by the client and returned in the reply
    pub request_id: U64,
}

const _: () = assert!(size_of::<NativeHeader>() == 16);

/// Status codes of native replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// done
    Ok = 0,
    /// not found: no connected block holds the transaction, or there is no such row
    Unknown = 1,
    /// wrong length, unknown operation, or padding that is not zero
    BadRequest = 2,
    /// the host's queue is full: try again later
    Busy = 3,
    /// this server does not support the header's version
    UnsupportedVersion = 4,
    /// no such session, or a wrong token
    NoSession = 5,
    /// wrong sequence number: the reply has the one that the session expects next
    Sequence = 6,
    /// the request has the session's last sequence number, but another body
    Reused = 7,
    /// the sender may not do this, or has not signed it
    Unauthorised = 8,
    /// nothing can be written: the disk or memory is full, or writing has ended after an error
    NoRoom = 9,
    /// the change may or may not have been executed: its outcome is not known
    OutcomeUnknown = 10,
    /// the table has no such column family
    UnknownFamily = 11,
    /// the scan's start key is above its stop key
    StartBehindStop = 12,
    /// cannot increment: the cell value is not 8 bytes
    NotANumber = 13,
    /// too long for a packet (the reply has the length), or a change would make a cell too long
    TooLong = 14,
    /// the server does not keep the data that this operation needs
    NotKept = 15,
    /// the transaction's block commits to no witnesses
    NoCommitment = 16,
}

impl Status {
    /// Returns the value with this number; `None` if the number is unknown.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::Ok),
            1 => Some(Self::Unknown),
            2 => Some(Self::BadRequest),
            3 => Some(Self::Busy),
            4 => Some(Self::UnsupportedVersion),
            5 => Some(Self::NoSession),
            6 => Some(Self::Sequence),
            7 => Some(Self::Reused),
            8 => Some(Self::Unauthorised),
            9 => Some(Self::NoRoom),
            10 => Some(Self::OutcomeUnknown),
            11 => Some(Self::UnknownFamily),
            12 => Some(Self::StartBehindStop),
            13 => Some(Self::NotANumber),
            14 => Some(Self::TooLong),
            15 => Some(Self::NotKept),
            16 => Some(Self::NoCommitment),
            _ => None,
        }
    }

    /// Returns a description of the code.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "done",
            Self::Unknown => "not found: no connected block holds the transaction, or there is no such row",
            Self::BadRequest => "wrong length, unknown operation, or padding that is not zero",
            Self::Busy => "the host's queue is full: try again later",
            Self::UnsupportedVersion => "this server does not support the header's version",
            Self::NoSession => "no such session, or a wrong token",
            Self::Sequence => "wrong sequence number: the reply has the one that the session expects next",
            Self::Reused => "the request has the session's last sequence number, but another body",
            Self::Unauthorised => "the sender may not do this, or has not signed it",
            Self::NoRoom => "nothing can be written: the disk or memory is full, or writing has ended after an error",
            Self::OutcomeUnknown => "the change may or may not have been executed: its outcome is not known",
            Self::UnknownFamily => "the table has no such column family",
            Self::StartBehindStop => "the scan's start key is above its stop key",
            Self::NotANumber => "cannot increment: the cell value is not 8 bytes",
            Self::TooLong => "too long for a packet (the reply has the length), or a change would make a cell too long",
            Self::NotKept => "the server does not keep the data that this operation needs",
            Self::NoCommitment => "the transaction's block commits to no witnesses",
        }
    }

    /// Returns the name, which stays the same in all versions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Unknown => "unknown",
            Self::BadRequest => "bad_request",
            Self::Busy => "busy",
            Self::UnsupportedVersion => "unsupported_version",
            Self::NoSession => "no_session",
            Self::Sequence => "sequence",
            Self::Reused => "reused",
            Self::Unauthorised => "unauthorised",
            Self::NoRoom => "no_room",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::UnknownFamily => "unknown_family",
            Self::StartBehindStop => "start_behind_stop",
            Self::NotANumber => "not_a_number",
            Self::TooLong => "too_long",
            Self::NotKept => "not_kept",
            Self::NoCommitment => "no_commitment",
        }
    }
}

/// Reason for which a fast path drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DropReason {
    /// source port 0 or the port of a Lineside service (rule 8: never loop)
    SourcePort = 0,
    /// source address is multicast, broadcast or unspecified, or belongs to this machine (except on lo)
    SourceAddress = 1,
    /// a native packet with the reply bit, which is a reply and not a request
    ReplyBit = 2,
    /// neither a request in a paper's format nor a native packet
    NotARequest = 3,
    /// a request in a paper's format, which the configuration does not accept
    PaperRefused = 4,
    /// a request in a paper's format whose reply would have no hop left (rule 8: never loop)
    HopLimit = 5,
}

impl DropReason {
    /// All values, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::SourcePort,
        Self::SourceAddress,
        Self::ReplyBit,
        Self::NotARequest,
        Self::PaperRefused,
        Self::HopLimit,
    ];

    /// Returns the name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SourcePort => "source_port",
            Self::SourceAddress => "source_address",
            Self::ReplyBit => "reply_bit",
            Self::NotARequest => "not_a_request",
            Self::PaperRefused => "paper_refused",
            Self::HopLimit => "hop_limit",
        }
    }
}

/// Bytes of the paper's request: a TXID in wire byte order, the reverse of the order in block explorers.
pub const SPV_PAPER_REQUEST_BYTES: usize = 32;

/// Bytes of the paper's reply: a Merkle root in wire byte order; zeros if the TXID is unknown.
pub const SPV_PAPER_REPLY_BYTES: usize = 32;

/// Value for the height of a block whose parents are unknown (`spv import --detached`).
pub const SPV_HEIGHT_UNKNOWN: u32 = 0xffffffff;

/// Maximum number of items in a `roots` packet, which then has 1,208 bytes.
pub const SPV_ROOTS_MAX: usize = 16;

/// Maximum number of hashes in a `proof` packet: the path of a block of 16,384 transactions, 600 bytes.
pub const SPV_PROOF_DEPTH_MAX: usize = 14;

/// Maximum number of headers in a `headers` packet, which then has 1,184 bytes.
pub const SPV_HEADERS_MAX: usize = 14;

/// Maximum bytes after witness_reply in a `witness_proof` packet: 1,452 bytes with both headers.
pub const SPV_WITNESS_ROOM_MAX: usize = 1236;

/// Bytes of a block header.
pub const SPV_HEADER_BYTES: usize = 80;

/// Number of nodes before a tree's leaves in the fast-path table: the block header, then zeros.
pub const SPV_TREE_HEAD_NODES: usize = 3;

/// Code of the operation `root` of `spv`; docs/wire-formats.md describes it.
pub const SPV_OP_ROOT: u8 = 1;

/// Code of the operation `roots` of `spv`; docs/wire-formats.md describes it.
pub const SPV_OP_ROOTS: u8 = 2;

/// Code of the operation `proof` of `spv`; docs/wire-formats.md describes it.
pub const SPV_OP_PROOF: u8 = 3;

/// Code of the operation `headers` of `spv`; docs/wire-formats.md describes it.
pub const SPV_OP_HEADERS: u8 = 4;

/// Code of the operation `witness_proof` of `spv`; docs/wire-formats.md describes it.
pub const SPV_OP_WITNESS_PROOF: u8 = 5;

/// Code of the operation `wtxid_proof` of `spv`; docs/wire-formats.md describes it.
pub const SPV_OP_WTXID_PROOF: u8 = 6;

/// Requests of `spv` that its fast path answers, by datapath.
pub const SPV_FAST_PATH: FastPathList = FastPathList {
    paper: &["socket", "xdp", "rtl"],
    ops: &[
        FastPathOp { name: "root", code: 1, datapaths: &["socket", "xdp", "rtl"] },
        FastPathOp { name: "roots", code: 2, datapaths: &["socket", "xdp", "rtl"] },
        FastPathOp { name: "proof", code: 3, datapaths: &["socket", "xdp"] },
    ],
};

/// Position of one transaction, and the tip at which it was valid.
///
/// Size: 104 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RootReply {
    /// Merkle root of the block (the request has the TXID here)
    pub root: [u8; 32],
    /// hash of the block's header, wire byte order
    pub block_hash: [u8; 32],
    /// hash of the best block at the time of the reply
    pub tip_hash: [u8; 32],
    /// height of the block; 0xffffffff: unknown
    pub height: U32,
    /// height of the best block at the time of the reply
    pub tip_height: U32,
}

const _: () = assert!(size_of::<RootReply>() == 104);

/// Header of the body of `roots`, with the tip at which all items were valid.
///
/// Size: 40 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RootsHead {
    /// request: zeros; reply: hash of the best block at the time of the reply
    pub tip_hash: [u8; 32],
    /// request: 0; reply: height of the best block
    pub tip_height: U32,
    /// number of items that follow: 1 to 16
    pub count: U32,
}

const _: () = assert!(size_of::<RootsHead>() == 40);

/// Position of one transaction in `roots`. If the TXID is unknown, all fields but the status are zero.
///
/// Size: 72 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RootItem {
    /// Merkle root of the block (the request has the TXID here)
    pub root: [u8; 32],
    /// hash of the block's header, wire byte order
    pub block_hash: [u8; 32],
    /// height of the block; 0xffffffff: unknown
    pub height: U32,
    /// 0 ok, 1 unknown
    pub status: U32,
}

const _: () = assert!(size_of::<RootItem>() == 72);

/// Header of a proof. Unknown TXID: only the tip is set. Too long: only transactions and depth.
///
/// Size: 136 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ProofReply {
    /// the block's header, wire byte order (the request has the TXID here)
    pub header: [u8; 80],
    /// height of the block; 0xffffffff: unknown
    pub height: U32,
    /// number of transactions in the block
    pub transactions: U32,
    /// position of the transaction in the block, from 0
    pub index: U32,
    /// number of hashes that follow
    pub depth: U32,
    /// hash of the best block at the time of the reply
    pub tip_hash: [u8; 32],
    /// height of the best block at the time of the reply
    pub tip_height: U32,
    /// reserved: zero
    pub reserved: U32,
}

const _: () = assert!(size_of::<ProofReply>() == 136);

/// Header of a witness proof. Unknown: only the tip. Too long: transactions, depth, coinbase_bytes.
///
/// Size: 200 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct WitnessReply {
    /// the block's header, wire byte order (the request has the TXID here)
    pub header: [u8; 80],
    /// height of the block; 0xffffffff: unknown
    pub height: U32,
    /// number of transactions in the block
    pub transactions: U32,
    /// position of the transaction in the block, from 0
    pub index: U32,
    /// number of hashes in each of the two paths that follow
    pub depth: U32,
    /// hash of the best block at the time of the reply
    pub tip_hash: [u8; 32],
    /// height of the best block at the time of the reply
    pub tip_height: U32,
    /// bytes of the coinbase without its witness; too long: 64 * depth more bytes are needed
    pub coinbase_bytes: U32,
    /// WTXID of the transaction, wire byte order; zeros for a coinbase
    pub wtxid: [u8; 32],
    /// the witness reserved value: the only item in the witness of the coinbase (BIP141)
    pub witness_reserved: [u8; 32],
}

const _: () = assert!(size_of::<WitnessReply>() == 200);

/// Header of a reply to `headers`, which has fewer headers than requested if the chain ends.
///
/// Size: 48 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct HeadersHead {
    /// hash of the best block at the time of the reply
    pub tip_hash: [u8; 32],
    /// height of the best block at the time of the reply
    pub tip_height: U32,
    /// height of the first header, as requested
    pub start: U32,
    /// number of headers that follow
    pub count: U32,
    /// reserved: zero
    pub reserved: U32,
}

const _: () = assert!(size_of::<HeadersHead>() == 48);

/// Counters of the fast path of `spv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SpvCounter {
    /// requests answered by the fast path
    Hits = 0,
    /// requests forwarded because the TXID, or the tree of its block, was not cached or was being written
    Misses = 1,
    /// requests forwarded because the lease had ended or the chain was changing
    NotLeased = 2,
    /// native requests forwarded because only the host can answer them
    ForwardedNative = 3,
}

impl SpvCounter {
    /// All values, in the order of their numbers.
    pub const ALL: [Self; 4] = [
        Self::Hits,
        Self::Misses,
        Self::NotLeased,
        Self::ForwardedNative,
    ];

    /// Returns the name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hits => "hits",
            Self::Misses => "misses",
            Self::NotLeased => "not_leased",
            Self::ForwardedNative => "forwarded_native",
        }
    }
}

/// Bytes of the paper's packet, request and reply.
pub const TRANSFER_PAPER_BYTES_MIN: usize = 20;

/// Bytes of the paper's packet with padding to a frame of 64 bytes.
pub const TRANSFER_PAPER_BYTES_MAX: usize = 22;

/// Bit that is set in the field Command of a refusal; Amount is then the result code.
pub const TRANSFER_PAPER_REFUSED: u32 = 0x80000000;

/// CREATE: creates the account Source with the balance Amount.
pub const TRANSFER_COMMAND_CREATE: u8 = 1;

/// ISSUE: adds Amount to Source.
pub const TRANSFER_COMMAND_ISSUE: u8 = 2;

/// TRANSFER: moves Amount from Source to Destination.
pub const TRANSFER_COMMAND_TRANSFER: u8 = 3;

/// REFER: reads the balance of Source. Paper format only; the native format has `refer`.
pub const TRANSFER_COMMAND_REFER: u8 = 4;

/// FREEZE: blocks transfers into and out of Source until UNFREEZE. Native format only.
pub const TRANSFER_COMMAND_FREEZE: u8 = 5;

/// UNFREEZE: ends FREEZE. Native format only.
pub const TRANSFER_COMMAND_UNFREEZE: u8 = 6;

/// Contract code of TRANSFER: the amount is transferred at once.
pub const TRANSFER_CONTRACT_PLAIN: u32 = 0;

/// Contract code of TRANSFER: Amount is reserved until it is posted, voided or expires; `uuid` names it.
pub const TRANSFER_CONTRACT_PENDING: u32 = 1;

/// Contract code of TRANSFER: posts Amount (0: all) of the pending transfer `uuid`, and releases the rest.
pub const TRANSFER_CONTRACT_POST: u32 = 2;

/// Contract code of TRANSFER: cancels the pending transfer `uuid`.
pub const TRANSFER_CONTRACT_VOID: u32 = 3;

/// Flag of an operation that is linked with the next one: either both are executed or neither.
pub const TRANSFER_FLAG_LINKED: u8 = 1;

/// Flag of an operation: `uuid` is its idempotency key: a repetition changes nothing.
pub const TRANSFER_FLAG_KEYED: u8 = 2;

/// Number of the curve P-256 in a signed packet.
pub const TRANSFER_CURVE_P256: u8 = 1;

/// Number of the curve secp256k1 in a signed packet.
pub const TRANSFER_CURVE_SECP256K1: u8 = 2;

/// Maximum number of operations in a packet that the fast path executes; larger packets go to the host.
pub const TRANSFER_LINE_OPERATIONS_MAX: usize = 4;

/// Maximum number of operations in a packet, given by the header's length field. A datagram holds 16.
pub const TRANSFER_OPERATIONS_MAX: usize = 744;

/// Maximum number of accounts in one `refer` packet, which then has 1,416 bytes.
pub const TRANSFER_REFER_MAX: usize = 29;

/// Durability in a reply: the operation was on the disk before the reply was sent.
pub const TRANSFER_DURABLE: u16 = 1;

/// Durability in a reply: the operation is executed and will be on the disk within a bounded delay.
pub const TRANSFER_EXPRESS: u16 = 2;

/// Number of cells of a bucket. An account is in a cell of one of two buckets.
pub const TRANSFER_BUCKET_CELLS: usize = 4;

/// Flag of a cell that has an account. It is never cleared.
pub const TRANSFER_CELL_VALID: u32 = 1;

/// Flag of a cell whose account is frozen.
pub const TRANSFER_CELL_FROZEN: u32 = 2;

/// Flag of a cell whose account the host is changing. The fast path then only reads the account.
pub const TRANSFER_CELL_CLAIMED: u32 = 4;

/// Maximum number of address ranges that may CREATE, ISSUE, FREEZE and UNFREEZE.
pub const TRANSFER_ISSUERS_MAX: usize = 8;

/// Code of the operation `execute` of `transfer`; docs/wire-formats.md describes it.
pub const TRANSFER_OP_EXECUTE: u8 = 1;

/// Code of the operation `refer` of `transfer`; docs/wire-formats.md describes it.
pub const TRANSFER_OP_REFER: u8 = 2;

/// Code of the operation `open` of `transfer`; docs/wire-formats.md describes it.
pub const TRANSFER_OP_OPEN: u8 = 3;

/// Code of the operation `close` of `transfer`; docs/wire-formats.md describes it.
pub const TRANSFER_OP_CLOSE: u8 = 4;

/// Code of the operation `session` of `transfer`; docs/wire-formats.md describes it.
pub const TRANSFER_OP_SESSION: u8 = 5;

/// Code of the operation `signed` of `transfer`; docs/wire-formats.md describes it.
pub const TRANSFER_OP_SIGNED: u8 = 6;

/// Requests of `transfer` that its fast path answers, by datapath.
pub const TRANSFER_FAST_PATH: FastPathList = FastPathList {
    paper: &["socket", "xdp", "rtl"],
    ops: &[
        FastPathOp { name: "execute", code: 1, datapaths: &["socket", "xdp", "rtl"] },
        FastPathOp { name: "refer", code: 2, datapaths: &["socket", "xdp", "rtl"] },
    ],
};

/// Outcome of one operation of `transfer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum TransferCode {
    /// done
    Done = 0,
    /// no such account
    UnknownAccount = 1,
    /// the account exists already
    AccountExists = 2,
    /// insufficient funds: the source's balance without pending amounts is lower
    InsufficientFunds = 3,
    /// a balance, including pending transfers to it, would exceed its format
    Overflow = 4,
    /// source and destination are the same
    SameAccount = 5,
    /// the limit of accounts or pending transfers is reached
    StoreFull = 6,
    /// the transaction id is below the last one of the source account
    StaleId = 7,
    /// busy, not executed: try again
    Busy = 8,
    /// source or destination is frozen
    Frozen = 9,
    /// unknown command, contract or flag; transfer or native issue of 0; forbidden value
    BadCommand = 10,
    /// last transaction id of the account, or a known idempotency key, with another body
    IdReused = 11,
    /// the sender may not do this, or has not signed it
    Unauthorised = 12,
    /// not executed, because a linked operation was refused
    LinkedFailed = 13,
    /// no pending transfer with this uuid between these accounts, or it has ended
    UnknownPending = 14,
    /// a pending transfer with this uuid exists already
    PendingExists = 15,
}

impl TransferCode {
    /// Returns the value with this number; `None` if the number is unknown.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::Done),
            1 => Some(Self::UnknownAccount),
            2 => Some(Self::AccountExists),
            3 => Some(Self::InsufficientFunds),
            4 => Some(Self::Overflow),
            5 => Some(Self::SameAccount),
            6 => Some(Self::StoreFull),
            7 => Some(Self::StaleId),
            8 => Some(Self::Busy),
            9 => Some(Self::Frozen),
            10 => Some(Self::BadCommand),
            11 => Some(Self::IdReused),
            12 => Some(Self::Unauthorised),
            13 => Some(Self::LinkedFailed),
            14 => Some(Self::UnknownPending),
            15 => Some(Self::PendingExists),
            _ => None,
        }
    }

    /// Returns a description of the code.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::UnknownAccount => "no such account",
            Self::AccountExists => "the account exists already",
            Self::InsufficientFunds => "insufficient funds: the source's balance without pending amounts is lower",
            Self::Overflow => "a balance, including pending transfers to it, would exceed its format",
            Self::SameAccount => "source and destination are the same",
            Self::StoreFull => "the limit of accounts or pending transfers is reached",
            Self::StaleId => "the transaction id is below the last one of the source account",
            Self::Busy => "busy, not executed: try again",
            Self::Frozen => "source or destination is frozen",
            Self::BadCommand => "unknown command, contract or flag; transfer or native issue of 0; forbidden value",
            Self::IdReused => "last transaction id of the account, or a known idempotency key, with another body",
            Self::Unauthorised => "the sender may not do this, or has not signed it",
            Self::LinkedFailed => "not executed, because a linked operation was refused",
            Self::UnknownPending => "no pending transfer with this uuid between these accounts, or it has ended",
            Self::PendingExists => "a pending transfer with this uuid exists already",
        }
    }

    /// Returns the name, which stays the same in all versions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::UnknownAccount => "unknown_account",
            Self::AccountExists => "account_exists",
            Self::InsufficientFunds => "insufficient_funds",
            Self::Overflow => "overflow",
            Self::SameAccount => "same_account",
            Self::StoreFull => "store_full",
            Self::StaleId => "stale_id",
            Self::Busy => "busy",
            Self::Frozen => "frozen",
            Self::BadCommand => "bad_command",
            Self::IdReused => "id_reused",
            Self::Unauthorised => "unauthorised",
            Self::LinkedFailed => "linked_failed",
            Self::UnknownPending => "unknown_pending",
            Self::PendingExists => "pending_exists",
        }
    }
}

/// Packet in the paper's format (Table II of the paper).
///
/// Size: 20 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PaperTransfer {
    /// 1 CREATE, 2 ISSUE, 3 TRANSFER, 4 REFER; bit 31: refused
    pub command: U32,
    /// above the last id of the source account; 0: the request is sent once and never repeated
    pub transaction_id: U32,
    /// Source ID
    pub source: U32,
    /// Destination ID; used only by TRANSFER
    pub destination: U32,
    /// request: amount; reply: balance of Source after the operation, or the code
    pub amount: U32,
}

const _: () = assert!(size_of::<PaperTransfer>() == 20);

/// Header of the body of `execute`: session and sequence number of the packet.
///
/// Size: 24 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ExecuteHead {
    /// secret token of the session, which authenticates its packets
    pub token: U64,
    /// last sequence number of the session plus 1; in the refusal of another number: the expected one
    pub sequence: U64,
    /// slot number of the session
    pub slot: U32,
    /// number of operations that follow
    pub count: U16,
    /// request: 0; reply: 1 durable, 2 express
    pub durability: U16,
}

const _: () = assert!(size_of::<ExecuteHead>() == 24);

/// Header of `signed`: ECDSA over the SHA-256 of `lineside/transfer/1` and all bytes after it.
///
/// Size: 104 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SignedHead {
    /// 1: P-256, 2: secp256k1
    pub curve: u8,
    /// 2 if the y coordinate of the public key is even, 3 if it is odd
    pub key_prefix: u8,
    /// reserved: zero
    pub reserved: U16,
    /// reserved: zero
    pub reserved_2: U32,
    /// x coordinate of the public key, big-endian
    pub key_x: [u8; 32],
    /// r of the signature, big-endian
    pub r: [u8; 32],
    /// s of the signature, big-endian, at most half the curve's order
    pub s: [u8; 32],
}

const _: () = assert!(size_of::<SignedHead>() == 104);

/// Operation in a request, with its outcome in the reply.
///
/// Size: 88 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Operation {
    /// 1 CREATE, 2 ISSUE, 3 TRANSFER, 5 FREEZE, 6 UNFREEZE
    pub command: u8,
    /// 1: the operation is linked with the next one; 2: `uuid` is its idempotency key; 3: both
    pub flags: u8,
    /// request: 0; reply: code of the outcome
    pub code: U16,
    /// 0 plain, 1 pending, 2 post, 3 void
    pub contract: U32,
    /// account that pays, is created, gets an amount (ISSUE), or is frozen or unfrozen
    pub source: [u8; 16],
    /// TRANSFER: account that is paid; CREATE: fingerprint of the owner's key, or 0; else 0
    pub destination: [u8; 16],
    /// request: amount; in a post, 0 means all; reply: balance of the source after the operation
    pub amount: U64,
    /// request: 0; reply: number of the operation in the ledger, or 0; of a repetition: of the first one
    pub number: U64,
    /// time of the client's clock, which the server stores and does not use
    pub timestamp: U64,
    /// id that the client chooses: names a pending transfer; with flag 2, the idempotency key
    pub uuid: [u8; 16],
    /// value chosen by the client, which the server stores and does not use
    pub nonce: U32,
    /// pending transfer: seconds until it expires, 0: never; other operations: 0
    pub timeout_s: U32,
}

const _: () = assert!(size_of::<Operation>() == 88);

/// Header of the body of `refer`.
///
/// Size: 8 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ReferHead {
    /// number of accounts that follow: 1 to 29
    pub count: U32,
    /// request: 0; reply: 1 durable, 2 express
    pub durability: U16,
    /// reserved: zero
    pub reserved: U16,
}

const _: () = assert!(size_of::<ReferHead>() == 8);

/// Balance of one account.
///
/// Size: 48 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BalanceItem {
    /// id of the account
    pub account: [u8; 16],
    /// request: 0; reply: balance, including amounts reserved by pending transfers
    pub balance: U64,
    /// amounts reserved by pending transfers
    pub held: U64,
    /// number of changes of the account
    pub version: U64,
    /// 0 done, 1 unknown account
    pub code: U16,
    /// 1: frozen
    pub frozen: U16,
    /// reserved: zero
    pub reserved: U32,
}

const _: () = assert!(size_of::<BalanceItem>() == 48);

/// Session that a client opens, closes or queries: body of the request and of the reply.
///
/// Size: 40 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SessionBody {
    /// proof that the client receives packets at its address
    pub challenge: [u8; 16],
    /// secret token of the session, which authenticates its packets
    pub token: U64,
    /// next sequence number
    pub sequence: U64,
    /// slot number of the session
    pub slot: U32,
    /// reply to a challenge: seconds for which it is valid
    pub lease_s: U32,
}

const _: () = assert!(size_of::<SessionBody>() == 40);

/// Counters of the fast path of `transfer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TransferCounter {
    /// requests answered by the fast path
    Replies = 0,
    /// requests forwarded to the host
    Forwarded = 1,
    /// requests forwarded because the lease had ended
    NotLeased = 2,
    /// requests answered with a refusal: the result code, or the first one, is not 0
    Refusals = 3,
    /// repeated requests answered with the stored reply
    Repeats = 4,
    /// requests answered busy: a lock was held, or the ring was full
    Busy = 5,
    /// requests answered busy because the ring was full
    RingFull = 6,
}

impl TransferCounter {
    /// All values, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Replies,
        Self::Forwarded,
        Self::NotLeased,
        Self::Refusals,
        Self::Repeats,
        Self::Busy,
        Self::RingFull,
    ];

    /// Returns the name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Replies => "replies",
            Self::Forwarded => "forwarded",
            Self::NotLeased => "not_leased",
            Self::Refusals => "refusals",
            Self::Repeats => "repeats",
            Self::Busy => "busy",
            Self::RingFull => "ring_full",
        }
    }
}

/// Bytes of a row key in the paper's format, padded with zeros.
pub const COLUMN_PAPER_KEY_BYTES: usize = 4;

/// Bytes of a column name (`entry:foo`) in the paper's format, padded with zeros.
pub const COLUMN_PAPER_NAME_BYTES: usize = 9;

/// Bytes of a value in the paper's format, padded with zeros.
pub const COLUMN_PAPER_VALUE_BYTES: usize = 18;

/// Bytes of a `get`: `get`, key, name; further bytes are zeros. A `put` has the same bytes before its value.
pub const COLUMN_PAPER_GET_BYTES: usize = 16;

/// Bytes of `sc1`, startRow, name, stopRow (inclusive); further bytes are zeros.
pub const COLUMN_PAPER_SCAN_BYTES: usize = 20;

/// Bytes of a reply to `get`: status, value.
pub const COLUMN_PAPER_GET_REPLY_BYTES: usize = 19;

/// Bytes of one row of a reply to `sc1`, after status and number of rows: key, value.
pub const COLUMN_PAPER_ROW_BYTES: usize = 22;

/// First byte of a reply to `get` and `sc1` if a row was found.
pub const COLUMN_PAPER_FOUND: u8 = 0;

/// First byte of a reply to `get` and `sc1` if there is no row, or if startRow is above stopRow.
pub const COLUMN_PAPER_NO_ROW: u8 = 1;

/// First byte of a reply to `sc1` if the range has more rows than fit the reply.
pub const COLUMN_PAPER_MORE: u8 = 2;

/// Maximum bytes of a row key in a packet.
pub const COLUMN_KEY_BYTES_MAX: usize = 64;

/// Maximum bytes of a value in a packet.
pub const COLUMN_VALUE_BYTES_MAX: usize = 1024;

/// Maximum bytes of a column name, `family:qualifier`.
pub const COLUMN_NAME_BYTES_MAX: usize = 32;

/// Flag of the operation `scan`: descending order; start is then the highest key.
pub const COLUMN_FLAG_REVERSE: u8 = 1;

/// Flag of the operation `scan`: a row at the stop key is included.
pub const COLUMN_FLAG_STOP_INCLUSIVE: u8 = 2;

/// Flag of the operation `scan`: a row at the start key is excluded, to continue after the last received row.
pub const COLUMN_FLAG_START_EXCLUSIVE: u8 = 4;

/// Flag of the operation `check_and_put`: put if the row is absent; without this flag, if the value is as expected.
pub const COLUMN_FLAG_ABSENT: u8 = 8;

/// Source of a reply: the fast path.
pub const COLUMN_SOURCE_FASTPATH: u8 = 1;

/// Source of a reply: the host.
pub const COLUMN_SOURCE_HOST: u8 = 2;

/// Flag of a reply that may be stale, because the fast path is not notified of other clients' changes.
pub const COLUMN_REPLY_MAY_BE_STALE: u8 = 1;

/// Flag of a reply to `scan` that ended at the limit or because the packet is full; more rows may follow.
pub const COLUMN_REPLY_MORE: u8 = 2;

/// Flag of a reply to `check_and_put`: the condition was false.
pub const COLUMN_REPLY_NOT_APPLIED: u8 = 4;

/// Flag of a reply in which a row is left out because it is longer than a packet.
pub const COLUMN_REPLY_LEFT_OUT: u8 = 8;

/// Bit of a row's `column`: the row's cells do not fit into a packet; this column has the longest value.
pub const COLUMN_ROW_LEFT_OUT: u8 = 0x80;

/// Bit of a row's `column`: the key has more than 255 bytes and is truncated; such rows cannot be returned.
pub const COLUMN_ROW_CUT_KEY: u8 = 0x40;

/// First bytes of a notification between a server of the table and Lineside: "LSCN".
pub const COLUMN_NOTICE_MAGIC: u32 = 0x4c53434e;

/// Default UDP port of the coprocessor in a server of HBase, which grants leases.
pub const COLUMN_NOTICE_PORT: u16 = 7706;

/// Default UDP port on which Lineside receives notifications of changes.
pub const COLUMN_NOTIFY_PORT: u16 = 7707;

/// Maximum bytes of a notification; longer ones could be fragmented.
pub const COLUMN_NOTICE_BYTES_MAX: usize = 1400;

/// Bytes of the tag after every notification: truncated HMAC-SHA256 over all bytes before it.
pub const COLUMN_NOTICE_TAG_BYTES: usize = 16;

/// Minimum bytes of the secret key with which the tags are computed.
pub const COLUMN_NOTICE_KEY_BYTES_MIN: usize = 32;

/// Kind of a notification to Lineside: a change begins; it must be acknowledged.
pub const COLUMN_NOTICE_PRE: u8 = 1;

/// Kind of a notification to Lineside: a change has ended; it is not acknowledged.
pub const COLUMN_NOTICE_POST: u8 = 2;

/// Kind of a notification to the server: request for a lease.
pub const COLUMN_NOTICE_ASK: u8 = 3;

/// Kind of a notification to Lineside: grant of a lease.
pub const COLUMN_NOTICE_GRANT: u8 = 4;

/// Kind of a notification to the server: the fast path has invalidated the range of the change.
pub const COLUMN_NOTICE_ACK: u8 = 5;

/// Flag of a notification of the kind `pre`: its keys are a range [low, high); an empty high means the table's end.
pub const COLUMN_NOTICE_RANGE: u8 = 1;

/// Flag of a notification of the kind `pre`: a region was opened, so its table's schema may have changed.
pub const COLUMN_NOTICE_OPENED: u8 = 2;

/// Maximum number of rows in a block.
pub const COLUMN_BLOCK_ROWS_MAX: usize = 8;

/// Maximum number of blocks in a page.
pub const COLUMN_PAGE_BLOCKS: usize = 64;

/// Maximum number of pages in a column.
pub const COLUMN_PAGES_MAX: usize = 4096;

/// Maximum number of servers whose leases the fast path checks.
pub const COLUMN_SERVERS_MAX: usize = 64;

/// Maximum number of address ranges whose changes make the fast path invalidate a block.
pub const COLUMN_RANGES_MAX: usize = 8;

/// Flag of a block in which a row may have changed since it was filled.
pub const COLUMN_BLOCK_INVALID: u32 = 1;

/// Flag of a block at whose end the next block in key order begins.
pub const COLUMN_BLOCK_CONTINUES: u32 = 2;

/// Head of unused entries in tops and pages, which is above the head of every key.
pub const COLUMN_NO_HEAD: u64 = 0x8000000000000000;

/// Head of unused entries in a block, which is not below the head of any key.
pub const COLUMN_NO_ROW_HEAD: u64 = 0x7fffffffffffffff;

/// Length of the high key of a block that extends to the table's end.
pub const COLUMN_NO_END: u32 = 0xff;

/// Code of the operation `get` of `column`; docs/wire-formats.md describes it.
pub const COLUMN_OP_GET: u8 = 1;

/// Code of the operation `scan` of `column`; docs/wire-formats.md describes it.
pub const COLUMN_OP_SCAN: u8 = 2;

/// Code of the operation `put` of `column`; docs/wire-formats.md describes it.
pub const COLUMN_OP_PUT: u8 = 3;

/// Code of the operation `delete` of `column`; docs/wire-formats.md describes it.
pub const COLUMN_OP_DELETE: u8 = 4;

/// Code of the operation `increment` of `column`; docs/wire-formats.md describes it.
pub const COLUMN_OP_INCREMENT: u8 = 5;

/// Code of the operation `check_and_put` of `column`; docs/wire-formats.md describes it.
pub const COLUMN_OP_CHECK_AND_PUT: u8 = 6;

/// Code of the operation `append` of `column`; docs/wire-formats.md describes it.
pub const COLUMN_OP_APPEND: u8 = 7;

/// Code of the operation `open` of `column`; docs/wire-formats.md describes it.
pub const COLUMN_OP_OPEN: u8 = 8;

/// Code of the operation `switch` of `column`; docs/wire-formats.md describes it.
pub const COLUMN_OP_SWITCH: u8 = 9;

/// Requests of `column` that its fast path answers, by datapath.
pub const COLUMN_FAST_PATH: FastPathList = FastPathList {
    paper: &["socket", "xdp"],
    ops: &[
        FastPathOp { name: "get", code: 1, datapaths: &["socket", "xdp"] },
        FastPathOp { name: "scan", code: 2, datapaths: &["socket", "xdp"] },
    ],
};

/// Outcome of one operation of `column`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ColumnCode {
    /// done
    Done = 0,
    /// the request has no value: an empty value cannot be stored in this format
    EmptyValue = 1,
    /// the sender may not do this
    Unauthorised = 2,
    /// the table has no such column family
    UnknownColumn = 3,
    /// the table is not reachable, or does not accept the change now
    NoTable = 4,
    /// an empty key, or a packet that is too short
    BadRequest = 5,
}

impl ColumnCode {
    /// Returns the value with this number; `None` if the number is unknown.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::Done),
            1 => Some(Self::EmptyValue),
            2 => Some(Self::Unauthorised),
            3 => Some(Self::UnknownColumn),
            4 => Some(Self::NoTable),
            5 => Some(Self::BadRequest),
            _ => None,
        }
    }

    /// Returns a description of the code.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::EmptyValue => "the request has no value: an empty value cannot be stored in this format",
            Self::Unauthorised => "the sender may not do this",
            Self::UnknownColumn => "the table has no such column family",
            Self::NoTable => "the table is not reachable, or does not accept the change now",
            Self::BadRequest => "an empty key, or a packet that is too short",
        }
    }

    /// Returns the name, which stays the same in all versions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::EmptyValue => "empty_value",
            Self::Unauthorised => "unauthorised",
            Self::UnknownColumn => "unknown_column",
            Self::NoTable => "no_table",
            Self::BadRequest => "bad_request",
        }
    }
}

/// Header of every request except `open`; each part after it is zero-padded to 8 bytes.
///
/// Size: 32 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ColumnHead {
    /// 1 reverse, 2 stop_inclusive, 4 start_exclusive, 8 absent
    pub flags: u8,
    /// bytes of the key, or of the start key (0: from the first row)
    pub start_bytes: u8,
    /// `scan`: bytes of the stop key (0: to the last row); other requests: 0
    pub stop_bytes: u8,
    /// number of names that follow: at least 1; exactly 1 except for `get` and `scan`
    pub columns: u8,
    /// `scan`: maximum number of rows, 0: as many as fit; other requests: 0
    pub limit: U16,
    /// bytes of the value; 0 if there is none
    pub value_bytes: U16,
    /// `check_and_put`: bytes of the expected value; other requests: 0
    pub expected_bytes: U16,
    /// reserved: zero
    pub reserved: U16,
    /// changes: slot number of the session, or 0
    pub slot: U32,
    /// changes: secret token of the session; 0: without a session, for a trusted sender
    pub token: U64,
    /// changes: in a session, the last nonce plus 1; without a session 0, or a new number
    pub nonce: U64,
}

const _: () = assert!(size_of::<ColumnHead>() == 32);

/// Header of every reply except to `open`; rows follow, then zeros.
///
/// Size: 24 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ColumnReply {
    /// 1: fast path, 2: host
    pub source: u8,
    /// 1 may_be_stale, 2 more, 4 not_applied, 8 left_out
    pub flags: u8,
    /// number of rows that follow
    pub rows: U16,
    /// reserved: zero
    pub reserved: U32,
    /// newest timestamp of the rows in ms since 1970; 0 if there are no rows
    pub version_ms: U64,
    /// reserved: zero
    pub reserved_2: U64,
}

const _: () = assert!(size_of::<ColumnReply>() == 24);

/// Header of a row; key, value and padding to 8 bytes follow.
///
/// Size: 4 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ColumnRow {
    /// bytes of the key
    pub key_bytes: u8,
    /// index of the column in the request; bit 0x80: row left out, bit 0x40: its key is truncated
    pub column: u8,
    /// bytes of the value; row left out: 8, and the value is the length of the longest value
    pub value_bytes: U16,
}

const _: () = assert!(size_of::<ColumnRow>() == 4);

/// Session that a client opens: body of the request and of the reply.
///
/// Size: 40 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ColumnSession {
    /// proof that the client receives packets at its address
    pub challenge: [u8; 16],
    /// reply with a session: secret token
    pub token: U64,
    /// reply with a session: slot number
    pub slot: U32,
    /// reply: seconds for which the challenge, or the session, is valid
    pub lease_s: U32,
    /// reserved: zero
    pub reserved: U64,
}

const _: () = assert!(size_of::<ColumnSession>() == 40);

/// Switches the fast path off or on; only for loopback and trusted_sources.
///
/// Size: 8 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ColumnSwitch {
    /// 1: the fast path is off; 0: it is on
    pub off: U64,
}

const _: () = assert!(size_of::<ColumnSwitch>() == 8);

/// Header of every notification; table, keys (each after its length, u8) and tag follow.
///
/// Size: 64 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ColumnNotice {
    /// 0x4c53434e, "LSCN"
    pub magic: U32,
    /// 1 pre, 2 post, 3 ask, 4 grant, 5 ack
    pub kind: u8,
    /// `pre`: 1 the keys are a range, 2 a region was opened; other kinds: 0
    pub flags: u8,
    /// `pre`: number of keys that follow; other kinds: 0
    pub keys: U16,
    /// hash of the server's name; `ask`: 0
    pub server: U64,
    /// the server's number of this subscriber and table, which increases with every start; `ask`: 0
    pub epoch: U64,
    /// `pre`, `ack`: number of the change; `grant`: number of the next change; other kinds: 0
    pub number: U64,
    /// lowest number of a change in progress, otherwise the next number; `ask`, `ack`: 0
    pub oldest_open: U64,
    /// `ask`: random number; `grant`: the number of the `ask`; other kinds: 0
    pub token: U64,
    /// `pre`: time at which the first changed cell expires, in ms since 1970; 0: none expires
    pub expires_ms: U64,
    /// `grant`: duration of the lease from the `ask` on; other kinds: 0
    pub lease_ms: U32,
    /// bytes of the table's name, which follows
    pub table_bytes: U16,
    /// reserved: zero
    pub reserved: U16,
}

const _: () = assert!(size_of::<ColumnNotice>() == 64);

/// Counters of the fast path of `column`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ColumnCounter {
    /// requests answered by the fast path
    Hits = 0,
    /// requests forwarded because the fast path does not cache their whole range
    Misses = 1,
    /// requests forwarded because a row in a block of their range may have changed
    Invalid = 2,
    /// requests forwarded because the fast path's lease or a server's lease had ended, or a row had expired
    NotLeased = 3,
    /// requests forwarded because the host was changing their range
    Changing = 4,
    /// requests forwarded because only the host can answer them, including changes
    Forwarded = 5,
    /// blocks that the fast path itself invalidated because a request changes a row
    LineInvalidations = 6,
}

impl ColumnCounter {
    /// All values, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Hits,
        Self::Misses,
        Self::Invalid,
        Self::NotLeased,
        Self::Changing,
        Self::Forwarded,
        Self::LineInvalidations,
    ];

    /// Returns the name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hits => "hits",
            Self::Misses => "misses",
            Self::Invalid => "invalid",
            Self::NotLeased => "not_leased",
            Self::Changing => "changing",
            Self::Forwarded => "forwarded",
            Self::LineInvalidations => "line_invalidations",
        }
    }
}

/// First field of every `fabric_result`; each layout has another number.
pub const FABRIC_RESULTS_MAGIC: u64 = 0x4c53464142523031;

/// Bytes of the MAC that ends every native datagram: AES-256-GMAC, HMAC-SHA256 key, nonce is the sequence.
pub const FABRIC_MAC_BYTES: usize = 16;

/// Kind of a section: an entry of the cache.
pub const FABRIC_SECTION_ENTRY: u8 = 1;

/// Kind of a section: a run of segments.
pub const FABRIC_SECTION_RUN: u8 = 2;

/// Flag of a run in which every segment has annotations.
pub const FABRIC_RUN_NOTES: u8 = 1;

/// Flag of a run in which segments 1 to `segments` - 2 are the block's transactions.
pub const FABRIC_RUN_TRANSACTIONS: u8 = 2;

/// Value of a cache id that means "no entry".
pub const FABRIC_NO_ENTRY: u16 = 0xffff;

/// Number of cache ids in a session.
pub const FABRIC_ENTRIES_MAX: usize = 32768;

/// Maximum number of segments in a block: 65,535 transactions, the bytes before them, and those after them.
pub const FABRIC_SEGMENTS_MAX: usize = 65537;

/// Value of the block number in a `want_item` that requests entries of the cache.
pub const FABRIC_WANT_ENTRIES: u64 = 0xffffffffffffffff;

/// Minimum number of bytes that a copy takes from earlier bytes.
pub const FABRIC_COPY_BYTES_MIN: usize = 6;

/// Maximum bytes of the paper's packet.
pub const FABRIC_PAPER_BYTES_MAX: usize = 9000;

/// Bit of a paper annotation: the identity `description` was cut out at `offset`.
pub const FABRIC_PAPER_LOCATOR: u8 = 0x80;

/// Code of the operation `announce` of `fabric`; docs/wire-formats.md describes it.
pub const FABRIC_OP_ANNOUNCE: u8 = 1;

/// Code of the operation `data` of `fabric`; docs/wire-formats.md describes it.
pub const FABRIC_OP_DATA: u8 = 2;

/// Part that follows the header of every native datagram.
///
/// Size: 16 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SessionHead {
    /// session of the sender of the datagram, random at its start
    pub session: [u8; 16],
}

const _: () = assert!(size_of::<SessionHead>() == 16);

/// Blocks that the sender has. This statement is valid only for the receiver that it names.
///
/// Size: 32 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Announce {
    /// session of the receiver to which the sender replies; zeros: unknown
    pub receiver: [u8; 16],
    /// oldest block that can be sent again
    pub oldest: U64,
    /// number of the newest block plus 1; equal to oldest: there are no blocks
    pub next: U64,
}

const _: () = assert!(size_of::<Announce>() == 32);

/// Header of the body of `data`.
///
/// Size: 16 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DataHead {
    /// number of the block
    pub block: U64,
    /// bytes of the whole block, in the orderer's encoding
    pub block_bytes: U32,
    /// number of segments of the block; 0: this datagram has only entries
    pub segments: U32,
}

const _: () = assert!(size_of::<DataHead>() == 16);

/// Section with an identity or a sample transaction for the cache. Its bytes follow.
///
/// Size: 38 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct EntryHead {
    /// kind of the section: 1, an entry
    pub kind: u8,
    /// reserved: zero
    pub reserved: u8,
    /// cache id in this session
    pub id: U16,
    /// bytes of the entry
    pub length: U16,
    /// SHA-256 of the bytes of the entry
    pub sha256: [u8; 32],
}

const _: () = assert!(size_of::<EntryHead>() == 38);

/// Section with consecutive segments, or one part of a segment.
///
/// Size: 18 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RunHead {
    /// kind of the section: 2, a run
    pub kind: u8,
    /// run_notes, run_transactions
    pub flags: u8,
    /// number of segments; 1 if it has more than one part
    pub count: U16,
    /// number of the first segment; transaction n is segment n + 1
    pub segment: U32,
    /// offset of the first byte in the block
    pub offset: U32,
    /// index of the part of the segment
    pub part: U16,
    /// number of parts of the segment
    pub parts: U16,
    /// cache id of an entry whose bytes copies may use, before those of the run; 0xffff: none
    pub dictionary: U16,
}

const _: () = assert!(size_of::<RunHead>() == 18);

/// Packet in which a receiver says which blocks it has and which it requests.
///
/// Size: 28 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct WantHead {
    /// session of the sender to which the receiver replies; zeros: unknown
    pub sender: [u8; 16],
    /// number of the next block that the receiver passes to the validator
    pub next: U64,
    /// number of items that follow
    pub count: U16,
    /// reserved: zero
    pub reserved: U16,
}

const _: () = assert!(size_of::<WantHead>() == 28);

/// Segments, parts of a segment, or cache entries to send again.
///
/// Size: 20 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct WantItem {
    /// number of the block; all ones: cache entries are requested, with the ids first to last
    pub block: U64,
    /// number of the first segment
    pub first: U32,
    /// number of the last segment; all ones: to the block's end
    pub last: U32,
    /// if first equals last: first requested part
    pub part_first: U16,
    /// if first equals last: last requested part
    pub part_last: U16,
}

const _: () = assert!(size_of::<WantItem>() == 20);

/// Packet in the paper's format: one for each section, without the native header.
///
/// Size: 4 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PaperHead {
    /// always 0 in the published code
    pub sequence: U16,
    /// control in the upper four bits; 0 cache update, 1 block header, 2 transaction, 3 block metadata
    pub control: u8,
    /// number of annotations that follow
    pub annotations: u8,
}

const _: () = assert!(size_of::<PaperHead>() == 4);

/// An annotation of the paper's packet.
///
/// Size: 5 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PaperAnnotation {
    /// kind of the annotation; bit 7 set: locator, otherwise pointer
    pub kind: u8,
    /// offset in the sent payload; for 0x11, number of transactions
    pub offset: U16,
    /// pointer: number of bytes; locator: cache id
    pub description: U16,
}

const _: () = assert!(size_of::<PaperAnnotation>() == 5);

/// Value of the first byte of the signed bytes: version of the format.
pub const HYBRID_REQUEST_VERSION: u8 = 1;

/// First byte of the paper's requests in the log of a database in the paper's mode.
pub const HYBRID_REQUEST_VERSION_PAPER: u8 = 2;

/// Maximum bytes of a key. A key has at least one byte.
pub const HYBRID_KEY_BYTES_MAX: usize = 1024;

/// Maximum bytes of a value.
pub const HYBRID_VALUE_BYTES_MAX: usize = 262144;

/// Maximum bytes of a request with its signature.
pub const HYBRID_REQUEST_BYTES_MAX: usize = 524288;

/// Maximum bytes of a datagram with a request or an answer; longer ones need gRPC.
pub const HYBRID_DATAGRAM_BYTES_MAX: usize = 1200;

/// Maximum number of keys that one request may read, and maximum number that it may write.
pub const HYBRID_REQUEST_KEYS_MAX: usize = 1000;

/// Maximum bytes of a message of the log.
pub const HYBRID_MESSAGE_BYTES_MAX: usize = 900000;

/// Maximum number of requests in a message of the log.
pub const HYBRID_MESSAGE_REQUESTS_MAX: usize = 10000;

/// Kind of a write that sets the key to the value that follows.
pub const HYBRID_WRITE_PUT: u8 = 0;

/// Kind of a write that removes the key.
pub const HYBRID_WRITE_DELETE: u8 = 1;

/// Consistency of a read that returns the state which this node has committed.
pub const HYBRID_READ_LOCAL: u8 = 0;

/// Consistency of a read that sees every request which any node answered before the read arrived.
pub const HYBRID_READ_LINEARIZABLE: u8 = 1;

/// Number of the curve P-256; requests signed with such a key are hashed with SHA-256.
pub const HYBRID_CURVE_P256: u8 = 1;

/// Number of the curve secp256k1; requests signed with such a key are hashed with Keccak-256.
pub const HYBRID_CURVE_SECP256K1: u8 = 2;

/// Member number in a rule that applies to every member.
pub const HYBRID_EVERYONE: u64 = 0;

/// Right to read keys with the rule's prefix.
pub const HYBRID_RIGHT_READ: u8 = 1;

/// Right to write keys with the rule's prefix.
pub const HYBRID_RIGHT_WRITE: u8 = 2;

/// Role of a member that has only the rights given by rules.
pub const HYBRID_ROLE_USER: u8 = 0;

/// Role of a member that votes on changes (admin).
pub const HYBRID_ROLE_ADMIN: u8 = 1;

/// Maximum number of changes that wait for votes.
pub const HYBRID_VOTES_OPEN_MAX: usize = 256;

/// Maximum number of changes requested by one admin that wait for votes.
pub const HYBRID_VOTES_PER_ADMIN_MAX: usize = 16;

/// Maximum number of a member's keys that are not revoked.
pub const HYBRID_KEYS_PER_MEMBER_MAX: usize = 16;

/// Change: adds a member with its first key.
pub const HYBRID_CHANGE_ADD_MEMBER: u8 = 1;

/// Change: revokes a member and all its keys.
pub const HYBRID_CHANGE_REVOKE_MEMBER: u8 = 2;

/// Change that adds a key of a member. The member itself may make it, or admins by votes.
pub const HYBRID_CHANGE_ADD_KEY: u8 = 3;

/// Change that revokes a key. The member itself may make it, or admins by votes.
pub const HYBRID_CHANGE_REVOKE_KEY: u8 = 4;

/// Change: sets the rights of a member, or of everyone, below a prefix; 0 removes them.
pub const HYBRID_CHANGE_SET_RULE: u8 = 5;

/// Change: adds a node that may order messages.
pub const HYBRID_CHANGE_ADD_NODE: u8 = 6;

/// Change: revokes a node.
pub const HYBRID_CHANGE_REVOKE_NODE: u8 = 7;

/// Change: sets the number of admins that must request a change.
pub const HYBRID_CHANGE_SET_QUORUM: u8 = 8;

/// Kind of a message of the log: requests, a block.
pub const HYBRID_MESSAGE_BLOCK: u8 = 1;

/// Kind of a message of the log: a signed head.
pub const HYBRID_MESSAGE_HEAD: u8 = 2;

/// Content of an answer by UDP that has only a code.
pub const HYBRID_ANSWER_REFUSED: u8 = 0;

/// Content of an answer by UDP: cells of keys.
pub const HYBRID_ANSWER_CELLS: u8 = 1;

/// Content of an answer by UDP: keys and their cells.
pub const HYBRID_ANSWER_RANGE: u8 = 2;

/// Content of an answer by UDP: a proof.
pub const HYBRID_ANSWER_PROOF: u8 = 3;

/// Content of an answer by UDP: writes of a key.
pub const HYBRID_ANSWER_HISTORY: u8 = 4;

/// Content of an answer by UDP: a block's header with a node's signature.
pub const HYBRID_ANSWER_SIGNED_HEAD: u8 = 5;

/// Content of an answer by UDP: a position in the ledger.
pub const HYBRID_ANSWER_PLACED: u8 = 6;

/// Code of the operation `get` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_GET: u8 = 1;

/// Code of the operation `range` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_RANGE: u8 = 2;

/// Code of the operation `prove` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_PROVE: u8 = 3;

/// Code of the operation `history` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_HISTORY: u8 = 4;

/// Code of the operation `head` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_HEAD: u8 = 5;

/// Code of the operation `outcome` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_OUTCOME: u8 = 6;

/// Code of the operation `watch` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_WATCH: u8 = 7;

/// Code of the operation `paper_get` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_PAPER_GET: u8 = 32;

/// Code of the operation `paper_set` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_PAPER_SET: u8 = 33;

/// Code of the operation `paper_verify` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_PAPER_VERIFY: u8 = 34;

/// Code of the operation `write` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_WRITE: u8 = 16;

/// Code of the operation `change` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_CHANGE: u8 = 17;

/// Code of the operation `ask` of `hybrid`; docs/wire-formats.md describes it.
pub const HYBRID_OP_ASK: u8 = 32;

/// Outcome of one operation of `hybrid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum HybridCode {
    /// committed; for reads: answered
    Done = 0,
    /// the vote counts; the change needs more votes
    Recorded = 1,
    /// a version that the transaction read is not the newest one: nothing was written
    Conflict = 2,
    /// not a canonical encoding of a request
    Malformed = 3,
    /// the request is for another database
    WrongDatabase = 4,
    /// unknown member, or unknown key of the member
    UnknownMember = 5,
    /// the member or the key was revoked
    Revoked = 6,
    /// the member's signature of the request is not valid
    BadSignature = 7,
    /// s of the signature is above half the curve's order
    HighS = 8,
    /// the nonce is not above the last one of this member's lane
    NonceUsed = 9,
    /// the request has expired by the time of its block, or of the node
    Expired = 10,
    /// no rule gives the member this right for the key, or only an admin may do this
    NotAllowed = 11,
    /// the change is not possible in the present state of the database
    BadChange = 12,
    /// too many changes are waiting for votes
    TooManyVotes = 13,
    /// too long for UDP, or for a message: use gRPC, or send less at once
    TooLarge = 14,
    /// the node is busy and has not accepted the request: try again later
    Busy = 15,
    /// this node accepts no writes; its status has the reason
    ReadOnly = 16,
    /// a read must expire within a minute
    ExpiryTooFar = 17,
    /// no such transaction, or nothing to prove
    Unknown = 18,
    /// the request may or may not have been executed: ask for its outcome
    OutcomeUnknown = 19,
    /// the paper's format for a database that is not in the paper's mode, or the reverse
    WrongMode = 20,
    /// the key's version is above the request's version: nothing was written
    OldVersion = 21,
}

impl HybridCode {
    /// Returns the value with this number; `None` if the number is unknown.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::Done),
            1 => Some(Self::Recorded),
            2 => Some(Self::Conflict),
            3 => Some(Self::Malformed),
            4 => Some(Self::WrongDatabase),
            5 => Some(Self::UnknownMember),
            6 => Some(Self::Revoked),
            7 => Some(Self::BadSignature),
            8 => Some(Self::HighS),
            9 => Some(Self::NonceUsed),
            10 => Some(Self::Expired),
            11 => Some(Self::NotAllowed),
            12 => Some(Self::BadChange),
            13 => Some(Self::TooManyVotes),
            14 => Some(Self::TooLarge),
            15 => Some(Self::Busy),
            16 => Some(Self::ReadOnly),
            17 => Some(Self::ExpiryTooFar),
            18 => Some(Self::Unknown),
            19 => Some(Self::OutcomeUnknown),
            20 => Some(Self::WrongMode),
            21 => Some(Self::OldVersion),
            _ => None,
        }
    }

    /// Returns a description of the code.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "committed; for reads: answered",
            Self::Recorded => "the vote counts; the change needs more votes",
            Self::Conflict => "a version that the transaction read is not the newest one: nothing was written",
            Self::Malformed => "not a canonical encoding of a request",
            Self::WrongDatabase => "the request is for another database",
            Self::UnknownMember => "unknown member, or unknown key of the member",
            Self::Revoked => "the member or the key was revoked",
            Self::BadSignature => "the member's signature of the request is not valid",
            Self::HighS => "s of the signature is above half the curve's order",
            Self::NonceUsed => "the nonce is not above the last one of this member's lane",
            Self::Expired => "the request has expired by the time of its block, or of the node",
            Self::NotAllowed => "no rule gives the member this right for the key, or only an admin may do this",
            Self::BadChange => "the change is not possible in the present state of the database",
            Self::TooManyVotes => "too many changes are waiting for votes",
            Self::TooLarge => "too long for UDP, or for a message: use gRPC, or send less at once",
            Self::Busy => "the node is busy and has not accepted the request: try again later",
            Self::ReadOnly => "this node accepts no writes; its status has the reason",
            Self::ExpiryTooFar => "a read must expire within a minute",
            Self::Unknown => "no such transaction, or nothing to prove",
            Self::OutcomeUnknown => "the request may or may not have been executed: ask for its outcome",
            Self::WrongMode => "the paper's format for a database that is not in the paper's mode, or the reverse",
            Self::OldVersion => "the key's version is above the request's version: nothing was written",
        }
    }

    /// Returns the name, which stays the same in all versions.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Recorded => "recorded",
            Self::Conflict => "conflict",
            Self::Malformed => "malformed",
            Self::WrongDatabase => "wrong_database",
            Self::UnknownMember => "unknown_member",
            Self::Revoked => "revoked",
            Self::BadSignature => "bad_signature",
            Self::HighS => "high_s",
            Self::NonceUsed => "nonce_used",
            Self::Expired => "expired",
            Self::NotAllowed => "not_allowed",
            Self::BadChange => "bad_change",
            Self::TooManyVotes => "too_many_votes",
            Self::TooLarge => "too_large",
            Self::Busy => "busy",
            Self::ReadOnly => "read_only",
            Self::ExpiryTooFar => "expiry_too_far",
            Self::Unknown => "unknown",
            Self::OutcomeUnknown => "outcome_unknown",
            Self::WrongMode => "wrong_mode",
            Self::OldVersion => "old_version",
        }
    }
}

/// Header of every request; s is at most half the curve's order.
///
/// Size: 64 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RequestSignature {
    /// r of the signature, big-endian
    pub r: [u8; 32],
    /// s of the signature, big-endian
    pub s: [u8; 32],
}

const _: () = assert!(size_of::<RequestSignature>() == 64);

/// Header of the signed bytes.
///
/// Size: 44 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RequestHead {
    /// version of the format, 1
    pub version: u8,
    /// operation
    pub op: u8,
    /// number of the member's key
    pub key: U16,
    /// the database's id: the first bytes of its genesis' hash
    pub database: [u8; 16],
    /// number of the member
    pub member: U64,
    /// lane in the upper 16 bits; counter in the lower 48, above the last counter of the lane
    pub nonce: U64,
    /// expiry in milliseconds since 1970
    pub expiry_ms: U64,
}

const _: () = assert!(size_of::<RequestHead>() == 44);

/// Header of a message of the log, after the node's signature.
///
/// Size: 29 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MessageHead {
    /// 1 requests, 2 a signed head
    pub kind: u8,
    /// number of the node that sent the message to the log
    pub node: U32,
    /// number of the message, above the number of the node's last message
    pub sequence: U64,
    /// time of the node's clock; a block's time never decreases
    pub time_ms: U64,
    /// reserved: zero
    pub reserved: U32,
    /// number of requests that follow; each has its length (be32) before it
    pub count: U32,
}

const _: () = assert!(size_of::<MessageHead>() == 29);

/// Data that a block's hash covers: Keccak-256 of `lineside/hybrid/block/1` and this.
///
/// Size: 240 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BlockHeader {
    /// the database's id
    pub database: [u8; 16],
    /// 0: genesis
    pub number: U64,
    /// position of the block's message in the log
    pub position: U64,
    /// time of the block, never before the time of the previous block
    pub time_ms: U64,
    /// number of requests
    pub transactions: U32,
    /// number of requests with code 0 or 1
    pub committed: U32,
    /// hash of the previous block
    pub previous: [u8; 32],
    /// Keccak-256 of the message without its signature; called TH in the paper
    pub transactions_hash: [u8; 32],
    /// root of RFC 6962's tree (SHA-256) over the requests with signatures
    pub transactions_root: [u8; 32],
    /// Keccak-256 of the codes, one byte each
    pub codes_hash: [u8; 32],
    /// root of the map of all data that affects later results
    pub state_root: [u8; 32],
    /// Keccak-256 of the previous block's value and of TH; called BH in the paper
    pub paper_hash: [u8; 32],
}

const _: () = assert!(size_of::<BlockHeader>() == 240);

/// Attestation of a block by a node.
///
/// Size: 116 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NodeHead {
    /// number of the node
    pub node: U32,
    /// number of the block
    pub number: U64,
    /// reserved: zero
    pub reserved: U64,
    /// hash of the block
    pub hash: [u8; 32],
    /// r of the node's signature over `lineside/hybrid/head/1`, database id, node, number and hash
    pub r: [u8; 32],
    /// s of the signature, at most half the curve's order
    pub s: [u8; 32],
}

const _: () = assert!(size_of::<NodeHead>() == 116);

/// Attestation of a block by a member.
///
/// Size: 112 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MemberWord {
    /// number of the member
    pub member: U64,
    /// number of the block
    pub number: U64,
    /// hash of the block
    pub hash: [u8; 32],
    /// r of the member's signature over `lineside/hybrid/word/1`, database id, member, number and hash
    pub r: [u8; 32],
    /// s of the signature, at most half the curve's order
    pub s: [u8; 32],
}

const _: () = assert!(size_of::<MemberWord>() == 112);

/// Header of an answer by UDP, after the native header with status ok.
///
/// Size: 3 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AnswerHead {
    /// code of the request
    pub code: U16,
    /// content: 0 nothing, 1 cells, 2 a range, 3 a proof, 4 history, 5 a signed head, 6 a position
    pub says: u8,
}

const _: () = assert!(size_of::<AnswerHead>() == 3);

/// Code of the operation `read` of `odometer`; docs/wire-formats.md describes it.
pub const ODOMETER_OP_READ: u8 = 1;

/// Code of the operation `add` of `odometer`; docs/wire-formats.md describes it.
pub const ODOMETER_OP_ADD: u8 = 2;

/// Body of `read` and `add`. A reply to `read` has the number; a reply to `add` has the sum.
///
/// Size: 8 bytes. Integers are in network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OdometerNumber {
    /// reply: the number; request: 0, or the number to add
    pub number: U64,
}

const _: () = assert!(size_of::<OdometerNumber>() == 8);

/// Counters of the fast path of `odometer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum OdometerCounter {
    /// requests answered by the fast path
    Reads = 0,
    /// requests for the host: all but `read`, and each one without a lease
    Forwarded = 1,
}

impl OdometerCounter {
    /// All values, in the order of their numbers.
    pub const ALL: [Self; 2] = [
        Self::Reads,
        Self::Forwarded,
    ];

    /// Returns the name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Forwarded => "forwarded",
        }
    }
}

/// All metrics, each as a constant.
pub mod metric {
    use crate::{Metric, MetricKind};

    /// always 1; the labels have version, commit and cargo features of the program
    pub const BUILD_INFO: Metric = Metric {
        name: "lineside_build_info",
        key: "build_info",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["version", "commit", "features"],
        passes: false,
        help: "always 1; the labels have version, commit and cargo features of the program",
    };
    /// 1 for each running service; the label datapath says where its fast path answers first
    pub const SERVICE_INFO: Metric = Metric {
        name: "lineside_service_info",
        key: "service_info",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["service", "channel", "datapath"],
        passes: false,
        help: "1 for each running service; the label datapath says where its fast path answers first",
    };
    /// time since the process began to serve
    pub const UPTIME: Metric = Metric {
        name: "lineside_uptime_seconds",
        key: "uptime",
        service: None,
        kind: MetricKind::Gauge,
        unit: "seconds",
        labels: &[],
        passes: false,
        help: "time since the process began to serve",
    };
    /// number of reasons for which /healthz returns 503 now
    pub const PROBLEMS: Metric = Metric {
        name: "lineside_problems",
        key: "problems",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "number of reasons for which /healthz returns 503 now",
    };
    /// number of warnings that `lineside status` shows now
    pub const WARNINGS: Metric = Metric {
        name: "lineside_warnings",
        key: "warnings",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "number of warnings that `lineside status` shows now",
    };
    /// time for which the fast path may answer without renewal by the host; 0: all requests are forwarded
    pub const LEASE_LEFT: Metric = Metric {
        name: "lineside_lease_left_seconds",
        key: "lease_left",
        service: None,
        kind: MetricKind::Gauge,
        unit: "seconds",
        labels: &["service"],
        passes: false,
        help: "time for which the fast path may answer without renewal by the host; 0: all requests are forwarded",
    };
    /// requests, each counted once; outcome: answered (fast path), host (passed to it), refused (queue full)
    pub const REQUESTS: Metric = Metric {
        name: "lineside_requests_total",
        key: "requests",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service", "datapath", "outcome"],
        passes: false,
        help: "requests, each counted once; outcome: answered (fast path), host (passed to it), refused (queue full)",
    };
    /// requests that the XDP program passed to the socket datapath, which counts them again
    pub const XDP_PASSED: Metric = Metric {
        name: "lineside_xdp_passed_total",
        key: "xdp_passed",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service", "reason"],
        passes: false,
        help: "requests that the XDP program passed to the socket datapath, which counts them again",
    };
    /// requests that the NIC of the datapath rtl passed to the socket datapath, which counts them again
    pub const RTL_PASSED: Metric = Metric {
        name: "lineside_rtl_passed_total",
        key: "rtl_passed",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service", "reason"],
        passes: false,
        help: "requests that the NIC of the datapath rtl passed to the socket datapath, which counts them again",
    };
    /// requests answered by the fast path
    pub const FASTPATH_REPLIES: Metric = Metric {
        name: "lineside_fastpath_replies_total",
        key: "fastpath_replies",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service", "datapath"],
        passes: false,
        help: "requests answered by the fast path",
    };
    /// requests answered by the host
    pub const HOST_REPLIES: Metric = Metric {
        name: "lineside_host_replies_total",
        key: "host_replies",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service"],
        passes: false,
        help: "requests answered by the host",
    };
    /// requests that arrived while the host's queue was full: native ones are answered busy, others dropped
    pub const QUEUE_FULL: Metric = Metric {
        name: "lineside_queue_full_total",
        key: "queue_full",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service"],
        passes: false,
        help: "requests that arrived while the host's queue was full: native ones are answered busy, others dropped",
    };
    /// open TCP connections
    pub const CONNECTIONS: Metric = Metric {
        name: "lineside_connections",
        key: "connections",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["service"],
        passes: false,
        help: "open TCP connections",
    };
    /// TCP connections refused because the limit was reached
    pub const CONNECTIONS_REFUSED: Metric = Metric {
        name: "lineside_connections_refused_total",
        key: "connections_refused",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service"],
        passes: false,
        help: "TCP connections refused because the limit was reached",
    };
    /// replies that could not be sent: the send buffer was full, or the client's link-layer address is unknown
    pub const UNSENT: Metric = Metric {
        name: "lineside_unsent_total",
        key: "unsent",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service"],
        passes: false,
        help: "replies that could not be sent: the send buffer was full, or the client's link-layer address is unknown",
    };
    /// datagrams dropped because they are longer than any request
    pub const OVERSIZE: Metric = Metric {
        name: "lineside_oversize_total",
        key: "oversize",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service"],
        passes: false,
        help: "datagrams dropped because they are longer than any request",
    };
    /// replies not sent because they were longer than their request (no amplification)
    pub const AMPLIFICATION: Metric = Metric {
        name: "lineside_amplification_total",
        key: "amplification",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service"],
        passes: false,
        help: "replies not sent because they were longer than their request (no amplification)",
    };
    /// dropped packets by reason
    pub const DROPS: Metric = Metric {
        name: "lineside_drops_total",
        key: "drops",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service", "datapath", "reason"],
        passes: false,
        help: "dropped packets by reason",
    };
    /// time from the arrival of a forwarded request until the host has finished it, with queue and fdatasync
    pub const HOST_LATENCY: Metric = Metric {
        name: "lineside_host_latency_seconds",
        key: "host_latency",
        service: None,
        kind: MetricKind::Histogram,
        unit: "seconds",
        labels: &["service"],
        passes: false,
        help: "time from the arrival of a forwarded request until the host has finished it, with queue and fdatasync",
    };
    /// number of requests in each batch that the host executed
    pub const HOST_BATCH: Metric = Metric {
        name: "lineside_host_batch_requests",
        key: "host_batch",
        service: None,
        kind: MetricKind::Histogram,
        unit: "requests",
        labels: &["service"],
        passes: false,
        help: "number of requests in each batch that the host executed",
    };
    /// duration of each fdatasync of the journal
    pub const FDATASYNC: Metric = Metric {
        name: "lineside_fdatasync_seconds",
        key: "fdatasync",
        service: None,
        kind: MetricKind::Histogram,
        unit: "seconds",
        labels: &["service", "channel"],
        passes: false,
        help: "duration of each fdatasync of the journal",
    };
    /// age of the oldest executed batch that is not durable yet; 0: all executed batches are durable
    pub const DURABILITY_LAG: Metric = Metric {
        name: "lineside_durability_lag_seconds",
        key: "durability_lag",
        service: None,
        kind: MetricKind::Gauge,
        unit: "seconds",
        labels: &["service"],
        passes: false,
        help: "age of the oldest executed batch that is not durable yet; 0: all executed batches are durable",
    };
    /// number of entries in use in a table that the fast path reads
    pub const TABLE_ENTRIES: Metric = Metric {
        name: "lineside_table_entries",
        key: "table_entries",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["service", "table"],
        passes: false,
        help: "number of entries in use in a table that the fast path reads",
    };
    /// maximum number of entries of a table that the fast path reads
    pub const TABLE_CAPACITY: Metric = Metric {
        name: "lineside_table_capacity",
        key: "table_capacity",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["service", "table"],
        passes: false,
        help: "maximum number of entries of a table that the fast path reads",
    };
    /// 1 for each network interface at which XDP answers for the service
    pub const ATTACHED_INTERFACES: Metric = Metric {
        name: "lineside_attached_interfaces",
        key: "attached_interfaces",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["service", "interface"],
        passes: false,
        help: "1 for each network interface at which XDP answers for the service",
    };
    /// CPU time of the process, in user space and in the kernel
    pub const PROCESS_CPU: Metric = Metric {
        name: "process_cpu_seconds_total",
        key: "process_cpu",
        service: None,
        kind: MetricKind::Counter,
        unit: "seconds",
        labels: &[],
        passes: false,
        help: "CPU time of the process, in user space and in the kernel",
    };
    /// memory of the process in RAM; the maps of XDP programs belong to the kernel
    pub const PROCESS_RESIDENT_MEMORY: Metric = Metric {
        name: "process_resident_memory_bytes",
        key: "process_resident_memory",
        service: None,
        kind: MetricKind::Gauge,
        unit: "bytes",
        labels: &[],
        passes: false,
        help: "memory of the process in RAM; the maps of XDP programs belong to the kernel",
    };
    /// address space of the process
    pub const PROCESS_VIRTUAL_MEMORY: Metric = Metric {
        name: "process_virtual_memory_bytes",
        key: "process_virtual_memory",
        service: None,
        kind: MetricKind::Gauge,
        unit: "bytes",
        labels: &[],
        passes: false,
        help: "address space of the process",
    };
    /// open file descriptors
    pub const PROCESS_OPEN_FDS: Metric = Metric {
        name: "process_open_fds",
        key: "process_open_fds",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "open file descriptors",
    };
    /// maximum number of open file descriptors
    pub const PROCESS_MAX_FDS: Metric = Metric {
        name: "process_max_fds",
        key: "process_max_fds",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "maximum number of open file descriptors",
    };
    /// start of the process, in seconds since 1970
    pub const PROCESS_START_TIME: Metric = Metric {
        name: "process_start_time_seconds",
        key: "process_start_time",
        service: None,
        kind: MetricKind::Gauge,
        unit: "seconds",
        labels: &[],
        passes: false,
        help: "start of the process, in seconds since 1970",
    };
    /// requests answered by the fast path
    pub const SPV_HITS: Metric = Metric {
        name: "lineside_spv_hits_total",
        key: "hits",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: false,
        help: "requests answered by the fast path",
    };
    /// requests forwarded because the TXID, or the tree of its block, was not cached or was being written
    pub const SPV_MISSES: Metric = Metric {
        name: "lineside_spv_misses_total",
        key: "misses",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: true,
        help: "requests forwarded because the TXID, or the tree of its block, was not cached or was being written",
    };
    /// requests forwarded because the lease had ended or the chain was changing
    pub const SPV_NOT_LEASED: Metric = Metric {
        name: "lineside_spv_not_leased_total",
        key: "not_leased",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: true,
        help: "requests forwarded because the lease had ended or the chain was changing",
    };
    /// native requests forwarded because only the host can answer them
    pub const SPV_FORWARDED_NATIVE: Metric = Metric {
        name: "lineside_spv_forwarded_native_total",
        key: "forwarded_native",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: true,
        help: "native requests forwarded because only the host can answer them",
    };
    /// lines that the host wrote into the fast path
    pub const SPV_FILLS: Metric = Metric {
        name: "lineside_spv_fills_total",
        key: "fills",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "lines that the host wrote into the fast path",
    };
    /// fills that replaced a valid line of another TXID
    pub const SPV_CONFLICTS: Metric = Metric {
        name: "lineside_spv_conflicts_total",
        key: "conflicts",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "fills that replaced a valid line of another TXID",
    };
    /// lines of the fast path that the host cleared, and blocks that it dropped
    pub const SPV_INVALIDATIONS: Metric = Metric {
        name: "lineside_spv_invalidations_total",
        key: "invalidations",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "lines of the fast path that the host cleared, and blocks that it dropped",
    };
    /// fills refused because their block had been dropped
    pub const SPV_LATE_FILLS: Metric = Metric {
        name: "lineside_spv_late_fills_total",
        key: "late_fills",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "fills refused because their block had been dropped",
    };
    /// Merkle trees that the host wrote into the fast path
    pub const SPV_TREE_FILLS: Metric = Metric {
        name: "lineside_spv_tree_fills_total",
        key: "tree_fills",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "Merkle trees that the host wrote into the fast path",
    };
    /// Merkle trees in the fast path that were replaced by another tree
    pub const SPV_TREE_EVICTIONS: Metric = Metric {
        name: "lineside_spv_tree_evictions_total",
        key: "tree_evictions",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "Merkle trees in the fast path that were replaced by another tree",
    };
    /// height of the best block at the time of the reply
    pub const SPV_TIP_HEIGHT: Metric = Metric {
        name: "lineside_spv_tip_height",
        key: "tip_height",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "height of the best block at the time of the reply",
    };
    /// blocks in the chain store, including those that are not part of the best chain
    pub const SPV_BLOCKS: Metric = Metric {
        name: "lineside_spv_blocks",
        key: "blocks",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "blocks in the chain store, including those that are not part of the best chain",
    };
    /// transactions in the chain store that requests can find
    pub const SPV_TRANSACTIONS: Metric = Metric {
        name: "lineside_spv_transactions",
        key: "transactions",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "transactions in the chain store that requests can find",
    };
    /// 1: the followed node answers; 0: it does not, or its data is refused
    pub const SPV_NODE_UP: Metric = Metric {
        name: "lineside_spv_node_up",
        key: "node_up",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "1: the followed node answers; 0: it does not, or its data is refused",
    };
    /// height of the node's best block when it was last asked
    pub const SPV_NODE_HEIGHT: Metric = Metric {
        name: "lineside_spv_node_height",
        key: "node_height",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "height of the node's best block when it was last asked",
    };
    /// blocks of the node that are not used for answers, including those without min_confirmations
    pub const SPV_NODE_BLOCKS_BEHIND: Metric = Metric {
        name: "lineside_spv_node_blocks_behind",
        key: "node_blocks_behind",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "blocks of the node that are not used for answers, including those without min_confirmations",
    };
    /// times that the node answered again after an outage
    pub const SPV_NODE_RECONNECTS: Metric = Metric {
        name: "lineside_spv_node_reconnects_total",
        key: "node_reconnects",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "times that the node answered again after an outage",
    };
    /// blocks of the node that were refused; a block that is offered repeatedly counts once
    pub const SPV_NODE_REFUSED_BLOCKS: Metric = Metric {
        name: "lineside_spv_node_refused_blocks_total",
        key: "node_refused_blocks",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "blocks of the node that were refused; a block that is offered repeatedly counts once",
    };
    /// reorganisations of the node's chain that Lineside followed
    pub const SPV_REORGANISATIONS: Metric = Metric {
        name: "lineside_spv_reorganisations_total",
        key: "reorganisations",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "reorganisations of the node's chain that Lineside followed",
    };
    /// number of blocks disconnected by the longest reorganisation since the start
    pub const SPV_REORGANISATION_DEPTH_MAX: Metric = Metric {
        name: "lineside_spv_reorganisation_depth_max",
        key: "reorganisation_depth_max",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "number of blocks disconnected by the longest reorganisation since the start",
    };
    /// connected clients of the Electrum protocol
    pub const SPV_ELECTRUM_CLIENTS: Metric = Metric {
        name: "lineside_spv_electrum_clients",
        key: "electrum_clients",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "connected clients of the Electrum protocol",
    };
    /// requests of Electrum clients by outcome: result or error, local or from the upstream server
    pub const SPV_ELECTRUM_REQUESTS: Metric = Metric {
        name: "lineside_spv_electrum_requests_total",
        key: "electrum_requests",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["outcome"],
        passes: false,
        help: "requests of Electrum clients by outcome: result or error, local or from the upstream server",
    };
    /// requests of Electrum clients that were sent to the upstream server
    pub const SPV_ELECTRUM_FORWARDED: Metric = Metric {
        name: "lineside_spv_electrum_forwarded_total",
        key: "electrum_forwarded",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "requests of Electrum clients that were sent to the upstream server",
    };
    /// forwarded requests that failed because the upstream server did not answer in time
    pub const SPV_ELECTRUM_UPSTREAM_FAILURES: Metric = Metric {
        name: "lineside_spv_electrum_upstream_failures_total",
        key: "electrum_upstream_failures",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "forwarded requests that failed because the upstream server did not answer in time",
    };
    /// 1: the upstream Electrum server answers; 0: it does not
    pub const SPV_ELECTRUM_UPSTREAM_UP: Metric = Metric {
        name: "lineside_spv_electrum_upstream_up",
        key: "electrum_upstream_up",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "1: the upstream Electrum server answers; 0: it does not",
    };
    /// notifications sent to Electrum clients
    pub const SPV_ELECTRUM_NOTIFICATIONS: Metric = Metric {
        name: "lineside_spv_electrum_notifications_total",
        key: "electrum_notifications",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "notifications sent to Electrum clients",
    };
    /// times that an Electrum client was delayed because of its request rate
    pub const SPV_ELECTRUM_THROTTLED: Metric = Metric {
        name: "lineside_spv_electrum_throttled_total",
        key: "electrum_throttled",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "times that an Electrum client was delayed because of its request rate",
    };
    /// clients refused or disconnected by a limit: clients, line, idle, stalled, memory, handshake (TLS)
    pub const SPV_CLIENTS_DROPPED: Metric = Metric {
        name: "lineside_spv_clients_dropped_total",
        key: "clients_dropped",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["limit"],
        passes: false,
        help: "clients refused or disconnected by a limit: clients, line, idle, stalled, memory, handshake (TLS)",
    };
    /// open HTTP connections
    pub const SPV_HTTP_CLIENTS: Metric = Metric {
        name: "lineside_spv_http_clients",
        key: "http_clients",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "open HTTP connections",
    };
    /// HTTP requests by outcome: answered, or throttled because of the client's request rate
    pub const SPV_HTTP_REQUESTS: Metric = Metric {
        name: "lineside_spv_http_requests_total",
        key: "http_requests",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["outcome"],
        passes: false,
        help: "HTTP requests by outcome: answered, or throttled because of the client's request rate",
    };
    /// requests answered by the fast path
    pub const TRANSFER_REPLIES: Metric = Metric {
        name: "lineside_transfer_replies_total",
        key: "replies",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: false,
        help: "requests answered by the fast path",
    };
    /// requests forwarded to the host
    pub const TRANSFER_FORWARDED: Metric = Metric {
        name: "lineside_transfer_forwarded_total",
        key: "forwarded",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: true,
        help: "requests forwarded to the host",
    };
    /// requests forwarded because the lease had ended
    pub const TRANSFER_NOT_LEASED: Metric = Metric {
        name: "lineside_transfer_not_leased_total",
        key: "not_leased",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: true,
        help: "requests forwarded because the lease had ended",
    };
    /// requests answered with a refusal: the result code, or the first one, is not 0
    pub const TRANSFER_REFUSALS: Metric = Metric {
        name: "lineside_transfer_refusals_total",
        key: "refusals",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: false,
        help: "requests answered with a refusal: the result code, or the first one, is not 0",
    };
    /// repeated requests answered with the stored reply
    pub const TRANSFER_REPEATS: Metric = Metric {
        name: "lineside_transfer_repeats_total",
        key: "repeats",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: false,
        help: "repeated requests answered with the stored reply",
    };
    /// requests answered busy: a lock was held, or the ring was full
    pub const TRANSFER_BUSY: Metric = Metric {
        name: "lineside_transfer_busy_total",
        key: "busy",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: false,
        help: "requests answered busy: a lock was held, or the ring was full",
    };
    /// requests answered busy because the ring was full
    pub const TRANSFER_RING_FULL: Metric = Metric {
        name: "lineside_transfer_ring_full_total",
        key: "ring_full",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: false,
        help: "requests answered busy because the ring was full",
    };
    /// number of accounts
    pub const TRANSFER_ACCOUNTS: Metric = Metric {
        name: "lineside_transfer_accounts",
        key: "accounts",
        service: Some("transfer"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "number of accounts",
    };
    /// number of open sessions
    pub const TRANSFER_SESSIONS: Metric = Metric {
        name: "lineside_transfer_sessions",
        key: "sessions",
        service: Some("transfer"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "number of open sessions",
    };
    /// operations that were executed and changed the ledger
    pub const TRANSFER_OPERATIONS: Metric = Metric {
        name: "lineside_transfer_operations_total",
        key: "operations",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "operations that were executed and changed the ledger",
    };
    /// operations refused by the host
    pub const TRANSFER_REFUSED: Metric = Metric {
        name: "lineside_transfer_refused_total",
        key: "refused",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "operations refused by the host",
    };
    /// operations that the fast path has executed and the host has not written to the journal yet
    pub const TRANSFER_UNJOURNALED_OPS: Metric = Metric {
        name: "lineside_transfer_unjournaled_ops",
        key: "unjournaled_ops",
        service: Some("transfer"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "operations that the fast path has executed and the host has not written to the journal yet",
    };
    /// batches of requests made durable by one fdatasync each
    pub const TRANSFER_GROUPS: Metric = Metric {
        name: "lineside_transfer_groups_total",
        key: "groups",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "batches of requests made durable by one fdatasync each",
    };
    /// bytes written to the journal
    pub const TRANSFER_JOURNAL: Metric = Metric {
        name: "lineside_transfer_journal_bytes_total",
        key: "journal",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "bytes",
        labels: &[],
        passes: false,
        help: "bytes written to the journal",
    };
    /// settlement blocks that were sealed
    pub const TRANSFER_BLOCKS: Metric = Metric {
        name: "lineside_transfer_blocks_total",
        key: "blocks",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "settlement blocks that were sealed",
    };
    /// requests refused because the journal could not be written
    pub const TRANSFER_WRITES_REFUSED: Metric = Metric {
        name: "lineside_transfer_writes_refused_total",
        key: "writes_refused",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "requests refused because the journal could not be written",
    };
    /// signatures of packets that were checked
    pub const TRANSFER_SIGNATURES: Metric = Metric {
        name: "lineside_transfer_signatures_total",
        key: "signatures",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "signatures of packets that were checked",
    };
    /// times that the fast path was paused so that the host could execute (express mode)
    pub const TRANSFER_RESTS: Metric = Metric {
        name: "lineside_transfer_rests_total",
        key: "rests",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "times that the fast path was paused so that the host could execute (express mode)",
    };
    /// batches that the host executed, with accounts and sessions locked, while the fast path kept running
    pub const TRANSFER_CLAIMS: Metric = Metric {
        name: "lineside_transfer_claims_total",
        key: "claims",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "batches that the host executed, with accounts and sessions locked, while the fast path kept running",
    };
    /// blocks exported to the settlement log
    pub const TRANSFER_SETTLED_BLOCKS: Metric = Metric {
        name: "lineside_transfer_settled_blocks",
        key: "settled_blocks",
        service: Some("transfer"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "blocks exported to the settlement log",
    };
    /// requests answered by the fast path
    pub const COLUMN_HITS: Metric = Metric {
        name: "lineside_column_hits_total",
        key: "hits",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: false,
        help: "requests answered by the fast path",
    };
    /// requests forwarded because the fast path does not cache their whole range
    pub const COLUMN_MISSES: Metric = Metric {
        name: "lineside_column_misses_total",
        key: "misses",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: true,
        help: "requests forwarded because the fast path does not cache their whole range",
    };
    /// requests forwarded because a row in a block of their range may have changed
    pub const COLUMN_INVALID: Metric = Metric {
        name: "lineside_column_invalid_total",
        key: "invalid",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: true,
        help: "requests forwarded because a row in a block of their range may have changed",
    };
    /// requests forwarded because the fast path's lease or a server's lease had ended, or a row had expired
    pub const COLUMN_NOT_LEASED: Metric = Metric {
        name: "lineside_column_not_leased_total",
        key: "not_leased",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: true,
        help: "requests forwarded because the fast path's lease or a server's lease had ended, or a row had expired",
    };
    /// requests forwarded because the host was changing their range
    pub const COLUMN_CHANGING: Metric = Metric {
        name: "lineside_column_changing_total",
        key: "changing",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: true,
        help: "requests forwarded because the host was changing their range",
    };
    /// requests forwarded because only the host can answer them, including changes
    pub const COLUMN_FORWARDED: Metric = Metric {
        name: "lineside_column_forwarded_total",
        key: "forwarded",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: true,
        help: "requests forwarded because only the host can answer them, including changes",
    };
    /// blocks that the fast path itself invalidated because a request changes a row
    pub const COLUMN_LINE_INVALIDATIONS: Metric = Metric {
        name: "lineside_column_line_invalidations_total",
        key: "line_invalidations",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        passes: false,
        help: "blocks that the fast path itself invalidated because a request changes a row",
    };
    /// blocks cached in the fast path
    pub const COLUMN_BLOCKS: Metric = Metric {
        name: "lineside_column_blocks",
        key: "blocks",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "blocks cached in the fast path",
    };
    /// rows cached in the fast path
    pub const COLUMN_ROWS: Metric = Metric {
        name: "lineside_column_rows",
        key: "rows",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "rows cached in the fast path",
    };
    /// key ranges that the host wrote into the fast path
    pub const COLUMN_FILLS: Metric = Metric {
        name: "lineside_column_fills_total",
        key: "fills",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "key ranges that the host wrote into the fast path",
    };
    /// fills skipped because the fast path is full and most of their rows were read once
    pub const COLUMN_COLD_FILLS: Metric = Metric {
        name: "lineside_column_cold_fills_total",
        key: "cold_fills",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "fills skipped because the fast path is full and most of their rows were read once",
    };
    /// fills discarded because the table changed during the read
    pub const COLUMN_LATE_FILLS: Metric = Metric {
        name: "lineside_column_late_fills_total",
        key: "late_fills",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "fills discarded because the table changed during the read",
    };
    /// misses that the host answered with rows of another concurrent read of the table
    pub const COLUMN_SHARED_READS: Metric = Metric {
        name: "lineside_column_shared_reads_total",
        key: "shared_reads",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "misses that the host answered with rows of another concurrent read of the table",
    };
    /// blocks invalidated by the host
    pub const COLUMN_INVALIDATIONS: Metric = Metric {
        name: "lineside_column_invalidations_total",
        key: "invalidations",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "blocks invalidated by the host",
    };
    /// blocks evicted from the fast path to make room for others
    pub const COLUMN_EVICTIONS: Metric = Metric {
        name: "lineside_column_evictions_total",
        key: "evictions",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "blocks evicted from the fast path to make room for others",
    };
    /// key ranges that must not be written into the fast path now, because a change is in progress
    pub const COLUMN_MARKS: Metric = Metric {
        name: "lineside_column_marks",
        key: "marks",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "key ranges that must not be written into the fast path now, because a change is in progress",
    };
    /// 1 while the fast path is switched off
    pub const COLUMN_OFF: Metric = Metric {
        name: "lineside_column_off",
        key: "off",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "1 while the fast path is switched off",
    };
    /// open sessions
    pub const COLUMN_SESSIONS: Metric = Metric {
        name: "lineside_column_sessions",
        key: "sessions",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "open sessions",
    };
    /// servers of the table whose lease is held
    pub const COLUMN_LEASED_SERVERS: Metric = Metric {
        name: "lineside_column_leased_servers",
        key: "leased_servers",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "servers of the table whose lease is held",
    };
    /// accepted notifications of the table's servers
    pub const COLUMN_NOTICES: Metric = Metric {
        name: "lineside_column_notices_total",
        key: "notices",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "accepted notifications of the table's servers",
    };
    /// rejected notifications: a wrong tag, table or format, or a server that grants no lease
    pub const COLUMN_REFUSED_NOTICES: Metric = Metric {
        name: "lineside_column_refused_notices_total",
        key: "refused_notices",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "rejected notifications: a wrong tag, table or format, or a server that grants no lease",
    };
    /// 1 while an unconfigured server holds rows: its rows are not cached, and over Thrift 2 no rows at all
    pub const COLUMN_STRANGERS: Metric = Metric {
        name: "lineside_column_strangers",
        key: "strangers",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "1 while an unconfigured server holds rows: its rows are not cached, and over Thrift 2 no rows at all",
    };
    /// durable blocks in the ledger, as `peer channel getinfo` counts them
    pub const FABRIC_HEIGHT: Metric = Metric {
        name: "lineside_fabric_height",
        key: "height",
        service: Some("fabric"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["channel"],
        passes: false,
        help: "durable blocks in the ledger, as `peer channel getinfo` counts them",
    };
    /// blocks committed since the start
    pub const FABRIC_BLOCKS: Metric = Metric {
        name: "lineside_fabric_blocks_total",
        key: "blocks",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["channel"],
        passes: false,
        help: "blocks committed since the start",
    };
    /// transactions committed since the start, by validation code
    pub const FABRIC_TRANSACTIONS: Metric = Metric {
        name: "lineside_fabric_transactions_total",
        key: "transactions",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["channel", "code"],
        passes: false,
        help: "transactions committed since the start, by validation code",
    };
    /// time that blocks spent in each stage; stages of different blocks run at the same time
    pub const FABRIC_STAGE: Metric = Metric {
        name: "lineside_fabric_stage_seconds_total",
        key: "stage",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "seconds",
        labels: &["channel", "stage"],
        passes: false,
        help: "time that blocks spent in each stage; stages of different blocks run at the same time",
    };
    /// time from the arrival of the complete block until the block was durable, including waiting
    pub const FABRIC_COMMIT: Metric = Metric {
        name: "lineside_fabric_commit_seconds",
        key: "commit",
        service: Some("fabric"),
        kind: MetricKind::Histogram,
        unit: "seconds",
        labels: &["channel"],
        passes: false,
        help: "time from the arrival of the complete block until the block was durable, including waiting",
    };
    /// 1 while an orderer sends blocks or holds the request for the next one, else 0
    pub const FABRIC_FOLLOWING: Metric = Metric {
        name: "lineside_fabric_following",
        key: "following",
        service: Some("fabric"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["channel"],
        passes: false,
        help: "1 while an orderer sends blocks or holds the request for the next one, else 0",
    };
    /// switches to the next source: broken connections, streams that ended, refused blocks
    pub const FABRIC_SOURCES_LEFT: Metric = Metric {
        name: "lineside_fabric_sources_left_total",
        key: "sources_left",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["channel"],
        passes: false,
        help: "switches to the next source: broken connections, streams that ended, refused blocks",
    };
    /// gRPC calls that ended with an error, by code; statuses of Deliver count as the code with their meaning
    pub const FABRIC_CALLS_REFUSED: Metric = Metric {
        name: "lineside_fabric_calls_refused_total",
        key: "calls_refused",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["channel", "code"],
        passes: false,
        help: "gRPC calls that ended with an error, by code; statuses of Deliver count as the code with their meaning",
    };
    /// 1 if no more blocks are accepted; /status has the reason
    pub const FABRIC_STOPPED: Metric = Metric {
        name: "lineside_fabric_stopped",
        key: "stopped",
        service: Some("fabric"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["channel"],
        passes: false,
        help: "1 if no more blocks are accepted; /status has the reason",
    };
    /// transactions received by UDP and verified before their block was complete
    pub const FABRIC_EARLY_VERIFIED: Metric = Metric {
        name: "lineside_fabric_early_verified_total",
        key: "early_verified",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["channel"],
        passes: false,
        help: "transactions received by UDP and verified before their block was complete",
    };
    /// transactions received by UDP and verified early that were not verified again with their block
    pub const FABRIC_EARLY_USED: Metric = Metric {
        name: "lineside_fabric_early_used_total",
        key: "early_used",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["channel"],
        passes: false,
        help: "transactions received by UDP and verified early that were not verified again with their block",
    };
    /// transactions received by UDP that were verified only with their block, for lack of memory or time
    pub const FABRIC_EARLY_SKIPPED: Metric = Metric {
        name: "lineside_fabric_early_skipped_total",
        key: "early_skipped",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["channel"],
        passes: false,
        help: "transactions received by UDP that were verified only with their block, for lack of memory or time",
    };
    /// number of the newest durable block; the genesis has the number 0
    pub const HYBRID_HEIGHT: Metric = Metric {
        name: "lineside_hybrid_height",
        key: "height",
        service: Some("hybrid"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "number of the newest durable block; the genesis has the number 0",
    };
    /// requests answered since the start, by code
    pub const HYBRID_REQUESTS: Metric = Metric {
        name: "lineside_hybrid_requests_total",
        key: "requests",
        service: Some("hybrid"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["code"],
        passes: false,
        help: "requests answered since the start, by code",
    };
    /// number of signatures verified since the start
    pub const HYBRID_VERIFIED: Metric = Metric {
        name: "lineside_hybrid_verified_total",
        key: "verified",
        service: Some("hybrid"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "number of signatures verified since the start",
    };
    /// batches of signatures verified since the start
    pub const HYBRID_BATCHES: Metric = Metric {
        name: "lineside_hybrid_batches_total",
        key: "batches",
        service: Some("hybrid"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "batches of signatures verified since the start",
    };
    /// keys that have a value
    pub const HYBRID_KEYS: Metric = Metric {
        name: "lineside_hybrid_keys",
        key: "keys",
        service: Some("hybrid"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "keys that have a value",
    };
    /// 1 if no writes are accepted; /status has the reason
    pub const HYBRID_READ_ONLY: Metric = Metric {
        name: "lineside_hybrid_read_only",
        key: "read_only",
        service: Some("hybrid"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        passes: false,
        help: "1 if no writes are accepted; /status has the reason",
    };
    /// datagrams received by UDP
    pub const HYBRID_DATAGRAMS: Metric = Metric {
        name: "lineside_hybrid_datagrams_total",
        key: "datagrams",
        service: Some("hybrid"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        passes: false,
        help: "datagrams received by UDP",
    };

    /// All metrics, in the order of spec/.
    pub const ALL: [&Metric; 122] = [
        &BUILD_INFO,
        &SERVICE_INFO,
        &UPTIME,
        &PROBLEMS,
        &WARNINGS,
        &LEASE_LEFT,
        &REQUESTS,
        &XDP_PASSED,
        &RTL_PASSED,
        &FASTPATH_REPLIES,
        &HOST_REPLIES,
        &QUEUE_FULL,
        &CONNECTIONS,
        &CONNECTIONS_REFUSED,
        &UNSENT,
        &OVERSIZE,
        &AMPLIFICATION,
        &DROPS,
        &HOST_LATENCY,
        &HOST_BATCH,
        &FDATASYNC,
        &DURABILITY_LAG,
        &TABLE_ENTRIES,
        &TABLE_CAPACITY,
        &ATTACHED_INTERFACES,
        &PROCESS_CPU,
        &PROCESS_RESIDENT_MEMORY,
        &PROCESS_VIRTUAL_MEMORY,
        &PROCESS_OPEN_FDS,
        &PROCESS_MAX_FDS,
        &PROCESS_START_TIME,
        &SPV_HITS,
        &SPV_MISSES,
        &SPV_NOT_LEASED,
        &SPV_FORWARDED_NATIVE,
        &SPV_FILLS,
        &SPV_CONFLICTS,
        &SPV_INVALIDATIONS,
        &SPV_LATE_FILLS,
        &SPV_TREE_FILLS,
        &SPV_TREE_EVICTIONS,
        &SPV_TIP_HEIGHT,
        &SPV_BLOCKS,
        &SPV_TRANSACTIONS,
        &SPV_NODE_UP,
        &SPV_NODE_HEIGHT,
        &SPV_NODE_BLOCKS_BEHIND,
        &SPV_NODE_RECONNECTS,
        &SPV_NODE_REFUSED_BLOCKS,
        &SPV_REORGANISATIONS,
        &SPV_REORGANISATION_DEPTH_MAX,
        &SPV_ELECTRUM_CLIENTS,
        &SPV_ELECTRUM_REQUESTS,
        &SPV_ELECTRUM_FORWARDED,
        &SPV_ELECTRUM_UPSTREAM_FAILURES,
        &SPV_ELECTRUM_UPSTREAM_UP,
        &SPV_ELECTRUM_NOTIFICATIONS,
        &SPV_ELECTRUM_THROTTLED,
        &SPV_CLIENTS_DROPPED,
        &SPV_HTTP_CLIENTS,
        &SPV_HTTP_REQUESTS,
        &TRANSFER_REPLIES,
        &TRANSFER_FORWARDED,
        &TRANSFER_NOT_LEASED,
        &TRANSFER_REFUSALS,
        &TRANSFER_REPEATS,
        &TRANSFER_BUSY,
        &TRANSFER_RING_FULL,
        &TRANSFER_ACCOUNTS,
        &TRANSFER_SESSIONS,
        &TRANSFER_OPERATIONS,
        &TRANSFER_REFUSED,
        &TRANSFER_UNJOURNALED_OPS,
        &TRANSFER_GROUPS,
        &TRANSFER_JOURNAL,
        &TRANSFER_BLOCKS,
        &TRANSFER_WRITES_REFUSED,
        &TRANSFER_SIGNATURES,
        &TRANSFER_RESTS,
        &TRANSFER_CLAIMS,
        &TRANSFER_SETTLED_BLOCKS,
        &COLUMN_HITS,
        &COLUMN_MISSES,
        &COLUMN_INVALID,
        &COLUMN_NOT_LEASED,
        &COLUMN_CHANGING,
        &COLUMN_FORWARDED,
        &COLUMN_LINE_INVALIDATIONS,
        &COLUMN_BLOCKS,
        &COLUMN_ROWS,
        &COLUMN_FILLS,
        &COLUMN_COLD_FILLS,
        &COLUMN_LATE_FILLS,
        &COLUMN_SHARED_READS,
        &COLUMN_INVALIDATIONS,
        &COLUMN_EVICTIONS,
        &COLUMN_MARKS,
        &COLUMN_OFF,
        &COLUMN_SESSIONS,
        &COLUMN_LEASED_SERVERS,
        &COLUMN_NOTICES,
        &COLUMN_REFUSED_NOTICES,
        &COLUMN_STRANGERS,
        &FABRIC_HEIGHT,
        &FABRIC_BLOCKS,
        &FABRIC_TRANSACTIONS,
        &FABRIC_STAGE,
        &FABRIC_COMMIT,
        &FABRIC_FOLLOWING,
        &FABRIC_SOURCES_LEFT,
        &FABRIC_CALLS_REFUSED,
        &FABRIC_STOPPED,
        &FABRIC_EARLY_VERIFIED,
        &FABRIC_EARLY_USED,
        &FABRIC_EARLY_SKIPPED,
        &HYBRID_HEIGHT,
        &HYBRID_REQUESTS,
        &HYBRID_VERIFIED,
        &HYBRID_BATCHES,
        &HYBRID_KEYS,
        &HYBRID_READ_ONLY,
        &HYBRID_DATAGRAMS,
    ];
}

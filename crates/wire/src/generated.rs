// Generated from spec/*.toml by `cargo run -p lineside-spec`. Do not edit.

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Port of the console, on loopback.
pub const CONSOLE_PORT: u16 = 7700;

/// First field of a native packet.
pub const NATIVE_MAGIC: u16 = 0x4c53;

/// Version of the native format.
pub const NATIVE_VERSION: u8 = 1;

/// Set in `op` of replies.
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

/// Header of every native packet. 16 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NativeHeader {
    /// 0x4c53, "LS"
    pub magic: U16,
    /// 1
    pub version: u8,
    /// operation; bit 7 is set in replies
    pub op: u8,
    /// request: 0; reply: status code
    pub status: U16,
    /// bytes that follow this header
    pub length: U16,
    /// chosen by the client, echoed
    pub request_id: U64,
}

const _: () = assert!(size_of::<NativeHeader>() == 16);

/// Status codes of native replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Status {
    /// answered
    Ok = 0,
    /// no connected block holds it; no such row
    Unknown = 1,
    /// wrong length, unknown operation, or padding that is not zero
    BadRequest = 2,
    /// the host's queue is full: ask again later
    Busy = 3,
    /// the header's version is not known here
    UnsupportedVersion = 4,
    /// no such session, or not its token
    NoSession = 5,
    /// not the session's next sequence; the reply says which
    Sequence = 6,
    /// the session's last sequence with another body
    Reused = 7,
    /// the sender may not do this, or has not signed it
    Unauthorised = 8,
    /// nothing can be written: the disk or memory is full, or writing has ended after an error
    NoRoom = 9,
    /// it may have been done or not: the table did not say
    OutcomeUnknown = 10,
    /// the table has no such column family
    UnknownFamily = 11,
    /// a scan's start lies behind its stop
    StartBehindStop = 12,
    /// what is incremented has not 8 bytes
    NotANumber = 13,
    /// it does not fit a packet; the reply says how long it is. Of a change: the cell's limit
    TooLong = 14,
    /// the server does not keep the data that this operation needs
    NotKept = 15,
    /// the block that holds the transaction commits to no witnesses
    NoCommitment = 16,
}

impl Status {
    /// The one of a code, if there is one.
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

    /// What it means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "answered",
            Self::Unknown => "no connected block holds it; no such row",
            Self::BadRequest => "wrong length, unknown operation, or padding that is not zero",
            Self::Busy => "the host's queue is full: ask again later",
            Self::UnsupportedVersion => "the header's version is not known here",
            Self::NoSession => "no such session, or not its token",
            Self::Sequence => "not the session's next sequence; the reply says which",
            Self::Reused => "the session's last sequence with another body",
            Self::Unauthorised => "the sender may not do this, or has not signed it",
            Self::NoRoom => "nothing can be written: the disk or memory is full, or writing has ended after an error",
            Self::OutcomeUnknown => "it may have been done or not: the table did not say",
            Self::UnknownFamily => "the table has no such column family",
            Self::StartBehindStop => "a scan's start lies behind its stop",
            Self::NotANumber => "what is incremented has not 8 bytes",
            Self::TooLong => "it does not fit a packet; the reply says how long it is. Of a change: the cell's limit",
            Self::NotKept => "the server does not keep the data that this operation needs",
            Self::NoCommitment => "the block that holds the transaction commits to no witnesses",
        }
    }
}

/// Why a fast path drops a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum DropReason {
    /// source port 0 or the port of a Lineside service (rule 8: never loop)
    SourcePort = 0,
    /// source address is multicast, broadcast, unspecified, or our own off lo
    SourceAddress = 1,
    /// a native packet with the reply bit set
    ReplyBit = 2,
    /// neither a paper's request nor a native packet
    NotARequest = 3,
    /// paper format switched off by policy
    PaperRefused = 4,
    /// request in a paper's format whose reply would have no hop left (rule 8: never loop)
    HopLimit = 5,
}

impl DropReason {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::SourcePort,
        Self::SourceAddress,
        Self::ReplyBit,
        Self::NotARequest,
        Self::PaperRefused,
        Self::HopLimit,
    ];

    /// The name in metrics and logs.
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

/// Bytes of the paper's request: a TXID in wire byte order, as it is hashed, not as explorers print it.
pub const SPV_PAPER_REQUEST_BYTES: usize = 32;

/// Bytes of the paper's reply: a Merkle root in wire byte order; zeros: unknown.
pub const SPV_PAPER_REPLY_BYTES: usize = 32;

/// Height of a block whose parents are not known (--detached).
pub const SPV_HEIGHT_UNKNOWN: u32 = 0xffffffff;

/// Items that one `roots` packet may hold: 1,208 bytes.
pub const SPV_ROOTS_MAX: usize = 16;

/// Hashes that a `proof` packet may have room for: the path of a block of 16,384 transactions, 600 bytes.
pub const SPV_PROOF_DEPTH_MAX: usize = 14;

/// Headers that one `headers` packet may hold: 1,184 bytes.
pub const SPV_HEADERS_MAX: usize = 14;

/// Bytes after witness_reply that a `witness_proof` packet may have room for: 1,452 bytes with both headers.
pub const SPV_WITNESS_ROOM_MAX: usize = 1236;

/// Bytes of a block's header.
pub const SPV_HEADER_BYTES: usize = 80;

/// Nodes before a tree's leaves in the fast-path table: the block's header, then zeros.
pub const SPV_TREE_HEAD_NODES: usize = 3;

/// Operation `root` of `spv`.
pub const SPV_OP_ROOT: u8 = 1;

/// Operation `roots` of `spv`.
pub const SPV_OP_ROOTS: u8 = 2;

/// Operation `proof` of `spv`.
pub const SPV_OP_PROOF: u8 = 3;

/// Operation `headers` of `spv`.
pub const SPV_OP_HEADERS: u8 = 4;

/// Operation `witness_proof` of `spv`.
pub const SPV_OP_WITNESS_PROOF: u8 = 5;

/// Operation `wtxid_proof` of `spv`.
pub const SPV_OP_WTXID_PROOF: u8 = 6;

/// Where one transaction is, and the tip this was true at. 104 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RootReply {
    /// Merkle root of the block (the request has the TXID here)
    pub root: [u8; 32],
    /// hash of the block's header, wire byte order
    pub block_hash: [u8; 32],
    /// hash of the best block when this was answered
    pub tip_hash: [u8; 32],
    /// height of the block; 0xffffffff: not known
    pub height: U32,
    /// height of the best block
    pub tip_height: U32,
}

const _: () = assert!(size_of::<RootReply>() == 104);

/// Begins the body of `roots`; the tip that all items were true at. 40 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RootsHead {
    /// request: zeros; reply: hash of the best block when this was answered
    pub tip_hash: [u8; 32],
    /// request: 0; reply: height of the best block
    pub tip_height: U32,
    /// items that follow: 1 to 16
    pub count: U32,
}

const _: () = assert!(size_of::<RootsHead>() == 40);

/// Where one transaction of `roots` is. Of an unknown one only the status is not zero. 72 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RootItem {
    /// Merkle root of the block (the request has the TXID here)
    pub root: [u8; 32],
    /// hash of the block's header, wire byte order
    pub block_hash: [u8; 32],
    /// height of the block; 0xffffffff: not known
    pub height: U32,
    /// 0 ok, 1 unknown
    pub status: U32,
}

const _: () = assert!(size_of::<RootItem>() == 72);

/// Unknown: zeros but for the tip. Too long: but for transactions and depth. 136 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ProofReply {
    /// the block's header, wire byte order (the request has the TXID here)
    pub header: [u8; 80],
    /// height of the block; 0xffffffff: not known
    pub height: U32,
    /// number of transactions in the block
    pub transactions: U32,
    /// position of the transaction in the block, from 0
    pub index: U32,
    /// hashes that follow
    pub depth: U32,
    /// hash of the best block when this was answered
    pub tip_hash: [u8; 32],
    /// height of the best block
    pub tip_height: U32,
    /// zero
    pub reserved: U32,
}

const _: () = assert!(size_of::<ProofReply>() == 136);

/// Too long: zeros but for transactions, depth, coinbase_bytes. Else: but for the tip. 200 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct WitnessReply {
    /// the block's header, wire byte order (the request has the TXID here)
    pub header: [u8; 80],
    /// height of the block; 0xffffffff: not known
    pub height: U32,
    /// number of transactions in the block
    pub transactions: U32,
    /// position of the transaction in the block, from 0
    pub index: U32,
    /// hashes of each of the two paths that follow
    pub depth: U32,
    /// hash of the best block when this was answered
    pub tip_hash: [u8; 32],
    /// height of the best block
    pub tip_height: U32,
    /// bytes of the coinbase without its witness; too long: the room needed is 64 * depth more
    pub coinbase_bytes: U32,
    /// WTXID of the transaction, wire byte order; of a coinbase, zeros
    pub wtxid: [u8; 32],
    /// the witness reserved value: the only item in the witness of the coinbase (BIP141)
    pub witness_reserved: [u8; 32],
}

const _: () = assert!(size_of::<WitnessReply>() == 200);

/// Begins a reply to `headers`. Fewer than asked for: the chain ends there. 48 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct HeadersHead {
    /// hash of the best block when this was answered
    pub tip_hash: [u8; 32],
    /// height of the best block
    pub tip_height: U32,
    /// height of the first header, as asked for
    pub start: U32,
    /// headers that follow
    pub count: U32,
    /// zero
    pub reserved: U32,
}

const _: () = assert!(size_of::<HeadersHead>() == 48);

/// Counters of the fast path part of `spv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SpvCounter {
    /// requests answered by the fast path
    Hits = 0,
    /// requests forwarded because the TXID, or the tree of its block, was not cached or was being written
    Misses = 1,
    /// requests forwarded because the lease had ended or the chain was changing
    NotLeased = 2,
    /// native requests that only the host decides
    ForwardedNative = 3,
}

impl SpvCounter {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 4] = [
        Self::Hits,
        Self::Misses,
        Self::NotLeased,
        Self::ForwardedNative,
    ];

    /// The name in metrics and logs.
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

/// Bytes of the paper's packet with the zeros that fill a frame of 64 bytes.
pub const TRANSFER_PAPER_BYTES_MAX: usize = 22;

/// Set in Command of a refusal, whose Amount is the code.
pub const TRANSFER_PAPER_REFUSED: u32 = 0x80000000;

/// CREATE: a new account; Amount is what it opens with.
pub const TRANSFER_COMMAND_CREATE: u8 = 1;

/// ISSUE: Amount is added to Source.
pub const TRANSFER_COMMAND_ISSUE: u8 = 2;

/// TRANSFER: Amount goes from Source to Destination.
pub const TRANSFER_COMMAND_TRANSFER: u8 = 3;

/// REFER: what Source holds. Paper format only; the native format has `refer`.
pub const TRANSFER_COMMAND_REFER: u8 = 4;

/// FREEZE: nothing goes in or out of Source until UNFREEZE. Native format only.
pub const TRANSFER_COMMAND_FREEZE: u8 = 5;

/// UNFREEZE. Native format only.
pub const TRANSFER_COMMAND_UNFREEZE: u8 = 6;

/// Contract code: at once.
pub const TRANSFER_CONTRACT_PLAIN: u32 = 0;

/// Contract code of TRANSFER: Amount is set aside until it is posted, voided or expires; `uuid` names it.
pub const TRANSFER_CONTRACT_PENDING: u32 = 1;

/// Contract code of TRANSFER: the pending transfer `uuid` is done; Amount of it (0: all), the rest is released.
pub const TRANSFER_CONTRACT_POST: u32 = 2;

/// Contract code of TRANSFER: the pending transfer `uuid` is given up.
pub const TRANSFER_CONTRACT_VOID: u32 = 3;

/// Flag of an operation: it and the next are done both or not at all.
pub const TRANSFER_FLAG_LINKED: u8 = 1;

/// Curve of a signed packet: P-256.
pub const TRANSFER_CURVE_P256: u8 = 1;

/// Curve of a signed packet: secp256k1.
pub const TRANSFER_CURVE_SECP256K1: u8 = 2;

/// Operations of one packet that the fast path executes; more are the host's.
pub const TRANSFER_LINE_OPERATIONS_MAX: usize = 4;

/// Operations in one packet: what the header's length allows. 16 fit a datagram.
pub const TRANSFER_OPERATIONS_MAX: usize = 744;

/// Accounts in one `refer` packet: 1,416 bytes.
pub const TRANSFER_REFER_MAX: usize = 29;

/// Durability told in replies: on the disk before the reply left.
pub const TRANSFER_DURABLE: u16 = 1;

/// Durability told in replies: executed; on the disk within a bounded delay.
pub const TRANSFER_EXPRESS: u16 = 2;

/// Cells that an account may lie in.
pub const TRANSFER_BUCKET_CELLS: usize = 4;

/// Flag of a cell: it holds an account. Never taken back.
pub const TRANSFER_CELL_VALID: u32 = 1;

/// Flag of a cell: frozen.
pub const TRANSFER_CELL_FROZEN: u32 = 2;

/// Flag of a cell: the host is changing what it holds; the fast path only reads it.
pub const TRANSFER_CELL_CLAIMED: u32 = 4;

/// Address ranges that may CREATE, ISSUE, FREEZE and UNFREEZE.
pub const TRANSFER_ISSUERS_MAX: usize = 8;

/// Operation `execute` of `transfer`.
pub const TRANSFER_OP_EXECUTE: u8 = 1;

/// Operation `refer` of `transfer`.
pub const TRANSFER_OP_REFER: u8 = 2;

/// Operation `open` of `transfer`.
pub const TRANSFER_OP_OPEN: u8 = 3;

/// Operation `close` of `transfer`.
pub const TRANSFER_OP_CLOSE: u8 = 4;

/// Operation `session` of `transfer`.
pub const TRANSFER_OP_SESSION: u8 = 5;

/// Operation `signed` of `transfer`.
pub const TRANSFER_OP_SIGNED: u8 = 6;

/// What became of one operation of `transfer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum TransferCode {
    /// done
    Done = 0,
    /// no such account
    UnknownAccount = 1,
    /// the account exists already
    AccountExists = 2,
    /// the source holds less, what is set aside not counted
    InsufficientBalance = 3,
    /// a balance, with what is pending for it, would not fit its format
    Overflow = 4,
    /// source and destination are the same
    SameAccount = 5,
    /// no room for another account or pending transfer
    StoreFull = 6,
    /// transaction id below the source's last one
    StaleId = 7,
    /// not executed: ask again
    Busy = 8,
    /// source or destination is frozen
    Frozen = 9,
    /// no such command, contract or flag; transfer of 0; a field that must (not) be zero
    BadCommand = 10,
    /// the source's last transaction id with another body
    IdReused = 11,
    /// the sender may not do this, or has not signed it
    Unauthorised = 12,
    /// not executed, because another operation linked with it was refused
    LinkedFailed = 13,
    /// no pending transfer of that name between these accounts, or not any more
    UnknownPending = 14,
    /// a pending transfer of that name exists already
    PendingExists = 15,
}

impl TransferCode {
    /// The one of a code, if there is one.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::Done),
            1 => Some(Self::UnknownAccount),
            2 => Some(Self::AccountExists),
            3 => Some(Self::InsufficientBalance),
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

    /// What it means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::UnknownAccount => "no such account",
            Self::AccountExists => "the account exists already",
            Self::InsufficientBalance => "the source holds less, what is set aside not counted",
            Self::Overflow => "a balance, with what is pending for it, would not fit its format",
            Self::SameAccount => "source and destination are the same",
            Self::StoreFull => "no room for another account or pending transfer",
            Self::StaleId => "transaction id below the source's last one",
            Self::Busy => "not executed: ask again",
            Self::Frozen => "source or destination is frozen",
            Self::BadCommand => "no such command, contract or flag; transfer of 0; a field that must (not) be zero",
            Self::IdReused => "the source's last transaction id with another body",
            Self::Unauthorised => "the sender may not do this, or has not signed it",
            Self::LinkedFailed => "not executed, because another operation linked with it was refused",
            Self::UnknownPending => "no pending transfer of that name between these accounts, or not any more",
            Self::PendingExists => "a pending transfer of that name exists already",
        }
    }
}

/// The paper's packet, its Table II. 20 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PaperTransfer {
    /// 1 CREATE, 2 ISSUE, 3 TRANSFER, 4 REFER; bit 31: refused
    pub command: U32,
    /// above the source's last one; 0: sent once, never repeated
    pub transaction_id: U32,
    /// Source ID
    pub source: U32,
    /// Destination ID; of TRANSFER only
    pub destination: U32,
    /// request: what is moved; reply: what Source holds then, or the code
    pub amount: U32,
}

const _: () = assert!(size_of::<PaperTransfer>() == 20);

/// Begins the body of `execute`: which session, and its how manieth packet. 24 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ExecuteHead {
    /// the session's secret
    pub token: U64,
    /// one more than the session's last; reply to another one: the expected one
    pub sequence: U64,
    /// the session's number
    pub slot: U32,
    /// operations that follow
    pub count: U16,
    /// request: 0; reply: 1 durable, 2 express
    pub durability: U16,
}

const _: () = assert!(size_of::<ExecuteHead>() == 24);

/// Begins `signed`: ECDSA over SHA-256 of `lineside/transfer/1` and what follows. 104 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SignedHead {
    /// 1: P-256, 2: secp256k1
    pub curve: u8,
    /// 2 where the key's y is even, 3 where it is odd
    pub key_prefix: u8,
    /// zero
    pub reserved: U16,
    /// zero
    pub reserved_2: U32,
    /// x of the key, big-endian
    pub key_x: [u8; 32],
    /// r of the signature, big-endian
    pub r: [u8; 32],
    /// s of the signature, big-endian, at most half the curve's order
    pub s: [u8; 32],
}

const _: () = assert!(size_of::<SignedHead>() == 104);

/// One operation, and what became of it. 88 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Operation {
    /// 1 CREATE, 2 ISSUE, 3 TRANSFER, 5 FREEZE, 6 UNFREEZE
    pub command: u8,
    /// 1: linked with the next one
    pub flags: u8,
    /// request: 0; reply: what became of it
    pub code: U16,
    /// 0 plain, 1 pending, 2 post, 3 void
    pub contract: U32,
    /// the account that gives, is made or is meant
    pub source: [u8; 16],
    /// TRANSFER: the account that gets; CREATE: fingerprint of the owner's key, or 0; else 0
    pub destination: [u8; 16],
    /// request: what is moved; reply: what Source holds then
    pub amount: U64,
    /// request: 0; reply: the operation's number in the ledger, 0 where it has none yet
    pub number: U64,
    /// the client's own clock; kept, not used
    pub timestamp: U64,
    /// the client's name of the operation; names a pending transfer
    pub uuid: [u8; 16],
    /// the client's; kept, not used
    pub nonce: U32,
    /// pending: seconds until it expires, 0: never; else 0
    pub timeout_s: U32,
}

const _: () = assert!(size_of::<Operation>() == 88);

/// Begins the body of `refer`. 8 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ReferHead {
    /// accounts that follow: 1 to 29
    pub count: U32,
    /// request: 0; reply: 1 durable, 2 express
    pub durability: U16,
    /// zero
    pub reserved: U16,
}

const _: () = assert!(size_of::<ReferHead>() == 8);

/// What one account holds. 48 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BalanceItem {
    /// the account
    pub account: [u8; 16],
    /// request: 0; reply: what it holds, what is set aside included
    pub balance: U64,
    /// what is set aside by pending transfers
    pub held: U64,
    /// how often it has changed
    pub version: U64,
    /// 0 done, 1 unknown account
    pub code: U16,
    /// 1: frozen
    pub frozen: U16,
    /// zero
    pub reserved: U32,
}

const _: () = assert!(size_of::<BalanceItem>() == 48);

/// A session being opened, closed or asked for. 40 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SessionBody {
    /// proof that the client gets what is sent to its address
    pub challenge: [u8; 16],
    /// the session's secret
    pub token: U64,
    /// the next sequence
    pub sequence: U64,
    /// the session's number
    pub slot: U32,
    /// reply to a challenge: seconds for which it is good
    pub lease_s: U32,
}

const _: () = assert!(size_of::<SessionBody>() == 40);

/// Counters of the fast path part of `transfer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TransferCounter {
    /// requests answered by the fast path
    Replies = 0,
    /// requests left to the host
    Forwarded = 1,
    /// requests forwarded because the lease had ended
    NotLeased = 2,
    /// requests of those answered whose code, or first code, is not 0
    Refusals = 3,
    /// stored replies given again
    Repeats = 4,
    /// requests answered busy: a lock was held, or the ring was full
    Busy = 5,
    /// requests of those answered busy because the ring was full
    RingFull = 6,
}

impl TransferCounter {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Replies,
        Self::Forwarded,
        Self::NotLeased,
        Self::Refusals,
        Self::Repeats,
        Self::Busy,
        Self::RingFull,
    ];

    /// The name in metrics and logs.
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

/// Bytes of the paper's row key: a shorter one has zeros behind it.
pub const COLUMN_PAPER_KEY_BYTES: usize = 4;

/// Bytes of the paper's column name (`entry:foo`): a shorter one has zeros behind it.
pub const COLUMN_PAPER_NAME_BYTES: usize = 9;

/// Bytes of the paper's value: a shorter one has zeros behind it.
pub const COLUMN_PAPER_VALUE_BYTES: usize = 18;

/// Bytes of `get`, key, name; more are zeros. Of `put` too, before its value.
pub const COLUMN_PAPER_GET_BYTES: usize = 16;

/// Bytes of `sc1`, startRow, name, stopRow (inclusive); more are zeros.
pub const COLUMN_PAPER_SCAN_BYTES: usize = 20;

/// Bytes of a reply to `get`: status, value.
pub const COLUMN_PAPER_GET_REPLY_BYTES: usize = 19;

/// Bytes of one row of a reply to `sc1`, behind status and number of rows: key, value.
pub const COLUMN_PAPER_ROW_BYTES: usize = 22;

/// First byte of a reply to `get` and `sc1`: here it is.
pub const COLUMN_PAPER_FOUND: u8 = 0;

/// First byte of a reply to `get` and `sc1`: no such row, no row in the range, or startRow above stopRow.
pub const COLUMN_PAPER_NO_ROW: u8 = 1;

/// First byte of a reply to `sc1`: there are more rows in the range than fit.
pub const COLUMN_PAPER_MORE: u8 = 2;

/// Bytes of the longest row key in a packet.
pub const COLUMN_KEY_BYTES_MAX: usize = 64;

/// Bytes of the longest value in a packet.
pub const COLUMN_VALUE_BYTES_MAX: usize = 1024;

/// Bytes of the longest name of a column, `family:qualifier`.
pub const COLUMN_NAME_BYTES_MAX: usize = 32;

/// Flag of `scan`: from the last row down; start is then the highest key.
pub const COLUMN_FLAG_REVERSE: u8 = 1;

/// Flag of `scan`: a row at the stop key is in the range.
pub const COLUMN_FLAG_STOP_INCLUSIVE: u8 = 2;

/// Flag of `scan`: a row at the start key is not; so a scan continues behind the last row that it got.
pub const COLUMN_FLAG_START_EXCLUSIVE: u8 = 4;

/// Flag of `check_and_put`: put only where there is no row; else where its value is the expected one.
pub const COLUMN_FLAG_ABSENT: u8 = 8;

/// Source told in replies: the fast path.
pub const COLUMN_SOURCE_FASTPATH: u8 = 1;

/// Source told in replies: the host.
pub const COLUMN_SOURCE_HOST: u8 = 2;

/// Flag of a reply: nothing tells the fast path of changes that others make.
pub const COLUMN_REPLY_MAY_BE_STALE: u8 = 1;

/// Flag of a reply to `scan`: it ended at the limit or for want of room; there may be more rows behind.
pub const COLUMN_REPLY_MORE: u8 = 2;

/// Flag of a reply to `check_and_put`: the condition did not hold.
pub const COLUMN_REPLY_NOT_APPLIED: u8 = 4;

/// Flag of a reply: a row in it is left out, being longer than a packet.
pub const COLUMN_REPLY_LEFT_OUT: u8 = 8;

/// Bit of a row's `column`: all cells of the row do not fit one packet; this column's value is its longest.
pub const COLUMN_ROW_LEFT_OUT: u8 = 0x80;

/// Bit beside it: the key is longer than 255 bytes, and cut; no row that begins so can be told.
pub const COLUMN_ROW_CUT_KEY: u8 = 0x40;

/// First bytes of a notice, between a server of the table and Lineside: "LSCN".
pub const COLUMN_NOTICE_MAGIC: u32 = 0x4c53434e;

/// UDP port at which a server's coprocessor is asked for leases, unless told otherwise.
pub const COLUMN_NOTICE_PORT: u16 = 7706;

/// UDP port at which Lineside hears of changes, unless told otherwise.
pub const COLUMN_NOTIFY_PORT: u16 = 7707;

/// Bytes of the longest notice: no network splits it.
pub const COLUMN_NOTICE_BYTES_MAX: usize = 1400;

/// Bytes of the tag behind every notice: HMAC-SHA256 over all before it, cut.
pub const COLUMN_NOTICE_TAG_BYTES: usize = 16;

/// Bytes that the key of the tags has at least.
pub const COLUMN_NOTICE_KEY_BYTES_MIN: usize = 32;

/// Kind of a notice, to Lineside: a change begins; to be acknowledged.
pub const COLUMN_NOTICE_PRE: u8 = 1;

/// Kind of a notice, to Lineside: a change is over; not acknowledged.
pub const COLUMN_NOTICE_POST: u8 = 2;

/// Kind of a notice, to the server: a lease is asked for.
pub const COLUMN_NOTICE_ASK: u8 = 3;

/// Kind of a notice, to Lineside: a lease.
pub const COLUMN_NOTICE_GRANT: u8 = 4;

/// Kind of a notice, to the server: the fast path has forgotten what the change touches.
pub const COLUMN_NOTICE_ACK: u8 = 5;

/// Flag of `pre`: the keys are a range, low (inclusive) and high (exclusive; empty: to the table's end).
pub const COLUMN_NOTICE_RANGE: u8 = 1;

/// Flag of `pre`: a region was opened; its table may be described anew.
pub const COLUMN_NOTICE_OPENED: u8 = 2;

/// Rows of the largest block.
pub const COLUMN_BLOCK_ROWS_MAX: usize = 8;

/// Blocks of a page.
pub const COLUMN_PAGE_BLOCKS: usize = 64;

/// Pages of a column.
pub const COLUMN_PAGES_MAX: usize = 4096;

/// Servers whose leases the fast path watches.
pub const COLUMN_SERVERS_MAX: usize = 64;

/// Address ranges whose changes make the fast path invalidate a block.
pub const COLUMN_RANGES_MAX: usize = 8;

/// Flag of a block: a row in it may have changed.
pub const COLUMN_BLOCK_INVALID: u32 = 1;

/// Flag of a block: the next block in order begins where this one ends.
pub const COLUMN_BLOCK_CONTINUES: u32 = 2;

/// Head in tops and pages where there is nothing: above every key's.
pub const COLUMN_NO_HEAD: u64 = 0x8000000000000000;

/// Head in a block where there is no row: not below any key's.
pub const COLUMN_NO_ROW_HEAD: u64 = 0x7fffffffffffffff;

/// Length of a block's high key that has none: to the table's end.
pub const COLUMN_NO_END: u32 = 0xff;

/// Operation `get` of `column`.
pub const COLUMN_OP_GET: u8 = 1;

/// Operation `scan` of `column`.
pub const COLUMN_OP_SCAN: u8 = 2;

/// Operation `put` of `column`.
pub const COLUMN_OP_PUT: u8 = 3;

/// Operation `delete` of `column`.
pub const COLUMN_OP_DELETE: u8 = 4;

/// Operation `increment` of `column`.
pub const COLUMN_OP_INCREMENT: u8 = 5;

/// Operation `check_and_put` of `column`.
pub const COLUMN_OP_CHECK_AND_PUT: u8 = 6;

/// Operation `append` of `column`.
pub const COLUMN_OP_APPEND: u8 = 7;

/// Operation `open` of `column`.
pub const COLUMN_OP_OPEN: u8 = 8;

/// Operation `switch` of `column`.
pub const COLUMN_OP_SWITCH: u8 = 9;

/// What became of one operation of `column`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ColumnCode {
    /// done
    Done = 0,
    /// there is no value
    EmptyValue = 1,
    /// the sender may not do this
    Unauthorised = 2,
    /// the table has no such column family
    UnknownColumn = 3,
    /// the table cannot be reached, or does not take it now
    NoTable = 4,
    /// an empty key, or a packet that is too short
    BadRequest = 5,
}

impl ColumnCode {
    /// The one of a code, if there is one.
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

    /// What it means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::EmptyValue => "there is no value",
            Self::Unauthorised => "the sender may not do this",
            Self::UnknownColumn => "the table has no such column family",
            Self::NoTable => "the table cannot be reached, or does not take it now",
            Self::BadRequest => "an empty key, or a packet that is too short",
        }
    }
}

/// Begins every request but `open`; each part behind it is padded with zeros to 8 bytes. 32 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ColumnHead {
    /// 1 reverse, 2 stop_inclusive, 4 start_exclusive, 8 absent
    pub flags: u8,
    /// bytes of the key, or of the start key (0: from the first row)
    pub start_bytes: u8,
    /// `scan`: bytes of the stop key (0: to the last row); else 0
    pub stop_bytes: u8,
    /// names that follow: at least 1; of one alone but `get` and `scan`
    pub columns: u8,
    /// `scan`: rows at most, 0: as many as fit; else 0
    pub limit: U16,
    /// bytes of the value; 0 where there is none
    pub value_bytes: U16,
    /// `check_and_put`: bytes of the expected value; else 0
    pub expected_bytes: U16,
    /// zero
    pub reserved: U16,
    /// changes: the session's number, or 0
    pub slot: U32,
    /// changes: the session's secret; 0: none, the sender is trusted
    pub token: U64,
    /// changes: in a session one more than its last; without one 0, or never used twice
    pub nonce: U64,
}

const _: () = assert!(size_of::<ColumnHead>() == 32);

/// Begins every reply but to `open`; rows follow, then zeros. 24 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ColumnReply {
    /// 1: fast path, 2: host
    pub source: u8,
    /// 1 may_be_stale, 2 more, 4 not_applied, 8 left_out
    pub flags: u8,
    /// rows that follow
    pub rows: U16,
    /// zero
    pub reserved: U32,
    /// newest timestamp of the rows, ms since 1970; 0 without rows
    pub version_ms: U64,
    /// zero
    pub reserved_2: U64,
}

const _: () = assert!(size_of::<ColumnReply>() == 24);

/// Begins a row; key, value and zeros to 8 bytes follow. 4 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ColumnRow {
    /// bytes of the key
    pub key_bytes: u8,
    /// which of the request's names: 0 is the first; 0x80: left out, 0x40: its key is cut, too
    pub column: u8,
    /// bytes of the value; left out: 8, and the value is how many bytes it has
    pub value_bytes: U16,
}

const _: () = assert!(size_of::<ColumnRow>() == 4);

/// A session being opened. 40 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ColumnSession {
    /// proof that the client gets what is sent to its address
    pub challenge: [u8; 16],
    /// reply with a session: its secret
    pub token: U64,
    /// reply with a session: its number
    pub slot: U32,
    /// reply: seconds for which the challenge, or the session, is good
    pub lease_s: U32,
    /// zero
    pub reserved: U64,
}

const _: () = assert!(size_of::<ColumnSession>() == 40);

/// Switches the fast path off, or on again; for loopback and trusted_sources. 8 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ColumnSwitch {
    /// 1: the fast path is off; 0: it is on
    pub off: U64,
}

const _: () = assert!(size_of::<ColumnSwitch>() == 8);

/// Begins every notice; table, keys (each behind its length, u8) and tag follow. 64 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct ColumnNotice {
    /// 0x4c53434e, "LSCN"
    pub magic: U32,
    /// 1 pre, 2 post, 3 ask, 4 grant, 5 ack
    pub kind: u8,
    /// `pre`: 1 range, 2 opened; else 0
    pub flags: u8,
    /// `pre`: keys that follow; else 0
    pub keys: U16,
    /// hash of the server's name; `ask`: 0
    pub server: U64,
    /// of the server's numbers for this subscriber and table, rises with every start; `ask`: 0
    pub epoch: U64,
    /// `pre`, `ack`: the change's; `grant`: the next change's; else 0
    pub number: U64,
    /// lowest number under way, without one the next; `ask`, `ack`: 0
    pub oldest_open: U64,
    /// `ask`: random; `grant`: that of the question; else 0
    pub token: U64,
    /// `pre`: when the first of its cells ends by itself, ms since 1970; 0: none does
    pub expires_ms: U64,
    /// `grant`: for so long, from the question on; else 0
    pub lease_ms: U32,
    /// bytes of the table's name, which follows
    pub table_bytes: U16,
    /// zero
    pub reserved: U16,
}

const _: () = assert!(size_of::<ColumnNotice>() == 64);

/// Counters of the fast path part of `column`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ColumnCounter {
    /// requests answered by the fast path
    Hits = 0,
    /// requests forwarded because the fast path does not hold all of their range
    Misses = 1,
    /// requests forwarded because a row in a block that they need may have changed
    Invalid = 2,
    /// requests forwarded because the fast path's lease, a server's lease or the life of a row had ended
    NotLeased = 3,
    /// requests forwarded because the host was changing what they need
    Changing = 4,
    /// requests that only the host answers, changes among them
    Forwarded = 5,
    /// blocks that the fast path invalidated itself
    LineInvalidations = 6,
}

impl ColumnCounter {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 7] = [
        Self::Hits,
        Self::Misses,
        Self::Invalid,
        Self::NotLeased,
        Self::Changing,
        Self::Forwarded,
        Self::LineInvalidations,
    ];

    /// The name in metrics and logs.
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

/// Begins every `fabric_result`; another layout has another one.
pub const FABRIC_RESULTS_MAGIC: u64 = 0x4c53464142523031;

/// AES-256-GMAC that ends every native datagram: key by HMAC-SHA256 from the shared key, nonce the sequence.
pub const FABRIC_MAC_BYTES: usize = 16;

/// Kind of a section: an entry of the cache.
pub const FABRIC_SECTION_ENTRY: u8 = 1;

/// Kind of a section: a run of segments.
pub const FABRIC_SECTION_RUN: u8 = 2;

/// Flag of a run: every segment has annotations.
pub const FABRIC_RUN_NOTES: u8 = 1;

/// Flag of a run: segments 1 to segments - 2 are the block's transactions.
pub const FABRIC_RUN_TRANSACTIONS: u8 = 2;

/// In place of a cache id: none.
pub const FABRIC_NO_ENTRY: u16 = 0xffff;

/// Cache ids of a session.
pub const FABRIC_ENTRIES_MAX: usize = 32768;

/// Segments of a block: 65,535 transactions, what stands before them, what stands behind them.
pub const FABRIC_SEGMENTS_MAX: usize = 65537;

/// In place of a block's number in `want_item`: entries of the cache are wanted.
pub const FABRIC_WANT_ENTRIES: u64 = 0xffffffffffffffff;

/// Bytes of the shortest copy.
pub const FABRIC_COPY_BYTES_MIN: usize = 6;

/// Bytes of the paper's packet, at most.
pub const FABRIC_PAPER_BYTES_MAX: usize = 9000;

/// Bit of a paper annotation: the identity `description` was cut out at `offset`.
pub const FABRIC_PAPER_LOCATOR: u8 = 0x80;

/// Operation `announce` of `fabric`.
pub const FABRIC_OP_ANNOUNCE: u8 = 1;

/// Operation `data` of `fabric`.
pub const FABRIC_OP_DATA: u8 = 2;

/// Follows the header of every native datagram. 16 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct SessionHead {
    /// the sending side's session, random at its start
    pub session: [u8; 16],
}

const _: () = assert!(size_of::<SessionHead>() == 16);

/// What the sender has. It counts only for the receiver that it names. 32 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Announce {
    /// the session of the receiver that this answers; zeros: none is known
    pub receiver: [u8; 16],
    /// the oldest block that can be sent again
    pub oldest: U64,
    /// one more than the newest block's number; equal to oldest: there is none
    pub next: U64,
}

const _: () = assert!(size_of::<Announce>() == 32);

/// Begins the body of `data`: which block. 16 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct DataHead {
    /// the block's number
    pub block: U64,
    /// bytes of the whole block, as the orderer delivers it
    pub block_bytes: U32,
    /// segments that the block is cut into; 0: this datagram holds entries only
    pub segments: U32,
}

const _: () = assert!(size_of::<DataHead>() == 16);

/// A section: an identity, or a sample of a transaction, for the cache. Its bytes follow. 38 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct EntryHead {
    /// 1
    pub kind: u8,
    /// zero
    pub reserved: u8,
    /// its cache id in this session
    pub id: U16,
    /// bytes of the entry
    pub length: U16,
    /// what the id is bound to
    pub sha256: [u8; 32],
}

const _: () = assert!(size_of::<EntryHead>() == 38);

/// A section: segments that follow one another, or one part of one. 18 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RunHead {
    /// 2
    pub kind: u8,
    /// run_notes, run_transactions
    pub flags: u8,
    /// segments; 1 where there is more than one part
    pub count: U16,
    /// the first one's number; transaction n is segment n + 1
    pub segment: U32,
    /// where the first byte stands in the block
    pub offset: U32,
    /// which part of the segment
    pub part: U16,
    /// how many it has
    pub parts: U16,
    /// cache id of the bytes that copies may reach before the run's own; 0xffff: none
    pub dictionary: U16,
}

const _: () = assert!(size_of::<RunHead>() == 18);

/// What the receiver has and wants. 28 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct WantHead {
    /// the session of the sender that this answers; zeros: none is known
    pub sender: [u8; 16],
    /// the next block that the receiver hands on
    pub next: U64,
    /// items that follow
    pub count: U16,
    /// zero
    pub reserved: U16,
}

const _: () = assert!(size_of::<WantHead>() == 28);

/// Segments, parts of one, or cache entries, to be sent again. 20 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct WantItem {
    /// the block's number; all ones: entries, whose ids are first to last
    pub block: U64,
    /// the first segment
    pub first: U32,
    /// the last segment; all ones: to the block's end
    pub last: U32,
    /// first equal to last: the first part wanted
    pub part_first: U16,
    /// first equal to last: the last part wanted
    pub part_last: U16,
}

const _: () = assert!(size_of::<WantItem>() == 20);

/// The paper's packet; one a section, without the native header. 4 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PaperHead {
    /// always 0 in the published code
    pub sequence: U16,
    /// control in the upper four bits; 0 cache update, 1 block header, 2 transaction, 3 block metadata
    pub control: u8,
    /// annotations that follow
    pub annotations: u8,
}

const _: () = assert!(size_of::<PaperHead>() == 4);

/// An annotation of the paper's packet. 5 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct PaperAnnotation {
    /// what it is; bit 7: locator, else pointer
    pub kind: u8,
    /// where, in the payload as it is sent; of 0x11 the number of transactions
    pub offset: U16,
    /// pointer: bytes; locator: cache id
    pub description: U16,
}

const _: () = assert!(size_of::<PaperAnnotation>() == 5);

/// First byte of what is signed.
pub const HYBRID_REQUEST_VERSION: u8 = 1;

/// In its place in the paper's requests, in the log of a database of the paper's mode.
pub const HYBRID_REQUEST_VERSION_PAPER: u8 = 2;

/// Bytes of a key, at most; at least one.
pub const HYBRID_KEY_BYTES_MAX: usize = 1024;

/// Bytes of a value, at most.
pub const HYBRID_VALUE_BYTES_MAX: usize = 262144;

/// Bytes of a request with its signature, at most.
pub const HYBRID_REQUEST_BYTES_MAX: usize = 524288;

/// Bytes of a datagram with a request, at most, and of one with an answer; longer ones by gRPC.
pub const HYBRID_DATAGRAM_BYTES_MAX: usize = 1200;

/// Keys that one request reads, and that it writes, at most.
pub const HYBRID_REQUEST_KEYS_MAX: usize = 1000;

/// Bytes of a message of the log, at most.
pub const HYBRID_MESSAGE_BYTES_MAX: usize = 900000;

/// Requests in a message of the log, at most.
pub const HYBRID_MESSAGE_REQUESTS_MAX: usize = 10000;

/// Kind of a write: the key has the value that follows.
pub const HYBRID_WRITE_PUT: u8 = 0;

/// Kind of a write: the key is absent.
pub const HYBRID_WRITE_DELETE: u8 = 1;

/// What a read sees: what this node has committed.
pub const HYBRID_READ_LOCAL: u8 = 0;

/// What a read sees: all that was answered before it came, by any node.
pub const HYBRID_READ_LINEARIZABLE: u8 = 1;

/// Curve of a key: P-256; requests are hashed by SHA-256.
pub const HYBRID_CURVE_P256: u8 = 1;

/// Curve of a key: secp256k1; requests are hashed by Keccak-256.
pub const HYBRID_CURVE_SECP256K1: u8 = 2;

/// In place of a member in a rule: every member.
pub const HYBRID_EVERYONE: u64 = 0;

/// Right to read keys with the rule's prefix.
pub const HYBRID_RIGHT_READ: u8 = 1;

/// Right to write keys with the rule's prefix.
pub const HYBRID_RIGHT_WRITE: u8 = 2;

/// Role of a member: none but what rules give.
pub const HYBRID_ROLE_USER: u8 = 0;

/// Role of a member: votes on changes.
pub const HYBRID_ROLE_ADMIN: u8 = 1;

/// Changes that wait for votes, at most.
pub const HYBRID_VOTES_OPEN_MAX: usize = 256;

/// Of these an admin has asked for, at most, when asking for another.
pub const HYBRID_VOTES_PER_ADMIN_MAX: usize = 16;

/// Keys of a member that are not revoked, at most.
pub const HYBRID_KEYS_PER_MEMBER_MAX: usize = 16;

/// Change: a member with its first key.
pub const HYBRID_CHANGE_ADD_MEMBER: u8 = 1;

/// Change: a member and all its keys count no more.
pub const HYBRID_CHANGE_REVOKE_MEMBER: u8 = 2;

/// Change: one more key of a member; its own, or by votes.
pub const HYBRID_CHANGE_ADD_KEY: u8 = 3;

/// Change: a key counts no more; its own, or by votes.
pub const HYBRID_CHANGE_REVOKE_KEY: u8 = 4;

/// Change: the rights of a member, or of everyone, below a prefix; 0 takes them away.
pub const HYBRID_CHANGE_SET_RULE: u8 = 5;

/// Change: a node that may order messages.
pub const HYBRID_CHANGE_ADD_NODE: u8 = 6;

/// Change: a node's messages count no more.
pub const HYBRID_CHANGE_REVOKE_NODE: u8 = 7;

/// Change: how many admins must ask for a change.
pub const HYBRID_CHANGE_SET_QUORUM: u8 = 8;

/// Kind of a message of the log: requests, a block.
pub const HYBRID_MESSAGE_BLOCK: u8 = 1;

/// Kind of a message of the log: a signed head.
pub const HYBRID_MESSAGE_HEAD: u8 = 2;

/// What an answer by UDP says: its code alone.
pub const HYBRID_ANSWER_REFUSED: u8 = 0;

/// What an answer by UDP says: what keys hold.
pub const HYBRID_ANSWER_CELLS: u8 = 1;

/// What an answer by UDP says: keys and what they hold.
pub const HYBRID_ANSWER_RANGE: u8 = 2;

/// What an answer by UDP says: a proof.
pub const HYBRID_ANSWER_PROOF: u8 = 3;

/// What an answer by UDP says: writes of a key.
pub const HYBRID_ANSWER_HISTORY: u8 = 4;

/// What an answer by UDP says: a block's header, and a node's word for it.
pub const HYBRID_ANSWER_SIGNED_HEAD: u8 = 5;

/// What an answer by UDP says: a place in the ledger.
pub const HYBRID_ANSWER_PLACED: u8 = 6;

/// Operation `get` of `hybrid`.
pub const HYBRID_OP_GET: u8 = 1;

/// Operation `range` of `hybrid`.
pub const HYBRID_OP_RANGE: u8 = 2;

/// Operation `prove` of `hybrid`.
pub const HYBRID_OP_PROVE: u8 = 3;

/// Operation `history` of `hybrid`.
pub const HYBRID_OP_HISTORY: u8 = 4;

/// Operation `head` of `hybrid`.
pub const HYBRID_OP_HEAD: u8 = 5;

/// Operation `outcome` of `hybrid`.
pub const HYBRID_OP_OUTCOME: u8 = 6;

/// Operation `watch` of `hybrid`.
pub const HYBRID_OP_WATCH: u8 = 7;

/// Operation `paper_get` of `hybrid`.
pub const HYBRID_OP_PAPER_GET: u8 = 32;

/// Operation `paper_set` of `hybrid`.
pub const HYBRID_OP_PAPER_SET: u8 = 33;

/// Operation `paper_verify` of `hybrid`.
pub const HYBRID_OP_PAPER_VERIFY: u8 = 34;

/// Operation `write` of `hybrid`.
pub const HYBRID_OP_WRITE: u8 = 16;

/// Operation `change` of `hybrid`.
pub const HYBRID_OP_CHANGE: u8 = 17;

/// Operation `ask` of `hybrid`.
pub const HYBRID_OP_ASK: u8 = 32;

/// What became of one operation of `hybrid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum HybridCode {
    /// committed; of reads: answered
    Done = 0,
    /// the vote counts; more are needed until the change is made
    Recorded = 1,
    /// a version that it read is not the newest: nothing was written
    Conflict = 2,
    /// not the one encoding of a request
    Malformed = 3,
    /// for another database
    WrongDatabase = 4,
    /// no such member, or no such key of it
    UnknownMember = 5,
    /// the member or the key was revoked
    Revoked = 6,
    /// not this member's signature of these bytes
    BadSignature = 7,
    /// s is above half the curve's order
    HighS = 8,
    /// not above the last nonce of this member's lane
    NonceUsed = 9,
    /// its expiry is before the time of its block, or of the node
    Expired = 10,
    /// no rule gives the member this right below the key, or it takes an admin
    NotAllowed = 11,
    /// a change that cannot be made as things stand
    BadChange = 12,
    /// too many changes wait for votes
    TooManyVotes = 13,
    /// too long for this way, or for a message: use gRPC, or less at once
    TooLarge = 14,
    /// not taken: ask again
    Busy = 15,
    /// this node takes no writes; status says why
    ReadOnly = 16,
    /// a read must expire within a minute
    ExpiryTooFar = 17,
    /// no such transaction; nothing to show
    Unknown = 18,
    /// it may have been done or not: ask for its outcome
    OutcomeUnknown = 19,
    /// the paper's request to a database that is not of its mode, or another to one that is
    WrongMode = 20,
    /// the key's version is above the request's: nothing was written
    OldVersion = 21,
}

impl HybridCode {
    /// The one of a code, if there is one.
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

    /// What it means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "committed; of reads: answered",
            Self::Recorded => "the vote counts; more are needed until the change is made",
            Self::Conflict => "a version that it read is not the newest: nothing was written",
            Self::Malformed => "not the one encoding of a request",
            Self::WrongDatabase => "for another database",
            Self::UnknownMember => "no such member, or no such key of it",
            Self::Revoked => "the member or the key was revoked",
            Self::BadSignature => "not this member's signature of these bytes",
            Self::HighS => "s is above half the curve's order",
            Self::NonceUsed => "not above the last nonce of this member's lane",
            Self::Expired => "its expiry is before the time of its block, or of the node",
            Self::NotAllowed => "no rule gives the member this right below the key, or it takes an admin",
            Self::BadChange => "a change that cannot be made as things stand",
            Self::TooManyVotes => "too many changes wait for votes",
            Self::TooLarge => "too long for this way, or for a message: use gRPC, or less at once",
            Self::Busy => "not taken: ask again",
            Self::ReadOnly => "this node takes no writes; status says why",
            Self::ExpiryTooFar => "a read must expire within a minute",
            Self::Unknown => "no such transaction; nothing to show",
            Self::OutcomeUnknown => "it may have been done or not: ask for its outcome",
            Self::WrongMode => "the paper's request to a database that is not of its mode, or another to one that is",
            Self::OldVersion => "the key's version is above the request's: nothing was written",
        }
    }
}

/// Begins every request; s is at most half the curve's order. 64 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RequestSignature {
    /// big-endian
    pub r: [u8; 32],
    /// big-endian
    pub s: [u8; 32],
}

const _: () = assert!(size_of::<RequestSignature>() == 64);

/// Begins what is signed. 44 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct RequestHead {
    /// 1
    pub version: u8,
    /// operation
    pub op: u8,
    /// which of the member's keys
    pub key: U16,
    /// the database's id: the first bytes of its genesis' hash
    pub database: [u8; 16],
    /// who asks
    pub member: U64,
    /// lane in the upper 16 bits, counter in the lower 48: above the last one of the lane
    pub nonce: U64,
    /// milliseconds since 1970 after which it does not count
    pub expiry_ms: U64,
}

const _: () = assert!(size_of::<RequestHead>() == 44);

/// Begins a message of the log, behind the node's signature. 29 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MessageHead {
    /// 1 requests, 2 a signed head
    pub kind: u8,
    /// who ordered it
    pub node: U32,
    /// above the last one of the node
    pub sequence: U64,
    /// the node's clock; a block's time never goes back
    pub time_ms: U64,
    /// zero
    pub reserved: U32,
    /// requests that follow, each behind be32 bytes
    pub count: U32,
}

const _: () = assert!(size_of::<MessageHead>() == 29);

/// What a block's hash covers: Keccak-256 of `lineside/hybrid/block/1` and this. 240 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct BlockHeader {
    /// the database's id
    pub database: [u8; 16],
    /// 0: genesis
    pub number: U64,
    /// of its message in the log
    pub position: U64,
    /// never before that of the block before
    pub time_ms: U64,
    /// requests in it
    pub transactions: U32,
    /// of these with code 0 or 1
    pub committed: U32,
    /// the hash of the block before
    pub previous: [u8; 32],
    /// Keccak-256 of the message without its signature; the paper's TH
    pub transactions_hash: [u8; 32],
    /// of RFC 6962's tree (SHA-256) over the requests, signatures included
    pub transactions_root: [u8; 32],
    /// Keccak-256 of the codes, a byte each
    pub codes_hash: [u8; 32],
    /// of the map over all that decides later verdicts
    pub state_root: [u8; 32],
    /// the paper's BH: Keccak-256 of the one before and TH
    pub paper_hash: [u8; 32],
}

const _: () = assert!(size_of::<BlockHeader>() == 240);

/// A node's word for a block. 116 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct NodeHead {
    /// whose
    pub node: U32,
    /// the block's
    pub number: U64,
    /// zero
    pub reserved: U64,
    /// the block's
    pub hash: [u8; 32],
    /// of the node's signature of `lineside/hybrid/head/1`, the database's id, node, number and hash
    pub r: [u8; 32],
    /// at most half the curve's order
    pub s: [u8; 32],
}

const _: () = assert!(size_of::<NodeHead>() == 116);

/// A member's word for a block. 112 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct MemberWord {
    /// whose
    pub member: U64,
    /// the block's
    pub number: U64,
    /// the block's
    pub hash: [u8; 32],
    /// of the member's signature of `lineside/hybrid/word/1`, the database's id, member, number and hash
    pub r: [u8; 32],
    /// at most half the curve's order
    pub s: [u8; 32],
}

const _: () = assert!(size_of::<MemberWord>() == 112);

/// Begins an answer by UDP, behind the native header of status ok. 3 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct AnswerHead {
    /// what became of the request
    pub code: U16,
    /// what follows: 0 nothing, 1 cells, 2 a range, 3 a proof, 4 history, 5 a signed head, 6 a place
    pub says: u8,
}

const _: () = assert!(size_of::<AnswerHead>() == 3);

/// Operation `read` of `odometer`.
pub const ODOMETER_OP_READ: u8 = 1;

/// Operation `add` of `odometer`.
pub const ODOMETER_OP_ADD: u8 = 2;

/// The number: `read` says what it is, `add` what it has become. 8 bytes, network byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct OdometerNumber {
    /// the number (a request has 0 here, or what is added)
    pub number: U64,
}

const _: () = assert!(size_of::<OdometerNumber>() == 8);

/// Counters of the fast path part of `odometer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum OdometerCounter {
    /// requests answered by the fast path
    Reads = 0,
    /// requests left to the host: all but `read`, and those while there is no lease
    Forwarded = 1,
}

impl OdometerCounter {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 2] = [
        Self::Reads,
        Self::Forwarded,
    ];

    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Forwarded => "forwarded",
        }
    }
}

/// The metrics, each by its name.
pub mod metric {
    use crate::{Metric, MetricKind};

    /// 1; the version that runs, and the datapath that each service runs on
    pub const INFO: Metric = Metric {
        name: "lineside_info",
        key: "info",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["version", "service", "datapath"],
        help: "1; the version that runs, and the datapath that each service runs on",
    };
    /// time since the process began to serve
    pub const UPTIME: Metric = Metric {
        name: "lineside_uptime_seconds",
        key: "uptime",
        service: None,
        kind: MetricKind::Gauge,
        unit: "seconds",
        labels: &[],
        help: "time since the process began to serve",
    };
    /// reasons why /healthz says 503 now
    pub const PROBLEMS: Metric = Metric {
        name: "lineside_problems",
        key: "problems",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "reasons why /healthz says 503 now",
    };
    /// warnings that `lineside status` shows now
    pub const WARNINGS: Metric = Metric {
        name: "lineside_warnings",
        key: "warnings",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "warnings that `lineside status` shows now",
    };
    /// how much longer the fast path may answer without hearing from its host; 0: everything is forwarded
    pub const LEASE_LEFT: Metric = Metric {
        name: "lineside_lease_left_seconds",
        key: "lease_left",
        service: None,
        kind: MetricKind::Gauge,
        unit: "seconds",
        labels: &["service"],
        help: "how much longer the fast path may answer without hearing from its host; 0: everything is forwarded",
    };
    /// requests answered by the fast path
    pub const FASTPATH_REPLIES: Metric = Metric {
        name: "lineside_fastpath_replies_total",
        key: "fastpath_replies",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service", "datapath"],
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
        help: "requests answered by the host",
    };
    /// requests that found the host's queue full: native ones are answered busy, others dropped
    pub const QUEUE_FULL: Metric = Metric {
        name: "lineside_queue_full_total",
        key: "queue_full",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service"],
        help: "requests that found the host's queue full: native ones are answered busy, others dropped",
    };
    /// TCP connections that are open
    pub const CONNECTIONS: Metric = Metric {
        name: "lineside_connections",
        key: "connections",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["service"],
        help: "TCP connections that are open",
    };
    /// TCP connections refused because all places were taken
    pub const CONNECTIONS_REFUSED: Metric = Metric {
        name: "lineside_connections_refused_total",
        key: "connections_refused",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service"],
        help: "TCP connections refused because all places were taken",
    };
    /// replies that could not leave: full send buffer, or a neighbour that does not resolve
    pub const UNSENT: Metric = Metric {
        name: "lineside_unsent_total",
        key: "unsent",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service"],
        help: "replies that could not leave: full send buffer, or a neighbour that does not resolve",
    };
    /// datagrams dropped because they are longer than any request
    pub const OVERSIZE: Metric = Metric {
        name: "lineside_oversize_total",
        key: "oversize",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service"],
        help: "datagrams dropped because they are longer than any request",
    };
    /// replies withheld because they were longer than their request
    pub const AMPLIFICATION: Metric = Metric {
        name: "lineside_amplification_total",
        key: "amplification",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service"],
        help: "replies withheld because they were longer than their request",
    };
    /// packets that nobody answers, by reason
    pub const DROPS: Metric = Metric {
        name: "lineside_drops_total",
        key: "drops",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service", "datapath", "reason"],
        help: "packets that nobody answers, by reason",
    };
    /// requests answered by the fast path
    pub const SPV_HITS: Metric = Metric {
        name: "lineside_spv_hits_total",
        key: "hits",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
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
        help: "requests forwarded because the lease had ended or the chain was changing",
    };
    /// native requests that only the host decides
    pub const SPV_FORWARDED_NATIVE: Metric = Metric {
        name: "lineside_spv_forwarded_native_total",
        key: "forwarded_native",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "native requests that only the host decides",
    };
    /// lines that the host wrote into the fast path
    pub const SPV_FILLS: Metric = Metric {
        name: "lineside_spv_fills_total",
        key: "fills",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
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
        help: "fills that replaced a valid line of another TXID",
    };
    /// lines emptied and blocks dropped
    pub const SPV_INVALIDATIONS: Metric = Metric {
        name: "lineside_spv_invalidations_total",
        key: "invalidations",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "lines emptied and blocks dropped",
    };
    /// fills refused because their block had been dropped
    pub const SPV_LATE_FILLS: Metric = Metric {
        name: "lineside_spv_late_fills_total",
        key: "late_fills",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
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
        help: "Merkle trees that the host wrote into the fast path",
    };
    /// Merkle trees that gave their place to another one
    pub const SPV_TREE_EVICTIONS: Metric = Metric {
        name: "lineside_spv_tree_evictions_total",
        key: "tree_evictions",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "Merkle trees that gave their place to another one",
    };
    /// height of the best block
    pub const SPV_TIP_HEIGHT: Metric = Metric {
        name: "lineside_spv_tip_height",
        key: "tip_height",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "height of the best block",
    };
    /// blocks in the chain store, side branches and detached ones included
    pub const SPV_BLOCKS: Metric = Metric {
        name: "lineside_spv_blocks",
        key: "blocks",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "blocks in the chain store, side branches and detached ones included",
    };
    /// transactions that can be found
    pub const SPV_TRANSACTIONS: Metric = Metric {
        name: "lineside_spv_transactions",
        key: "transactions",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "transactions that can be found",
    };
    /// 1: the node that is followed answers; 0: it is away, or what it gives is refused
    pub const SPV_NODE_UP: Metric = Metric {
        name: "lineside_spv_node_up",
        key: "node_up",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "1: the node that is followed answers; 0: it is away, or what it gives is refused",
    };
    /// height of the node's best block when it was last asked
    pub const SPV_NODE_HEIGHT: Metric = Metric {
        name: "lineside_spv_node_height",
        key: "node_height",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "height of the node's best block when it was last asked",
    };
    /// blocks of the node that are not answered from, those without min_confirmations included
    pub const SPV_NODE_BLOCKS_BEHIND: Metric = Metric {
        name: "lineside_spv_node_blocks_behind",
        key: "node_blocks_behind",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "blocks of the node that are not answered from, those without min_confirmations included",
    };
    /// times that the node answered again after it had been away
    pub const SPV_NODE_RECONNECTS: Metric = Metric {
        name: "lineside_spv_node_reconnects_total",
        key: "node_reconnects",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "times that the node answered again after it had been away",
    };
    /// blocks of the node that were refused; one that is offered again and again counts once
    pub const SPV_NODE_REFUSED_BLOCKS: Metric = Metric {
        name: "lineside_spv_node_refused_blocks_total",
        key: "node_refused_blocks",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "blocks of the node that were refused; one that is offered again and again counts once",
    };
    /// reorganisations of the node's chain that were followed
    pub const SPV_REORGANISATIONS: Metric = Metric {
        name: "lineside_spv_reorganisations_total",
        key: "reorganisations",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "reorganisations of the node's chain that were followed",
    };
    /// blocks that the longest reorganisation since the start disconnected
    pub const SPV_REORGANISATION_DEPTH_MAX: Metric = Metric {
        name: "lineside_spv_reorganisation_depth_max",
        key: "reorganisation_depth_max",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "blocks that the longest reorganisation since the start disconnected",
    };
    /// clients of the Electrum protocol that are connected
    pub const SPV_ELECTRUM_CLIENTS: Metric = Metric {
        name: "lineside_spv_electrum_clients",
        key: "electrum_clients",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "clients of the Electrum protocol that are connected",
    };
    /// requests of Electrum clients by outcome: answered with a result or an error, here or upstream
    pub const SPV_ELECTRUM_REQUESTS: Metric = Metric {
        name: "lineside_spv_electrum_requests_total",
        key: "electrum_requests",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["outcome"],
        help: "requests of Electrum clients by outcome: answered with a result or an error, here or upstream",
    };
    /// requests of Electrum clients that were sent to the upstream server
    pub const SPV_ELECTRUM_FORWARDED: Metric = Metric {
        name: "lineside_spv_electrum_forwarded_total",
        key: "electrum_forwarded",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "requests of Electrum clients that were sent to the upstream server",
    };
    /// forwarded requests that failed because the upstream server was away or too slow
    pub const SPV_ELECTRUM_UPSTREAM_FAILURES: Metric = Metric {
        name: "lineside_spv_electrum_upstream_failures_total",
        key: "electrum_upstream_failures",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "forwarded requests that failed because the upstream server was away or too slow",
    };
    /// 1: the upstream Electrum server answers; 0: it is away
    pub const SPV_ELECTRUM_UPSTREAM_UP: Metric = Metric {
        name: "lineside_spv_electrum_upstream_up",
        key: "electrum_upstream_up",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "1: the upstream Electrum server answers; 0: it is away",
    };
    /// notifications that were sent to Electrum clients
    pub const SPV_ELECTRUM_NOTIFICATIONS: Metric = Metric {
        name: "lineside_spv_electrum_notifications_total",
        key: "electrum_notifications",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "notifications that were sent to Electrum clients",
    };
    /// times that an Electrum client had to wait because of its rate of requests
    pub const SPV_ELECTRUM_THROTTLED: Metric = Metric {
        name: "lineside_spv_electrum_throttled_total",
        key: "electrum_throttled",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "times that an Electrum client had to wait because of its rate of requests",
    };
    /// clients refused or closed by a limit: clients, line, idle, stalled, memory, handshake (TLS)
    pub const SPV_CLIENTS_DROPPED: Metric = Metric {
        name: "lineside_spv_clients_dropped_total",
        key: "clients_dropped",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["limit"],
        help: "clients refused or closed by a limit: clients, line, idle, stalled, memory, handshake (TLS)",
    };
    /// HTTP connections that are open
    pub const SPV_HTTP_CLIENTS: Metric = Metric {
        name: "lineside_spv_http_clients",
        key: "http_clients",
        service: Some("spv"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "HTTP connections that are open",
    };
    /// HTTP requests by outcome: answered, or throttled because of their client's rate
    pub const SPV_HTTP_REQUESTS: Metric = Metric {
        name: "lineside_spv_http_requests_total",
        key: "http_requests",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["outcome"],
        help: "HTTP requests by outcome: answered, or throttled because of their client's rate",
    };
    /// requests answered by the fast path
    pub const TRANSFER_REPLIES: Metric = Metric {
        name: "lineside_transfer_replies_total",
        key: "replies",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "requests answered by the fast path",
    };
    /// requests left to the host
    pub const TRANSFER_FORWARDED: Metric = Metric {
        name: "lineside_transfer_forwarded_total",
        key: "forwarded",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "requests left to the host",
    };
    /// requests forwarded because the lease had ended
    pub const TRANSFER_NOT_LEASED: Metric = Metric {
        name: "lineside_transfer_not_leased_total",
        key: "not_leased",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "requests forwarded because the lease had ended",
    };
    /// requests of those answered whose code, or first code, is not 0
    pub const TRANSFER_REFUSALS: Metric = Metric {
        name: "lineside_transfer_refusals_total",
        key: "refusals",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "requests of those answered whose code, or first code, is not 0",
    };
    /// stored replies given again
    pub const TRANSFER_REPEATS: Metric = Metric {
        name: "lineside_transfer_repeats_total",
        key: "repeats",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "stored replies given again",
    };
    /// requests answered busy: a lock was held, or the ring was full
    pub const TRANSFER_BUSY: Metric = Metric {
        name: "lineside_transfer_busy_total",
        key: "busy",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "requests answered busy: a lock was held, or the ring was full",
    };
    /// requests of those answered busy because the ring was full
    pub const TRANSFER_RING_FULL: Metric = Metric {
        name: "lineside_transfer_ring_full_total",
        key: "ring_full",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "requests of those answered busy because the ring was full",
    };
    /// accounts
    pub const TRANSFER_ACCOUNTS: Metric = Metric {
        name: "lineside_transfer_accounts",
        key: "accounts",
        service: Some("transfer"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "accounts",
    };
    /// open sessions
    pub const TRANSFER_SESSIONS: Metric = Metric {
        name: "lineside_transfer_sessions",
        key: "sessions",
        service: Some("transfer"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "open sessions",
    };
    /// operations with an effect
    pub const TRANSFER_OPERATIONS: Metric = Metric {
        name: "lineside_transfer_operations_total",
        key: "operations",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "operations with an effect",
    };
    /// operations refused by the host
    pub const TRANSFER_REFUSED: Metric = Metric {
        name: "lineside_transfer_refused_total",
        key: "refused",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "operations refused by the host",
    };
    /// operations that the fast path has executed and the journal has not yet
    pub const TRANSFER_UNJOURNALED_OPS: Metric = Metric {
        name: "lineside_transfer_unjournaled_ops",
        key: "unjournaled_ops",
        service: Some("transfer"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "operations that the fast path has executed and the journal has not yet",
    };
    /// groups of requests made durable together, one fdatasync each
    pub const TRANSFER_GROUPS: Metric = Metric {
        name: "lineside_transfer_groups_total",
        key: "groups",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "groups of requests made durable together, one fdatasync each",
    };
    /// bytes written to the journal
    pub const TRANSFER_JOURNAL: Metric = Metric {
        name: "lineside_transfer_journal_bytes_total",
        key: "journal",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "bytes",
        labels: &[],
        help: "bytes written to the journal",
    };
    /// settlement blocks sealed
    pub const TRANSFER_BLOCKS: Metric = Metric {
        name: "lineside_transfer_blocks_total",
        key: "blocks",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "settlement blocks sealed",
    };
    /// requests refused because nothing could be written
    pub const TRANSFER_WRITES_REFUSED: Metric = Metric {
        name: "lineside_transfer_writes_refused_total",
        key: "writes_refused",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "requests refused because nothing could be written",
    };
    /// signatures of packets checked
    pub const TRANSFER_SIGNATURES: Metric = Metric {
        name: "lineside_transfer_signatures_total",
        key: "signatures",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "signatures of packets checked",
    };
    /// how often the fast path rested while the host executed, in express
    pub const TRANSFER_RESTS: Metric = Metric {
        name: "lineside_transfer_rests_total",
        key: "rests",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "how often the fast path rested while the host executed, in express",
    };
    /// groups that the host executed while the fast path ran, on accounts and sessions it had claimed
    pub const TRANSFER_CLAIMS: Metric = Metric {
        name: "lineside_transfer_claims_total",
        key: "claims",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "groups that the host executed while the fast path ran, on accounts and sessions it had claimed",
    };
    /// blocks that are settled besides the journal
    pub const TRANSFER_SETTLED_BLOCKS: Metric = Metric {
        name: "lineside_transfer_settled_blocks",
        key: "settled_blocks",
        service: Some("transfer"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "blocks that are settled besides the journal",
    };
    /// requests answered by the fast path
    pub const COLUMN_HITS: Metric = Metric {
        name: "lineside_column_hits_total",
        key: "hits",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "requests answered by the fast path",
    };
    /// requests forwarded because the fast path does not hold all of their range
    pub const COLUMN_MISSES: Metric = Metric {
        name: "lineside_column_misses_total",
        key: "misses",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "requests forwarded because the fast path does not hold all of their range",
    };
    /// requests forwarded because a row in a block that they need may have changed
    pub const COLUMN_INVALID: Metric = Metric {
        name: "lineside_column_invalid_total",
        key: "invalid",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "requests forwarded because a row in a block that they need may have changed",
    };
    /// requests forwarded because the fast path's lease, a server's lease or the life of a row had ended
    pub const COLUMN_NOT_LEASED: Metric = Metric {
        name: "lineside_column_not_leased_total",
        key: "not_leased",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "requests forwarded because the fast path's lease, a server's lease or the life of a row had ended",
    };
    /// requests forwarded because the host was changing what they need
    pub const COLUMN_CHANGING: Metric = Metric {
        name: "lineside_column_changing_total",
        key: "changing",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "requests forwarded because the host was changing what they need",
    };
    /// requests that only the host answers, changes among them
    pub const COLUMN_FORWARDED: Metric = Metric {
        name: "lineside_column_forwarded_total",
        key: "forwarded",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "requests that only the host answers, changes among them",
    };
    /// blocks that the fast path invalidated itself
    pub const COLUMN_LINE_INVALIDATIONS: Metric = Metric {
        name: "lineside_column_line_invalidations_total",
        key: "line_invalidations",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["datapath"],
        help: "blocks that the fast path invalidated itself",
    };
    /// blocks that the fast path holds
    pub const COLUMN_BLOCKS: Metric = Metric {
        name: "lineside_column_blocks",
        key: "blocks",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "blocks that the fast path holds",
    };
    /// rows that the fast path holds
    pub const COLUMN_ROWS: Metric = Metric {
        name: "lineside_column_rows",
        key: "rows",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "rows that the fast path holds",
    };
    /// intervals that the host wrote into the fast path
    pub const COLUMN_FILLS: Metric = Metric {
        name: "lineside_column_fills_total",
        key: "fills",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "intervals that the host wrote into the fast path",
    };
    /// fills left out because the fast path is full and most of their rows were read once
    pub const COLUMN_COLD_FILLS: Metric = Metric {
        name: "lineside_column_cold_fills_total",
        key: "cold_fills",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "fills left out because the fast path is full and most of their rows were read once",
    };
    /// fills not installed because the table had changed meanwhile
    pub const COLUMN_LATE_FILLS: Metric = Metric {
        name: "lineside_column_late_fills_total",
        key: "late_fills",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "fills not installed because the table had changed meanwhile",
    };
    /// misses that the host answered by what another read of the table had brought meanwhile
    pub const COLUMN_SHARED_READS: Metric = Metric {
        name: "lineside_column_shared_reads_total",
        key: "shared_reads",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "misses that the host answered by what another read of the table had brought meanwhile",
    };
    /// blocks invalidated by the host
    pub const COLUMN_INVALIDATIONS: Metric = Metric {
        name: "lineside_column_invalidations_total",
        key: "invalidations",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "blocks invalidated by the host",
    };
    /// blocks that gave way to others
    pub const COLUMN_EVICTIONS: Metric = Metric {
        name: "lineside_column_evictions_total",
        key: "evictions",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "blocks that gave way to others",
    };
    /// intervals in which fills are forbidden now
    pub const COLUMN_MARKS: Metric = Metric {
        name: "lineside_column_marks",
        key: "marks",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "intervals in which fills are forbidden now",
    };
    /// 1 while the fast path is switched off
    pub const COLUMN_OFF: Metric = Metric {
        name: "lineside_column_off",
        key: "off",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "1 while the fast path is switched off",
    };
    /// sessions that are open
    pub const COLUMN_SESSIONS: Metric = Metric {
        name: "lineside_column_sessions",
        key: "sessions",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "sessions that are open",
    };
    /// servers of the table whose lease is held
    pub const COLUMN_LEASED_SERVERS: Metric = Metric {
        name: "lineside_column_leased_servers",
        key: "leased_servers",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "servers of the table whose lease is held",
    };
    /// notices of the table's servers that were taken
    pub const COLUMN_NOTICES: Metric = Metric {
        name: "lineside_column_notices_total",
        key: "notices",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "notices of the table's servers that were taken",
    };
    /// notices that were not: a wrong tag, table or form, or a server that grants no lease
    pub const COLUMN_REFUSED_NOTICES: Metric = Metric {
        name: "lineside_column_refused_notices_total",
        key: "refused_notices",
        service: Some("column"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "notices that were not: a wrong tag, table or form, or a server that grants no lease",
    };
    /// 1 while an unconfigured server holds rows; none of its rows are cached, over Thrift 2 no rows at all
    pub const COLUMN_STRANGERS: Metric = Metric {
        name: "lineside_column_strangers",
        key: "strangers",
        service: Some("column"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "1 while an unconfigured server holds rows; none of its rows are cached, over Thrift 2 no rows at all",
    };
    /// blocks in the ledger, all durable
    pub const FABRIC_HEIGHT: Metric = Metric {
        name: "lineside_fabric_height",
        key: "height",
        service: Some("fabric"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["channel"],
        help: "blocks in the ledger, all durable",
    };
    /// blocks committed since the start
    pub const FABRIC_BLOCKS: Metric = Metric {
        name: "lineside_fabric_blocks_total",
        key: "blocks",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["channel"],
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
        help: "transactions committed since the start, by validation code",
    };
    /// what the stages of blocks took; total is from the whole block until it was durable, waiting included
    pub const FABRIC_STAGE: Metric = Metric {
        name: "lineside_fabric_stage_seconds_total",
        key: "stage",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "seconds",
        labels: &["channel", "stage"],
        help: "what the stages of blocks took; total is from the whole block until it was durable, waiting included",
    };
    /// 1 while an orderer sends blocks or holds the request for the next one, else 0
    pub const FABRIC_FOLLOWING: Metric = Metric {
        name: "lineside_fabric_following",
        key: "following",
        service: Some("fabric"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["channel"],
        help: "1 while an orderer sends blocks or holds the request for the next one, else 0",
    };
    /// how often a source was left for the next: broken connections, streams that ended, blocks refused
    pub const FABRIC_SOURCES_LEFT: Metric = Metric {
        name: "lineside_fabric_sources_left_total",
        key: "sources_left",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["channel"],
        help: "how often a source was left for the next: broken connections, streams that ended, blocks refused",
    };
    /// 1 where nothing more is taken; /status says why
    pub const FABRIC_STOPPED: Metric = Metric {
        name: "lineside_fabric_stopped",
        key: "stopped",
        service: Some("fabric"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["channel"],
        help: "1 where nothing more is taken; /status says why",
    };
    /// transactions that came by UDP and were verified before their block was whole
    pub const FABRIC_EARLY_VERIFIED: Metric = Metric {
        name: "lineside_fabric_early_verified_total",
        key: "early_verified",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["channel"],
        help: "transactions that came by UDP and were verified before their block was whole",
    };
    /// of them, those that were not verified again when their block was read
    pub const FABRIC_EARLY_USED: Metric = Metric {
        name: "lineside_fabric_early_used_total",
        key: "early_used",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["channel"],
        help: "of them, those that were not verified again when their block was read",
    };
    /// those that were left to be verified with their block: no room, or too late
    pub const FABRIC_EARLY_SKIPPED: Metric = Metric {
        name: "lineside_fabric_early_skipped_total",
        key: "early_skipped",
        service: Some("fabric"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["channel"],
        help: "those that were left to be verified with their block: no room, or too late",
    };
    /// blocks in the ledger without genesis, all durable
    pub const HYBRID_HEIGHT: Metric = Metric {
        name: "lineside_hybrid_height",
        key: "height",
        service: Some("hybrid"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "blocks in the ledger without genesis, all durable",
    };
    /// requests answered since the start, by code
    pub const HYBRID_REQUESTS: Metric = Metric {
        name: "lineside_hybrid_requests_total",
        key: "requests",
        service: Some("hybrid"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["code"],
        help: "requests answered since the start, by code",
    };
    /// signatures verified since the start
    pub const HYBRID_VERIFIED: Metric = Metric {
        name: "lineside_hybrid_verified_total",
        key: "verified",
        service: Some("hybrid"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "signatures verified since the start",
    };
    /// batches of signatures verified since the start
    pub const HYBRID_BATCHES: Metric = Metric {
        name: "lineside_hybrid_batches_total",
        key: "batches",
        service: Some("hybrid"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
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
        help: "keys that have a value",
    };
    /// 1 where no writes are taken; /status says why
    pub const HYBRID_READ_ONLY: Metric = Metric {
        name: "lineside_hybrid_read_only",
        key: "read_only",
        service: Some("hybrid"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "1 where no writes are taken; /status says why",
    };
    /// datagrams that came by UDP; host_replies says how many the node has answered
    pub const HYBRID_DATAGRAMS: Metric = Metric {
        name: "lineside_hybrid_datagrams_total",
        key: "datagrams",
        service: Some("hybrid"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "datagrams that came by UDP; host_replies says how many the node has answered",
    };

    /// All, in the order of spec/.
    pub const ALL: [&Metric; 103] = [
        &INFO,
        &UPTIME,
        &PROBLEMS,
        &WARNINGS,
        &LEASE_LEFT,
        &FASTPATH_REPLIES,
        &HOST_REPLIES,
        &QUEUE_FULL,
        &CONNECTIONS,
        &CONNECTIONS_REFUSED,
        &UNSENT,
        &OVERSIZE,
        &AMPLIFICATION,
        &DROPS,
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
        &FABRIC_FOLLOWING,
        &FABRIC_SOURCES_LEFT,
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

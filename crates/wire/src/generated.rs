// Generated from spec/*.toml by `cargo run -p lineside-spec`. Do not edit.

use core::sync::atomic::{AtomicU32, AtomicU64};
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
    /// no connected block holds it
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
    /// nothing can be written now: the disk is full, or writing has ended after an error
    NoRoom = 9,
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
            _ => None,
        }
    }

    /// What it means.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Ok => "answered",
            Self::Unknown => "no connected block holds it",
            Self::BadRequest => "wrong length, unknown operation, or padding that is not zero",
            Self::Busy => "the host's queue is full: ask again later",
            Self::UnsupportedVersion => "the header's version is not known here",
            Self::NoSession => "no such session, or not its token",
            Self::Sequence => "not the session's next sequence; the reply says which",
            Self::Reused => "the session's last sequence with another body",
            Self::Unauthorised => "the sender may not do this, or has not signed it",
            Self::NoRoom => "nothing can be written now: the disk is full, or writing has ended after an error",
        }
    }
}

/// Why a near drops a packet.
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
}

impl DropReason {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::SourcePort,
        Self::SourceAddress,
        Self::ReplyBit,
        Self::NotARequest,
        Self::PaperRefused,
    ];

    /// The name in metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SourcePort => "source_port",
            Self::SourceAddress => "source_address",
            Self::ReplyBit => "reply_bit",
            Self::NotARequest => "not_a_request",
            Self::PaperRefused => "paper_refused",
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

/// Operation `root` of `spv`.
pub const SPV_OP_ROOT: u8 = 1;

/// Operation `roots` of `spv`.
pub const SPV_OP_ROOTS: u8 = 2;

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

/// One cache line of the cache: one TXID and the block that holds it.
#[repr(C)]
#[derive(Debug)]
pub struct SpvLine {
    /// odd while being written
    pub seq: AtomicU64,
    /// the whole TXID, wire byte order
    pub txid: [AtomicU64; 4],
    /// index into the block table
    pub block: AtomicU32,
    /// generation of that block when filled; 0: empty line
    pub generation: AtomicU32,
    /// zero
    pub reserved: [AtomicU64; 2],
}

const _: () = assert!(size_of::<SpvLine>() == 64);

/// One block whose transactions may be cached. All its lines end when its generation changes.
#[repr(C)]
#[derive(Debug)]
pub struct SpvBlock {
    /// odd while being written; a line is valid only with the same one
    pub generation: AtomicU32,
    /// height, or 0xffffffff
    pub height: AtomicU32,
    /// Merkle root, wire byte order
    pub root: [AtomicU64; 4],
    /// sum of the root's eight 32-bit words in memory order, for the checksum of a paper reply
    pub root_sum: AtomicU64,
    /// zero
    pub reserved: [AtomicU64; 2],
    /// block hash, wire byte order
    pub hash: [AtomicU64; 4],
    /// zero
    pub reserved_2: [AtomicU64; 4],
}

const _: () = assert!(size_of::<SpvBlock>() == 128);

/// What the whole cache stands on: lease, epoch, tip, hash key and geometry.
#[repr(C)]
#[derive(Debug)]
pub struct SpvControl {
    /// near answers only before this CLOCK_MONOTONIC time
    pub lease_until_ns: AtomicU64,
    /// odd while the chain changes: near forwards everything
    pub epoch: AtomicU64,
    /// key of the index hash: two words of NH, one odd multiplier
    pub key: [AtomicU64; 3],
    /// best block
    pub tip_hash: [AtomicU64; 4],
    /// height of the best block
    pub tip_height: AtomicU32,
    /// log2 of the number of sets
    pub set_bits: AtomicU32,
    /// 1, 2 or 4 lines a set
    pub ways: AtomicU32,
    /// number of block slots - 1
    pub block_mask: AtomicU32,
    /// 1: index by the TXID's low bits, as the paper does; 0: keyed hash
    pub paper_index: AtomicU32,
    /// 1: the paper's packets are answered; 0: dropped
    pub paper_format: AtomicU32,
    /// 1; another one is not adopted
    pub layout_version: AtomicU32,
    /// zero
    pub reserved: AtomicU32,
    /// state of the chain that filled the lines; only a daemon whose chain is in it keeps them
    pub chain_state: AtomicU64,
    /// zero
    pub reserved_2: [AtomicU64; 8],
}

const _: () = assert!(size_of::<SpvControl>() == 176);

/// Counters of the near part of `spv`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum SpvCounter {
    /// requests answered by near
    Hits = 0,
    /// requests forwarded because the TXID was not cached or was being written
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

/// Operations of one packet that near executes; more are the host's.
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
    /// no room for another account where it would have to lie
    StoreFull = 6,
    /// transaction id below the source's last one
    StaleId = 7,
    /// not executed: ask again
    Busy = 8,
    /// source or destination is frozen
    Frozen = 9,
    /// no such command, contract or flag, or a field that must be zero is not
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
            Self::StoreFull => "no room for another account where it would have to lie",
            Self::StaleId => "transaction id below the source's last one",
            Self::Busy => "not executed: ask again",
            Self::Frozen => "source or destination is frozen",
            Self::BadCommand => "no such command, contract or flag, or a field that must be zero is not",
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

/// One account. Its id and validity never change once set; the rest only under its lock.
#[repr(C)]
#[derive(Debug)]
pub struct TransferCell {
    /// 1 while it is being changed
    pub lock: AtomicU32,
    /// cell_valid, cell_frozen
    pub flags: AtomicU32,
    /// the account
    pub id: [AtomicU64; 2],
    /// what it holds
    pub balance: AtomicU64,
    /// set aside by pending transfers out of it: never above balance
    pub held_out: AtomicU64,
    /// pending for it: balance and this never overflow
    pub held_in: AtomicU64,
    /// how often it has changed
    pub version: AtomicU64,
    /// of a bucket's first cell: 1 while a cell of the bucket is being taken
    pub bucket_lock: AtomicU32,
    /// zero
    pub reserved: AtomicU32,
}

const _: () = assert!(size_of::<TransferCell>() == 64);

/// What the paper's format needs of an account besides: its last transaction id and reply. At the cell's index.
#[repr(C)]
#[derive(Debug)]
pub struct TransferPaper {
    /// last transaction id that counted; 0: none
    pub last_id: AtomicU32,
    /// of that request
    pub destination: AtomicU32,
    /// of that request
    pub amount: AtomicU32,
    /// of that request; the reply's code 16 bits higher
    pub command: AtomicU32,
    /// Amount of its reply
    pub reply_amount: AtomicU32,
    /// zero
    pub reserved: AtomicU32,
    /// zero
    pub reserved_2: AtomicU64,
}

const _: () = assert!(size_of::<TransferPaper>() == 32);

/// One session, with the reply to its last packet.
#[repr(C)]
#[derive(Debug)]
pub struct TransferSession {
    /// 1 while a packet of the session is executed
    pub lock: AtomicU32,
    /// operations of the last packet
    pub count: AtomicU32,
    /// 0: closed
    pub token: AtomicU64,
    /// of the last packet; 0: none yet
    pub sequence: AtomicU64,
    /// of the last packet's operations
    pub sum: AtomicU64,
    /// of the last packet's operations, 16 bits each, the first lowest
    pub codes: AtomicU64,
    /// of the last packet's replies
    pub amounts: [AtomicU64; 4],
    /// zero
    pub reserved: [AtomicU64; 7],
}

const _: () = assert!(size_of::<TransferSession>() == 128);

/// One effect, on its way from near to the journal.
#[repr(C)]
#[derive(Debug)]
pub struct TransferRecord {
    /// its place in the ring, plus 1; written last
    pub seal: AtomicU64,
    /// account
    pub source: [AtomicU64; 2],
    /// account
    pub destination: [AtomicU64; 2],
    /// asked for
    pub amount: AtomicU64,
    /// of the source after this; 0: not touched
    pub source_version: AtomicU64,
    /// of the destination after this; 0: not touched
    pub destination_version: AtomicU64,
    /// after this: the reply's amount
    pub source_balance: AtomicU64,
    /// session; 0xffffffff: paper format
    pub slot: AtomicU32,
    /// command; flags 8 bits higher, code 16 bits higher
    pub command: AtomicU32,
    /// contract code
    pub contract: AtomicU32,
    /// which operation of its packet; how many there are 16 bits higher
    pub place: AtomicU32,
    /// the session's, or the transaction id
    pub sequence: AtomicU64,
    /// of the packet's operations
    pub sum: AtomicU64,
    /// the client's
    pub timestamp: AtomicU64,
    /// the client's
    pub uuid: [AtomicU64; 2],
    /// the client's
    pub nonce: AtomicU32,
    /// zero
    pub timeout_s: AtomicU32,
    /// near's clock, CLOCK_MONOTONIC
    pub time_ns: AtomicU64,
}

const _: () = assert!(size_of::<TransferRecord>() == 144);

/// How far one CPU's ring has been written and read.
#[repr(C)]
#[derive(Debug)]
pub struct TransferRing {
    /// records written so far
    pub head: AtomicU64,
    /// zero
    pub reserved: [AtomicU64; 7],
    /// records that are in the journal
    pub tail: AtomicU64,
    /// zero
    pub reserved_2: [AtomicU64; 7],
}

const _: () = assert!(size_of::<TransferRing>() == 128);

/// What near stands on: lease, mode, hash key, sizes and policies.
#[repr(C)]
#[derive(Debug)]
pub struct TransferControl {
    /// near answers only before this CLOCK_MONOTONIC time
    pub lease_until_ns: AtomicU64,
    /// key of the index hash: two odd multipliers and a mask
    pub key: [AtomicU64; 3],
    /// the ledger whose accounts these are
    pub ledger: AtomicU64,
    /// 1 durable: near only refers; 2 express: near executes
    pub mode: AtomicU32,
    /// log2 of the number of buckets
    pub bucket_bits: AtomicU32,
    /// number of session slots
    pub sessions: AtomicU32,
    /// records of one ring, a power of two
    pub ring_records: AtomicU32,
    /// 1: the paper's packets are answered
    pub paper_format: AtomicU32,
    /// 1: unsigned writes are refused
    pub require_signature: AtomicU32,
    /// 1; another one is not adopted
    pub layout_version: AtomicU32,
    /// address ranges below
    pub issuers: AtomicU32,
    /// address ranges that may issue: IPv6, IPv4 mapped into it
    pub issuer: [AtomicU64; 16],
    /// the bits of each that count
    pub issuer_mask: [AtomicU64; 16],
    /// zero
    pub reserved: [AtomicU64; 7],
}

const _: () = assert!(size_of::<TransferControl>() == 384);

/// Counters of the near part of `transfer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum TransferCounter {
    /// requests answered by near
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

/// The metrics, each by its name.
pub mod metric {
    use crate::{Metric, MetricKind};

    /// 1; the version that runs, and the plane that each service runs on
    pub const INFO: Metric = Metric {
        name: "lineside_info",
        key: "info",
        service: None,
        kind: MetricKind::Gauge,
        unit: "",
        labels: &["version", "service", "plane"],
        help: "1; the version that runs, and the plane that each service runs on",
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
    /// how much longer near may answer without hearing from its host; 0: everything is forwarded
    pub const LEASE_LEFT: Metric = Metric {
        name: "lineside_lease_left_seconds",
        key: "lease_left",
        service: None,
        kind: MetricKind::Gauge,
        unit: "seconds",
        labels: &["service"],
        help: "how much longer near may answer without hearing from its host; 0: everything is forwarded",
    };
    /// requests answered by near
    pub const NEAR_REPLIES: Metric = Metric {
        name: "lineside_near_replies_total",
        key: "near_replies",
        service: None,
        kind: MetricKind::Counter,
        unit: "",
        labels: &["service", "plane"],
        help: "requests answered by near",
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
        labels: &["service", "plane", "reason"],
        help: "packets that nobody answers, by reason",
    };
    /// requests answered by near
    pub const SPV_HITS: Metric = Metric {
        name: "lineside_spv_hits_total",
        key: "hits",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["plane"],
        help: "requests answered by near",
    };
    /// requests forwarded because the TXID was not cached or was being written
    pub const SPV_MISSES: Metric = Metric {
        name: "lineside_spv_misses_total",
        key: "misses",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["plane"],
        help: "requests forwarded because the TXID was not cached or was being written",
    };
    /// requests forwarded because the lease had ended or the chain was changing
    pub const SPV_NOT_LEASED: Metric = Metric {
        name: "lineside_spv_not_leased_total",
        key: "not_leased",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["plane"],
        help: "requests forwarded because the lease had ended or the chain was changing",
    };
    /// native requests that only the host decides
    pub const SPV_FORWARDED_NATIVE: Metric = Metric {
        name: "lineside_spv_forwarded_native_total",
        key: "forwarded_native",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["plane"],
        help: "native requests that only the host decides",
    };
    /// lines that the host wrote into near
    pub const SPV_FILLS: Metric = Metric {
        name: "lineside_spv_fills_total",
        key: "fills",
        service: Some("spv"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &[],
        help: "lines that the host wrote into near",
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
    /// requests answered by near
    pub const TRANSFER_REPLIES: Metric = Metric {
        name: "lineside_transfer_replies_total",
        key: "replies",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["plane"],
        help: "requests answered by near",
    };
    /// requests left to the host
    pub const TRANSFER_FORWARDED: Metric = Metric {
        name: "lineside_transfer_forwarded_total",
        key: "forwarded",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["plane"],
        help: "requests left to the host",
    };
    /// requests forwarded because the lease had ended
    pub const TRANSFER_NOT_LEASED: Metric = Metric {
        name: "lineside_transfer_not_leased_total",
        key: "not_leased",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["plane"],
        help: "requests forwarded because the lease had ended",
    };
    /// requests of those answered whose code, or first code, is not 0
    pub const TRANSFER_REFUSALS: Metric = Metric {
        name: "lineside_transfer_refusals_total",
        key: "refusals",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["plane"],
        help: "requests of those answered whose code, or first code, is not 0",
    };
    /// stored replies given again
    pub const TRANSFER_REPEATS: Metric = Metric {
        name: "lineside_transfer_repeats_total",
        key: "repeats",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["plane"],
        help: "stored replies given again",
    };
    /// requests answered busy: a lock was held, or the ring was full
    pub const TRANSFER_BUSY: Metric = Metric {
        name: "lineside_transfer_busy_total",
        key: "busy",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["plane"],
        help: "requests answered busy: a lock was held, or the ring was full",
    };
    /// requests of those answered busy because the ring was full
    pub const TRANSFER_RING_FULL: Metric = Metric {
        name: "lineside_transfer_ring_full_total",
        key: "ring_full",
        service: Some("transfer"),
        kind: MetricKind::Counter,
        unit: "",
        labels: &["plane"],
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
    /// operations that near has executed and the journal has not yet
    pub const TRANSFER_UNJOURNALED_OPS: Metric = Metric {
        name: "lineside_transfer_unjournaled_ops",
        key: "unjournaled_ops",
        service: Some("transfer"),
        kind: MetricKind::Gauge,
        unit: "",
        labels: &[],
        help: "operations that near has executed and the journal has not yet",
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

    /// All, in the order of spec/.
    pub const ALL: [&Metric; 38] = [
        &INFO,
        &UPTIME,
        &PROBLEMS,
        &WARNINGS,
        &LEASE_LEFT,
        &NEAR_REPLIES,
        &HOST_REPLIES,
        &QUEUE_FULL,
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
        &SPV_TIP_HEIGHT,
        &SPV_BLOCKS,
        &SPV_TRANSACTIONS,
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
    ];
}

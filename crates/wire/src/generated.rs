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
}

impl Status {
    /// The status of a code, if it is one.
    pub const fn from_code(code: u16) -> Option<Self> {
        match code {
            0 => Some(Self::Ok),
            1 => Some(Self::Unknown),
            2 => Some(Self::BadRequest),
            3 => Some(Self::Busy),
            4 => Some(Self::UnsupportedVersion),
            _ => None,
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

/// Bytes of the paper's request.
pub const SPV_PAPER_REQUEST_BYTES: usize = 32;

/// Bytes of the paper's reply.
pub const SPV_PAPER_REPLY_BYTES: usize = 32;

/// Height of a block without known parents.
pub const SPV_HEIGHT_UNKNOWN: u32 = 0xffffffff;

/// Items that one `roots` packet may hold.
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

    /// All, in the order of spec/.
    pub const ALL: [&Metric; 22] = [
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
    ];
}

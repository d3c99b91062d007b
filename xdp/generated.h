/* Generated from spec/ by `cargo run -p lineside-spec`. Do not edit. */
#pragma once

#define LS_NATIVE_MAGIC 0x4c53
#define LS_NATIVE_VERSION 1
#define LS_NATIVE_REPLY_BIT 0x80
#define LS_SPV_PORT 7701
#define LS_SPV_SLOT 1
#define LS_TRANSFER_PORT 7702
#define LS_TRANSFER_SLOT 2
#define LS_COLUMN_PORT 7703
#define LS_COLUMN_SLOT 3
#define LS_FABRIC_PORT 7704
#define LS_FABRIC_SLOT 4
#define LS_HYBRID_PORT 7705
#define LS_HYBRID_SLOT 5
#define LS_FIRST_PORT 7701
#define LS_LAST_PORT 7705

#define LS_FOR_EACH_SLOT(X) X(LS_SPV_SLOT) X(LS_TRANSFER_SLOT) X(LS_COLUMN_SLOT) X(LS_FABRIC_SLOT) X(LS_HYBRID_SLOT)

enum ls_status {
	LS_STATUS_OK = 0,
	LS_STATUS_UNKNOWN = 1,
	LS_STATUS_BAD_REQUEST = 2,
	LS_STATUS_BUSY = 3,
	LS_STATUS_UNSUPPORTED_VERSION = 4,
};

enum ls_drop {
	LS_DROP_SOURCE_PORT = 0,
	LS_DROP_SOURCE_ADDRESS = 1,
	LS_DROP_REPLY_BIT = 2,
	LS_DROP_NOT_A_REQUEST = 3,
	LS_DROP_PAPER_REFUSED = 4,
};

#define LS_DROPS 5

/* Header of every native packet. */
struct ls_native_header {
	__be16 magic; /* 0x4c53, "LS" */
	__u8 version; /* 1 */
	__u8 op; /* operation; bit 7 is set in replies */
	__be16 status; /* request: 0; reply: status code */
	__be16 length; /* bytes that follow this header */
	__be64 request_id; /* chosen by the client, echoed */
};
_Static_assert(sizeof(struct ls_native_header) == 16, "native_header");

#define LS_SPV_PAPER_REQUEST_BYTES 32
#define LS_SPV_PAPER_REPLY_BYTES 32
#define LS_SPV_ROOTS_MAX 16
#define LS_SPV_OP_ROOT 1
#define LS_SPV_OP_ROOTS 2

/* Where one transaction is, and the tip this was true at. */
struct ls_root_reply {
	__u64 root[4]; /* Merkle root of the block (the request has the TXID here) */
	__u64 block_hash[4]; /* hash of the block's header, wire byte order */
	__u64 tip_hash[4]; /* hash of the best block when this was answered */
	__be32 height; /* height of the block; 0xffffffff: not known */
	__be32 tip_height; /* height of the best block */
};
_Static_assert(sizeof(struct ls_root_reply) == 104, "root_reply");

/* Begins the body of `roots`; the tip that all items were true at. */
struct ls_roots_head {
	__u64 tip_hash[4]; /* request: zeros; reply: hash of the best block when this was answered */
	__be32 tip_height; /* request: 0; reply: height of the best block */
	__be32 count; /* items that follow: 1 to 16 */
};
_Static_assert(sizeof(struct ls_roots_head) == 40, "roots_head");

/* Where one transaction of `roots` is. Of an unknown one only the status is not zero. */
struct ls_root_item {
	__u64 root[4]; /* Merkle root of the block (the request has the TXID here) */
	__u64 block_hash[4]; /* hash of the block's header, wire byte order */
	__be32 height; /* height of the block; 0xffffffff: not known */
	__be32 status; /* 0 ok, 1 unknown */
};
_Static_assert(sizeof(struct ls_root_item) == 72, "root_item");

/* One cache line of the cache: one TXID and the block that holds it. */
struct ls_spv_line {
	__u64 seq; /* odd while being written */
	__u64 txid[4]; /* the whole TXID, wire byte order */
	__u32 block; /* index into the block table */
	__u32 generation; /* generation of that block when filled; 0: empty line */
	__u64 reserved[2]; /* zero */
};
_Static_assert(sizeof(struct ls_spv_line) == 64, "spv_line");

/* One block whose transactions may be cached. All its lines end when its generation changes. */
struct ls_spv_block {
	__u32 generation; /* odd while being written; a line is valid only with the same one */
	__u32 height; /* height, or 0xffffffff */
	__u64 root[4]; /* Merkle root, wire byte order */
	__u64 root_sum; /* sum of the root's eight 32-bit words in memory order, for the checksum of a paper reply */
	__u64 reserved[2]; /* zero */
	__u64 hash[4]; /* block hash, wire byte order */
	__u64 reserved_2[4]; /* zero */
};
_Static_assert(sizeof(struct ls_spv_block) == 128, "spv_block");

/* What the whole cache stands on: lease, epoch, tip, hash key and geometry. */
struct ls_spv_control {
	__u64 lease_until_ns; /* near answers only before this CLOCK_MONOTONIC time */
	__u64 epoch; /* odd while the chain changes: near forwards everything */
	__u64 key[3]; /* key of the index hash: two words of NH, one odd multiplier */
	__u64 tip_hash[4]; /* best block */
	__u32 tip_height; /* height of the best block */
	__u32 set_bits; /* log2 of the number of sets */
	__u32 ways; /* 1, 2 or 4 lines a set */
	__u32 block_mask; /* number of block slots - 1 */
	__u32 paper_index; /* 1: index by the TXID's low bits, as the paper does; 0: keyed hash */
	__u32 paper_format; /* 1: the paper's packets are answered; 0: dropped */
	__u32 layout_version; /* 1; another one is not adopted */
	__u32 reserved; /* zero */
	__u64 chain_state; /* state of the chain that filled the lines; only a daemon whose chain is in it keeps them */
	__u64 reserved_2[8]; /* zero */
};
_Static_assert(sizeof(struct ls_spv_control) == 176, "spv_control");

enum ls_spv_counter {
	LS_SPV_COUNTER_HITS = 0,
	LS_SPV_COUNTER_MISSES = 1,
	LS_SPV_COUNTER_NOT_LEASED = 2,
	LS_SPV_COUNTER_FORWARDED_NATIVE = 3,
};

#define LS_SPV_COUNTERS 4


// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only
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
#define LS_ODOMETER_PORT 7707
#define LS_ODOMETER_SLOT 4
#define LS_IS_SERVICE_PORT(X) (((X) >= 7701 && (X) <= 7705))

#define LS_FOR_EACH_SLOT(X) X(LS_SPV_SLOT) X(LS_TRANSFER_SLOT) X(LS_COLUMN_SLOT) X(LS_FABRIC_SLOT) X(LS_HYBRID_SLOT)

enum ls_status {
	LS_STATUS_OK = 0,
	LS_STATUS_UNKNOWN = 1,
	LS_STATUS_BAD_REQUEST = 2,
	LS_STATUS_BUSY = 3,
	LS_STATUS_UNSUPPORTED_VERSION = 4,
	LS_STATUS_NO_SESSION = 5,
	LS_STATUS_SEQUENCE = 6,
	LS_STATUS_REUSED = 7,
	LS_STATUS_UNAUTHORISED = 8,
	LS_STATUS_NO_ROOM = 9,
	LS_STATUS_OUTCOME_UNKNOWN = 10,
	LS_STATUS_UNKNOWN_FAMILY = 11,
	LS_STATUS_START_BEHIND_STOP = 12,
	LS_STATUS_NOT_A_NUMBER = 13,
	LS_STATUS_TOO_LONG = 14,
	LS_STATUS_NOT_KEPT = 15,
	LS_STATUS_NO_COMMITMENT = 16,
};

enum ls_drop {
	LS_DROP_SOURCE_PORT = 0,
	LS_DROP_SOURCE_ADDRESS = 1,
	LS_DROP_REPLY_BIT = 2,
	LS_DROP_NOT_A_REQUEST = 3,
	LS_DROP_PAPER_REFUSED = 4,
	LS_DROP_HOP_LIMIT = 5,
};

#define LS_DROPS 6

/* Header of every native packet. */
struct ls_native_header {
	__be16 magic; /* magic number 0x4c53 ("LS") */
	__u8 version; /* version of the format, 1 */
	__u8 op; /* operation; bit 7 is set in replies */
	__be16 status; /* 0 in a request; status code in a reply */
	__be16 length; /* number of bytes after this header */
	__be64 request_id; /* chosen by the client and returned in the reply */
};
_Static_assert(sizeof(struct ls_native_header) == 16, "native_header");

#define LS_SPV_PAPER_REQUEST_BYTES 32
#define LS_SPV_PAPER_REPLY_BYTES 32
#define LS_SPV_HEIGHT_UNKNOWN 0xffffffff
#define LS_SPV_ROOTS_MAX 16
#define LS_SPV_PROOF_DEPTH_MAX 14
#define LS_SPV_HEADERS_MAX 14
#define LS_SPV_WITNESS_ROOM_MAX 1236
#define LS_SPV_HEADER_BYTES 80
#define LS_SPV_TREE_HEAD_NODES 3
#define LS_SPV_OP_ROOT 1
#define LS_SPV_OP_ROOTS 2
#define LS_SPV_OP_PROOF 3
#define LS_SPV_OP_HEADERS 4
#define LS_SPV_OP_WITNESS_PROOF 5
#define LS_SPV_OP_WTXID_PROOF 6

/* Position of one transaction, and the tip at which it was valid. */
struct ls_root_reply {
	__u64 root[4]; /* Merkle root of the block (the request has the TXID here) */
	__u64 block_hash[4]; /* hash of the block's header, wire byte order */
	__u64 tip_hash[4]; /* hash of the best block at the time of the reply */
	__be32 height; /* height of the block; 0xffffffff: unknown */
	__be32 tip_height; /* height of the best block at the time of the reply */
};
_Static_assert(sizeof(struct ls_root_reply) == 104, "root_reply");

/* Header of the body of `roots`, with the tip at which all items were valid. */
struct ls_roots_head {
	__u64 tip_hash[4]; /* request: zeros; reply: hash of the best block at the time of the reply */
	__be32 tip_height; /* request: 0; reply: height of the best block */
	__be32 count; /* number of items that follow: 1 to 16 */
};
_Static_assert(sizeof(struct ls_roots_head) == 40, "roots_head");

/* Position of one transaction in `roots`. If the TXID is unknown, all fields but the status are zero. */
struct ls_root_item {
	__u64 root[4]; /* Merkle root of the block (the request has the TXID here) */
	__u64 block_hash[4]; /* hash of the block's header, wire byte order */
	__be32 height; /* height of the block; 0xffffffff: unknown */
	__be32 status; /* 0 ok, 1 unknown */
};
_Static_assert(sizeof(struct ls_root_item) == 72, "root_item");

/* Header of a proof. Unknown TXID: only the tip is set. Too long: only transactions and depth. */
struct ls_proof_reply {
	__u64 header[10]; /* the block's header, wire byte order (the request has the TXID here) */
	__be32 height; /* height of the block; 0xffffffff: unknown */
	__be32 transactions; /* number of transactions in the block */
	__be32 index; /* position of the transaction in the block, from 0 */
	__be32 depth; /* number of hashes that follow */
	__u64 tip_hash[4]; /* hash of the best block at the time of the reply */
	__be32 tip_height; /* height of the best block at the time of the reply */
	__be32 reserved; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_proof_reply) == 136, "proof_reply");

/* Header of a witness proof. Unknown: only the tip. Too long: transactions, depth, coinbase_bytes. */
struct ls_witness_reply {
	__u64 header[10]; /* the block's header, wire byte order (the request has the TXID here) */
	__be32 height; /* height of the block; 0xffffffff: unknown */
	__be32 transactions; /* number of transactions in the block */
	__be32 index; /* position of the transaction in the block, from 0 */
	__be32 depth; /* number of hashes in each of the two paths that follow */
	__u64 tip_hash[4]; /* hash of the best block at the time of the reply */
	__be32 tip_height; /* height of the best block at the time of the reply */
	__be32 coinbase_bytes; /* bytes of the coinbase without its witness; too long: 64 * depth more bytes are needed */
	__u64 wtxid[4]; /* WTXID of the transaction, wire byte order; zeros for a coinbase */
	__u64 witness_reserved[4]; /* the witness reserved value: the only item in the witness of the coinbase (BIP141) */
};
_Static_assert(sizeof(struct ls_witness_reply) == 200, "witness_reply");

/* Header of a reply to `headers`, which has fewer headers than requested if the chain ends. */
struct ls_headers_head {
	__u64 tip_hash[4]; /* hash of the best block at the time of the reply */
	__be32 tip_height; /* height of the best block at the time of the reply */
	__be32 start; /* height of the first header, as requested */
	__be32 count; /* number of headers that follow */
	__be32 reserved; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_headers_head) == 48, "headers_head");

/* Cache line: one TXID and the block that contains it. */
struct ls_spv_line {
	__u64 seq; /* sequence number; odd while the host writes the entry */
	__u64 txid[4]; /* the whole TXID, wire byte order */
	__u32 block; /* index into the block table */
	__u32 generation; /* generation of the block when the line was filled; 0: the line is empty */
	__u32 index; /* position of the transaction in the block */
	__u32 reserved; /* reserved: zero */
	__u64 reserved_2; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_spv_line) == 64, "spv_line");

/* Block whose transactions may be cached. All its lines become invalid when its generation changes. */
struct ls_spv_block {
	__u32 generation; /* odd while the host writes the entry; a line is valid only if it names the same generation */
	__u32 height; /* height of the block; 0xffffffff: unknown */
	__u64 root[4]; /* Merkle root, wire byte order */
	__u64 root_sum; /* sum of the root's eight 32-bit words in memory order, for the checksum of a paper reply */
	__u64 tree; /* index of the tree's first node, with the tree's stamp in the upper half; 0: no tree */
	__u32 transactions; /* number of transactions in the block; set only if the block has a tree */
	__u32 depth; /* number of hashes in a path of the tree; set only if the block has a tree */
	__u64 hash[4]; /* block hash, wire byte order */
	__u64 reserved_2[4]; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_spv_block) == 128, "spv_block");

/* Node of a Merkle tree, or 32 bytes of the header before the tree. */
struct ls_spv_node {
	__u64 hash[4]; /* hash of the node, wire byte order */
};
_Static_assert(sizeof(struct ls_spv_node) == 32, "spv_node");

/* State of the whole cache: lease, epoch, tip, hash key and geometry. */
struct ls_spv_control {
	__u64 lease_until_ns; /* end of the lease: the fast path answers only before this CLOCK_MONOTONIC time */
	__u64 epoch; /* epoch; odd while the chain changes, and then the fast path forwards everything */
	__u64 key[3]; /* key of the index hash: two words of NH, one odd multiplier */
	__u64 tip_hash[4]; /* hash of the best block */
	__u32 tip_height; /* height of the best block at the time of the reply */
	__u32 set_bits; /* log2 of the number of sets */
	__u32 ways; /* number of lines in a set: 1, 2 or 4 */
	__u32 block_mask; /* number of block slots minus 1 */
	__u32 paper_index; /* 1: the low bits of a TXID choose its set, as in the paper; 0: a keyed hash chooses it */
	__u32 paper_format; /* 1: the paper's packets are answered; 0: dropped */
	__u32 layout_version; /* version of the layout, 3; a server does not take over a cache of another version */
	__u32 tree_nodes; /* number of tree nodes; 0: there are no trees, and only the host answers proofs */
	__u64 chain_state; /* id of the chain state that filled the lines; kept only if the server has this state */
	__u64 reserved_2[8]; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_spv_control) == 176, "spv_control");

enum ls_spv_counter {
	LS_SPV_COUNTER_HITS = 0,
	LS_SPV_COUNTER_MISSES = 1,
	LS_SPV_COUNTER_NOT_LEASED = 2,
	LS_SPV_COUNTER_FORWARDED_NATIVE = 3,
};

#define LS_SPV_COUNTERS 4

#define LS_TRANSFER_PAPER_BYTES_MIN 20
#define LS_TRANSFER_PAPER_BYTES_MAX 22
#define LS_TRANSFER_PAPER_REFUSED 0x80000000
#define LS_TRANSFER_COMMAND_CREATE 1
#define LS_TRANSFER_COMMAND_ISSUE 2
#define LS_TRANSFER_COMMAND_TRANSFER 3
#define LS_TRANSFER_COMMAND_REFER 4
#define LS_TRANSFER_COMMAND_FREEZE 5
#define LS_TRANSFER_COMMAND_UNFREEZE 6
#define LS_TRANSFER_CONTRACT_PLAIN 0
#define LS_TRANSFER_CONTRACT_PENDING 1
#define LS_TRANSFER_CONTRACT_POST 2
#define LS_TRANSFER_CONTRACT_VOID 3
#define LS_TRANSFER_FLAG_LINKED 1
#define LS_TRANSFER_FLAG_KEYED 2
#define LS_TRANSFER_CURVE_P256 1
#define LS_TRANSFER_CURVE_SECP256K1 2
#define LS_TRANSFER_LINE_OPERATIONS_MAX 4
#define LS_TRANSFER_OPERATIONS_MAX 744
#define LS_TRANSFER_REFER_MAX 29
#define LS_TRANSFER_DURABLE 1
#define LS_TRANSFER_EXPRESS 2
#define LS_TRANSFER_BUCKET_CELLS 4
#define LS_TRANSFER_CELL_VALID 1
#define LS_TRANSFER_CELL_FROZEN 2
#define LS_TRANSFER_CELL_CLAIMED 4
#define LS_TRANSFER_ISSUERS_MAX 8
#define LS_TRANSFER_OP_EXECUTE 1
#define LS_TRANSFER_OP_REFER 2
#define LS_TRANSFER_OP_OPEN 3
#define LS_TRANSFER_OP_CLOSE 4
#define LS_TRANSFER_OP_SESSION 5
#define LS_TRANSFER_OP_SIGNED 6

enum ls_transfer_code {
	LS_TRANSFER_CODE_DONE = 0,
	LS_TRANSFER_CODE_UNKNOWN_ACCOUNT = 1,
	LS_TRANSFER_CODE_ACCOUNT_EXISTS = 2,
	LS_TRANSFER_CODE_INSUFFICIENT_FUNDS = 3,
	LS_TRANSFER_CODE_OVERFLOW = 4,
	LS_TRANSFER_CODE_SAME_ACCOUNT = 5,
	LS_TRANSFER_CODE_STORE_FULL = 6,
	LS_TRANSFER_CODE_STALE_ID = 7,
	LS_TRANSFER_CODE_BUSY = 8,
	LS_TRANSFER_CODE_FROZEN = 9,
	LS_TRANSFER_CODE_BAD_COMMAND = 10,
	LS_TRANSFER_CODE_ID_REUSED = 11,
	LS_TRANSFER_CODE_UNAUTHORISED = 12,
	LS_TRANSFER_CODE_LINKED_FAILED = 13,
	LS_TRANSFER_CODE_UNKNOWN_PENDING = 14,
	LS_TRANSFER_CODE_PENDING_EXISTS = 15,
};

/* Packet in the paper's format (Table II of the paper). */
struct ls_paper_transfer {
	__be32 command; /* 1 CREATE, 2 ISSUE, 3 TRANSFER, 4 REFER; bit 31: refused */
	__be32 transaction_id; /* above the last id of the source account; 0: the request is sent once and never repeated */
	__be32 source; /* Source ID */
	__be32 destination; /* Destination ID; used only by TRANSFER */
	__be32 amount; /* request: amount; reply: balance of Source after the operation, or the code */
};
_Static_assert(sizeof(struct ls_paper_transfer) == 20, "paper_transfer");

/* Header of the body of `execute`: session and sequence number of the packet. */
struct ls_execute_head {
	__be64 token; /* secret token of the session, which authenticates its packets */
	__be64 sequence; /* last sequence number of the session plus 1; in the refusal of another number: the expected one */
	__be32 slot; /* slot number of the session */
	__be16 count; /* number of operations that follow */
	__be16 durability; /* request: 0; reply: 1 durable, 2 express */
};
_Static_assert(sizeof(struct ls_execute_head) == 24, "execute_head");

/* Header of `signed`: ECDSA over the SHA-256 of `lineside/transfer/1` and all bytes after it. */
struct ls_signed_head {
	__u8 curve; /* 1: P-256, 2: secp256k1 */
	__u8 key_prefix; /* 2 if the y coordinate of the public key is even, 3 if it is odd */
	__be16 reserved; /* reserved: zero */
	__be32 reserved_2; /* reserved: zero */
	__u64 key_x[4]; /* x coordinate of the public key, big-endian */
	__u64 r[4]; /* r of the signature, big-endian */
	__u64 s[4]; /* s of the signature, big-endian, at most half the curve's order */
};
_Static_assert(sizeof(struct ls_signed_head) == 104, "signed_head");

/* Operation in a request, with its outcome in the reply. */
struct ls_operation {
	__u8 command; /* 1 CREATE, 2 ISSUE, 3 TRANSFER, 5 FREEZE, 6 UNFREEZE */
	__u8 flags; /* 1: the operation is linked with the next one; 2: `uuid` is its idempotency key; 3: both */
	__be16 code; /* request: 0; reply: code of the outcome */
	__be32 contract; /* 0 plain, 1 pending, 2 post, 3 void */
	__u8 source[16]; /* account that pays, is created, gets an amount (ISSUE), or is frozen or unfrozen */
	__u8 destination[16]; /* TRANSFER: account that is paid; CREATE: fingerprint of the owner's key, or 0; else 0 */
	__be64 amount; /* request: amount; in a post, 0 means all; reply: balance of the source after the operation */
	__be64 number; /* request: 0; reply: number of the operation in the ledger, or 0; of a repetition: of the first one */
	__be64 timestamp; /* time of the client's clock, which the server stores and does not use */
	__u8 uuid[16]; /* id that the client chooses: names a pending transfer; with flag 2, the idempotency key */
	__be32 nonce; /* value chosen by the client, which the server stores and does not use */
	__be32 timeout_s; /* pending transfer: seconds until it expires, 0: never; other operations: 0 */
};
_Static_assert(sizeof(struct ls_operation) == 88, "operation");

/* Header of the body of `refer`. */
struct ls_refer_head {
	__be32 count; /* number of accounts that follow: 1 to 29 */
	__be16 durability; /* request: 0; reply: 1 durable, 2 express */
	__be16 reserved; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_refer_head) == 8, "refer_head");

/* Balance of one account. */
struct ls_balance_item {
	__u8 account[16]; /* id of the account */
	__be64 balance; /* request: 0; reply: balance, including amounts reserved by pending transfers */
	__be64 held; /* amounts reserved by pending transfers */
	__be64 version; /* number of changes of the account */
	__be16 code; /* 0 done, 1 unknown account */
	__be16 frozen; /* 1: frozen */
	__be32 reserved; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_balance_item) == 48, "balance_item");

/* Session that a client opens, closes or queries: body of the request and of the reply. */
struct ls_session_body {
	__u8 challenge[16]; /* proof that the client receives packets at its address */
	__be64 token; /* secret token of the session, which authenticates its packets */
	__be64 sequence; /* next sequence number */
	__be32 slot; /* slot number of the session */
	__be32 lease_s; /* reply to a challenge: seconds for which it is valid */
};
_Static_assert(sizeof(struct ls_session_body) == 40, "session_body");

/* Account. Its id and validity never change once set; the other fields change only under its lock. */
struct ls_transfer_cell {
	__u32 lock; /* lock: 1 while a program changes the account */
	__u32 flags; /* cell_valid, cell_frozen, cell_claimed */
	__u64 id[2]; /* id of the account */
	__u64 balance; /* balance */
	__u64 held_out; /* amount reserved by pending transfers from the account; never above the balance */
	__u64 held_in; /* sum of pending transfers to the account; this sum plus the balance never overflows */
	__u64 version; /* number of changes of the account */
	__u32 bucket_lock; /* in a bucket's first cell: 1 while a cell of the bucket is being allocated */
	__u32 reserved; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_transfer_cell) == 64, "transfer_cell");

/* Data of an account in the paper's format: last transaction id and reply. Same index as the cell. */
struct ls_transfer_paper {
	__u32 last_id; /* last accepted transaction id of the account; 0: none */
	__u32 destination; /* Destination of the request with that id */
	__u32 amount; /* Amount of the request with that id */
	__u32 command; /* Command of that request in the lower 16 bits, result code of its reply in the upper 16 */
	__u32 reply_amount; /* Amount of the reply to that request */
	__u32 reserved; /* reserved: zero */
	__u64 reserved_2; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_transfer_paper) == 32, "transfer_paper");

/* One session, with the reply to its last packet. */
struct ls_transfer_session {
	__u32 lock; /* 1 while a packet of the session is being executed */
	__u32 count; /* number of operations in the last packet */
	__u64 token; /* secret token of the session; 0: the session is closed */
	__u64 sequence; /* sequence number of the last packet; 0: none yet */
	__u64 sum; /* checksum of the last packet's operations */
	__u64 codes; /* result codes of the last packet's operations, 16 bits each; the first one in the lowest bits */
	__u64 amounts[4]; /* Amounts of the last packet's replies */
	__u64 claimed; /* 1 while the host executes packets of the session or withholds replies; the fast path then forwards */
	__u64 reserved[6]; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_transfer_session) == 128, "transfer_session");

/* Effect of a request, on its way from the fast path to the journal. */
struct ls_transfer_record {
	__u64 seal; /* index of the record in the ring plus 1; it is written last, when the record is complete */
	__u64 source[2]; /* account that pays */
	__u64 destination[2]; /* account that is paid */
	__u64 amount; /* requested amount */
	__u64 source_version; /* version of the source after the operation; 0: not changed */
	__u64 destination_version; /* version of the destination after the operation; 0: not changed */
	__u64 source_balance; /* balance of the source after the operation, which is the amount in the reply */
	__u32 slot; /* slot of the session; 0xffffffff: paper format */
	__u32 command; /* command in bits 0 to 7, flags in bits 8 to 15, result code in bits 16 to 31 */
	__u32 contract; /* contract code */
	__u32 place; /* index of the operation in its packet; number of operations of the packet in the upper 16 bits */
	__u64 sequence; /* sequence number of the session; in the paper's format, the transaction id */
	__u64 sum; /* checksum of the packet's operations */
	__u64 timestamp; /* value from the client */
	__u64 uuid[2]; /* value from the client */
	__u32 nonce; /* value from the client */
	__u32 timeout_s; /* reserved: zero */
	__u64 time_ns; /* CLOCK_MONOTONIC time at which the fast path executed the operation */
};
_Static_assert(sizeof(struct ls_transfer_record) == 144, "transfer_record");

/* Positions to which one CPU's ring was written and read. */
struct ls_transfer_ring {
	__u64 head; /* number of records written */
	__u64 reserved[7]; /* reserved: zero */
	__u64 tail; /* number of records that are in the journal */
	__u64 reserved_2[7]; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_transfer_ring) == 128, "transfer_ring");

/* State of the fast path: lease, mode, hash key, sizes and policies. */
struct ls_transfer_control {
	__u64 lease_until_ns; /* end of the lease: the fast path answers only before this CLOCK_MONOTONIC time */
	__u64 key[3]; /* key of the index hash: two odd multipliers and a mask */
	__u64 ledger; /* id of the ledger with these accounts */
	__u32 mode; /* 1 durable: the fast path only reads; 2 express: the fast path executes */
	__u32 bucket_bits; /* log2 of the number of buckets */
	__u32 sessions; /* number of session slots */
	__u32 ring_records; /* number of records in a ring, a power of two */
	__u32 paper_format; /* 1: packets in the paper's format are answered */
	__u32 require_signature; /* 1: unsigned writes are refused */
	__u32 layout_version; /* version of the layout, 1; a server does not take over a store of another version */
	__u32 issuers; /* number of address ranges below */
	__u64 issuer[16]; /* address ranges that may issue: IPv6, or IPv4 mapped into it */
	__u64 issuer_mask[16]; /* bits of each address that are compared */
	__u64 paper_refusals; /* number of refusals in the paper's format that may still be recorded; signed */
	__u64 reserved[6]; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_transfer_control) == 384, "transfer_control");

enum ls_transfer_counter {
	LS_TRANSFER_COUNTER_REPLIES = 0,
	LS_TRANSFER_COUNTER_FORWARDED = 1,
	LS_TRANSFER_COUNTER_NOT_LEASED = 2,
	LS_TRANSFER_COUNTER_REFUSALS = 3,
	LS_TRANSFER_COUNTER_REPEATS = 4,
	LS_TRANSFER_COUNTER_BUSY = 5,
	LS_TRANSFER_COUNTER_RING_FULL = 6,
};

#define LS_TRANSFER_COUNTERS 7

#define LS_COLUMN_PAPER_KEY_BYTES 4
#define LS_COLUMN_PAPER_NAME_BYTES 9
#define LS_COLUMN_PAPER_VALUE_BYTES 18
#define LS_COLUMN_PAPER_GET_BYTES 16
#define LS_COLUMN_PAPER_SCAN_BYTES 20
#define LS_COLUMN_PAPER_GET_REPLY_BYTES 19
#define LS_COLUMN_PAPER_ROW_BYTES 22
#define LS_COLUMN_PAPER_FOUND 0
#define LS_COLUMN_PAPER_NO_ROW 1
#define LS_COLUMN_PAPER_MORE 2
#define LS_COLUMN_KEY_BYTES_MAX 64
#define LS_COLUMN_VALUE_BYTES_MAX 1024
#define LS_COLUMN_NAME_BYTES_MAX 32
#define LS_COLUMN_FLAG_REVERSE 1
#define LS_COLUMN_FLAG_STOP_INCLUSIVE 2
#define LS_COLUMN_FLAG_START_EXCLUSIVE 4
#define LS_COLUMN_FLAG_ABSENT 8
#define LS_COLUMN_SOURCE_FASTPATH 1
#define LS_COLUMN_SOURCE_HOST 2
#define LS_COLUMN_REPLY_MAY_BE_STALE 1
#define LS_COLUMN_REPLY_MORE 2
#define LS_COLUMN_REPLY_NOT_APPLIED 4
#define LS_COLUMN_REPLY_LEFT_OUT 8
#define LS_COLUMN_ROW_LEFT_OUT 0x80
#define LS_COLUMN_ROW_CUT_KEY 0x40
#define LS_COLUMN_NOTICE_MAGIC 0x4c53434e
#define LS_COLUMN_NOTICE_PORT 7706
#define LS_COLUMN_NOTIFY_PORT 7707
#define LS_COLUMN_NOTICE_BYTES_MAX 1400
#define LS_COLUMN_NOTICE_TAG_BYTES 16
#define LS_COLUMN_NOTICE_KEY_BYTES_MIN 32
#define LS_COLUMN_NOTICE_PRE 1
#define LS_COLUMN_NOTICE_POST 2
#define LS_COLUMN_NOTICE_ASK 3
#define LS_COLUMN_NOTICE_GRANT 4
#define LS_COLUMN_NOTICE_ACK 5
#define LS_COLUMN_NOTICE_RANGE 1
#define LS_COLUMN_NOTICE_OPENED 2
#define LS_COLUMN_BLOCK_ROWS_MAX 8
#define LS_COLUMN_PAGE_BLOCKS 64
#define LS_COLUMN_PAGES_MAX 4096
#define LS_COLUMN_SERVERS_MAX 64
#define LS_COLUMN_RANGES_MAX 8
#define LS_COLUMN_BLOCK_INVALID 1
#define LS_COLUMN_BLOCK_CONTINUES 2
#define LS_COLUMN_NO_HEAD 0x8000000000000000
#define LS_COLUMN_NO_ROW_HEAD 0x7fffffffffffffff
#define LS_COLUMN_NO_END 0xff
#define LS_COLUMN_OP_GET 1
#define LS_COLUMN_OP_SCAN 2
#define LS_COLUMN_OP_PUT 3
#define LS_COLUMN_OP_DELETE 4
#define LS_COLUMN_OP_INCREMENT 5
#define LS_COLUMN_OP_CHECK_AND_PUT 6
#define LS_COLUMN_OP_APPEND 7
#define LS_COLUMN_OP_OPEN 8
#define LS_COLUMN_OP_SWITCH 9

enum ls_column_code {
	LS_COLUMN_CODE_DONE = 0,
	LS_COLUMN_CODE_EMPTY_VALUE = 1,
	LS_COLUMN_CODE_UNAUTHORISED = 2,
	LS_COLUMN_CODE_UNKNOWN_COLUMN = 3,
	LS_COLUMN_CODE_NO_TABLE = 4,
	LS_COLUMN_CODE_BAD_REQUEST = 5,
};

/* Header of every request except `open`; each part after it is zero-padded to 8 bytes. */
struct ls_column_head {
	__u8 flags; /* 1 reverse, 2 stop_inclusive, 4 start_exclusive, 8 absent */
	__u8 start_bytes; /* bytes of the key, or of the start key (0: from the first row) */
	__u8 stop_bytes; /* `scan`: bytes of the stop key (0: to the last row); other requests: 0 */
	__u8 columns; /* number of names that follow: at least 1; exactly 1 except for `get` and `scan` */
	__be16 limit; /* `scan`: maximum number of rows, 0: as many as fit; other requests: 0 */
	__be16 value_bytes; /* bytes of the value; 0 if there is none */
	__be16 expected_bytes; /* `check_and_put`: bytes of the expected value; other requests: 0 */
	__be16 reserved; /* reserved: zero */
	__be32 slot; /* changes: slot number of the session, or 0 */
	__be64 token; /* changes: secret token of the session; 0: without a session, for a trusted sender */
	__be64 nonce; /* changes: in a session, the last nonce plus 1; without a session 0, or a new number */
};
_Static_assert(sizeof(struct ls_column_head) == 32, "column_head");

/* Header of every reply except to `open`; rows follow, then zeros. */
struct ls_column_reply {
	__u8 source; /* 1: fast path, 2: host */
	__u8 flags; /* 1 may_be_stale, 2 more, 4 not_applied, 8 left_out */
	__be16 rows; /* number of rows that follow */
	__be32 reserved; /* reserved: zero */
	__be64 version_ms; /* newest timestamp of the rows in ms since 1970; 0 if there are no rows */
	__be64 reserved_2; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_column_reply) == 24, "column_reply");

/* Header of a row; key, value and padding to 8 bytes follow. */
struct ls_column_row {
	__u8 key_bytes; /* bytes of the key */
	__u8 column; /* index of the column in the request; bit 0x80: row left out, bit 0x40: its key is truncated */
	__be16 value_bytes; /* bytes of the value; row left out: 8, and the value is the length of the longest value */
};
_Static_assert(sizeof(struct ls_column_row) == 4, "column_row");

/* Session that a client opens: body of the request and of the reply. */
struct ls_column_session {
	__u8 challenge[16]; /* proof that the client receives packets at its address */
	__be64 token; /* reply with a session: secret token */
	__be32 slot; /* reply with a session: slot number */
	__be32 lease_s; /* reply: seconds for which the challenge, or the session, is valid */
	__be64 reserved; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_column_session) == 40, "column_session");

/* Switches the fast path off or on; only for loopback and trusted_sources. */
struct ls_column_switch {
	__be64 off; /* 1: the fast path is off; 0: it is on */
};
_Static_assert(sizeof(struct ls_column_switch) == 8, "column_switch");

/* Header of every notification; table, keys (each after its length, u8) and tag follow. */
struct ls_column_notice {
	__be32 magic; /* 0x4c53434e, "LSCN" */
	__u8 kind; /* 1 pre, 2 post, 3 ask, 4 grant, 5 ack */
	__u8 flags; /* `pre`: 1 the keys are a range, 2 a region was opened; other kinds: 0 */
	__be16 keys; /* `pre`: number of keys that follow; other kinds: 0 */
	__be64 server; /* hash of the server's name; `ask`: 0 */
	__be64 epoch; /* the server's number of this subscriber and table, which increases with every start; `ask`: 0 */
	__be64 number; /* `pre`, `ack`: number of the change; `grant`: number of the next change; other kinds: 0 */
	__be64 oldest_open; /* lowest number of a change in progress, otherwise the next number; `ask`, `ack`: 0 */
	__be64 token; /* `ask`: random number; `grant`: the number of the `ask`; other kinds: 0 */
	__be64 expires_ms; /* `pre`: time at which the first changed cell expires, in ms since 1970; 0: none expires */
	__be32 lease_ms; /* `grant`: duration of the lease from the `ask` on; other kinds: 0 */
	__be16 table_bytes; /* bytes of the table's name, which follows */
	__be16 reserved; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_column_notice) == 64, "column_notice");

/* State of the fast path: lease, hash key, sizes and policies. */
struct ls_column_control {
	__u64 lease_until_ns; /* end of the lease: the fast path answers only before this CLOCK_MONOTONIC time */
	__u64 key[3]; /* key of the names' hash: two words of NH, one odd multiplier */
	__u32 name_mask; /* number of entries of the table of names minus 1 */
	__u32 columns; /* number of columns */
	__u32 pages; /* number of pages in the pool */
	__u32 blocks; /* number of blocks in the pool */
	__u32 block_rows; /* log2 of the maximum number of rows in a block */
	__u32 data_bytes; /* bytes of one block's records in column_data, including padding */
	__u32 paper_format; /* 1: packets in the paper's format are answered */
	__u32 may_be_stale; /* 1: replies have the flag may_be_stale */
	__u32 literal_flags; /* 1: an invalid block makes its whole column miss, as in the paper */
	__u32 layout_version; /* version of the layout, 1; a server does not take over a store of another version */
	__u32 ranges; /* number of address ranges below */
	__u32 reserved; /* reserved: zero */
	__u64 range[16]; /* ranges whose changes make the fast path invalidate a block: IPv6, or IPv4 mapped into it */
	__u64 range_mask[16]; /* bits of each address that are compared */
};
_Static_assert(sizeof(struct ls_column_control) == 336, "column_control");

/* End of the lease of each server. */
struct ls_column_servers {
	__u64 until_ns[64]; /* end of the lease as CLOCK_MONOTONIC time */
};
_Static_assert(sizeof(struct ls_column_servers) == 512, "column_servers");

/* Entry of the table of names. */
struct ls_column_name {
	__u64 name[4]; /* family:qualifier, padded with zeros */
	__u32 column; /* number of the column plus 1; 0: unused */
	__u32 reserved; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_column_name) == 40, "column_name");

/* Fast-path table of one column. */
struct ls_column_table {
	__u64 seq; /* sequence number; odd while the tops, pages or blocks of the column change */
	__u64 invalid_blocks; /* number of blocks with the flag invalid */
	__u32 pages; /* number of pages in use */
	__u32 skip; /* number of key bytes that the heads in the tops skip */
	__u64 reserved[5]; /* reserved: zero */
};
_Static_assert(sizeof(struct ls_column_table) == 64, "column_table");

/* Pages of one column in the order of keys. */
struct ls_column_tops {
	__u64 head[4096]; /* head of the low key of each page's first block; 0 for the first page */
	__u32 page[4096]; /* indexes of the pages */
};
_Static_assert(sizeof(struct ls_column_tops) == 49152, "column_tops");

/* Up to 64 blocks in the order of keys. */
struct ls_column_page {
	__u32 count; /* number of blocks */
	__u32 skip; /* number of key bytes that the heads skip */
	__u64 reserved[7]; /* reserved: zero */
	__u64 head[64]; /* head of the low key of each block; 0 for the first block */
	__u32 block[64]; /* indexes of the blocks */
};
_Static_assert(sizeof(struct ls_column_page) == 832, "column_page");

/* All rows of one interval of keys. */
struct ls_column_block {
	__u32 flags; /* block_invalid, block_continues */
	__u32 rows; /* number of rows */
	__u32 lengths; /* bits 0-7: bytes of the low key; 8-15: of the high key (0xff: none); 16-31: skip of the heads */
	__u32 server; /* index of the server whose lease the block needs */
	__u64 until_ns; /* CLOCK_MONOTONIC time at which the first row may expire */
	__u32 used; /* 1: a request has read the block since the writer's last check */
	__u32 reserved; /* reserved: zero */
	__u32 end[8]; /* end of each record in the block's data, in bytes */
	__u64 head[8]; /* head of each row's key */
	__u64 bound[16]; /* low key (inclusive) and high key (exclusive), word by word in turn */
	__u64 sum[8]; /* sums of the records' 32-bit words up to the end of each record */
	__u64 version_ms[8]; /* timestamp of each row, ms since 1970 */
};
_Static_assert(sizeof(struct ls_column_block) == 384, "column_block");

/* 64 bytes of records. The records of one block are contiguous. */
struct ls_column_line {
	__u64 words[8]; /* records: each is a column_row, its key, its value and padding */
};
_Static_assert(sizeof(struct ls_column_line) == 64, "column_line");

enum ls_column_counter {
	LS_COLUMN_COUNTER_HITS = 0,
	LS_COLUMN_COUNTER_MISSES = 1,
	LS_COLUMN_COUNTER_INVALID = 2,
	LS_COLUMN_COUNTER_NOT_LEASED = 3,
	LS_COLUMN_COUNTER_CHANGING = 4,
	LS_COLUMN_COUNTER_FORWARDED = 5,
	LS_COLUMN_COUNTER_LINE_INVALIDATIONS = 6,
};

#define LS_COLUMN_COUNTERS 7

#define LS_FABRIC_RESULTS_MAGIC 0x4c53464142523031
#define LS_FABRIC_MAC_BYTES 16
#define LS_FABRIC_SECTION_ENTRY 1
#define LS_FABRIC_SECTION_RUN 2
#define LS_FABRIC_RUN_NOTES 1
#define LS_FABRIC_RUN_TRANSACTIONS 2
#define LS_FABRIC_NO_ENTRY 0xffff
#define LS_FABRIC_ENTRIES_MAX 32768
#define LS_FABRIC_SEGMENTS_MAX 65537
#define LS_FABRIC_WANT_ENTRIES 0xffffffffffffffff
#define LS_FABRIC_COPY_BYTES_MIN 6
#define LS_FABRIC_PAPER_BYTES_MAX 9000
#define LS_FABRIC_PAPER_LOCATOR 0x80
#define LS_FABRIC_OP_ANNOUNCE 1
#define LS_FABRIC_OP_DATA 2

#define LS_HYBRID_REQUEST_VERSION 1
#define LS_HYBRID_REQUEST_VERSION_PAPER 2
#define LS_HYBRID_KEY_BYTES_MAX 1024
#define LS_HYBRID_VALUE_BYTES_MAX 262144
#define LS_HYBRID_REQUEST_BYTES_MAX 524288
#define LS_HYBRID_DATAGRAM_BYTES_MAX 1200
#define LS_HYBRID_REQUEST_KEYS_MAX 1000
#define LS_HYBRID_MESSAGE_BYTES_MAX 900000
#define LS_HYBRID_MESSAGE_REQUESTS_MAX 10000
#define LS_HYBRID_WRITE_PUT 0
#define LS_HYBRID_WRITE_DELETE 1
#define LS_HYBRID_READ_LOCAL 0
#define LS_HYBRID_READ_LINEARIZABLE 1
#define LS_HYBRID_CURVE_P256 1
#define LS_HYBRID_CURVE_SECP256K1 2
#define LS_HYBRID_EVERYONE 0
#define LS_HYBRID_RIGHT_READ 1
#define LS_HYBRID_RIGHT_WRITE 2
#define LS_HYBRID_ROLE_USER 0
#define LS_HYBRID_ROLE_ADMIN 1
#define LS_HYBRID_VOTES_OPEN_MAX 256
#define LS_HYBRID_VOTES_PER_ADMIN_MAX 16
#define LS_HYBRID_KEYS_PER_MEMBER_MAX 16
#define LS_HYBRID_CHANGE_ADD_MEMBER 1
#define LS_HYBRID_CHANGE_REVOKE_MEMBER 2
#define LS_HYBRID_CHANGE_ADD_KEY 3
#define LS_HYBRID_CHANGE_REVOKE_KEY 4
#define LS_HYBRID_CHANGE_SET_RULE 5
#define LS_HYBRID_CHANGE_ADD_NODE 6
#define LS_HYBRID_CHANGE_REVOKE_NODE 7
#define LS_HYBRID_CHANGE_SET_QUORUM 8
#define LS_HYBRID_MESSAGE_BLOCK 1
#define LS_HYBRID_MESSAGE_HEAD 2
#define LS_HYBRID_ANSWER_REFUSED 0
#define LS_HYBRID_ANSWER_CELLS 1
#define LS_HYBRID_ANSWER_RANGE 2
#define LS_HYBRID_ANSWER_PROOF 3
#define LS_HYBRID_ANSWER_HISTORY 4
#define LS_HYBRID_ANSWER_SIGNED_HEAD 5
#define LS_HYBRID_ANSWER_PLACED 6
#define LS_HYBRID_OP_GET 1
#define LS_HYBRID_OP_RANGE 2
#define LS_HYBRID_OP_PROVE 3
#define LS_HYBRID_OP_HISTORY 4
#define LS_HYBRID_OP_HEAD 5
#define LS_HYBRID_OP_OUTCOME 6
#define LS_HYBRID_OP_WATCH 7
#define LS_HYBRID_OP_PAPER_GET 32
#define LS_HYBRID_OP_PAPER_SET 33
#define LS_HYBRID_OP_PAPER_VERIFY 34
#define LS_HYBRID_OP_WRITE 16
#define LS_HYBRID_OP_CHANGE 17
#define LS_HYBRID_OP_ASK 32

enum ls_hybrid_code {
	LS_HYBRID_CODE_DONE = 0,
	LS_HYBRID_CODE_RECORDED = 1,
	LS_HYBRID_CODE_CONFLICT = 2,
	LS_HYBRID_CODE_MALFORMED = 3,
	LS_HYBRID_CODE_WRONG_DATABASE = 4,
	LS_HYBRID_CODE_UNKNOWN_MEMBER = 5,
	LS_HYBRID_CODE_REVOKED = 6,
	LS_HYBRID_CODE_BAD_SIGNATURE = 7,
	LS_HYBRID_CODE_HIGH_S = 8,
	LS_HYBRID_CODE_NONCE_USED = 9,
	LS_HYBRID_CODE_EXPIRED = 10,
	LS_HYBRID_CODE_NOT_ALLOWED = 11,
	LS_HYBRID_CODE_BAD_CHANGE = 12,
	LS_HYBRID_CODE_TOO_MANY_VOTES = 13,
	LS_HYBRID_CODE_TOO_LARGE = 14,
	LS_HYBRID_CODE_BUSY = 15,
	LS_HYBRID_CODE_READ_ONLY = 16,
	LS_HYBRID_CODE_EXPIRY_TOO_FAR = 17,
	LS_HYBRID_CODE_UNKNOWN = 18,
	LS_HYBRID_CODE_OUTCOME_UNKNOWN = 19,
	LS_HYBRID_CODE_WRONG_MODE = 20,
	LS_HYBRID_CODE_OLD_VERSION = 21,
};

#define LS_ODOMETER_OP_READ 1
#define LS_ODOMETER_OP_ADD 2

/* Body of `read` and `add`. A reply to `read` has the number; a reply to `add` has the sum. */
struct ls_odometer_number {
	__be64 number; /* reply: the number; request: 0, or the number to add */
};
_Static_assert(sizeof(struct ls_odometer_number) == 8, "odometer_number");

/* Whole fast-path table: one number, and the end of the fast path's lease. */
struct ls_odometer_control {
	__u64 lease_until_ns; /* CLOCK_MONOTONIC time at which the lease ends */
	__u64 number; /* number that clients read and add to */
};
_Static_assert(sizeof(struct ls_odometer_control) == 16, "odometer_control");

enum ls_odometer_counter {
	LS_ODOMETER_COUNTER_READS = 0,
	LS_ODOMETER_COUNTER_FORWARDED = 1,
};

#define LS_ODOMETER_COUNTERS 2


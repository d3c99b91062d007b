"""Constants and layouts of the wire formats.

Generated from spec/ by `cargo run -p lineside-spec`. Do not edit.
"""

from __future__ import annotations

import enum
from struct import Struct
from typing import Final, NamedTuple


class Code(enum.IntEnum):
    """Number with a meaning in words."""

    meaning: str

    def __new__(cls, value: int, meaning: str = "") -> Code:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member


NATIVE_MAGIC: Final = 0x4C53
NATIVE_VERSION: Final = 1
NATIVE_REPLY_BIT: Final = 0x80


class NativeHeader(NamedTuple):
    """Header of every native packet."""

    #: magic number 0x4c53 ("LS")
    magic: int = 0
    #: version of the format, 1
    version: int = 0
    #: operation; bit 7 is set in replies
    op: int = 0
    #: 0 in a request; status code in a reply
    status: int = 0
    #: number of bytes after this header
    length: int = 0
    #: chosen by the client and returned in the reply
    request_id: int = 0


NATIVE_HEADER: Final = Struct(">HBBHHQ")


class Status(Code):
    """Status of a native reply."""

    OK = 0, "done"
    UNKNOWN = 1, "not found: no connected block holds the transaction, or there is no such row"
    BAD_REQUEST = 2, "wrong length, unknown operation, or padding that is not zero"
    BUSY = 3, "the host's queue is full: try again later"
    UNSUPPORTED_VERSION = 4, "this server does not support the header's version"
    NO_SESSION = 5, "no such session, or a wrong token"
    SEQUENCE = 6, "wrong sequence number: the reply has the one that the session expects next"
    REUSED = 7, "the request has the session's last sequence number, but another body"
    UNAUTHORISED = 8, "the sender may not do this, or has not signed it"
    NO_ROOM = 9, "nothing can be written: the disk or memory is full, or writing has ended after an error"
    OUTCOME_UNKNOWN = 10, "the change may or may not have been executed: its outcome is not known"
    UNKNOWN_FAMILY = 11, "the table has no such column family"
    START_BEHIND_STOP = 12, "the scan's start key is above its stop key"
    NOT_A_NUMBER = 13, "cannot increment: the cell value is not 8 bytes"
    TOO_LONG = 14, "too long for a packet (the reply has the length), or a change would make a cell too long"
    NOT_KEPT = 15, "the server does not keep the data that this operation needs"
    NO_COMMITMENT = 16, "the transaction's block commits to no witnesses"


# ---- spv ----

#: Default UDP port; that of gRPC is the TCP port with this number.
SPV_PORT: Final = 7701
#: Bytes of the paper's request: a TXID in wire byte order, the reverse of the order in block explorers.
SPV_PAPER_REQUEST_BYTES: Final = 32
#: Bytes of the paper's reply: a Merkle root in wire byte order; zeros if the TXID is unknown.
SPV_PAPER_REPLY_BYTES: Final = 32
#: Value for the height of a block whose parents are unknown (`spv import --detached`).
SPV_HEIGHT_UNKNOWN: Final = 0xffffffff
#: Maximum number of items in a `roots` packet, which then has 1,208 bytes.
SPV_ROOTS_MAX: Final = 16
#: Maximum number of hashes in a `proof` packet: the path of a block of 16,384 transactions, 600 bytes.
SPV_PROOF_DEPTH_MAX: Final = 14
#: Maximum number of headers in a `headers` packet, which then has 1,184 bytes.
SPV_HEADERS_MAX: Final = 14
#: Maximum bytes after witness_reply in a `witness_proof` packet: 1,452 bytes with both headers.
SPV_WITNESS_ROOM_MAX: Final = 1236
#: Bytes of a block header.
SPV_HEADER_BYTES: Final = 80
#: Number of nodes before a tree's leaves in the fast-path table: the block header, then zeros.
SPV_TREE_HEAD_NODES: Final = 3
SPV_OP_ROOT: Final = 1
SPV_OP_ROOTS: Final = 2
SPV_OP_PROOF: Final = 3
SPV_OP_HEADERS: Final = 4
SPV_OP_WITNESS_PROOF: Final = 5
SPV_OP_WTXID_PROOF: Final = 6


class RootReply(NamedTuple):
    """Position of one transaction, and the tip at which it was valid."""

    #: Merkle root of the block (the request has the TXID here)
    root: bytes = bytes(32)
    #: hash of the block's header, wire byte order
    block_hash: bytes = bytes(32)
    #: hash of the best block at the time of the reply
    tip_hash: bytes = bytes(32)
    #: height of the block; 0xffffffff: unknown
    height: int = 0
    #: height of the best block at the time of the reply
    tip_height: int = 0


ROOT_REPLY: Final = Struct(">32s32s32sII")


class RootsHead(NamedTuple):
    """Header of the body of `roots`, with the tip at which all items were valid."""

    #: request: zeros; reply: hash of the best block at the time of the reply
    tip_hash: bytes = bytes(32)
    #: request: 0; reply: height of the best block
    tip_height: int = 0
    #: number of items that follow: 1 to 16
    count: int = 0  # type: ignore[assignment]


ROOTS_HEAD: Final = Struct(">32sII")


class RootItem(NamedTuple):
    """Position of one transaction in `roots`. If the TXID is unknown, all fields but the status are zero."""

    #: Merkle root of the block (the request has the TXID here)
    root: bytes = bytes(32)
    #: hash of the block's header, wire byte order
    block_hash: bytes = bytes(32)
    #: height of the block; 0xffffffff: unknown
    height: int = 0
    #: 0 ok, 1 unknown
    status: int = 0


ROOT_ITEM: Final = Struct(">32s32sII")


class ProofReply(NamedTuple):
    """Header of a proof. Unknown TXID: only the tip is set. Too long: only transactions and depth."""

    #: the block's header, wire byte order (the request has the TXID here)
    header: bytes = bytes(80)
    #: height of the block; 0xffffffff: unknown
    height: int = 0
    #: number of transactions in the block
    transactions: int = 0
    #: position of the transaction in the block, from 0
    index: int = 0  # type: ignore[assignment]
    #: number of hashes that follow
    depth: int = 0
    #: hash of the best block at the time of the reply
    tip_hash: bytes = bytes(32)
    #: height of the best block at the time of the reply
    tip_height: int = 0
    #: reserved: zero
    reserved: int = 0


PROOF_REPLY: Final = Struct(">80sIIII32sII")


class WitnessReply(NamedTuple):
    """Header of a witness proof. Unknown: only the tip. Too long: transactions, depth, coinbase_bytes."""

    #: the block's header, wire byte order (the request has the TXID here)
    header: bytes = bytes(80)
    #: height of the block; 0xffffffff: unknown
    height: int = 0
    #: number of transactions in the block
    transactions: int = 0
    #: position of the transaction in the block, from 0
    index: int = 0  # type: ignore[assignment]
    #: number of hashes in each of the two paths that follow
    depth: int = 0
    #: hash of the best block at the time of the reply
    tip_hash: bytes = bytes(32)
    #: height of the best block at the time of the reply
    tip_height: int = 0
    #: bytes of the coinbase without its witness; too long: 64 * depth more bytes are needed
    coinbase_bytes: int = 0
    #: WTXID of the transaction, wire byte order; zeros for a coinbase
    wtxid: bytes = bytes(32)
    #: the witness reserved value: the only item in the witness of the coinbase (BIP141)
    witness_reserved: bytes = bytes(32)


WITNESS_REPLY: Final = Struct(">80sIIII32sII32s32s")


class HeadersHead(NamedTuple):
    """Header of a reply to `headers`, which has fewer headers than requested if the chain ends."""

    #: hash of the best block at the time of the reply
    tip_hash: bytes = bytes(32)
    #: height of the best block at the time of the reply
    tip_height: int = 0
    #: height of the first header, as requested
    start: int = 0
    #: number of headers that follow
    count: int = 0  # type: ignore[assignment]
    #: reserved: zero
    reserved: int = 0


HEADERS_HEAD: Final = Struct(">32sIIII")


# ---- transfer ----

#: Default UDP port; that of gRPC is the TCP port with this number.
TRANSFER_PORT: Final = 7702
#: Bytes of the paper's packet, request and reply.
TRANSFER_PAPER_BYTES_MIN: Final = 20
#: Bytes of the paper's packet with padding to a frame of 64 bytes.
TRANSFER_PAPER_BYTES_MAX: Final = 22
#: Bit that is set in the field Command of a refusal; Amount is then the result code.
TRANSFER_PAPER_REFUSED: Final = 0x80000000
#: CREATE: creates the account Source with the balance Amount.
TRANSFER_COMMAND_CREATE: Final = 1
#: ISSUE: adds Amount to Source.
TRANSFER_COMMAND_ISSUE: Final = 2
#: TRANSFER: moves Amount from Source to Destination.
TRANSFER_COMMAND_TRANSFER: Final = 3
#: REFER: reads the balance of Source. Paper format only; the native format has `refer`.
TRANSFER_COMMAND_REFER: Final = 4
#: FREEZE: blocks transfers into and out of Source until UNFREEZE. Native format only.
TRANSFER_COMMAND_FREEZE: Final = 5
#: UNFREEZE: ends FREEZE. Native format only.
TRANSFER_COMMAND_UNFREEZE: Final = 6
#: Contract code of TRANSFER: the amount is transferred at once.
TRANSFER_CONTRACT_PLAIN: Final = 0
#: Contract code of TRANSFER: Amount is reserved until it is posted, voided or expires; `uuid` names it.
TRANSFER_CONTRACT_PENDING: Final = 1
#: Contract code of TRANSFER: posts Amount (0: all) of the pending transfer `uuid`, and releases the rest.
TRANSFER_CONTRACT_POST: Final = 2
#: Contract code of TRANSFER: cancels the pending transfer `uuid`.
TRANSFER_CONTRACT_VOID: Final = 3
#: Flag of an operation that is linked with the next one: either both are executed or neither.
TRANSFER_FLAG_LINKED: Final = 1
#: Flag of an operation: `uuid` is its idempotency key: a repetition changes nothing.
TRANSFER_FLAG_KEYED: Final = 2
#: Number of the curve P-256 in a signed packet.
TRANSFER_CURVE_P256: Final = 1
#: Number of the curve secp256k1 in a signed packet.
TRANSFER_CURVE_SECP256K1: Final = 2
#: Maximum number of operations in a packet that the fast path executes; larger packets go to the host.
TRANSFER_LINE_OPERATIONS_MAX: Final = 4
#: Maximum number of operations in a packet, given by the header's length field. A datagram holds 16.
TRANSFER_OPERATIONS_MAX: Final = 744
#: Maximum number of accounts in one `refer` packet, which then has 1,416 bytes.
TRANSFER_REFER_MAX: Final = 29
#: Durability in a reply: the operation was on the disk before the reply was sent.
TRANSFER_DURABLE: Final = 1
#: Durability in a reply: the operation is executed and will be on the disk within a bounded delay.
TRANSFER_EXPRESS: Final = 2
#: Number of cells of a bucket. An account is in a cell of one of two buckets.
TRANSFER_BUCKET_CELLS: Final = 4
#: Flag of a cell that has an account. It is never cleared.
TRANSFER_CELL_VALID: Final = 1
#: Flag of a cell whose account is frozen.
TRANSFER_CELL_FROZEN: Final = 2
#: Flag of a cell whose account the host is changing. The fast path then only reads the account.
TRANSFER_CELL_CLAIMED: Final = 4
#: Maximum number of address ranges that may CREATE, ISSUE, FREEZE and UNFREEZE.
TRANSFER_ISSUERS_MAX: Final = 8
TRANSFER_OP_EXECUTE: Final = 1
TRANSFER_OP_REFER: Final = 2
TRANSFER_OP_OPEN: Final = 3
TRANSFER_OP_CLOSE: Final = 4
TRANSFER_OP_SESSION: Final = 5
TRANSFER_OP_SIGNED: Final = 6


class TransferCode(Code):
    """Outcome of an operation of `transfer`."""

    DONE = 0, "done"
    UNKNOWN_ACCOUNT = 1, "no such account"
    ACCOUNT_EXISTS = 2, "the account exists already"
    INSUFFICIENT_FUNDS = 3, "insufficient funds: the source's balance without pending amounts is lower"
    OVERFLOW = 4, "a balance, including pending transfers to it, would exceed its format"
    SAME_ACCOUNT = 5, "source and destination are the same"
    STORE_FULL = 6, "the limit of accounts or pending transfers is reached"
    STALE_ID = 7, "the transaction id is below the last one of the source account"
    BUSY = 8, "busy, not executed: try again"
    FROZEN = 9, "source or destination is frozen"
    BAD_COMMAND = 10, "unknown command, contract or flag; transfer or native issue of 0; forbidden value"
    ID_REUSED = 11, "last transaction id of the account, or a known idempotency key, with another body"
    UNAUTHORISED = 12, "the sender may not do this, or has not signed it"
    LINKED_FAILED = 13, "not executed, because a linked operation was refused"
    UNKNOWN_PENDING = 14, "no pending transfer with this uuid between these accounts, or it has ended"
    PENDING_EXISTS = 15, "a pending transfer with this uuid exists already"


class PaperTransfer(NamedTuple):
    """Packet in the paper's format (Table II of the paper)."""

    #: 1 CREATE, 2 ISSUE, 3 TRANSFER, 4 REFER; bit 31: refused
    command: int = 0
    #: above the last id of the source account; 0: the request is sent once and never repeated
    transaction_id: int = 0
    #: Source ID
    source: int = 0
    #: Destination ID; used only by TRANSFER
    destination: int = 0
    #: request: amount; reply: balance of Source after the operation, or the code
    amount: int = 0


PAPER_TRANSFER: Final = Struct(">IIIII")


class ExecuteHead(NamedTuple):
    """Header of the body of `execute`: session and sequence number of the packet."""

    #: secret token of the session, which authenticates its packets
    token: int = 0
    #: last sequence number of the session plus 1; in the refusal of another number: the expected one
    sequence: int = 0
    #: slot number of the session
    slot: int = 0
    #: number of operations that follow
    count: int = 0  # type: ignore[assignment]
    #: request: 0; reply: 1 durable, 2 express
    durability: int = 0


EXECUTE_HEAD: Final = Struct(">QQIHH")


class SignedHead(NamedTuple):
    """Header of `signed`: ECDSA over the SHA-256 of `lineside/transfer/1` and all bytes after it."""

    #: 1: P-256, 2: secp256k1
    curve: int = 0
    #: 2 if the y coordinate of the public key is even, 3 if it is odd
    key_prefix: int = 0
    #: reserved: zero
    reserved: int = 0
    #: reserved: zero
    reserved_2: int = 0
    #: x coordinate of the public key, big-endian
    key_x: bytes = bytes(32)
    #: r of the signature, big-endian
    r: bytes = bytes(32)
    #: s of the signature, big-endian, at most half the curve's order
    s: bytes = bytes(32)


SIGNED_HEAD: Final = Struct(">BBHI32s32s32s")


class Operation(NamedTuple):
    """Operation in a request, with its outcome in the reply."""

    #: 1 CREATE, 2 ISSUE, 3 TRANSFER, 5 FREEZE, 6 UNFREEZE
    command: int = 0
    #: 1: the operation is linked with the next one; 2: `uuid` is its idempotency key; 3: both
    flags: int = 0
    #: request: 0; reply: code of the outcome
    code: int = 0
    #: 0 plain, 1 pending, 2 post, 3 void
    contract: int = 0
    #: account that pays, is created, gets an amount (ISSUE), or is frozen or unfrozen
    source: bytes = bytes(16)
    #: TRANSFER: account that is paid; CREATE: fingerprint of the owner's key, or 0; else 0
    destination: bytes = bytes(16)
    #: request: amount; in a post, 0 means all; reply: balance of the source after the operation
    amount: int = 0
    #: request: 0; reply: number of the operation in the ledger, or 0; of a repetition: of the first one
    number: int = 0
    #: time of the client's clock, which the server stores and does not use
    timestamp: int = 0
    #: id that the client chooses: names a pending transfer; with flag 2, the idempotency key
    uuid: bytes = bytes(16)
    #: value chosen by the client, which the server stores and does not use
    nonce: int = 0
    #: pending transfer: seconds until it expires, 0: never; other operations: 0
    timeout_s: int = 0


OPERATION: Final = Struct(">BBHI16s16sQQQ16sII")


class ReferHead(NamedTuple):
    """Header of the body of `refer`."""

    #: number of accounts that follow: 1 to 29
    count: int = 0  # type: ignore[assignment]
    #: request: 0; reply: 1 durable, 2 express
    durability: int = 0
    #: reserved: zero
    reserved: int = 0


REFER_HEAD: Final = Struct(">IHH")


class BalanceItem(NamedTuple):
    """Balance of one account."""

    #: id of the account
    account: bytes = bytes(16)
    #: request: 0; reply: balance, including amounts reserved by pending transfers
    balance: int = 0
    #: amounts reserved by pending transfers
    held: int = 0
    #: number of changes of the account
    version: int = 0
    #: 0 done, 1 unknown account
    code: int = 0
    #: 1: frozen
    frozen: int = 0
    #: reserved: zero
    reserved: int = 0


BALANCE_ITEM: Final = Struct(">16sQQQHHI")


class SessionBody(NamedTuple):
    """Session that a client opens, closes or queries: body of the request and of the reply."""

    #: proof that the client receives packets at its address
    challenge: bytes = bytes(16)
    #: secret token of the session, which authenticates its packets
    token: int = 0
    #: next sequence number
    sequence: int = 0
    #: slot number of the session
    slot: int = 0
    #: reply to a challenge: seconds for which it is valid
    lease_s: int = 0


SESSION_BODY: Final = Struct(">16sQQII")


# ---- column ----

#: Default UDP port; that of gRPC is the TCP port with this number.
COLUMN_PORT: Final = 7703
#: Bytes of a row key in the paper's format, padded with zeros.
COLUMN_PAPER_KEY_BYTES: Final = 4
#: Bytes of a column name (`entry:foo`) in the paper's format, padded with zeros.
COLUMN_PAPER_NAME_BYTES: Final = 9
#: Bytes of a value in the paper's format, padded with zeros.
COLUMN_PAPER_VALUE_BYTES: Final = 18
#: Bytes of a `get`: `get`, key, name; further bytes are zeros. A `put` has the same bytes before its value.
COLUMN_PAPER_GET_BYTES: Final = 16
#: Bytes of `sc1`, startRow, name, stopRow (inclusive); further bytes are zeros.
COLUMN_PAPER_SCAN_BYTES: Final = 20
#: Bytes of a reply to `get`: status, value.
COLUMN_PAPER_GET_REPLY_BYTES: Final = 19
#: Bytes of one row of a reply to `sc1`, after status and number of rows: key, value.
COLUMN_PAPER_ROW_BYTES: Final = 22
#: First byte of a reply to `get` and `sc1` if a row was found.
COLUMN_PAPER_FOUND: Final = 0
#: First byte of a reply to `get` and `sc1` if there is no row, or if startRow is above stopRow.
COLUMN_PAPER_NO_ROW: Final = 1
#: First byte of a reply to `sc1` if the range has more rows than fit the reply.
COLUMN_PAPER_MORE: Final = 2
#: Maximum bytes of a row key in a packet.
COLUMN_KEY_BYTES_MAX: Final = 64
#: Maximum bytes of a value in a packet.
COLUMN_VALUE_BYTES_MAX: Final = 1024
#: Maximum bytes of a column name, `family:qualifier`.
COLUMN_NAME_BYTES_MAX: Final = 32
#: Flag of the operation `scan`: descending order; start is then the highest key.
COLUMN_FLAG_REVERSE: Final = 1
#: Flag of the operation `scan`: a row at the stop key is included.
COLUMN_FLAG_STOP_INCLUSIVE: Final = 2
#: Flag of the operation `scan`: a row at the start key is excluded, to continue after the last received row.
COLUMN_FLAG_START_EXCLUSIVE: Final = 4
#: Flag of the operation `check_and_put`: put if the row is absent; without this flag, if the value is as expected.
COLUMN_FLAG_ABSENT: Final = 8
#: Source of a reply: the fast path.
COLUMN_SOURCE_FASTPATH: Final = 1
#: Source of a reply: the host.
COLUMN_SOURCE_HOST: Final = 2
#: Flag of a reply that may be stale, because the fast path is not notified of other clients' changes.
COLUMN_REPLY_MAY_BE_STALE: Final = 1
#: Flag of a reply to `scan` that ended at the limit or because the packet is full; more rows may follow.
COLUMN_REPLY_MORE: Final = 2
#: Flag of a reply to `check_and_put`: the condition was false.
COLUMN_REPLY_NOT_APPLIED: Final = 4
#: Flag of a reply in which a row is left out because it is longer than a packet.
COLUMN_REPLY_LEFT_OUT: Final = 8
#: Bit of a row's `column`: the row's cells do not fit into a packet; this column has the longest value.
COLUMN_ROW_LEFT_OUT: Final = 0x80
#: Bit of a row's `column`: the key has more than 255 bytes and is truncated; such rows cannot be returned.
COLUMN_ROW_CUT_KEY: Final = 0x40
#: First bytes of a notification between a server of the table and Lineside: "LSCN".
COLUMN_NOTICE_MAGIC: Final = 0x4c53434e
#: Default UDP port of the coprocessor in a server of HBase, which grants leases.
COLUMN_NOTICE_PORT: Final = 7706
#: Default UDP port on which Lineside receives notifications of changes.
COLUMN_NOTIFY_PORT: Final = 7707
#: Maximum bytes of a notification; longer ones could be fragmented.
COLUMN_NOTICE_BYTES_MAX: Final = 1400
#: Bytes of the tag after every notification: truncated HMAC-SHA256 over all bytes before it.
COLUMN_NOTICE_TAG_BYTES: Final = 16
#: Minimum bytes of the secret key with which the tags are computed.
COLUMN_NOTICE_KEY_BYTES_MIN: Final = 32
#: Kind of a notification to Lineside: a change begins; it must be acknowledged.
COLUMN_NOTICE_PRE: Final = 1
#: Kind of a notification to Lineside: a change has ended; it is not acknowledged.
COLUMN_NOTICE_POST: Final = 2
#: Kind of a notification to the server: request for a lease.
COLUMN_NOTICE_ASK: Final = 3
#: Kind of a notification to Lineside: grant of a lease.
COLUMN_NOTICE_GRANT: Final = 4
#: Kind of a notification to the server: the fast path has invalidated the range of the change.
COLUMN_NOTICE_ACK: Final = 5
#: Flag of a notification of the kind `pre`: its keys are a range [low, high); an empty high means the table's end.
COLUMN_NOTICE_RANGE: Final = 1
#: Flag of a notification of the kind `pre`: a region was opened, so its table's schema may have changed.
COLUMN_NOTICE_OPENED: Final = 2
#: Maximum number of rows in a block.
COLUMN_BLOCK_ROWS_MAX: Final = 8
#: Maximum number of blocks in a page.
COLUMN_PAGE_BLOCKS: Final = 64
#: Maximum number of pages in a column.
COLUMN_PAGES_MAX: Final = 4096
#: Maximum number of servers whose leases the fast path checks.
COLUMN_SERVERS_MAX: Final = 64
#: Maximum number of address ranges whose changes make the fast path invalidate a block.
COLUMN_RANGES_MAX: Final = 8
#: Flag of a block in which a row may have changed since it was filled.
COLUMN_BLOCK_INVALID: Final = 1
#: Flag of a block at whose end the next block in key order begins.
COLUMN_BLOCK_CONTINUES: Final = 2
#: Head of unused entries in tops and pages, which is above the head of every key.
COLUMN_NO_HEAD: Final = 0x8000000000000000
#: Head of unused entries in a block, which is not below the head of any key.
COLUMN_NO_ROW_HEAD: Final = 0x7fffffffffffffff
#: Length of the high key of a block that extends to the table's end.
COLUMN_NO_END: Final = 0xff
COLUMN_OP_GET: Final = 1
COLUMN_OP_SCAN: Final = 2
COLUMN_OP_PUT: Final = 3
COLUMN_OP_DELETE: Final = 4
COLUMN_OP_INCREMENT: Final = 5
COLUMN_OP_CHECK_AND_PUT: Final = 6
COLUMN_OP_APPEND: Final = 7
COLUMN_OP_OPEN: Final = 8
COLUMN_OP_SWITCH: Final = 9


class ColumnCode(Code):
    """Outcome of an operation of `column`."""

    DONE = 0, "done"
    EMPTY_VALUE = 1, "the request has no value: an empty value cannot be stored in this format"
    UNAUTHORISED = 2, "the sender may not do this"
    UNKNOWN_COLUMN = 3, "the table has no such column family"
    NO_TABLE = 4, "the table is not reachable, or does not accept the change now"
    BAD_REQUEST = 5, "an empty key, or a packet that is too short"


class ColumnHead(NamedTuple):
    """Header of every request except `open`; each part after it is zero-padded to 8 bytes."""

    #: 1 reverse, 2 stop_inclusive, 4 start_exclusive, 8 absent
    flags: int = 0
    #: bytes of the key, or of the start key (0: from the first row)
    start_bytes: int = 0
    #: `scan`: bytes of the stop key (0: to the last row); other requests: 0
    stop_bytes: int = 0
    #: number of names that follow: at least 1; exactly 1 except for `get` and `scan`
    columns: int = 0
    #: `scan`: maximum number of rows, 0: as many as fit; other requests: 0
    limit: int = 0
    #: bytes of the value; 0 if there is none
    value_bytes: int = 0
    #: `check_and_put`: bytes of the expected value; other requests: 0
    expected_bytes: int = 0
    #: reserved: zero
    reserved: int = 0
    #: changes: slot number of the session, or 0
    slot: int = 0
    #: changes: secret token of the session; 0: without a session, for a trusted sender
    token: int = 0
    #: changes: in a session, the last nonce plus 1; without a session 0, or a new number
    nonce: int = 0


COLUMN_HEAD: Final = Struct(">BBBBHHHHIQQ")


class ColumnReply(NamedTuple):
    """Header of every reply except to `open`; rows follow, then zeros."""

    #: 1: fast path, 2: host
    source: int = 0
    #: 1 may_be_stale, 2 more, 4 not_applied, 8 left_out
    flags: int = 0
    #: number of rows that follow
    rows: int = 0
    #: reserved: zero
    reserved: int = 0
    #: newest timestamp of the rows in ms since 1970; 0 if there are no rows
    version_ms: int = 0
    #: reserved: zero
    reserved_2: int = 0


COLUMN_REPLY: Final = Struct(">BBHIQQ")


class ColumnRow(NamedTuple):
    """Header of a row; key, value and padding to 8 bytes follow."""

    #: bytes of the key
    key_bytes: int = 0
    #: index of the column in the request; bit 0x80: row left out, bit 0x40: its key is truncated
    column: int = 0
    #: bytes of the value; row left out: 8, and the value is the length of the longest value
    value_bytes: int = 0


COLUMN_ROW: Final = Struct(">BBH")


class ColumnSession(NamedTuple):
    """Session that a client opens: body of the request and of the reply."""

    #: proof that the client receives packets at its address
    challenge: bytes = bytes(16)
    #: reply with a session: secret token
    token: int = 0
    #: reply with a session: slot number
    slot: int = 0
    #: reply: seconds for which the challenge, or the session, is valid
    lease_s: int = 0
    #: reserved: zero
    reserved: int = 0


COLUMN_SESSION: Final = Struct(">16sQIIQ")


class ColumnSwitch(NamedTuple):
    """Switches the fast path off or on; only for loopback and trusted_sources."""

    #: 1: the fast path is off; 0: it is on
    off: int = 0


COLUMN_SWITCH: Final = Struct(">Q")


class ColumnNotice(NamedTuple):
    """Header of every notification; table, keys (each after its length, u8) and tag follow."""

    #: 0x4c53434e, "LSCN"
    magic: int = 0
    #: 1 pre, 2 post, 3 ask, 4 grant, 5 ack
    kind: int = 0
    #: `pre`: 1 the keys are a range, 2 a region was opened; other kinds: 0
    flags: int = 0
    #: `pre`: number of keys that follow; other kinds: 0
    keys: int = 0
    #: hash of the server's name; `ask`: 0
    server: int = 0
    #: the server's number of this subscriber and table, which increases with every start; `ask`: 0
    epoch: int = 0
    #: `pre`, `ack`: number of the change; `grant`: number of the next change; other kinds: 0
    number: int = 0
    #: lowest number of a change in progress, otherwise the next number; `ask`, `ack`: 0
    oldest_open: int = 0
    #: `ask`: random number; `grant`: the number of the `ask`; other kinds: 0
    token: int = 0
    #: `pre`: time at which the first changed cell expires, in ms since 1970; 0: none expires
    expires_ms: int = 0
    #: `grant`: duration of the lease from the `ask` on; other kinds: 0
    lease_ms: int = 0
    #: bytes of the table's name, which follows
    table_bytes: int = 0
    #: reserved: zero
    reserved: int = 0


COLUMN_NOTICE: Final = Struct(">IBBHQQQQQQIHH")


# ---- hybrid ----

#: Default UDP port; that of gRPC is the TCP port with this number.
HYBRID_PORT: Final = 7705
#: Value of the first byte of the signed bytes: version of the format.
HYBRID_REQUEST_VERSION: Final = 1
#: First byte of the paper's requests in the log of a database in the paper's mode.
HYBRID_REQUEST_VERSION_PAPER: Final = 2
#: Maximum bytes of a key. A key has at least one byte.
HYBRID_KEY_BYTES_MAX: Final = 1024
#: Maximum bytes of a value.
HYBRID_VALUE_BYTES_MAX: Final = 262144
#: Maximum bytes of a request with its signature.
HYBRID_REQUEST_BYTES_MAX: Final = 524288
#: Maximum bytes of a datagram with a request or an answer; longer ones need gRPC.
HYBRID_DATAGRAM_BYTES_MAX: Final = 1200
#: Maximum number of keys that one request may read, and maximum number that it may write.
HYBRID_REQUEST_KEYS_MAX: Final = 1000
#: Maximum bytes of a message of the log.
HYBRID_MESSAGE_BYTES_MAX: Final = 900000
#: Maximum number of requests in a message of the log.
HYBRID_MESSAGE_REQUESTS_MAX: Final = 10000
#: Kind of a write that sets the key to the value that follows.
HYBRID_WRITE_PUT: Final = 0
#: Kind of a write that removes the key.
HYBRID_WRITE_DELETE: Final = 1
#: Consistency of a read that returns the state which this node has committed.
HYBRID_READ_LOCAL: Final = 0
#: Consistency of a read that sees every request which any node answered before the read arrived.
HYBRID_READ_LINEARIZABLE: Final = 1
#: Number of the curve P-256; requests signed with such a key are hashed with SHA-256.
HYBRID_CURVE_P256: Final = 1
#: Number of the curve secp256k1; requests signed with such a key are hashed with Keccak-256.
HYBRID_CURVE_SECP256K1: Final = 2
#: Member number in a rule that applies to every member.
HYBRID_EVERYONE: Final = 0
#: Right to read keys with the rule's prefix.
HYBRID_RIGHT_READ: Final = 1
#: Right to write keys with the rule's prefix.
HYBRID_RIGHT_WRITE: Final = 2
#: Role of a member that has only the rights given by rules.
HYBRID_ROLE_USER: Final = 0
#: Role of a member that votes on changes (admin).
HYBRID_ROLE_ADMIN: Final = 1
#: Maximum number of changes that wait for votes.
HYBRID_VOTES_OPEN_MAX: Final = 256
#: Maximum number of changes requested by one admin that wait for votes.
HYBRID_VOTES_PER_ADMIN_MAX: Final = 16
#: Maximum number of a member's keys that are not revoked.
HYBRID_KEYS_PER_MEMBER_MAX: Final = 16
#: Change: adds a member with its first key.
HYBRID_CHANGE_ADD_MEMBER: Final = 1
#: Change: revokes a member and all its keys.
HYBRID_CHANGE_REVOKE_MEMBER: Final = 2
#: Change that adds a key of a member. The member itself may make it, or admins by votes.
HYBRID_CHANGE_ADD_KEY: Final = 3
#: Change that revokes a key. The member itself may make it, or admins by votes.
HYBRID_CHANGE_REVOKE_KEY: Final = 4
#: Change: sets the rights of a member, or of everyone, below a prefix; 0 removes them.
HYBRID_CHANGE_SET_RULE: Final = 5
#: Change: adds a node that may order messages.
HYBRID_CHANGE_ADD_NODE: Final = 6
#: Change: revokes a node.
HYBRID_CHANGE_REVOKE_NODE: Final = 7
#: Change: sets the number of admins that must request a change.
HYBRID_CHANGE_SET_QUORUM: Final = 8
#: Kind of a message of the log: requests, a block.
HYBRID_MESSAGE_BLOCK: Final = 1
#: Kind of a message of the log: a signed head.
HYBRID_MESSAGE_HEAD: Final = 2
#: Content of an answer by UDP that has only a code.
HYBRID_ANSWER_REFUSED: Final = 0
#: Content of an answer by UDP: cells of keys.
HYBRID_ANSWER_CELLS: Final = 1
#: Content of an answer by UDP: keys and their cells.
HYBRID_ANSWER_RANGE: Final = 2
#: Content of an answer by UDP: a proof.
HYBRID_ANSWER_PROOF: Final = 3
#: Content of an answer by UDP: writes of a key.
HYBRID_ANSWER_HISTORY: Final = 4
#: Content of an answer by UDP: a block's header with a node's signature.
HYBRID_ANSWER_SIGNED_HEAD: Final = 5
#: Content of an answer by UDP: a position in the ledger.
HYBRID_ANSWER_PLACED: Final = 6
HYBRID_OP_GET: Final = 1
HYBRID_OP_RANGE: Final = 2
HYBRID_OP_PROVE: Final = 3
HYBRID_OP_HISTORY: Final = 4
HYBRID_OP_HEAD: Final = 5
HYBRID_OP_OUTCOME: Final = 6
HYBRID_OP_WATCH: Final = 7
HYBRID_OP_PAPER_GET: Final = 32
HYBRID_OP_PAPER_SET: Final = 33
HYBRID_OP_PAPER_VERIFY: Final = 34
HYBRID_OP_WRITE: Final = 16
HYBRID_OP_CHANGE: Final = 17
HYBRID_OP_ASK: Final = 32


class HybridCode(Code):
    """Outcome of an operation of `hybrid`."""

    DONE = 0, "committed; for reads: answered"
    RECORDED = 1, "the vote counts; the change needs more votes"
    CONFLICT = 2, "a version that the transaction read is not the newest one: nothing was written"
    MALFORMED = 3, "not a canonical encoding of a request"
    WRONG_DATABASE = 4, "the request is for another database"
    UNKNOWN_MEMBER = 5, "unknown member, or unknown key of the member"
    REVOKED = 6, "the member or the key was revoked"
    BAD_SIGNATURE = 7, "the member's signature of the request is not valid"
    HIGH_S = 8, "s of the signature is above half the curve's order"
    NONCE_USED = 9, "the nonce is not above the last one of this member's lane"
    EXPIRED = 10, "the request has expired by the time of its block, or of the node"
    NOT_ALLOWED = 11, "no rule gives the member this right for the key, or only an admin may do this"
    BAD_CHANGE = 12, "the change is not possible in the present state of the database"
    TOO_MANY_VOTES = 13, "too many changes are waiting for votes"
    TOO_LARGE = 14, "too long for UDP, or for a message: use gRPC, or send less at once"
    BUSY = 15, "the node is busy and has not accepted the request: try again later"
    READ_ONLY = 16, "this node accepts no writes; its status has the reason"
    EXPIRY_TOO_FAR = 17, "a read must expire within a minute"
    UNKNOWN = 18, "no such transaction, or nothing to prove"
    OUTCOME_UNKNOWN = 19, "the request may or may not have been executed: ask for its outcome"
    WRONG_MODE = 20, "the paper's format for a database that is not in the paper's mode, or the reverse"
    OLD_VERSION = 21, "the key's version is above the request's version: nothing was written"


class RequestSignature(NamedTuple):
    """Header of every request; s is at most half the curve's order."""

    #: r of the signature, big-endian
    r: bytes = bytes(32)
    #: s of the signature, big-endian
    s: bytes = bytes(32)


REQUEST_SIGNATURE: Final = Struct(">32s32s")


class RequestHead(NamedTuple):
    """Header of the signed bytes."""

    #: version of the format, 1
    version: int = 0
    #: operation
    op: int = 0
    #: number of the member's key
    key: int = 0
    #: the database's id: the first bytes of its genesis' hash
    database: bytes = bytes(16)
    #: number of the member
    member: int = 0
    #: lane in the upper 16 bits; counter in the lower 48, above the last counter of the lane
    nonce: int = 0
    #: expiry in milliseconds since 1970
    expiry_ms: int = 0


REQUEST_HEAD: Final = Struct(">BBH16sQQQ")


class MessageHead(NamedTuple):
    """Header of a message of the log, after the node's signature."""

    #: 1 requests, 2 a signed head
    kind: int = 0
    #: number of the node that sent the message to the log
    node: int = 0
    #: number of the message, above the number of the node's last message
    sequence: int = 0
    #: time of the node's clock; a block's time never decreases
    time_ms: int = 0
    #: reserved: zero
    reserved: int = 0
    #: number of requests that follow; each has its length (be32) before it
    count: int = 0  # type: ignore[assignment]


MESSAGE_HEAD: Final = Struct(">BIQQII")


class BlockHeader(NamedTuple):
    """Data that a block's hash covers: Keccak-256 of `lineside/hybrid/block/1` and this."""

    #: the database's id
    database: bytes = bytes(16)
    #: 0: genesis
    number: int = 0
    #: position of the block's message in the log
    position: int = 0
    #: time of the block, never before the time of the previous block
    time_ms: int = 0
    #: number of requests
    transactions: int = 0
    #: number of requests with code 0 or 1
    committed: int = 0
    #: hash of the previous block
    previous: bytes = bytes(32)
    #: Keccak-256 of the message without its signature; called TH in the paper
    transactions_hash: bytes = bytes(32)
    #: root of RFC 6962's tree (SHA-256) over the requests with signatures
    transactions_root: bytes = bytes(32)
    #: Keccak-256 of the codes, one byte each
    codes_hash: bytes = bytes(32)
    #: root of the map of all data that affects later results
    state_root: bytes = bytes(32)
    #: Keccak-256 of the previous block's value and of TH; called BH in the paper
    paper_hash: bytes = bytes(32)


BLOCK_HEADER: Final = Struct(">16sQQQII32s32s32s32s32s32s")


class NodeHead(NamedTuple):
    """Attestation of a block by a node."""

    #: number of the node
    node: int = 0
    #: number of the block
    number: int = 0
    #: reserved: zero
    reserved: int = 0
    #: hash of the block
    hash: bytes = bytes(32)
    #: r of the node's signature over `lineside/hybrid/head/1`, database id, node, number and hash
    r: bytes = bytes(32)
    #: s of the signature, at most half the curve's order
    s: bytes = bytes(32)


NODE_HEAD: Final = Struct(">IQQ32s32s32s")


class MemberWord(NamedTuple):
    """Attestation of a block by a member."""

    #: number of the member
    member: int = 0
    #: number of the block
    number: int = 0
    #: hash of the block
    hash: bytes = bytes(32)
    #: r of the member's signature over `lineside/hybrid/word/1`, database id, member, number and hash
    r: bytes = bytes(32)
    #: s of the signature, at most half the curve's order
    s: bytes = bytes(32)


MEMBER_WORD: Final = Struct(">QQ32s32s32s")


class AnswerHead(NamedTuple):
    """Header of an answer by UDP, after the native header with status ok."""

    #: code of the request
    code: int = 0
    #: content: 0 nothing, 1 cells, 2 a range, 3 a proof, 4 history, 5 a signed head, 6 a position
    says: int = 0


ANSWER_HEAD: Final = Struct(">HB")

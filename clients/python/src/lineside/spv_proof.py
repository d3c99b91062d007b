"""Proofs of Bitcoin transactions, headers of blocks, and networks.

The rules and their order are those of the Rust library `lineside-spv-proof`; both pass the same vectors. Hashes are 32
bytes in wire order, the order in which they are hashed and sent; `display` and `from_display` convert them to and from
the order of explorers.
"""

from __future__ import annotations

import enum
import hashlib
import struct
from typing import Mapping, NamedTuple, Optional, Sequence, Union

from ._arguments import hex_data
from .errors import LinesideError

#: Largest number of transactions that a block can hold: 4,000,000 units of weight, at least 240 for a transaction.
MAX_TRANSACTIONS = 4_000_000 // 240

_MAX_MONEY = 21_000_000 * 100_000_000
_HEADER = struct.Struct("<i32s32sIII")


def sha256d(data: bytes) -> bytes:
    """Returns the double SHA-256."""
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


def display(hash: bytes) -> str:
    """Returns a hash as explorers show it."""
    return hash[::-1].hex()


def from_display(text: str) -> bytes:
    """Returns the hash, in wire order, that an explorer shows as `text`."""
    meaning = "a hash (TXID, WTXID or block hash) has 64 hexadecimal digits"
    hash = hex_data(text, meaning)[::-1]
    if len(hash) != 32:
        raise ValueError(f"{text!r}: {meaning}")
    return hash


def hash_bytes(id: Union[bytes, str]) -> bytes:
    """Returns the 32 bytes of a TXID or WTXID, which is given in wire order or as explorers show it."""
    hash = from_display(id) if isinstance(id, str) else id
    if not isinstance(hash, (bytes, bytearray)):
        raise TypeError(f"{id!r}: a TXID is 32 bytes, or 64 hexadecimal digits")
    if len(hash) != 32:
        raise ValueError(f"a TXID has 32 bytes, not {len(hash)}")
    return bytes(hash)


# ---- reasons ----


class ProofReason(enum.IntEnum):
    """Reason why a proof is refused; the numbers are those of the Rust library and of the C header."""

    INDEX_OUT_OF_RANGE = 1
    WRONG_DEPTH = 2
    IMPOSSIBLE_TRANSACTION_COUNT = 3
    EQUAL_SIBLINGS = 4
    MISSING_DUPLICATE = 5
    INNER_NODE_IS_TRANSACTION = 6
    TRANSACTION_OF_64_BYTES = 7
    WRONG_ROOT = 8
    INVALID_TARGET = 9
    WRONG_PROOF_OF_WORK = 10
    MALFORMED_TRANSACTION = 11
    NOT_COINBASE = 12
    NO_WITNESS_COMMITMENT = 13
    WRONG_WITNESS_COMMITMENT = 14
    WRONG_COINBASE_WTXID = 15


_REASONS = {
    ProofReason.INDEX_OUT_OF_RANGE: "its index is not below the block's number of transactions",
    ProofReason.WRONG_DEPTH: "its path does not have the length that the number of transactions requires",
    ProofReason.IMPOSSIBLE_TRANSACTION_COUNT: "no block can have its number of transactions",
    ProofReason.EQUAL_SIBLINGS: "a node equals its sibling, as in a mutated block (CVE-2012-2459)",
    ProofReason.MISSING_DUPLICATE: "the last node of an odd row is not paired with itself",
    ProofReason.INNER_NODE_IS_TRANSACTION: "an inner node of its path is a transaction (CVE-2017-12842)",
    ProofReason.TRANSACTION_OF_64_BYTES: "a transaction of 64 bytes can be an inner node (CVE-2017-12842)",
    ProofReason.WRONG_ROOT: "its path does not lead to the header's Merkle root",
    ProofReason.INVALID_TARGET: "its header has a target that the network does not allow",
    ProofReason.WRONG_PROOF_OF_WORK: "the hash of its header is above the header's target",
    ProofReason.MALFORMED_TRANSACTION: "the bytes are not one whole transaction",
    ProofReason.NOT_COINBASE: "the transaction with the witness commitment is not a coinbase",
    ProofReason.NO_WITNESS_COMMITMENT: "the coinbase has no witness commitment",
    ProofReason.WRONG_WITNESS_COMMITMENT: "its path does not lead to the coinbase's witness commitment",
    ProofReason.WRONG_COINBASE_WTXID: "only the coinbase, at index 0, has the WTXID 0",
}


class ProofError(LinesideError):
    """The proof is refused: the server is at fault or lies. Ask another server."""

    def __init__(self, reason: ProofReason) -> None:
        super().__init__(f"the proof is refused: {_REASONS[reason]}; ask another server")
        self.reason = reason


# ---- networks ----


class Retarget(enum.Enum):
    """Rule that determines the target of a header."""

    #: The target changes every 2016 blocks.
    EVERY_2016 = enum.auto()
    #: Like `EVERY_2016`, but a block more than 20 minutes after its parent has the minimum difficulty.
    MINIMUM_AFTER_20_MINUTES = enum.auto()
    #: Like `MINIMUM_AFTER_20_MINUTES`, with the rules of BIP94.
    BIP94 = enum.auto()
    #: Every block has the minimum difficulty.
    NEVER = enum.auto()


class Network(enum.Enum):
    """Bitcoin network. Sources: Bitcoin Core's `chainparams.cpp`, BIP94, and btcd's `chaincfg` for simnet."""

    MAINNET = "mainnet"
    TESTNET3 = "testnet3"
    TESTNET4 = "testnet4"
    SIGNET = "signet"
    REGTEST = "regtest"
    SIMNET = "simnet"

    @property
    def _rules(self) -> _Rules:
        return _NETWORKS[self.value]

    @property
    def magic(self) -> bytes:
        """Four bytes before every message between nodes, in wire order."""
        return self._rules.magic

    @property
    def limit_bits(self) -> int:
        """Easiest target that a header may have, in compact form."""
        return self._rules.limit_bits

    @property
    def limit(self) -> int:
        """Proof-of-work limit: no header's target may be above it."""
        return self._rules.limit

    @property
    def retarget_rule(self) -> Retarget:
        """Rule that determines the target of a header."""
        return self._rules.retarget

    def genesis(self) -> Header:
        """Returns the header of block 0."""
        root = _TESTNET4_ROOT if self is Network.TESTNET4 else _GENESIS_ROOT
        return Header(1, bytes(32), root, self._rules.time, self.limit_bits, self._rules.nonce)


class _Rules(NamedTuple):
    magic: bytes
    limit_bits: int
    limit: int
    retarget: Retarget
    time: int
    nonce: int


_EASY, _EASIEST, _SIGNET = 2**224 - 1, 2**255 - 1, 0x0377AE << 216
_NETWORKS: Mapping[str, _Rules] = {
    "mainnet": _Rules(bytes.fromhex("f9beb4d9"), 0x1D00FFFF, _EASY, Retarget.EVERY_2016, 1_231_006_505, 2_083_236_893),
    "testnet3": _Rules(
        bytes.fromhex("0b110907"), 0x1D00FFFF, _EASY, Retarget.MINIMUM_AFTER_20_MINUTES, 1_296_688_602, 414_098_458
    ),
    "testnet4": _Rules(bytes.fromhex("1c163f28"), 0x1D00FFFF, _EASY, Retarget.BIP94, 1_714_777_860, 393_743_547),
    "signet": _Rules(bytes.fromhex("0a03cf40"), 0x1E0377AE, _SIGNET, Retarget.EVERY_2016, 1_598_918_400, 52_613_770),
    "regtest": _Rules(bytes.fromhex("fabfb5da"), 0x207FFFFF, _EASIEST, Retarget.NEVER, 1_296_688_602, 2),
    "simnet": _Rules(
        bytes.fromhex("161c1412"), 0x207FFFFF, _EASIEST, Retarget.MINIMUM_AFTER_20_MINUTES, 1_401_292_357, 2
    ),
}
_GENESIS_ROOT = from_display("4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b")
_TESTNET4_ROOT = from_display("7aa0a7ae1e223414cb807e40cd57e667b718e42aaf9306db9102fe28912b7b4e")


# ---- headers ----


def decode_target(bits: int) -> Optional[int]:
    """Returns the target encoded by `bits`; `None` if it is negative, 0, or needs more than 256 bits."""
    size, mantissa = bits >> 24, bits & 0x007F_FFFF
    target = mantissa >> 8 * (3 - size) if size <= 3 else mantissa << 8 * (size - 3)
    is_negative = bits & 0x0080_0000 != 0
    return None if is_negative or target == 0 or target >= 2**256 else target


def encode_target(target: int) -> int:
    """Returns the compact form of `target`: its three most significant bytes; the others are lost."""
    size = (target.bit_length() + 7) // 8
    mantissa = target << 8 * (3 - size) if size <= 3 else target >> 8 * (size - 3)
    if mantissa & 0x0080_0000:
        # The highest bit would be read as the sign.
        mantissa, size = mantissa >> 8, size + 1
    return size << 24 | mantissa


class Header(NamedTuple):
    """Header of a block."""

    version: int
    #: hash of the parent's header
    previous: bytes
    #: root of the Merkle tree over the block's TXIDs
    merkle_root: bytes
    #: seconds since 1970, as claimed by the miner
    time: int
    #: target in compact form
    bits: int
    nonce: int

    @classmethod
    def from_bytes(cls, data: bytes) -> Header:
        """Reads 80 bytes. Any bytes are accepted; `check_proof_of_work` checks the header."""
        return cls(*_HEADER.unpack(data))

    def to_bytes(self) -> bytes:
        """Returns the 80 bytes that are hashed and sent."""
        return _HEADER.pack(*self)

    def hash(self) -> bytes:
        """Returns the block's hash."""
        return sha256d(self.to_bytes())

    def target(self) -> Optional[int]:
        """Returns the target; `None` if `bits` does not encode one."""
        return decode_target(self.bits)

    def work(self) -> int:
        """Returns the expected number of hashes for a header with these `bits`; 0 if they encode no target."""
        target = self.target()
        return 0 if target is None else 2**256 // (target + 1)

    def check_proof_of_work(self, network: Network) -> None:
        """Checks that the target is allowed on the network at all, and that the hash is at most the target.

        Only a chain of headers can check that the target is the one required at this height.
        """
        check_hash(self, self.hash(), network)


def check_hash(header: Header, hash: bytes, network: Network) -> None:
    """Checks the proof of work of a header whose hash is already known."""
    target = header.target()
    if target is None or target > network.limit:
        raise ProofError(ProofReason.INVALID_TARGET)
    if int.from_bytes(hash, "little") > target:
        raise ProofError(ProofReason.WRONG_PROOF_OF_WORK)


# ---- Merkle paths ----


def depth_of(transaction_count: int) -> int:
    """Returns the height of the Merkle tree of a block, which is the length of every path in it."""
    return max(transaction_count - 1, 0).bit_length()


def _check_shape(path: Sequence[bytes], index: int, count: int) -> None:
    if not 0 < count <= MAX_TRANSACTIONS:
        raise ProofError(ProofReason.IMPOSSIBLE_TRANSACTION_COUNT)
    if len(path) != depth_of(count):
        raise ProofError(ProofReason.WRONG_DEPTH)
    if index >= count:
        raise ProofError(ProofReason.INDEX_OUT_OF_RANGE)


def _root_in(path: Sequence[bytes], leaf: bytes, index: int, count: int) -> bytes:
    """Returns the root that the path leads to from `leaf` at `index` in a tree of `count` leaves."""
    _check_shape(path, index, count)
    node, position, width = leaf, index, count
    for sibling in path:
        is_right = position & 1 == 1
        if not is_right and position == width - 1:
            if sibling != node:
                raise ProofError(ProofReason.MISSING_DUPLICATE)
        elif sibling == node:
            raise ProofError(ProofReason.EQUAL_SIBLINGS)
        pair = sibling + node if is_right else node + sibling
        if _is_transaction(pair):
            raise ProofError(ProofReason.INNER_NODE_IS_TRANSACTION)
        node = sha256d(pair)
        position, width = position >> 1, (width + 1) // 2
    return node


def _is_transaction(pair: bytes) -> bool:
    """Returns true if 64 bytes are a transaction that a block can hold: then they are no inner node."""
    script = pair[41]
    if pair[4] != 1 or script > 4:
        return False
    after = pair[42 + script :]
    value = int.from_bytes(after[5:13], "little")
    return after[4] == 1 and value <= _MAX_MONEY and after[13] == 4 - script


# ---- transactions ----


class Transaction:
    """One whole transaction in its bytes: its ids, its length, and the outputs of a coinbase.

    Scripts are not checked.
    """

    _COMMITMENT = bytes.fromhex("6a24aa21a9ed")

    def __init__(self, raw: bytes) -> None:
        """Reads a transaction, with its witness or without; raises `ProofError` for anything else."""
        self.raw = raw
        self._at = 0
        try:
            self._read()
        except IndexError:
            raise ProofError(ProofReason.MALFORMED_TRANSACTION) from None

    def _read(self) -> None:
        self._take(4)
        self.has_witness = self.raw[4:6] == b"\x00\x01"
        if self.has_witness:
            self._take(2)
        start = self._at
        inputs = self._count()
        null_outpoint = bytes(32) + b"\xff" * 4
        self.is_coinbase = inputs == 1 and self.raw[self._at : self._at + 36] == null_outpoint
        for _ in range(inputs):
            self._take(36)
            self._take(self._count())
            self._take(4)
        outputs = self._count()
        #: Scripts of the outputs.
        self.scripts: list[bytes] = []
        for _ in range(outputs):
            self._take(8)
            self.scripts.append(self._take(self._count()))
        body = self.raw[start : self._at]
        has_items = False
        if self.has_witness:
            for _ in range(inputs):
                items = self._count()
                has_items |= items > 0
                for _ in range(items):
                    self._take(self._count())
        self._take(4)
        if self._at != len(self.raw) or inputs == 0 or outputs == 0 or has_items != self.has_witness:
            raise IndexError
        #: The bytes without the witness, whose hash is the TXID.
        self.base = self.raw[:4] + body + self.raw[-4:]

    def _take(self, count: int) -> bytes:
        taken = self.raw[self._at : self._at + count]
        if len(taken) != count:
            raise IndexError
        self._at += count
        return taken

    def _count(self) -> int:
        """Reads a count or length in its shortest form."""
        first = self._take(1)[0]
        if first < 0xFD:
            return first
        size = 1 << first - 0xFC
        value = int.from_bytes(self._take(size), "little")
        if value < (0xFD if size == 2 else 1 << 4 * size):
            raise IndexError
        return value

    def txid(self) -> bytes:
        """Returns the TXID."""
        return sha256d(self.base)

    def wtxid(self) -> bytes:
        """Returns the WTXID. A coinbase's leaf in the witness tree is 0 instead."""
        return sha256d(self.raw)

    def witness_commitment(self) -> Optional[bytes]:
        """Returns the witness commitment of a coinbase: the 32 bytes in the last output that has one (BIP141)."""
        found = [script[6:38] for script in self.scripts if script.startswith(self._COMMITMENT) and len(script) >= 38]
        return found[-1] if found else None


# ---- proofs ----


class TransactionProof(NamedTuple):
    """Proof that a transaction is in a block, by its TXID.

    A valid proof does not show that the block is in the chain with the most work: `HeaderChain.verify` shows that.
    """

    header: Header
    #: height of the block, as claimed by the server
    height: int
    transaction_count: int
    #: position of the transaction in the block, from 0
    index: int  # type: ignore[assignment]
    #: siblings from the transaction to the Merkle root
    path: tuple[bytes, ...]

    def verify(self, network: Network, txid: bytes) -> None:
        """Checks that the transaction is in the block of the header, and that the header has its proof of work."""
        _check_shape(self.path, self.index, self.transaction_count)
        self.header.check_proof_of_work(network)
        self.verify_path(txid)

    def verify_path(self, txid: bytes) -> None:
        """Checks the path only, for a header that is already verified."""
        if _root_in(self.path, txid, self.index, self.transaction_count) != self.header.merkle_root:
            raise ProofError(ProofReason.WRONG_ROOT)

    def verify_transaction(self, network: Network, raw: bytes) -> bytes:
        """Checks that the transaction with these bytes is in the block, and returns its TXID.

        This is the strongest check: it refuses a transaction that could also be an inner node.
        """
        transaction = Transaction(raw)
        if len(transaction.base) == 64:
            raise ProofError(ProofReason.TRANSACTION_OF_64_BYTES)
        txid = transaction.txid()
        self.verify(network, txid)
        return txid


class WitnessProof(NamedTuple):
    """Proof that a transaction with its witness is in a block, by its WTXID (BIP141)."""

    #: WTXID of the transaction, as claimed by the server; zeros for a coinbase
    wtxid: bytes
    header: Header
    #: height of the block, as claimed by the server
    height: int
    transaction_count: int
    #: position of the transaction in the block, from 0
    index: int  # type: ignore[assignment]
    #: siblings from the WTXID to the witness root
    path: tuple[bytes, ...]
    #: the block's first transaction, without its witness
    coinbase: bytes
    #: siblings from the coinbase's TXID to the Merkle root
    coinbase_path: tuple[bytes, ...]
    #: the only item in the witness of the coinbase
    witness_reserved: bytes

    def verify(self, network: Network, wtxid: bytes) -> None:
        """Checks that the transaction `wtxid` is in the block of the header, and the header's proof of work."""
        _check_shape(self.coinbase_path, 0, self.transaction_count)
        _check_shape(self.path, self.index, self.transaction_count)
        self.header.check_proof_of_work(network)
        if (wtxid == bytes(32)) != (self.index == 0):
            raise ProofError(ProofReason.WRONG_COINBASE_WTXID)
        commitment = self._commitment()
        root = _root_in(self.path, wtxid, self.index, self.transaction_count)
        if sha256d(root + self.witness_reserved) != commitment:
            raise ProofError(ProofReason.WRONG_WITNESS_COMMITMENT)

    def _commitment(self) -> bytes:
        """Checks the coinbase, and returns the hash that it commits to."""
        coinbase = Transaction(self.coinbase)
        if coinbase.has_witness:
            raise ProofError(ProofReason.MALFORMED_TRANSACTION)
        if not coinbase.is_coinbase:
            raise ProofError(ProofReason.NOT_COINBASE)
        if len(coinbase.base) == 64:
            raise ProofError(ProofReason.TRANSACTION_OF_64_BYTES)
        root = _root_in(self.coinbase_path, coinbase.txid(), 0, self.transaction_count)
        if root != self.header.merkle_root:
            raise ProofError(ProofReason.WRONG_ROOT)
        commitment = coinbase.witness_commitment()
        if commitment is None:
            raise ProofError(ProofReason.NO_WITNESS_COMMITMENT)
        return commitment

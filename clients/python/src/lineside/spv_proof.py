"""Proofs of Bitcoin transactions and an own chain of headers: everything that a light client checks.

The rules and their order are those of the Rust library `lineside-spv-proof`; both pass the same vectors. Hashes are 32
bytes in wire order, the order in which they are hashed and sent; `display` and `from_display` convert them to and from
the order of explorers.
"""

from __future__ import annotations

import enum
import fcntl
import hashlib
import os
import struct
import time
from pathlib import Path
from typing import Callable, Mapping, NamedTuple, Optional, Sequence, Union

from ._generated import SPV_HEADER_BYTES
from .errors import LinesideError

#: Blocks between two changes of the difficulty, on every network.
RETARGET_INTERVAL = 2016
#: Largest number of transactions that a block can hold: 4,000,000 units of weight, at least 240 for a transaction.
MAX_TRANSACTIONS = 4_000_000 // 240
#: Seconds that a header may be ahead of the clock.
MAX_FUTURE_S = 2 * 60 * 60

_TARGET_TIMESPAN_S = 14 * 24 * 60 * 60
_MIN_DIFFICULTY_AFTER_S = 20 * 60
_MEDIAN_TIME_SPAN = 11
_MAX_TIME_WARP_S = 600
_MAX_PATH = 32
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
    hash = bytes.fromhex(text)[::-1]
    if len(hash) != 32:
        raise ValueError(f"{text}: a hash has 64 hexadecimal digits")
    return hash


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


class ChainError(LinesideError):
    """A header is not accepted, or a proof's header is not in the chain."""


class UnknownParent(ChainError):
    """The header's parent was never accepted: ask for the headers before it."""


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
        _check_hash(self, self.hash(), network)


def _check_hash(header: Header, hash: bytes, network: Network) -> None:
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


# ---- difficulty ----


def retarget(network: Network, bits: int, timespan_s: int) -> int:
    """Returns the target, in compact form, after a period that began with `bits` and took `timespan_s` seconds."""
    timespan = min(max(timespan_s, _TARGET_TIMESPAN_S // 4), _TARGET_TIMESPAN_S * 4)
    target = decode_target(bits) or network.limit
    return encode_target(min(target * timespan // _TARGET_TIMESPAN_S, network.limit))


class Ancestor(NamedTuple):
    """Fields of an ancestor that the rules use."""

    time: int
    bits: int
    #: target of the last header of its period that does not have the minimum difficulty, or of the period's first
    real_bits: int


def real_bits_after(network: Network, height: int, bits: int, of_parent: int) -> int:
    """Returns `Ancestor.real_bits` of the header at `height`, given that of its parent."""
    return bits if height % RETARGET_INTERVAL == 0 or bits != network.limit_bits else of_parent


def required_bits(network: Network, parent_height: int, time: int, at: Callable[[int], Ancestor]) -> int:
    """Returns the target, in compact form, that the header after `parent_height` must have if its time is `time`.

    `at` returns the ancestor at a height.
    """
    rule = network.retarget_rule
    if rule is Retarget.NEVER:
        return network.limit_bits
    parent = at(parent_height)
    if (parent_height + 1) % RETARGET_INTERVAL:
        if rule is Retarget.EVERY_2016:
            return parent.bits
        return network.limit_bits if time > parent.time + _MIN_DIFFICULTY_AFTER_S else parent.real_bits
    first = at(parent_height + 1 - RETARGET_INTERVAL)
    begin = first.bits if rule is Retarget.BIP94 else parent.bits
    return retarget(network, begin, parent.time - first.time)


# ---- chain ----


class Tip(NamedTuple):
    """Last header of the chain of most work."""

    height: int
    hash: bytes
    #: expected number of hashes that the whole chain took
    work: int


class _Entry:
    """Accepted header."""

    __slots__ = ("bits", "hash", "header", "height", "parent", "real_bits", "time", "work")

    def __init__(self, header: Header, hash: bytes, parent: Optional[_Entry], network: Network) -> None:
        self.header = header.to_bytes()
        self.hash = hash
        self.parent = parent
        self.time = header.time
        self.bits = header.bits
        self.height: int = 0 if parent is None else parent.height + 1
        self.work: int = header.work() + (0 if parent is None else parent.work)
        before: int = header.bits if parent is None else parent.real_bits
        self.real_bits: int = real_bits_after(network, self.height, header.bits, before)


class HeaderChain:
    """Own chain of headers of one network, with its side chains.

    Accepts headers from any source, checks proof of work, parents, difficulty, times and checkpoints, and finds the
    chain with the most work. With a `directory`, the accepted headers are kept in its file `headers.dat`, which is the
    file of `lineside spv sync`, too; one process at a time may use it.

    `checkpoints` maps heights to hashes that every chain must have. `max_headers` limits the memory: one header takes
    about 400 bytes.
    """

    def __init__(
        self,
        network: Union[Network, str],
        directory: Union[str, Path, None] = None,
        checkpoints: Optional[Mapping[int, bytes]] = None,
        max_headers: int = 6_000_000,
    ) -> None:
        self.network = Network(network)
        self.max_headers = max_headers
        self._checkpoints = dict(checkpoints or {})
        genesis = self.network.genesis()
        entry = _Entry(genesis, genesis.hash(), None, self.network)
        self._entries = {entry.hash: entry}
        self._active = [entry]
        self._file: Optional[_File] = None
        if directory is not None:
            file = _File(Path(directory), self.network)
            try:
                self._load(file)
            except BaseException:
                file.close()
                raise
            self._file = file

    def __enter__(self) -> HeaderChain:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Makes the headers durable, and closes the file."""
        if self._file is not None:
            self._file.sync()
            self._file.close()
            self._file = None

    @property
    def tip(self) -> Tip:
        """Last header of the chain of most work."""
        entry = self._active[-1]
        return Tip(entry.height, entry.hash, entry.work)

    def header_at(self, height: int) -> Optional[Header]:
        """Returns the header at `height` in the chain of most work; `None` above its tip."""
        is_known = 0 <= height < len(self._active)
        return Header.from_bytes(self._active[height].header) if is_known else None

    def height_of(self, hash: bytes) -> Optional[int]:
        """Returns the height of the header with this hash if it is in the chain of most work."""
        entry = self._entries.get(hash)
        return entry.height if entry is not None and self._is_active(entry) else None

    def confirmations(self, height: int) -> int:
        """Returns the number of blocks that confirm a transaction in the block at `height`: 1 for the tip."""
        return max(len(self._active) - height, 0)

    def verify(self, proof: TransactionProof, txid: bytes) -> int:
        """Checks a proof, and that its header is in the chain of most work at its height.

        Returns the number of confirmations, at least 1. Raises `ChainError` or `ProofError`.
        """
        self._check_header(proof.header, proof.height)
        proof.verify_path(txid)
        return self.confirmations(proof.height)

    def verify_witness(self, proof: WitnessProof, wtxid: bytes) -> int:
        """Checks a proof by WTXID like `verify`."""
        self._check_header(proof.header, proof.height)
        proof.verify(self.network, wtxid)
        return self.confirmations(proof.height)

    def accept(self, headers: Sequence[Header], now: Optional[int] = None) -> int:
        """Accepts headers, parents before children. Returns the number of headers that were not known before.

        `now` is in seconds since 1970; default: this machine's clock. Raises the reason of the first header that is
        refused (`UnknownParent`, another `ChainError`, `ProofError`); those before it stay accepted.
        """
        now = int(time.time()) if now is None else now
        added: list[bytes] = []
        try:
            for header in headers:
                if self._add(header, now):
                    added.append(header.to_bytes())
        finally:
            if self._file is not None and added:
                self._file.append(b"".join(added))
        return len(added)

    def sync(self) -> None:
        """Makes all accepted headers durable."""
        if self._file is not None:
            self._file.sync()

    def _check_header(self, header: Header, height: int) -> None:
        found = self.header_at(height)
        if found != header:
            raise ChainError(f"header {display(header.hash())} is not in the best chain at height {height}")

    def _is_active(self, entry: _Entry) -> bool:
        return entry.height < len(self._active) and self._active[entry.height] is entry

    def _load(self, file: _File) -> None:
        for index, data in enumerate(file.headers()):
            try:
                self._add(Header.from_bytes(data), 2**32)
            except (ChainError, ProofError) as error:
                # A power cut can leave a bad last header, and zeros after it.
                if len(self._entries) < self.max_headers and file.is_zero_after(index):
                    file.cut(index)
                    return
                raise ChainError(f"{file.path}: stored header {index}: {error}; remove the file") from error

    def _add(self, header: Header, now: int) -> bool:
        hash = header.hash()
        if hash in self._entries:
            return False
        _check_hash(header, hash, self.network)
        parent = self._entries.get(header.previous)
        if parent is None:
            raise UnknownParent(
                f"header {display(hash)}: its parent {display(header.previous)} is not known; "
                "ask for the headers before it"
            )
        name = f"header {display(hash)} at height {parent.height + 1}"
        self._check_checkpoints(name, hash, parent.height + 1)
        self._check_rules(name, header, parent, now)
        if len(self._entries) >= self.max_headers:
            raise ChainError(f"the chain has {self.max_headers} headers, which is its limit: raise max_headers")
        entry = _Entry(header, hash, parent, self.network)
        self._entries[hash] = entry
        if entry.work > self._active[-1].work:
            self._activate(entry)
        return True

    def _activate(self, entry: _Entry) -> None:
        branch: list[_Entry] = []
        node = entry
        while not self._is_active(node):
            branch.append(node)
            assert node.parent is not None, "the genesis header is active"
            node = node.parent
        del self._active[node.height + 1 :]
        self._active.extend(reversed(branch))

    def _check_checkpoints(self, name: str, hash: bytes, height: int) -> None:
        for checkpoint, expected in self._checkpoints.items():
            if checkpoint == height and expected != hash:
                raise ChainError(f"{name}: the checkpoint there is {display(expected)}")
            if height < checkpoint and self.height_of(expected) is not None:
                raise ChainError(f"{name}: it branches off below the checkpoint at {checkpoint}")

    def _check_rules(self, name: str, header: Header, parent: _Entry, now: int) -> None:
        cursor = parent

        def at(height: int) -> Ancestor:
            """Returns an ancestor. Fast if each height is at most the previous one."""
            nonlocal cursor
            if cursor.height < height:
                cursor = parent
            while cursor.height > height:
                if self._is_active(cursor):
                    cursor = self._active[height]
                else:
                    assert cursor.parent is not None
                    cursor = cursor.parent
            return Ancestor(cursor.time, cursor.bits, cursor.real_bits)

        required = required_bits(self.network, parent.height, header.time, at)
        if header.bits != required:
            raise ChainError(f"{name}: its target is {header.bits:08x}, but the network's rule gives {required:08x}")
        oldest = max(parent.height - _MEDIAN_TIME_SPAN + 1, 0)
        times = sorted(at(height).time for height in range(parent.height, oldest - 1, -1))
        median = times[len(times) // 2]
        if header.time <= median:
            raise ChainError(
                f"{name}: its time {header.time} is not above {median}, the median of the 11 headers before it"
            )
        is_first = (parent.height + 1) % RETARGET_INTERVAL == 0
        is_warped = header.time < parent.time - _MAX_TIME_WARP_S
        if self.network.retarget_rule is Retarget.BIP94 and is_first and is_warped:
            raise ChainError(
                f"{name}: its time {header.time} is more than 600 s before its parent's, {parent.time} (BIP94)"
            )
        if header.time > now + MAX_FUTURE_S:
            raise ChainError(
                f"{name}: its time {header.time} is more than two hours after {now}; check this machine's clock"
            )


class _File:
    """File `headers.dat`: 16 bytes of kind, version and network, then headers in the order of their acceptance."""

    _START = b"LSHEADER" + (1).to_bytes(4, "little")

    def __init__(self, directory: Path, network: Network) -> None:
        self.path = directory / "headers.dat"
        directory.mkdir(parents=True, exist_ok=True)
        self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ChainError(f"{self.path}: another process uses this file; give another directory") from None
            expected = self._START + network.magic
            start = os.pread(self._fd, len(expected), 0)
            if len(start) < len(expected) and expected.startswith(start):
                os.pwrite(self._fd, expected, 0)
                os.fsync(self._fd)
            elif start != expected:
                raise ChainError(
                    f"{self.path}: this file does not hold headers of {network.value}; give another directory"
                )
            self._first = len(expected)
            length = max(os.fstat(self._fd).st_size - self._first, 0)
            self._count = length // SPV_HEADER_BYTES
        except BaseException:
            os.close(self._fd)
            raise

    def _read(self, first: int) -> bytes:
        count = min(self._count - first, 10_000)
        return os.pread(self._fd, count * SPV_HEADER_BYTES, self._first + first * SPV_HEADER_BYTES)

    def headers(self) -> Sequence[bytes]:
        """Returns the stored headers."""
        found: list[bytes] = []
        while len(found) < self._count:
            data = self._read(len(found))
            found += [data[at : at + SPV_HEADER_BYTES] for at in range(0, len(data), SPV_HEADER_BYTES)]
        return found

    def is_zero_after(self, index: int) -> bool:
        """Returns true if all bytes after the header `index` are zeros."""
        return all(not any(header) for header in self.headers()[index + 1 :])

    def cut(self, count: int) -> None:
        """Keeps only the first `count` headers."""
        self._count = count
        os.ftruncate(self._fd, self._first + count * SPV_HEADER_BYTES)

    def append(self, data: bytes) -> None:
        """Adds headers."""
        end = self._first + self._count * SPV_HEADER_BYTES
        if os.pwrite(self._fd, data, end) != len(data):
            os.ftruncate(self._fd, end)
            raise OSError(f"{self.path}: only a part was written")
        self._count += len(data) // SPV_HEADER_BYTES

    def sync(self) -> None:
        os.fsync(self._fd)

    def close(self) -> None:
        os.close(self._fd)

"""Own chain of Bitcoin's headers: accepts headers from any source, checks them by the rules of the network, and finds
the chain with the most work.

Sources of the rules: Bitcoin Core's `pow.cpp` and `validation.cpp`, BIP94, BIP113. The minimum version that BIP34,
BIP65 and BIP66 require is not checked.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from pathlib import Path
from typing import Callable, Mapping, NamedTuple, Optional, Sequence, Union

from ._generated import SPV_HEADER_BYTES
from .errors import LinesideError
from .spv_proof import (
    Header,
    Network,
    ProofError,
    Retarget,
    TransactionProof,
    WitnessProof,
    check_hash,
    decode_target,
    display,
    encode_target,
    hash_bytes,
)

#: Blocks between two changes of the difficulty, on every network.
RETARGET_INTERVAL = 2016
#: Seconds that a header may be ahead of the clock.
MAX_FUTURE_S = 2 * 60 * 60

_TARGET_TIMESPAN_S = 14 * 24 * 60 * 60
_MIN_DIFFICULTY_AFTER_S = 20 * 60
_MEDIAN_TIME_SPAN = 11
_MAX_TIME_WARP_S = 600
_TIME_AND_BITS = struct.Struct("<II")
_TIME_AT = 68


class ChainError(LinesideError):
    """A header is not accepted, or a proof's header is not in the chain."""


class UnknownParent(ChainError):
    """The header's parent was never accepted: ask for the headers before it."""


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
    """Accepted header. Its time and target are in its 80 bytes: a chain has many entries."""

    __slots__ = ("hash", "header", "height", "parent", "real_bits", "work")

    def __init__(self, header: Header, hash: bytes, parent: Optional[_Entry], network: Network) -> None:
        self.header = header.to_bytes()
        self.hash = hash
        self.parent = parent
        self.height: int = 0 if parent is None else parent.height + 1
        self.work: int = header.work() + (0 if parent is None else parent.work)
        before: int = header.bits if parent is None else parent.real_bits
        real_bits = real_bits_after(network, self.height, header.bits, before)
        # Neighbours share the number.
        self.real_bits: int = before if before == real_bits else real_bits

    def fields(self) -> Ancestor:
        """Returns the fields that the rules use."""
        time, bits = _TIME_AND_BITS.unpack_from(self.header, _TIME_AT)
        return Ancestor(time, bits, self.real_bits)


class HeaderChain:
    """Own chain of headers of one network, with its side chains.

    Accepts headers from any source, checks proof of work, parents, difficulty, times and checkpoints, and finds the
    chain with the most work. With a `directory`, the accepted headers are kept in its file `headers.dat`, which is the
    file of `lineside spv sync`, too; one process at a time may use it.

    `checkpoints` maps heights to hashes that every chain must have. `max_headers` limits the memory: one header takes
    about 500 bytes.
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

    def find(self, hash: bytes) -> Optional[tuple[Header, int]]:
        """Returns the header with this hash, also of a side chain, and its height."""
        entry = self._entries.get(hash)
        return None if entry is None else (Header.from_bytes(entry.header), entry.height)

    def height_of(self, hash: bytes) -> Optional[int]:
        """Returns the height of the header with this hash if it is in the chain of most work."""
        entry = self._entries.get(hash)
        return entry.height if entry is not None and self._is_active(entry) else None

    def confirmations(self, height: int) -> int:
        """Returns the number of blocks that confirm a transaction in the block at `height`: 1 for the tip."""
        return max(len(self._active) - height, 0)

    def verify(self, proof: TransactionProof, txid: Union[bytes, str]) -> int:
        """Checks a proof, and that its header is in the chain of most work at its height.

        `txid` is 32 bytes in wire order, or 64 hexadecimal digits as explorers show them.
        Returns the number of confirmations, at least 1. Raises `ChainError` or `ProofError`.
        """
        self._check_header(proof.header, proof.height)
        proof.verify_path(hash_bytes(txid))
        return self.confirmations(proof.height)

    def verify_witness(self, proof: WitnessProof, wtxid: Union[bytes, str]) -> int:
        """Checks a proof by WTXID like `verify`."""
        self._check_header(proof.header, proof.height)
        proof.verify(self.network, hash_bytes(wtxid))
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
        check_hash(header, hash, self.network)
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
                raise ChainError(f"{name}: the checkpoint at this height is {display(expected)}")
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
            return cursor.fields()

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
        parent_time = at(parent.height).time
        is_warped = header.time < parent_time - _MAX_TIME_WARP_S
        if self.network.retarget_rule is Retarget.BIP94 and is_first and is_warped:
            raise ChainError(
                f"{name}: its time {header.time} is more than 600 s before its parent's, {parent_time} (BIP94)"
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

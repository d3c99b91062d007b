"""Bytes of `hybrid` that are signed, hashed and proved, and everything that can be checked without a node.

docs/hybrid-ledger.md of Lineside defines them.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Mapping, NamedTuple, Optional, Sequence, Union

from ._arguments import whole
from ._generated import (
    BLOCK_HEADER,
    HYBRID_CHANGE_ADD_KEY,
    HYBRID_CHANGE_ADD_MEMBER,
    HYBRID_CHANGE_ADD_NODE,
    HYBRID_CHANGE_REVOKE_KEY,
    HYBRID_CHANGE_REVOKE_MEMBER,
    HYBRID_CHANGE_REVOKE_NODE,
    HYBRID_CHANGE_SET_QUORUM,
    HYBRID_CHANGE_SET_RULE,
    HYBRID_EVERYONE,
    HYBRID_KEY_BYTES_MAX,
    HYBRID_READ_LINEARIZABLE,
    HYBRID_READ_LOCAL,
    HYBRID_REQUEST_KEYS_MAX,
    HYBRID_REQUEST_VERSION,
    HYBRID_RIGHT_READ,
    HYBRID_RIGHT_WRITE,
    HYBRID_ROLE_ADMIN,
    HYBRID_ROLE_USER,
    HYBRID_VALUE_BYTES_MAX,
    HYBRID_WRITE_DELETE,
    HYBRID_WRITE_PUT,
    NODE_HEAD,
    REQUEST_HEAD,
    BlockHeader,
    NodeHead,
)
from ._keccak import keccak256
from .errors import LinesideError
from .keys import PublicKey, SecretKey

_REQUEST_TAG = b"lineside/hybrid/1"
_GENESIS_TAG = b"lineside/hybrid/genesis/1"
_BLOCK_TAG = b"lineside/hybrid/block/1"
_HEAD_TAG = b"lineside/hybrid/head/1"
_GENESIS_MAGIC = b"LShybrid"
_DEPTH_MAX = 256
_EMPTY = bytes(32)


class NotProven(LinesideError):
    """A proof, a signed head or a genesis is refused."""


class Version(NamedTuple):
    """Version of a key: the block of its last write, and the index of the request in the block."""

    block: int
    index: int  # type: ignore[assignment]

    def __str__(self) -> str:
        return f"{self.block}.{self.index}"


#: Version of a key that has no value.
ABSENT = Version(0, 0)


# ---- encoding ----


def short(data: bytes) -> bytes:
    """Returns a length in 2 bytes, and the data."""
    if len(data) > 0xFFFF:
        raise ValueError(f"a key, prefix or name of {len(data)} bytes: at most {0xFFFF} are possible")
    return len(data).to_bytes(2, "big") + data


def number_bytes(name: str, value: int, count: int) -> bytes:
    """Returns a number in `count` bytes, big-endian."""
    return whole(name, value, 1 << 8 * count).to_bytes(count, "big")


def long(data: bytes) -> bytes:
    """Returns a length in 4 bytes, and the data."""
    return len(data).to_bytes(4, "big") + data


class Input:
    """Bytes that are read from the front. Every method raises `ValueError` at the end."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        """Reads bytes."""
        taken = self.data[self.at : self.at + count]
        if len(taken) != count:
            raise ValueError("the bytes end too early")
        self.at += count
        return taken

    def number(self, count: int) -> int:
        """Reads a big-endian number of `count` bytes."""
        return int.from_bytes(self.take(count), "big")

    def flag(self) -> bool:
        """Reads 0 or 1."""
        value = self.number(1)
        if value > 1:
            raise ValueError("a flag is neither 0 nor 1")
        return value == 1

    def short(self) -> bytes:
        """Reads a length in 2 bytes, and the data."""
        return self.take(self.number(2))

    def long(self) -> bytes:
        """Reads a length in 4 bytes, and the data."""
        return self.take(self.number(4))

    def rest(self) -> bytes:
        """Reads all that is left."""
        return self.take(len(self.data) - self.at)

    def end(self) -> None:
        """Checks that nothing is left."""
        if self.at != len(self.data):
            raise ValueError("bytes follow the end")


def _key(key: bytes) -> bytes:
    if not 1 <= len(key) <= HYBRID_KEY_BYTES_MAX:
        raise ValueError(f"a key has 1 to {HYBRID_KEY_BYTES_MAX} bytes, not {len(key)}")
    return short(key)


def _count(items: Sequence[object] | Mapping[bytes, object], least: int) -> bytes:
    if not least <= len(items) <= HYBRID_REQUEST_KEYS_MAX:
        raise ValueError(f"a request has {least} to {HYBRID_REQUEST_KEYS_MAX} keys, not {len(items)}")
    return len(items).to_bytes(2, "big")


def _sees(is_linearizable: bool) -> bytes:
    return bytes([HYBRID_READ_LINEARIZABLE if is_linearizable else HYBRID_READ_LOCAL])


def get_body(keys: Sequence[bytes], is_linearizable: bool) -> bytes:
    """Returns the body of `get`; the keys are sorted, each once."""
    return _sees(is_linearizable) + _count(keys, 1) + b"".join(map(_key, keys))


def range_body(start: bytes, stop: bytes, limit: int, is_linearizable: bool) -> bytes:
    """Returns the body of `range`; an empty `stop` means the end."""
    return _sees(is_linearizable) + short(start) + short(stop) + number_bytes("limit", limit, 4)


def history_body(key: bytes, limit: int, before: Optional[Version]) -> bytes:
    """Returns the body of `history`."""
    tail = b"" if before is None else _version(before)
    return _key(key) + number_bytes("limit", limit, 4) + tail


def prove_body(key: bytes) -> bytes:
    """Returns the body of `prove`."""
    return _key(key)


def write_body(reads: Mapping[bytes, Version], writes: Mapping[bytes, Optional[bytes]]) -> bytes:
    """Returns the body of `write`: versions that keys must have, and new values (`None`: delete)."""
    out = [_count(reads, 0)]
    out += [_key(key) + _version(reads[key]) for key in sorted(reads)]
    out.append(_count(writes, 1))
    for key in sorted(writes):
        value = writes[key]
        if value is not None and len(value) > HYBRID_VALUE_BYTES_MAX:
            raise ValueError(f"a value has at most {HYBRID_VALUE_BYTES_MAX} bytes, not {len(value)}")
        kind = bytes([HYBRID_WRITE_DELETE]) if value is None else bytes([HYBRID_WRITE_PUT]) + long(value)
        out.append(_key(key) + kind)
    return b"".join(out)


def _version(version: Version) -> bytes:
    if not isinstance(version, Version):
        raise TypeError(f"{version!r} is not a Version")
    return number_bytes("block", version.block, 8) + number_bytes("index", version.index, 4)


# ---- changes of the membership ----


def add_member(member: int, name: str, key: PublicKey, is_admin: bool = False) -> bytes:
    """Returns the change that adds a member with its first key."""
    role = HYBRID_ROLE_ADMIN if is_admin else HYBRID_ROLE_USER
    head = bytes([HYBRID_CHANGE_ADD_MEMBER]) + number_bytes("member", member, 8)
    return head + short(name.encode("ascii")) + bytes([role]) + key.to_bytes()


def revoke_member(member: int) -> bytes:
    """Returns the change that revokes a member and all its keys."""
    return bytes([HYBRID_CHANGE_REVOKE_MEMBER]) + number_bytes("member", member, 8)


def add_key(member: int, number: int, key: PublicKey) -> bytes:
    """Returns the change that adds a key of a member; a member can make it without votes."""
    whose = number_bytes("member", member, 8) + number_bytes("number", number, 2)
    return bytes([HYBRID_CHANGE_ADD_KEY]) + whose + key.to_bytes()


def revoke_key(member: int, number: int) -> bytes:
    """Returns the change that revokes a key; a member can make it without votes."""
    return bytes([HYBRID_CHANGE_REVOKE_KEY]) + number_bytes("member", member, 8) + number_bytes("number", number, 2)


def set_rule(prefix: bytes, member: int = HYBRID_EVERYONE, can_read: bool = False, can_write: bool = False) -> bytes:
    """Returns the change that sets the rights of a member, or of everyone, below a prefix."""
    rights = (HYBRID_RIGHT_READ if can_read else 0) + (HYBRID_RIGHT_WRITE if can_write else 0)
    return bytes([HYBRID_CHANGE_SET_RULE]) + short(prefix) + number_bytes("member", member, 8) + bytes([rights])


def add_node(node: int, key: PublicKey) -> bytes:
    """Returns the change that adds a node."""
    return bytes([HYBRID_CHANGE_ADD_NODE]) + number_bytes("node", node, 4) + key.to_bytes()


def revoke_node(node: int) -> bytes:
    """Returns the change that revokes a node."""
    return bytes([HYBRID_CHANGE_REVOKE_NODE]) + number_bytes("node", node, 4)


def set_quorum(admins: int) -> bytes:
    """Returns the change that sets the number of admins that must request a change."""
    return bytes([HYBRID_CHANGE_SET_QUORUM]) + number_bytes("admins", admins, 2)


def change_body(change: bytes, until_ms: int) -> bytes:
    """Returns the body of `change`: enough admins must request the same change until the same time."""
    return number_bytes("until_ms", until_ms, 8) + change


# ---- signatures ----


def digest(curve: str, *parts: bytes) -> bytes:
    """Returns the digest that a key of this curve signs: Keccak-256 for secp256k1, SHA-256 for P-256."""
    return keccak256(*parts) if curve == "secp256k1" else hashlib.sha256(b"".join(parts)).digest()


def transaction_id(signed: bytes) -> bytes:
    """Returns the id of a request, given its bytes after the signature."""
    return keccak256(_REQUEST_TAG, signed)


def sign_request(secret: SecretKey, signed: bytes) -> bytes:
    """Returns a request: its signature, and the signed bytes."""
    return secret.sign(digest(secret.curve, _REQUEST_TAG, signed)) + signed


def signed_bytes(
    op: int, database: bytes, member: int, key_number: int, nonce: int, expiry_ms: int, body: bytes
) -> bytes:
    """Returns the bytes of a request that are signed."""
    head = REQUEST_HEAD.pack(HYBRID_REQUEST_VERSION, op, key_number, database, member, nonce, expiry_ms)
    return head + body


# ---- genesis, blocks, heads ----


class Member(NamedTuple):
    """Member of a genesis."""

    number: int
    name: str
    is_admin: bool
    key: PublicKey


class Genesis:
    """First record of a ledger: the database's id, its first nodes and its first members."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        #: Id of the database.
        self.database = keccak256(_GENESIS_TAG, data)[:16]
        self.members: list[Member] = []
        self.nodes: dict[int, PublicKey] = {}
        self.quorum = 0
        try:
            self._read(Input(data))
        except ValueError as error:
            raise NotProven(f"this is not the genesis of a database: {error}") from error

    @classmethod
    def from_file(cls, path: Union[str, Path]) -> Genesis:
        """Reads `genesis.bin`, as `lineside hybrid init` makes it."""
        return cls(Path(path).read_bytes())

    def _read(self, input: Input) -> None:
        if input.take(8) != _GENESIS_MAGIC:
            raise ValueError("it has other first bytes")
        #: True: the database accepts only the paper's requests for reads and writes.
        self.is_paper_mode = {1: False, 2: True}.get(input.number(1), None)
        if self.is_paper_mode is None:
            raise ValueError("it has an unknown version")
        self.name = input.short().decode()
        self.time_ms = input.number(8)
        for _ in range(input.number(4)):
            kind = input.number(1)
            if kind == HYBRID_CHANGE_ADD_NODE:
                number = input.number(4)
                self.nodes[number] = PublicKey.from_bytes(input.take(34))
            elif kind == HYBRID_CHANGE_ADD_MEMBER:
                number, name, role = input.number(8), input.short().decode(), input.number(1)
                key = PublicKey.from_bytes(input.take(34))
                self.members.append(Member(number, name, role == HYBRID_ROLE_ADMIN, key))
            elif kind == HYBRID_CHANGE_SET_RULE:
                input.short()
                input.take(9)
            elif kind == HYBRID_CHANGE_SET_QUORUM:
                self.quorum = input.number(2)
            else:
                raise ValueError("it has an unknown change")
        input.end()

    def member_of(self, key: PublicKey) -> Optional[Member]:
        """Returns the member that has this key."""
        return next((member for member in self.members if member.key == key), None)


def read_header(data: bytes) -> BlockHeader:
    """Reads the header of a block."""
    if len(data) != BLOCK_HEADER.size:
        raise NotProven(f"the header of a block has {BLOCK_HEADER.size} bytes, not {len(data)}")
    return BlockHeader(*BLOCK_HEADER.unpack(data))


def block_hash(header: BlockHeader) -> bytes:
    """Returns the hash of a block."""
    return keccak256(_BLOCK_TAG, BLOCK_HEADER.pack(*header))


def read_head(data: bytes) -> NodeHead:
    """Reads a node's signed statement about a block."""
    if len(data) != NODE_HEAD.size:
        raise NotProven(f"a signed head has {NODE_HEAD.size} bytes, not {len(data)}")
    return NodeHead(*NODE_HEAD.unpack(data))


def check_head(head: NodeHead, genesis: Genesis, key: Optional[PublicKey] = None) -> bytes:
    """Checks that a node has signed a block, and returns the block's hash.

    `key` is the node's key; default: its key in the genesis. The hash is as trustworthy as the node.
    """
    key = key or genesis.nodes.get(head.node)
    if key is None:
        raise NotProven(f"the genesis has no node {head.node}: give its key")
    node, number = head.node.to_bytes(4, "big"), head.number.to_bytes(8, "big")
    message = digest(key.curve, _HEAD_TAG, genesis.database, node, number, head.hash)
    if not key.is_signature(message, head.r + head.s):
        raise NotProven(f"the signature is not of node {head.node}'s key for this database")
    return head.hash


# ---- proofs ----


class StateProof(NamedTuple):
    """Proof of the value of a key at the end of a block, or of its absence."""

    header: BlockHeader
    #: version of the cell; `ABSENT` if there is none
    version: Version
    #: siblings on the path from the root down; an empty one is 32 zero bytes
    siblings: tuple[bytes, ...]
    #: `True`: the path ends at the key's own leaf; `False`: at an empty place; place and content: at another leaf
    end: Union[bool, tuple[bytes, bytes]]

    @classmethod
    def decode(cls, data: bytes) -> StateProof:
        """Reads a proof. Every other encoding than that of a node is refused."""
        try:
            return cls._read(Input(data))
        except ValueError as error:
            raise NotProven(f"proof: {error}") from error

    @classmethod
    def _read(cls, input: Input) -> StateProof:
        header = read_header(input.take(BLOCK_HEADER.size))
        version = Version(input.number(8), input.number(4))
        head = input.number(2)
        kind, depth = head >> 14, head & 0x3FFF
        if depth > _DEPTH_MAX or kind > 2:
            raise ValueError("its path is impossible")
        size = (depth + 7) // 8
        # One bit for each depth from the root down; those after them are zeros.
        present = f"{input.number(size):0{8 * size}b}" if size else ""
        if "1" in present[depth:]:
            raise ValueError("its encoding is not canonical")
        siblings = tuple(input.take(32) if bit == "1" else _EMPTY for bit in present[:depth])
        if sum(sibling != _EMPTY for sibling in siblings) != present.count("1"):
            raise ValueError("its encoding is not canonical")
        end: Union[bool, tuple[bytes, bytes]] = (input.take(32), input.take(32)) if kind == 2 else kind == 1
        input.end()
        # The deepest inner node holds two leaves, so the sibling of the path's end is not empty.
        if (depth and siblings[-1] == _EMPTY) or (depth == _DEPTH_MAX and end is not True):
            raise ValueError("its path is impossible in any tree")
        if (version == ABSENT) == (end is True):
            raise ValueError("its version does not match its path")
        return cls(header, version, siblings, end)

    def check(self, block_hash_: bytes, key: bytes, value: Optional[bytes]) -> None:
        """Checks that `key` had `value`, or no value (`None`), at the end of the block with this hash."""
        if block_hash(self.header) != block_hash_:
            raise NotProven("proof: it is for another block than the one whose hash was given")
        if (value is None) != (self.version == ABSENT):
            raise NotProven("proof: the state has another value at this key, or none")
        place = keccak256(b"v", key)
        if self.end is True:
            node = keccak256(b"\0", place, keccak256(_version(self.version), value or b""))
        elif self.end is False:
            node = _EMPTY
        else:
            other, content = self.end
            shared = _DEPTH_MAX - (int.from_bytes(other, "big") ^ int.from_bytes(place, "big")).bit_length()
            if other == place or shared < len(self.siblings):
                raise NotProven("proof: the other leaf does not show that the key is absent")
            node = keccak256(b"\0", other, content)
        for depth in range(len(self.siblings) - 1, -1, -1):
            is_right = place[depth // 8] >> (7 - depth % 8) & 1
            sibling = self.siblings[depth]
            node = keccak256(b"\1", sibling, node) if is_right else keccak256(b"\1", node, sibling)
        if node != self.header.state_root:
            raise NotProven("proof: it is of another key, value or block, or it was forged")

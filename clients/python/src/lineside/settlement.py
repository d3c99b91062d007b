"""Proofs that an operation is in a sealed block of a `transfer` ledger, as `lineside transfer prove` prints them."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import NamedTuple, Optional, Sequence, Union

from ._generated import OPERATION, Operation, TransferCode
from .errors import LinesideError
from .keys import PublicKey

# The block is a record of the journal and no packet: its layout is that of crates/transfer/src/settlement.rs.
_HEAD = struct.Struct("<Q32s32sQQ16sQQ")
_DOMAIN = b"lineside transfer block 1\0"


class SettlementError(LinesideError):
    """The proof is wrong, or shows nothing."""


class Block(NamedTuple):
    """Signed head of a sealed block."""

    number: int
    previous: bytes
    #: RFC 6962 Merkle root over the operations
    root: bytes
    #: number of the first operation
    first: int
    #: number of operations
    count: int  # type: ignore[assignment]
    #: sum of all issued amounts, which equals the sum of all balances
    issued: int
    #: number of accounts
    accounts: int
    #: server's clock when the block was sealed, in seconds since 1970
    sealed_s: int
    #: ECDSA over secp256k1: r and s
    signature: bytes

    @classmethod
    def from_bytes(cls, data: bytes) -> Block:
        """Reads the bytes of a block."""
        if len(data) != _HEAD.size + 64:
            raise SettlementError(f"a block has {_HEAD.size + 64} bytes, not {len(data)}")
        number, previous, root, first, count, issued, accounts, sealed_s = _HEAD.unpack_from(data)
        amount = int.from_bytes(issued, "little")
        return cls(number, previous, root, first, count, amount, accounts, sealed_s, data[_HEAD.size :])

    def hash(self) -> bytes:
        """Returns the hash that is signed and that the next block contains."""
        issued = self.issued.to_bytes(16, "little")
        fields = (self.number, self.previous, self.root, self.first, self.count, issued, self.accounts, self.sealed_s)
        return hashlib.sha256(_DOMAIN + _HEAD.pack(*fields)).digest()

    def is_signed_by(self, key: PublicKey) -> bool:
        """Returns whether the server with this key signed the block."""
        return key.is_signature(self.hash(), self.signature)


class ProvenOperation(NamedTuple):
    """Operation that is proved to be in a block."""

    operation: Operation
    code: TransferCode
    #: balance of the source after the operation
    balance: int
    block: Block


class InclusionProof(NamedTuple):
    """Proof that one operation is in one block."""

    #: operation with its code and number, then the balance of its source after it (8 bytes)
    leaf: bytes
    #: index of the operation in the block, from 0
    index: int  # type: ignore[assignment]
    #: hashes of the Merkle path, from the operation to the root (RFC 6962, section 2.1.1)
    path: tuple[bytes, ...]
    block: Block

    @classmethod
    def from_json(cls, text: str) -> InclusionProof:
        """Reads the output of `lineside transfer prove`."""
        try:
            printed = json.loads(text)
            path = tuple(bytes.fromhex(hash) for hash in printed["path"])
            leaf, block = bytes.fromhex(printed["operation"]), Block.from_bytes(bytes.fromhex(printed["block"]))
            proof = cls(leaf, int(printed["index"]), path, block)
            claimed = bytes.fromhex(printed["block_hash"])
        except (ValueError, KeyError, TypeError) as error:
            raise SettlementError(f"this is not a proof as `prove` prints it: {error}") from error
        if claimed != block.hash():
            raise SettlementError("the proof is wrong: it names another hash of its block")
        return proof

    def verify(
        self, key: Union[PublicKey, bytes, str, None] = None, block_hash: Optional[bytes] = None
    ) -> ProvenOperation:
        """Checks the proof against the server's key, or the hash of a trusted block, or both.

        `key` is the content of the server's file `settlement.pub` (text or bytes: 66 hexadecimal digits), the 33 bytes
        of the point, or a `lineside.keys.PublicKey`. Raises `SettlementError` if the proof is wrong.
        """
        key = None if key is None else _public_key(key)
        if key is None and block_hash is None:
            raise SettlementError("a proof shows nothing without a trusted value: give `key` or `block_hash`")
        if len(self.leaf) != OPERATION.size + 8:
            raise SettlementError("the proof is wrong: it does not contain an operation")
        operation = Operation(*OPERATION.unpack_from(self.leaf))
        if operation.number != self.block.first + self.index:
            raise SettlementError("the proof is wrong: the operation's number does not match its place in the block")
        root = _root(hashlib.sha256(b"\x00" + self.leaf).digest(), self.index, self.block.count, self.path)
        if root != self.block.root:
            raise SettlementError("the proof is wrong: the path does not lead to the block's root")
        if block_hash is not None and self.block.hash() != block_hash:
            raise SettlementError("the proof is of another block")
        if key is not None and not self.block.is_signed_by(key):
            raise SettlementError("the block is not signed by this key")
        try:
            code = TransferCode(operation.code)
        except ValueError:
            raise SettlementError(f"the operation in the proof has an unknown code: {operation.code}") from None
        balance = int.from_bytes(self.leaf[OPERATION.size :], "big")
        return ProvenOperation(operation, code, balance, self.block)


def _public_key(key: Union[PublicKey, bytes, str]) -> PublicKey:
    if isinstance(key, PublicKey):
        return key
    if not isinstance(key, (bytes, str)):
        raise TypeError(f"{key!r}: a key is the content of `settlement.pub`, or a lineside.keys.PublicKey")
    if isinstance(key, bytes) and len(key) == 34:
        return PublicKey.from_bytes(key)
    try:
        if isinstance(key, bytes) and len(key) == 33:
            return PublicKey("secp256k1", key)
        text = (key if isinstance(key, str) else key.decode("ascii")).strip()
        return PublicKey.parse(text if ":" in text else f"secp256k1:{text}")
    except ValueError as error:
        raise ValueError(f"this is no key as `settlement.pub` has it, 66 hexadecimal digits: {error}") from None


def _root(leaf: bytes, index: int, count: int, path: Sequence[bytes]) -> Optional[bytes]:
    """Returns the root that the path leads to (RFC 9162, section 2.1.3.2); `None` if the path has a wrong length."""
    if not 0 <= index < count:
        return None
    node, position, last = leaf, index, count - 1
    for sibling in path:
        if last == 0:
            return None
        if position & 1 or position == last:
            node = hashlib.sha256(b"\x01" + sibling + node).digest()
            while not position & 1 and position:
                position, last = position >> 1, last >> 1
        else:
            node = hashlib.sha256(b"\x01" + node + sibling).digest()
        position, last = position >> 1, last >> 1
    return node if last == 0 else None

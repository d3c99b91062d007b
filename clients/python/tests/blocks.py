"""Makes blocks of regtest: headers with proof of work, transactions with witnesses, block files of Bitcoin Core."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from lineside.spv_proof import Header, Network


def mine(header: Header) -> Header:
    """Returns the header with the first nonce that gives it its proof of work."""
    target = header.target()
    limit = target if target is not None else 2**256
    start = header.to_bytes()[:76]
    nonce = 0
    while int.from_bytes(_twice(start + nonce.to_bytes(4, "little")), "little") > limit:
        nonce += 1
    return header._replace(nonce=nonce)


def _twice(data: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


def _root(leaves: list[bytes]) -> bytes:
    while len(leaves) > 1:
        if len(leaves) % 2:
            leaves = [*leaves, leaves[-1]]
        leaves = [_twice(leaves[at] + leaves[at + 1]) for at in range(0, len(leaves), 2)]
    return leaves[0]


def _output(script: bytes, value: int = 0) -> bytes:
    return value.to_bytes(8, "little") + bytes([len(script)]) + script


class Block(NamedTuple):
    """Block with its transactions."""

    header: Header
    txids: list[bytes]
    wtxids: list[bytes]
    raw: bytes


def make_block(parent: Header, height: int, transactions: int) -> Block:
    """Returns a block whose transactions have witnesses."""
    bodies, wholes = [], []
    for index in range(1, transactions):
        previous = hashlib.sha256(f"{height} {index}".encode()).digest() + bytes(4)
        body = b"\x01" + previous + b"\0" + b"\xff" * 4 + b"\x01" + _output(b"\x51" * 20, 1000)
        bodies.append(b"\x02\0\0\0" + body + bytes(4))
        wholes.append(b"\x02\0\0\0\0\x01" + body + b"\x01\x03sig" + bytes(4))
    wtxids = [bytes(32)] + [_twice(whole) for whole in wholes]
    reserved = bytes(32)
    commitment = bytes.fromhex("6a24aa21a9ed") + _twice(_root(wtxids) + reserved)
    number = height.to_bytes(4, "little").rstrip(b"\0")
    # BIP34: the script begins with the height; small numbers have an opcode of their own.
    script = (bytes([0x50 + height]) if height <= 16 else bytes([len(number)]) + number) + b"\0\0"
    base = b"\x01" + bytes(32) + b"\xff" * 4 + bytes([len(script)]) + script + b"\xff" * 4
    base += b"\x02" + _output(b"\x51" * 20, 5_000_000_000 >> height // 150) + _output(commitment)
    coinbase = b"\x02\0\0\0" + base + bytes(4)
    with_witness = b"\x02\0\0\0\0\x01" + base + b"\x01\x20" + reserved + bytes(4)
    txids = [_twice(coinbase)] + [_twice(body) for body in bodies]
    header = mine(Header(4, parent.hash(), _root(txids), parent.time + 600, parent.bits, 0))
    raw = header.to_bytes() + bytes([transactions]) + with_witness + b"".join(wholes)
    return Block(header, txids, wtxids, raw)


GENESIS_TRANSACTION = bytes.fromhex(
    "01000000010000000000000000000000000000000000000000000000000000000000000000ffffffff4d04ffff001d0104455468652054696d"
    "65732030332f4a616e2f32303039204368616e63656c6c6f72206f6e206272696e6b206f66207365636f6e64206261696c6f757420666f7220"
    "62616e6b73ffffffff0100f2052a01000000434104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61deb649f6bc3f"
    "4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5fac00000000"
)


def make_chain(blocks: int, transactions: int = 5) -> list[Block]:
    """Returns a chain of regtest after the genesis block."""
    parent, made = Network.REGTEST.genesis(), []
    for height in range(1, blocks + 1):
        made.append(make_block(parent, height, transactions))
        parent = made[-1].header
    return made


def block_file(blocks: list[Block]) -> bytes:
    """Returns the content of a file `blk00000.dat` with the genesis block and these blocks."""
    raws = [Network.REGTEST.genesis().to_bytes() + b"\x01" + GENESIS_TRANSACTION] + [block.raw for block in blocks]
    return b"".join(Network.REGTEST.magic + len(raw).to_bytes(4, "little") + raw for raw in raws)

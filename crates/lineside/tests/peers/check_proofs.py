"""Checks headers and Merkle proofs with python-bitcoinlib, which shares no code with Lineside.

Standard input: a JSON object with `headers`, the hexadecimal headers of a regtest chain from height 0 on, and `proofs`,
a list of [TXID as it is printed, height, merkleblock]. Prints the number of proofs that hold; ends with 1 at the first
one that does not.
"""
import json
import struct
import sys
from io import BytesIO

import bitcoin
from bitcoin.core import CBlockHeader, CheckBlockHeader, Hash, b2lx, lx, x
from bitcoin.core.serialize import BytesSerializer, VarIntSerializer


def partial_tree_root(count, hashes, bits):
    """Root of a partial Merkle tree and the TXIDs that it names, as BIP 37 describes it."""
    hashes, bits, found = iter(hashes), iter(bits), []

    def width(level):
        return (count + (1 << level) - 1) >> level

    def node(level, place):
        is_parent = next(bits)
        if level == 0 or not is_parent:
            one = next(hashes)
            if level == 0 and is_parent:
                found.append(one)
            return one
        left = node(level - 1, 2 * place)
        if 2 * place + 1 >= width(level - 1):
            return Hash(left + left)
        right = node(level - 1, 2 * place + 1)
        assert left != right, "two equal siblings (CVE-2012-2459)"
        return Hash(left + right)

    levels = 0
    while width(levels) > 1:
        levels += 1
    root = node(levels, 0)
    assert next(hashes, None) is None, "hashes are left over"
    assert not any(bits), "bits are left over"
    return root, found


def check(headers, txid, height, raw):
    stream = BytesIO(x(raw))
    header = CBlockHeader.stream_deserialize(stream)
    count = struct.unpack("<I", stream.read(4))[0]
    hashes = [stream.read(32) for _ in range(VarIntSerializer.stream_deserialize(stream))]
    flags = BytesSerializer.stream_deserialize(stream)
    assert stream.read() == b"", "bytes are left over"
    bits = [flags[place // 8] >> place % 8 & 1 for place in range(8 * len(flags))]
    root, found = partial_tree_root(count, hashes, bits)
    assert header.GetHash() == headers[height].GetHash(), "the proof's header is not the chain's"
    assert root == header.hashMerkleRoot, "the root is not the header's: %s" % b2lx(root)
    assert found == [lx(txid)], "the proof names another transaction"


def main():
    bitcoin.SelectParams("regtest")
    given = json.load(sys.stdin)
    headers = [CBlockHeader.deserialize(x(header)) for header in given["headers"]]
    assert headers[0].GetHash() == bitcoin.params.GENESIS_BLOCK.GetHash(), "another first block"
    for parent, header in zip(headers, headers[1:]):
        assert header.hashPrevBlock == parent.GetHash(), "a header does not follow the one before"
        CheckBlockHeader(header)
    for txid, height, raw in given["proofs"]:
        check(headers, txid, height, raw)
    print(len(given["proofs"]))


main()

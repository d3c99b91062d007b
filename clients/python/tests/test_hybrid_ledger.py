"""Bytes, digests, signatures and proofs of `hybrid`, against the shared vectors and against vectors/hybrid_rules.py.

hybrid_rules.py shares no code with the package: it is an oracle for Keccak-256, ECDSA, and the state's tree.
"""

from __future__ import annotations

import hashlib
import random
import sys
from typing import Any, Optional

import pytest
from vectors import VECTORS, load, raw, vectors

from lineside import hybrid as h
from lineside._generated import BLOCK_HEADER, REQUEST_HEAD, HybridCode
from lineside._keccak import keccak256
from lineside.hybrid_ledger import (
    Input,
    change_body,
    digest,
    get_body,
    history_body,
    prove_body,
    range_body,
    sign_request,
    signed_bytes,
    transaction_id,
    write_body,
)

sys.path.insert(0, str(VECTORS))
import hybrid_rules  # type: ignore[import-not-found]  # noqa: E402

DATABASE = raw(load("hybrid/requests")["database"])
CURVES = {1: "p256", 2: "secp256k1"}


def test_keccak_is_the_oracles() -> None:
    assert keccak256() == raw("c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470")
    rng = random.Random(1)
    for length in [*range(0, 10), *range(130, 140), *range(268, 276), 1000, 5000]:
        data = rng.randbytes(length)
        assert keccak256(data[:7], data[7:]) == hybrid_rules.keccak(data), length


def test_signatures_are_valid_and_those_of_others_are_not() -> None:
    for oracle, curve in ((hybrid_rules.K1, "secp256k1"), (hybrid_rules.P256, "p256")):
        for number in (1, 2, oracle.n - 1, 0x1234567890ABCDEF):
            key = h.SecretKey(curve, number.to_bytes(32, "big"))
            assert key.public.point == oracle.public(number)
            message = hashlib.sha256(str(number).encode()).digest()
            assert key.public.is_signature(message, oracle.sign(number, message))
            mine = key.sign(message)
            assert key.public.is_signature(message, mine)
            high = mine[:32] + (oracle.n - int.from_bytes(mine[32:], "big")).to_bytes(32, "big")
            assert not key.public.is_signature(message, high)
            assert not key.public.is_signature(bytes(32), mine)
            assert h.PublicKey.parse(str(key.public)) == key.public


def body_again(op: int, body: bytes) -> bytes:
    """Returns the body that the package writes for the content of a body."""
    input = Input(body)
    if op == 1:
        sees = input.flag()
        return get_body([input.short() for _ in range(input.number(2))], sees)
    if op == 2:
        sees = input.flag()
        return range_body(input.short(), input.short(), input.number(4), sees)
    if op == 3:
        return prove_body(input.short())
    if op == 4:
        key, limit, rest = input.short(), input.number(4), input.rest()
        before = h.Version(*(int.from_bytes(part, "big") for part in (rest[:8], rest[8:]))) if rest else None
        return history_body(key, limit, before)
    if op == 16:
        reads = {input.short(): h.Version(input.number(8), input.number(4)) for _ in range(input.number(2))}
        writes = {}
        for _ in range(input.number(2)):
            key = input.short()
            writes[key] = None if input.number(1) else input.long()
        # In another order: the package sorts the keys.
        return write_body(dict(reversed(reads.items())), dict(reversed(writes.items())))
    if op == 17:
        until = input.number(8)
        return change_body(change_again(input), until)
    return body


def change_again(input: Input) -> bytes:
    """Returns the change that the package writes for the content of a change."""
    kind = input.number(1)
    if kind in (1, 2, 3, 4):
        member = input.number(8)
        if kind == 1:
            name, role = input.short().decode(), input.number(1)
            return h.add_member(member, name, h.PublicKey.from_bytes(input.take(34)), role == 1)
        if kind == 2:
            return h.revoke_member(member)
        number = input.number(2)
        if kind == 3:
            return h.add_key(member, number, h.PublicKey.from_bytes(input.take(34)))
        return h.revoke_key(member, number)
    if kind == 5:
        prefix, member, rights = input.short(), input.number(8), input.number(1)
        return h.set_rule(prefix, member, bool(rights & 1), bool(rights & 2))
    if kind in (6, 7):
        node = input.number(4)
        return h.add_node(node, h.PublicKey.from_bytes(input.take(34))) if kind == 6 else h.revoke_node(node)
    assert kind == 8
    return h.set_quorum(input.number(2))


def test_requests_are_those_of_the_vectors() -> None:
    operations, kinds = set(), set()
    for vector in vectors("hybrid/requests"):
        signed, curve = raw(vector["signed"]), CURVES[vector["curve"]]
        head = REQUEST_HEAD.unpack_from(signed)
        _, op, key_number, database, member, nonce, expiry = head
        body = body_again(op, signed[REQUEST_HEAD.size :])
        assert signed_bytes(op, database, member, key_number, nonce, expiry, body) == signed, vector["what"]
        assert digest(curve, b"lineside/hybrid/1", signed) == raw(vector["digest"]), vector["what"]
        assert transaction_id(signed) == raw(vector["id"]), vector["what"]
        key = h.SecretKey(curve, raw(vector["secret"]))
        assert key.public.is_signature(raw(vector["digest"]), raw(vector["signature"])), vector["what"]
        # With the nonces of RFC 6979 the signature is the vector's, too.
        assert sign_request(key, signed) == raw(vector["signature"]) + signed, vector["what"]
        operations.add(op)
        if op == 17:
            kinds.add(signed[REQUEST_HEAD.size + 8])
    assert operations == {1, 2, 3, 4, 5, 6, 7, 16, 17} and kinds == set(range(1, 9))


def test_the_requests_of_a_ledger_are_written_again_byte_for_byte() -> None:
    state = load("hybrid/ledger")
    keys = {number: h.SecretKey(CURVES[1 + (number < 3)], raw(state[f"secret_{number}"])) for number in (1, 2, 3)}
    signed_again = 0
    for vector in state["vector"]:
        request = raw(vector["request"])
        signed = request[64:]
        _, op, key_number, database, member, nonce, expiry = REQUEST_HEAD.unpack_from(signed)
        body = body_again(op, signed[REQUEST_HEAD.size :])
        assert signed_bytes(op, database, member, key_number, nonce, expiry, body) == signed, vector["what"]
        if vector["code"] == HybridCode.DONE and key_number == 0:
            assert sign_request(keys[member], signed) == request, vector["what"]
            signed_again += 1
    assert signed_again >= 8


def test_what_no_request_can_say_is_a_value_error() -> None:
    """The vectors of refused.toml that the package could be asked to write."""
    key = h.SecretKey.generate().public
    for refused in (
        lambda: write_body({}, {}),
        lambda: write_body({}, {b"": b"v"}),
        lambda: write_body({}, {b"k" * 1025: b"v"}),
        lambda: write_body({}, {number.to_bytes(4, "big"): b"" for number in range(1001)}),
        lambda: write_body({}, {b"k": bytes(262_145)}),
        lambda: get_body([], False),
        lambda: h.add_member(1, "\xe9", key),
        lambda: h.PublicKey.from_bytes(b"\3" + key.point),
    ):
        with pytest.raises(ValueError):
            refused()


def test_the_genesis_and_the_blocks_of_the_vectors() -> None:
    state = load("hybrid/ledger")
    genesis = h.Genesis(raw(state["genesis"]))
    assert genesis.database == DATABASE
    assert [(member.number, member.name, member.is_admin) for member in genesis.members] == [
        (1, "ada", True),
        (2, "ben", True),
        (3, "cy", False),
    ]
    assert (genesis.name, genesis.quorum, genesis.is_paper_mode) == ("vectors", 2, False)
    node = h.SecretKey("secp256k1", raw(state["node_secret"]))
    assert genesis.nodes == {1: node.public}
    for number, curve in ((1, "secp256k1"), (2, "secp256k1"), (3, "p256")):
        found = genesis.member_of(h.SecretKey(curve, raw(state[f"secret_{number}"])).public)
        assert found is not None and found.number == number
    assert h.Genesis(raw(load("hybrid/paper")["genesis"])).is_paper_mode is True
    for wrong in (genesis.data[:-1], genesis.data + b"\0", b"x" + genesis.data[1:], genesis.data[:8] + b"\3"):
        with pytest.raises(h.NotProven):
            h.Genesis(wrong)


# ---- proofs, made with the oracle ----


def oracle_proof(
    leaves: dict[bytes, bytes], place: bytes
) -> tuple[list[Optional[bytes]], Optional[tuple[bytes, bytes]]]:
    """Returns the siblings from the root down (None: empty), and the leaf at the end of the path of a place."""
    siblings: list[Optional[bytes]] = []
    depth = 0
    while len(leaves) > 1:
        sides: tuple[dict[bytes, bytes], dict[bytes, bytes]] = ({}, {})
        for other, content in leaves.items():
            sides[other[depth // 8] >> (7 - depth % 8) & 1][other] = content
        side = place[depth // 8] >> (7 - depth % 8) & 1
        sibling = hybrid_rules.map_root(sides[1 - side], depth + 1)
        siblings.append(None if sibling == bytes(32) else sibling)
        leaves, depth = sides[side], depth + 1
    return siblings, next(iter(leaves.items()), None)


def encoded(header: bytes, version: h.Version, leaves: dict[bytes, bytes], place: bytes) -> bytes:
    siblings, leaf = oracle_proof(leaves, place)
    kind = 0 if leaf is None else 1 if leaf[0] == place else 2
    bits = "".join("0" if sibling is None else "1" for sibling in siblings)
    bits = bits.ljust((len(bits) + 7) // 8 * 8, "0")
    marks = int(bits, 2).to_bytes(len(bits) // 8, "big") if bits else b""
    out = header + version.block.to_bytes(8, "big") + version.index.to_bytes(4, "big")
    out += (kind << 14 | len(siblings)).to_bytes(2, "big") + marks
    out += b"".join(sibling for sibling in siblings if sibling is not None)
    return out + (b"".join(leaf) if leaf is not None and kind == 2 else b"")


def content(version: h.Version, value: bytes) -> bytes:
    found: bytes = hybrid_rules.keccak(version.block.to_bytes(8, "big"), version.index.to_bytes(4, "big"), value)
    return found


def header_of(leaves: dict[bytes, bytes]) -> bytes:
    fields: list[Any] = [DATABASE, 7, 7, 1, 1, 1, *[bytes(32)] * 4, hybrid_rules.map_root(leaves), bytes(32)]
    return BLOCK_HEADER.pack(*fields)


def test_proofs_of_the_oracles_tree_hold_and_changed_ones_do_not() -> None:
    rng = random.Random(3)
    kinds = set()
    for count in (0, 1, 2, 3, 25):
        cells = {f"key {n}".encode(): (h.Version(1 + n, n), rng.randbytes(n)) for n in range(count)}
        leaves = {hybrid_rules.keccak(b"v", key): content(*cell) for key, cell in cells.items()}
        header = header_of(leaves)
        hash = hybrid_rules.keccak(b"lineside/hybrid/block/1", header)
        assert h.block_hash(h.read_header(header)) == hash
        for key in [*cells, b"absent 1", b"absent 2", b"absent 3"]:
            version, value = cells.get(key, (h.ABSENT, None))
            data = encoded(header, version, leaves, hybrid_rules.keccak(b"v", key))
            proof = h.StateProof.decode(data)
            proof.check(hash, key, value)
            kinds.add(proof.end if isinstance(proof.end, bool) else "other")
            for wrong_hash, wrong_key, wrong_value in (
                (bytes(32), key, value),
                (hash, b"another key", value),
                (hash, key, b"another value"),
                (hash, key, None if value is not None else b""),
            ):
                if (wrong_hash, wrong_key, wrong_value) == (hash, b"another key", None):
                    continue
                with pytest.raises(h.NotProven):
                    proof.check(wrong_hash, wrong_key, wrong_value)
            with pytest.raises(h.NotProven):
                h.StateProof.decode(data + b"\0")
            for _ in range(3):
                at = rng.randrange(len(data))
                changed = data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :]
                with pytest.raises(h.NotProven):
                    h.StateProof.decode(changed).check(hash, key, value)
                with pytest.raises(h.NotProven):
                    h.StateProof.decode(data[:at])
            if value is not None:
                forged = forged_absence(header, leaves, hybrid_rules.keccak(b"v", key))
                with pytest.raises(h.NotProven, match="the other leaf"):
                    h.StateProof.decode(forged).check(hash, key, None)
    assert kinds == {True, False, "other"}


def forged_absence(header: bytes, leaves: dict[bytes, bytes], place: bytes) -> bytes:
    """Returns a proof that shows a key's own leaf as that of another key: its path leads to the root."""
    own = encoded(header, h.Version(1, 0), leaves, place)
    at = len(header) + 12
    head = int.from_bytes(own[at : at + 2], "big") & 0x3FFF | 2 << 14
    return header + bytes(12) + head.to_bytes(2, "big") + own[at + 2 :] + place + leaves[place]


def test_a_path_with_an_empty_deepest_sibling_is_refused() -> None:
    place = hybrid_rules.keccak(b"v", b"key")
    leaves = {place: content(h.Version(1, 0), b"v")}
    good = encoded(header_of(leaves), h.Version(1, 0), leaves, place)
    assert h.StateProof.decode(good).siblings == ()
    deeper = good[:-2] + (1 << 14 | 1).to_bytes(2, "big") + b"\0"
    with pytest.raises(h.NotProven, match="impossible in any tree"):
        h.StateProof.decode(deeper)
    with pytest.raises(h.NotProven, match="not canonical"):
        h.StateProof.decode(good[:-2] + (1 << 14 | 1).to_bytes(2, "big") + b"\x40")
    with pytest.raises(h.NotProven, match="not canonical"):
        h.StateProof.decode(good[:-2] + (1 << 14 | 1).to_bytes(2, "big") + b"\x80" + bytes(32))
    with pytest.raises(h.NotProven, match="impossible"):
        h.StateProof.decode(good[:-2] + (1 << 14 | 257).to_bytes(2, "big") + bytes(33))


def test_a_signed_head_is_checked_with_the_nodes_key() -> None:
    state = load("hybrid/ledger")
    genesis = h.Genesis(raw(state["genesis"]))
    hash, node, number = bytes([9]) * 32, (1).to_bytes(4, "big"), (12).to_bytes(8, "big")
    secret = int(state["node_secret"], 16)
    message = hybrid_rules.keccak(b"lineside/hybrid/head/1", genesis.database, node, number, hash)
    data = node + number + bytes(8) + hash + hybrid_rules.K1.sign(secret, message)
    head = h.read_head(data)
    assert h.check_head(head, genesis) == hash
    assert h.check_head(head, genesis, h.SecretKey("secp256k1", secret.to_bytes(32, "big")).public) == hash
    for wrong in (head._replace(number=13), head._replace(hash=bytes(32)), head._replace(node=2)):
        with pytest.raises(h.NotProven):
            h.check_head(wrong, genesis)
    with pytest.raises(h.NotProven, match="116 bytes"):
        h.read_head(data[:-1])

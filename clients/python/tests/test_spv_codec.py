"""Requests and replies of `spv`, against the shared vectors."""

from __future__ import annotations

from typing import Any

from vectors import raw, vectors

from lineside import Refused, Status, spv
from lineside._core import Again, NativeCall, native_id
from lineside._generated import (
    SPV_OP_HEADERS,
    SPV_OP_PROOF,
    SPV_OP_ROOT,
    SPV_OP_ROOTS,
    SPV_OP_WITNESS_PROOF,
    SPV_OP_WTXID_PROOF,
)

FILES = ["payloads", "proofs", "witnesses", "loopback", "chain-changing", "lease-over", "frames"]


def call_of(request: bytes) -> Any:
    """Returns the client's call for a request of the vectors; it keeps the vector's room."""
    op, body = request[3], request[16:]
    requests = spv.Requests()
    if op == SPV_OP_ROOT:
        return next(requests.root(body[:32]))
    if op == SPV_OP_ROOTS:
        starts = range(40, len(body), 72)
        return next(requests.roots([body[at : at + 32] for at in starts]))
    if op == SPV_OP_HEADERS:
        start, count = int.from_bytes(body[:4], "big"), (len(body) - 48) // 80
        return next(requests.headers(start, count))
    call: Any = next(
        {
            SPV_OP_PROOF: requests.proof,
            SPV_OP_WITNESS_PROOF: requests.witness_proof,
            SPV_OP_WTXID_PROOF: requests.wtxid_proof,
        }[op](body[:32])
    )
    call.body = call.body[: len(body)].ljust(len(body), b"\0")
    return call


def is_ours(vector: dict[str, Any]) -> bool:
    """Returns whether a client sends such a request: native, answered, and not one that the server must refuse."""
    request, reply = raw(vector["request"]), raw(vector.get("reply", ""))
    is_paper = len(request) == 32
    if is_paper or request[:3] != b"LS\x01" or not 1 <= request[3] <= 6 or not reply:
        return False
    return int.from_bytes(reply[4:6], "big") not in (Status.BAD_REQUEST, Status.UNSUPPORTED_VERSION)


def test_requests_and_replies_are_those_of_the_vectors() -> None:
    encoded = decoded = 0
    for name in FILES:
        for vector in filter(is_ours, vectors(f"spv/{name}")):
            request, reply = raw(vector["request"]), raw(vector["reply"])
            call = call_of(request)
            if call.encode(request[8:16]) == request:
                encoded += 1
            assert native_id(reply) == request[8:16]
            status = Status(int.from_bytes(reply[4:6], "big"))
            try:
                answer = call.decode(reply)
            except Refused as refused:
                assert refused.status is status
                continue
            assert answer is not Again.IGNORE, vector["what"]
            decoded += 1
            check(call, answer, status, reply, vector["what"])
            for liar in liars(reply):
                assert call.decode(liar) is Again.IGNORE, vector["what"]
    assert encoded >= 25 and decoded >= 60, (encoded, decoded)


def check(call: NativeCall[Any], answer: Any, status: Status, reply: bytes, what: str) -> None:
    """Compares an answer with the bytes of its reply, at the offsets of docs/wire-formats.md."""
    body = reply[16:]
    if status is Status.TOO_LONG:
        assert answer.needed > 0
        return
    if status is Status.UNKNOWN:
        assert answer.result is None, what
        return
    if call.op == SPV_OP_ROOT:
        assert (answer.result.root, answer.result.block_hash) == (body[:32], body[32:64])
        assert (answer.tip_hash, answer.tip_height) == (body[64:96], int.from_bytes(body[100:104], "big"))
    elif call.op == SPV_OP_ROOTS:
        found = [None if item is None else item.root for item in answer.result]
        items = [body[at : at + 72] for at in range(40, len(body), 72)]
        assert found == [None if item[71] else item[:32] for item in items], what
    elif call.op == SPV_OP_PROOF:
        assert answer.result.header.to_bytes() == body[:80]
        assert answer.result.path == tuple(body[at : at + 32] for at in range(136, 136 + 32 * body[95], 32))
    elif call.op == SPV_OP_HEADERS:
        assert [header.to_bytes() for header in answer.result] == [
            body[at : at + 80] for at in range(48, 48 + 80 * body[43], 80)
        ]
    else:
        assert answer.result.wtxid == body[136:168]
        assert answer.result.coinbase in body[200 + 64 * body[95] :]


def liars(reply: bytes) -> list[bytes]:
    """Returns replies that lie: in length, operation, reply bit, magic, version."""
    return [
        b"",
        reply[:15],
        reply[:-1],
        reply + b"\0",
        reply[:6] + (len(reply) - 17).to_bytes(2, "big") + reply[8:-1],
        reply[:6] + (len(reply) - 15).to_bytes(2, "big") + reply[8:],
        reply[:3] + bytes([reply[3] ^ 0x80]) + reply[4:],
        reply[:3] + bytes([reply[3] ^ 1]) + reply[4:],
        b"XS" + reply[2:],
        reply[:2] + b"\x02" + reply[3:],
        reply[:4] + b"\x7f\xff" + reply[6:],
    ]

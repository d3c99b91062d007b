"""Requests and replies of `column`, against the shared vectors."""

from __future__ import annotations

import struct
from typing import Any

from vectors import VECTORS, raw, vectors

from lineside import OutcomeUnknown, Refused, Status
from lineside._core import Again
from lineside._generated import COLUMN_OP_GET, COLUMN_OP_OPEN, COLUMN_OP_SCAN
from lineside.column import Range, Requests, _body, _Change, _Open, _parse, _Read, _Session

FILES = [path.stem for path in sorted((VECTORS / "column").glob("*.toml"))]


def parts_of(body: bytes) -> tuple[list[str], tuple[bytes, bytes, bytes, bytes]]:
    """Returns the columns and the four parts of a request, by the offsets of docs/wire-formats.md."""
    lengths = [body[1], body[2], *struct.unpack_from(">HH", body, 6)]
    names = [body[32 + 32 * at : 64 + 32 * at].rstrip(b"\0").decode() for at in range(body[3])]
    at, parts = 32 + 32 * body[3], []
    for length in lengths:
        parts.append(body[at : at + length])
        at += (length + 7) // 8 * 8
    return names, (parts[0], parts[1], parts[2], parts[3])


def call_of(request: bytes) -> Any:
    """Returns the client's call for a native request of the vectors."""
    op, body = request[3], request[16:]
    if op == COLUMN_OP_OPEN:
        return _Open(op, body)
    columns, parts = parts_of(body)
    limit, (slot, token, nonce) = int.from_bytes(body[4:6], "big"), struct.unpack_from(">IQQ", body, 12)
    made = _body(columns, parts, body[0], limit, (slot, token, nonce), len(request))
    if op in (COLUMN_OP_GET, COLUMN_OP_SCAN):
        return _Read(op, columns, made)
    session = _Session(slot, token)
    session.nonce = nonce
    return _Change(op, made, session)


def cells_of(body: bytes) -> list[tuple[bytes, int, bytes]]:
    """Returns key, column and value of each row of a reply, by the offsets of docs/wire-formats.md."""
    at, cells = 24, []
    for _ in range(int.from_bytes(body[2:4], "big")):
        key_bytes, column, value_bytes = struct.unpack_from(">BBH", body, at)
        middle = at + 4 + key_bytes
        cells.append((body[at + 4 : middle], column, body[middle : middle + value_bytes]))
        at += (4 + key_bytes + value_bytes + 7) // 8 * 8
    return cells


def test_requests_and_replies_are_those_of_the_vectors() -> None:
    encoded = decoded = refused = 0
    for name in FILES:
        for vector in vectors(f"column/{name}"):
            request, reply = raw(vector["request"]), raw(vector.get("reply", ""))
            if request[:3] != b"LS\x01" or request[3] not in range(1, 9) or not reply:
                continue
            status = Status(int.from_bytes(reply[4:6], "big"))
            if status is Status.BAD_REQUEST:
                continue
            call = call_of(request)
            if call.encode(request[8:16]) == request:
                encoded += 1
            call.sent = 1
            try:
                answer = call.decode(reply)
            except OutcomeUnknown:
                assert status is Status.OUTCOME_UNKNOWN
                continue
            except Refused as error:
                assert error.status is status
                refused += 1
                continue
            if status is Status.BUSY:
                assert answer is Again.BUSY
                continue
            if request[3] == COLUMN_OP_OPEN:
                assert answer.challenge == reply[16:32]
                continue
            if len(reply) != len(request) or len(request) < 40:
                continue
            assert answer is not Again.IGNORE, vector["what"]
            assert answer.cells == cells_of(reply[16:]), vector["what"]
            assert answer.head.source == reply[16]
            decoded += 1
            for liar in (reply[:-1], reply + b"\0", reply[:3] + bytes([reply[3] ^ 1]) + reply[4:], request):
                assert call.decode(liar) is Again.IGNORE, vector["what"]
    assert encoded >= 100 and decoded >= 80 and refused >= 10, (encoded, decoded, refused)


def test_replies_that_claim_more_than_they_have_are_ignored() -> None:
    row = struct.pack(">BBH", 1, 0, 2) + b"kvv\0"
    good = struct.pack(">BBHIQQ", 1, 0, 1, 0, 5, 0) + row
    answer = _parse(Status.OK, good, 1)
    assert not isinstance(answer, Again) and answer.cells == [(b"k", 0, b"vv")]
    for wrong in (
        good[:20],
        good[:-5],
        good[:3] + b"\2" + good[4:],
        good[:25] + b"\1" + good[26:],
        good[:24] + b"\xff" + good[25:],
        good[:25] + b"\x80" + good[26:],
    ):
        assert _parse(Status.OK, wrong, 1) is Again.IGNORE


def test_a_scan_continues_after_rows_with_cut_keys() -> None:
    def after(key: bytes, is_reverse: bool) -> Any:
        cells = struct.pack(">BBH", len(key), 0xC0, 8) + key + bytes(8)
        body = struct.pack(">BBHIQQ", 2, 2 | 8, 1, 0, 5, 0) + cells.ljust((len(cells) + 7) // 8 * 8, b"\0")
        steps = Requests().scan_page(Range(b"a", is_reverse=is_reverse))
        next(steps)
        try:
            steps.send(_parse(Status.OK, body, 1))
        except StopIteration as end:
            return end.value

    long = b"k" * 254 + b"\xff"
    assert after(long, False).rest == Range(b"k" * 253 + b"l", is_start_exclusive=False)
    assert after(long, True).rest == Range(long, is_reverse=True)
    assert after(b"\xff" * 255, False).rest is None


def test_a_refusal_of_a_repeated_change_is_not_a_definite_outcome() -> None:
    session = _Session(3, 7)
    session.nonce = 5
    body = _body(["a:b"], (b"k", b"", b"v", b""), session=(3, 7, 5))
    definite = set()
    for status in Status:
        if status in (Status.OK, Status.BUSY):
            continue
        reply = b"LS\x01\x83" + struct.pack(">HH", status, 0) + bytes(8)
        for sent in (1, 2):
            call = _Change(3, body, session)
            call.sent = sent
            try:
                call.decode(reply)
            except Refused as error:
                assert error.status is status
                if sent == 2:
                    definite.add(status)
            except OutcomeUnknown as error:
                assert error.id == (3, 5)
                assert sent == 2 or status is Status.OUTCOME_UNKNOWN
    assert definite == set(_Change._ALWAYS_DEFINITE)

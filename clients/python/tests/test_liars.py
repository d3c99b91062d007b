"""Replies with random changes: a client ignores them or refuses them, and never fails in another way."""

from __future__ import annotations

import random
from typing import Any, Callable

from test_column_codec import call_of as column_call
from test_spv_codec import call_of as spv_call
from test_spv_codec import is_ours
from test_transfer_codec import call_of as transfer_call
from vectors import raw, vectors

from lineside import LinesideError, Status, hybrid
from lineside._hybrid_answers import read_answer, read_datagram

Call = Callable[[bytes], Any]


def changed(rng: random.Random, data: bytes) -> bytes:
    """Returns bytes with one to four changes: of a byte, a cut, an addition."""
    for _ in range(rng.randrange(1, 5)):
        kind, at = rng.randrange(4), rng.randrange(len(data) + 1)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data += rng.randbytes(rng.randrange(9))
        else:
            data = data[:at] + bytes([rng.choice((0, 1, 0x40, 0x7F, 0x80, 0xFF, rng.randrange(256)))]) + data[at + 1 :]
    # Half of them have a header that matches their length, so that the body is read.
    if len(data) >= 16 and rng.random() < 0.5:
        data = data[:6] + (len(data) - 16).to_bytes(2, "big") + data[8:]
    return data


def survives(call_of: Call, names: list[str], is_asked: Callable[[dict[str, Any]], bool]) -> int:
    rng, tried = random.Random(9), 0
    for name in names:
        for vector in filter(is_asked, vectors(name)):
            call, reply = call_of(raw(vector["request"])), raw(vector["reply"])
            for _ in range(20):
                call.sent = 1
                try:
                    call.decode(changed(rng, reply))
                except LinesideError:
                    pass
                tried += 1
    return tried


def is_answered(operations: range, least: int) -> Callable[[dict[str, Any]], bool]:
    def judge(vector: dict[str, Any]) -> bool:
        request, reply = raw(vector["request"]), raw(vector.get("reply", ""))
        is_native = len(request) > least and request[:3] == b"LS\x01" and request[3] in operations
        return is_native and bool(reply) and int.from_bytes(reply[4:6], "big") != Status.BAD_REQUEST

    return judge


def test_changed_replies_of_spv() -> None:
    assert survives(spv_call, ["spv/payloads", "spv/proofs", "spv/witnesses"], is_ours) > 1000


def test_changed_replies_of_transfer() -> None:
    names = ["transfer/sessions", "transfer/hosts", "transfer/express-sessions"]
    assert survives(transfer_call, names, is_answered(range(1, 6), 22)) > 1000


def test_changed_replies_of_column() -> None:
    names = ["column/native-reads", "column/changes", "column/sessions"]
    assert survives(column_call, names, is_answered(range(1, 9), 16)) > 1000


def test_changed_answers_of_hybrid() -> None:
    rng = random.Random(4)
    cell = bytes(7) + b"\3" + bytes(4) + b"\0\0\0\2vv"
    answers = {
        1: b"\0\0\1\0\2\0\1" + cell,
        2: b"\0\0\2\1\0\1\0\1k" + cell,
        3: b"\0\0\3" + bytes(300),
        4: b"\0\0\4\0\0\1" + cell[:12] + bytes(8) + b"\1\0\0\0\1v",
        5: b"\0\0\5" + bytes(356),
        6: b"\0\2\6" + cell[:12],
    }
    messages = {
        "Cells": b"\x12\x04done\x1a\x06\x0a\x02\x08\x03\x12\x00",
        "KeyCells": b"\x1a\x0a\x0a\x01k\x12\x02\x08\x03\x1a\x01v\x20\x01",
        "Writes": b"\x1a\x09\x0a\x02\x08\x03\x10\x05\x1a\x01v",
        "Placed": b"\x08\x02\x1a\x04\x08\x03\x10\x01",
        "Event": b"\x1a\x02\x08\x03\x22\x01k\x2a\x00",
    }
    for _ in range(3000):
        for says, body in answers.items():
            try:
                read_datagram(changed(rng, body), says)
            except ValueError:
                pass
        for name, message in messages.items():
            try:
                read_answer(name, changed(rng, message))
            except ValueError:
                pass
        try:
            hybrid.StateProof.decode(
                changed(rng, bytes(240) + bytes(7) + b"\3" + bytes(4) + b"\x40\x09\xff\x80" + b"h" * 288)
            )
        except hybrid.NotProven:
            pass

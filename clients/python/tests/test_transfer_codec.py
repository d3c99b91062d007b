"""Requests and replies of `transfer`, against the shared vectors."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from vectors import VECTORS, raw, vectors

from lineside import OutcomeUnknown, Refused, Status
from lineside import transfer as t
from lineside._core import Again
from lineside._generated import (
    OPERATION,
    TRANSFER_OP_CLOSE,
    TRANSFER_OP_EXECUTE,
    TRANSFER_OP_OPEN,
    TRANSFER_OP_REFER,
    TRANSFER_OP_SESSION,
    PaperTransfer,
)
from lineside.settlement import _root
from lineside.transfer import _Paper, _SessionCall

FILES = [path.stem for path in sorted((VECTORS / "transfer").glob("*.toml"))]


def call_of(request: bytes) -> Any:
    """Returns the client's call for a native request of the vectors."""
    op, body, requests = request[3], request[16:], t.Requests()
    if op == TRANSFER_OP_EXECUTE:
        token, sequence, slot = struct.unpack_from(">QQI", body)
        operations = [t.Operation(*fields) for fields in OPERATION.iter_unpack(body[24:])]
        return next(requests.execute(t.Session(slot, token, sequence), operations))
    if op == TRANSFER_OP_REFER:
        return next(requests.refer([body[at : at + 16] for at in range(8, len(body), 48)]))
    if op in (TRANSFER_OP_CLOSE, TRANSFER_OP_SESSION):
        token, slot = struct.unpack_from(">16xQ8xI", body)
        session = t.Session(slot, token, 1)
        return next(requests.close(session) if op == TRANSFER_OP_CLOSE else requests.next_sequence(session))
    return _SessionCall(op, body)


def test_native_requests_and_replies_are_those_of_the_vectors() -> None:
    encoded = decoded = refused = 0
    for name in FILES:
        for vector in vectors(f"transfer/{name}"):
            request, reply = raw(vector["request"]), raw(vector.get("reply", ""))
            is_native = len(request) > 22 and request[:3] == b"LS\x01" and request[3] in range(1, 6)
            status = int.from_bytes(reply[4:6], "big")
            if not is_native or not reply or status == Status.BAD_REQUEST:
                continue
            operations = (len(request) - 40) // OPERATION.size
            if request[3] == TRANSFER_OP_EXECUTE and operations > t.OPERATIONS_MAX:
                continue
            call = call_of(request)
            if call.encode(request[8:16]) == request:
                encoded += 1
            call.sent = 1
            if status == Status.BUSY:
                assert call.decode(reply) is Again.BUSY
                continue
            try:
                answer = call.decode(reply)
            except Refused as error:
                assert error.status == status, vector["what"]
                if len(reply) > 40:
                    assert error.expected == int.from_bytes(reply[24:32], "big")
                refused += 1
                continue
            assert answer is not Again.IGNORE, vector["what"]
            decoded += 1
            if request[3] == TRANSFER_OP_EXECUTE:
                starts = range(40, len(reply), OPERATION.size)
                codes = [int.from_bytes(reply[at + 2 : at + 4], "big") for at in starts]
                amounts = [int.from_bytes(reply[at + 40 : at + 48], "big") for at in starts]
                assert [outcome.code for outcome in answer.outcomes] == codes, vector["what"]
                expected = [None if code else amount for code, amount in zip(codes, amounts)]
                assert [outcome.balance for outcome in answer.outcomes] == expected
                assert answer.is_durable == (reply[39] == 1)
                # Token, sequence and slot of another packet.
                for at in (16, 31, 35):
                    other = reply[:at] + bytes([reply[at] ^ 1]) + reply[at + 1 :]
                    assert call.decode(other) is Again.IGNORE, vector["what"]
            elif request[3] == TRANSFER_OP_REFER:
                items = [reply[at : at + 48] for at in range(24, len(reply), 48)]
                expected = [None if item[41] else int.from_bytes(item[16:24], "big") for item in items]
                assert [None if one is None else one.balance for one in answer] == expected
            else:
                assert request[3] in (TRANSFER_OP_OPEN, TRANSFER_OP_CLOSE, TRANSFER_OP_SESSION)
                assert answer.challenge == reply[16:32]
            for liar in (reply[:-1], reply + b"\0", reply[:3] + bytes([reply[3] ^ 1]) + reply[4:], request):
                assert call.decode(liar) is Again.IGNORE, vector["what"]
    assert encoded >= 150 and decoded >= 100 and refused >= 15, (encoded, decoded, refused)


def test_a_refusal_of_a_repeated_packet_is_no_definite_outcome() -> None:
    session = t.Session(3, 7, 5)
    call: Any = next(t.Requests().execute(session, [t.issue(1, 1)]))
    for status in Status:
        reply = b"LS\x01\x81" + struct.pack(">HH", status, 0) + bytes(8)
        if status in (Status.OK, Status.BUSY):
            continue
        is_definite = status in (Status.UNAUTHORISED, Status.BAD_REQUEST, Status.UNSUPPORTED_VERSION)
        for sent in (1, 2):
            call.sent = sent
            try:
                call.decode(reply)
            except Refused as error:
                assert error.status is status and (sent == 1 or is_definite)
            except OutcomeUnknown as error:
                assert error.id == t.PacketId(3, 5)
                assert not is_definite and (sent == 2 or status is Status.OUTCOME_UNKNOWN)


def test_the_papers_requests_and_replies_are_those_of_the_vectors() -> None:
    decoded = 0
    for name in FILES:
        for vector in vectors(f"transfer/{name}"):
            request, reply = raw(vector["request"]), raw(vector.get("reply", ""))
            if len(request) != 20 or len(reply) != 20:
                continue
            command, id, source, destination, amount = struct.unpack(">IIIII", request)
            call = _Paper(PaperTransfer(command, id, source, destination, amount))
            assert call.encode(b"") == request
            answer = call.decode(reply)
            shown, _, _, _, value = struct.unpack(">IIIII", reply)
            if answer is Again.BUSY:
                assert value == t.TransferCode.BUSY and id != 0
                continue
            assert isinstance(answer, t.Outcome), vector["what"]
            assert (answer.code, answer.balance) == ((value, None) if shown >> 31 else (0, value)), vector["what"]
            assert call.decode(reply[:4] + bytes([reply[4] ^ 1]) + reply[5:]) is Again.IGNORE
            decoded += 1
    assert decoded >= 100, decoded


def test_a_path_has_the_length_that_the_number_of_operations_requires() -> None:
    leaves = [bytes([number]) * 32 for number in range(3)]

    def inner(left: bytes, right: bytes) -> bytes:
        return hashlib.sha256(b"\x01" + left + right).digest()

    left = inner(leaves[0], leaves[1])
    root = inner(left, leaves[2])
    assert _root(leaves[0], 0, 3, [leaves[1], leaves[2]]) == root
    assert _root(leaves[1], 1, 3, [leaves[0], leaves[2]]) == root
    assert _root(leaves[2], 2, 3, [left]) == root
    assert _root(leaves[0], 0, 1, []) == leaves[0]
    assert _root(leaves[0], 0, 3, [leaves[1]]) is None
    assert _root(leaves[0], 0, 3, [leaves[1], leaves[2], leaves[2]]) is None
    assert _root(leaves[0], 3, 3, [leaves[1], leaves[2]]) is None

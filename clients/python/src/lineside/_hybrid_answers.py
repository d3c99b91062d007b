"""Answers of `hybrid`: of datagrams, and of the messages of gRPC.

The messages are read by hand, not by generated code. Generated code needs the package `protobuf` in a version that
matches its generator; a client needs only eleven messages of numbers, bytes and other messages, which the reader below
has in about 40 lines. A test compares the tables with proto/hybrid.proto, and the reader with generated code.
"""

from __future__ import annotations

from typing import Any, Callable, NamedTuple, Optional

from ._generated import (
    ANSWER_HEAD,
    BLOCK_HEADER,
    HYBRID_ANSWER_CELLS,
    HYBRID_ANSWER_HISTORY,
    HYBRID_ANSWER_PLACED,
    HYBRID_ANSWER_PROOF,
    HYBRID_ANSWER_RANGE,
    HYBRID_ANSWER_REFUSED,
    HYBRID_ANSWER_SIGNED_HEAD,
    NODE_HEAD,
    HybridCode,
)
from .hybrid_ledger import Input, Version


class Cell(NamedTuple):
    """Value of a key, with its version."""

    version: Version
    value: bytes


class KeyCell(NamedTuple):
    """Key with its value and version."""

    key: bytes
    version: Version
    value: bytes


class PastWrite(NamedTuple):
    """One write of a key."""

    version: Version
    #: time of the block, in milliseconds since 1970
    time_ms: int
    #: the value; `None`: the key was deleted
    value: Optional[bytes]


class Event(NamedTuple):
    """Durable write that a watcher receives."""

    version: Version
    key: bytes
    #: the value; `None`: the key was deleted
    value: Optional[bytes]


class Answer(NamedTuple):
    """Code of an answer, and its content; a refusal has none."""

    code: HybridCode
    content: Any = None


# ---- datagrams ----


def _read_version(input: Input) -> Version:
    version = Version(input.number(8), input.number(4))
    if version.block == 0:
        raise ValueError("a version has the block 0")
    return version


def _read_cell(input: Input) -> Cell:
    return Cell(_read_version(input), input.long())


def _read_cells(input: Input) -> list[Optional[Cell]]:
    return [_read_cell(input) if input.flag() else None for _ in range(input.number(2))]


def _read_range(input: Input) -> tuple[list[KeyCell], bool]:
    more = input.flag()
    cells = [KeyCell(input.short(), *_read_cell(input)) for _ in range(input.number(2))]
    if any(one.key >= other.key for one, other in zip(cells, cells[1:])):
        raise ValueError("keys are not in ascending order")
    return cells, more


def _read_history(input: Input) -> tuple[list[PastWrite], bool]:
    more = input.flag()
    writes = [
        PastWrite(_read_version(input), input.number(8), input.long() if input.flag() else None)
        for _ in range(input.number(2))
    ]
    if any(one.version <= other.version for one, other in zip(writes, writes[1:])):
        raise ValueError("writes are not ordered from the newest to the oldest")
    return writes, more


def _read_signed_head(input: Input) -> tuple[bytes, bytes]:
    return input.take(BLOCK_HEADER.size), input.take(NODE_HEAD.size)


_CONTENTS: dict[int, Callable[[Input], Any]] = {
    HYBRID_ANSWER_CELLS: _read_cells,
    HYBRID_ANSWER_RANGE: _read_range,
    HYBRID_ANSWER_PROOF: Input.rest,
    HYBRID_ANSWER_HISTORY: _read_history,
    HYBRID_ANSWER_SIGNED_HEAD: _read_signed_head,
    HYBRID_ANSWER_PLACED: _read_version,
}


def read_datagram(body: bytes, says: int) -> Answer:
    """Reads the body of a datagram with status ok, whose content must be `says`, or a refusal. Raises `ValueError`."""
    input = Input(body)
    code, found = ANSWER_HEAD.unpack(input.take(ANSWER_HEAD.size))
    answer_code = HybridCode(code)
    is_done = answer_code is HybridCode.DONE
    if found == HYBRID_ANSWER_REFUSED and not is_done:
        input.end()
        return Answer(answer_code)
    if found != says or not (is_done or says == HYBRID_ANSWER_PLACED):
        raise ValueError("the answer is of another kind")
    content = _CONTENTS[says](input)
    input.end()
    return Answer(answer_code, content)


# ---- messages of gRPC ----

#: Fields by message: number, name and type. A type is `uint`, `bytes` or the name of a message; with `*`, repeated.
MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "Version": {1: ("block", "uint"), 2: ("index", "uint")},
    "Cell": {1: ("version", "Version"), 2: ("value", "bytes")},
    "Cells": {1: ("code", "uint"), 2: ("code_name", "bytes"), 3: ("cells", "*Cell")},
    "Placed": {1: ("code", "uint"), 2: ("code_name", "bytes"), 3: ("version", "Version")},
    "KeyCell": {1: ("key", "bytes"), 2: ("version", "Version"), 3: ("value", "bytes")},
    "KeyCells": {1: ("code", "uint"), 2: ("code_name", "bytes"), 3: ("cells", "*KeyCell"), 4: ("more", "uint")},
    "Proof": {1: ("code", "uint"), 2: ("code_name", "bytes"), 3: ("proof", "bytes")},
    "Write": {1: ("version", "Version"), 2: ("time_ms", "uint"), 3: ("value", "bytes")},
    "Writes": {1: ("code", "uint"), 2: ("code_name", "bytes"), 3: ("writes", "*Write"), 4: ("more", "uint")},
    "SignedHeader": {
        1: ("code", "uint"),
        2: ("code_name", "bytes"),
        3: ("header", "bytes"),
        4: ("head", "bytes"),
    },
    "Event": {
        1: ("code", "uint"),
        2: ("code_name", "bytes"),
        3: ("version", "Version"),
        4: ("key", "bytes"),
        5: ("value", "bytes"),
    },
}


def _varint(input: Input) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = input.number(1)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
    raise ValueError("a number has more than 10 bytes")


def read_message(name: str, data: bytes) -> dict[str, Any]:
    """Returns the fields of a message by name; those that it does not have are missing. Raises `ValueError`."""
    fields, input = MESSAGES[name], Input(data)
    found: dict[str, Any] = {}
    while input.at < len(data):
        tag = _varint(input)
        wire_type = tag & 7
        if wire_type == 0:
            value: Any = _varint(input)
        elif wire_type == 2:
            value = input.take(_varint(input))
        elif wire_type in (1, 5):
            value = input.take(8 if wire_type == 1 else 4)
        else:
            raise ValueError("a field has an unknown wire type")
        # Fields of later versions are skipped.
        field, kind = fields.get(tag >> 3, ("", ""))
        if not field:
            continue
        if (kind == "uint") != (wire_type == 0):
            raise ValueError(f"the field {field} has another type")
        message = kind.lstrip("*")
        if message in MESSAGES:
            value = read_message(message, value)
        if kind.startswith("*"):
            found.setdefault(field, []).append(value)
        else:
            found[field] = value
    return found


def signed_message(request: bytes) -> bytes:
    """Returns the message `Signed`, whose only field has the request."""
    length, size = bytearray(), len(request)
    while size >= 0x80:
        length.append(size & 0x7F | 0x80)
        size >>= 7
    length.append(size)
    return b"\x0a" + bytes(length) + request


def _message_version(found: dict[str, Any]) -> Version:
    version = found["version"]
    return Version(version.get("block", 0), version.get("index", 0))


def _message_cell(found: dict[str, Any]) -> Optional[Cell]:
    return Cell(_message_version(found), found.get("value", b"")) if "version" in found else None


def _message_content(name: str, found: dict[str, Any]) -> Any:
    if name == "Cells":
        return [_message_cell(cell) for cell in found.get("cells", [])]
    if name == "Placed":
        return _message_version(found) if "version" in found else None
    if name == "KeyCells":
        cells = [
            KeyCell(cell["key"], _message_version(cell), cell.get("value", b"")) for cell in found.get("cells", [])
        ]
        return cells, bool(found.get("more"))
    if name == "Writes":
        writes = [
            PastWrite(_message_version(write), write.get("time_ms", 0), write.get("value"))
            for write in found.get("writes", [])
        ]
        return writes, bool(found.get("more"))
    if name == "SignedHeader":
        return found.get("header", b""), found.get("head", b"")
    if name == "Event":
        return Event(_message_version(found), found.get("key", b""), found.get("value"))
    return found.get("proof", b"")


def read_answer(name: str, data: bytes) -> Answer:
    """Reads an answer of gRPC. Raises `ValueError`."""
    found = read_message(name, data)
    code = HybridCode(found.get("code", 0))
    try:
        # A refusal has a code only; a write that was refused at its execution also has its place.
        is_full = code is HybridCode.DONE or name == "Placed"
        return Answer(code, _message_content(name, found) if is_full else None)
    except KeyError as missing:
        raise ValueError(f"the message {name} has no {missing}") from None

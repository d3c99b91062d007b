"""Messages of `hybrid` that the package reads by hand, against proto/hybrid.proto and against generated code."""

from __future__ import annotations

import importlib
import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from vectors import ROOT

from lineside import hybrid as h
from lineside._hybrid_answers import MESSAGES, Answer, read_answer, read_datagram, read_message, signed_message

PROTO = ROOT / "crates" / "hybrid-grpc" / "proto" / "hybrid.proto"
TYPES = {"uint64": "uint", "uint32": "uint", "bool": "uint", "bytes": "bytes", "string": "bytes"}


def test_the_tables_are_those_of_the_proto() -> None:
    text = re.sub(r"//.*", "", PROTO.read_text())
    found: dict[str, dict[int, tuple[str, str]]] = {}
    for name, body in re.findall(r"message (\w+) \{(.*?)\}", text, re.DOTALL):
        found[name] = {}
        for repeat, kind, field, number in re.findall(r"(repeated |optional )?(\w+) (\w+) = (\d+);", body):
            star = "*" if repeat == "repeated " else ""
            found[name][int(number)] = (field, star + TYPES.get(kind, kind))
    for name, fields in MESSAGES.items():
        assert found[name] == fields, name
    assert found["Signed"] == {1: ("request", "bytes")}


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Module that protoc makes of the proto."""
    protoc = pytest.importorskip("grpc_tools.protoc")
    folder = tmp_path_factory.mktemp("proto")
    assert protoc.main(["protoc", f"-I{PROTO.parent}", f"--python_out={folder}", "hybrid.proto"]) == 0
    sys.path.insert(0, str(folder))
    assert Path(folder, "hybrid_pb2.py").exists()
    return importlib.import_module("hybrid_pb2")


def test_messages_are_read_as_generated_code_writes_them(generated: Any) -> None:
    pb = generated
    for size in (0, 1, 127, 128, 300, 70_000):
        assert signed_message(bytes(size)) == (pb.Signed(request=bytes(size)).SerializeToString() or b"\x0a\0")
    big = pb.Version(block=2**64 - 1, index=2**32 - 1)
    cells = pb.Cells(code_name="done", cells=[pb.Cell(), pb.Cell(version=big, value=b"v"), pb.Cell(version=big)])
    version = h.Version(2**64 - 1, 2**32 - 1)
    assert read_answer("Cells", cells.SerializeToString()) == Answer(
        h.HybridCode.DONE, [None, h.Cell(version, b"v"), h.Cell(version, b"")]
    )
    placed = pb.Placed(code=2, code_name="conflict", version=pb.Version(block=3)).SerializeToString()
    assert read_answer("Placed", placed) == Answer(h.HybridCode.CONFLICT, h.Version(3, 0))
    assert read_answer("Placed", pb.Placed(code=9).SerializeToString()) == Answer(h.HybridCode.NONCE_USED, None)
    rows = pb.KeyCells(cells=[pb.KeyCell(key=b"k", version=big, value=b"v")], more=True).SerializeToString()
    assert read_answer("KeyCells", rows).content == ([h.KeyCell(b"k", version, b"v")], True)
    writes = pb.Writes(writes=[pb.Write(version=big, time_ms=5, value=b""), pb.Write(version=big)])
    assert read_answer("Writes", writes.SerializeToString()).content == (
        [h.PastWrite(version, 5, b""), h.PastWrite(version, 0, None)],
        False,
    )
    assert read_answer("Proof", pb.Proof(proof=b"p").SerializeToString()).content == b"p"
    assert read_answer("SignedHeader", pb.SignedHeader(header=b"h", head=b"s").SerializeToString()).content == (
        b"h",
        b"s",
    )
    event = pb.Event(version=big, key=b"k", value=b"").SerializeToString()
    assert read_answer("Event", event).content == h.Event(version, b"k", b"")
    assert read_answer("Event", pb.Event(code=15).SerializeToString()) == Answer(h.HybridCode.BUSY)
    # Fields of a later version are skipped.
    later = b"\xfa\x01\x01x" + b"\xf0\x01\x05" + b"\xfd\x01" + bytes(4)
    assert read_answer("Proof", pb.Proof(proof=b"p").SerializeToString() + later).content == b"p"


def test_malformed_messages_are_a_value_error() -> None:
    for data in (
        b"\x08",
        b"\x08" + b"\xff" * 10,
        b"\x1a\x05ab",
        b"\x0a\x01a",
        b"\x0b",
        b"\x08\x63",
        b"\x1a\x02\x0a\x05",
    ):
        with pytest.raises(ValueError):
            read_answer("Cells", data)
    with pytest.raises(ValueError, match="version"):
        read_answer("KeyCells", b"\x1a\x03\x0a\x01k")
    assert read_message("Cells", b"") == {}


def test_datagrams_of_another_kind_or_encoding_are_a_value_error() -> None:
    version = struct.pack(">QI", 3, 1)
    cells = struct.pack(">HBH", 0, 1, 2) + b"\0" + b"\1" + version + struct.pack(">I", 2) + b"vv"
    assert read_datagram(cells, 1) == Answer(h.HybridCode.DONE, [None, h.Cell(h.Version(3, 1), b"vv")])
    assert read_datagram(struct.pack(">HB", 15, 0), 1) == Answer(h.HybridCode.BUSY)
    assert read_datagram(struct.pack(">HB", 2, 6) + version, 6).content == h.Version(3, 1)
    history = struct.pack(">HBBH", 0, 4, 1, 1) + version + struct.pack(">QB", 9, 0)
    assert read_datagram(history, 4).content == ([h.PastWrite(h.Version(3, 1), 9, None)], True)
    key = struct.pack(">H", 1) + b"k" + version + struct.pack(">I", 0)
    keys = struct.pack(">HBBH", 0, 2, 0, 1) + key
    assert read_datagram(keys, 2).content == ([h.KeyCell(b"k", h.Version(3, 1), b"")], False)
    for body, says in (
        (cells, 6),
        (cells[:-1], 1),
        (cells + b"\0", 1),
        (cells[:5] + b"\2" + cells[6:], 1),
        (struct.pack(">HB", 0, 0), 1),
        (struct.pack(">HB", 2, 1) + cells[3:], 1),
        (struct.pack(">HB", 99, 0), 1),
        (struct.pack(">HB", 15, 0) + b"\0", 1),
        (struct.pack(">HB", 0, 6) + bytes(12), 6),
        (struct.pack(">HBBH", 0, 2, 0, 2) + key + key, 2),
        (history[:5] + b"\2" + history[6:] + history[6:], 4),
    ):
        with pytest.raises(ValueError):
            read_datagram(body, says)

# SPDX-License-Identifier: Apache-2.0
"""Runs every vector of vectors/transfer through the simulated NIC: verdict, bytes, counters, and the accounts.

The vectors of a file are a sequence, and a host answers the requests that the fast path forwards. Here the host is a
ledger that takes the outcome of each operation from the vector's reply, applies it, and fills the NIC's table with the
accounts that a forwarded request has changed. At the end of a file the table must be that ledger. A native request that
the XDP program answers and the RTL does not counts as forwarded.
"""

import pathlib
import struct
import sys
import tomllib
from dataclasses import replace

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from lineside_rtl import ROOT, folded_sum, register  # noqa: E402
from lineside_transfer import CODES, FROZEN, KEY, RECORDS, Account, TransferHost, TransferNic  # noqa: E402

FILES = sorted((ROOT / "vectors/transfer").glob("*.toml"))
CREATE, ISSUE, TRANSFER, REFER, FREEZE, UNFREEZE = range(1, 7)
PLAIN, PENDING, POST, VOID = range(4)
EXECUTE, REFER_OP, SIGNED = 1, 2, 6
SIGNED_HEAD, EXECUTE_HEAD, OPERATION, REFER_BYTES = 104, 24, 88, 72
KEYED = 2
# Codes with which a numbered request does not become the last one of its account.
NOT_LAST = [CODES[name] for name in ["busy", "bad_command", "unauthorised", "stale_id", "id_reused"]]


def octets(text: str) -> bytes:
    return bytes.fromhex("".join(text.split()))


class Ledger:
    """Accounts after the operations so far."""

    def __init__(self):
        self.accounts, self.pendings, self.sequences, self.keys, self.changed = {}, {}, {}, set(), set()

    def touch(self, account: bytes) -> Account:
        self.changed.add(account)
        entry = self.accounts[account]
        entry.version += 1
        return entry

    def move(self, command, source, destination, amount):
        if command == CREATE:
            if source not in self.accounts:
                self.accounts[source] = Account(version=0)
            self.touch(source).balance = amount
        elif command == ISSUE:
            self.touch(source).balance += amount
        elif command == TRANSFER:
            self.touch(source).balance -= amount
            self.touch(destination).balance += amount
        elif command == FREEZE:
            self.touch(source).flags |= FROZEN
        elif command == UNFREEZE:
            self.touch(source).flags &= ~FROZEN

    def paper(self, request: bytes, reply: bytes):
        command, number, source, destination, amount = struct.unpack(">2I4s4sI", request[:20])
        source, destination = bytes(12) + source, bytes(12) + destination
        answer, _, _, _, said = struct.unpack(">2I4s4sI", reply[:20])
        code = said if answer >> 31 else 0
        if command not in (CREATE, ISSUE, TRANSFER):
            return
        had = self.accounts.get(source)
        if had and number and had.last[0] and number <= had.last[0]:
            return  # answered from the last request
        if not code:
            self.move(command, source, destination, amount)
            assert self.accounts[source].balance == said
        elif number and had and code not in NOT_LAST:
            self.touch(source)
        if number and source in self.accounts and code not in NOT_LAST:
            self.accounts[source].last = (number, destination[12:], amount, command, code, 0 if code else said)

    def native(self, request: bytes, reply: bytes, at_s: int) -> int:
        """Returns the number of operations that were executed."""
        if request[3] not in (EXECUTE, SIGNED) or reply[4:6] != bytes(2):
            return 0
        at = 16 + (SIGNED_HEAD if request[3] == SIGNED else 0)
        _, sequence, slot, count, _ = struct.unpack_from(">QQIHH", request, at)
        session = request[16 : 16 + SIGNED_HEAD] if request[3] == SIGNED else slot
        if self.sequences.get(session) == sequence:
            return 0  # repeated
        self.sequences[session] = sequence
        for index in range(count):
            asked = request[at + EXECUTE_HEAD + index * OPERATION :][:OPERATION]
            said = reply[16 + EXECUTE_HEAD + index * OPERATION :][:OPERATION]
            self.operation(asked, said, at_s)
        return count

    def operation(self, asked: bytes, said: bytes, at_s: int):
        command, flags, _, contract, source, destination, amount = struct.unpack_from(">BBHI16s16sQ", asked)
        uuid, timeout_s = asked[64:80], int.from_bytes(asked[84:88], "big")
        if int.from_bytes(said[2:4], "big"):
            return
        if flags & KEYED and contract == PLAIN:
            if uuid in self.keys:
                return
            self.keys.add(uuid)
        if contract == PLAIN:
            self.move(command, source, destination, amount)
        elif contract == PENDING:
            self.touch(source).held_out += amount
            self.touch(destination).held_in += amount
            self.pendings[source, uuid] = (destination, amount, at_s + timeout_s if timeout_s else None)
        else:
            destination, held, _ = self.pendings.pop((source, uuid))
            payer, payee = self.touch(source), self.touch(destination)
            payer.held_out -= held
            payee.held_in -= held
            if contract == POST:
                payer.balance -= amount or held
                payee.balance += amount or held

    def expire(self, at_s: int):
        for (source, uuid), (destination, held, until) in list(self.pendings.items()):
            if until is not None and until <= at_s:
                self.touch(source).held_out -= held
                self.touch(destination).held_in -= held
                del self.pendings[source, uuid]


class Scene:
    """The NIC and its host in the state of a file."""

    def __init__(self, file):
        self.nic, self.ledger = TransferNic(), Ledger()
        state, own = file["state"], file["endpoint"]
        issuers = [text if "/" in text else text + ("/128" if ":" in text else "/32") for text in state["issuers"]]
        self.drains, self.is_express = state["drains"], state["mode"] == "express"
        # A hash that is always 0 leaves a table of two buckets, as a table for eight accounts has.
        key = (0, 0, 0) if state["account_bits"] == 1 else KEY
        self.host = TransferHost(
            self.nic, self.is_express, state["paper_format"], state["require_signature"], issuers, key
        )
        self.host.endpoint(octets(own["mac"]), own["addresses"], own["broadcast"], state["loopback"])
        self.nic.set_now(1_000_000)
        self.nic.command(register("transfer_lease_until_ns", 1 << 62 if state["lease"] == "valid" else 1_000_000))
        self.host.grant(1 << 40)
        self.dummies = 0
        self.own = own
        if not self.drains:
            self.nic.pause_records(256)
            self.use_places(RECORDS - (1 << state["ring_bits"]))

    def use_places(self, count: int):
        """Uses places of the record stream, as the operations would that the RTL forwards."""
        for _ in range(count):
            self.dummies += 1
            payload = struct.pack(">5I", CREATE, 0, 0xD0000000 + self.dummies, 0, 0)
            ports = (40000).to_bytes(2, "big") + (7702).to_bytes(2, "big") + (28).to_bytes(2, "big")
            addresses = bytes([10, 0, 0, 9, 10, 0, 0, 2])
            check = 0xFFFF - folded_sum(addresses + bytes([0, 17, 0, 28]) + ports + payload)
            head = bytes.fromhex("4500003000000000401100000a0000090a000002")
            frame = octets(self.own["mac"]) + bytes.fromhex("0200000000aa0800") + head + ports
            left = self.nic.run([frame + check.to_bytes(2, "big") + payload])[0]
            assert left.verdict == "reply" and left.frame[42] < 0x80

    def follow(self, vector) -> int:
        """Releases what has expired, and applies the reply. Returns the number of executed native operations."""
        request, at_s = octets(vector["request"]), vector.get("at_s", 0)
        self.ledger.expire(at_s)
        self.fill()
        if "reply" in vector:
            reply = octets(vector["reply"])
            if 20 <= len(request) <= 22:
                self.ledger.paper(request, reply)
            elif request[:2] == b"LS":
                return self.ledger.native(request, reply, at_s)
        return 0

    def fill(self):
        for account in self.ledger.changed:
            assert self.host.fill(account, replace(self.ledger.accounts[account])) == CODES["done"]
        self.ledger.changed = set()


def expected(vector, is_express):
    """Frame, verdict, what leaves, and the counters that rise."""
    request, trailer = octets(vector["request"]), octets(vector.get("trailer", ""))
    frame = octets(vector["headers"]) + request + trailer
    verdict, counts = vector["fastpath"], list(vector.get("counts", []))
    if verdict.startswith("drop"):
        return frame, "drop", b"", [verdict]
    if verdict == "reply" and len(request) > 22 and not (request[3] == REFER_OP and len(request) == REFER_BYTES):
        verdict, counts = "forward", ["forwarded"]
    if verdict == "forward":
        return frame, "forward", frame, counts
    return frame, "reply", octets(vector["reply_headers"]) + octets(vector["reply"]) + trailer, counts


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_sequence(path):
    file = tomllib.loads(path.read_text())
    scene = Scene(file)
    for vector in file["vector"]:
        frame, verdict, left, counts = expected(vector, scene.is_express)
        executed = scene.follow(vector)
        before = scene.nic.counters()
        out = scene.nic.run([frame])[0]
        after = scene.nic.counters()
        risen = {name: after[name] - before[name] for name in after if after[name] != before[name]}
        assert (out.verdict, out.frame) == (verdict, left), vector["what"]
        assert risen == dict.fromkeys(counts, 1), vector["what"]
        if verdict == "forward":
            scene.fill()
            if not scene.drains and vector["fastpath"] == "reply":
                scene.use_places(executed)
        scene.ledger.changed = set()
    for account, entry in scene.ledger.accounts.items():
        assert scene.host.read(account) == entry, account.hex()
    scene.nic.close()

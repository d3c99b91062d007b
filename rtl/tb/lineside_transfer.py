# SPDX-License-Identifier: Apache-2.0
"""The simulated NIC of `transfer` in target/rtl-sim-transfer/libls_sim.so, and the orders of its host.

This module shares no code with Lineside: it reads spec/rtl.toml and computes commands and buckets itself.
"""

import ctypes
import ipaddress
import os
import pathlib
import struct
import tomllib
from dataclasses import dataclass

from lineside_rtl import ROOT, SPEC, Nic, command, endpoint, index_hash, register

LIBRARY = pathlib.Path(os.environ.get("RTL_SIM_TRANSFER_DIR", ROOT / "target/rtl-sim-transfer")) / "libls_sim.so"
TRANSFER = tomllib.loads((ROOT / "spec/transfer.toml").read_text())
COUNTERS = [counter["name"] for counter in TRANSFER["counter"]]
CODES = {code["name"]: code["code"] for code in TRANSFER["code"]}
PORT = 7702
# Parameters of the simulation (scripts/rtl-sim.sh).
BUCKET_BITS, RECORDS, SESSION_BITS = 4, 16, 2
SESSIONS = 1 << SESSION_BITS
BUCKET_CELLS = 4
LINKED, FROZEN, CLAIMED = 1, 2, 4
KEY = (0x0123456789ABCDEF, 0xFEDCBA9876543210, 0x9E3779B97F4A7C15)
_FORMATS = {"u32": "I", "u64": "Q", "u64x2": "16s"}


def _fields(stream: str):
    entry = next(entry for entry in SPEC["stream"] if entry["name"] == stream)
    form = "<" + "".join(_FORMATS[field["type"]] for field in entry["field"])
    assert struct.calcsize(form) == entry["size"]
    return form, [field["name"] for field in entry["field"]]


RECORD, RECORD_NAMES = _fields("transfer_record")
RESPONSE, RESPONSE_NAMES = _fields("transfer_response")
SESSION_RESPONSE, SESSION_NAMES = _fields("transfer_session_response")


@dataclass
class Account:
    """Contents of an account. `last`: Transaction ID, Destination (4 bytes), Amount, command, code, reply."""

    balance: int = 0
    held_out: int = 0
    held_in: int = 0
    version: int = 1
    flags: int = 0
    last: tuple = (0, bytes(4), 0, 0, 0, 0)


@dataclass
class Session:
    """Contents of a session slot. `code`, `amount`: of the first operation of the last packet."""

    token: int = 0
    sequence: int = 0
    sum: int = 0
    count: int = 0
    code: int = 0
    amount: int = 0
    claimed: bool = False


def operations_sum(operations: bytes) -> int:
    """The checksum by which a session recognizes the repetition of a packet."""
    total = 0
    for index, (word,) in enumerate(struct.iter_unpack("<Q", operations)):
        halves = word ^ (index + 1) * 0x9E3779B97F4A7C15 & (1 << 64) - 1
        total += (halves & (1 << 32) - 1) * (halves >> 32)
    return total & (1 << 64) - 1


class TransferNic(Nic):
    """The simulated NIC of `transfer`."""

    model_file = LIBRARY
    counter_names = COUNTERS

    def __init__(self):
        super().__init__()
        for name in ["ls_sim_take_records", "ls_sim_take_responses"]:
            getattr(self._library, name).restype = ctypes.c_size_t

    def pause_records(self, share: int):
        """Pauses of the record stream in 1/256 of the cycles; 256 stops it."""
        self._library.ls_sim_pause_records(self._sim, ctypes.c_uint16(share))

    def pause_responses(self, share: int):
        """Pauses of the response stream in 1/256 of the cycles; 256 stops it."""
        self._library.ls_sim_pause_responses(self._sim, ctypes.c_uint16(share))

    def _take(self, function, form, names) -> list[dict]:
        size, most, entries = struct.calcsize(form), 4096, []
        buffer = ctypes.create_string_buffer(size * most)
        while count := function(self._sim, buffer, ctypes.c_size_t(most)):
            for entry in struct.iter_unpack(form, buffer[: size * count]):
                entries.append(dict(zip(names, entry, strict=True)))
        return entries

    def records(self) -> list[dict]:
        return self._take(self._library.ls_sim_take_records, RECORD, RECORD_NAMES)

    def responses(self, form=RESPONSE, names=RESPONSE_NAMES) -> list[dict]:
        return self._take(self._library.ls_sim_take_responses, form, names)


class TransferHost:
    """A host that writes registers and accounts, and reads accounts."""

    def __init__(
        self,
        nic: TransferNic,
        express=True,
        paper_format=True,
        require_signature=False,
        issuers=(),
        key=KEY,
        sessions=SESSIONS,
    ):
        self.nic, self.key = nic, key
        commands = [
            register("transfer_port", PORT),
            register("transfer_key", sum(word << 64 * at for at, word in enumerate(key))),
            register("transfer_mode", 2 if express else 1),
            register("transfer_paper_format", int(paper_format)),
            register("transfer_require_signature", int(require_signature)),
            register("transfer_issuers", (1 << len(issuers)) - 1),
            register("transfer_sessions", sessions),
        ]
        for number, text in enumerate(issuers):
            address, mask = issuer_words(text)
            commands.append(register("transfer_issuer", int.from_bytes(address + mask, "little"), number))
        nic.command(*commands)

    def endpoint(self, mac: bytes, addresses, broadcast: str, loopback=False):
        self.nic.command(*endpoint(mac, addresses, broadcast, loopback))

    def order(self, name: str, account: bytes = bytes(16), first=0, value=b"") -> dict:
        self.nic.responses()
        self.nic.command(command(f"transfer_{name}", 7, first, 0, value, account))
        responses = self.nic.responses()
        assert len(responses) == 1 and responses[0]["index"] == 7
        return responses[0]

    def fill(self, account: bytes, to: Account, kind="fill", flags=0) -> int:
        """Writes an account; returns the code. A fill without a last request clears that of the account."""
        number, destination, amount, asked, code, reply = to.last
        if kind == "fill" and number:
            value = struct.pack("<III", number, amount, reply) + destination
            self.nic.command(command("transfer_last", 0, asked | code << 16, 0, value))
        value = struct.pack("<4Q", to.balance, to.held_out, to.held_in, to.version)
        return self.order(kind, account, to.flags | flags, value)["code"] & 0xFF

    def grant(self, count: int) -> int:
        return self.order("grant", value=struct.pack("<Q", count))["balance"]

    def read(self, account: bytes) -> Account | None:
        got = self.order("read", account)
        code = got["code"]
        if code & 0xFF == CODES["unknown_account"]:
            return None
        assert code & 0xFF == CODES["done"]
        last = (
            got["last_id"],
            got["last_destination"].to_bytes(4, "little"),
            got["last_amount"],
            code >> 16 & 0xFF,
            code >> 24,
            got["last_reply"],
        )
        return Account(got["balance"], got["held_out"], got["held_in"], got["version"], code >> 8 & 0xFF, last)


    def session(self, slot: int, write: Session | None = None, claim: bool | None = None) -> Session | None:
        """Writes a session slot; returns its contents before, or None if there is no such slot."""
        first, value = 0, b""
        if write is not None:
            value = struct.pack("<4Q", write.token, write.sequence, write.sum, write.amount)
            first = 1 | write.count << 8 | write.code << 24
        if claim is not None:
            first |= 2 | CLAIMED * claim
        self.nic.responses()
        self.nic.command(command("transfer_session", 9, first, slot, value))
        responses = self.nic.responses(SESSION_RESPONSE, SESSION_NAMES)
        assert len(responses) == 1 and responses[0]["index"] == 9
        got = responses[0]
        code = got["code"]
        if code & 0xFF:
            return None
        contents = got["token"], got["session_sequence"], got["sum"], code >> 16, got["operation_code"], got["amount"]
        return Session(*contents, claimed=bool(code >> 8 & CLAIMED))


def issuer_words(text: str) -> tuple[bytes, bytes]:
    """Address and mask of a range of addresses; IPv4 is mapped into IPv6."""
    network = ipaddress.ip_network(text)
    prefix = b"" if network.version == 6 else bytes(10) + b"\xff\xff"
    ones = b"" if network.version == 6 else b"\xff" * 12
    return prefix + network.network_address.packed, ones + network.netmask.packed


def buckets(account: bytes, bits: int, key) -> tuple[int, int]:
    """The two buckets in which an account may be stored."""
    hashed = index_hash(struct.unpack("<2Q", account), key)
    first, second = hashed >> 64 - bits, hashed >> 64 - 2 * bits & (1 << bits) - 1
    return first, second ^ (first == second)

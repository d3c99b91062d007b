# SPDX-License-Identifier: Apache-2.0
"""Random, mutated and truncated frames through the simulated NIC of `transfer` and the XDP program compiled natively.

Verdict, every byte, every counter, every record and every account that is left must be equal. Frames pass the NIC back
to back, with random pauses of source and sinks. Between batches the host changes accounts, claims them, and grants
credit for refusals. RTL_DIFF_FRAMES is the number of frames of each case.

The RTL forwards native requests that it does not answer, so a native reply of the XDP program to such a request counts
as forwarded. Its record stream has fewer places than the ring of the XDP program: where the NIC answers `busy`, the
test fills the ring of the XDP program for this frame.
"""

import os
import pathlib
import random
import struct
import sys
from dataclasses import dataclass, replace

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "diff"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from frames import BROADCASTS, V4, V6, FrameMaker  # noqa: E402
from lineside_rtl import Pauses, register  # noqa: E402
from lineside_transfer import (  # noqa: E402
    BUCKET_BITS,
    CLAIMED,
    CODES,
    FROZEN,
    LINKED,
    RECORD_NAMES,
    SESSIONS,
    Account,
    Session,
    TransferHost,
    TransferNic,
)
from xdp_transfer import NO_LAST, XdpTransfer  # noqa: E402

FRAMES = int(os.environ.get("RTL_DIFF_FRAMES", "10000"))
BATCH = 250
RING_BITS = 9
FOREVER = (1 << 64) - 1
ISSUERS = ["10.0.0.8/31", "fd00::9/128", "192.0.2.0/24"]
EXECUTE, REFER = 1, 2
# Payload bytes of `refer` of one account, of `execute` of one operation, and of `execute` of two to four operations.
REFER_BYTES, BATCH_BYTES = 72, [40 + 88 * count for count in (2, 3, 4)]
EXECUTE_BYTES = 128
# Session slots of the host; the RTL has fewer, and forwards requests of the others.
HOST_SESSIONS = SESSIONS + 2
STATUS_BUSY = 3
RESPONSE_PAUSES = (0, 128, 240)  # of the response stream, in 1/256: one after the other
# Numbers of accounts in the paper's format and of others; the table has 64 cells.
PAPER_ACCOUNTS, WIDE_ACCOUNTS = 70, 10


@dataclass(frozen=True)
class Case:
    name: str
    express: bool = True
    paper_format: bool = True
    require_signature: bool = False
    loopback: bool = False
    answered: int = 2
    lease: bool = True
    lease_ends: bool = False  # in half of the batches
    credit: int = 1 << 40
    record_pauses: tuple = (0,)  # of the record stream, in 1/256: one is chosen for each batch
    issuers: tuple = tuple(ISSUERS)
    accounts: int = PAPER_ACCOUNTS


CASES = [
    Case("express"),
    Case("few accounts", accounts=6),
    Case("durable", express=False),
    Case("little credit", credit=40),
    Case("slow records", record_pauses=(0, 254, 256)),
    Case("slow records of few accounts", record_pauses=(254, 256), accounts=12),
    Case("no issuers", issuers=()),
    Case("paper's format refused", paper_format=False),
    Case("signatures required", require_signature=True),
    Case("lo", loopback=True),
    Case("one address answered", answered=1),
    Case("lease over", lease=False),
    Case("lease that ends", lease_ends=True),
]


def payload_of(frame: bytes) -> bytes:
    """The payload of a frame, if it has the shape of one that the root program finds; else nothing."""
    at = 14 + 4 * (frame[12:14] in (b"\x81\x00", b"\x88\xa8"))
    udp = at + (40 if frame[at - 2 : at] == b"\x86\xdd" else 20)
    if len(frame) < udp + 8:
        return b""
    return frame[udp + 8 : udp + int.from_bytes(frame[udp + 4 : udp + 6], "big")]


def is_answered(payload: bytes) -> bool:
    """Returns whether the RTL answers a native request that the XDP program answers."""
    if payload[3] == REFER:
        return len(payload) == REFER_BYTES
    slot = int.from_bytes(payload[32:36], "big")
    return len(payload) == EXECUTE_BYTES and not SESSIONS <= slot < HOST_SESSIONS


def code_of(payload: bytes) -> int:
    """The code of a reply: in the paper's format, of the only operation or item, or 100 and the status."""
    if len(payload) <= 22:
        return payload[19] if payload[0] >> 7 else 0
    if status := int.from_bytes(payload[4:6], "big"):
        return 100 + status
    if payload[3] & 0x7F == EXECUTE:
        return int.from_bytes(payload[42:44], "big")
    return int.from_bytes(payload[64:66], "big")


class Both:
    """The NIC and the XDP program with the same table."""

    def __init__(self, case: Case, seed: int):
        self.case, self.random = case, random.Random(seed)
        key = tuple(self.random.getrandbits(64) | 1 for _ in range(3))
        self.nic, self.xdp = TransferNic(), XdpTransfer(BUCKET_BITS, RING_BITS, case.express, HOST_SESSIONS)
        self.host = TransferHost(
            self.nic, case.express, case.paper_format, case.require_signature, case.issuers, key, HOST_SESSIONS
        )
        mac = bytes(6) if case.loopback else bytes.fromhex("020000000002")
        usual = ("10.0.0.9", "fd00::9")
        self.maker = FrameMaker(self.random, mac, 7702, checks=True, usual=usual)
        self.stranger = FrameMaker(self.random, mac, 7702, checks=True, usual=("10.0.0.7", "fd00::7"))
        self.host.endpoint(mac, [*V4, *V6], BROADCASTS[0], case.loopback)
        number = int.from_bytes(bytes([192, 168, 7, 2, 255, 255, 255, 255]), "little")
        answered = (1 << case.answered) - 1
        self.nic.command(
            register("v4", number, 1), register("v4_answered", answered), register("v6_answered", answered)
        )
        self.xdp.write_endpoint(mac, case.loopback, V4, BROADCASTS, case.answered, V6, case.answered)
        lease = FOREVER if case.lease else 0
        self.nic.set_now(1)
        self.nic.command(register("transfer_lease_until_ns", lease))
        self.xdp.write_control(lease, key, case.paper_format, case.require_signature, case.issuers)
        self.paper = [bytes(12) + number.to_bytes(4, "big") for number in range(1, case.accounts + 1)]
        self.wide = [self.random.randbytes(16) for _ in range(WIDE_ACCOUNTS)]
        self.numbers, self.sent, self.forwarded, self.ring_full = {}, [], 0, 0
        self.sequences, self.bodies = [0] * SESSIONS, {}
        for slot in range(SESSIONS):
            self.write_session(slot)
        self.grant(case.credit)
        for account in self.wide + self.paper[::2]:
            self.fill(account)

    def grant(self, count: int):
        self.xdp.credit(count)
        assert self.host.grant(count) == struct.unpack_from("<Q", self.xdp.maps["transfer_control"], 328)[0]

    # ---- the host ----

    def fill(self, account: bytes, kind="fill", flags=0):
        chance = self.random
        most = (1 << 64) - 1 if account in self.wide else 5
        balance = chance.choice([0, 100, 4000, 1 << 31, (1 << 32) - 1, 1 << 32, most])
        held_out = chance.choice([0, 0, 0, balance // 2, balance])
        held_in = chance.choice([0, 0, 0, 7, (1 << 64) - 1 - balance])
        last = NO_LAST
        if chance.random() < 0.5:
            code = chance.choice([0, 3])
            amount, reply = chance.getrandbits(32), chance.getrandbits(32)
            last = (chance.randrange(1, 50), chance.randbytes(4), amount, 3, code, reply)
        state = chance.choice([0] * 8 + [FROZEN, CLAIMED])
        to = Account(balance, held_out, held_in, chance.randrange(1 << 40), state, last)
        code = self.host.fill(account, to, kind, flags)
        assert (code == CODES["done"]) == self.xdp.fill(account, to, keeps_last=kind == "put")

    def set_lease(self, is_valid: bool):
        lease = FOREVER if is_valid else 0
        self.nic.command(register("transfer_lease_until_ns", lease))
        self.xdp.set_lease(lease)

    def write_session(self, slot: int):
        """Writes a session as a host would: another one, none, or the same one after several operations in one request,
        of which the first one is that of the last request."""
        chance, before = self.random, self.xdp.session(slot)
        sequence = chance.choice([0, 1, 1000, (1 << 64) - 1])
        last = (chance.getrandbits(64), chance.choice([1, 2]), chance.randrange(13), chance.getrandbits(64))
        to = Session(chance.getrandbits(64) | 1, sequence, *(last if sequence else (0, 0, 0, 0)))
        kind = chance.randrange(8)
        if kind == 0:
            to = Session(0, 0, 0, 0, 0, 0)
        elif kind < 3:
            to = replace(before, count=2)
        claim = chance.choice([False, None])  # None: the claim stays
        to = replace(to, claimed=before.claimed if claim is None else claim)
        assert self.host.session(slot, to, claim) == before
        self.xdp.write_session(slot, to)

    def change_sessions(self):
        """Changes and claims sessions as a host would."""
        for slot in range(SESSIONS):
            kind = self.random.randrange(12)
            if kind == 0:
                self.write_session(slot)
            elif kind < 4:
                session = self.xdp.session(slot)
                assert self.host.session(slot, claim=kind == 1) == session
                session.claimed = kind == 1
                self.xdp.write_session(slot, session)
            assert self.host.session(slot) == self.xdp.session(slot)
            self.sequences[slot] = self.xdp.session(slot).sequence
        assert self.host.session(SESSIONS) is None

    def change(self, count: int):
        """Changes accounts as a host would."""
        for _ in range(count):
            account, kind = self.random.choice(self.paper + self.wide), self.random.randrange(9)
            if kind == 8:
                self.fill(account, flags=LINKED)
                self.fill(self.random.choice(self.wide))
            elif kind < 2:
                self.fill(account, ["fill", "put"][kind])
            elif kind == 2:
                code = self.host.order("remove", account)["code"] & 0xFF
                # A cell that is free again has no last request.
                index = self.xdp.find(account)
                assert (code == CODES["done"]) == (index is not None)
                if index is not None:
                    self.xdp.change(account, clear_flags=7)
                    self.xdp.write("transfer_papers", 32 * index, bytes(32))
            elif kind == 3 and self.case.credit < 1000:
                self.grant(5)
            else:
                claims = kind < 5 and self.random.random() < 0.6
                response = self.host.order("claim" if claims else "release", account)
                known = self.xdp.change(account, CLAIMED * claims, CLAIMED * (not claims))
                assert (response["code"] & 0xFF == CODES["done"]) == known
                assert response["records"] == self.xdp.read
        self.change_sessions()

    def check_accounts(self):
        for account in self.paper + self.wide:
            assert self.host.read(account) == self.xdp.read_account(account), account.hex()

    # ---- frames ----

    def payload(self) -> bytes:
        chance = self.random
        if self.sent and chance.random() < 0.1:
            return chance.choice(self.sent[-30:])  # also a request of a session
        payload = self.new_payload()
        self.sent.append(payload)
        return payload

    def new_payload(self) -> bytes:
        chance = self.random
        kind = chance.randrange(20)
        if kind < 10:
            return self.paper_packet()
        if kind < 12:
            return self.refer()
        if kind < 19:
            return self.execute()
        return chance.randbytes(chance.choice([0, 1, 15, 16, 19, 20, 21, 22, 23, 40, 72, 120, 128, 129, 500, 1400]))

    def paper_packet(self) -> bytes:
        chance = self.random
        command = chance.choice([1, 1, 2, 3, 3, 3, 3, 4, 4])
        if chance.random() < 0.05:
            command = chance.choice([0, 5, 6, 7, 0x4C530000, 0x80000003, 1 << 30 | 3, chance.getrandbits(32)])
        source = chance.choice(self.paper)
        destination = chance.choice([*self.paper, source, bytes(12) + chance.randbytes(4)])
        if chance.random() < 0.03:
            source = bytes(12) + chance.randbytes(4)
        amount = chance.choice([0, 1, 1, 1, 5, 5, 100, 1000, 1 << 31, (1 << 32) - 1, chance.getrandbits(20)])
        number = 0
        if chance.random() < 0.6:
            number = max(0, self.numbers.get(source, 0) + chance.choice([1, 1, 1, 1, 2, 0, 0, -1]))
            self.numbers[source] = max(number, self.numbers.get(source, 0))
        packet = struct.pack(">2I", command, number) + source[12:] + destination[12:] + struct.pack(">I", amount)
        filler = bytes(chance.choice([0, 0, 1, 2]))
        if filler and chance.random() < 0.1:
            filler = chance.randbytes(len(filler))
        return packet + filler

    def header(self, op: int, body: bytes, usual=0.0) -> bytes:
        chance = self.random
        if chance.random() < usual:
            return struct.pack(">2sBBHH", b"LS", 1, op, 0, len(body)) + chance.randbytes(8) + body
        length = len(body) if chance.random() < 0.96 else chance.getrandbits(16)
        op = op if chance.random() < 0.94 else chance.choice([0x81, 0x82, 3, 4, 5, 6, chance.getrandbits(8)])
        header = b"LS" + bytes([chance.choice([1] * 30 + [0, 2]), op])
        header += chance.choice([0] * 30 + [1, 256]).to_bytes(2, "big") + length.to_bytes(2, "big")
        return header + chance.randbytes(8) + body

    def refer(self) -> bytes:
        chance = self.random
        count = chance.choice([1] * 12 + [2, 3])
        accounts = [*self.paper, *self.wide, chance.randbytes(16)]
        body = struct.pack(">I4x", count if chance.random() < 0.95 else chance.randrange(4))
        body += b"".join(chance.choice(accounts) + bytes(32) for _ in range(count))
        if chance.random() < 0.08:
            at = chance.randrange(len(body))
            body = body[:at] + b"\1" + body[at + 1 :]
        return self.header(REFER, body)

    def execute(self) -> bytes:
        chance = self.random
        count = chance.choice([1] * 12 + [2, 3, 4, 5])
        slot = chance.randrange(SESSIONS)
        session = self.xdp.session(slot)
        if chance.random() < 0.6:
            # This request arrives in order, so the next request of the session may have the next number.
            self.is_plain = True
            sequence = self.sequences[slot] = (self.sequences[slot] + 1) % (1 << 64)
            body = struct.pack(">QQIHH", session.token, sequence, slot, 1, 0) + self.operation(0.998)
            self.bodies[slot] = self.header(EXECUTE, body, 1)
            return self.bodies[slot]
        if chance.random() < 0.4 and slot in self.bodies:
            return self.bodies[slot]
        slot = slot if chance.random() < 0.8 else chance.choice([4, 5, 6, 1 << 31])
        token = session.token
        if chance.random() < 0.1:
            token = chance.choice([0, 7, token ^ 1 << chance.randrange(64)])
        last = self.sequences[slot % 4]
        sequence = chance.choice([last, last, last ^ 1 << chance.randrange(64), 0, 1, chance.getrandbits(64)])
        head = count if chance.random() < 0.97 else chance.randrange(4)
        body = struct.pack(">QQIHH", token, sequence, slot, head, 0 if chance.random() < 0.97 else 2)
        return self.header(EXECUTE, body + b"".join(self.operation(0.98) for _ in range(count)))

    def operation(self, usual: float) -> bytes:
        chance = self.random
        command = chance.choice([1, 2, 3, 3, 3, 3, 3, 5, 6])
        command = command if chance.random() < 0.96 else chance.choice([0, 4, 7, 255])
        flags, code, contract, number, timeout_s = [
            0 if chance.random() < usual else chance.choice([1, 2, 3]) for _ in range(5)
        ]
        accounts = self.wide * 3 + self.paper
        source, destination = chance.choice(accounts), chance.choice(accounts)
        amount = chance.choice([0, 1, 1, 5, 100, 1 << 31, 1 << 63, (1 << 64) - 1, chance.getrandbits(20)])
        if command in (2, 5, 6) and chance.random() < 0.9:
            destination = bytes(16)
        if command in (5, 6) and chance.random() < 0.9:
            amount = 0
        operation = struct.pack(">BBHI", command, flags, code, contract) + source + destination
        fields = amount, number, chance.getrandbits(64), chance.randbytes(16), chance.getrandbits(32), timeout_s
        return operation + struct.pack(">3Q16s2I", *fields)

    def frame(self) -> bytes:
        maker = self.maker if self.random.random() < 0.85 else self.stranger
        self.is_plain = False
        payload = self.payload()
        return self.maker.plain(payload) if self.is_plain else maker.frame(payload)

    # ---- the oracle ----

    def counted(self, frame: bytes):
        before = self.xdp.counters()
        outcome = self.xdp.run(frame)
        after = self.xdp.counters()
        return *outcome, {name: after[name] - before[name] for name in after if after[name] != before[name]}

    def expected(self, frame: bytes, left):
        """Verdict, frame and counters that the NIC must give; `left` is what it has given."""
        payload = payload_of(frame)
        if payload[:2] == b"LS" and payload[3:4] == bytes([EXECUTE]) and len(payload) in BATCH_BYTES:
            # The RTL does not compute the checksum of these; in `durable` mode the XDP program does not either.
            self.xdp.set_mode(False)
            outcome = self.counted(frame)
            self.xdp.set_mode(self.case.express)
            return outcome
        head, tail = self.xdp.ring()
        left_payload = payload_of(left.frame) if left.verdict == "reply" else b""
        is_busy = len(left_payload) in (20, 21, 22) and left_payload[0] >= 0x80 and left_payload[19] == CODES["busy"]
        if len(left_payload) == EXECUTE_BYTES:
            is_busy = int.from_bytes(left_payload[4:6], "big") == STATUS_BUSY
        if is_busy and any(self.case.record_pauses):
            self.xdp.set_tail(head - (1 << RING_BITS))
            self.ring_full += 1
        verdict, out, counts = self.counted(frame)
        self.xdp.set_tail(tail)
        if verdict == "reply" and len(payload) > 22 and not is_answered(payload):
            verdict, out, counts = "forward", frame, {"forwarded": 1}
        return verdict, out, counts


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_random_frames(case):
    both = Both(case, seed=sum(case.name.encode()))
    verdicts, counts = {"forward": 0, "reply": 0, "drop": 0}, dict.fromkeys(both.nic.counters(), 0)
    records, codes = 0, set()
    for start in range(0, FRAMES, BATCH):
        frames = [both.frame() for _ in range(BATCH)]
        if case.lease_ends:
            both.set_lease(both.random.random() < 0.5)
        both.nic.pause_records(both.random.choice(case.record_pauses))
        both.nic.pause_responses(RESPONSE_PAUSES[start // BATCH % len(RESPONSE_PAUSES)])
        shares = [both.random.choice([0, 0, 40, 128, 220]) for _ in range(3)]
        left = both.nic.run(frames, Pauses(start + 1, *shares))
        for number, (frame, one) in enumerate(zip(frames, left, strict=True)):
            verdict, out, risen = both.expected(frame, one)
            assert (one.verdict, one.frame) == (verdict, out), f"frame {start + number}: {frame.hex()}"
            verdicts[one.verdict] += 1
            if one.verdict == "reply":
                codes.add(code_of(payload_of(one.frame)))
            for name, count in risen.items():
                counts[name] += count
        assert both.nic.counters() == counts, start
        names = [name for name in RECORD_NAMES if name != "time_ns"]
        wanted = both.xdp.records()
        both.nic.pause_records(0)
        got = both.nic.records()
        assert [[one[name] for name in names] for one in got] == [[one[name] for name in names] for one in wanted]
        assert all(one["time_ns"] == 1 for one in got)
        records += len(wanted)
        if start // BATCH % 4 == 3:
            both.check_accounts()
        both.change(8)
    both.check_accounts()
    answers = case.lease
    assert (verdicts["reply"] > FRAMES // 200) == answers, verdicts
    assert verdicts["forward"] > FRAMES // 50 and verdicts["drop"] > FRAMES // 50, verdicts
    executes = answers and case.express and not case.require_signature
    assert (records > FRAMES // 200) == executes, records
    if any(case.record_pauses):
        assert both.ring_full == counts["ring_full"] > 0
    if case.name == "express" and FRAMES >= 2500:
        # Every code that the fast path can give, but for `busy`; and the refusals of sessions.
        assert codes == {*range(CODES["unauthorised"] + 1)} - {CODES["busy"]} | {105, 106, 107}, codes
        assert counts["repeats"] > FRAMES // 500 and counts["refusals"] > FRAMES // 100, counts
    both.nic.close()

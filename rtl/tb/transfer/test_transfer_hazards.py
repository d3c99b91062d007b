# SPDX-License-Identifier: Apache-2.0
"""Requests of one session that follow each other after 2 to 20 cycles, through the simulated NIC of `transfer` and the
XDP program compiled natively: verdict, bytes, counters, records, accounts and sessions must be equal.

New requests, repetitions, other bodies with a used number, and wrong numbers follow each other, on accounts of which
the host has claimed some. While the frames pass, the host claims and releases an account that no request names, and
reads sessions, so that the NIC cannot know what claims are under way; it takes the responses at once or late. A request
of a session has three beats, so a distance of two cycles needs requests that wait for the store; there is no distance
of one cycle.
"""

import os
import pathlib
import struct
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "memory"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from memory_nic import MemoryNic  # noqa: E402
from test_transfer_diff import (  # noqa: E402
    EXECUTE,
    HOST_SESSIONS,
    PAPER_ACCOUNTS,
    RESPONSE_PAUSES,
    SESSIONS,
    Both,
    Case,
    payload_of,
)
from lineside_rtl import Pauses, command, register  # noqa: E402
from lineside_transfer import CLAIMED, CODES, RECORD_NAMES, Account  # noqa: E402

ROUNDS = int(os.environ.get("RTL_DIFF_FRAMES", "10000")) // 250
BEATS = 3  # of a request
REQUESTS = 60
CREATE, ISSUE, TRANSFER, FREEZE = 1, 2, 3, 5
UNNAMED = bytes([1]) + bytes(15)  # an account that no request names


class Hazards(Both):
    """Frames of few sessions at a distance of some cycles."""

    def begin(self, is_slow: bool):
        self.is_slow = is_slow
        self.next = {slot: self.xdp.session(slot).sequence for slot in range(SESSIONS)}
        self.is_claimed = {
            account: bool((found := self.xdp.read_account(account)) and found.flags & CLAIMED)
            for account in self.paper + self.wide
        }
        self.bodies = {}

    def request(self, slot: int) -> bytes:
        chance, session = self.random, self.xdp.session(slot)
        kind = chance.randrange(16)
        if kind < 4 and slot in self.bodies:
            return self.bodies[slot]
        command_code = chance.choice([TRANSFER] * 7 + [CREATE, CREATE, ISSUE, FREEZE])
        source, destination = chance.choice(self.wide + self.paper[:8]), chance.choice(self.wide)
        if command_code == CREATE and chance.random() < 0.5:
            source = bytes(12) + chance.choice([PAPER_ACCOUNTS + 1, chance.getrandbits(32)]).to_bytes(4, "big")
        if command_code in (ISSUE, FREEZE):
            destination = bytes(16)
        amount = 0 if command_code == FREEZE else chance.choice([1, 1, 1, 5, 1 << 40])
        token = session.token ^ (kind == 4) << chance.randrange(64)
        step = {5: 0, 6: 0, 7: -1, 8: 2}.get(kind, 1)
        sequence = (self.next[slot] + step) % (1 << 64)
        forwards = self.is_claimed.get(source) or (command_code == TRANSFER and self.is_claimed.get(destination))
        if self.is_slow and chance.random() < 0.25:
            sequence = (self.next[slot] + 2) % (1 << 64)  # follows a request that may have had no place
        elif step == 1 and kind != 4 and not forwards and not (self.is_slow and chance.random() < 0.5):
            self.next[slot] = sequence
        body = struct.pack(">QQIHH", token, sequence, slot, 1, 0)
        body += struct.pack(">BBHI", command_code, 0, 0, 0) + source + destination
        fields = amount, 0, chance.getrandbits(64), chance.randbytes(16), chance.getrandbits(32), 0
        body += struct.pack(">3Q16s2I", *fields)
        payload = struct.pack(">2sBBHH", b"LS", 1, EXECUTE, 0, len(body)) + chance.randbytes(8) + body
        if step == 1 and kind != 4:
            self.bodies[slot] = self.maker.plain(payload)
            return self.bodies[slot]
        return self.maker.plain(payload)

    def short(self) -> bytes:
        """A frame of one beat: to the store, or not."""
        if self.random.random() < 0.5:
            return bytes(60)
        paper = struct.pack(">2I", 4, 0) + self.random.choice(self.paper)[12:] + bytes(8)
        return self.maker.plain(paper)

    def batch(self, distance: int) -> list[bytes]:
        slot, frames = self.random.randrange(SESSIONS), []
        if self.is_slow:
            # ISSUE of 0 to accounts that allow it takes the places of the record stream.
            known = [(account, self.xdp.read_account(account)) for account in self.paper]
            usable = [account for account, found in known if found and not found.flags and found.balance < 1 << 32]
            for account in (usable * 24)[:24]:
                frames.append(self.maker.plain(struct.pack(">2I", ISSUE, 0) + account[12:] + bytes(8)))
        for at in range(REQUESTS):
            if distance < BEATS and at % 12 == 0:
                # The store needs two cycles for each of these, and gets them in one.
                paper = struct.pack(">2I", 4, 0) + self.paper[0][12:] + bytes(8)
                frames += [self.maker.plain(paper)] * 50
            frames.append(self.request(slot if self.random.random() < 0.8 else self.random.randrange(SESSIONS)))
            frames += [self.short() for _ in range(distance - BEATS)]
        return frames

    def orders(self, count: int) -> list[bytes]:
        """Orders that change nothing that a request sees."""
        chance = self.random
        kinds = ["transfer_claim", "transfer_release", "transfer_session"]
        return [command(chance.choice(kinds), 1, 0, chance.randrange(SESSIONS), b"", UNNAMED) for _ in range(count)]


def is_execute(frame: bytes) -> bool:
    return payload_of(frame)[:4] == b"LS\1" + bytes([EXECUTE])


@pytest.mark.parametrize("distance", range(2, 21))
def test_distance(distance):
    # In every other round the record stream is slow or stopped, so that requests have no place for their record.
    case = Case(f"hazards {distance}", accounts=12, record_pauses=(224, 248, 256))
    both = Hazards(case, seed=sum(case.name.encode()))
    assert both.host.fill(UNNAMED, Account()) == CODES["done"] and both.xdp.fill(UNNAMED, Account())
    statuses, counts, executed = {}, dict.fromkeys(both.nic.counters(), 0), 0
    for number in range(max(ROUNDS, 24)):
        both.begin(number % 2 == 1)
        frames = both.batch(distance)
        both.nic.pause_records(both.random.choice(case.record_pauses) if both.is_slow else 0)
        both.nic.pause_responses(RESPONSE_PAUSES[number % len(RESPONSE_PAUSES)])
        share = both.random.choice([0, 0, 100])
        commands = both.orders(both.random.choice([0, 0, 20, 200]))
        # Without pauses of the source, so that the distance is as it was said.
        pauses = Pauses(number + 1, 0, share, share)
        left, _ = MemoryNic.run_mixed(both.nic, frames, commands, pauses, both.random.choice([0, 240]))
        for frame, one in zip(frames, left, strict=True):
            verdict, out, risen = both.expected(frame, one)
            assert (one.verdict, one.frame) == (verdict, out), frame.hex()
            for name, count in risen.items():
                counts[name] += count
            if is_execute(frame):
                status = int.from_bytes(payload_of(out)[4:6], "big") if verdict == "reply" else verdict
                statuses[status] = statuses.get(status, 0) + 1
        assert both.nic.counters() == counts
        names = [name for name in RECORD_NAMES if name != "time_ns"]
        wanted = both.xdp.records()
        both.nic.pause_records(0)
        got = both.nic.records()
        assert [[one[name] for name in names] for one in got] == [[one[name] for name in names] for one in wanted]
        executed += len(wanted)
        # Waits for the responses to all orders.
        both.nic.command(register("transfer_sessions", HOST_SESSIONS))
        both.nic.responses()
        both.check_accounts()
        both.change(6)
    # OK, busy, no session, used number with another body, wrong number, and what the host answers.
    assert {0, 3, 5, 6, 7, "forward"} <= statuses.keys(), statuses
    assert counts["repeats"] and executed > ROUNDS * REQUESTS // 10, (counts, executed)
    both.nic.close()

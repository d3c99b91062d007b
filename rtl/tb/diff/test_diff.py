# SPDX-License-Identifier: Apache-2.0
"""Random, mutated and truncated frames through the simulated NIC and the XDP program compiled for user space.

Verdict, every byte and every counter must be equal. Frames pass the NIC back to back, with random pauses of source and
sinks. Between batches the host writes the table. RTL_DIFF_FRAMES is the number of frames of each case, and
RTL_DIFF_LINE_BITS the size of the table: with external memory, it may be much larger than the first level.
"""

import os
import pathlib
import random
import sys
from dataclasses import dataclass

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from frames import BROADCASTS, V4, V6, FrameMaker, roots_body, roots_header  # noqa: E402
from lineside_rtl import Nic, Pauses, SpvHost, command, folded_sum, has_external_memory, register  # noqa: E402
from spv_frame import frame as request_frame  # noqa: E402
from xdp_native import XdpNative  # noqa: E402

FRAMES = int(os.environ.get("RTL_DIFF_FRAMES", "10000"))
BATCH = 250
LINE_BITS, BLOCK_BITS = int(os.environ.get("RTL_DIFF_LINE_BITS", "6")), 3
LINES_AT_FIRST, TXIDS_ASKED, BLOCK_CHANGES = (200, 80, 0.05) if LINE_BITS <= 6 else (1500, 800, 0.005)
FOREVER = (1 << 64) - 1
# Place of the TTL in a frame of IPv4 without a VLAN tag; the checksum of the header is two bytes later.
TTL_AT = 22


@dataclass(frozen=True)
class Case:
    name: str
    ways: int = 4
    paper_index: bool = False
    paper_format: bool = True
    loopback: bool = False
    answered: int = 2
    lease: bool = True
    at_rest: bool = True


CASES = [
    *(Case(f"{ways} ways, paper's index {paper}", ways, paper) for ways in (1, 2, 4) for paper in (False, True)),
    Case("paper's format refused", paper_format=False),
    Case("lo", loopback=True),
    Case("one address answered", answered=1),
    Case("lease over", lease=False),
    Case("chain changing", at_rest=False),
]


class Both:
    """The NIC and the XDP program with the same table."""

    def __init__(self, case: Case, seed: int):
        self.case, self.random = case, random.Random(seed)
        key = tuple(self.random.getrandbits(64) | 1 for _ in range(3))
        self.nic, self.xdp = Nic(), XdpNative(LINE_BITS, BLOCK_BITS, case.ways, case.paper_index)
        self.host = SpvHost(
            self.nic, LINE_BITS, BLOCK_BITS, case.ways, case.paper_index, paper_format=case.paper_format, key=key
        )
        mac = bytes(6) if case.loopback else bytes.fromhex("020000000002")
        self.maker = FrameMaker(self.random, mac, 7701)
        self.host.endpoint(mac, [*V4, *V6], BROADCASTS[0], case.loopback)
        number = int.from_bytes(bytes([192, 168, 7, 2, 255, 255, 255, 255]), "little")
        answered = (1 << case.answered) - 1
        self.nic.command(register("v4", number, 1), register("v4_answered", answered), register("v6_answered", answered))
        self.xdp.write_endpoint(mac, case.loopback, V4, BROADCASTS, case.answered, V6, case.answered)
        tip, height = self.random.randbytes(32), self.random.getrandbits(32)
        epoch, lease = 2 if case.at_rest else 3, FOREVER if case.lease else 0
        self.nic.set_now(1)
        self.host.tip(tip, height, epoch)
        self.nic.command(register("spv_lease_until_ns", lease))
        self.xdp.write_control(lease, epoch, key, tip, height, case.paper_format)
        self.generations, self.lines, self.places, self.txids = {}, {}, {}, []
        self.change(LINES_AT_FIRST)

    def change(self, count: int):
        """Writes lines and blocks as a host would, and clears and drops some of them."""
        self.commands = []
        for _ in range(count):
            slot = self.random.randrange(1 << BLOCK_BITS)
            if slot not in self.generations or self.random.random() < BLOCK_CHANGES:
                self.write_block(slot)
            elif self.random.random() < 0.1:
                self.write_line(self.random.randrange(1 << LINE_BITS), 0, 0, bytes(32))
            else:
                self.fill(slot)
        self.nic.command(*self.commands)

    def write_block(self, slot: int):
        generation = self.generations[slot] = self.generations.get(slot, 0) + 2
        root, block_hash = self.random.randbytes(32), self.random.randbytes(32)
        # Some roots look like a native packet, and some have a sum of zero.
        kind = self.random.randrange(5)
        root = b"LS" + root[2:] if kind == 0 else bytes(32) if kind == 1 else root
        height = self.random.choice([0, 7, 0xFFFFFFFF, self.random.getrandbits(32)])
        self.xdp.write_block(slot, generation, height, root, block_hash)
        self.commands += [
            command("block_hash", 0, height, folded_sum(block_hash + height.to_bytes(4, "big")), block_hash),
            command("block", slot, generation, folded_sum(root), root),
        ]

    def fill(self, slot: int):
        txid = self.random.randbytes(32)
        if self.txids and self.random.random() < 0.2:
            # The same first words as another TXID: the same set, and another full key.
            txid = self.random.choice(self.txids)[: self.random.choice([8, 16, 31])].ljust(32, b"\x77")
        first = self.host.first_line(txid)
        used = range(first, first + self.case.ways)
        same = [at for at in used if self.lines.get(at, bytes(32))[:8] == txid[:8]]
        empty = [at for at in used if self.lines.get(at, bytes(32)) == bytes(32)]
        at = (same or empty or [self.random.choice(used)])[0]
        generation = self.generations[slot] - self.random.choice([0, 0, 0, 0, 2])
        self.write_line(at, generation, slot, txid)
        self.txids.append(txid)

    def write_line(self, index, generation, slot, txid):
        # The XDP program sees a line that is written by half; for the RTL such a line is empty.
        is_half = self.random.random() < 0.05
        self.lines[index], self.places[index] = txid, (slot, 0 if is_half else generation)
        self.xdp.write_line(index, generation, slot, txid, seq=int(is_half))
        self.commands.append(command("line", index, 0 if is_half else generation, slot, txid))

    # ---- frames ----

    def payload(self) -> bytes:
        chance = self.random
        txid = chance.choice(self.txids[-TXIDS_ASKED:]) if chance.random() < 0.8 else chance.randbytes(32)
        kind = chance.randrange(12 if has_external_memory() else 15)
        if kind >= 12:
            return self.roots()
        if kind < 5:
            return txid
        if kind == 5:
            return bytes(32) if chance.random() < 0.5 else b"LS" + txid[2:]
        if kind == 6:
            return chance.randbytes(chance.choice([0, 1, 15, 16, 17, 31, 33, 119, 120, 121, 500, 1400]))
        body = txid + bytes(72)
        if kind == 7:
            at = chance.randrange(32, 104)
            body = body[:at] + b"\1" + body[at + 1 :]
        length = len(body) if chance.random() < 0.95 else chance.getrandbits(16)
        op = chance.choice([1, 1, 1, 1, 0x81, 4, 5, chance.getrandbits(8)])
        header = b"LS" + bytes([chance.choice([1] * 20 + [0, 2]), op])
        header += chance.choice([0] * 20 + [1, 256]).to_bytes(2, "big") + length.to_bytes(2, "big")
        return header + chance.randbytes(8) + body

    def roots(self) -> bytes:
        """A `roots` request; most have TXIDs of the table only, and some a wrong count, length or padding."""
        chance = self.random
        count = chance.choice([1, 2, 3, chance.randrange(1, 17), 16, 16, 0, 17])
        known = chance.random() < 0.8
        found = [txid for txid in self.txids[-TXIDS_ASKED:] if self.holds(txid)] if known else self.txids
        body = roots_body([chance.choice(found or self.txids) for _ in range(count)])
        if not known and count and chance.random() < 0.5:
            at = 40 + 72 * chance.randrange(count)
            body = body[:at] + chance.randbytes(32) + body[at + 32 :]
        if chance.random() < 0.1:
            at = chance.randrange(len(body))
            body = body[:at] + bytes([body[at] ^ 1 << chance.randrange(8)]) + body[at + 1 :]
        if chance.random() < 0.05:
            body = body[: chance.randrange(len(body))] if chance.random() < 0.5 else body + bytes(chance.randrange(80))
        return roots_header(body) + body

    def holds(self, txid: bytes) -> bool:
        """Whether a line of the set has the TXID, with a block of its generation."""
        first = self.host.first_line(txid)
        return any(
            self.lines.get(at) == txid and self.generations[self.places[at][0]] == self.places[at][1]
            for at in range(first, first + self.case.ways)
        )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_random_frames(case):
    both = Both(case, seed=len(case.name) + case.ways)
    long_replies, verdicts = 0, {"forward": 0, "reply": 0, "drop": 0}
    for start in range(0, FRAMES, BATCH):
        frames = [both.maker.frame(both.payload()) for _ in range(BATCH)]
        shares = [both.random.choice([0, 0, 40, 128, 220]) for _ in range(3)]
        left = both.nic.run(frames, Pauses(start + 1, *shares))
        for number, (frame, one) in enumerate(zip(frames, left, strict=True)):
            wanted = both.xdp.run(frame)
            assert (one.verdict, one.frame) == wanted, f"frame {start + number}: {frame.hex()}"
            verdicts[one.verdict] += 1
            long_replies += one.verdict == "reply" and len(frame) > 1000
        both.change(10)
    assert both.nic.counters() == both.xdp.counters()
    answers = case.lease and case.at_rest
    assert (verdicts["reply"] > FRAMES // 200) == answers, verdicts
    assert (long_replies > FRAMES // 300) == (answers and not has_external_memory()), long_replies
    assert verdicts["forward"] > FRAMES // 50 and verdicts["drop"] > FRAMES // 50, verdicts
    both.nic.close()


def test_special_checksums_of_the_header():
    """A reply updates the checksum of the IPv4 header. If the TTL does not change, as in a native request with the TTL of
    all native replies, the checksum stays as it is, also 0xffff, which an update would change into 0."""
    both = Both(Case("all answered", ways=4), seed=5)
    txid = next(txid for txid in both.txids if both.holds(txid))
    root = b"LS" + bytes([1, 1, 0, 0, 0, 104]) + bytes(8) + txid + bytes(72)
    frames = []
    for payload in (txid, root):
        for ttl in (0, 1, 63, 64, 65, 255):
            for check in (0, 1, 0x4000, 0xBFFF, 0xFFFE, 0xFFFF):
                one = bytearray(request_frame(payload))
                one[TTL_AT], one[TTL_AT + 2 : TTL_AT + 4] = ttl, check.to_bytes(2, "big")
                frames.append(bytes(one))
    for request, one in zip(frames, both.nic.run(frames, None), strict=True):
        wanted = both.xdp.run(request)
        assert (one.verdict, one.frame) == wanted, request.hex()
        is_answered = root in request or request[TTL_AT] > 1
        assert wanted[0] == ("reply" if is_answered else "forward"), request.hex()
    both.nic.close()

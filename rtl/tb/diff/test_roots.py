# SPDX-License-Identifier: Apache-2.0
"""Native `roots` through the simulated NIC: every count and every place of a fault against the XDP program, and the
changes of the host while frames pass.

The random frames of test_diff.py have `roots` too. With external memory, the NIC forwards `roots`.
"""

import itertools
import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
from frames import roots_body, roots_header  # noqa: E402
from lineside_rtl import Nic, Pauses, SpvHost, command, folded_sum, has_external_memory, register  # noqa: E402
from spv_frame import frame  # noqa: E402
from test_diff import Case, Both  # noqa: E402

pytestmark = pytest.mark.skipif(has_external_memory(), reason="with external memory, `roots` is forwarded")
MAC = bytes.fromhex("020000000002")
KINDS = list(itertools.product([False, True], [False, True]))
FOREVER = (1 << 64) - 1


def requests(known: list[bytes], unknown: bytes):
    """`roots` requests with every count, and with a fault of each kind at each place."""
    request = lambda txids, count=None: (  # noqa: E731
        roots_header(roots_body(txids, count)) + roots_body(txids, count)
    )
    for count in range(18):
        yield request((known * 17)[:count])
    for count in (1, 2, 3, 15, 16):
        txids = (known * 16)[:count]
        for at in range(count):
            yield request(txids[:at] + [unknown] + txids[at + 1 :])
            for inside in (32, 63, 64, 67, 68, 71):
                whole = bytearray(request(txids))
                whole[16 + 40 + 72 * at + inside] = 1
                yield bytes(whole)
                # A miss before the fault, at its place, and after it.
                for other in {max(at - 1, 0), at, min(at + 1, count - 1)}:
                    start = 16 + 40 + 72 * other
                    yield bytes(whole[:start]) + unknown + bytes(whole[start + 32 :])
    for said in (0, 1, 2, 4, 16, 17, 3 + 256, 3 + 65536, 3 + (1 << 24), 35):
        yield request(known[:3], said)
    for at in range(16 + 36):
        whole = bytearray(request(known[:2]))
        whole[at] ^= 1
        yield bytes(whole)
    yield request(known[:2]) + bytes(4)
    yield request(known[:2])[:-1]


@pytest.mark.parametrize("v6, vlan", KINDS)
def test_every_count_and_every_fault(v6, vlan):
    both = Both(Case("all answered", ways=4), seed=5)
    known = [txid for txid in both.txids if both.holds(txid)]
    known = list(dict.fromkeys(known))[:20]
    assert len(known) == 20
    chance = random.Random(9)
    frames = [frame(payload, v6, vlan) for payload in requests(known, bytes(range(1, 33)))]
    # A trailer of any bytes may look like one more item.
    frames += [one + chance.choice([bytes(72), bytes(7), known[0] + bytes(40), bytes(200)]) for one in frames[:60]]
    mixed = []
    for one in frames:
        mixed += [one] + [chance.choice([bytes(60), frame(known[1], v6, vlan), bytes(12) + bytes(300)])] * (
            chance.random() < 0.3
        )
    wanted = [both.xdp.run(one) for one in mixed]
    assert sum(verdict == "reply" and len(after) > 1000 for verdict, after in wanted) >= 3
    for pauses in [None, Pauses(3, 100, 0, 0), Pauses(4, 0, 128, 128), Pauses(5, 60, 200, 30)]:
        before = both.nic.counters()
        left = both.nic.run(mixed, pauses)
        for request, one, expected in zip(mixed, left, wanted, strict=True):
            assert (one.verdict, one.frame) == expected, request.hex()
        after = both.nic.counters()
        assert {name: after[name] - before[name] for name in after} == both.xdp.counters()
    both.nic.close()


def test_replies_back_to_back_take_one_cycle_for_each_beat():
    both = Both(Case("all answered", ways=4), seed=5)
    known = [txid for txid in both.txids if both.holds(txid)]
    for (v6, vlan), count in itertools.product(KINDS, (1, 2, 9, 16)):
        body = roots_body((known * 16)[:count])
        one = frame(roots_header(body) + body, v6, vlan)
        beats = -(-len(one) // 64)
        cycles = []
        for copies in (20, 40):
            assert {out.verdict for out in both.nic.run([one] * copies)} == {"reply"}
            cycles.append(both.nic.cycles)
        assert cycles[1] - cycles[0] == 20 * beats, (v6, vlan, count)
        # No beat of a reply waits: the last one leaves with the latency of the first one.
        _, times = both.nic.run_mixed([one], [])
        assert both.nic.latency() == 44
        assert times.frame_out[0] - times.frame_in[0] == 44 + beats - 1, (v6, vlan, count)
    both.nic.close()


# ---- changes of the host while frames pass ----

BLOCKS = 8


def block_commands(slot: int, version: int):
    """A block whose root, hash and height tell the version."""
    text = bytes([slot]) + version.to_bytes(4, "big")
    root, block_hash = text.ljust(32, b"\x55"), text.ljust(32, b"\xaa")
    return [
        command("block_hash", 0, version, folded_sum(block_hash + version.to_bytes(4, "big")), block_hash),
        command("block", slot, 2, folded_sum(root), root),
    ]


def tip_commands(version: int):
    tip = version.to_bytes(32, "big")
    return [command("tip", 0, version, folded_sum(tip + version.to_bytes(4, "big")), tip)]


def nic_of(chance):
    nic = Nic()
    host = SpvHost(nic)
    host.endpoint(MAC, ["10.0.0.2", "fd00::2"], "10.0.0.255")
    nic.command(*(one for slot in range(BLOCKS) for one in block_commands(slot, 0)))
    nic.command(*tip_commands(0), register("spv_epoch", 2))
    nic.set_now(1)
    nic.command(register("spv_lease_until_ns", FOREVER))
    lines, used = {}, {}
    while len(lines) < 64:
        txid = chance.randbytes(32)
        first = host.first_line(txid)
        if used.get(first, 0) < 4:
            lines[txid] = first + used.get(first, 0)
            used[first] = used.get(first, 0) + 1
            nic.command(command("line", lines[txid], 2, len(lines) % BLOCKS, txid))
    return nic, lines


def versions_in(sent: bytes, left: bytes, count: int):
    """Version of the tip and those of the items of a reply, whose fields must agree with each other."""
    at = len(sent) - (16 + 40 + 72 * count)
    head = left[at + 16 : at + 56]
    tip = int.from_bytes(head[32:36], "big")
    assert head == tip.to_bytes(32, "big") + tip.to_bytes(4, "big") + count.to_bytes(4, "big")
    versions = []
    for item in range(count):
        bytes_of = left[at + 56 + 72 * item : at + 128 + 72 * item]
        height = int.from_bytes(bytes_of[64:68], "big")
        text = bytes_of[:1] + height.to_bytes(4, "big")
        assert bytes_of[:64] == text.ljust(32, b"\x55") + text.ljust(32, b"\xaa") and bytes_of[68:] == bytes(4)
        versions.append(height)
    udp = at - 8
    v6 = sent[12:14] == b"\x86\xdd"
    addresses = left[udp - 32 : udp] if v6 else left[udp - 8 : udp]
    pseudo = addresses + len(left[udp:]).to_bytes(2, "big") + b"\0\x11"
    assert folded_sum(pseudo + left[udp:]) == 0xFFFF
    return tip, versions


@pytest.mark.parametrize("source", [0, 100, 230])
def test_a_reply_has_the_answers_of_one_epoch(source):
    """The host changes all blocks and the tip again and again; a reply never has values of two epochs."""
    chance = random.Random(source)
    nic, lines = nic_of(chance)
    txids = list(lines)
    changes = 150
    commands = []
    for version in range(1, changes + 1):
        commands += [register("spv_epoch", 2 * version + 1)]
        slots = list(range(BLOCKS))
        chance.shuffle(slots)
        for slot in slots:
            commands += block_commands(slot, version)
        commands += tip_commands(version) + [register("spv_epoch", 2 * version + 2)]
        # Registers that change nothing are a pause for the frames.
        commands += [register("loopback", 0)] * chance.randrange(150)
    sent, counts = [], []
    for _ in range(1500):
        counts.append(chance.choice([1, 2, 5, 16, 16]))
        body = roots_body([chance.choice(txids) for _ in range(counts[-1])])
        sent.append(frame(roots_header(body) + body, chance.random() < 0.3))
    left, times = nic.run_mixed(sent, commands, Pauses(source + 1, source, 0, 0))
    last, forwarded, used = 0, 0, set()
    for one, out, count in zip(sent, left, counts, strict=True):
        if out.verdict != "reply":
            assert out.verdict == "forward" and out.frame == one
            forwarded += 1
            continue
        tip, versions = versions_in(one, out.frame, count)
        assert set(versions) == {tip} and tip >= last
        last = tip
        used.add(tip)
    counters = nic.counters()
    assert counters["not_leased"] == forwarded and counters["hits"] == len(sent) - forwarded
    assert forwarded > 50 and len(used) > 30, (forwarded, len(used), times.command_done[-1], times.frame_in[-1])
    nic.close()


@pytest.mark.parametrize("source", [0, 180, 245])
def test_no_reply_is_older_than_a_barrier(source):
    """Lines move to another block while frames come in slowly; after a barrier, no reply has what was before it."""
    chance = random.Random(source)
    nic, lines = nic_of(chance)
    few = list(lines)[:4]
    nic.command(*(command("line", lines[txid], 2, 0, txid) for txid in few))
    commands, moves, barriers = [], {txid: [(0, -1)] for txid in few}, []
    for number in range(300):
        txid = chance.choice(few)
        slot = (moves[txid][-1][0] + 1) % BLOCKS
        moves[txid].append((slot, len(commands)))
        commands += [command("line", lines[txid], 2, slot, txid), command("barrier", number + 1)]
        barriers.append(len(commands) - 1)
    sent, asked = [], []
    for _ in range(600):
        asked.append([chance.choice(few) for _ in range(chance.choice([1, 4, 16]))])
        body = roots_body(asked[-1])
        sent.append(frame(roots_header(body) + body))
    left, times = nic.run_mixed(sent, commands, Pauses(source + 3, source, 0, 0))
    between = 0
    for one, out, txids, gone_at in zip(sent, left, asked, times.frame_out, strict=True):
        assert out.verdict == "reply"
        at = len(one) - 72 * len(txids)
        confirmed = max((barrier for barrier in barriers if times.command_done[barrier] < gone_at), default=-1)
        for item, txid in enumerate(txids):
            slot = out.frame[at + 72 * item]
            recent = [number for number, (_, when) in enumerate(moves[txid]) if when < confirmed or when < 0]
            # The last line that a barrier confirmed before the frame left, or one that was written later.
            allowed = [
                moved
                for moved, when in moves[txid][recent[-1] :]
                if when < 0 or times.command_done[when] < gone_at
            ]
            assert slot in allowed, (slot, allowed, txid.hex())
            between += recent[-1] > 0 and recent[-1] < len(moves[txid]) - 1
    assert between > 20, between
    nic.close()

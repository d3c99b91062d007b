# SPDX-License-Identifier: Apache-2.0
"""Tests of the second level of the table: writes during traffic, damaged lines, errors of the memory, lease and epoch.

The oracle is the history of the commands: which root each TXID had, and when a barrier confirmed it. The tests in
rtl/tb/vectors and rtl/tb/diff, which run with external memory too, check the bytes of replies.
"""

import pathlib
import random
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from memory_nic import MemoryNic, Pauses  # noqa: E402

from spv_frame import frame  # noqa: E402
from lineside_rtl import SpvHost, command, folded_sum, register  # noqa: E402

BLOCKS = 16
FOREVER = 1 << 62


def root_of(number: int) -> bytes:
    return bytes([0x80 | number]) * 32


def nic_of(ways, line_bits=22, paper_index=False, **memory):
    nic = MemoryNic()
    nic.memory(**memory)
    host = SpvHost(nic, line_bits, 4, ways, paper_index)
    host.endpoint(bytes.fromhex("020000000002"), ["10.0.0.2", "fd00::2"], "10.0.0.255")
    host.tip(bytes(range(32)), 7)
    # One block for each version of a line, so that the root of a reply tells the version.
    for number in range(BLOCKS):
        block_hash = bytes([number]) * 32
        nic.command(
            command("block_hash", 0, number, folded_sum(block_hash + number.to_bytes(4, "big")), block_hash),
            command("block", number, 2, folded_sum(root_of(number)), root_of(number)),
        )
    nic.set_now(1)
    nic.command(register("spv_lease_until_ns", FOREVER))
    return nic, host


def line_of(host, txid, slot, generation=2):
    first = host.first_line(txid)
    used = host.sets.setdefault(first, [])
    if txid not in used:
        assert len(used) < host.ways
        used.append(txid)
    return command("line", first + used.index(txid), generation, slot, txid)


def txids_of(host, count, chance, spread=True):
    """Random TXIDs, at most as many in a set as it has lines. Without spread, all share few first-level lines."""
    found, sets = [], {}
    while len(found) < count:
        txid = chance.randbytes(32)
        first = host.first_line(txid)
        if (spread or first % 16 < host.ways) and sets.get(first, 0) < host.ways:
            sets[first] = sets.get(first, 0) + 1
            found.append(txid)
    return found


def version_in(left):
    """Version of the line that a reply comes from; None for a forwarded frame."""
    return left.frame[-1] & 0x7F if left.verdict == "reply" else None


@pytest.mark.parametrize("ways", [1, 2, 4])
@pytest.mark.parametrize("spread", [True, False])
@pytest.mark.parametrize("latency", [(2, 12), (80, 400)])
def test_no_reply_is_older_than_a_confirmed_write(ways, spread, latency):
    """Lines change while frames ask for them; after a barrier, no reply has what was overwritten before it."""
    chance = random.Random(ways + 10 * spread + latency[0])
    # A lookup on the chip takes 16 lines, so lines without spread push each other out.
    nic, host = nic_of(ways, 12, latency=latency, seed=ways)
    txids = txids_of(host, 24, chance, spread)
    nic.command(*(line_of(host, txid, 0) for txid in txids))
    history = {txid: [(0, 0)] for txid in txids}  # versions, with the command that wrote each; None: removed
    commands, barriers = [], []
    for _ in range(700):
        if chance.random() < 0.15:
            commands.append(command("barrier", len(barriers) + 1))
            barriers.append(len(commands) - 1)
        else:
            txid = chance.choice(txids[:6] if chance.random() < 0.7 else txids)
            versions = history[txid]
            gone = chance.random() < 0.2
            version = None if gone else (len(versions)) % BLOCKS
            commands.append(line_of(host, txid, 0 if gone else version, 0 if gone else 2))
            versions.append((version, len(commands) - 1))
    commands.append(command("barrier", len(barriers) + 1))
    barriers.append(len(commands) - 1)
    asked = [chance.choice(txids[:6] if chance.random() < 0.7 else txids) for _ in range(9000)]
    share = chance.choice([0, 40])
    left, times = nic.run_mixed([frame(txid) for txid in asked], commands, Pauses(ways, 0, share, share), 200)
    replies, lateness = 0, 0
    for txid, one, begun, gone_at in zip(asked, left, times.frame_in, times.frame_out, strict=True):
        versions = history[txid]
        # Barriers that were complete before the frame left: writes before the last of them are confirmed.
        confirmed = [at for at in barriers if times.command_done[at] < gone_at]
        last = confirmed[-1] if confirmed else -1
        oldest = max(number for number, (_, at) in enumerate(versions) if number == 0 or at < last)
        # A version that was written after the frame left cannot be in its reply.
        allowed = [version for version, at in versions[oldest:] if at == 0 or times.command_done[at] < gone_at]
        version = version_in(one)
        if version is None:
            # While a line of the set is written, a forwarded frame is right.
            assert ways > 1 or len(versions) > 1, "a line that no command changed was not found"
        else:
            assert version in allowed, (version, allowed, begun, gone_at)
            replies += 1
            lateness += version != versions[0][0]
    assert replies > 1000 and lateness > 300, (replies, lateness)
    # When all is at rest, every answer is the last version.
    for one, txid in zip(nic.run([frame(txid) for txid in txids] * 2), txids * 2, strict=True):
        assert version_in(one) == history[txid][-1][0]
    counters = nic.memory_counters()
    assert counters["reads"] > 500 and counters["faults"] == 0, counters
    nic.close()


@pytest.mark.parametrize("ways", [1, 2])
def test_a_line_of_two_writes_is_not_answered(ways):
    """The first line of a set is written again and again while it is read: some reads see halves of two writes."""
    nic, host = nic_of(ways, 12, latency=(20, 200))
    chance = random.Random(5)
    # Two TXIDs of one set with the same last bytes: half of one's line and half of the other's look like a whole line.
    one = chance.randbytes(32)
    other = next(
        txid
        for txid in (chance.randbytes(24) + one[24:] for _ in range(200_000))
        if host.first_line(txid) == host.first_line(one)
    )
    line = host.first_line(one)
    commands = [command("line", line, 2, at % 2, (one, other)[at % 2]) for at in range(3000)]
    asked = [chance.choice([one, other]) for _ in range(20_000)]
    left, _ = nic.run_mixed([frame(txid) for txid in asked], commands)
    for txid, answer in zip(asked, left, strict=True):
        assert version_in(answer) in (None, int(txid == other)), "a reply has the block of the other TXID"
    counters = nic.memory_counters()
    assert counters["damaged"] > 1000 and counters["found"] > 50, counters
    nic.close()


def test_a_read_error_is_a_miss_and_nothing_is_promoted():
    nic, host = nic_of(2, read_errors=255)
    chance = random.Random(6)
    txids = txids_of(host, 8, chance)
    nic.command(*(line_of(host, txid, 3) for txid in txids))
    left = nic.run([frame(txid) for txid in txids] * 50)
    missed = sum(one.verdict == "forward" for one in left)
    assert missed == nic.memory_counters()["damaged"] > 200
    nic.memory()
    left = nic.run([frame(txid) for txid in txids])
    assert all(version_in(one) == 3 for one in left)
    nic.close()


def test_a_failed_write_ends_all_answers_until_the_reset():
    nic, host = nic_of(1)
    txids = txids_of(host, 8, random.Random(7))
    nic.command(*(line_of(host, txid, 3) for txid in txids))
    assert all(version_in(one) == 3 for one in nic.run([frame(txid) for txid in txids]))
    nic.memory(write_errors=255)
    nic.command(*(line_of(host, txids[0], 4) for _ in range(20)), command("barrier", 77))
    nic.memory()
    assert all(one.verdict == "forward" for one in nic.run([frame(txid) for txid in txids]))
    assert nic.memory_counters()["faults"] == 1
    assert nic.counters()["not_leased"] == len(txids)
    nic.close()


@pytest.mark.parametrize("case", ["lease", "epoch"])
def test_a_lease_or_epoch_that_ends_during_a_read_stops_the_answer(case):
    """The reads of the frames take 400 cycles; the lease or the epoch ends while they are in flight."""
    nic, host = nic_of(1, latency=(400, 400), pauses=0)
    txids = txids_of(host, 200, random.Random(8))
    nic.command(*(line_of(host, txid, 3) for txid in txids))
    # Other commands let the end come when half of the frames are in.
    ends = register("spv_lease_until_ns", 1) if case == "lease" else register("spv_epoch", 4)
    left, times = nic.run_mixed([frame(txid) for txid in txids], [*[command("tip", 0, 7)] * 200, ends])
    end = times.command_done[-1]
    before, after = 0, 0
    for one, begun, gone in zip(left, times.frame_in, times.frame_out, strict=True):
        # A request begins twelve cycles after its last beat, and a register changes three cycles after its command.
        if begun < end - 10:
            before += 1
            assert gone > end + 20 and one.verdict == "forward"
        elif begun > end + 5:
            after += 1
            assert one.verdict == ("forward" if case == "lease" else "reply")
    assert before > 50 and after > 50, (before, after)
    assert nic.counters()["not_leased"] == (200 if case == "lease" else 200 - nic.counters()["hits"])
    nic.close()


def test_an_empty_line_does_not_lead_to_an_empty_block():
    """A removed line keeps its TXID in memory, and a removed block its root; both have generation 0."""
    nic, host = nic_of(2)
    txid = txids_of(host, 1, random.Random(12))[0]
    nic.command(line_of(host, txid, 3, 0), command("block", 3, 0, folded_sum(root_of(3)), root_of(3)))
    assert nic.run([frame(txid)])[0].verdict == "forward"
    assert nic.counters()["misses"] == 1 and nic.memory_counters()["found"] == 0
    nic.close()


def test_the_first_level_answers_what_was_read_once():
    nic, host = nic_of(4, latency=(300, 300), pauses=0)
    txid = txids_of(host, 1, random.Random(9))[0]
    nic.command(line_of(host, txid, 3))
    latencies = []
    for _ in range(3):
        assert version_in(nic.run([frame(txid)])[0]) == 3
        latencies.append(nic.latency())
    assert nic.memory_counters()["reads"] == 1
    assert latencies[0] > 300 and latencies[1] == latencies[2] < 64, latencies
    # A write of any line of the set removes the copy; the next request reads memory again.
    nic.command(command("line", host.first_line(txid) + 3))
    assert version_in(nic.run([frame(txid)])[0]) == 3
    assert nic.memory_counters()["reads"] == 2
    nic.close()


def test_all_lines_of_a_set_have_places_in_the_first_level():
    nic, host = nic_of(4, 12)
    chance = random.Random(13)
    txids = txids_of(host, 1, chance)
    while len(txids) < 4:
        txid = chance.randbytes(32)
        if host.first_line(txid) == host.first_line(txids[0]):
            txids.append(txid)
    nic.command(*(line_of(host, txid, number) for number, txid in enumerate(txids)))
    for _ in range(3):
        left = [nic.run([frame(txid)])[0] for txid in txids]
        assert [version_in(one) for one in left] == [0, 1, 2, 3]
    assert nic.memory_counters()["reads"] == 4
    nic.close()


def test_the_first_line_with_the_first_word_decides():
    """A host never writes two lines with the same first word into one set; the XDP program would miss the second."""
    nic, host = nic_of(2, 12)
    txid = txids_of(host, 1, random.Random(14))[0]
    twin = txid[:16] + bytes(16)
    first = host.first_line(txid)
    nic.command(command("line", first, 2, 1, twin), command("line", first + 1, 2, 2, txid))
    assert [version_in(one) for one in nic.run([frame(txid), frame(twin)] * 2)] == [None, 1, None, 1]
    nic.close()


def test_other_commands_wait_for_lines():
    """An even epoch is written only when the lines before it are complete."""
    nic, host = nic_of(1, latency=(400, 400), pauses=0)
    txids = txids_of(host, 50, random.Random(10))
    lines = [line_of(host, txid, 3) for txid in txids]
    _, times = nic.run_mixed([bytes(60)], [*lines, register("spv_epoch", 6), lines[0], command("barrier", 9)])
    done = times.command_done
    assert done[49] - done[0] == 49, "lines are not taken in one in each cycle"
    assert done[50] > done[49] + 400
    assert done[51] == done[50] + 1
    assert done[52] > done[51] + 400
    nic.close()


def test_a_stopped_sink_loses_nothing_and_reads_stay_bounded():
    nic, host = nic_of(1, latency=(80, 80), pauses=0)
    txids = txids_of(host, 300, random.Random(11))
    nic.command(*(line_of(host, txid, 3) for txid in txids))
    nic.memory(latency=(80, 80), pauses=0)
    left = nic.run([frame(txid) for txid in txids] * 10, Pauses(3, 0, 250, 0))
    assert all(version_in(one) == 3 for one in left)
    assert nic.memory_counters()["most reads in flight"] <= 256
    nic.close()

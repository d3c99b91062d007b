# SPDX-License-Identifier: Apache-2.0
"""Measures the simulated NIC with a table of 2^22 lines in external memory. Prints one JSON object.

Cycles for each frame of 74 bytes, of which every one is looked up in memory, by the latency of the memory and the
number of reads in flight; latency of hits in both levels; fills. The figures are cycles of the RTL. With `full`, all
2^22 lines are filled, and random ones are asked for.
"""

import json
import pathlib
import random
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from memory_nic import MemoryNic  # noqa: E402

from spv_frame import CLOCK_HZ, frame  # noqa: E402
from lineside_rtl import MASK_64, SpvHost, command, folded_sum, register  # noqa: E402

LINE_BITS = 22
COUNT = 6000
LATENCIES = [80, 200, 400]
READS = [1, 8, 16, 32, 64, 96, 128, 192, 224, 256]


def filled(ways):
    """A NIC whose table has COUNT lines at random places of 2^22, of which the first level holds few."""
    nic = MemoryNic()
    nic.memory(latency=(80, 80), pauses=0)
    host = SpvHost(nic, LINE_BITS, 4, ways, paper_index=ways == 1)
    host.endpoint(bytes.fromhex("020000000002"), ["10.0.0.2"], "10.0.0.255")
    host.tip(bytes(range(32)), 7)
    chance, txids, used = random.Random(1), [], set()
    while len(txids) < COUNT:
        txid = chance.randbytes(32)
        if host.first_line(txid) not in used:
            used.add(host.first_line(txid))
            txids.append(txid)
    block_hash, root = bytes(range(32)), bytes(range(100, 132))
    nic.command(
        command("block_hash", 0, 5, folded_sum(block_hash + (5).to_bytes(4, "big")), block_hash),
        command("block", 0, 2, folded_sum(root), root),
        *(command("line", host.first_line(txid) + ways - 1, 2, 0, txid) for txid in txids),
        register("spv_lease_until_ns", 1 << 62),
    )
    nic.set_now(1)
    return nic, [frame(txid) for txid in txids]


def run(nic, frames, latency, reads, pauses=0):
    """Cycles for each frame in the steady state: from a quarter of the frames to the end."""
    nic.memory(latency=latency, reads=reads, pauses=pauses, splits=False)
    before = nic.memory_counters()["reads"]
    left, times = nic.run_mixed(frames)
    assert all(one.verdict == "reply" for one in left)
    after = nic.memory_counters()
    start = len(frames) // 4
    return {
        "latency_of_memory": list(latency),
        "reads_in_flight_allowed": reads,
        "most_reads_in_flight": after["most reads in flight"],
        "looked_up_in_memory": round((after["reads"] - before) / len(frames), 4),
        "cycles_per_frame": round((times.frame_out[-1] - times.frame_out[start]) / (len(frames) - 1 - start), 4),
    }


def latency_of(nic, one):
    nic.run([one])
    return nic.latency()


def full():
    """Fills all lines, and asks for random ones, whose TXIDs have the number of the line in the low bits."""
    nic, _ = filled(1)

    def txid(line: int) -> bytes:
        return line.to_bytes(4, "little") + (line * 0x9E3779B97F4A7C15 & MASK_64).to_bytes(8, "little") * 3 + b"full"

    cycles = 0
    for start in range(0, 1 << LINE_BITS, 1 << 16):
        cycles += nic.command(*(command("line", line, 2, 0, txid(line)) for line in range(start, start + (1 << 16))))
    chance = random.Random(2)
    asked = [frame(txid(line)) for line in chance.sample(range(1 << LINE_BITS), 100_000)]
    result = {"lines_filled": 1 << LINE_BITS, "cycles_per_fill": round(cycles / (1 << LINE_BITS), 4)}
    print(json.dumps(result | run(nic, asked, (80, 400), 256, 16), indent=1))


def main():
    if "full" in sys.argv[1:]:
        full()
        return
    result = {"clock_hz_assumed": CLOCK_HZ, "lines": 1 << LINE_BITS, "throughput": [], "latency_cycles": {}}
    nic, frames = filled(1)
    for latency in LATENCIES:
        for reads in READS:
            count = COUNT if reads >= 32 else 600
            row = run(nic, frames[:count], (latency, latency), reads)
            result["throughput"].append({"ways": 1, **row})
    for reads in [128, 192, 256]:
        result["throughput"].append({"ways": 1, "pauses": "16/256", **run(nic, frames, (80, 400), reads, 16)})
    for latency in LATENCIES:
        nic.memory(latency=(latency, latency), pauses=0)
        nic.run(frames[:40])
        second, first = latency_of(nic, frames[100]), latency_of(nic, frames[100])
        result["latency_cycles"][f"memory of {latency} cycles"] = {"first level": first, "second level": second}
    for latency in LATENCIES:
        nic.memory(latency=(latency, latency), pauses=0)
        lines = [command("line", (at * 7919) % (1 << LINE_BITS), 2, 0, bytes(32)) for at in range(8000)]
        cycles = nic.command(*lines)
        rate = round(len(lines) / cycles * CLOCK_HZ / 1e6, 1)
        result[f"fills, memory of {latency} cycles"] = {
            "cycles_per_fill": round(cycles / len(lines), 3),
            "million_per_s_at_clock": rate,
        }
    nic.close()
    for ways in [2, 4]:
        nic, frames = filled(ways)
        for latency in LATENCIES:
            result["throughput"].append({"ways": ways, **run(nic, frames, (latency, latency), 256)})
        nic.close()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Measures the simulated NIC: cycles for each frame, latency in cycles, fills in each cycle. Prints one JSON object.

The figures are cycles of the RTL, which do not depend on this machine; `simulated_frames_per_s` does.
"""

import json
import time

from lineside_rtl import Nic, SpvHost, command, folded_sum, register

CLOCK_HZ = 250e6
COUNT = 20_000


def frame(payload: bytes, v6=False, vlan=False) -> bytes:
    eth = bytes.fromhex("0200000000020200000000aa") + (bytes.fromhex("81000007") if vlan else b"")
    udp_bytes = 8 + len(payload)
    udp = (40000).to_bytes(2, "big") + (7701).to_bytes(2, "big") + udp_bytes.to_bytes(2, "big") + b"\0\0"
    if v6:
        source, own = bytes.fromhex("fd00" + 13 * "00" + "09"), bytes.fromhex("fd00" + 13 * "00" + "02")
        ip = bytes.fromhex("60000000") + udp_bytes.to_bytes(2, "big") + bytes([17, 64]) + source + own
        return eth + bytes.fromhex("86dd") + ip + udp + payload
    head = bytes.fromhex("4500") + (20 + udp_bytes).to_bytes(2, "big") + bytes.fromhex("0000400040110000")
    addresses = bytes([10, 0, 0, 9, 10, 0, 0, 2])
    check = 0xFFFF - folded_sum(head + addresses)
    return eth + bytes.fromhex("0800") + head[:10] + check.to_bytes(2, "big") + addresses + udp + payload


def filled():
    nic = Nic()
    host = SpvHost(nic)
    host.endpoint(bytes.fromhex("020000000002"), ["10.0.0.2", "fd00::2"], "10.0.0.255")
    host.tip(bytes(range(32)), 7)
    txids = [bytes([number]) + bytes(range(1, 32)) for number in range(1, 65)]
    host.block(bytes(range(32)), bytes(range(100, 132)), 5, txids)
    nic.set_now(1)
    nic.command(register("spv_lease_until_ns", 1 << 62))
    return nic, txids


def main():
    nic, txids = filled()
    root = bytes.fromhex("4c530101000000680000000000000001")
    cases = {
        "paper, IPv4, hit": frame(txids[0]),
        "paper, IPv4, miss": frame(bytes(31) + b"\1"),
        "paper, IPv6, VLAN, hit": frame(txids[1], v6=True, vlan=True),
        "native root, IPv4, hit": frame(root + txids[2] + bytes(72)),
        "native root, IPv6, VLAN, hit": frame(root + txids[2] + bytes(72), v6=True, vlan=True),
        "other frame of one beat": bytes(60),
        "other frame of 1514 bytes": bytes(1514),
    }
    result = {"clock_hz_assumed": CLOCK_HZ, "frames": COUNT, "cases": {}}
    for name, sent in cases.items():
        nic.run([sent])
        latency = nic.latency()
        began = time.monotonic()
        nic.run([sent] * COUNT)
        wall = time.monotonic() - began
        # The pipeline fills once; the rest is the throughput.
        cycles = nic.cycles
        result["cases"][name] = {
            "bytes": len(sent),
            "beats": (len(sent) + 63) // 64,
            "cycles_per_frame": round((cycles - latency) / COUNT, 4),
            "latency_cycles": latency,
            "million_frames_per_s_at_clock": round(COUNT / (cycles - latency) * CLOCK_HZ / 1e6, 2),
            "simulated_frames_per_s": round(COUNT / wall),
        }
    lines = [command("line", number % 1024, 2, 0, bytes(32)) for number in range(4096)]
    cycles = nic.command(*lines)
    result["fills"] = {"cycles_per_fill": round(cycles / len(lines), 4)}
    result["fills"]["million_per_s_at_clock"] = round(len(lines) / cycles * CLOCK_HZ / 1e6, 1)
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

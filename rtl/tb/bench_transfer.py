# SPDX-License-Identifier: Apache-2.0
"""Measures the simulated NIC of `transfer`: cycles for each frame, latency in cycles, fills in each cycle. Prints one
JSON object. Every verdict is checked.

A hazard distance of n means that every n-th request moves units between the same two accounts. A distance of n cycles
means that a request of the same session comes every n cycles; frames of one beat for others fill the time between.
"""

import json
import struct

from spv_frame import CLOCK_HZ, frame
from lineside_rtl import folded_sum, register
from lineside_transfer import SESSIONS, Account, Session, TransferHost, TransferNic, command

COUNT = 20_000
BEATS = 3  # of a request of a session over IPv4
ISSUE, TRANSFER, REFER = 2, 3, 4
TOKEN = 0x1122334455667788


def packet(payload: bytes, **how) -> bytes:
    """A frame to the port of `transfer`, with its checksum."""
    sent = bytearray(frame(payload, **how))
    udp = len(sent) - len(payload) - 8
    sent[udp + 2 : udp + 4] = (7702).to_bytes(2, "big")
    addresses = sent[udp - 32 : udp] if how.get("v6") else sent[udp - 8 : udp]
    check = 0xFFFF - folded_sum(bytes(addresses) + b"\0\x11" + bytes(sent[udp + 4 : udp + 6]) + bytes(sent[udp:]))
    sent[udp + 6 : udp + 8] = (check or 0xFFFF).to_bytes(2, "big")
    return bytes(sent)


def paper(command_code: int, source: int, destination=0, amount=0, **how) -> bytes:
    return packet(struct.pack(">5I", command_code, 0, source, destination, amount), **how)


def refer(account: int, **how) -> bytes:
    head = bytes.fromhex("4c530102000000380000000000000001")
    return packet(head + struct.pack(">I4x", 1) + account.to_bytes(16, "big") + bytes(32), **how)


class Clients:
    """Clients with a session each, whose requests move units, with the next sequence number in each request."""

    def __init__(self):
        self.sequences = [0] * SESSIONS

    def transfer(self, slot: int, **how) -> bytes:
        self.sequences[slot] += 1
        head = bytes.fromhex("4c530101000000700000000000000001")
        head += struct.pack(">QQIHH", TOKEN, self.sequences[slot], slot, 1, 0)
        accounts = (1 + slot).to_bytes(16, "big") + (17 + slot).to_bytes(16, "big")
        operation = struct.pack(">BBHI", TRANSFER, 0, 0, 0) + accounts + struct.pack(">Q", 1) + bytes(40)
        return packet(head + operation, **how)


def filled(nic: TransferNic | None = None) -> TransferNic:
    """Writes the registers of a NIC, accounts 1 to 32, and all sessions; returns the NIC, which else is a new one."""
    nic = nic or TransferNic()
    host = TransferHost(nic, issuers=["10.0.0.8/31", "fd00::9/128"])
    host.endpoint(bytes.fromhex("020000000002"), ["10.0.0.2", "fd00::2"], "10.0.0.255")
    for number in range(1, 33):
        assert host.fill(number.to_bytes(16, "big"), Account(balance=1 << 30)) == 0
    for slot in range(SESSIONS):
        host.session(slot, Session(TOKEN))
    nic.set_now(1)
    nic.command(register("transfer_lease_until_ns", 1 << 62))
    return nic


def main():
    nic = filled()
    cases = {
        "REFER, paper, IPv4": ([paper(REFER, 1)], "reply"),
        "REFER, paper, IPv6, VLAN": ([paper(REFER, 1, v6=True, vlan=True)], "reply"),
        "REFER, native, IPv4": ([refer(2)], "reply"),
        "REFER, native, IPv6, VLAN": ([refer(2, v6=True, vlan=True)], "reply"),
        "ISSUE, paper, IPv4, one account": ([paper(ISSUE, 3, 0, 1)], "reply"),
        "other frame of one beat": ([bytes(60)], "forward"),
        "TRANSFER and other frame in turn": ([paper(TRANSFER, 1, 2, 1), bytes(60)], None),
    }
    for distance in range(1, 9):
        frames = [paper(TRANSFER, 1 + at, 17 + at, 1) for at in range(distance)]
        cases[f"TRANSFER, paper, IPv4, hazard distance {distance}"] = (frames, "reply")
    clients = Clients()
    for sessions in (1, 2, SESSIONS):
        first = [clients.transfer(0)]
        frames = [clients.transfer(at % sessions) for at in range(COUNT)]
        cases[f"TRANSFER, native, IPv4, sessions in turn: {sessions}"] = (first + frames, "reply")
    frames = [clients.transfer(at % SESSIONS, v6=True, vlan=True) for at in range(COUNT + 1)]
    cases["TRANSFER, native, IPv6, VLAN"] = (frames, "reply")
    for distance in range(4, 21):
        fillers = [bytes(60)] * (distance - BEATS)
        frames = [frame for _ in range(COUNT // (distance - BEATS + 1)) for frame in (clients.transfer(0), *fillers)]
        cases[f"TRANSFER, native, IPv4, one session, distance in cycles: {distance}"] = (frames, None)
    frames = [frame for _ in range(COUNT // 2) for frame in (clients.transfer(0), paper(TRANSFER, 2, 3, 1))]
    cases["TRANSFER, native of one session and paper in turn, IPv4"] = (frames, "reply")
    cases["repetition of a TRANSFER, native, IPv4"] = ([clients.transfer(1)], "reply")
    result = {"clock_hz_assumed": CLOCK_HZ, "frames": COUNT, "cases": {}}
    for name, (frames, verdict) in cases.items():
        # The requests of sessions are not repeated, but for one, which is executed before it is measured.
        is_repeated = len(frames) < COUNT // 2
        for _ in range(1 + is_repeated):
            nic.run(frames[:1])
        sent = (frames * (COUNT // len(frames) + 1))[:COUNT] if is_repeated else frames[1:]
        latency = nic.latency()
        busy = nic.counters()["busy"] + nic.counters()["refusals"]
        left = nic.run(sent)
        cycles = nic.cycles
        assert not verdict or all(one.verdict == verdict for one in left), name
        is_request = [len(frame) > len(bytes(60)) for frame in sent]
        wanted = ["reply" if one else "forward" for one in is_request]
        assert verdict or [one.verdict for one in left] == wanted, name
        assert busy == nic.counters()["busy"] + nic.counters()["refusals"], name
        nic.records()
        # The pipeline fills once; the rest is the throughput.
        result["cases"][name] = {
            "bytes": len(frames[0]),
            "beats": (len(frames[0]) + 63) // 64,
            "cycles_per_frame": round((cycles - latency) / len(sent), 4),
            "cycles_per_request": round((cycles - latency) / max(1, sum(is_request)), 4),
            "latency_cycles": latency,
            "million_frames_per_s_at_clock": round(len(sent) / (cycles - latency) * CLOCK_HZ / 1e6, 2),
        }
    value = struct.pack("<4Q", 1, 0, 0, 1)
    fills = [command("transfer_fill", 0, 0, 0, value, (1 + at % 32).to_bytes(16, "big")) for at in range(4096)]
    numbered = [part for fill in fills for part in (command("transfer_last", 0, TRANSFER, 0, value), fill)]
    for name, commands in (("fills", fills), ("fills with a last request", numbered)):
        cycles = nic.command(*commands)
        result[name] = {
            "cycles_per_fill": round(cycles / len(fills), 4),
            "million_per_s_at_clock": round(len(fills) / cycles * CLOCK_HZ / 1e6, 1),
        }
    nic.close()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()

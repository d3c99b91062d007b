# SPDX-License-Identifier: Apache-2.0
"""Frames to the port of `spv`, and the clock that rates are given for."""

from lineside_rtl import folded_sum

CLOCK_HZ = 250e6


def frame(payload: bytes, v6=False, vlan=False) -> bytes:
    """Returns a frame with `payload` from a client to the NIC of the tests, without a UDP checksum."""
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

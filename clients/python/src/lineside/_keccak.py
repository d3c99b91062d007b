"""Keccak-256 as Ethereum has it: padded with 0x01, where SHA-3 has 0x06. The standard library has only SHA-3."""

from __future__ import annotations

import struct

_RATE = 136
_MASK = (1 << 64) - 1
_LANES = struct.Struct("<17Q")


def _round_constants() -> list[int]:
    """Returns the constants of the 24 rounds (FIPS 202, section 3.2.5)."""
    constants, state = [], 1
    for _ in range(24):
        constant = 0
        for power in range(7):
            if state & 1:
                constant |= 1 << ((1 << power) - 1)
            state = state << 1 ^ (0x171 if state & 0x80 else 0)
        constants.append(constant)
    return constants


def _moves() -> list[tuple[int, int, int]]:
    """Returns (from, to, rotation) of each lane: the steps rho and pi (sections 3.2.2 and 3.2.3)."""
    rotations = {(0, 0): 0}
    x, y = 1, 0
    for step in range(24):
        rotations[x, y] = (step + 1) * (step + 2) // 2 % 64
        x, y = y, (2 * x + 3 * y) % 5
    return [(x + 5 * y, y + 5 * ((2 * x + 3 * y) % 5), rotations[x, y]) for y in range(5) for x in range(5)]


_ROUNDS = _round_constants()
_MOVES = _moves()


def _permuted(a: list[int]) -> list[int]:
    """Keccak-f[1600] over the lanes a[x + 5 y]."""
    b = [0] * 25
    for constant in _ROUNDS:
        columns = [a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20] for x in range(5)]
        mixed = []
        for x in range(5):
            right = columns[(x + 1) % 5]
            mixed.append(columns[x - 1] ^ ((right << 1 | right >> 63) & _MASK))
        for source, target, rotation in _MOVES:
            lane = a[source] ^ mixed[source % 5]
            b[target] = (lane << rotation | lane >> (64 - rotation)) & _MASK
        a = []
        for y in (0, 5, 10, 15, 20):
            v, w, x, z, u = b[y : y + 5]
            a += (v ^ (~w & x), w ^ (~x & z), x ^ (~z & u), z ^ (~u & v), u ^ (~v & w))
        a[0] ^= constant
    return a


def keccak256(*parts: bytes) -> bytes:
    """Returns Keccak-256 of the concatenation of `parts`."""
    message = b"".join(parts)
    padding = bytearray(_RATE - len(message) % _RATE)
    padding[0] = 0x01
    padding[-1] |= 0x80
    message += padding
    lanes = [0] * 25
    for at in range(0, len(message), _RATE):
        for index, word in enumerate(_LANES.unpack_from(message, at)):
            lanes[index] ^= word
        lanes = _permuted(lanes)
    return struct.pack("<4Q", *lanes[:4])

"""Keccak-256, ECDSA with the nonces of RFC 6979, a sparse Merkle tree and RFC 6962's tree: plainly, for vectors/hybrid."""
import hashlib
import hmac

ROUNDS = (
    0x0000000000000001, 0x0000000000008082, 0x800000000000808A, 0x8000000080008000, 0x000000000000808B,
    0x0000000080000001, 0x8000000080008081, 0x8000000000008009, 0x000000000000008A, 0x0000000000000088,
    0x0000000080008009, 0x000000008000000A, 0x000000008000808B, 0x800000000000008B, 0x8000000000008089,
    0x8000000000008003, 0x8000000000008002, 0x8000000000000080, 0x000000000000800A, 0x800000008000000A,
    0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
)
MASK = (1 << 64) - 1


def rotated(lane, by):
    by %= 64
    return (lane << by | lane >> (64 - by)) & MASK if by else lane


def permuted(lanes):
    """Keccak-f[1600] over lanes[x + 5 y]; FIPS 202, section 3.2."""
    for constant in ROUNDS:
        column = [lanes[x] ^ lanes[x + 5] ^ lanes[x + 10] ^ lanes[x + 15] ^ lanes[x + 20] for x in range(5)]
        theta = [column[x - 1] ^ rotated(column[(x + 1) % 5], 1) for x in range(5)]
        lanes = [lane ^ theta[place % 5] for place, lane in enumerate(lanes)]
        moved = [0] * 25
        x, y, current = 1, 0, lanes[1]
        moved[0] = lanes[0]
        for step in range(24):
            x, y = y, (2 * x + 3 * y) % 5
            current, lane = lanes[x + 5 * y], current
            moved[x + 5 * y] = rotated(lane, (step + 1) * (step + 2) // 2)
        lanes = [
            moved[x + 5 * y] ^ (~moved[(x + 1) % 5 + 5 * y] & moved[(x + 2) % 5 + 5 * y] & MASK)
            for y in range(5)
            for x in range(5)
        ]
        lanes[0] ^= constant
    return lanes


def keccak(*parts):
    """Keccak-256 as Ethereum has it: padded with 0x01, not SHA-3's 0x06."""
    message = b"".join(parts)
    padded = message + b"\x01" + bytes(-(len(message) + 2) % 136) + b"\x80"
    if (len(message) + 1) % 136 == 0:
        padded = message + b"\x81"
    lanes = [0] * 25
    for block in range(0, len(padded), 136):
        for lane in range(17):
            at = block + 8 * lane
            lanes[lane] ^= int.from_bytes(padded[at:at + 8], "little")
        lanes = permuted(lanes)
    return b"".join(lane.to_bytes(8, "little") for lane in lanes[:4])


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


class Curve:
    """y^2 = x^3 + a x + b; SEC 2, sections 2.4.1 and 2.4.2."""

    def __init__(self, code, p, a, n, x, y, digest):
        self.code, self.p, self.a, self.n, self.base, self.digest = code, p, a, n, (x, y), digest

    def added(self, one, other):
        if one is None or other is None:
            return one or other
        (x1, y1), (x2, y2) = one, other
        if x1 == x2 and (y1 + y2) % self.p == 0:
            return None
        if one == other:
            slope = (3 * x1 * x1 + self.a) * pow(2 * y1, -1, self.p)
        else:
            slope = (y2 - y1) * pow(x2 - x1, -1, self.p)
        x = (slope * slope - x1 - x2) % self.p
        return x, (slope * (x1 - x) - y1) % self.p

    def times(self, scalar, point):
        result = None
        while scalar:
            if scalar & 1:
                result = self.added(result, point)
            point = self.added(point, point)
            scalar >>= 1
        return result

    def public(self, secret):
        x, y = self.times(secret, self.base)
        return bytes([2 + y % 2]) + x.to_bytes(32, "big")

    def sign(self, secret, digest):
        """r || s, the lower s; RFC 6979, section 3.2, with HMAC-SHA-256."""
        number = int.from_bytes(digest, "big")
        seed = secret.to_bytes(32, "big") + (number % self.n).to_bytes(32, "big")
        key, value = bytes(32), b"\x01" * 32
        for round_byte in (b"\x00", b"\x01"):
            key = hmac.digest(key, value + round_byte + seed, "sha256")
            value = hmac.digest(key, value, "sha256")
        while True:
            value = hmac.digest(key, value, "sha256")
            nonce = int.from_bytes(value, "big")
            if 0 < nonce < self.n:
                r = self.times(nonce, self.base)[0] % self.n
                s = pow(nonce, -1, self.n) * (number + r * secret) % self.n
                if r and s:
                    return r.to_bytes(32, "big") + min(s, self.n - s).to_bytes(32, "big")
            key = hmac.digest(key, value + b"\x00", "sha256")
            value = hmac.digest(key, value, "sha256")


K1 = Curve(
    2, 2**256 - 2**32 - 977, 0, 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,
    0x79BE667EF9DCBBAC55A06295CE870B07029BFCDB2DCE28D959F2815B16F81798,
    0x483ADA7726A3C4655DA4FBFC0E1108A8FD17B448A68554199C47D08FFB10D4B8, keccak,
)
P256 = Curve(
    1, 2**256 - 2**224 + 2**192 + 2**96 - 1, -3,
    0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5, sha256,
)


def map_root(leaves, depth=0):
    """Of {place: content}: nothing is zeros, one leaf is itself, more are an inner node."""
    if not leaves:
        return bytes(32)
    if len(leaves) == 1:
        ((place, content),) = leaves.items()
        return keccak(b"\x00", place, content)
    sides = ({}, {})
    for place, content in leaves.items():
        sides[place[depth // 8] >> (7 - depth % 8) & 1][place] = content
    return keccak(b"\x01", map_root(sides[0], depth + 1), map_root(sides[1], depth + 1))


def tree_root(leaves):
    """RFC 6962, section 2.1."""
    if not leaves:
        return sha256()
    if len(leaves) == 1:
        return sha256(b"\x00", leaves[0])
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return sha256(b"\x01", tree_root(leaves[:half]), tree_root(leaves[half:]))

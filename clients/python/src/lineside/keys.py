"""Signing keys: ECDSA over secp256k1 or P-256, in the key files of the commands `lineside … key new`."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Union

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ._arguments import hex_data
from ._generated import HYBRID_CURVE_P256, HYBRID_CURVE_SECP256K1

_CURVES: dict[str, ec.EllipticCurve] = {"p256": ec.SECP256R1(), "secp256k1": ec.SECP256K1()}
_ORDERS = {
    "p256": 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    "secp256k1": 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,
}
_NUMBERS = {"p256": HYBRID_CURVE_P256, "secp256k1": HYBRID_CURVE_SECP256K1}


class PublicKey:
    """Public key: its curve (`secp256k1` or `p256`) and its point in 33 bytes (SEC 1, compressed)."""

    def __init__(self, curve: str, point: bytes) -> None:
        if curve not in _CURVES:
            raise ValueError(f"{curve}: the curve of a key is secp256k1 or p256")
        self.curve = curve
        self.point = point
        self._key = ec.EllipticCurvePublicKey.from_encoded_point(_CURVES[curve], point)

    @classmethod
    def parse(cls, text: str) -> PublicKey:
        """Reads `CURVE:HEX`, as `lineside hybrid key show` prints it."""
        curve, _, digits = text.partition(":")
        if not digits:
            raise ValueError(f"{text!r}: a public key is CURVE:HEX, as `lineside hybrid key show` prints it")
        return cls(curve, hex_data(digits, "a public key is CURVE:HEX, and HEX has hexadecimal digits"))

    @classmethod
    def from_bytes(cls, data: bytes) -> PublicKey:
        """Reads the number of the curve and 33 bytes of a point."""
        names = [name for name, number in _NUMBERS.items() if number == data[0]]
        if len(data) != 34 or not names:
            raise ValueError("a public key has 34 bytes, the first of which is 1 or 2")
        return cls(names[0], data[1:])

    def to_bytes(self) -> bytes:
        """Returns the number of the curve (1 P-256, 2 secp256k1) and the point."""
        return bytes([_NUMBERS[self.curve]]) + self.point

    def is_signature(self, digest: bytes, signature: bytes) -> bool:
        """Returns whether 64 bytes (r, s) are this key's signature of a digest, with s in the lower half."""
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        if len(signature) != 64 or s > _ORDERS[self.curve] // 2:
            return False
        try:
            self._key.verify(utils.encode_dss_signature(r, s), digest, ec.ECDSA(utils.Prehashed(SHA256())))
        except InvalidSignature:
            return False
        return True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PublicKey) and self.to_bytes() == other.to_bytes()

    def __hash__(self) -> int:
        return hash(self.to_bytes())

    def __str__(self) -> str:
        return f"{self.curve}:{self.point.hex()}"


class SecretKey:
    """Secret key.

    >>> key = SecretKey.generate()
    >>> key.public.is_signature(bytes(32), key.sign(bytes(32)))
    True
    """

    def __init__(self, curve: str, secret: bytes) -> None:
        if curve not in _CURVES:
            raise ValueError(f"{curve}: the curve of a key is secp256k1 or p256")
        self.curve = curve
        self._secret = secret
        self._key = ec.derive_private_key(int.from_bytes(secret, "big"), _CURVES[curve])
        point = self._key.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
        self.public = PublicKey(curve, point)

    @classmethod
    def generate(cls, curve: str = "secp256k1") -> SecretKey:
        """Makes a random key."""
        if curve not in _CURVES:
            raise ValueError(f"{curve}: the curve of a key is secp256k1 or p256")
        return cls(curve, (1 + secrets.randbelow(_ORDERS[curve] - 1)).to_bytes(32, "big"))

    @classmethod
    def from_file(cls, path: Union[str, Path]) -> SecretKey:
        """Reads a key file, which only its owner may be allowed to read."""
        path = Path(path)
        if path.stat().st_mode & 0o077:
            raise ValueError(f"{path}: users other than its owner may use this key; run `chmod 600 {path}`")
        curve, _, digits = path.read_text().strip().partition(" ")
        try:
            return cls(curve, bytes.fromhex(digits))
        except ValueError as error:
            raise ValueError(f"{path}: this file holds no key (CURVE, then 64 hex digits)") from error

    def to_file(self, path: Union[str, Path]) -> None:
        """Writes the key to a new file, which only its owner may read."""
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{self.curve} {self._secret.hex()}\n")

    def sign(self, digest: bytes) -> bytes:
        """Signs a digest of 32 bytes: r and s, with s in the lower half; nonces of RFC 6979 where OpenSSL has them."""
        try:
            algorithm = ec.ECDSA(utils.Prehashed(SHA256()), deterministic_signing=True)
            signature = self._key.sign(digest, algorithm)
        except (TypeError, UnsupportedAlgorithm):
            signature = self._key.sign(digest, ec.ECDSA(utils.Prehashed(SHA256())))
        r, s = utils.decode_dss_signature(signature)
        s = min(s, _ORDERS[self.curve] - s)
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")

    def __repr__(self) -> str:
        return f"SecretKey(public={self.public})"

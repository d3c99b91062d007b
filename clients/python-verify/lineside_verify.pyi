"""ECDSA verification in batches over P-256 and secp256k1.

For public data only: nothing runs in constant time, and nothing signs. Digests have 32 bytes, as SHA-256 and Keccak-256
make them. The global interpreter lock is released while a batch is verified or tables are built.
"""

from collections.abc import Sequence
from typing import Literal, final

__all__ = ["PreparedKey", "PublicKey", "Verifier"]

@final
class PublicKey:
    """A public key, which was checked to be a point of its curve. Keys are hashable, and equal if their points are."""

    def __new__(cls, curve: Literal["P-256", "secp256k1"], sec1: bytes) -> PublicKey:
        """Decode 33 or 65 bytes in SEC 1 encoding. Raises ValueError if they are not a key of the curve."""
    @property
    def curve(self) -> Literal["P-256", "secp256k1"]: ...
    def to_sec1(self, compressed: bool = True) -> bytes:
        """Return the key in SEC 1 encoding, in 33 bytes, or in 65 bytes if `compressed` is false."""

@final
class PreparedKey:
    """A key whose table a verifier has built, and keeps until this object is deleted."""

    @property
    def public_key(self) -> PublicKey: ...
    @property
    def table_bytes(self) -> int: ...

_Key = PublicKey | PreparedKey
_Encoding = Literal["der", "compact"]

@final
class Verifier:
    """A verifier with the tables of recurring keys. One is enough for a process; threads share it."""

    def __new__(cls, *, table_bytes: int = ..., low_s: bool = False) -> Verifier:
        """Create a verifier. `table_bytes` limits the tables (default 256 MiB); `low_s` refuses an s above n/2."""
    @property
    def backend(self) -> str: ...
    def prepare(self, keys: Sequence[PublicKey], expected_signatures: int = 1000) -> list[PreparedKey]:
        """Build the tables of keys before their first signatures.

        The number of expected signatures determines the size of a table: 53 kB below 256, 262 kB below 2,048, 852 kB
        below 16,384, 5.2 MB above. Raises ValueError if the tables do not fit.
        """
    def verify_batch(self, items: Sequence[tuple[_Key, bytes, bytes]], encoding: _Encoding = "der") -> list[bool]:
        """Verify (key, digest, signature) items, and return True for each valid signature, in the same order.

        A malformed signature is not valid. Raises ValueError for a digest of another length than 32 bytes.
        """
    def verdicts(
        self, items: Sequence[tuple[_Key, bytes, bytes]], encoding: _Encoding = "der"
    ) -> list[Literal["valid", "invalid", "high_s", "malformed"]]:
        """Verify items as `verify_batch` does, and return the verdict on each."""

"""Checks of arguments: a wrong one is a `ValueError` or `TypeError` before anything is sent."""

from __future__ import annotations

import math
from typing import Union


def whole(name: str, value: int, limit: int, least: int = 0) -> int:
    """Returns a whole number from `least` on and below `limit`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{name}: {value!r} is not a whole number (int)")
    if not least <= value < limit:
        raise ValueError(f"{name}: {value} is not from {least} to {limit - 1}")
    return int(value)


def timeout(value: float) -> float:
    """Returns a deadline of requests in seconds, above 0 and at most 1,000,000."""
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise TypeError(f"timeout_s: {value!r} is not a number of seconds")
    if math.isnan(value) or not 0 < value <= 1_000_000:
        raise ValueError(f"timeout_s: {value:g} is not above 0 and at most 1000000 seconds")
    return value


def data_of(name: str, value: Union[bytes, str]) -> bytes:
    """Returns bytes; a `str` is encoded as UTF-8."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    raise TypeError(f"{name}: {value!r} is neither bytes nor str")


def hex_data(text: str, meaning: str) -> bytes:
    """Returns the bytes of hexadecimal digits. `meaning` says in the error what the text should be."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        raise ValueError(f"{text!r}: {meaning}") from None

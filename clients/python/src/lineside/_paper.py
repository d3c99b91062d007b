"""Calls in the papers' formats. They have no request ids, so each call has a socket of its own, which excludes late
answers to earlier calls."""

from __future__ import annotations

from typing import TypeVar

from ._core import Call, Exchange
from ._links import AsyncUdpLink, UdpLink

T = TypeVar("T")


def _exchange(address: tuple[str, int]) -> Exchange:
    return Exchange("{}:{}".format(*address), lambda _: b"")


def ask_once_blocking(address: tuple[str, int], call: Call[T], timeout_s: float) -> T:
    """Runs one call."""
    link = UdpLink(address, _exchange(address))
    try:
        link.begin(call, None, timeout_s)
        ((_, answer, error),) = link.wait()
    finally:
        link.close()
    if error is not None:
        raise error
    result: T = answer
    return result


async def ask_once_async(address: tuple[str, int], call: Call[T], timeout_s: float) -> T:
    """Runs one call."""
    link = AsyncUdpLink(_exchange(address))
    await link.open(address)
    try:
        result: T = await link.call(call, timeout_s)
    finally:
        link.close()
    return result

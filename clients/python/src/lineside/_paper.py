"""Calls in the papers' formats. They have no request ids, so each call has a socket of its own, which excludes late
answers to earlier calls."""

from __future__ import annotations

import asyncio
from typing import Any, Optional, TypeVar

from ._core import Call, Exchange
from ._links import AsyncUdpLink, UdpLink, join_address
from .errors import LinesideError

T = TypeVar("T")


def _exchange(address: tuple[str, int]) -> Exchange:
    return Exchange(join_address(address), lambda _: b"")


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
    link = AsyncUdpLink(address, _exchange(address))
    result: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def ended(answer: Any, error: Optional[LinesideError]) -> None:
        if error is None:
            result.set_result(answer)
        else:
            result.set_exception(error)

    try:
        link.begin(call, ended, timeout_s)
        return await result
    finally:
        await link.close()

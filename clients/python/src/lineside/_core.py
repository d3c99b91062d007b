"""Requests, their repetition and their answers, without input and output.

A `Call` is one request until its answer. An `Exchange` has many calls in flight at one server: the caller sends the
datagrams that it returns, passes it the datagrams that arrive, and asks it again when a timer is due. Both front ends
(blocking and asyncio) drive the same exchange.

An operation of a service is a generator of calls (`Steps`): it yields a call, receives its answer, and returns the
result. So the logic of an operation exists once for both front ends.
"""

from __future__ import annotations

import enum
import heapq
import os
from functools import lru_cache
from typing import Any, Callable, Generator, Generic, NamedTuple, Optional, TypeVar, Union

from ._generated import (
    NATIVE_HEADER,
    NATIVE_MAGIC,
    NATIVE_REPLY_BIT,
    NATIVE_VERSION,
    SPV_WITNESS_ROOM_MAX,
    WITNESS_REPLY,
    Status,
)
from .errors import Busy, LinesideError, Timeout

T = TypeVar("T")

#: Maximum bytes of a datagram: a reply to `witness_proof` is as long as a packet of Ethernet may be.
DATAGRAM_BYTES_MAX = NATIVE_HEADER.size + WITNESS_REPLY.size + SPV_WITNESS_ROOM_MAX

_ID_AT, _ID_END = 8, NATIVE_HEADER.size
_STATUSES = {int(status): status for status in Status}


class Again(enum.Enum):
    """Reason why a datagram does not end a call."""

    IGNORE = enum.auto()
    BUSY = enum.auto()


class Call(Generic[T]):
    """One request, and how to read its answer. Subclasses define `encode` and `decode`."""

    #: Seconds before the first repetition; the pause doubles each time.
    pause_s = 0.02
    #: Longest pause between two repetitions, in seconds.
    pause_max_s = 1.0
    #: True: each repetition has its own request id and is encoded again.
    is_fresh = False
    #: True: the request is sent once and never repeated.
    is_sent_once = False
    #: Number of datagrams sent so far.
    sent = 0

    def encode(self, id: bytes) -> bytes:
        """Returns the datagram with this request id of 8 bytes."""
        raise NotImplementedError

    def decode(self, datagram: bytes) -> T | Again:
        """Returns the answer. Raises `LinesideError` if the server refused the request."""
        raise NotImplementedError

    def expired(self, server: str, timeout_s: float, is_busy: bool) -> LinesideError:
        """Returns the error of a call whose time is over."""
        if is_busy:
            return Busy(f"{server} is busy: ask again later")
        return Timeout(f"no answer from {server} within {timeout_s:g} s: does the server listen there?")


Steps = Generator[Call[Any], Any, T]


class NativeCall(Call[T]):
    """Call in the native format: a header of 16 bytes, then a body."""

    def __init__(self, op: int, body: bytes) -> None:
        self.op = op
        self.body = body

    def encode(self, id: bytes) -> bytes:
        return native_request(self.op, self.body, id)

    def decode(self, datagram: bytes) -> T | Again:
        reply = open_reply(self.op, datagram)
        if reply is None:
            return Again.IGNORE
        status, body = reply
        return Again.BUSY if status is Status.BUSY else self.read(status, body)

    def read(self, status: Status, body: bytes) -> T | Again:
        """Returns the answer in a reply with this status, which is not `busy`."""
        raise NotImplementedError


@lru_cache(maxsize=1024)
def _request_start(op: int, length: int) -> bytes:
    return NATIVE_HEADER.pack(NATIVE_MAGIC, NATIVE_VERSION, op, 0, length, 0)[:_ID_AT]


def native_request(op: int, body: bytes, id: bytes) -> bytes:
    """Returns a request of the native format."""
    return _request_start(op, len(body)) + id + body


def open_reply(op: int, datagram: bytes) -> Optional[tuple[Status, bytes]]:
    """Returns status and body of a reply to the operation `op`; `None` for any other datagram."""
    if len(datagram) < NATIVE_HEADER.size:
        return None
    magic, version, reply_op, code, length, _ = NATIVE_HEADER.unpack_from(datagram)
    status = _STATUSES.get(code)
    is_known = version == NATIVE_VERSION or status is Status.UNSUPPORTED_VERSION
    is_reply = magic == NATIVE_MAGIC and reply_op == op | NATIVE_REPLY_BIT and length == len(datagram) - _ID_END
    return (status, datagram[_ID_END:]) if status is not None and is_known and is_reply else None


def native_id(datagram: bytes) -> bytes:
    """Returns the request id of a reply of the native format."""
    return datagram[_ID_AT:_ID_END]


class Pending:
    """Call in flight."""

    __slots__ = ("call", "datagram", "deadline", "ids", "is_busy", "is_done", "owner", "pause_s", "timeout_s")

    def __init__(self, call: Call[Any], owner: Any, deadline: float, timeout_s: float) -> None:
        self.call = call
        self.owner = owner
        self.deadline = deadline
        self.timeout_s = timeout_s
        self.pause_s = call.pause_s
        self.ids: list[bytes] = []
        self.datagram = b""
        self.is_busy = False
        self.is_done = False


class Finished(NamedTuple):
    """Result of a call: the answer, or the error."""

    owner: Any
    answer: Any
    error: Optional[LinesideError]


class Exchange:
    """Calls in flight at one server. Times are seconds of any monotonic clock.

    `id_of` returns the request id in a datagram. The papers' formats have no ids: their exchange has a constant one,
    a socket of its own, and one call.
    """

    def __init__(self, server: str, id_of: Callable[[bytes], bytes] = native_id) -> None:
        self.server = server
        #: Number of repeated datagrams.
        self.resent = 0
        self._id_of = id_of
        # The first id is random, so that an attacker who does not see the requests cannot forge replies.
        self._next_id = int.from_bytes(os.urandom(8), "big")
        self._pending: dict[bytes, Pending] = {}
        self._timers: list[tuple[float, int, Pending]] = []
        self._timer_number = 0

    def begin(self, call: Call[Any], owner: Any, now: float, timeout_s: float) -> bytes:
        """Starts a call, and returns the datagram to send. `owner` is returned with its result."""
        pending = Pending(call, owner, now + timeout_s, timeout_s)
        call.sent = 0
        return self._datagram(pending, now)

    def receive(self, datagram: bytes) -> Optional[Finished]:
        """Reads a datagram. Returns a result if it ends a call; every other datagram is ignored."""
        pending = self._pending.get(self._id_of(datagram))
        if pending is None:
            return None
        try:
            answer = pending.call.decode(datagram)
        except LinesideError as error:
            return self._finish(pending, None, error)
        if answer is Again.IGNORE:
            return None
        if answer is Again.BUSY:
            pending.is_busy = True
            return None
        return self._finish(pending, answer, None)

    def wake_at(self) -> Optional[float]:
        """Returns the time at which `due` has work."""
        timers = self._timers
        while timers and timers[0][2].is_done:
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def due(self, now: float) -> tuple[list[bytes], list[Finished]]:
        """Returns the datagrams to send again, and the calls whose time is over."""
        datagrams, finished = [], []
        timers = self._timers
        while timers and timers[0][0] <= now:
            pending = heapq.heappop(timers)[2]
            if pending.is_done:
                continue
            if now >= pending.deadline:
                error = pending.call.expired(self.server, pending.timeout_s, pending.is_busy)
                finished.append(self._finish(pending, None, error))
                continue
            self.resent += 1
            datagrams.append(self._datagram(pending, now))
        return datagrams, finished

    def forget(self, owner: Any) -> None:
        """Ends the calls of an owner without a result."""
        for pending in [pending for pending in self._pending.values() if pending.owner is owner]:
            self._finish(pending, None, None)

    def forget_all(self) -> list[Any]:
        """Ends all calls without a result, and returns their owners."""
        owners = {id(pending): pending.owner for pending in self._pending.values()}
        self._pending.clear()
        self._timers.clear()
        return list(owners.values())

    def _datagram(self, pending: Pending, now: float) -> bytes:
        call = pending.call
        if call.is_fresh or not pending.ids:
            id = self._next_id.to_bytes(8, "big")
            self._next_id = (self._next_id + 1) & 0xFFFF_FFFF_FFFF_FFFF
            pending.datagram = call.encode(id)
            key = self._id_of(pending.datagram)
            pending.ids.append(key)
            self._pending[key] = pending
        call.sent += 1
        wake = pending.deadline
        if not call.is_sent_once:
            wake = min(now + pending.pause_s, wake)
            pending.pause_s = min(2 * pending.pause_s, call.pause_max_s)
        self._timer_number += 1
        heapq.heappush(self._timers, (wake, self._timer_number, pending))
        return pending.datagram

    def _finish(self, pending: Pending, answer: Any, error: Optional[LinesideError]) -> Finished:
        pending.is_done = True
        for id in pending.ids:
            del self._pending[id]
        return Finished(pending.owner, answer, error)


class Run(Generic[T]):
    """Operation in progress: the generator, and its result once it has ended."""

    __slots__ = ("error", "index", "is_done", "result", "steps")

    def __init__(self, steps: Steps[T], index: int = 0) -> None:
        self.steps = steps
        self.index = index
        self.is_done = False
        self.result: Optional[T] = None
        self.error: Optional[LinesideError] = None

    def advance(self, answer: Any = None, error: Optional[LinesideError] = None) -> Optional[Call[Any]]:
        """Continues with the answer to the last call. Returns the next call; `None`: the operation has ended."""
        try:
            return self.steps.send(answer) if error is None else self.steps.throw(error)
        except StopIteration as end:
            self.result = end.value
        except LinesideError as failed:
            self.error = failed
        self.is_done = True
        return None

    def outcome(self) -> Union[T, LinesideError]:
        """Returns the result, or the error."""
        return self.error if self.error is not None else self.result  # type: ignore[return-value]

"""Links by gRPC, for both front ends. They move bytes: messages are read by hand, see `_hybrid_answers`."""

from __future__ import annotations

import asyncio
import heapq
import queue
import time
from typing import Any, AsyncIterator, Iterator, Optional

import grpc
import grpc.aio

from ._core import Again, Finished
from ._hybrid_answers import signed_message
from ._hybrid_calls import Ask
from ._links import Ended
from .errors import LinesideError

_SERVICE = "/lineside.hybrid.v1.Node/"
#: Maximum bytes of a message.
_MESSAGE_BYTES_MAX = (4 << 20) + 64
_OPTIONS = [("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX)]
#: Statuses after which the same request is sent again until the deadline.
_TEMPORARY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)
_PAUSE_FIRST_S = 0.05


class _Attempt:
    """Call in progress."""

    def __init__(self, call: Ask, owner: Any, timeout_s: float) -> None:
        self.call = call
        self.owner = owner
        self.timeout_s = timeout_s
        self.deadline = time.monotonic() + timeout_s
        self.pause_s = _PAUSE_FIRST_S
        self.is_busy = False
        call.sent = 0

    def left_s(self) -> float:
        """Returns the seconds until the deadline."""
        return self.deadline - time.monotonic()

    def pause(self) -> Optional[float]:
        """Returns the pause before the next attempt, in seconds; `None`: the deadline is before it."""
        pause = self.pause_s
        self.pause_s = min(2 * pause, self.call.pause_max_s)
        return pause if pause < self.left_s() else None

    def judge(self, server: str, data: bytes, error: Optional[grpc.RpcError]) -> Optional[Finished]:
        """Returns the result; `None`: try again after a pause."""
        if error is None:
            try:
                answer = self.call.decode_message(data)
            except LinesideError as refused:
                return Finished(self.owner, None, refused)
            if answer is not Again.BUSY:
                return Finished(self.owner, answer, None)
            self.is_busy = True
            return None
        code = error.code()
        if code in _TEMPORARY:
            self.is_busy |= code is grpc.StatusCode.RESOURCE_EXHAUSTED
            return None
        if code is grpc.StatusCode.DEADLINE_EXCEEDED:
            return self.expired(server)
        # After any other status a write may have been executed as well.
        failed = self.call.expired(server, self.timeout_s, False)
        return Finished(self.owner, None, type(failed)(*_with_details(failed, error)))

    def expired(self, server: str) -> Finished:
        """Returns the result of a call whose time is over."""
        return Finished(self.owner, None, self.call.expired(server, self.timeout_s, self.is_busy))


def _broken(error: grpc.RpcError) -> LinesideError:
    return LinesideError(f"the connection broke, and events may be missed: {error.code().name}: {error.details()}")


def _with_details(failed: LinesideError, error: grpc.RpcError) -> tuple[Any, ...]:
    text = f"the call failed: {error.code().name}: {error.details()}"
    return (text, failed.id) if hasattr(failed, "id") else (text,)


class GrpcLink:
    """Blocking link to one node. One thread at a time may use it."""

    def __init__(self, server: str, credentials: Optional[grpc.ChannelCredentials]) -> None:
        self._server = server
        if credentials is None:
            self._channel = grpc.insecure_channel(server, _OPTIONS)
        else:
            self._channel = grpc.secure_channel(server, credentials, _OPTIONS)
        #: Number of requests that were sent again.
        self.resent = 0
        self._ended: queue.SimpleQueue[tuple[_Attempt, Any]] = queue.SimpleQueue()
        self._paused: list[tuple[float, int, _Attempt]] = []
        self._number = 0
        self._current: dict[_Attempt, Any] = {}
        self._is_closed = False

    def close(self) -> None:
        self._is_closed = True
        self._channel.close()

    def forget_all(self) -> None:
        """Ends all calls without a result."""
        for future in self._current.values():
            future.cancel()
        self._current.clear()
        self._paused.clear()

    def begin(self, call: Ask, owner: Any, timeout_s: float) -> None:
        """Sends a request; `wait` returns its result with `owner`."""
        if self._is_closed:
            raise LinesideError("the client is closed")
        self._send(_Attempt(call, owner, timeout_s))

    def _send(self, attempt: _Attempt) -> None:
        call = attempt.call
        self.resent += call.sent > 0
        call.sent += 1
        method = self._channel.unary_unary(_SERVICE + call.method)
        message = signed_message(call.request())
        future = method.future(message, timeout=max(attempt.left_s(), 0.001), wait_for_ready=True)
        self._current[attempt] = future
        future.add_done_callback(lambda done: self._ended.put((attempt, done)))

    def wait(self) -> list[Finished]:
        """Waits until calls have ended, and returns their results."""
        while True:
            now = time.monotonic()
            while self._paused and self._paused[0][0] <= now:
                self._send(heapq.heappop(self._paused)[2])
            timeout = self._paused[0][0] - now if self._paused else None
            try:
                attempt, done = self._ended.get(timeout=timeout)
            except queue.Empty:
                continue
            if attempt not in self._current:
                continue
            error = done.exception()
            finished = attempt.judge(self._server, b"" if error else done.result(), error)
            pause = attempt.pause() if finished is None else None
            if finished is None and pause is not None:
                self._number += 1
                heapq.heappush(self._paused, (time.monotonic() + pause, self._number, attempt))
                continue
            del self._current[attempt]
            return [finished or attempt.expired(self._server)]

    def stream(self, call: Ask) -> Iterator[bytes]:
        """Starts a watcher, and returns its messages."""
        if self._is_closed:
            raise LinesideError("the client is closed")
        messages = self._channel.unary_stream(_SERVICE + call.method)(signed_message(call.request()))

        def each() -> Iterator[bytes]:
            try:
                yield from messages
            except grpc.RpcError as error:
                raise _broken(error) from error
            finally:
                messages.cancel()

        return each()


class AsyncGrpcLink:
    """Link to one node for asyncio. Any number of tasks may use it at a time."""

    def __init__(self, server: str, credentials: Optional[grpc.ChannelCredentials]) -> None:
        self._server = server
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(server, _OPTIONS)
        else:
            self._channel = grpc.aio.secure_channel(server, credentials, _OPTIONS)
        #: Number of requests that were sent again.
        self.resent = 0
        self._tasks: dict[Ended, asyncio.Task[None]] = {}
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        tasks, self._tasks = self._tasks, {}
        for ended, task in tasks.items():
            task.cancel()
            ended(None, LinesideError("the client is closed"))
        await self._channel.close()

    def begin(self, call: Ask, ended: Ended, timeout_s: float) -> Ended:
        """Sends a request. Its result is passed to `ended`, which is returned for `forget`."""
        if self._is_closed:
            raise LinesideError("the client is closed")

        async def follow() -> None:
            finished = await self._call(call, timeout_s)
            self._tasks.pop(ended, None)
            ended(finished.answer, finished.error)

        self._tasks[ended] = asyncio.create_task(follow())
        return ended

    def forget(self, ended: Ended) -> None:
        """Ends a call without a result."""
        self._tasks.pop(ended).cancel()

    async def _call(self, call: Ask, timeout_s: float) -> Finished:
        attempt = _Attempt(call, None, timeout_s)
        method = self._channel.unary_unary(_SERVICE + call.method)
        while True:
            self.resent += call.sent > 0
            call.sent += 1
            message, timeout = signed_message(call.request()), max(attempt.left_s(), 0.001)
            try:
                data = await method(message, timeout=timeout, wait_for_ready=True)
            except grpc.aio.AioRpcError as error:
                finished = attempt.judge(self._server, b"", error)
            else:
                finished = attempt.judge(self._server, data, None)
            pause = attempt.pause() if finished is None else None
            if finished is None and pause is not None:
                await asyncio.sleep(pause)
                continue
            return finished or attempt.expired(self._server)

    async def stream(self, call: Ask) -> AsyncIterator[bytes]:
        """Returns the messages of a watcher."""
        if self._is_closed:
            raise LinesideError("the client is closed")
        messages = self._channel.unary_stream(_SERVICE + call.method)(signed_message(call.request()))
        try:
            async for data in messages:
                yield data
        except grpc.aio.AioRpcError as error:
            raise _broken(error) from error
        finally:
            messages.cancel()

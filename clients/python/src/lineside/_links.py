"""The two front ends: a blocking one over a socket, and one for asyncio. Both only move datagrams and watch timers."""

from __future__ import annotations

import asyncio
import functools
import select
import socket
import time
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Callable,
    Coroutine,
    Generic,
    Iterable,
    Iterator,
    Optional,
    TypeVar,
    Union,
)

from ._arguments import timeout, whole
from ._core import DATAGRAM_BYTES_MAX, Call, Exchange, Finished, Run, Steps
from .errors import LinesideError

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec, Self

    P = ParamSpec("P")

T = TypeVar("T")
R = TypeVar("R")
Address = Union[str, "tuple[str, int]"]
#: Receiver of a result: the answer, or the error.
Ended = Callable[[Any, Optional[LinesideError]], None]

#: Results that may wait for an earlier request of a pipeline before no further request is started.
_WAITING_MAX = 4096
#: Bytes of the receive buffer that a socket asks for: the answers to a full window.
_RECEIVE_BUFFER_BYTES = 4 << 20


def split_address(address: Address, port: int) -> tuple[str, int]:
    """Returns host and port of `HOST`, `HOST:PORT`, `[IPV6]:PORT` or a pair."""
    if not isinstance(address, str):
        pair = _pair(address)
        return pair[0], whole("port", pair[1], 1 << 16, 1)
    host, colon, number = address.rpartition(":")
    if not colon or address.endswith("]") or (":" in host and not host.startswith("[")):
        host, number = address, str(port)
    if not number.isdecimal() or not number.isascii() or not 0 < int(number) < 1 << 16 or not host:
        raise ValueError(f"{address}: the address of a server is HOST:PORT, with a port from 1 to 65535")
    return host.strip("[]"), int(number)


def _pair(address: tuple[str, int]) -> tuple[str, int]:
    if not isinstance(address, tuple) or len(address) != 2 or not isinstance(address[0], str):
        raise TypeError(f"{address!r}: the address of a server is `HOST:PORT`, or a pair of host and port")
    return address


def join_address(address: tuple[str, int]) -> str:
    """Returns `HOST:PORT`, with brackets around an IPv6 address."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _open_socket(host: str, port: int) -> socket.socket:
    """Returns a socket to a server. Raises `LinesideError` if the host is unknown, or this machine has no way to it."""
    try:
        return _connected_socket(host, port)
    except OSError as error:
        raise LinesideError(f"{join_address((host, port))}: cannot open a socket to this server: {error}") from error


def _connected_socket(host: str, port: int) -> socket.socket:
    family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    made = socket.socket(family, kind)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BUFFER_BYTES)
        # On a connected socket the kernel delivers only datagrams from the server's address.
        made.connect(address)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made


def _send(to: socket.socket, datagram: bytes) -> None:
    for _ in range(2):
        try:
            to.send(datagram)
            return
        except ConnectionRefusedError:
            # The error is of an earlier datagram, and the kernel has not sent this one.
            continue
        except OSError:
            # A full buffer, or no way to the server for the moment: like a lost datagram, it is sent again later.
            return


def _receive(of: socket.socket, exchange: Exchange) -> list[Finished]:
    """Reads the datagrams that have arrived, and returns the calls that they end."""
    finished: list[Finished] = []
    receive = of.recv
    try:
        # The limit is above the number that a receive buffer holds: a caller that was away for a long time reads all
        # answers before it looks at deadlines.
        for _ in range(4096):
            result = exchange.receive(receive(DATAGRAM_BYTES_MAX + 1))
            if result is not None:
                finished.append(result)
    except OSError:
        # Nothing more to read; or no socket listens there, as an ICMP message says. The server may be starting: go on.
        pass
    return finished


class UdpLink:
    """Blocking link to one server. One thread at a time may use it."""

    def __init__(self, address: tuple[str, int], exchange: Exchange) -> None:
        self.exchange = exchange
        self._socket = _open_socket(*address)
        self._poll = select.poll()
        self._poll.register(self._socket, select.POLLIN)
        self._is_closed = False

    @property
    def resent(self) -> int:
        return self.exchange.resent

    def close(self) -> None:
        self._is_closed = True
        self._socket.close()

    def forget_all(self) -> None:
        """Ends all calls without a result."""
        self.exchange.forget_all()

    def begin(self, call: Call[Any], owner: Any, timeout_s: float) -> None:
        """Sends a request; `wait` returns its result with `owner`."""
        if self._is_closed:
            raise LinesideError("the client is closed")
        _send(self._socket, self.exchange.begin(call, owner, time.monotonic(), timeout_s))

    def wait(self) -> list[Finished]:
        """Waits until calls have ended, and returns their results."""
        exchange = self.exchange
        while True:
            finished = _receive(self._socket, exchange)
            now = time.monotonic()
            wake_at = exchange.wake_at()
            if wake_at is not None and wake_at <= now:
                datagrams, expired = exchange.due(now)
                for datagram in datagrams:
                    _send(self._socket, datagram)
                finished += expired
            if finished:
                return finished
            if wake_at is None or wake_at > now:
                self._poll.poll(None if wake_at is None else 1000 * (wake_at - now) + 1)


class AsyncUdpLink:
    """Link to one server for asyncio. Any number of tasks may use it at a time."""

    def __init__(self, address: tuple[str, int], exchange: Exchange) -> None:
        self.exchange = exchange
        self._socket = _open_socket(*address)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._socket, self._readable)
        self._timer: Optional[asyncio.TimerHandle] = None
        self._is_closed = False

    @property
    def resent(self) -> int:
        return self.exchange.resent

    async def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_closed:
            self._is_closed = True
            self._loop.remove_reader(self._socket)
            self._socket.close()
            for ended in self.exchange.forget_all():
                ended(None, LinesideError("the client is closed"))

    def begin(self, call: Call[Any], ended: Ended, timeout_s: float) -> Ended:
        """Sends a request. Its result is passed to `ended`, which is returned for `forget`."""
        if self._is_closed:
            raise LinesideError("the client is closed")
        _send(self._socket, self.exchange.begin(call, ended, self._loop.time(), timeout_s))
        self._watch()
        return ended

    def forget(self, ended: Ended) -> None:
        """Ends a call without a result."""
        self.exchange.forget(ended)

    def _readable(self) -> None:
        for finished in _receive(self._socket, self.exchange):
            finished.owner(finished.answer, finished.error)

    def _watch(self) -> None:
        """Sets the timer, unless an earlier one is set."""
        wake_at = self.exchange.wake_at()
        if wake_at is None:
            return
        if self._timer is not None:
            if self._timer.when() <= wake_at:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(wake_at, self._due)

    def _due(self) -> None:
        self._timer = None
        datagrams, expired = self.exchange.due(self._loop.time())
        for datagram in datagrams:
            _send(self._socket, datagram)
        for finished in expired:
            finished.owner(finished.answer, finished.error)
        self._watch()


class Blocking(Generic[R]):
    """Base of the blocking clients. `requests` has the operations as generators, for `pipeline`."""

    requests: R

    def __init__(self, address: Address, port: int, timeout_s: float) -> None:
        #: Seconds after which a request without an answer ends.
        self.timeout_s = timeout(timeout_s)
        self._address = split_address(address, port)
        self._server = join_address(self._address)
        self._link: Any = self._open()
        self._is_used = False

    def _open(self) -> Any:
        return UdpLink(self._address, Exchange(self._server))

    @property
    def resent(self) -> int:
        """Number of datagrams that were sent again."""
        return int(self._link.resent)

    def close(self) -> None:
        """Closes the socket."""
        self._link.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, steps: Steps[T]) -> T:
        """Runs one operation of `requests`."""
        (outcome,) = self.pipeline([steps], 1)
        if isinstance(outcome, LinesideError):
            raise outcome
        return outcome

    def pipeline(
        self, operations: Iterable[Steps[T]], window: Union[int, Callable[[], int]] = 64
    ) -> Iterator[Union[T, LinesideError]]:
        """Runs operations of `requests` with up to `window` requests in flight (a number, or what returns it).

        Yields the results in the order of the operations. The error of an operation is yielded in its place; the
        others go on.
        """
        if self._is_used:
            raise RuntimeError("the client has a pipeline in progress: read it to its end, or close it")
        most = window if callable(window) else partial(int, whole("window", window, 1 << 31, 1))
        self._is_used = True
        link, timeout_s = self._link, self.timeout_s
        source = iter(operations)
        waiting: dict[int, Union[T, LinesideError]] = {}
        started = yielded = active = 0
        is_over = False

        def follow(run: Run[T], call: Optional[Call[Any]]) -> int:
            """Sends the next request of an operation. Returns 1 if it goes on."""
            while call is not None:
                try:
                    link.begin(call, run, timeout_s)
                    return 1
                except LinesideError as error:
                    call = run.advance(error=error)
            waiting[run.index] = run.outcome()
            return 0

        try:
            while True:
                while active < most() and not is_over and len(waiting) < _WAITING_MAX:
                    steps = next(source, None)
                    if steps is None:
                        is_over = True
                        break
                    run = Run(steps, started)
                    started += 1
                    active += follow(run, run.advance())
                while yielded in waiting:
                    yielded += 1
                    yield waiting.pop(yielded - 1)
                if active == 0:
                    if is_over:
                        return
                    continue
                for run, answer, error in link.wait():
                    active += follow(run, run.advance(answer, error)) - 1
        finally:
            # The caller may have left the loop early: later answers find no request.
            link.forget_all()
            self._is_used = False


class Awaiting(Generic[R]):
    """Base of the clients for asyncio. `requests` has the operations as generators, for `pipeline`."""

    requests: R

    def __init__(self, address: Address, port: int, timeout_s: float) -> None:
        #: Seconds after which a request without an answer ends.
        self.timeout_s = timeout(timeout_s)
        self._address = split_address(address, port)
        self._server = join_address(self._address)
        self._link: Any = None

    async def open(self) -> Self:
        """Opens the socket; `async with` does it, too."""
        self._link = self._open()
        return self

    def _open(self) -> Any:
        return AsyncUdpLink(self._address, Exchange(self._server))

    @property
    def resent(self) -> int:
        """Number of datagrams that were sent again."""
        return int(self._link.resent) if self._link is not None else 0

    async def close(self) -> None:
        """Closes the socket."""
        if self._link is not None:
            await self._link.close()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def run(self, steps: Steps[T]) -> T:
        """Runs one operation of `requests`."""
        (outcome,) = [outcome async for outcome in self.pipeline([steps], 1)]
        if isinstance(outcome, LinesideError):
            raise outcome
        return outcome

    async def pipeline(
        self, operations: Iterable[Steps[T]], window: Union[int, Callable[[], int]] = 64
    ) -> AsyncIterator[Union[T, LinesideError]]:
        """Runs operations of `requests` with up to `window` requests in flight (a number, or what returns it).

        Yields the results in the order of the operations. The error of an operation is yielded in its place; the
        others go on.
        """
        if self._link is None:
            raise RuntimeError("the client is not open: use `async with`, or call `open`")
        link, timeout_s = self._link, self.timeout_s
        source = iter(operations)
        most = window if callable(window) else partial(int, whole("window", window, 1 << 31, 1))
        waiting: dict[int, Union[T, LinesideError]] = {}
        in_flight: dict[Run[T], Ended] = {}
        failures: list[Exception] = []
        progress = asyncio.Event()
        started = yielded = 0
        is_over = False

        def follow(run: Run[T], call: Optional[Call[Any]]) -> None:
            """Sends the next request of an operation, or keeps its result."""
            while call is not None:
                try:
                    in_flight[run] = link.begin(call, partial(ended, run), timeout_s)
                    return
                except LinesideError as error:
                    call = run.advance(error=error)
            in_flight.pop(run, None)
            waiting[run.index] = run.outcome()
            progress.set()

        def ended(run: Run[T], answer: Any, error: Optional[LinesideError]) -> None:
            try:
                follow(run, run.advance(answer, error))
            except Exception as failure:
                # This is a callback of the event loop: the exception goes to the caller of the pipeline.
                failures.append(failure)
                in_flight.pop(run, None)
                progress.set()

        try:
            while True:
                while len(in_flight) < most() and not is_over and len(waiting) < _WAITING_MAX:
                    steps = next(source, None)
                    if steps is None:
                        is_over = True
                        break
                    run = Run(steps, started)
                    started += 1
                    follow(run, run.advance())
                while yielded in waiting:
                    yielded += 1
                    yield waiting.pop(yielded - 1)
                if in_flight:
                    await progress.wait()
                    progress.clear()
                    if failures:
                        raise failures[0]
                elif is_over:
                    return
        finally:
            # The caller may have left the loop early: later answers find no request.
            for run, receiver in in_flight.items():
                link.forget(receiver)
                run.steps.close()


def blocking(
    method: Callable[Concatenate[Any, P], Steps[T]],
) -> Callable[Concatenate[Any, P], T]:
    """Returns the method of a blocking client that runs this method of its `requests`."""

    def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self.run(method(self.requests, *args, **kwargs))
        return result

    functools.update_wrapper(run, method)
    return run


def awaiting(
    method: Callable[Concatenate[Any, P], Steps[T]],
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Returns the method of a client for asyncio that runs this method of its `requests`."""

    async def run(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self.run(method(self.requests, *args, **kwargs))
        return result

    functools.update_wrapper(run, method)
    return run

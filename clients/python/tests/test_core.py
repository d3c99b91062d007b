"""The core without input and output, over a simulated network with a clock of its own."""

from __future__ import annotations

import heapq
import random
from typing import Any, Optional

import pytest

from lineside import Busy, LinesideError, Timeout
from lineside._core import Again, Exchange, NativeCall, Run, Steps, native_request
from lineside._generated import NATIVE_HEADER, Status

OP = 9


class Echo(NativeCall[bytes]):
    """Request whose answer is its own body."""

    def read(self, status: Status, body: bytes) -> bytes | Again:
        return body if status is Status.OK else Again.IGNORE


class FreshEcho(Echo):
    """Request with another id in each repetition."""

    is_fresh = True


def reply(request: bytes, status: Status = Status.OK) -> bytes:
    body = request[NATIVE_HEADER.size :]
    made = native_request(OP | 0x80, body, request[8:16])
    return made[:4] + status.to_bytes(2, "big") + made[6:]


class Network:
    """Network that loses, duplicates and delays, with a server that is busy at times."""

    def __init__(self, seed: int, loss: float, busy: float = 0.1) -> None:
        self.now = 0.0
        self.exchange = Exchange("server")
        self.finished: list[Any] = []
        self._random = random.Random(seed)
        self._loss, self._busy = loss, busy
        self._events: list[tuple[float, int, bytes, bool]] = []
        self._count = 0

    def _send(self, data: bytes, is_request: bool) -> None:
        for _ in range(1 + (self._random.random() < 0.2)):
            if self._random.random() >= self._loss:
                self._count += 1
                arrives = self.now + self._random.expovariate(1 / 0.03)
                heapq.heappush(self._events, (arrives, self._count, data, is_request))

    def begin(self, call: NativeCall[bytes], owner: Any, timeout_s: float = 5.0) -> None:
        self._send(self.exchange.begin(call, owner, self.now, timeout_s), True)

    def run(self) -> None:
        """Runs until all calls have ended and all datagrams have arrived."""
        while True:
            wake: Optional[float] = self.exchange.wake_at()
            if self._events and (wake is None or self._events[0][0] <= wake):
                self.now, _, data, is_request = heapq.heappop(self._events)
                if is_request:
                    is_busy = self._random.random() < self._busy
                    self._send(reply(data, Status.BUSY if is_busy else Status.OK), False)
                else:
                    found = self.exchange.receive(data)
                    self.finished += [] if found is None else [(self.now, *found)]
            elif wake is not None:
                self.now = wake
                datagrams, expired = self.exchange.due(wake)
                for datagram in datagrams:
                    self._send(datagram, True)
                self.finished += [(self.now, *one) for one in expired]
            else:
                return


@pytest.mark.parametrize("loss", [0.0, 0.2, 0.6, 1.0])
def test_every_call_ends_once_by_its_deadline_with_its_own_answer(loss: float) -> None:
    for seed in range(30):
        network = Network(seed, loss)
        bodies = {number: number.to_bytes(4, "big") for number in range(40)}
        for number, body in bodies.items():
            network.begin((FreshEcho if number % 2 else Echo)(OP, body), number)
        network.run()
        assert sorted(owner for _, owner, _, _ in network.finished) == list(bodies)
        for now, owner, answer, error in network.finished:
            assert now <= 5.0
            assert answer == bodies[owner] if error is None else isinstance(error, (Timeout, Busy))
        answered = sum(error is None for _, _, _, error in network.finished)
        if loss <= 0.2:
            assert answered == 40
        if loss == 1.0:
            assert answered == 0
        # Nothing is left of ended calls.
        assert not network.exchange._pending and network.exchange.wake_at() is None


def test_pauses_double_up_to_their_limit_and_the_bytes_stay_the_same() -> None:
    exchange = Exchange("server")
    call = Echo(OP, b"body")
    sent, times, now = [exchange.begin(call, None, 0.0, 5.0)], [0.0], 0.0
    while True:
        wake = exchange.wake_at()
        assert wake is not None
        now = wake
        datagrams, finished = exchange.due(now)
        sent += datagrams
        times += [now] * len(datagrams)
        if finished:
            break
    assert isinstance(finished[0].error, Timeout) and now == 5.0
    assert [round(after - before, 2) for before, after in zip(times, times[1:])] == [
        0.02,
        0.04,
        0.08,
        0.16,
        0.32,
        0.64,
        1.0,
        1.0,
        1.0,
    ]
    assert len(set(sent)) == 1 and call.sent == len(sent) == exchange.resent + 1


def test_a_busy_server_is_named_at_the_deadline() -> None:
    network = Network(1, 0.0, busy=1.0)
    network.begin(Echo(OP, b"body"), None, timeout_s=0.5)
    network.run()
    assert isinstance(network.finished[0][3], Busy)


def test_request_ids_differ_and_begin_at_random() -> None:
    first = [Exchange("server").begin(Echo(OP, b""), None, 0.0, 1.0)[8:16] for _ in range(20)]
    assert len(set(first)) == 20
    exchange = Exchange("server")
    exchange._next_id = 2**64 - 1
    ids = [exchange.begin(Echo(OP, b""), None, 0.0, 1.0)[8:16] for _ in range(2)]
    assert ids == [b"\xff" * 8, bytes(8)]


def test_a_forgotten_call_has_no_result() -> None:
    exchange = Exchange("server")
    request = exchange.begin(Echo(OP, b"x"), "owner", 0.0, 1.0)
    other = exchange.begin(Echo(OP, b"y"), "other", 0.0, 1.0)
    exchange.forget("owner")
    assert exchange.receive(reply(request)) is None
    assert exchange.forget_all() == ["other"]
    assert exchange.receive(reply(other)) is None
    assert exchange.due(10.0) == ([], [])


def test_an_operation_of_several_requests_handles_their_errors() -> None:
    def steps() -> Steps[str]:
        try:
            yield Echo(OP, b"first")
        except Timeout:
            answer: bytes = yield Echo(OP, b"second")
            return answer.decode()
        raise LinesideError("the first request was answered")

    run: Run[str] = Run(steps())
    assert run.advance() is not None
    assert run.advance(error=Timeout("late")) is not None
    assert run.advance(b"done") is None
    assert run.outcome() == "done"
    failed: Run[str] = Run(steps())
    failed.advance()
    assert failed.advance(b"early") is None
    assert isinstance(failed.outcome(), LinesideError)

"""Client of `column` against a real server, also through a relay that loses, duplicates and reorders datagrams."""

from __future__ import annotations

import asyncio
import random
import socket
from typing import Callable, Iterator

import pytest
from servers import Relay, Server

from lineside import LinesideError, OutcomeUnknown, Refused, Status
from lineside.column import AsyncClient, Changed, ChangeId, Client, LongRow, Range, Row, RowTooLong

MakeRelay = Callable[..., Relay]
TWO = ("entry:foo", "entry:bar")


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.addresses["column"]) as client:
        yield client


def test_cells_are_written_and_read(client: Client) -> None:
    assert client.get("one/a") is None
    client.put("one/a", "1")
    client.put("one/a", b"\x00\xff", "entry:bar")
    row = client.get("one/a", TWO)
    assert row is not None
    assert (row.key, row.cells, row.may_be_stale) == (
        b"one/a",
        {"entry:foo": b"1", "entry:bar": b"\x00\xff"},
        False,
    )
    client.delete("one/a")
    assert client.get("one/a") is None
    assert client.increment("one/n", 5) == 5
    assert client.increment("one/n", -7) == -2
    assert client.append("one/s", "ab") == b"ab"
    assert client.append("one/s", "cd") == b"abcd"
    assert client.check_and_put("one/c", "x") is True
    assert client.check_and_put("one/c", "y") is False
    assert client.check_and_put("one/c", "y", expected="x") is True
    assert client.check_and_put("one/c", "z", expected="x") is False
    with pytest.raises(Refused) as refused:
        client.increment("one/s")
    assert refused.value.status is Status.NOT_A_NUMBER
    client.put("one/s", "after a refusal, the session goes on")
    assert len(client.requests._free) == 1
    with pytest.raises(ValueError, match="1 to 255 bytes"):
        client.put("k" * 256, "v")
    with pytest.raises(ValueError, match="does not fit"):
        client.put("k", "v" * 1400)
    with pytest.raises(ValueError, match="at least one column"):
        client.get("k", ())
    with pytest.raises(ValueError, match="family:qualifier"):
        client.get("k", ["nothing"])


def test_a_scan_continues_to_the_end_of_its_range(client: Client) -> None:
    keys = [f"scan/{number:04}".encode() for number in range(500)]
    for key in keys:
        client.put(key, key * 3)
    client.put(keys[7], "second", "entry:bar")
    inside = Range(b"scan/", b"scan0")

    def found(range: Range) -> list[bytes]:
        return [row.key for row in client.scan(range)]

    assert found(inside) == keys
    assert found(inside._replace(limit=77)) == keys[:77]
    assert found(inside._replace(limit=500)) == keys
    assert found(Range(b"scan0", b"scan/", is_reverse=True)) == keys[::-1]
    assert found(Range(keys[3], keys[6])) == keys[3:6]
    assert found(Range(keys[3], keys[6], is_stop_inclusive=True, is_start_exclusive=True)) == keys[4:7]
    rows = {row.key: row for row in client.scan(inside, TWO)}
    assert len(rows) == 500
    eighth = rows[keys[7]]
    assert isinstance(eighth, Row)
    assert eighth.cells == {"entry:foo": keys[7] * 3, "entry:bar": b"second"}
    with pytest.raises(Refused) as refused:
        found(Range(b"b", b"a"))
    assert refused.value.status is Status.START_BEHIND_STOP


def test_a_row_that_fits_no_packet_is_named(client: Client) -> None:
    client.put("long/a", "short")
    client.put("long/c", "short")
    for _ in range(3):
        last = client.append("long/b", "v" * 600)
    assert last is None
    with pytest.raises(RowTooLong) as long:
        client.get("long/b")
    assert long.value.row == LongRow(b"long/b", False, "entry:foo", 1800)
    rows = list(client.scan(Range(b"long/", b"long0")))
    assert [row.key for row in rows] == [b"long/a", b"long/b", b"long/c"]
    assert rows[1] == long.value.row


def test_each_change_is_made_once_through_a_bad_network(server: Server, client: Client, relay: MakeRelay) -> None:
    bad = relay(server.addresses["column"], seed=11)
    rng = random.Random(2)
    with Client(bad.address, timeout_s=30) as through:
        operations = [(f"once/{rng.randrange(5)}", rng.randrange(1, 9)) for _ in range(400)]
        results = list(through.pipeline((through.requests.increment(key, by) for key, by in operations), window=16))
        assert not any(isinstance(result, LinesideError) for result in results)
        assert through.resent > 50
        assert len(through.requests._free) <= 16 and not through.requests._unknown
        assert sum(session.nonce for session in through.requests._free) == 400
        for number in range(40):
            through.append("once/text", f"{number},")
    assert min(bad.lost, bad.duplicated, bad.delayed) > 50
    for number in range(5):
        expected = sum(by for key, by in operations if key == f"once/{number}")
        assert client.increment(f"once/{number}", 0) == expected
    row = client.get("once/text")
    assert row is not None and row.cells["entry:foo"] == "".join(f"{number}," for number in range(40)).encode()


def test_a_sum_of_increments_wraps_around(client: Client) -> None:
    """As the page says. The client refuses only what an increment cannot hold."""
    assert client.increment("wraps/n", 2**63 - 1) == 2**63 - 1
    assert client.increment("wraps/n", 1) == -(2**63)
    with pytest.raises(ValueError, match="by: "):
        client.increment("wraps/n", 2**63)
    assert client.increment("wraps/n", 0) == -(2**63)


def test_asyncio_makes_changes_at_the_same_time(server: Server, client: Client, relay: MakeRelay) -> None:
    bad = relay(server.addresses["column"], seed=12)

    async def run() -> list[bytes]:
        async with AsyncClient(bad.address, timeout_s=30) as through:
            await asyncio.gather(*(through.increment("async/n") for _ in range(100)))
            await asyncio.gather(*(through.put(f"async/{n:03}", str(n)) for n in range(100)))
            return [row.key async for row in through.scan(Range(b"async/0", b"async/1"))]

    assert asyncio.run(run()) == [f"async/{n:03}".encode() for n in range(100)]
    assert client.increment("async/n", 0) == 100


def test_an_unknown_outcome_names_the_change_and_resume_finds_it(server: Server) -> None:
    """A relay that passes everything on, but no reply to changes until it is told to."""
    host, port = server.addresses["column"].split(":")
    front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    front.bind(("127.0.0.1", 0))
    with (
        Client("127.0.0.1:{}".format(front.getsockname()[1]), timeout_s=0.3) as client,
        Client(server.addresses["column"]) as direct,
    ):
        # The session is of the direct client's, whose replies arrive.
        direct.put("unknown/x", "0")
        client.requests._free = direct.requests._free
        with pytest.raises(OutcomeUnknown, match="change 2 of session") as unknown:
            client.increment("unknown/n", 3)
        assert isinstance(unknown.value.id, ChangeId) and unknown.value.id.nonce == 2
        copies = {front.recv(2048) for _ in range(3)}
        assert len(copies) == 1, "a repetition has the same bytes"
        # The change arrives after all.
        back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        back.sendto(copies.pop(), (host, int(port)))
        back.recv(2048)
        back.close()
        direct.requests._unknown = client.requests._unknown
        assert direct.resume(unknown.value.id) == Changed(True, (3).to_bytes(8, "big"))
        with pytest.raises(LinesideError, match="no such change"):
            direct.resume(unknown.value.id)
        assert direct.increment("unknown/n", 0) == 3
    front.close()


def test_a_session_that_the_server_has_closed_is_replaced(client: Client) -> None:
    client.put("closed/a", "1")
    client.requests._free[0].token ^= 1
    client.put("closed/a", "2")
    row = client.get("closed/a")
    assert row is not None and row.cells["entry:foo"] == b"2"

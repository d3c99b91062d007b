"""Client of `hybrid` against a real node, by gRPC and UDP, also through a bad network."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from servers import Relay, Server, lineside

from lineside import LinesideError, OutcomeUnknown
from lineside import hybrid as h
from lineside import _hybrid_calls
from lineside._hybrid_calls import Lane, unix_ms
from lineside.hybrid import HybridCode

MakeRelay = Callable[..., Relay]


class Node:
    """Node of the tests, and two of its members."""

    def __init__(self, server: Server) -> None:
        self.folder = server.folder
        self.grpc = server.addresses["hybrid"]
        self.udp = server.udp["hybrid"]
        self.genesis = h.Genesis.from_file(server.folder / "genesis.bin")
        self.alice = h.SecretKey.from_file(server.folder / "alice.key")
        self.bob = h.SecretKey.from_file(server.folder / "bob.key")

    def client(self, kind: str = "grpc", **options: Any) -> h.Client:
        address = options.pop("address", self.udp if kind == "udp" else self.grpc)
        return h.Client(address, self.genesis, options.pop("secret", self.alice), udp=kind == "udp", **options)


@pytest.fixture(scope="module")
def node(server: Server) -> Node:
    return Node(server)


@pytest.fixture(params=["grpc", "udp"])
def client(request: Any, node: Node) -> Iterator[h.Client]:
    with node.client(request.param) as client:
        yield client


def test_keys_are_written_read_and_proved(node: Node, client: h.Client) -> None:
    name = f"{'udp' if client._is_udp else 'grpc'}/one".encode()
    assert client.get(name) is None
    absent = client.prove(name)
    assert absent.value is None
    placed = client.set(name, "hello", if_version=h.ABSENT)
    assert placed.code is HybridCode.DONE and placed.version.block > 0
    assert client.get(name) == h.Cell(placed.version, b"hello")
    assert client.get(name, linearizable=True) == h.Cell(placed.version, b"hello")
    with pytest.raises(h.Conflict) as conflict:
        client.set(name, "again", if_version=h.ABSENT)
    assert conflict.value.id is not None
    again = client.set(name, "again", if_version=placed.version)
    assert client.outcome(again.id) == again
    with pytest.raises(h.CodeError) as refused:
        client.outcome(conflict.value.id)
    assert refused.value.code is HybridCode.CONFLICT
    # A transaction that the node does not have is final only if its request has expired by the node's clock.
    with pytest.raises(OutcomeUnknown, match="give `expiry_ms`"):
        client.outcome(bytes(32))
    with pytest.raises(OutcomeUnknown, match="valid for 32 s more"):
        client.outcome(bytes(32), expiry_ms=unix_ms() + 30_000)
    with pytest.raises(OutcomeUnknown, match="valid for"):
        client.outcome(bytes(32), expiry_ms=unix_ms() + 3_600_000)
    with pytest.raises(h.CodeError) as unknown:
        client.outcome(bytes(32), expiry_ms=unix_ms() - 2_100)
    assert unknown.value.code is HybridCode.UNKNOWN
    with pytest.raises(ValueError, match="32 bytes"):
        client.outcome(b"x")
    assert client.outcome(bytes(again.id)) == again

    proven = client.prove(name)
    assert proven.value == b"again"
    # Offline: with the genesis, or a block hash from elsewhere.
    proof = h.StateProof.decode(proven.proof)
    proof.check(h.check_head(proven.head, node.genesis), name, b"again")
    with pytest.raises(h.NotProven):
        proof.check(proven.head.hash, name, b"hello")
    with pytest.raises(h.NotProven):
        h.StateProof.decode(absent.proof).check(proven.head.hash, name, None)
    h.StateProof.decode(absent.proof).check(absent.head.hash, name, None)
    (node.folder / "proof.bin").write_bytes(proven.proof)
    arguments = ["--name", name.decode(), "--value", "again", "--block-hash", proven.head.hash.hex()]
    lineside("hybrid", "verify-proof", *arguments, cwd=node.folder)
    signed = client.head()
    assert h.block_hash(signed.header) == signed.head.hash

    written = client.write({b"x/" + name: "1", b"y/" + name: None}, {name: again.version})
    assert client.get_all([b"x/" + name, b"y/" + name, name]) == {
        b"x/" + name: h.Cell(written.version, b"1"),
        b"y/" + name: None,
        name: h.Cell(again.version, b"again"),
    }
    client.delete(name)
    assert client.get(name) is None
    history = list(client.history(name))
    assert [write.value for write in history] == [None, b"again", b"hello"]
    page = client.history_page(name, limit=2)
    assert page.before == again.version
    assert client.history_page(name, before=page.before).writes == history[2:]


def test_a_range_continues_to_its_end(client: h.Client) -> None:
    prefix = "udp-range/" if client._is_udp else "grpc-range/"
    expected = {f"{prefix}{n:03}".encode(): bytes([n]) * 20 for n in range(150)}
    client.write(dict(list(expected.items())[:20]))
    results = client.pipeline(client.requests.set(*item) for item in list(expected.items())[20:])
    assert not any(isinstance(result, LinesideError) for result in results)
    stop = prefix[:-1] + "0"
    assert {cell.key: cell.value for cell in client.range(prefix, stop)} == expected
    assert [cell.key for cell in client.range_page(prefix, stop, limit=3).cells] == sorted(expected)[:3]


def test_each_write_counts_once_through_a_bad_network(node: Node, relay: MakeRelay) -> None:
    bad = relay(node.udp, seed=21)
    with node.client("udp", address=bad.address, timeout_s=25) as client:
        names = [f"bad/{n:03}" for n in range(120)]
        results = list(client.pipeline((client.requests.set(name, name) for name in names), window=16))
        assert not any(isinstance(result, LinesideError) for result in results)
        assert client.resent > 20
        assert len({result.id for result in results if isinstance(result, h.Placed)}) == 120
        found = list(client.pipeline((client.requests.get(name) for name in names), window=16))
        assert [None if isinstance(cell, LinesideError) or cell is None else cell.value for cell in found] == [
            name.encode() for name in names
        ]
    assert min(bad.lost, bad.duplicated, bad.delayed) > 20
    with node.client() as client:
        for name in names[::10]:
            assert len(list(client.history(name))) == 1, "a write counted twice"


def test_asyncio_reads_and_writes_at_the_same_time(node: Node, relay: MakeRelay) -> None:
    bad = relay(node.udp, seed=22)

    async def run(address: str, is_udp: bool, prefix: str) -> int:
        async with h.AsyncClient(address, node.genesis, node.bob, udp=is_udp, timeout_s=25) as client:
            placed = await asyncio.gather(*(client.set(f"{prefix}{n:02}", str(n)) for n in range(60)))
            assert len({one.version for one in placed}) == 60
            cells = await asyncio.gather(*(client.get(f"{prefix}{n:02}") for n in range(60)))
            assert [cell.value for cell in cells if cell] == [str(n).encode() for n in range(60)]
            assert [write.value async for write in client.history(f"{prefix}05")] == [b"5"]
            proven = await client.prove(f"{prefix}07")
            assert proven.value == b"7"
            return len([cell async for cell in client.range(prefix, prefix + "~")])

    assert asyncio.run(run(bad.address, True, "async-udp/")) == 60
    assert asyncio.run(run(node.grpc, False, "async-grpc/")) == 60


WRITER = """
import sys
from lineside import hybrid
genesis, key = hybrid.Genesis.from_file("genesis.bin"), hybrid.SecretKey.from_file("alice.key")
with hybrid.Client(sys.argv[1], genesis, key, udp=sys.argv[2] == "udp") as client:
    for number in range(5):
        client.set(f"shell/{sys.argv[3]}/{number}", "x")
"""


def test_parallel_processes_with_one_key_do_not_disturb_one_another(node: Node) -> None:
    commands = [
        [sys.executable, "-c", WRITER, node.udp if kind == "udp" else node.grpc, kind, f"{kind}{number}"]
        for kind in ("udp", "grpc")
        for number in range(4)
    ]
    processes = [subprocess.Popen(command, cwd=node.folder) for command in commands]
    assert [process.wait(60) for process in processes] == [0] * 8
    with node.client() as client:
        assert len(list(client.range("shell/", "shell0"))) == 40


def test_a_lane_that_another_process_has_used_is_replaced(node: Node, client: h.Client) -> None:
    other = node.client("udp")
    with other:
        # A process whose clock is ahead has used this lane.
        lane = Lane(4711)
        lane._counter = lane.nonce() % 2**48 + 10_000_000
        other.requests._identity._free = [lane]
        other.set("lane/other", "1")
    client.requests._identity._free = [Lane(4711)]
    name = "lane/udp" if client._is_udp else "lane/grpc"
    client.set(name, "2")
    assert len(list(client.history(name))) == 1
    assert 4711 not in [lane.number for lane in client.requests._identity._free]


def transaction(unknown: pytest.ExceptionInfo[OutcomeUnknown]) -> h.TransactionId:
    assert isinstance(unknown.value.id, h.TransactionId)
    return unknown.value.id


def test_an_unknown_outcome_names_the_transaction(node: Node) -> None:
    deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    deaf.bind(("127.0.0.1", 0))
    address = "127.0.0.1:{}".format(deaf.getsockname()[1])
    with node.client("udp", address=address, timeout_s=0.6) as client:
        with pytest.raises(OutcomeUnknown) as unknown:
            client.set("unknown/udp", "1")
    copies = {deaf.recv(2048) for _ in range(2)}
    assert len(copies) == 1, "a repetition has the same bytes"
    deaf.close()
    with node.client() as direct:
        id = transaction(unknown)
        with pytest.raises(OutcomeUnknown, match="has no such transaction yet") as still:
            direct.outcome(id)
        assert transaction(still) == id and transaction(still).expiry_ms == id.expiry_ms
        assert id.expiry_ms is not None and id.expiry_ms > unix_ms()
        late = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        host, port = node.udp.split(":")
        late.sendto(copies.pop(), (host, int(port)))
        late.recv(2048)
        late.close()
        placed = direct.outcome(id)
        cell = direct.get("unknown/udp")
        assert cell is not None and cell.version == placed.version

    # gRPC: nothing listens, then a server that accepts and never answers.
    begin = time.monotonic()
    with node.client(address=address, timeout_s=0.5) as client, pytest.raises(OutcomeUnknown) as unknown:
        client.set("unknown/grpc", "1")
    assert len(transaction(unknown)) == 32 and transaction(unknown).hex() in str(unknown.value)
    with node.client(address=address, timeout_s=0.5) as client, pytest.raises(LinesideError) as failed:
        client.get("unknown/grpc")
    assert not isinstance(failed.value, OutcomeUnknown)
    assert time.monotonic() - begin < 20

    async def run() -> None:
        async with h.AsyncClient(address, node.genesis, node.alice, timeout_s=0.5) as client:
            with pytest.raises(OutcomeUnknown):
                await client.set("unknown/grpc", "1")
            task = asyncio.create_task(client.get("unknown/grpc"))
            await asyncio.sleep(0.05)
            await client.close()
            with pytest.raises(LinesideError, match="closed"):
                await task

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["grpc", "udp"])
def test_an_outcome_is_final_only_when_the_request_can_no_longer_be_executed(
    node: Node, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network holds two writes. One arrives before its expiry, and one after the client was told that it is not."""
    deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    deaf.bind(("127.0.0.1", 0))
    address = "127.0.0.1:{}".format(deaf.getsockname()[1])
    host, port = node.udp.split(":")
    held: list[tuple[str, h.TransactionId, bytes]] = []
    with node.client("udp", address=address, timeout_s=0.2) as client:
        for name, valid_ms in ((f"final/{kind}/1", 30_000), (f"final/{kind}/2", 500)):
            monkeypatch.setattr(_hybrid_calls, "EXPIRY_MS", valid_ms)
            with pytest.raises(OutcomeUnknown) as unknown:
                client.set(name, "1")
            held.append((name, transaction(unknown), deaf.recv(2048)))
    monkeypatch.undo()
    deaf.close()
    with node.client(kind) as client, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as late:
        name, id, datagram = held[0]
        with pytest.raises(OutcomeUnknown):
            client.outcome(id)
        late.sendto(datagram, (host, int(port)))
        late.recv(2048)
        cell = client.get(name)
        assert cell is not None and client.outcome(id).version == cell.version

        name, id, datagram = held[1]
        end = time.monotonic() + 60
        while True:
            try:
                client.outcome(id)
            except OutcomeUnknown:
                assert time.monotonic() < end
            except h.CodeError as error:
                assert error.code is HybridCode.UNKNOWN
                break
        assert id.expiry_ms is not None and unix_ms() > id.expiry_ms
        # The copy arrives after the final answer, and is not executed.
        late.sendto(datagram, (host, int(port)))
        late.recv(2048)
        assert client.get(name) is None
        with pytest.raises(h.CodeError):
            client.outcome(id)


def test_watchers_receive_the_writes_below_their_prefix(node: Node) -> None:
    with node.client() as client:
        events = client.watch("watch/")
        first = next(events)
        assert first.key == b""
        client.set("watch/a", "1")
        client.set("other", "1")
        client.delete("watch/a")
        found = [next(events) for _ in range(2)]
        assert [(event.key, event.value) for event in found] == [(b"watch/a", b"1"), (b"watch/a", None)]

    async def run() -> None:
        async with h.AsyncClient(node.grpc, node.genesis, node.alice) as client:
            events = client.watch("watch/")
            assert (await events.__anext__()).key == b""
            await client.set("watch/b", "2")
            assert (await events.__anext__()).value == b"2"

    asyncio.run(run())
    with node.client("udp") as client, pytest.raises(ValueError):
        client.watch()


def test_members_keys_and_rules_are_changed(node: Node, tmp_path: Path) -> None:
    carol, later = h.SecretKey.generate("p256"), h.SecretKey.generate()
    with node.client() as admin:
        assert admin.change(h.add_member(3, "carol", carol.public)).code is HybridCode.DONE
        assert admin.change(h.set_rule(b"", 0, can_read=True, can_write=True)).code is HybridCode.DONE
    with node.client(secret=carol, member=3) as client:
        client.set("carol/a", "1")
        client.change(h.add_key(3, 1, later.public))
        with pytest.raises(h.CodeError) as refused:
            client.change(h.set_quorum(1))
        assert refused.value.code is HybridCode.NOT_ALLOWED
    with node.client("udp", secret=later, member=3, key_number=1) as client:
        client.set("carol/a", "2")
        client.change(h.revoke_key(3, 0))
    with node.client("udp", secret=carol, member=3) as client, pytest.raises(h.CodeError) as refused:
        client.set("carol/a", "3")
    assert refused.value.code is HybridCode.REVOKED
    with pytest.raises(ValueError, match="give `member`"):
        node.client(secret=carol)
    with pytest.raises(ValueError, match="before a request expires"):
        node.client(timeout_s=31)


def test_what_is_too_long_for_udp_says_so_and_goes_by_grpc(node: Node) -> None:
    with node.client("udp") as client:
        with pytest.raises(LinesideError, match="use gRPC"):
            client.set("long", "v" * 1200)
        results = list(client.pipeline([client.requests.set("long", "v" * 1200), client.requests.set("short", "v")]))
        assert isinstance(results[0], LinesideError) and isinstance(results[1], h.Placed)
    with node.client() as client:
        client.set("long", "v" * 200_000)
        cell = client.get("long")
        assert cell is not None and len(cell.value) == 200_000
    with node.client("udp") as client, pytest.raises(h.CodeError) as refused:
        client.get("long")
    assert refused.value.code is HybridCode.TOO_LARGE

"""Client of `spv` against a real server, also through a relay that loses, duplicates and reorders datagrams."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest
from blocks import Block
from servers import Relay, Server

from lineside import LinesideError, Refused, Timeout, spv
from lineside._links import join_address, split_address
from lineside.header_chain import HeaderChain
from lineside.spv_proof import ProofError, display

MakeRelay = Callable[..., Relay]


def test_every_operation_is_answered(server: Server, chain: list[Block], tmp_path: Path) -> None:
    block = chain[-1]
    with spv.Client(server.addresses["spv"]) as client, HeaderChain("regtest", tmp_path) as own:
        answer = client.root(block.txids[2])
        assert answer.result is not None
        assert (answer.result.root, answer.result.height) == (block.header.merkle_root, len(chain))
        assert (answer.tip_height, answer.tip_hash) == (len(chain), block.header.hash())
        assert client.root(display(block.txids[2])) == answer
        assert client.root(bytes(32)).result is None
        found = client.roots([block.txids[1], bytes(32), chain[0].txids[0]]).result
        assert [None if one is None else one.height for one in found] == [len(chain), None, 1]
        assert client.paper_root(block.txids[1]) == block.header.merkle_root
        assert client.paper_root(bytes([7]) * 32) is None
        assert client.headers(39, 2).result == [chain[38].header, chain[39].header]
        assert client.headers(40).result == [chain[39].header]

        assert client.sync(own) == len(chain)
        assert client.sync(own) == 0
        assert own.tip.hash == block.header.hash()
        verified = client.verified(own, chain[10].txids[4])
        assert verified.confirmations == len(chain) - 10
        assert (verified.proof.height, verified.proof.index) == (11, 4)
        with pytest.raises(spv.NotFound):
            client.verified(own, bytes(32))
        with pytest.raises(ProofError, match="does not lead"):
            own.verify(client.verified(own, chain[10].txids[1]).proof, chain[10].txids[2])
        # A TXID may be given as explorers show it, here as well.
        for id in (chain[10].txids[4], display(chain[10].txids[4])):
            assert own.verify(verified.proof, id) == verified.confirmations
            assert own.verify(verified.proof, txid=id) == verified.confirmations
        with pytest.raises(ProofError):
            own.verify(verified.proof, display(chain[10].txids[2]))
        for wrong in (bytes(31), "zz", "00" * 31, 5):
            with pytest.raises((ValueError, TypeError)):
                own.verify(verified.proof, wrong)  # type: ignore[arg-type]

        for index in range(5):
            witness = client.witness_proof(block.txids[index]).result
            assert witness is not None
            assert (witness.wtxid, witness.index) == (block.wtxids[index], index)
            assert own.verify_witness(witness, witness.wtxid) == 1
            with pytest.raises(ProofError):
                own.verify_witness(witness, block.txids[1])
        assert client.wtxid_proof(block.wtxids[3]).result is not None
        assert client.wtxid_proof(bytes(31) + b"\1").result is None


def test_a_pipeline_answers_everything_in_order_through_a_bad_network(
    server: Server, chain: list[Block], relay: MakeRelay
) -> None:
    bad = relay(server.addresses["spv"], seed=7)
    txids = [txid for block in chain for txid in block.txids] * 5
    with spv.Client(bad.address, timeout_s=20) as client:
        answers = list(client.pipeline((client.requests.root(txid) for txid in txids), window=32))
        heights = [answer.result.height for answer in answers]  # type: ignore[union-attr]
        assert heights == [height for height in range(1, len(chain) + 1) for _ in range(5)] * 5
        assert client.resent > 100
        proofs = client.pipeline((client.requests.proof(txid) for txid in txids[:200]), window=32)
        for txid, proof in zip(txids, proofs):
            proof.result.verify_path(txid)  # type: ignore[union-attr]
    assert min(bad.lost, bad.duplicated, bad.delayed) > 100

    async def ask_all() -> list[Any]:
        async with spv.AsyncClient(bad.address, timeout_s=20) as client:
            first = await asyncio.gather(*(client.root(txid) for txid in txids[:100]))
            rest = [answer async for answer in client.pipeline(map(client.requests.root, txids), 32)]
            return first + rest

    found = asyncio.run(ask_all())
    assert [answer.result.height for answer in found] == heights[:100] + heights


def test_a_pipeline_goes_on_after_an_error_and_can_be_left(server: Server, chain: list[Block]) -> None:
    with spv.Client(server.addresses["spv"]) as client:
        own = HeaderChain("regtest")
        client.sync(own)

        def operations() -> Any:
            for block in chain:
                yield client.requests.verified(own, block.txids[0])
                yield client.requests.verified(own, block.header.hash())

        results = list(client.pipeline(operations(), window=8))
        assert [isinstance(result, spv.NotFound) for result in results] == [False, True] * len(chain)
        for result in client.pipeline(operations(), window=8):
            assert not isinstance(result, LinesideError)
            with pytest.raises(RuntimeError, match="pipeline in progress"):
                client.root(bytes(32))
            break
        assert client.root(chain[0].txids[0]).result is not None


def test_replies_that_lie_or_come_from_another_address_are_ignored(chain: list[Block]) -> None:
    """A server that first sends lies, and another socket that sends the right reply from a wrong address."""
    fake, stranger = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
    fake.bind(("127.0.0.1", 0))

    def serve() -> None:
        request, client = fake.recvfrom(2048)
        good = request[:3] + bytes([request[3] | 0x80, 0, 0, 0, 104]) + request[8:16]
        wrong, right = b"W" * 104, b"R" * 104
        stranger.sendto(good + wrong, client)
        for lie in (
            request[:8] + request[8:16] + wrong,
            good[:8] + bytes(8) + wrong,
            good + wrong[:-1],
            good[:6] + b"\0\x67" + good[8:] + wrong[:-1],
            good[:3] + b"\x82" + good[4:] + wrong,
            good[:4] + b"\0\x09" + good[6:8] + bytes(8) + wrong,
        ):
            fake.sendto(lie, client)
        fake.sendto(good + right, client)

    thread = threading.Thread(target=serve)
    thread.start()
    with spv.Client("127.0.0.1:{}".format(fake.getsockname()[1])) as client:
        answer = client.root(chain[0].txids[0])
    thread.join()
    assert answer.result is not None and answer.result.root == b"R" * 32
    fake.close()
    stranger.close()


def test_silence_ends_with_an_error_at_the_deadline() -> None:
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    address = "127.0.0.1:{}".format(silent.getsockname()[1])
    with spv.Client(address, timeout_s=0.2) as client:
        with pytest.raises(Timeout, match=r"within 0\.2 s"):
            client.root(bytes(32))
        assert client.resent >= 2
        with pytest.raises(Timeout):
            client.paper_root(bytes(32))
    silent.setblocking(False)
    datagrams = {silent.recv(2048) for _ in range(3)}
    assert len(datagrams) == 1, "a repetition has the same bytes"
    silent.close()
    # Nothing listens there any more: ICMP errors do not end the call before the deadline.
    with spv.Client(address, timeout_s=0.2) as client, pytest.raises(Timeout):
        client.root(bytes(32))

    async def ask() -> None:
        async with spv.AsyncClient(address, timeout_s=0.2) as client:
            with pytest.raises(Timeout):
                await client.root(bytes(32))
            task = asyncio.create_task(client.root(bytes(32)))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(ask())


def test_addresses_of_servers() -> None:
    for text, found in {
        "host": ("host", 7),
        "host:9": ("host", 9),
        "192.0.2.1:9": ("192.0.2.1", 9),
        "::1": ("::1", 7),
        "[::1]": ("::1", 7),
        "[::1]:9": ("::1", 9),
    }.items():
        assert split_address(text, 7) == found
    assert split_address(("h", 1), 7) == ("h", 1)
    assert [join_address(pair) for pair in (("::1", 9), ("h", 1))] == ["[::1]:9", "h:1"]
    with pytest.raises(ValueError, match="HOST:PORT"):
        split_address("host:port", 7)


def test_a_close_ends_the_calls_in_flight() -> None:
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))

    async def run() -> None:
        client = await spv.AsyncClient(silent.getsockname()).open()
        task = asyncio.create_task(client.root(bytes(32)))
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(LinesideError, match="closed"):
            await task
        with pytest.raises(LinesideError, match="closed"):
            await client.root(bytes(32))

    asyncio.run(run())
    silent.close()


def test_answers_that_wait_while_the_caller_is_away_are_not_lost(server: Server, chain: list[Block]) -> None:
    txids = [txid for block in chain for txid in block.txids]
    with spv.Client(server.addresses["spv"], timeout_s=0.2) as client:
        found = 0
        for answer in client.pipeline((client.requests.root(txid) for txid in txids), window=64):
            assert not isinstance(answer, LinesideError)
            found += 1
            if found in (1, 70):
                time.sleep(0.4)
        assert found == len(txids)


def test_another_exception_in_an_operation_reaches_the_caller(server: Server, chain: list[Block]) -> None:
    class Broken(HeaderChain):
        def accept(self, *_: Any) -> int:
            raise OSError("the disk is full")

    with spv.Client(server.addresses["spv"]) as client:
        with pytest.raises(OSError, match="disk"):
            client.sync(Broken("regtest"))
        assert client.root(chain[0].txids[0]).result is not None

    async def sync() -> None:
        async with spv.AsyncClient(server.addresses["spv"]) as client:
            with pytest.raises(OSError, match="disk"):
                await client.sync(Broken("regtest"))
            assert (await client.root(chain[0].txids[0])).result is not None

    asyncio.run(sync())


def test_what_no_packet_can_hold_is_a_value_error(server: Server) -> None:
    with spv.Client(server.addresses["spv"]) as client:
        for wrong in ([], [bytes(32)] * 17):
            with pytest.raises(ValueError):
                client.roots(wrong)
        with pytest.raises(ValueError):
            client.headers(0, 15)
        with pytest.raises(ValueError):
            client.root(b"short")
        assert issubclass(spv.ServerRefused, Refused)

"""Client of `transfer` against a real server, also through a relay that loses, duplicates and reorders datagrams."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
import random
import socket
import stat
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from servers import Relay, Server, lineside

from lineside import LinesideError, OutcomeUnknown, Refused, Status, Timeout
from lineside import transfer as t
from lineside.keys import PublicKey, SecretKey
from lineside.transfer import Client, TransferCode

MakeRelay = Callable[..., Relay]
numbers = itertools.count(1000)


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.addresses["transfer"]) as client:
        yield client


def accounts(client: Client, *balances: int) -> list[int]:
    """Creates accounts that no other test uses."""
    made = [next(numbers) for _ in balances]
    session = client.open_session()
    for packet in t.in_packets(t.create(number, balance) for number, balance in zip(made, balances)):
        assert all(outcome.is_done for outcome in client.execute(session, packet).outcomes)
    client.close_session(session)
    return made


def balances(client: Client, *numbers: int) -> list[int]:
    found = client.refer(numbers)
    return [-1 if one is None else one.balance for one in found]


def test_every_operation_has_its_outcome(client: Client) -> None:
    a, b = accounts(client, 100, 0)
    session = client.open_session()
    name = b"order 1".ljust(16, b"\0")
    executed = client.execute(
        session,
        [
            t.transfer(a, b, 30),
            t.issue(b, 5),
            t.transfer(a, b, 1000),
            t.transfer(a, f"{b:032x}", 1)._replace(amount=0),
            t.create(a),
            t.freeze(b),
            t.transfer(a, b, 1),
            t.unfreeze(b),
            t.pending(a, b, 20, name),
            t.post(a, b, name, 15),
            t.void(a, b, name),
            t.transfer(a, 999_999_999, 1),
        ],
    )
    assert executed.is_durable
    code = TransferCode
    assert [outcome.code for outcome in executed.outcomes] == [
        code.DONE,
        code.DONE,
        code.INSUFFICIENT_FUNDS,
        code.BAD_COMMAND,
        code.ACCOUNT_EXISTS,
        code.DONE,
        code.FROZEN,
        code.DONE,
        code.DONE,
        code.DONE,
        code.UNKNOWN_PENDING,
        code.UNKNOWN_ACCOUNT,
    ]
    assert [outcome.balance for outcome in executed.outcomes[:3]] == [70, 35, None]
    assert executed.outcomes[0].number > 0 and executed.outcomes[2].number == 0
    (balance,) = client.refer([a])
    assert balance is not None
    assert (balance.balance, balance.held, balance.is_frozen) == (55, 0, False)
    assert client.refer([b, 999_999_999])[1] is None

    failed = client.execute(session, t.linked(t.transfer(a, b, 1), t.transfer(a, b, 10_000)))
    assert [outcome.code for outcome in failed.outcomes] == [code.LINKED_FAILED, code.INSUFFICIENT_FUNDS]
    assert balances(client, a, b) == [55, 50]
    assert client.next_sequence(session) == session.next == 3
    client.close_session(session)
    client.close_session(session)
    with pytest.raises(Refused) as refused:
        client.execute(session, [t.transfer(a, b, 1)])
    assert refused.value.status is Status.NO_SESSION
    assert session.unanswered is None
    with pytest.raises(ValueError):
        client.execute(session, [])
    with pytest.raises(ValueError):
        client.execute(session, [t.create(1)] * 17)


def test_a_sequence_that_is_not_the_next_one_is_refused_with_the_expected_one(client: Client) -> None:
    a, b = accounts(client, 10, 0)
    session = client.open_session()
    client.execute(session, [t.transfer(a, b, 1)])
    session.next = 7
    with pytest.raises(Refused) as refused:
        client.execute(session, [t.transfer(a, b, 1)])
    assert (refused.value.status, refused.value.expected) == (Status.SEQUENCE, 2)
    # Sequence 1 again with another body is reused; with the same body, it is the stored reply.
    session.next = 1
    with pytest.raises(Refused) as refused:
        client.execute(session, [t.transfer(a, b, 2)])
    assert refused.value.status is Status.REUSED
    again = client.execute(session, [t.transfer(a, b, 1)])
    assert again.outcomes[0].balance == 9
    assert balances(client, a, b) == [9, 1]
    client.close_session(session)


def test_a_copy_of_a_session_in_another_client_is_a_repetition(server: Server, client: Client) -> None:
    """As the page warns: an equal packet of a copied session gets the outcome of the first, and is not executed."""
    a, b = accounts(client, 100, 0)
    session = client.open_session()
    copied = copy.copy(session)
    first = client.execute(session, [t.transfer(a, b, 5)])
    with Client(server.addresses["transfer"]) as other:
        assert other.execute(copied, [t.transfer(a, b, 5)]) == first
        client.execute(session, [t.transfer(a, b, 6)])
        with pytest.raises(Refused) as refused:
            other.execute(copied, [t.transfer(a, b, 7)])
        assert refused.value.status is Status.REUSED
        # A session of its own: an equal payment is another payment.
        with other.session() as own:
            assert other.execute(own, [t.transfer(a, b, 5)]).outcomes[0].balance == 84
    assert balances(client, a, b) == [84, 16]
    client.close_session(session)


def test_each_transfer_is_executed_once_through_a_bad_network(server: Server, client: Client, relay: MakeRelay) -> None:
    bad = relay(server.addresses["transfer"], seed=3)
    made = accounts(client, *[1_000_000] * 8)
    rng = random.Random(5)
    operations, expected = [], dict.fromkeys(made, 1_000_000)
    changes = dict.fromkeys(made, 1)
    for _ in range(1500):
        source, destination = rng.sample(made, 2)
        amount = rng.randrange(1, 50)
        operations.append(t.transfer(source, destination, amount))
        expected[source] -= amount
        expected[destination] += amount
        changes[source] += 1
        changes[destination] += 1
    packets = list(t.in_packets(operations, 4))
    with Client(bad.address, timeout_s=30) as through:
        sessions = [through.open_session() for _ in range(8)]
        results = list(through.execute_all(packets, sessions))
        for result in results:
            assert not isinstance(result, LinesideError)
            assert all(outcome.is_done for outcome in result.outcomes)
        assert through.resent > 50
        numbers = [outcome.number for result in results for outcome in result.outcomes]  # type: ignore[union-attr]
        assert len(set(numbers)) == len(operations)
        assert sum(session.next - 1 for session in sessions) == len(packets)
        for session in sessions:
            through.close_session(session)
    assert min(bad.lost, bad.duplicated, bad.delayed) > 50
    found = client.refer(made)
    assert [one.balance for one in found if one is not None] == list(expected.values())
    assert [one.version for one in found if one is not None] == list(changes.values())


def test_a_session_has_one_packet_at_a_time(server: Server, client: Client) -> None:
    """Equal packets at the same time are two payments, never one with two replies."""
    a, b = accounts(client, 100, 0)

    async def run() -> Any:
        async with t.AsyncClient(server.addresses["transfer"]) as other:
            session = await other.open_session()
            pay = [t.transfer(a, b, 1)]
            return await asyncio.gather(*(other.execute(session, pay) for _ in range(2)), return_exceptions=True)

    first, second = asyncio.run(run())
    assert isinstance(first, t.Executed) and isinstance(second, LinesideError)
    assert balances(client, a, b) == [99, 1]


def test_asyncio_executes_each_transfer_once_through_a_bad_network(
    server: Server, client: Client, relay: MakeRelay
) -> None:
    bad = relay(server.addresses["transfer"], seed=4)
    a, b = accounts(client, 100_000, 0)

    async def run() -> int:
        done = 0
        async with t.AsyncClient(bad.address, timeout_s=30) as through:
            sessions = await asyncio.gather(*(through.open_session() for _ in range(6)))
            async for result in through.execute_all([[t.transfer(a, b, 1)] * 3] * 100, sessions):
                assert not isinstance(result, LinesideError)
                done += sum(outcome.is_done for outcome in result.outcomes)
        return done

    assert asyncio.run(run()) == 300
    assert balances(client, a, b) == [99_700, 300]


def test_an_unknown_outcome_names_the_packet_and_resume_finds_it(
    server: Server, client: Client, relay: MakeRelay, tmp_path: Path
) -> None:
    a, b = accounts(client, 100, 0)
    file = t.SessionFile(tmp_path / "session")
    file.store(client.open_session())
    assert stat.S_IMODE((tmp_path / "session").stat().st_mode) == 0o600
    with pytest.raises(LinesideError, match="exists already"):
        file.store(t.Session(1, 2, 3))

    # A server that receives the packet, and whose replies never arrive.
    deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    deaf.bind(("127.0.0.1", 0))
    with file as session, Client("127.0.0.1:{}".format(deaf.getsockname()[1]), timeout_s=0.1) as lost:
        with pytest.raises(OutcomeUnknown, match=f"packet 1 of session {session.slot}") as unknown:
            lost.execute(session, [t.transfer(a, b, 10)])
        assert unknown.value.id == t.PacketId(session.slot, 1)
        assert session.unanswered is not None
    datagram = deaf.recv(2048)
    deaf.close()
    # The packet arrives after all, and its reply is lost again.
    raw = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    host, port = server.addresses["transfer"].split(":")
    raw.sendto(datagram, (host, int(port)))
    raw.recv(2048)
    raw.close()
    assert balances(client, a, b) == [90, 10]

    # Another run of the program reads the file.
    with t.SessionFile(tmp_path / "session") as session:
        with pytest.raises(LinesideError, match="has no reply yet"):
            client.execute(session, [t.transfer(a, b, 11)])
        executed = client.resume(session)
        assert executed is not None and executed.outcomes[0].balance == 90
        assert client.resume(session) is None
        assert (session.next, session.unanswered) == (2, None)
        client.execute(session, [t.transfer(a, b, 1)])
    assert balances(client, a, b) == [89, 11]
    # The command line continues the session of the same file.
    where = ["--server", server.addresses["transfer"]]
    path = str(tmp_path / "session")
    lineside("transfer", "transfer", str(a), str(b), "2", "--session", path, *where)
    with t.SessionFile(path) as session:
        assert session.next == 4
        client.close_session(session)
    file.remove()
    assert balances(client, a, b) == [87, 13]
    assert list(tmp_path.iterdir()) == []


def test_a_kill_of_the_server_leaves_each_packet_executed_once(tmp_path: Path) -> None:
    port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    port.bind(("127.0.0.1", 0))
    address = "127.0.0.1:{}".format(port.getsockname()[1])
    port.close()
    section = f'[transfer]\nenabled = true\nlisten = "{address}"\ndata = "ledger"\naccount_bits = 10\n'
    server = Server(tmp_path, section)
    try:
        with Client(address, timeout_s=60) as client:
            a, b = accounts(client, 10_000, 0)
            sessions = [client.open_session() for _ in range(4)]
            done = 0
            packets = ([t.transfer(a, b, 1)] * 2 for _ in range(600))
            for result in client.execute_all(packets, sessions):
                assert not isinstance(result, LinesideError)
                assert all(outcome.is_done for outcome in result.outcomes)
                done += 1
                if done in (150, 400):
                    server.kill()
                    server.start()
            assert balances(client, a, b) == [8800, 1200]
            last = client.execute(sessions[0], [t.issue(b, 1)]).outcomes[0].number
    finally:
        server.stop()
    audit = json.loads(lineside("transfer", "audit", "--json", "--data", "ledger", cwd=tmp_path))
    assert audit["operations"] == last


def test_signed_packets_move_only_what_belongs_to_the_signer(tmp_path: Path) -> None:
    for curve in ("secp256k1", "p256"):
        SecretKey.generate(curve).to_file(tmp_path / f"{curve}.key")
    lineside("transfer", "key", "new", "mint", cwd=tmp_path)
    mint = SecretKey.from_file(tmp_path / "mint")
    shown = json.loads(lineside("transfer", "key", "show", "mint", "--json", cwd=tmp_path))
    assert t.fingerprint(mint).hex() in json.dumps(shown)
    issuer = t.fingerprint(mint).hex()
    server = Server(
        tmp_path,
        f"""
[transfer]
enabled = true
listen = "127.0.0.1:0"
data = "ledger"
account_bits = 10
require_signature = true
issuers = ["key:{issuer}"]
""",
    )
    try:
        address = server.addresses["transfer"]
        alice, bob = (SecretKey.from_file(tmp_path / f"{curve}.key") for curve in ("secp256k1", "p256"))
        with Client(address, signer=mint) as client:
            assert client.requests.operations_max == t.SIGNED_OPERATIONS_MAX == 14
            session = client.open_session()
            made = [t.create(1, 100, t.fingerprint(alice)), t.create(2, 100, t.fingerprint(bob))]
            assert all(outcome.is_done for outcome in client.execute(session, made).outcomes)
        for signer, source, destination in ((alice, 1, 2), (bob, 2, 1)):
            with Client(address, signer=signer) as client:
                session = client.open_session()
                executed = client.execute(session, [t.transfer(source, destination, 7)] * 14)
                # The first one succeeds; with 100 at the start, all fourteen do.
                assert all(outcome.is_done for outcome in executed.outcomes)
                with pytest.raises(Refused) as refused:
                    client.execute(session, [t.transfer(destination, source, 1)])
                assert refused.value.status is Status.UNAUTHORISED
                client.execute(session, [t.transfer(source, destination, 1)])
        with Client(address) as client, pytest.raises(Refused):
            client.execute(client.open_session(), [t.transfer(1, 2, 1)])
    finally:
        server.stop()
    audit = json.loads(lineside("transfer", "audit", "--json", "--data", "ledger", cwd=tmp_path))
    assert audit["signed"] >= 5


def test_a_proof_of_a_sealed_block_is_checked_offline(tmp_path: Path) -> None:
    server = Server(tmp_path, '[transfer]\nenabled = true\nlisten = "127.0.0.1:0"\ndata = "ledger"\nblock_s = 1\n')
    try:
        with Client(server.addresses["transfer"]) as client:
            a, b = accounts(client, 500, 0)
            session = client.open_session()
            outcomes = [client.execute(session, [t.transfer(a, b, n)] * 3).outcomes for n in range(1, 6)]
    finally:
        server.stop()
    number = outcomes[3][1].number
    key = PublicKey("secp256k1", bytes.fromhex((tmp_path / "ledger" / "settlement.pub").read_text()))
    # The server seals what waits when it is started again, or has sealed it after a second.
    text = prove(tmp_path, number)
    proof = t.InclusionProof.from_json(text)
    proven = proof.verify(key)
    assert (proven.code, proven.operation.amount, proven.balance) == (TransferCode.DONE, 4, outcomes[3][1].balance)
    assert proven.operation.source == t.account_bytes(a)
    assert proof.verify(block_hash=proof.block.hash()) == proven
    file = tmp_path / "ledger" / "settlement.pub"
    for given in (file.read_text(), file.read_bytes(), key.point, key.to_bytes(), str(key), file.read_text() + "\n"):
        assert proof.verify(given) == proven
    other = SecretKey.generate().public
    for given in (other.point.hex(), other.point.hex().encode(), other.point):
        with pytest.raises(t.SettlementError, match="not signed"):
            proof.verify(given)
    for wrong_key in ("", "zz", "00" * 33, b"x", b"\xff" * 66, "ab:" + "00" * 33):
        with pytest.raises(ValueError):
            proof.verify(wrong_key)
    with pytest.raises(TypeError, match="settlement.pub"):
        proof.verify(5)  # type: ignore[arg-type]
    lineside("transfer", "verify-proof", "proof.json", "--key", key.point.hex(), cwd=tmp_path)
    with pytest.raises(t.SettlementError, match="trusted value"):
        proof.verify()
    with pytest.raises(t.SettlementError, match="another block"):
        proof.verify(block_hash=bytes(32))
    with pytest.raises(t.SettlementError, match="not signed"):
        proof.verify(SecretKey.generate().public)
    for wrong in (
        proof._replace(leaf=proof.leaf[:-1] + b"\xff"),
        proof._replace(path=proof.path[:-1]),
        proof._replace(path=(*proof.path, bytes(32))),
        proof._replace(index=proof.index + 1),
        proof._replace(block=proof.block._replace(issued=1)),
    ):
        with pytest.raises(t.SettlementError):
            wrong.verify(key)
    printed = json.loads(text)
    printed["block_hash"] = "00" * 32
    with pytest.raises(t.SettlementError, match="another hash"):
        t.InclusionProof.from_json(json.dumps(printed))
    with pytest.raises(t.SettlementError, match="not a proof"):
        t.InclusionProof.from_json("{}")


def prove(folder: Path, number: int) -> str:
    """Returns the proof of an operation; a server seals the operations that wait."""
    section = '[transfer]\nenabled = true\nlisten = "127.0.0.1:0"\ndata = "ledger"\nblock_s = 1\n'
    server = Server(folder, section)
    try:
        for _ in range(200):
            try:
                text = lineside("transfer", "prove", str(number), "--data", "ledger", cwd=folder)
                (folder / "proof.json").write_text(text)
                return text
            except AssertionError as error:
                assert "not sealed yet" in str(error)
    finally:
        server.stop()
    raise AssertionError("the block was never sealed")


def test_the_papers_packet(client: Client) -> None:
    a, b = next(numbers), next(numbers)
    assert client.paper(1, a, amount=50) == (TransferCode.DONE, 50, 0)
    assert client.paper(1, a, amount=50).code is TransferCode.ACCOUNT_EXISTS
    assert client.paper(1, b).is_done
    for _ in range(3):
        assert client.paper(3, a, b, 20, transaction_id=9).balance == 30
    assert client.paper(3, a, b, 21, transaction_id=9).code is TransferCode.ID_REUSED
    assert client.paper(3, a, b, 1, transaction_id=8).code is TransferCode.STALE_ID
    assert client.paper(4, a).balance == 30
    assert client.paper(4, 999_999_998).code is TransferCode.UNKNOWN_ACCOUNT

    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    with Client("127.0.0.1:{}".format(silent.getsockname()[1]), timeout_s=0.2) as lost:
        with pytest.raises(OutcomeUnknown, match=f"transaction 0 of account {a}"):
            lost.paper(3, a, b, 1)
        silent.recv(2048)
        silent.setblocking(False)
        with pytest.raises(BlockingIOError):
            silent.recv(2048)
        with pytest.raises(OutcomeUnknown):
            lost.paper(3, a, b, 1, transaction_id=10)
        assert len({silent.recv(2048) for _ in range(3)}) == 1
        with pytest.raises(Timeout):
            lost.paper(4, a)
    silent.close()


def test_operations_are_divided_into_packets_and_chains_stay_whole() -> None:
    single = [t.issue(number, 1) for number in range(10)]
    assert [len(packet) for packet in t.in_packets(single, 4)] == [4, 4, 2]
    mixed = [single[0], *t.linked(*single[1:4]), single[4], *t.linked(*single[5:7])]
    packets = list(t.in_packets(mixed, 4))
    assert [len(packet) for packet in packets] == [4, 3]
    with pytest.raises(ValueError, match="do not fit"):
        list(t.in_packets(t.linked(*single), 4))
    with pytest.raises(ValueError, match="is missing"):
        list(t.in_packets([t.linked(*single[:2])[0]]))

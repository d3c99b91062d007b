"""Idempotency keys of `transfer`: repetitions in new sessions, on a bad network, and after a kill of the server."""

from __future__ import annotations

import asyncio
import json
import socket
import uuid
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest
from servers import Relay, Server, free_address, lineside
from test_transfer import accounts, balances

from lineside import LinesideError, OutcomeUnknown
from lineside import transfer as t
from lineside._generated import OPERATION
from lineside.transfer import Client, TransferCode

MakeRelay = Callable[..., Relay]


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.addresses["transfer"]) as client:
        yield client


@pytest.fixture
def deaf() -> Iterator[socket.socket]:
    """Server that receives packets, and never replies."""
    deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    deaf.bind(("127.0.0.1", 0))
    yield deaf
    deaf.close()


def address_of(bound: socket.socket) -> str:
    return "127.0.0.1:{}".format(bound.getsockname()[1])


def deliver(datagram: bytes, address: str) -> bytes:
    """Sends a datagram to a server, and returns the reply."""
    host, _, port = address.rpartition(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as raw:
        raw.settimeout(30)
        raw.sendto(datagram, (host, int(port)))
        return raw.recv(2048)


def execute_in_new_session(client: Client, operations: list[t.Operation], **arguments: Any) -> list[t.Outcome]:
    session = client.open_session()
    try:
        return client.execute(session, operations, **arguments).outcomes
    finally:
        client.close_session(session)


def test_a_timeout_and_a_repetition_in_a_new_session_give_the_first_outcome(
    server: Server, client: Client, deaf: socket.socket
) -> None:
    a, b = accounts(client, 100, 0)
    key = t.new_idempotency_key()
    payment = t.transfer(a, b, 30, idempotency_key=key)
    session = client.open_session()
    with Client(address_of(deaf), timeout_s=0.1) as lost:
        with pytest.raises(OutcomeUnknown, match=f"in any session with the idempotency key {key}$") as unknown:
            lost.execute(session, [payment])
    assert unknown.value.id == t.PacketId(session.slot, 1, (key,))
    # The packet arrives after all, and only its reply is lost.
    deliver(deaf.recv(2048), server.addresses["transfer"])
    assert balances(client, a, b) == [70, 30]
    with pytest.raises(LinesideError, match="call `resume` before the session is closed"):
        client.close_session(session)
    client.close_session(session, force=True)
    (between,) = execute_in_new_session(client, [t.transfer(a, b, 1)])

    assert isinstance(unknown.value.id, t.PacketId)
    (key,) = unknown.value.id.idempotency_keys
    (outcome,) = execute_in_new_session(client, [t.transfer(a, b, 30, idempotency_key=key)])
    assert outcome == t.Outcome(TransferCode.DONE, 70, between.number - 1)
    assert balances(client, a, b) == [69, 31]


def test_a_key_belongs_to_one_operation_of_one_account_and_to_an_execution(client: Client) -> None:
    a, b, c = accounts(client, 100, 0, 10)
    key = t.new_idempotency_key()
    code = TransferCode
    (refused,) = execute_in_new_session(client, [t.transfer(a, b, 101, idempotency_key=key)])
    assert refused == t.Outcome(code.INSUFFICIENT_FUNDS, None, 0)
    # A refusal does not use the key.
    (first,) = execute_in_new_session(client, [t.transfer(a, b, 40, idempotency_key=key.bytes)])
    assert (first.code, first.balance) == (code.DONE, 60)
    other = [
        t.transfer(a, b, 41, idempotency_key=key),
        t.transfer(a, c, 40, idempotency_key=key),
        t.issue(a, 40, key),
        t.transfer(a, b, 40, key.bytes),
        t.transfer(c, b, 4, idempotency_key=key),
        t.transfer(a, b, 40, idempotency_key=key),
    ]
    outcomes = execute_in_new_session(client, other)
    assert [outcome.code for outcome in outcomes] == [*[code.ID_REUSED] * 3, code.DONE, code.DONE, code.DONE]
    assert outcomes[5] == first and outcomes[3].number != first.number
    assert balances(client, a, b, c) == [20, 84, 6]


def test_every_operation_has_a_key_that_its_repetition_finds(client: Client) -> None:
    a, b = accounts(client, 100, 0)
    (made,) = accounts(client, 0)
    new = made + 500_000
    one, two = t.new_idempotency_key().bytes, t.new_idempotency_key().bytes
    operations = [
        t.create(new, 7, idempotency_key=t.new_idempotency_key()),
        t.issue(b, 5, t.new_idempotency_key()),
        t.freeze(b, t.new_idempotency_key()),
        t.unfreeze(b, t.new_idempotency_key()),
        t.pending(a, b, 20, one, idempotency_key=one),
        t.post(a, b, one, 15, idempotency_key=one),
        t.pending(a, b, 30, two, 60, idempotency_key=uuid.UUID(bytes=two)),
        t.void(a, b, two, idempotency_key=two),
        *t.linked(
            t.transfer(a, b, 1, idempotency_key=t.new_idempotency_key()),
            t.transfer(b, a, 2, idempotency_key=t.new_idempotency_key()),
        ),
    ]
    first = execute_in_new_session(client, operations)
    assert all(outcome.is_done for outcome in first)
    assert len({outcome.number for outcome in first}) == len(operations)
    for _ in range(2):
        assert execute_in_new_session(client, operations) == first
    assert balances(client, a, b, new) == [86, 19, 7]
    # The last operation of the chain is found on its own, too; a chain of which only a part has keys is refused.
    (part,) = execute_in_new_session(client, [operations[-1]])
    assert part == first[-1]
    mixed = t.linked(operations[-2], t.transfer(b, a, 2))
    assert TransferCode.BAD_COMMAND in [outcome.code for outcome in execute_in_new_session(client, mixed)]
    assert balances(client, a, b, new) == [86, 19, 7]


def test_the_command_line_and_the_client_find_the_same_key(server: Server, client: Client) -> None:
    a, b = accounts(client, 100, 0)
    key = t.new_idempotency_key()
    command = ["transfer", "transfer", str(a), str(b), "5", "--json", "--server", server.addresses["transfer"]]
    printed = json.loads(lineside(*command, "--idempotency-key", str(key)))
    (outcome,) = execute_in_new_session(client, [t.transfer(a, b, 5)], idempotency_key=key)
    assert (printed["balance"], printed["number"]) == (outcome.balance, outcome.number)

    key = t.new_idempotency_key()
    (outcome,) = execute_in_new_session(client, [t.transfer(a, b, 5, idempotency_key=key)])
    printed = json.loads(lineside(*command, "--idempotency-key", str(key)))
    assert (printed["balance"], printed["number"]) == (outcome.balance, outcome.number)
    assert balances(client, a, b) == [90, 10]


def test_the_packets_of_a_batch_are_repeated_with_one_key(client: Client) -> None:
    a, b = accounts(client, 100, 0)
    key = t.new_idempotency_key()
    name = b"order 9".ljust(16, b"\0")
    batch = [t.pending(a, b, 20, name), *[t.transfer(a, b, 1)] * 40, t.post(a, b, name), t.transfer(a, b, 100)]

    def run(most: int) -> list[t.Outcome]:
        sessions = [client.open_session()]
        outcomes = []
        for result in client.execute_all(t.in_packets(batch, most), sessions, idempotency_key=key):
            assert not isinstance(result, LinesideError)
            outcomes += result.outcomes
        client.close_session(sessions[0])
        return outcomes

    first = run(16)
    assert [outcome.is_done for outcome in first] == [*[True] * 42, False]
    assert len({outcome.number for outcome in first}) == 43
    # An operation keeps its key also if packets are divided in another way.
    assert run(5) == first
    assert balances(client, a, b) == [40, 60]
    # Only the refused operation is tried again.
    execute_in_new_session(client, [t.issue(a, 60)])
    again = run(16)
    assert again[:-1] == first[:-1] and (again[-1].code, again[-1].balance) == (TransferCode.DONE, 0)
    assert balances(client, a, b) == [0, 160]


def test_each_payment_with_a_key_is_executed_once_through_a_bad_network(
    server: Server, client: Client, relay: MakeRelay
) -> None:
    """The client gives up early, and repeats each payment in a new session, while the old packet may still arrive."""
    bad = relay(server.addresses["transfer"], seed=8, rate=0.4)
    a, b = accounts(client, 10_000, 0)
    unknown, repeated, outcomes = 0, 0, []
    for amount in range(1, 101):
        payment = t.transfer(a, b, amount, idempotency_key=t.new_idempotency_key())
        sessions = []
        while True:
            sessions.append(client.open_session())
            with Client(bad.address, timeout_s=0.03) as through:
                try:
                    (outcome,) = through.execute(sessions[-1], [payment]).outcomes
                    break
                except OutcomeUnknown as error:
                    assert isinstance(error.id, t.PacketId)
                    assert error.id.idempotency_keys == (uuid.UUID(bytes=payment.uuid),)
                    unknown += 1
        # Sessions whose first packet was executed, although the client had no reply.
        repeated += sum(client.next_sequence(session) == 2 for session in sessions[:-1])
        for session in sessions:
            client.close_session(session, force=True)
        assert outcome.is_done
        outcomes.append(outcome)
    assert unknown > 20 and repeated > 5
    total = sum(range(1, 101))
    assert balances(client, a, b) == [10_000 - total, total]
    assert [outcome.balance for outcome in outcomes] == [10_000 - sum(range(n + 1)) for n in range(1, 101)]
    assert len({outcome.number for outcome in outcomes}) == 100


def test_asyncio_repeats_a_batch_with_its_key(server: Server, client: Client, relay: MakeRelay) -> None:
    """Each attempt sends the whole batch in new sessions, and gets the outcomes of packets executed before."""
    bad = relay(server.addresses["transfer"], seed=9, rate=0.4)
    a, b = accounts(client, 1000, 0)
    key = t.new_idempotency_key()
    packets = [[t.transfer(a, b, 1)] * 3] * 100
    known: dict[int, t.Executed] = {}

    async def attempt() -> int:
        """Returns the number of packets whose outcome is unknown."""
        unknown = 0
        async with t.AsyncClient(server.addresses["transfer"]) as direct:
            sessions = [await direct.open_session() for _ in range(24)]
            async with t.AsyncClient(bad.address, timeout_s=0.2) as through:
                place = 0
                async for result in through.execute_all(packets, sessions, key):
                    if isinstance(result, t.Executed):
                        assert known.setdefault(place, result) == result
                    elif isinstance(result, OutcomeUnknown):
                        assert isinstance(result.id, t.PacketId)
                        assert result.id.idempotency_keys == (key,)
                        unknown += 1
                    place += 1
                assert place == 100
            for session in sessions:
                await direct.close_session(session, force=True)
        return unknown

    assert asyncio.run(attempt()) > 0
    for _ in range(100):
        if len(known) == 100:
            break
        asyncio.run(attempt())
    assert len({outcome.number for executed in known.values() for outcome in executed.outcomes}) == 300
    assert balances(client, a, b) == [700, 300]


def test_a_repetition_after_a_kill_of_the_server_gives_the_first_outcome(tmp_path: Path, deaf: socket.socket) -> None:
    address = free_address()
    server = Server(tmp_path, f'[transfer]\nenabled = true\nlisten = "{address}"\ndata = "ledger"\naccount_bits = 10\n')
    try:
        with Client(address, timeout_s=30) as client:
            a, b = accounts(client, 1000, 0)
            key = t.new_idempotency_key()
            payments = [t.transfer(a, b, amount) for amount in (5, 6, 7)]
            with Client(address_of(deaf), timeout_s=0.1) as lost, pytest.raises(OutcomeUnknown) as unknown:
                lost.execute(client.open_session(), payments, key)
            assert isinstance(unknown.value.id, t.PacketId)
            assert unknown.value.id.idempotency_keys == (key,)
            reply = deliver(deaf.recv(2048), address)
            server.kill()
            server.start()
            first = execute_in_new_session(client, payments, idempotency_key=key)
            stored = OPERATION.iter_unpack(reply[-3 * OPERATION.size :])
            found = [t.Operation(*fields) for fields in stored]
            assert [(operation.amount, operation.number) for operation in found] == [
                (outcome.balance, outcome.number) for outcome in first
            ]
            assert balances(client, a, b) == [982, 18]

            # The server is killed while many packets are on the way, and stays away until the client gives up.
            key, kills = t.new_idempotency_key(), 0
            done: list[list[t.Outcome]] = [[]]
            packets = list(t.in_packets([t.transfer(a, b, 1)] * 600, 4))
            while len(done[-1]) < 600:
                done.append([])
                with Client(address, timeout_s=0.5) as hasty:
                    sessions = [client.open_session() for _ in range(4)]
                    try:
                        for result in hasty.execute_all(packets, sessions, key):
                            if isinstance(result, LinesideError):
                                raise result
                            done[-1] += result.outcomes
                            if kills < 3 and len(done[-1]) == 120 * (kills + 1):
                                server.kill()
                                kills += 1
                    except LinesideError:
                        server.start()
                for session in sessions:
                    client.close_session(session, force=True)
            assert kills == 3 and len(done) == 5
            for outcomes in done:
                assert outcomes == done[-1][: len(outcomes)]
            assert len({outcome.number for outcome in done[-1]}) == 600
            assert balances(client, a, b) == [382, 618]
    finally:
        server.stop()
    audit = json.loads(lineside("transfer", "audit", "--json", "--data", "ledger", cwd=tmp_path))
    # Two accounts, three payments and 600: no repetition has a number of its own.
    assert audit["operations"] == 2 + 3 + 600


def test_keys_of_operations_are_uuids_or_16_bytes() -> None:
    key = t.new_idempotency_key()
    assert key != t.new_idempotency_key()
    operation = t.transfer(1, 2, 3, idempotency_key=key)
    assert operation == t.transfer(1, 2, 3, key.bytes)._replace(flags=2)
    packed = OPERATION.pack(*operation)
    assert packed[1] == 2 and key.bytes in packed
    for wrong in (bytes(16), bytes(15), uuid.UUID(int=0)):
        with pytest.raises(ValueError, match="an idempotency key is"):
            t.issue(1, 1, wrong)
        with pytest.raises(ValueError, match="an idempotency key is"):
            list(t.keyed([], wrong))
    with pytest.raises(ValueError, match="give only one"):
        t.transfer(1, 2, 3, b"memo".ljust(16, b"\0"), key)
    with pytest.raises(ValueError, match="give only one"):
        t.post(1, 2, bytes([1]) * 16, idempotency_key=key)


def test_the_keys_of_a_batch_come_from_its_key_and_the_places() -> None:
    key = uuid.UUID("7d444840-9dc0-11d1-b245-5ffdce74fad2")
    own = t.new_idempotency_key()
    name = bytes([9]) * 16
    batch = [t.issue(1, 1), t.issue(1, 1), t.issue(1, 1, own), t.void(1, 2, name), t.issue(1, 1)]
    made = list(t.keyed(batch, key))
    assert [operation.flags for operation in made] == [2] * 5
    uuids = [operation.uuid for operation in made]
    assert [uuids[0], uuids[2], uuids[3]] == [key.bytes, own.bytes, name]
    assert len(set(uuids)) == 5
    # Computed with: printf 'lineside/python/idempotency-key/1' … | sha256sum
    assert uuids[1].hex() == "0348910e2ccb6963511d7cf225973b8b" and uuids[4].hex() == "48b9133632b3b8a9d92a9652c0e521da"
    assert [t.operation_key(key, place).bytes for place in (0, 1, 4)] == [uuids[0], uuids[1], uuids[4]]
    assert list(t.keyed(batch[3:], key, 3)) == made[3:]
    linked = t.linked(*made)
    assert [operation.flags for operation in linked] == [3, 3, 3, 3, 2]
    # Keys do not change how operations are divided into packets.
    assert [len(packet) for packet in t.in_packets(made, 2)] == [2, 2, 1]
    with pytest.raises(ValueError, match="do not fit"):
        list(t.in_packets(linked, 4))


def test_an_unknown_outcome_names_keys_only_if_every_operation_has_one(deaf: socket.socket) -> None:
    keys = [t.new_idempotency_key() for _ in range(2)]
    both = [t.issue(1, 1, key) for key in keys]
    with Client(address_of(deaf), timeout_s=0.05) as lost:
        with pytest.raises(OutcomeUnknown, match=f"their 2 idempotency keys: the first is {keys[0]}") as named:
            lost.execute(t.Session(3, 7, 5), both)
        assert named.value.id == t.PacketId(3, 5, tuple(keys))
        with pytest.raises(OutcomeUnknown, match="ask for packet 5 of session 3$") as unnamed:
            lost.execute(t.Session(3, 7, 5), [*both, t.issue(1, 1)])
        assert unnamed.value.id == t.PacketId(3, 5)


def test_a_batch_goes_on_in_the_sessions_whose_packets_have_replies(
    server: Server, client: Client, relay: MakeRelay, deaf: socket.socket
) -> None:
    bad = relay(server.addresses["transfer"], seed=10, rate=0.3)
    a, b = accounts(client, 1000, 0)
    sessions = [client.open_session() for _ in range(16)]
    with Client(bad.address, timeout_s=0.3) as through:
        results = list(through.execute_all([[t.transfer(a, b, 1)]] * 100, sessions))
    unknown = [result for result in results if isinstance(result, OutcomeUnknown)]
    done = [result for result in results if isinstance(result, t.Executed)]
    assert len(unknown) >= 1 and len(unknown) + len(done) == len(results) == 100
    resumed = [client.resume(session) for session in sessions if session.unanswered is not None]
    assert len(resumed) == len(unknown)
    assert all(executed is not None and executed.outcomes[0].is_done for executed in resumed)
    assert balances(client, a, b) == [900, 100]

    with Client(address_of(deaf), timeout_s=0.05) as lost:
        results = list(lost.execute_all([[t.transfer(a, b, 1)]] * 20, sessions))
    assert [type(result) for result in results] == [OutcomeUnknown] * 16 + [LinesideError] * 4
    assert "was not sent" in str(results[-1])
    for session in sessions:
        client.close_session(session, force=session.unanswered is not None)

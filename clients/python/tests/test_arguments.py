"""Wrong arguments: each is a `ValueError` or `TypeError` before anything is sent, and none is changed silently."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any, Callable

import pytest
from servers import Server
from test_transfer import accounts, balances

from lineside import LinesideError, column, hybrid, spv
from lineside import transfer as t
from lineside.keys import PublicKey
from lineside.transfer import TransferCode


def test_names_of_pending_transfers_are_never_cut(server: Server) -> None:
    one, two = b"order-2026-11-26-000001", b"order-2026-11-26-000002"
    for named in (t.pending(1, 2, 1, "x"), t.transfer(1, 2, 1, "x")):
        assert named.uuid == b"x".ljust(16, b"\0")
    for name in (one, one.decode(), bytes(17), b""):
        wrong: list[tuple[Callable[..., t.Operation], list[Any]]]
        wrong = [(t.pending, [1, 2, 1]), (t.post, [1, 2]), (t.void, [1, 2]), (t.transfer, [1, 2, 1])]
        for make, arguments in wrong:
            with pytest.raises(ValueError, match="1 to 16"):
                make(*arguments, uuid=name)
    with pytest.raises(TypeError):
        t.pending(1, 2, 1, 7)  # type: ignore[arg-type]
    with t.Client(server.addresses["transfer"]) as client:
        a, b = accounts(client, 1000, 0)
        session = client.open_session()
        made = t.pending(a, b, 1, "x")
        with pytest.raises(ValueError, match="16 bytes"):
            client.execute(session, [made._replace(uuid=one)])
        assert session.unanswered is None and session.next == 1

        # Names of 16 bytes that differ at their end are two pending transfers.
        names: list[Any] = ["order-26-0000001", b"order-26-0000002", uuid.uuid5(uuid.NAMESPACE_OID, two.decode())]
        operations = [t.pending(a, b, 100 + n, name) for n, name in enumerate(names)]
        operations += [t.void(a, b, names[1]), t.post(a, b, names[0]), t.post(a, b, names[1]), t.post(a, b, names[2])]
        outcomes = client.execute(session, operations).outcomes
        done = TransferCode.DONE
        assert [outcome.code for outcome in outcomes] == [done] * 5 + [TransferCode.UNKNOWN_PENDING, done]
        assert balances(client, a, b) == [1000 - 100 - 102, 202]
        client.close_session(session)


@pytest.mark.parametrize("amount", [2**64, -1, 1.5, "1", None, True])
def test_amounts_are_whole_numbers_below_2_to_the_64(amount: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="amount"):
        t.create(1, amount)
    with pytest.raises((ValueError, TypeError), match="amount"):
        t.issue(1, amount)
    with pytest.raises((ValueError, TypeError), match="amount"):
        t.transfer(1, 2, amount)
    with pytest.raises((ValueError, TypeError), match="amount"):
        t.pending(1, 2, amount, "x")
    assert t.create(1, 2**64 - 1).amount == 2**64 - 1


def test_an_amount_of_0_never_means_all_of_a_pending_transfer(server: Server) -> None:
    with pytest.raises(ValueError, match="amount: 0 is not from 1"):
        t.post(1, 2, "x", 0)
    with pytest.raises(ValueError, match="amount: 0 is not from 1"):
        t.issue(1, 0)
    with pytest.raises(ValueError, match="amount: 0 is not from 1"):
        t.transfer(1, 2, 0)
    with pytest.raises(ValueError, match="amount: 0 is not from 1"):
        t.pending(1, 2, 0, "x")
    assert t.post(1, 2, "x") == t.post(1, 2, "x", None) == t.post_all(1, 2, "x")
    with t.Client(server.addresses["transfer"]) as client, client.session() as session:
        a, b = accounts(client, 1000, 0)
        operations = [t.pending(a, b, 300, "one"), t.post(a, b, "one", 1), t.pending(a, b, 500, "two")]
        outcomes = client.execute(session, [*operations, t.post_all(a, b, "two")]).outcomes
        assert all(outcome.is_done for outcome in outcomes)
        assert balances(client, a, b) == [499, 501]


@pytest.mark.parametrize("seconds", [2**32, -1, 1.5])
def test_timeouts_of_pending_transfers_are_whole_seconds(seconds: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="timeout_s"):
        t.pending(1, 2, 1, "x", timeout_s=seconds)


@pytest.mark.parametrize("account", [-1, 2**128, "12", b"x" * 15, 1.5, None])
def test_accounts_have_16_bytes(account: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        t.create(account)
    with pytest.raises((ValueError, TypeError)):
        next(t.Requests().refer([account]))


def steps(make: Any, *arguments: Any) -> None:
    """Makes an operation, up to its first request."""
    made = make(*arguments)
    if hasattr(made, "send"):
        next(made)


COLUMN, SPV, TRANSFER = column.Requests(), spv.Requests(), t.Requests()
GENESIS_FREE: Any = object.__new__(hybrid.Requests)
WRONG: list[tuple[Any, ...]] = [
    (COLUMN.increment, "a", 2**63),
    (COLUMN.increment, "a", -(2**63) - 1),
    (COLUMN.increment, "a", 1.5),
    (COLUMN.scan_page, column.Range(limit=-1)),
    (COLUMN.scan_page, column.Range(limit=1.5)),  # type: ignore[arg-type]
    (COLUMN.scan_page, column.Range(5)),  # type: ignore[arg-type]
    (COLUMN.put, 5, "x"),
    (COLUMN.put, "a", "x", 7),
    (COLUMN.put, "\ud800", "x"),
    (SPV.headers, -1),
    (SPV.headers, 2**32),
    (SPV.headers, 1.5),
    (SPV.headers, 1, 0),
    (SPV.root, 5),
    (SPV.root, "zz"),
    (t.operation_key, uuid.UUID(int=1), -1),
    (t.create, 1, 1, "owner"),
    (t.transfer, 1, 2, 1, "x" * 17),
    (t.issue, 1, 1, 7),
    (hybrid.set_quorum, -1),
    (hybrid.set_quorum, 2**16),
    (hybrid.revoke_member, -1),
    (hybrid.revoke_key, 1, 2**16),
    (hybrid.set_rule, b"p" * 70_000),
    (GENESIS_FREE.range_page, b"", b"", -1),
    (GENESIS_FREE.range_page, b"p" * 70_000),
    (GENESIS_FREE.history_page, b"a", 2**32),
    (GENESIS_FREE.history_page, b"a", 1, hybrid.Version(-1, 0)),
    (GENESIS_FREE.history_page, b"a", 1, (1, 0)),
    (GENESIS_FREE.write, {"a": 5}),
    (GENESIS_FREE.outcome, b"x"),
]


HEX = "hexadecimal digits"
KEY = "the key of a row has 1 to 255 bytes, not "


@pytest.mark.parametrize(
    ("words", "call", "arguments"),
    [
        (HEX, SPV.root, ["zz"]),
        (HEX, SPV.proof, ["0" * 63]),
        (HEX, SPV.proof, ["00"]),
        (HEX, t.create, ["account 1"]),
        (HEX, t.create, ["00"]),
        (HEX, PublicKey.parse, ["p256:zz"]),
        ("CURVE:HEX", PublicKey.parse, ["p256"]),
        (KEY + "0", COLUMN.get, [""]),
        (KEY + "0", COLUMN.put, ["", "x"]),
        (KEY + "0", COLUMN.delete, [b""]),
        (KEY + "0", COLUMN.check_and_put, ["", "x"]),
        (KEY + "256", COLUMN.append, ["k" * 256, "x"]),
    ],
)
def test_an_error_says_which_argument_is_wrong(words: str, call: Any, arguments: list[Any]) -> None:
    with pytest.raises(ValueError, match=words) as raised:
        made = call(*arguments)
        next(made)
    assert "fromhex" not in str(raised.value)


@pytest.mark.parametrize("call", WRONG, ids=[f"{call[0].__name__}-{n}" for n, call in enumerate(WRONG)])
def test_a_wrong_argument_is_a_documented_error_and_no_request(call: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        steps(*call)


@pytest.mark.parametrize("address", ["127.0.0.1:70000", "127.0.0.1:0", ("127.0.0.1", 70000), ("host",), 7702, ":1"])
def test_an_address_has_a_host_and_a_port(address: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        t.Client(address)
    with pytest.raises((ValueError, TypeError)):
        spv.AsyncClient(address)


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), "3", None])
def test_a_deadline_is_a_number_of_seconds(seconds: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="timeout_s"):
        column.Client("127.0.0.1:7703", timeout_s=seconds)


def test_a_window_has_at_least_one_request(server: Server) -> None:
    with column.Client(server.addresses["column"]) as client:
        for window in (0, -1):
            with pytest.raises(ValueError, match="window"):
                list(client.pipeline([client.requests.get("a")], window))
        assert client.get("arguments/none") is None


def test_the_papers_packet_has_numbers_of_32_bits(server: Server) -> None:
    with t.Client(server.addresses["transfer"]) as client:
        for wrong in (2**32, -1, 1.5):
            with pytest.raises((ValueError, TypeError), match="amount"):
                client.paper(3, 1, 2, wrong)  # type: ignore[arg-type]


def test_an_unknown_host_and_a_closed_client_are_errors_of_the_package(server: Server) -> None:
    with pytest.raises(LinesideError, match="cannot open a socket"):
        t.Client("no-such-host.invalid:7702")
    genesis = hybrid.Genesis.from_file(server.folder / "genesis.bin")
    alice = hybrid.SecretKey.from_file(server.folder / "alice.key")
    where = server.addresses["hybrid"]
    clients: list[tuple[Any, Any]] = [
        (spv.Client(server.addresses["spv"]), lambda client: client.headers(1)),
        (t.Client(server.addresses["transfer"]), lambda client: client.open_session()),
        (column.Client(server.addresses["column"]), lambda client: client.put("a", "1")),
        (hybrid.Client(where, genesis, alice), lambda client: client.get("a")),
        (hybrid.Client(where, genesis, alice), lambda client: next(client.watch("a"))),
        (hybrid.Client(server.udp["hybrid"], genesis, alice, udp=True), lambda client: client.set("a", "1")),
    ]
    for client, call in clients:
        client.close()
        client.close()
        with pytest.raises(LinesideError, match="the client is closed"):
            call(client)

    async def run() -> None:
        with pytest.raises(LinesideError, match="cannot open a socket"):
            await t.AsyncClient("no-such-host.invalid:7702").open()
        never_opened = t.AsyncClient(server.addresses["transfer"])
        assert never_opened.resent == 0
        await never_opened.close()
        async with t.AsyncClient(server.addresses["transfer"]) as one:
            pass
        with pytest.raises(LinesideError, match="the client is closed"):
            await one.open_session()
        async with hybrid.AsyncClient(where, genesis, alice) as other:
            pass
        with pytest.raises(LinesideError, match="the client is closed"):
            await other.get("a")

    asyncio.run(run())

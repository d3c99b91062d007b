"""Wrong arguments: each is a `ValueError` or `TypeError` before anything is sent, and none is changed silently."""

from __future__ import annotations

import uuid
from typing import Any, Callable

import pytest
from servers import Server
from test_transfer import accounts, balances

from lineside import transfer as t
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

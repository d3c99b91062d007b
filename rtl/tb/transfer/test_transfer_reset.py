# SPDX-License-Identifier: Apache-2.0
"""Frames, commands and orders during a reset of the NIC of `transfer` and directly after it."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from bench_transfer import REFER, Clients, filled, paper  # noqa: E402
from lineside_rtl import command, register  # noqa: E402
from lineside_transfer import TransferNic  # noqa: E402
from resets import BEFORE, DURING, check_barrier  # noqa: E402

ACCOUNT = (1).to_bytes(16, "big")


@pytest.mark.parametrize("during", DURING)
@pytest.mark.parametrize("before", BEFORE)
def test_a_barrier_waits_for_the_first_frames(before, during):
    nic = TransferNic()
    check_barrier(nic, during, before, register("transfer_paper_format", 0))
    nic.close()


@pytest.mark.parametrize("during", DURING)
def test_no_command_is_lost(during):
    # The first command writes the port, without which the NIC answers nothing.
    nic = TransferNic()
    nic.reset(during)
    left = filled(nic).run([paper(REFER, 1), Clients().transfer(0)])
    assert [one.verdict for one in left] == ["reply", "reply"]
    nic.close()


@pytest.mark.parametrize("during", DURING)
@pytest.mark.parametrize("orders", [1, 2, 5])
@pytest.mark.parametrize("is_later", [False, True], ids=["at once", "later"])
def test_an_order_about_a_session_follows_the_first_orders_of_the_store(is_later, orders, during):
    nic = filled()
    nic.responses()
    nic.reset(during)
    reads = [command("transfer_read", at, account=ACCOUNT) for at in range(orders)]
    session = command("transfer_session", orders)
    # Each call waits for the responses to its orders.
    for commands in [reads, [session]] if is_later else [[*reads, session]]:
        nic.command(*commands)
    assert [one["index"] for one in nic.responses()] == [*range(orders + 1)]
    nic.close()

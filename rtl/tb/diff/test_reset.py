# SPDX-License-Identifier: Apache-2.0
"""Frames and commands during a reset of the NIC of `spv` and directly after it."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from lineside_rtl import Nic, SpvHost, register  # noqa: E402
from resets import BEFORE, DURING, check_barrier  # noqa: E402
from spv_frame import frame  # noqa: E402

TXID, ROOT = bytes(range(1, 33)), bytes(range(100, 132))


@pytest.mark.parametrize("during", DURING)
@pytest.mark.parametrize("before", BEFORE)
def test_a_barrier_waits_for_the_first_frames(before, during):
    nic = Nic()
    check_barrier(nic, during, before, register("spv_paper_format", 0))
    nic.close()


@pytest.mark.parametrize("during", DURING)
def test_no_command_is_lost(during):
    # The first command writes the port, without which the NIC answers nothing.
    nic = Nic()
    nic.set_now(1)
    nic.reset(during)
    host = SpvHost(nic)
    host.endpoint(bytes.fromhex("020000000002"), ["10.0.0.2"], "10.0.0.255")
    host.tip(bytes(range(32)), 7)
    host.block(bytes(range(32)), ROOT, 5, [TXID])
    nic.command(register("spv_lease_until_ns", 1 << 62))
    (left,) = nic.run([frame(TXID)])
    assert left.verdict == "reply" and left.frame.endswith(ROOT)
    nic.close()

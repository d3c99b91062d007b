# SPDX-License-Identifier: Apache-2.0
"""Cycles for each frame and latency of the NIC of `spv`, compared with rtl/tb/cycles.csv."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import cycles  # noqa: E402
from frames import roots_body, roots_header  # noqa: E402
from lineside_rtl import has_external_memory  # noqa: E402
from spv_frame import frame  # noqa: E402
from test_diff import Both, Case  # noqa: E402

pytestmark = pytest.mark.skipif(has_external_memory(), reason="the counts are those without external memory")
ROOT_HEADER = bytes.fromhex("4c530101000000680000000000000001")


def test_cycles_are_those_of_the_table():
    both = Both(Case("all answered", ways=4), seed=5)
    known = next(txid for txid in both.txids if both.holds(txid))
    root = ROOT_HEADER + known + bytes(72)
    roots = roots_header(roots_body([known] * 16)) + roots_body([known] * 16)
    cases = {
        "other frame, 60 bytes": (bytes(60), "forward"),
        "other frame, 1,514 bytes": (bytes(1514), "forward"),
        "paper, IPv4, miss": (frame(bytes(range(1, 33))), "forward"),
    }
    for way, how in (("IPv4", {}), ("IPv6 with a VLAN tag", {"v6": True, "vlan": True})):
        cases |= {
            f"paper, {way}, hit": (frame(known, **how), "reply"),
            f"root, {way}, hit": (frame(root, **how), "reply"),
            f"roots of 16, {way}, hit": (frame(roots, **how), "reply"),
        }
    rows = [cycles.measure(both.nic, "spv", case, [one], {verdict}) for case, (one, verdict) in cases.items()]
    both.nic.close()
    cycles.compare("spv", rows)

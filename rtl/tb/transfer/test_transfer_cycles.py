# SPDX-License-Identifier: Apache-2.0
"""Cycles for each frame and latency of the NIC of `transfer`, compared with rtl/tb/cycles.csv."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import cycles  # noqa: E402
from bench_transfer import ISSUE, REFER, TRANSFER, Clients, filled, paper, refer  # noqa: E402
from lineside_rtl import Left  # noqa: E402


class Numbered:
    """Sends new requests of one session instead of the frames it is given, because requests are not repeated."""

    def __init__(self, nic):
        self.nic, self.clients = nic, Clients()
        self.latency = nic.latency

    def run(self, frames: list[bytes]) -> list[Left]:
        left = self.nic.run([self.clients.transfer(0) for _ in frames])
        self.cycles = self.nic.cycles
        self.nic.records()
        return left


def test_cycles_are_those_of_the_table():
    nic = filled()
    cases = {
        "other frame, 60 bytes": ([bytes(60)], {"forward"}),
        "REFER, paper, IPv4": ([paper(REFER, 1)], {"reply"}),
        "ISSUE, paper, IPv4, one account": ([paper(ISSUE, 3, 0, 1)], {"reply"}),
        "TRANSFER, paper, IPv4, one pair of accounts": ([paper(TRANSFER, 1, 17, 1)], {"reply"}),
        "refer, IPv4": ([refer(2)], {"reply"}),
        "refer, IPv6 with a VLAN tag": ([refer(2, v6=True, vlan=True)], {"reply"}),
    }
    rows = [cycles.measure(nic, "transfer", case, *of) for case, of in cases.items()]
    nic.records()
    rows.append(cycles.measure(Numbered(nic), "transfer", "TRANSFER of one session, IPv4", [b""], {"reply"}))
    clients = Clients()
    executed = clients.transfer(1)
    clients.sequences[1] += 7
    refused = clients.transfer(1)
    assert [one.verdict for one in nic.run([executed])] == ["reply"]
    before = nic.counters()
    for case, frame in (("repetition of a TRANSFER", executed), ("TRANSFER with a wrong number", refused)):
        rows.append(cycles.measure(nic, "transfer", f"{case}, one session, IPv4", [frame], {"reply"}))
    after = nic.counters()
    assert after["repeats"] - before["repeats"] == after["refusals"] - before["refusals"] == 1 + 3 * cycles.COUNT
    assert len(nic.records()) == 1
    nic.close()
    cycles.compare("transfer", rows)

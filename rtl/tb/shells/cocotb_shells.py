# SPDX-License-Identifier: Apache-2.0
"""cocotb tests of the wrappers for OpenNIC and for the ESnet SmartNIC: frames, order, and the fields of the shell.

Every frame has fields of its own, so that a field of another frame is seen. The table is filled by AXI4-Lite alone.
"""

import pathlib
import random
import sys
from dataclasses import dataclass, field

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge, Timer

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "control"))
from spv_frame import frame  # noqa: E402
from cocotb_control import MERKLE_ROOT, TXIDS, Master, counter_at  # noqa: E402
from lineside_rtl import SpvHost, register  # noqa: E402


class OpenNic:
    """Names of the ports of lineside_250mhz; the fields are size and source, and the destination at the outputs."""

    network_in, network_out = "s_axis_adap_rx_250mhz", "m_axis_adap_tx_250mhz"
    host_in, host_out = "s_axis_qdma_h2c", "m_axis_qdma_c2h"
    fields = ["tuser_size", "tuser_src", "tuser_dst"]

    def __init__(self, dut):
        self.clock, self.bus_clock = dut.axis_aclk, dut.axil_aclk
        self.dut = dut
        self.master = Master(dut, dut.axil_aclk, dut.mod_rstn, has_strobes=False)

    async def reset(self):
        self.dut.mod_rstn.value = 0
        await ClockCycles(self.bus_clock, 20)
        assert not self.dut.mod_rst_done.value
        self.dut.mod_rstn.value = 1
        while not self.dut.mod_rst_done.value:
            await RisingEdge(self.bus_clock)

    def sent(self, number, data):
        return [len(data), number & 0xFFFF, 0x3C3]

    def reply(self, fields):
        return [fields[0], 1, 1 << 6]

    def to_host(self, fields):
        return [fields[0], fields[1], 1]

    def to_network(self, fields):
        return [fields[0], fields[1], 1 << 6]


class Esnet:
    """Names of the ports of smartnic_app; the fields are tid and tdest."""

    network_in, network_out = "axis_app_igr", "axis_app_egr"
    host_in, host_out = "axis_h2c", "axis_c2h"
    fields = ["tid", "tdest"]

    def __init__(self, dut):
        self.clock, self.bus_clock = dut.core_clk, dut.axil_aclk
        self.dut = dut
        self.master = Master(dut, dut.axil_aclk, dut.app_axil_aresetn, prefix="app_axil_")
        self.p4 = Master(dut, dut.axil_aclk, dut.axil_aresetn, prefix="axil_")

    async def reset(self):
        self.dut.core_srst.value = 1
        self.dut.axil_aresetn.value = 0
        self.dut.app_axil_aresetn.value = 0
        await ClockCycles(self.bus_clock, 8)
        self.dut.core_srst.value = 0
        self.dut.axil_aresetn.value = 1
        self.dut.app_axil_aresetn.value = 1
        await ClockCycles(self.clock, 32)
        assert await self.p4.read(0) == (2, 0)
        assert await self.p4.write(0, 1) == 2

    def sent(self, number, data):
        return [number % 16, number // 16 % 16]

    def reply(self, fields):
        return [fields[0], fields[0]]

    def to_host(self, fields):
        return [fields[0], 2]

    def to_network(self, fields):
        return fields


@dataclass
class Collected:
    data: bytes = b""
    fields: list = field(default_factory=list)


class Bench:
    def __init__(self, dut):
        self.dut = dut
        is_opennic = hasattr(dut, "axis_aclk")
        self.clock = dut.axis_aclk if is_opennic else dut.core_clk
        cocotb.start_soon(Clock(self.clock, 4000, "ps").start())
        cocotb.start_soon(self._bus_clock())
        self.shell = OpenNic(dut) if is_opennic else Esnet(dut)
        for name in [self.shell.network_in, self.shell.host_in]:
            getattr(dut, f"{name}_tvalid").value = 0
        self.out = {name: [] for name in [self.shell.network_out, self.shell.host_out]}
        self.share = 0.0
        for number, name in enumerate(self.out):
            cocotb.start_soon(self._sink(name, random.Random(number)))

    async def _bus_clock(self):
        self.dut.axil_aclk.value = 0
        await Timer(501, "ps")
        await Clock(self.dut.axil_aclk, 8000, "ps").start()

    def command(self, *commands):
        self.queue.extend(commands)

    async def start(self):
        await self.shell.reset()
        self.queue = []
        host = SpvHost(self)
        host.endpoint(bytes.fromhex("020000000002"), ["10.0.0.2", "fd00::2"], "10.0.0.255")
        host.tip(bytes(range(32)), 7)
        host.block(bytes(range(32)), MERKLE_ROOT, 5, TXIDS[:6])
        self.command(register("spv_lease_until_ns", 1 << 62))
        for one in self.queue:
            await self.shell.master.ring(one)

    async def _sink(self, name, chance):
        ready = getattr(self.dut, f"{name}_tready")
        now, waiting = Collected(), None
        while True:
            ready.value = int(chance.random() >= self.share)
            await ReadOnly()
            valid = str(getattr(self.dut, f"{name}_tvalid").value) == "1"
            beat = None
            if valid:
                signals = ["tdata", "tkeep", "tlast", *self.shell.fields]
                beat = [int(getattr(self.dut, f"{name}_{signal}").value) for signal in signals]
            assert waiting is None or beat == waiting, f"{name} changed before it was taken"
            waiting = beat if valid and not int(ready.value) else None
            # The beat moves at the next edge.
            if valid and int(ready.value):
                data, keep, last, *fields = beat
                used = keep.bit_count()
                assert keep == (1 << used) - 1 and used and (last or used == 64)
                assert not now.data or now.fields == fields, "the fields changed within a frame"
                now.data += data.to_bytes(64, "little")[:used]
                now.fields = fields
                if last:
                    self.out[name].append(now)
                    now = Collected()
            await RisingEdge(self.clock)

    async def send(self, name, frames, chance):
        for data, fields in frames:
            for at in range(0, len(data), 64):
                beat = data[at : at + 64]
                while chance.random() < self.share:
                    await RisingEdge(self.clock)
                values = dict(tdata=int.from_bytes(beat, "little"), tkeep=(1 << len(beat)) - 1)
                values |= dict(zip(self.shell.fields, fields, strict=True))
                values |= dict(tlast=int(at + 64 >= len(data)), tvalid=1)
                for signal, value in values.items():
                    getattr(self.dut, f"{name}_{signal}").value = value
                await RisingEdge(self.clock)
                while not int(getattr(self.dut, f"{name}_tready").value):
                    await RisingEdge(self.clock)
                getattr(self.dut, f"{name}_tvalid").value = 0


@cocotb.test()
async def frames_keep_their_order_and_their_fields(dut):
    bench = Bench(dut)
    await bench.start()
    shell, chance = bench.shell, random.Random(4)
    hits = 0
    for share in [0.0, 0.3, 0.6]:
        bench.share = share
        network, host, replies, forwarded = [], [], [], []
        for number in range(150):
            kind = chance.randrange(4)
            txid = chance.choice(TXIDS[:6]) if kind == 0 else chance.randbytes(32)
            data = frame(txid, v6=chance.random() < 0.3) if kind < 2 else chance.randbytes(chance.randrange(60, 400))
            if kind == 3 and number % 4 == 0:
                # Longer than what the pipeline holds back: the frame begins to leave before its end has come.
                data = chance.randbytes(chance.randrange(1537, 4000))
            fields = shell.sent(number, data)
            if kind == 1 and number % 3 == 0:
                data = frame(bytes(32))  # is dropped
            elif kind == 0:
                replies.append((data, shell.reply(fields)))
            else:
                forwarded.append((data, shell.to_host(fields)))
            network.append((data, fields))
        for number in range(100):
            data = chance.randbytes(chance.randrange(60, 300))
            host.append((data, shell.sent(1000 + number, data)))
        tasks = [
            cocotb.start_soon(bench.send(shell.network_in, network, random.Random(1))),
            cocotb.start_soon(bench.send(shell.host_in, host, random.Random(2))),
        ]
        for task in tasks:
            await task
        to_network, to_host = bench.out[shell.network_out], bench.out[shell.host_out]
        for _ in range(6000):
            if len(to_network) == len(replies) + len(host) and len(to_host) == len(forwarded):
                break
            await RisingEdge(bench.clock)
        await ClockCycles(bench.clock, 100)
        assert [(one.data, one.fields) for one in to_host] == forwarded
        # Frames of the host and replies are each in order; a reply has the MAC address of the client.
        answers = [one for one in to_network if one.data[-32:] == MERKLE_ROOT]
        others = [(one.data, one.fields) for one in to_network if one.data[-32:] != MERKLE_ROOT]
        assert others == [(data, shell.to_network(fields)) for data, fields in host]
        assert len(answers) == len(replies)
        for one, (request, fields) in zip(answers, replies, strict=True):
            assert one.fields == fields and len(one.data) == len(request)
            assert one.data[:6] == request[6:12] and one.data[6:12] == request[:6]
        hits += len(replies)
        to_network.clear()
        to_host.clear()
    assert await shell.master.get_64(counter_at("spv", 0)) == hits

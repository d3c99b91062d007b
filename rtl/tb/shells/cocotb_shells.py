# SPDX-License-Identifier: Apache-2.0
"""cocotb tests of the wrappers for OpenNIC and for the ESnet SmartNIC: frames, order, and the fields of the shell.

Every frame has fields of its own, so that a field of another frame is seen. One test fills the table by AXI4-Lite
alone, the others by the DMA stream of the host, by which records and responses of `transfer` come back as well.
SERVICE names the service of the build.
"""

import os
import pathlib
import random
import struct
import sys
from dataclasses import dataclass, field

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge, Timer

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "control"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "diff"))
from spv_frame import frame  # noqa: E402
from cocotb_control import MERKLE_ROOT, TXIDS, Master, counter_at  # noqa: E402
from frames import FrameMaker  # noqa: E402
from lineside_rtl import SpvHost, command, register  # noqa: E402
from lineside_transfer import COUNTERS, RECORD, RECORD_NAMES, RESPONSE, RESPONSE_NAMES, TransferHost  # noqa: E402

SERVICE = os.environ["SERVICE"]
MAC = bytes.fromhex("020000000002")
ADDRESSES = ["10.0.0.2", "fd00::2"], "10.0.0.255"
# Host streams of the builds: lane 0 is the function of the network port, lane 1 the DMA.
LANES, DMA_LANE = 2, 1
COMMANDS_OF_PACKET = 23  # most beats of a packet of 1,518 bytes


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

    def to_dma(self, data):
        return [len(data), 1 << 6, 1 << DMA_LANE]


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

    def to_dma(self, data):
        return [4, 4]


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
        self.driven = {}
        for name in [self.shell.network_in, self.shell.host_in]:
            getattr(dut, f"{name}_tvalid").value = 0
        self.dma = []
        self.out = {self.shell.network_out: [], self.shell.host_out: []}
        self.share = 0.0
        cocotb.start_soon(self._sink(self.shell.network_out, 0, self.out[self.shell.network_out], random.Random(0)))
        cocotb.start_soon(self._sink(self.shell.host_out, 0, self.out[self.shell.host_out], random.Random(1)))
        cocotb.start_soon(self._sink(self.shell.host_out, DMA_LANE, self.dma, random.Random(2)))

    async def _bus_clock(self):
        self.dut.axil_aclk.value = 0
        await Timer(501, "ps")
        await Clock(self.dut.axil_aclk, 8000, "ps").start()

    def lanes(self, name):
        """Number of streams that share the signals of a name."""
        return LANES if name in (self.shell.host_in, self.shell.host_out) else 1

    def drive(self, name, lane, signal, value):
        """Sets the bits of one lane, and keeps those of the others."""
        handle = getattr(self.dut, f"{name}_{signal}")
        width = len(handle) // self.lanes(name)
        mask = (1 << width) - 1 << lane * width
        driven = self.driven.get((name, signal), 0) & ~mask | value << lane * width & mask
        self.driven[name, signal] = driven
        handle.value = driven

    def value(self, name, lane, signal):
        handle = getattr(self.dut, f"{name}_{signal}")
        width = len(handle) // self.lanes(name)
        return int(handle.value) >> lane * width & (1 << width) - 1

    def command(self, *commands):
        self.queue.extend(commands)

    async def send_commands(self):
        """Sends the queued commands by DMA, some packets with a beat that is not complete and must have no effect."""
        chance = random.Random(9)
        torn = register(f"{SERVICE}_port", 9)
        while self.queue:
            most = chance.randrange(1, COMMANDS_OF_PACKET)
            now, self.queue = self.queue[:most], self.queue[most:]
            packet = b"".join(now) + (torn[:63] if chance.random() < 0.5 else b"")
            await self.send(self.shell.host_in, [(packet, self.shell.sent(0, packet))], chance, DMA_LANE)
        await ClockCycles(self.clock, 100)

    async def start(self, by_dma=False):
        await self.shell.reset()
        self.queue = []
        host = SpvHost(self)
        host.endpoint(MAC, *ADDRESSES)
        host.tip(bytes(range(32)), 7)
        host.block(bytes(range(32)), MERKLE_ROOT, 5, TXIDS[:6])
        self.command(register("spv_lease_until_ns", 1 << 62))
        if by_dma:
            await self.send_commands()
            return
        for one in self.queue:
            await self.shell.master.ring(one)

    async def _sink(self, name, lane, out, chance):
        now, waiting = Collected(), None
        while True:
            ready = int(chance.random() >= self.share)
            self.drive(name, lane, "tready", ready)
            await ReadOnly()
            valid = self.value(name, lane, "tvalid")
            beat = None
            if valid:
                signals = ["tdata", "tkeep", "tlast", *self.shell.fields]
                beat = [self.value(name, lane, signal) for signal in signals]
            assert waiting is None or beat == waiting, f"{name} changed before it was taken"
            waiting = beat if valid and not ready else None
            # The beat moves at the next edge.
            if valid and ready:
                data, keep, last, *fields = beat
                used = keep.bit_count()
                assert keep == (1 << used) - 1 and used and (last or used == 64)
                assert not now.data or now.fields == fields, "the fields changed within a frame"
                now.data += data.to_bytes(64, "little")[:used]
                now.fields = fields
                if last:
                    out.append(now)
                    now = Collected()
            await RisingEdge(self.clock)

    async def send(self, name, frames, chance, lane=0):
        for data, fields in frames:
            for at in range(0, len(data), 64):
                beat = data[at : at + 64]
                while chance.random() < self.share:
                    await RisingEdge(self.clock)
                values = dict(tdata=int.from_bytes(beat, "little"), tkeep=(1 << len(beat)) - 1)
                values |= dict(zip(self.shell.fields, fields, strict=True))
                values |= dict(tlast=int(at + 64 >= len(data)), tvalid=1)
                for signal, value in values.items():
                    self.drive(name, lane, signal, value)
                await RisingEdge(self.clock)
                while not self.value(name, lane, "tready"):
                    await RisingEdge(self.clock)
                self.drive(name, lane, "tvalid", 0)

    async def until(self, condition, what):
        for _ in range(4000):
            if condition():
                return
            await RisingEdge(self.clock)
        raise AssertionError(what)


@cocotb.test(skip=SERVICE != "spv")
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


@cocotb.test(skip=SERVICE != "spv")
async def a_table_that_is_filled_by_dma_answers(dut):
    bench = Bench(dut)
    bench.share = 0.2
    await bench.start(by_dma=True)
    shell, network, host = bench.shell, bench.out[bench.shell.network_out], bench.out[bench.shell.host_out]
    frames = [frame(txid) for txid in TXIDS[:8]]  # of which the table has six
    await bench.send(shell.network_in, [(data, shell.sent(1, data)) for data in frames], random.Random(3))
    await bench.until(lambda: len(network) == 6 and len(host) == 2, "a frame was lost")
    assert all(one.data[-32:] == MERKLE_ROOT for one in network)
    assert [one.data for one in host] == frames[6:]
    assert [await shell.master.get_64(counter_at("spv", number)) for number in range(2)] == [6, 2]
    assert not bench.dma, "the NIC of `spv` has neither records nor responses"


@cocotb.test(skip=SERVICE != "transfer")
async def accounts_records_and_responses_pass_by_dma(dut):
    bench = Bench(dut)
    await bench.shell.reset()
    bench.queue, shell = [], bench.shell
    host = TransferHost(bench)
    host.endpoint(MAC, *ADDRESSES)
    bench.command(register("transfer_lease_until_ns", 1 << 62))
    source, destination = bytes(15) + b"\1", bytes(15) + b"\2"
    for index, (account, balance) in enumerate([(source, 1000), (destination, 5)]):
        bench.command(command("transfer_fill", index, 0, 0, struct.pack("<4Q", balance, 0, 0, 1), account))
    await bench.send_commands()
    # The RAM of the store clears its buckets first, and the commands wait for it.
    await bench.until(lambda: len(bench.dma) == 2, "a command had no response")
    maker = FrameMaker(random.Random(5), MAC, 7702, checks=True)
    bench.share = 0.3
    amounts = [1, 2, 3, 900, 94, 1]  # the last one is more than what is left
    frames = [
        maker.plain(struct.pack(">2I", 3, 0) + source[12:] + destination[12:] + struct.pack(">I", amount))
        for amount in amounts
    ]
    await bench.send(shell.network_in, [(data, shell.sent(1, data)) for data in frames], random.Random(3))
    network = bench.out[shell.network_out]
    await bench.until(lambda: len(network) == 6 and len(bench.dma) == 7, "a reply or a record was lost")
    bench.command(command("transfer_read", 7, account=destination))
    await bench.send_commands()
    await bench.until(lambda: len(bench.dma) == 8, "a command had no response")
    assert all(one.fields == shell.to_dma(one.data) for one in bench.dma)
    packets = [one.data for one in bench.dma]
    assert [len(data) for data in packets] == [64] * 2 + [128] * 5 + [64]
    responses = [dict(zip(RESPONSE_NAMES, struct.unpack(RESPONSE, packets[at]), strict=True)) for at in (0, 1, 7)]
    assert [one["index"] for one in responses] == [0, 1, 7]
    assert [one["balance"] for one in responses] == [1000, 5, 1005]
    assert responses[2]["records"] == 5
    left = 1000
    for data, amount in zip(packets[2:7], amounts, strict=False):
        record = dict(zip(RECORD_NAMES, struct.unpack(RECORD, data), strict=True))
        left -= amount
        assert (record["source"], record["destination"], record["amount"]) == (source, destination, amount)
        assert record["source_balance"] == left
    counters = {name: await shell.master.get_64(counter_at("transfer", at)) for at, name in enumerate(COUNTERS)}
    assert counters == dict.fromkeys(COUNTERS, 0) | {"replies": 6, "refusals": 1}
    assert not bench.out[shell.host_out]

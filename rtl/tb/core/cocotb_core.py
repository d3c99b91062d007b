# SPDX-License-Identifier: Apache-2.0
"""cocotb tests of ls_spv_core: handshakes, back-pressure, reset, and commands of the host during traffic.

The bytes of replies are the matter of rtl/tb/vectors; these tests send frames whose outcome is simple to tell.
"""

import itertools
import pathlib
import random
import sys

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from spv_frame import frame  # noqa: E402
from lineside_rtl import COUNTERS, SpvHost, command, register  # noqa: E402

TXIDS = [bytes([number]) + bytes(range(1, 32)) for number in range(1, 33)]
ROOT = bytes(range(100, 132))


class Bench:
    """The core, with a source, two sinks, and the command port."""

    def __init__(self, dut):
        self.dut = dut
        cocotb.start_soon(Clock(dut.clk_i, 4, "ns").start())
        stream = dict(reset=dut.rst_ni, reset_active_level=False)
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk_i, **stream)
        self.network = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_network"), dut.clk_i, **stream)
        self.host = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_host"), dut.clk_i, **stream)
        self.queue = []

    async def reset(self):
        self.dut.rst_ni.value = 0
        self.dut.s_command_tvalid.value = 0
        self.dut.now_ns_i.value = 1
        await ClockCycles(self.dut.clk_i, 16)
        self.dut.rst_ni.value = 1
        await ClockCycles(self.dut.clk_i, 32)

    def command(self, *commands):
        """Queues commands, so that SpvHost of the vectors fills this table too."""
        self.queue.extend(commands)

    async def flush(self):
        queue, self.queue = self.queue, []
        for one in queue:
            self.dut.s_command_tdata.value = int.from_bytes(one, "little")
            self.dut.s_command_tvalid.value = 1
            await RisingEdge(self.dut.clk_i)
            while not self.dut.s_command_tready.value:
                await RisingEdge(self.dut.clk_i)
        self.dut.s_command_tvalid.value = 0
        await ClockCycles(self.dut.clk_i, 3)

    async def fill(self):
        host = SpvHost(self)
        host.endpoint(bytes.fromhex("020000000002"), ["10.0.0.2", "fd00::2"], "10.0.0.255")
        host.tip(bytes(range(32)), 7)
        host.block(bytes(range(32)), ROOT, 5, TXIDS)
        self.command(register("spv_lease_until_ns", 1 << 62))
        await self.flush()
        return host

    def counters(self):
        value = int(self.dut.counters_o.value)
        return {name: value >> 64 * at & (1 << 64) - 1 for at, name in enumerate(COUNTERS)}


def traffic(count, seed):
    """Frames of hits, misses and other traffic; the answer is whether the network gets a reply."""
    chance = random.Random(seed)
    for _ in range(count):
        kind = chance.randrange(3)
        if kind == 0:
            yield True, frame(chance.choice(TXIDS), v6=chance.random() < 0.3, vlan=chance.random() < 0.3)
        elif kind == 1:
            yield False, frame(chance.randbytes(32))
        else:
            yield False, bytes(12) + b"\x08\x06" + chance.randbytes(chance.randrange(1, 400))


def pauses(share, seed):
    chance = random.Random(seed)
    return (chance.random() < share for _ in itertools.repeat(None))


async def check(bench, sent):
    """Compares what left with what was sent: hits as replies, everything else unchanged and in order."""
    for is_hit, request in sent:
        if is_hit:
            reply = bytes((await bench.network.recv()).tdata)
            assert len(reply) == len(request) and reply[:6] == request[6:12] and reply[6:12] == request[:6]
            assert reply[-32:] == ROOT
        else:
            assert bytes((await bench.host.recv()).tdata) == request
    assert bench.network.empty() and bench.host.empty()


@cocotb.test()
async def pauses_of_source_and_sinks(dut):
    bench = Bench(dut)
    await bench.reset()
    await bench.fill()
    for number, shares in enumerate([(0, 0, 0), (0.5, 0, 0), (0, 0.5, 0.1), (0, 0.1, 0.7), (0.3, 0.4, 0.4)]):
        for stream, share in zip([bench.source, bench.network, bench.host], shares, strict=True):
            stream.set_pause_generator(pauses(share, number))
        sent = list(traffic(300, number))
        for _, request in sent:
            bench.source.send_nowait(AxiStreamFrame(request))
        await check(bench, sent)
    assert bench.counters()["hits"] > 300


@cocotb.test()
async def a_stopped_sink_stops_the_source_and_loses_nothing(dut):
    bench = Bench(dut)
    await bench.reset()
    await bench.fill()
    bench.network.pause = True
    sent = [(True, frame(txid)) for txid in TXIDS] * 8
    for _, request in sent:
        bench.source.send_nowait(AxiStreamFrame(request))
    await ClockCycles(dut.clk_i, 1500)
    assert not dut.s_axis_tready.value, "the core takes in frames without end"
    assert dut.m_axis_network_tvalid.value
    bench.network.pause = False
    await check(bench, sent)
    assert bench.counters()["hits"] == len(sent)


@cocotb.test()
async def commands_take_effect_during_traffic(dut):
    bench = Bench(dut)
    await bench.reset()
    host = await bench.fill()
    for number in range(20):
        txid = TXIDS[number]
        sent = [bench.source.send_nowait(AxiStreamFrame(frame(txid))) for _ in range(30)]
        line = host.first_line(txid) + host.sets[host.first_line(txid)].index(txid)
        # The line is cleared in the middle of the requests; a barrier tells when no reply can leave any more.
        bench.command(command("line", line), command("barrier", number + 1))
        await bench.flush()
        while int(dut.barrier_o.value) != number + 1:
            await RisingEdge(dut.clk_i)
        replies = bench.network.count()
        while bench.network.count() + bench.host.count() < len(sent):
            await RisingEdge(dut.clk_i)
        assert bench.network.count() <= replies + 1, "a reply left after the barrier"
        assert bench.host.count() > 0
        bench.network.clear()
        bench.host.clear()
        # A request after the barrier is forwarded.
        bench.source.send_nowait(AxiStreamFrame(frame(txid)))
        assert bytes((await bench.host.recv()).tdata) == frame(txid)


@cocotb.test()
async def an_epoch_or_a_lease_that_ends_stops_the_answers(dut):
    bench = Bench(dut)
    await bench.reset()
    await bench.fill()
    for name, stop, go in [("spv_epoch", 3, 4), ("spv_lease_until_ns", 1, 1 << 62)]:
        before = bench.counters()
        bench.command(register(name, stop))
        await bench.flush()
        await bench.source.send(AxiStreamFrame(frame(TXIDS[0])))
        assert bytes((await bench.host.recv()).tdata) == frame(TXIDS[0])
        bench.command(register(name, go))
        await bench.flush()
        await bench.source.send(AxiStreamFrame(frame(TXIDS[0])))
        await bench.network.recv()
        after = bench.counters()
        assert (after["not_leased"], after["hits"]) == (before["not_leased"] + 1, before["hits"] + 1)


@cocotb.test()
async def a_reset_during_traffic_leaves_nothing_behind(dut):
    bench = Bench(dut)
    await bench.reset()
    await bench.fill()
    for _, request in traffic(40, 5):
        bench.source.send_nowait(AxiStreamFrame(request))
    await ClockCycles(dut.clk_i, 40)
    bench.source.clear()
    await bench.reset()
    bench.source.clear()
    await ClockCycles(dut.clk_i, 200)
    bench.network.clear()
    bench.host.clear()
    assert sum(bench.counters().values()) == 0
    # Without registers, everything is forwarded and nothing is counted.
    request = frame(TXIDS[0])
    await bench.source.send(AxiStreamFrame(request))
    assert bytes((await bench.host.recv()).tdata) == request
    assert sum(bench.counters().values()) == 0
    await bench.fill()
    sent = list(traffic(50, 6))
    for _, one in sent:
        bench.source.send_nowait(AxiStreamFrame(one))
    await check(bench, sent)

# SPDX-License-Identifier: Apache-2.0
"""cocotb tests of the AXI4-Lite window of ls_nic: handshakes in every order, pauses, errors, commands and counters.

The addresses come from spec/rtl.toml, and the expected values from the traffic that a test sends and from the
counters inside of the core. A master of this file drives the channels one by one, so that each order can be forced.
"""

import itertools
import os
import pathlib
import random
import sys

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge, Timer
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from spv_frame import frame  # noqa: E402
from lineside_rtl import COUNTERS, DROPS, REGISTERS, SPEC, SpvHost, command, register  # noqa: E402

AXIL = SPEC["axil"]
WORDS = {word["name"]: word for word in AXIL["word"]}
GROUPS = {group["group"]: group["at"] for group in AXIL["counters"]}
OKAY, SLVERR = 0, 2
TXIDS = [bytes([number]) + bytes(range(1, 32)) for number in range(1, 17)]
MERKLE_ROOT = bytes(range(100, 132))
MASK_32 = (1 << 32) - 1


def at(name, word=0):
    return WORDS[name]["at"] + 4 * word


def register_at(name, word=0, number=0):
    return AXIL["registers_at"] + AXIL["register_stride"] * (REGISTERS[name]["index"] + number) + 4 * word


def counter_at(group, number):
    return GROUPS[group] + 8 * number


class Master:
    """AXI4-Lite master that drives each channel by itself, and checks that what the slave offers does not change."""

    def __init__(self, dut, clock, reset, prefix="s_axil_", has_strobes=True):
        self.dut, self.clock, self.reset, self.prefix, self.has_strobes = dut, clock, reset, prefix, has_strobes
        self.chance = random.Random(1)
        self.pause = 0.0
        for name in ["awvalid", "wvalid", "bready", "arvalid", "rready"]:
            self._signal(name).value = 0
        cocotb.start_soon(self._watch("b", ["bresp"]))
        cocotb.start_soon(self._watch("r", ["rdata", "rresp"]))

    def _signal(self, name):
        return getattr(self.dut, self.prefix + name)

    async def _watch(self, channel, names):
        waiting = None
        while True:
            await RisingEdge(self.clock)
            await ReadOnly()
            if not self.reset.value:
                waiting = None
                continue
            valid = int(self._signal(f"{channel}valid").value)
            now = [int(self._signal(name).value) for name in names] if valid else None
            assert waiting is None or now == waiting, f"channel {channel} changed before it was taken"
            waiting = now if valid and not int(self._signal(f"{channel}ready").value) else None

    async def wait(self, share=None):
        while self.chance.random() < (self.pause if share is None else share):
            await RisingEdge(self.clock)

    async def send(self, channel, delay=0, **values):
        """Offers one transfer on a channel after a delay, until the slave takes it."""
        await ClockCycles(self.clock, delay) if delay else None
        await self.wait()
        for name, value in values.items():
            self._signal(channel + name).value = value
        self._signal(f"{channel}valid").value = 1
        await RisingEdge(self.clock)
        while not int(self._signal(f"{channel}ready").value):
            await RisingEdge(self.clock)
        self._signal(f"{channel}valid").value = 0

    async def take(self, channel, names, delay=0):
        """Takes one response from a channel."""
        await ClockCycles(self.clock, delay) if delay else None
        await self.wait()
        self._signal(f"{channel}ready").value = 1
        await RisingEdge(self.clock)
        for _ in range(400):
            if int(self._signal(f"{channel}valid").value):
                break
            await RisingEdge(self.clock)
        else:
            raise AssertionError(f"no response on channel {channel}")
        values = [int(self._signal(channel + name).value) for name in names]
        self._signal(f"{channel}ready").value = 0
        return values

    async def write(self, address, data, strobes=15, aw=0, w=0, b=0):
        """Writes a word; returns the response."""
        values = dict(data=data) | (dict(strb=strobes) if self.has_strobes else {})
        sent = [
            cocotb.start_soon(self.send("aw", aw, addr=address)),
            cocotb.start_soon(self.send("w", w, **values)),
        ]
        (resp,) = await self.take("b", ["resp"], b)
        assert all(task.done() for task in sent), "a response came before its request"
        return resp

    async def read(self, address, r=0):
        """Reads a word; returns response and data."""
        sent = cocotb.start_soon(self.send("ar", addr=address))
        resp, data = await self.take("r", ["resp", "data"], r)
        assert sent.done()
        return resp, data

    async def get(self, address):
        resp, data = await self.read(address)
        assert resp == OKAY, f"read of {address:#x}"
        return data

    async def put(self, address, data):
        assert await self.write(address, data) == OKAY, f"write of {address:#x}"

    async def get_64(self, address):
        low = await self.get(address)
        return low | await self.get(address + 4) << 32

    async def idle(self):
        """Waits until the pipeline has taken the last command."""
        while await self.get(at("status")) & 1:
            pass

    async def ring(self, one: bytes):
        """Sends one command by the window."""
        for word in range(16):
            await self.put(at("command", word), int.from_bytes(one[4 * word : 4 * word + 4], "little"))
        await self.put(at("doorbell"), 1)
        await self.idle()


class Bench:
    """The NIC, with a master, a source and two sinks."""

    def __init__(self, dut):
        self.dut = dut
        cocotb.start_soon(Clock(dut.clk_i, 4000, "ps").start())
        cocotb.start_soon(self._bus_clock(int(os.environ["AXIL_PS"])))
        stream = dict(reset=dut.rst_ni, reset_active_level=False)
        self.source = AxiStreamSource(AxiStreamBus.from_prefix(dut, "s_axis"), dut.clk_i, **stream)
        self.network = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_network"), dut.clk_i, **stream)
        self.host = AxiStreamSink(AxiStreamBus.from_prefix(dut, "m_axis_host"), dut.clk_i, **stream)
        self.master = Master(dut, dut.axil_clk_i, dut.axil_rst_ni)
        self.queue = []

    async def _bus_clock(self, period_ps):
        # The edges of both clocks are not at the same time: the tests would then sample signals after the edge.
        self.dut.axil_clk_i.value = 0
        await Timer(501, "ps")
        await Clock(self.dut.axil_clk_i, period_ps, "ps").start()

    async def reset(self):
        self.dut.rst_ni.value = 0
        self.dut.axil_rst_ni.value = 0
        self.dut.s_command_tvalid.value = 0
        await ClockCycles(self.dut.axil_clk_i, 8)
        await ClockCycles(self.dut.clk_i, 16)
        self.dut.rst_ni.value = 1
        await RisingEdge(self.dut.axil_clk_i)
        self.dut.axil_rst_ni.value = 1
        await ClockCycles(self.dut.clk_i, 32)

    def command(self, *commands):
        """Queues commands, so that SpvHost of the vectors fills this table too."""
        self.queue.extend(commands)

    async def stream(self, *commands: bytes):
        """Sends commands by the stream of the host."""
        for one in commands:
            self.dut.s_command_tdata.value = int.from_bytes(one, "little")
            self.dut.s_command_tvalid.value = 1
            await RisingEdge(self.dut.clk_i)
            while not self.dut.s_command_tready.value:
                await RisingEdge(self.dut.clk_i)
        self.dut.s_command_tvalid.value = 0

    async def set_register(self, name, value, number=0):
        """Writes a register by its own words, the last one at last."""
        words = (REGISTERS[name]["bits"] + 31) // 32
        for word in range(words):
            await self.master.put(register_at(name, word, number), value >> 32 * word & MASK_32)
        await self.master.idle()

    async def fill(self):
        host = SpvHost(self)
        host.endpoint(bytes.fromhex("020000000002"), ["10.0.0.2", "fd00::2"], "10.0.0.255")
        host.tip(bytes(range(32)), 7)
        host.block(bytes(range(32)), MERKLE_ROOT, 5, TXIDS)
        queue, self.queue = self.queue, []
        await self.stream(*queue)
        return host

    def inside(self):
        """The counters of the core."""
        core = self.dut.gen_spv.u_core
        values = {}
        for group, names, signal in [("spv", COUNTERS, core.counters_o), ("drops", DROPS, core.drops_o)]:
            value = int(signal.value)
            values |= {(group, number): value >> 64 * number & (1 << 64) - 1 for number in range(len(names))}
        return values


async def ready(dut):
    bench = Bench(dut)
    await bench.reset()
    return bench


@cocotb.test()
async def identity_and_size(dut):
    master = (await ready(dut)).master
    assert await master.get(at("identity")) == AXIL["identity"]
    assert await master.get(at("version")) == AXIL["version"]
    assert await master.get(at("table")) == 4 << 8 | 10
    assert await master.get(at("status")) == 0
    assert await master.get(at("commands_done")) == 0


@cocotb.test()
async def handshakes_in_every_order(dut):
    master = (await ready(dut)).master
    chance = random.Random(3)
    # Address before data and data before address, a response that waits and one that is awaited.
    for number, (aw, w, b) in enumerate(itertools.product([0, 1, 2, 5], [0, 1, 2, 5], [0, 1, 9])):
        value = chance.getrandbits(32)
        assert await master.write(at("scratch"), value, aw=aw, w=w, b=b) == OKAY
        assert await master.read(at("scratch"), r=number % 4) == (OKAY, value)


@cocotb.test()
async def random_pauses_and_reads_beside_writes(dut):
    """A writer and a reader at the same time, each back to back or with pauses, in different words."""
    bench = await ready(dut)
    master = bench.master
    for share in [0.0, 0.3, 0.7]:
        master.pause = share
        words = {}
        read = []

        async def writer(words=words):
            for _ in range(60):
                word = master.chance.randrange(16)
                value = master.chance.getrandbits(32)
                # While the write is under way, the reader may see the old value or the new one.
                words.setdefault(word, []).append(value)
                assert await master.write(at("command", word), value) == OKAY
                words[word] = words[word][-1:]

        async def reader(words=words, read=read):
            for _ in range(60):
                word = master.chance.randrange(16)
                before = list(words.get(word, []))
                resp, data = await master.read(at("command", word))
                assert resp == OKAY
                allowed = before + list(words.get(word, []))
                assert not allowed or data in allowed or len(before) != 1
                read.append(data)

        tasks = [cocotb.start_soon(writer()), cocotb.start_soon(reader())]
        for task in tasks:
            await task
        assert len(read) == 60
        for word, values in words.items():
            assert await master.get(at("command", word)) == values[-1]


@cocotb.test()
async def transfers_back_to_back(dut):
    """Address and data channels offer the next write in the next cycle; the responses are counted and in order."""
    master = (await ready(dut)).master
    unknown = at("command") + 0x80
    plan = [at("scratch") if number % 3 else unknown for number in range(60)]

    async def channel(name, values):
        for value in values:
            await master.send(name, **value)

    sent = [
        cocotb.start_soon(channel("aw", [dict(addr=address) for address in plan])),
        cocotb.start_soon(channel("w", [dict(data=number, strb=15) for number in range(len(plan))])),
    ]
    for address in plan:
        (resp,) = await master.take("b", ["resp"])
        assert resp == (OKAY if address == at("scratch") else SLVERR)
    assert all(task.done() for task in sent)
    dut.s_axil_bready.value = 1
    for _ in range(40):
        await RisingEdge(dut.axil_clk_i)
        assert not dut.s_axil_bvalid.value, "more responses than writes"
    dut.s_axil_bready.value = 0
    assert await master.get(at("scratch")) == len(plan) - 1


def known_addresses():
    """Addresses with their access, from spec/rtl.toml."""
    known = {}
    for word in AXIL["word"]:
        for number in range(word.get("words", 1)):
            known[word["at"] + 4 * number] = word["access"]
    for group, names in [("drops", DROPS), ("spv", COUNTERS)]:
        for number in range(2 * len(names)):
            known[GROUPS[group] + 4 * number] = "read"
    for name, entry in REGISTERS.items():
        for number in range(entry.get("count", 1)):
            for word in range((entry["bits"] + 31) // 32):
                known[register_at(name, word, number)] = "read, write"
    return known


@cocotb.test()
async def unknown_addresses_get_an_error_and_have_no_effect(dut):
    master = (await ready(dut)).master
    known = known_addresses()
    for address in range(0, 1 << AXIL["address_bits"], 4):
        resp, data = await master.read(address)
        expected = OKAY if "read" in known.get(address, "") else SLVERR
        is_high = address % 8 and (GROUPS["drops"] <= address < AXIL["registers_at"] or address == at("clock", 1))
        if is_high and expected == OKAY:
            # The low word was read just before.
            assert resp == OKAY, hex(address)
        else:
            assert resp == expected, hex(address)
        assert resp == OKAY or data == 0
    for address in [0x44 << 2, 0x2000 - 4, at("identity"), at("status"), counter_at("spv", 0), register_at("mac", 2)]:
        assert await master.write(address, MASK_32) == SLVERR, hex(address)
    for strobes in range(15):
        assert await master.write(at("scratch"), MASK_32, strobes) == SLVERR
    assert await master.get(at("scratch")) == 0
    assert await master.read(at("doorbell")) == (SLVERR, 0)
    assert await master.get(at("commands_done")) == 0


@cocotb.test()
async def high_words_belong_to_the_low_word_before_them(dut):
    bench = await ready(dut)
    master = bench.master
    assert (await master.read(counter_at("spv", 0) + 4))[0] == SLVERR
    await master.get(counter_at("spv", 0))
    assert (await master.read(counter_at("spv", 1) + 4))[0] == SLVERR
    assert (await master.read(counter_at("spv", 0) + 4))[0] == OKAY
    assert (await master.read(counter_at("spv", 0) + 4))[0] == OKAY
    # The clock passes the end of its low word in each reading: the sum of both words never goes back.
    await master.put(at("clock_step"), MASK_32)
    last = 0
    for number in range(12):
        await master.put(at("clock"), MASK_32 - 3000)
        await master.put(at("clock", 1), number)
        for _ in range(6):
            now = await master.get_64(at("clock"))
            assert last <= now < (number + 1 << 32) + (1 << 20) and now >= (number << 32) + MASK_32 - 3000
            last = now


@cocotb.test()
async def the_clock_runs_and_can_be_set(dut):
    bench = await ready(dut)
    master = bench.master
    start = await master.get_64(at("clock"))
    await ClockCycles(dut.clk_i, 1000)
    assert 4000 <= await master.get_64(at("clock")) - start < 5000
    await master.put(at("clock"), 5)
    assert await master.get_64(at("clock")) < 1 << 32
    await master.put(at("clock", 1), 9)
    assert (9 << 32) + 5 <= await master.get_64(at("clock")) < (9 << 32) + 5000
    # 3.103 ns, the cycle of 322.265625 MHz.
    await master.put(at("clock_step"), round(3.103030303 * (1 << 24)))
    values = []
    for _ in range(2):
        values.append(int(dut.now_ns.value))
        await ClockCycles(dut.clk_i, 10000)
    assert abs(values[1] - values[0] - 31030) <= 4


@cocotb.test()
async def registers_hold_what_either_source_wrote(dut):
    bench = await ready(dut)
    master, chance = bench.master, random.Random(5)
    assert await master.get(register_at("spv_epoch")) == 1
    values = {}
    for round_number in range(2):
        for name, entry in REGISTERS.items():
            number = chance.randrange(entry.get("count", 1))
            value = chance.getrandbits(entry["bits"])
            if (len(name) + round_number) % 2:
                await bench.set_register(name, value, number)
            else:
                await bench.stream(register(name, value, number))
                await ClockCycles(dut.clk_i, 8)
            values[name, number] = value
    for (name, number), value in values.items():
        for word in range((REGISTERS[name]["bits"] + 31) // 32):
            assert await master.get(register_at(name, word, number)) == value >> 32 * word & MASK_32, name
    # The last word alone keeps the other words of the present value; words of another register do not mix in.
    await bench.set_register("v6", 0x1111222233334444_5555666677778888, 3)
    await master.put(register_at("v6", 0, 2), 0xDEAD)
    await master.put(register_at("v6", 3, 3), 0x99999999)
    await master.idle()
    assert [await master.get(register_at("v6", word, 3)) for word in range(4)] == [
        0x77778888,
        0x55556666,
        0x33334444,
        0x99999999,
    ]


@cocotb.test()
async def a_table_that_is_filled_by_the_window_alone_answers(dut):
    """Everything by AXI4-Lite: registers by their words, lines and blocks by the doorbell; then counters."""
    bench = await ready(dut)
    master = bench.master
    host = SpvHost(bench)
    host.endpoint(bytes.fromhex("020000000002"), ["10.0.0.2", "fd00::2"], "10.0.0.255")
    host.tip(bytes(range(32)), 7)
    host.block(bytes(range(32)), MERKLE_ROOT, 5, TXIDS[:4])
    count = 0
    for one in bench.queue:
        await master.ring(one)
        count += 1
        assert await master.get(at("commands_done")) == count
    now = await master.get_64(at("clock"))
    # The lease holds by the clock of the window, and ends by it.
    await bench.set_register("spv_lease_until_ns", now + 60_000)
    for txid in TXIDS[:4]:
        await bench.source.send(AxiStreamFrame(frame(txid)))
        reply = bytes((await bench.network.recv()).tdata)
        assert reply[-32:] == MERKLE_ROOT
    await bench.source.send(AxiStreamFrame(frame(bytes(31) + b"\1")))
    await bench.host.recv()
    while await master.get_64(at("clock")) < now + 60_000:
        pass
    await bench.source.send(AxiStreamFrame(frame(TXIDS[0])))
    await bench.host.recv()
    names = {name: counter_at("spv", number) for number, name in enumerate(COUNTERS)}
    assert await master.get_64(names["hits"]) == 4
    assert await master.get_64(names["misses"]) == 1
    assert await master.get_64(names["not_leased"]) == 1


@cocotb.test()
async def counters_equal_those_of_the_core(dut):
    bench = await ready(dut)
    master = bench.master
    await bench.fill()
    await bench.set_register("spv_lease_until_ns", 1 << 62)
    chance = random.Random(8)
    expected = {}
    for _ in range(200):
        kind = chance.randrange(4)
        payload = chance.choice(TXIDS) if kind else chance.randbytes(32)
        request = bytearray(frame(payload))
        group = ("spv", 0 if kind else 1)
        if kind == 2:
            request[34:36] = b"\0\0"  # source port 0
            group = ("drops", 0)
        if kind == 3:
            request = bytearray(frame(bytes(32)))
            group = ("drops", DROPS.index("not_a_request"))
        expected[group] = expected.get(group, 0) + 1
        bench.source.send_nowait(AxiStreamFrame(bytes(request)))
    await bench.source.wait()
    await ClockCycles(dut.clk_i, 200)
    for (group, number), value in bench.inside().items():
        assert await master.get_64(counter_at(group, number)) == value == expected.get((group, number), 0)
    # A value above 32 bits: both words are of one moment though the counter rises between the two reads.
    bench.network.clear()
    core = dut.gen_spv.u_core
    core.counters_o.value = (1 << 32) - 3 | int(core.counters_o.value) >> 64 << 64
    await RisingEdge(dut.clk_i)
    last = 0
    for number in range(12):
        low = await master.get(counter_at("spv", 0))
        await bench.source.send(AxiStreamFrame(frame(TXIDS[0])))
        await bench.network.recv()
        value = low | await master.get(counter_at("spv", 0) + 4) << 32
        assert value == (1 << 32) - 3 + number and value >= last
        last = value


@cocotb.test()
async def a_busy_window_refuses_and_never_blocks_the_bus(dut):
    """A barrier waits for a frame whose sink is stopped: the bus still answers, and the command is not lost."""
    bench = await ready(dut)
    master = bench.master
    await bench.fill()
    bench.host.pause = True
    bench.source.send_nowait(AxiStreamFrame(bytes(60)))
    await bench.source.wait()
    await ClockCycles(dut.clk_i, 60)
    await bench.stream(command("barrier", 77))
    await ClockCycles(dut.clk_i, 4)
    await master.put(register_at("spv_port"), 1234)
    assert await master.get(at("status")) == 1
    for address in [at("doorbell"), at("command", 3), register_at("mac", 1), register_at("spv_ways")]:
        assert await master.write(address, 5) == SLVERR
    await master.put(at("scratch"), 6)
    await master.put(at("clock"), 0)
    assert await master.get(register_at("spv_port")) == 7701
    assert await master.get(at("barrier")) == 0
    bench.host.pause = False
    await master.idle()
    assert await master.get(at("barrier")) == 77
    assert await master.get(at("commands_done")) == 1
    assert await master.get(register_at("spv_port")) == 1234
    assert await master.get(register_at("spv_ways")) == 4


@cocotb.test()
async def commands_of_window_and_stream_do_not_disturb_each_other(dut):
    bench = await ready(dut)
    master, chance = bench.master, random.Random(13)
    taken = []

    async def watch():
        while True:
            await RisingEdge(dut.clk_i)
            if int(dut.command_valid.value) and int(dut.command_ready.value):
                taken.append(int(dut.command.value))

    watcher = cocotb.start_soon(watch())
    streamed = [command("line", number, 2, 0, chance.randbytes(32)) for number in range(400)]
    sender = cocotb.start_soon(bench.stream(*streamed))
    rung = [command("line", 1000 + number, 2, 0, chance.randbytes(32)) for number in range(3)]
    for one in rung:
        await master.ring(one)
    await sender
    await ClockCycles(dut.clk_i, 10)
    watcher.cancel()
    taken = [value.to_bytes(64, "little") for value in taken]
    assert [one for one in taken if one in set(streamed)] == streamed
    assert [one for one in taken if one in set(rung)] == rung
    assert len(taken) == len(streamed) + len(rung)


@cocotb.test()
async def a_reset_of_one_side_leaves_no_side_waiting(dut):
    bench = await ready(dut)
    master = bench.master
    for cycles in range(1, 16):
        # The pipeline is reset while a read is on its way.
        reading = cocotb.start_soon(master.read(at("identity")))
        await ClockCycles(dut.axil_clk_i, cycles % 8 + 1)
        dut.rst_ni.value = 0
        await ClockCycles(dut.clk_i, cycles)
        dut.rst_ni.value = 1
        assert await reading == (OKAY, AXIL["identity"])
        # The bus is reset in the middle of a read; the next one gets its own answer.
        dut.s_axil_araddr.value = at("version")
        dut.s_axil_arvalid.value = 1
        await RisingEdge(dut.axil_clk_i)
        dut.s_axil_arvalid.value = 0
        await ClockCycles(dut.axil_clk_i, cycles % 5 + 1)
        dut.axil_rst_ni.value = 0
        await ClockCycles(dut.axil_clk_i, cycles % 4 + 1)
        dut.axil_rst_ni.value = 1
        await RisingEdge(dut.axil_clk_i)
        assert await master.read(at("identity")) == (OKAY, AXIL["identity"])

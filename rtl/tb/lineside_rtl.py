# SPDX-License-Identifier: Apache-2.0
"""The simulated NIC in target/rtl-sim/libls_sim.so, the commands of spec/rtl.toml, and a host that fills its table.

This module shares no code with Lineside: it computes the place of a TXID, the sums and the commands itself.
"""

import ctypes
import ipaddress
import os
import pathlib
import tomllib
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARY = pathlib.Path(os.environ.get("RTL_SIM_DIR", ROOT / "target/rtl-sim")) / "libls_sim.so"
FRAME_BYTES_MAX = 16384
VERDICTS = ["forward", "reply", "drop"]
COUNTERS = ["hits", "misses", "not_leased", "forwarded_native"]
DROPS = ["source_port", "source_address", "reply_bit", "not_a_request", "paper_refused", "hop_limit"]
MASK_64 = (1 << 64) - 1

SPEC = tomllib.loads((ROOT / "spec/rtl.toml").read_text())
COMMANDS = {command["name"]: command["code"] for command in SPEC["command"]}
REGISTERS = {register["name"]: register for register in SPEC["register"]}


class Pauses(ctypes.Structure):
    """struct ls_sim_pauses"""

    _fields_ = [
        ("seed", ctypes.c_uint64),
        ("source", ctypes.c_uint8),
        ("network", ctypes.c_uint8),
        ("host", ctypes.c_uint8),
    ]


def _library(path):
    library = ctypes.CDLL(str(path))
    library.ls_sim_new.restype = ctypes.c_void_p
    for name in ["ls_sim_command", "ls_sim_run", "ls_sim_latency", "ls_sim_cycles"]:
        getattr(library, name).restype = ctypes.c_uint64
    library.ls_sim_fault.restype = ctypes.c_char_p
    return library


def has_external_memory() -> bool:
    """True if the simulated NIC was built with external memory; it then forwards `roots`."""
    return hasattr(ctypes.CDLL(str(LIBRARY)), "ls_sim_memory_set")


@dataclass
class Left:
    """A frame after the NIC, with the verdict on it."""

    verdict: str
    frame: bytes


class Mixed(ctypes.Structure):
    """struct ls_sim_mixed"""

    _fields_ = [
        ("commands", ctypes.c_char_p),
        ("commands_count", ctypes.c_size_t),
        ("commands_pause", ctypes.c_uint8),
        ("frame_in", ctypes.POINTER(ctypes.c_uint64)),
        ("frame_out", ctypes.POINTER(ctypes.c_uint64)),
        ("command_done", ctypes.POINTER(ctypes.c_uint64)),
    ]


@dataclass
class Times:
    """Cycles since the reset: of each frame's last beat in and out, and of each command."""

    frame_in: list[int]
    frame_out: list[int]
    command_done: list[int]


class Nic:
    """The simulated NIC."""

    model_file = LIBRARY
    counter_names = COUNTERS

    def __init__(self):
        self._library = _library(self.model_file)
        self._sim = ctypes.c_void_p(self._library.ls_sim_new())
        assert self._sim, "no memory for a simulation"

    def close(self):
        self._library.ls_sim_free(self._sim)
        self._sim = None

    def reset(self, more: int):
        """Resets the NIC, with nothing under way. The reset lasts for `more` cycles of the next call."""
        self._library.ls_sim_reset(self._sim, ctypes.c_uint32(more))

    def set_now(self, now_ns: int):
        self._library.ls_sim_set_now(self._sim, ctypes.c_uint64(now_ns))

    def command(self, *commands: bytes) -> int:
        """Executes commands; returns the number of cycles."""
        cycles = self._library.ls_sim_command(self._sim, b"".join(commands), ctypes.c_size_t(len(commands)))
        assert cycles, self.fault()
        return cycles

    def fault(self) -> str:
        return (self._library.ls_sim_fault(self._sim) or b"").decode()

    def run(self, frames, pauses: Pauses | None = None) -> list[Left]:
        """Sends frames back to back; returns what left. The number of cycles is in `cycles` afterwards."""
        return self._run(self._library.ls_sim_run, frames, pauses)

    def _run(self, function, frames, pauses: Pauses | None, *more) -> list[Left]:
        """Calls a function with the arguments of ls_sim_run and `more`; returns what left."""
        joined = b"".join(frames)
        lengths = (ctypes.c_uint32 * len(frames))(*map(len, frames))
        out = ctypes.create_string_buffer(len(joined))
        out_lengths = (ctypes.c_uint32 * len(frames))()
        verdicts = (ctypes.c_uint8 * len(frames))()
        self.cycles = function(
            self._sim,
            joined,
            lengths,
            ctypes.c_size_t(len(frames)),
            ctypes.byref(pauses) if pauses else None,
            out,
            out_lengths,
            verdicts,
            *more,
        )
        assert self.cycles, self.fault()
        raw, at, left = out.raw, 0, []
        for length, out_length, verdict in zip(lengths, out_lengths, verdicts, strict=True):
            left.append(Left(VERDICTS[verdict], raw[at : at + out_length]))
            at += length
        return left

    def run_mixed(
        self, frames, commands=(), pauses: Pauses | None = None, commands_pause=0
    ) -> tuple[list[Left], Times]:
        """Sends frames and commands at the same time; returns what left, and when."""
        times = [(ctypes.c_uint64 * max(size, 1))() for size in (len(frames), len(frames), len(commands))]
        mixed = Mixed(b"".join(commands), len(commands), commands_pause, *times)
        self._library.ls_sim_run_mixed.restype = ctypes.c_uint64
        left = self._run(self._library.ls_sim_run_mixed, frames, pauses, ctypes.byref(mixed))
        return left, Times(*(list(one) for one in times))

    def latency(self) -> int:
        """Cycles from the last beat of the last frame to its first beat out."""
        return self._library.ls_sim_latency(self._sim)

    def counters(self) -> dict[str, int]:
        """The counters of the service, and those of the drops as `drop NAME`."""
        counters, drops = (ctypes.c_uint64 * len(self.counter_names))(), (ctypes.c_uint64 * len(DROPS))()
        self._library.ls_sim_counters(self._sim, counters, drops)
        return dict(zip(self.counter_names, counters, strict=True)) | dict(
            zip((f"drop {name}" for name in DROPS), drops, strict=True)
        )


def folded_sum(data: bytes) -> int:
    """Sum of the 16-bit words with end-around carry."""
    total = sum(int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def command(name: str, index=0, first=0, second=0, value: bytes = b"", account: bytes = bytes(16)) -> bytes:
    words = b"".join(word.to_bytes(4, "little") for word in (COMMANDS[name], index, first, second))
    return words + value.ljust(32, b"\0") + account


def register(name: str, value: int, number: int = 0) -> bytes:
    entry = REGISTERS[name]
    assert value < 1 << entry["bits"] and number < entry.get("count", 1), name
    return command("register", entry["index"] + number, value=value.to_bytes(32, "little"))


def endpoint(mac: bytes, addresses, broadcast: str, loopback=False) -> list[bytes]:
    """Commands that write the addresses of the interface, all of which are answered."""
    commands = [register("mac", int.from_bytes(mac, "little")), register("loopback", int(loopback))]
    counts = {4: 0, 6: 0}
    for text in addresses:
        address = ipaddress.ip_address(text)
        number = int.from_bytes(address.packed, "little")
        if address.version == 4:
            number |= int.from_bytes(ipaddress.ip_address(broadcast).packed, "little") << 32
        commands.append(register(f"v{address.version}", number, counts[address.version]))
        counts[address.version] += 1
    for version, count in counts.items():
        for name in ["own", "answered"]:
            commands.append(register(f"v{version}_{name}", (1 << count) - 1))
    return commands


def index_hash(words, key) -> int:
    """The hash that chooses the place of a key: NH over two words, folded, times an odd number."""
    total = 0
    for word, part in zip(words, key, strict=False):
        total += ((word + part) & 0xFFFFFFFF) * (((word >> 32) + (part >> 32)) & 0xFFFFFFFF)
    total &= MASK_64
    return (total ^ total >> 32) * key[2] & MASK_64


class SpvHost:
    """A host that fills the table of `spv`: blocks in slots from 0 on, each of generation 2."""

    def __init__(self, nic: Nic, line_bits=10, block_bits=4, ways=4, paper_index=False, paper_format=True, key=None):
        self.nic = nic
        self.ways, self.line_bits, self.paper_index = ways, line_bits, paper_index
        self.set_bits = line_bits - ways.bit_length() + 1
        self.key = key or (0x0123456789ABCDEF, 0xFEDCBA9876543210, 0x9E3779B97F4A7C15)
        self.sets = {}
        self.slots = 0
        key_bits = sum(word << 64 * at for at, word in enumerate(self.key))
        nic.command(
            register("spv_port", 7701),
            register("spv_key", key_bits),
            register("spv_set_bits", self.set_bits),
            register("spv_ways", ways),
            register("spv_block_mask", (1 << block_bits) - 1),
            register("spv_paper_index", int(paper_index)),
            register("spv_paper_format", int(paper_format)),
        )

    def endpoint(self, mac: bytes, addresses, broadcast: str, loopback=False):
        self.nic.command(*endpoint(mac, addresses, broadcast, loopback))

    def tip(self, block_hash: bytes, height: int, epoch=2):
        total = folded_sum(block_hash + height.to_bytes(4, "big"))
        self.nic.command(command("tip", 0, height, total, block_hash), register("spv_epoch", epoch))

    def first_line(self, txid: bytes) -> int:
        words = [int.from_bytes(txid[at : at + 8], "little") for at in (0, 8)]
        if self.paper_index:
            chosen = words[0] & ((1 << self.set_bits) - 1)
        else:
            chosen = index_hash(words, self.key) >> 64 - self.set_bits
        return chosen * self.ways

    def block(self, block_hash: bytes, root: bytes, height: int, txids=(), generation=2) -> int:
        slot, self.slots = self.slots, self.slots + 1
        self.nic.command(
            command("block_hash", 0, height, folded_sum(block_hash + height.to_bytes(4, "big")), block_hash),
            command("block", slot, generation, folded_sum(root), root),
        )
        lines = []
        for txid in txids:
            first = self.first_line(txid)
            used = self.sets.setdefault(first, [])
            assert len(used) < self.ways, "a set is full; choose another key"
            lines.append(command("line", first + len(used), generation, slot, txid))
            used.append(txid)
        if lines:
            self.nic.command(*lines)
        return slot

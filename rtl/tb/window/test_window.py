# SPDX-License-Identifier: Apache-2.0
"""The AXI4-Lite window of the NIC of `transfer`, in simulation: every counter against the XDP program, the registers,
a command by the doorbell, and what the bus refuses. Needs target/rtl-sim-window (scripts/rtl-sim.sh window).

The addresses come from spec/rtl.toml and the names of the counters from spec/transfer.toml and spec/common.toml. The
counts are those of the XDP program compiled natively, for the same frames.
"""

import ctypes
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("RTL_SIM_TRANSFER_DIR", str(ROOT / "target/rtl-sim-window"))
sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "transfer"))
from test_transfer_diff import Both, Case  # noqa: E402
from lineside_rtl import DROPS, REGISTERS, SPEC, command  # noqa: E402
from lineside_transfer import BUCKET_BITS, COUNTERS, SESSION_BITS, CODES  # noqa: E402

AXIL = SPEC["axil"]
AT = {word["name"]: word["at"] for word in AXIL["word"]}
GROUPS = {group["group"]: group["at"] for group in AXIL["counters"]}
OKAY, SLVERR = 0, 2
FRAMES = 3000
LEASE_OVER, STOPPED = 400, 256  # frames without a lease; pauses of the record stream in 1/256


class Window:
    """Words of the window of a simulated NIC."""

    def __init__(self, nic):
        self.nic = nic

    def read(self, address: int) -> tuple[int, int]:
        """Reads a word; returns response and data."""
        data = ctypes.c_uint32()
        response = self.nic._library.ls_sim_read(self.nic._sim, ctypes.c_uint32(address), ctypes.byref(data))
        return response, data.value

    def write(self, address: int, data: int) -> int:
        return self.nic._library.ls_sim_write(self.nic._sim, ctypes.c_uint32(address), ctypes.c_uint32(data))

    def get(self, address: int) -> int:
        response, data = self.read(address)
        assert response == OKAY, hex(address)
        return data

    def get_64(self, address: int) -> int:
        low = self.get(address)
        return low | self.get(address + 4) << 32

    def set_register(self, name: str, value: int):
        for word in range((REGISTERS[name]["bits"] + 31) // 32):
            at = AXIL["registers_at"] + AXIL["register_stride"] * REGISTERS[name]["index"] + 4 * word
            assert self.write(at, value >> 32 * word & 0xFFFFFFFF) == OKAY

    def register(self, name: str) -> int:
        at = AXIL["registers_at"] + AXIL["register_stride"] * REGISTERS[name]["index"]
        words = (REGISTERS[name]["bits"] + 31) // 32
        return sum(self.get(at + 4 * word) << 32 * word for word in range(words))


def test_every_counter_equals_that_of_the_xdp_program():
    both = Both(Case("window", record_pauses=(STOPPED,)), seed=11)
    window = Window(both.nic)
    counts = dict.fromkeys([*COUNTERS, *(f"drop {name}" for name in DROPS)], 0)

    def run(number: int):
        frames = [both.frame() for _ in range(number)]
        for frame, left in zip(frames, both.nic.run(frames), strict=True):
            verdict, out, risen = both.expected(frame, left)
            assert (left.verdict, left.frame) == (verdict, out), frame.hex()
            for name, count in risen.items():
                counts[name] += count

    def compare():
        for group, names, prefix in [("transfer", COUNTERS, ""), ("drops", DROPS, "drop ")]:
            for number, name in enumerate(names):
                assert window.get_64(GROUPS[group] + 8 * number) == counts[prefix + name], name

    compare()
    for number in range(FRAMES // 250):
        # While the record stream stops, requests are answered `busy` after the last place of a record was taken.
        both.nic.pause_records(STOPPED if number % 3 == 0 else 0)
        run(250)
        compare()
        both.nic.pause_records(0)
        assert len(both.nic.records()) == len(both.xdp.records())
        both.change(8)
    # The lease ends by a write of the window.
    window.set_register("transfer_lease_until_ns", 0)
    both.xdp.write_control(0, both.host.key, True, False, both.case.issuers)
    run(LEASE_OVER)
    compare()
    # Requests in the paper's format are dropped by a register of the window.
    window.set_register("transfer_paper_format", 0)
    both.xdp.write_control(0, both.host.key, False, False, both.case.issuers)
    run(LEASE_OVER)
    compare()
    # `transfer` drops no frame for its hop limit.
    assert all(count for name, count in counts.items() if name != "drop hop_limit"), counts
    both.nic.close()


def test_identity_sizes_and_addresses_of_other_services():
    both = Both(Case("window"), seed=12)
    window = Window(both.nic)
    assert window.get(AT["identity"]) == AXIL["identity"] and window.get(AT["version"]) == AXIL["version"]
    assert window.get(AT["table"]) == SESSION_BITS << 24 | BUCKET_BITS << 16
    transfer = range(GROUPS["transfer"], GROUPS["transfer"] + 8 * len(COUNTERS), 4)
    drops = range(GROUPS["drops"], GROUPS["drops"] + 8 * len(DROPS), 4)
    for address in range(GROUPS["drops"], AXIL["registers_at"], 4):
        known = address in transfer or address in drops
        assert window.read(address)[0] == (OKAY if known else SLVERR), hex(address)
        assert window.write(address, 1) == SLVERR, hex(address)
    # A high word needs its own low word before it.
    window.get(GROUPS["transfer"])
    assert window.read(GROUPS["transfer"] + 12) == (SLVERR, 0)
    both.nic.close()


def test_registers_and_a_command_by_the_doorbell():
    both = Both(Case("window"), seed=13)
    window = Window(both.nic)
    assert window.register("transfer_port") == 7702 and window.register("transfer_mode") == 2
    assert window.register("transfer_key") == sum(word << 64 * at for at, word in enumerate(both.host.key))
    both.nic.responses()
    done = window.get(AT["commands_done"])
    one = command("transfer_read", 5, account=both.wide[0])
    for word in range(16):
        assert window.write(AT["command"] + 4 * word, int.from_bytes(one[4 * word : 4 * word + 4], "little")) == OKAY
    assert window.write(AT["doorbell"], 1) == OKAY
    while window.get(AT["status"]) & 1:
        pass
    assert window.get(AT["commands_done"]) == done + 1
    for _ in range(40):
        window.get(AT["scratch"])
    (response,) = both.nic.responses()
    known = both.xdp.read_account(both.wide[0])
    assert response["index"] == 5 and response["code"] & 0xFF == CODES["done"]
    assert (response["balance"], response["version"]) == (known.balance, known.version)
    both.nic.close()

# SPDX-License-Identifier: Apache-2.0
"""The simulated NIC with external memory in target/rtl-sim-memory."""

import ctypes
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
ROOT = pathlib.Path(__file__).resolve().parents[3]
os.environ.setdefault("RTL_SIM_DIR", str(ROOT / "target/rtl-sim-memory"))
from lineside_rtl import Nic, Pauses  # noqa: E402, F401

MEMORY_COUNTERS = ["reads", "found", "damaged", "writes", "faults"]


class Memory(ctypes.Structure):
    """struct ls_sim_memory"""

    _fields_ = [
        ("seed", ctypes.c_uint64),
        ("latency_min", ctypes.c_uint32),
        ("latency_max", ctypes.c_uint32),
        ("reads_max", ctypes.c_uint32),
        ("pauses", ctypes.c_uint8),
        ("read_errors", ctypes.c_uint8),
        ("write_errors", ctypes.c_uint8),
        ("splits", ctypes.c_uint8),
    ]


class MemoryNic(Nic):
    """The simulated NIC with external memory."""

    def memory(self, latency=(80, 400), reads=256, pauses=16, read_errors=0, write_errors=0, splits=True, seed=1):
        chosen = Memory(seed, *latency, reads, pauses, read_errors, write_errors, int(splits))
        self._library.ls_sim_memory_set(self._sim, ctypes.byref(chosen))

    def memory_counters(self) -> dict[str, int]:
        counters, most = (ctypes.c_uint64 * len(MEMORY_COUNTERS))(), ctypes.c_uint64()
        self._library.ls_sim_memory_counters(self._sim, counters, ctypes.byref(most))
        return dict(zip(MEMORY_COUNTERS, counters, strict=True)) | {"most reads in flight": most.value}

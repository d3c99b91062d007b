# SPDX-License-Identifier: Apache-2.0
"""The simulation that skips idle stages (LS_SKIP_IDLE) against the one that does not.

Both get the same commands and frames with the same pauses. Every frame that leaves, the cycle counts, the latency and
the counters must be equal, and equal to those of the XDP program. RTL_SIM_SKIP_DIR has the library that skips.
"""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import test_diff  # noqa: E402
from lineside_rtl import LIBRARY, ROOT, Nic  # noqa: E402

SKIPPING = pathlib.Path(os.environ.get("RTL_SIM_SKIP_DIR", ROOT / "target/rtl-sim-skip")) / "libls_sim.so"


class SkippingNic(Nic):
    model_file = SKIPPING


class Pair:
    """Two simulated NICs that must behave alike in each cycle."""

    def __init__(self):
        assert SKIPPING.exists() and not SKIPPING.samefile(LIBRARY), "build it: see scripts/test-rtl.sh"
        self.nics = Nic(), SkippingNic()

    def _same(self, call):
        first, second = (call(nic) for nic in self.nics)
        assert first == second
        return first

    def set_now(self, now_ns):
        self._same(lambda nic: nic.set_now(now_ns))

    def command(self, *commands):
        return self._same(lambda nic: nic.command(*commands))

    def run(self, frames, pauses):
        left = self._same(lambda nic: nic.run(frames, pauses))
        self._same(lambda nic: (nic.cycles, nic.latency()))
        return left

    def counters(self):
        return self._same(lambda nic: nic.counters())

    def close(self):
        for nic in self.nics:
            nic.close()


@pytest.mark.parametrize("case", test_diff.CASES[:8], ids=lambda case: case.name)
def test_a_simulation_that_skips_idle_stages_is_the_same(case, monkeypatch):
    monkeypatch.setattr(test_diff, "Nic", Pair)
    test_diff.test_random_frames(case)

# SPDX-License-Identifier: Apache-2.0
"""Records what the tests of rtl/tb do with the simulated NIC, and repeats it on another build of the simulation.

As a pytest plugin (`-p replay`, RTL_RECORD=FILE) it records each call and its result. The tests compare the results
with the vectors and with the XDP program, so the recording of a passed run has the right results.
`python3 replay.py FILE` repeats the calls on the simulation in RTL_SIM_DIR, and ends with status 1 at the first result
that differs, and with 2 if the simulation reports a fault. A repetition needs a small part of the time of the tests.
"""

import os
import pickle
import sys

import lineside_rtl
from lineside_rtl import Nic, Pauses

RECORDED = ["set_now", "command", "run", "counters"]


def as_data(value):
    """Frames and pauses as plain data, which is fast to load."""
    if isinstance(value, Pauses):
        return ("pauses", value.seed, value.source, value.network, value.host)
    if isinstance(value, list) and value and isinstance(value[0], lineside_rtl.Left):
        return [(one.verdict, one.frame) for one in value]
    return value


class Recorder:
    """Stands in for Nic: passes calls on, and writes them with their results."""

    out = None

    def __init__(self):
        self.nic = Nic()
        Recorder.write(("new",))

    @classmethod
    def write(cls, entry):
        cls.out = cls.out or open(os.environ["RTL_RECORD"], "wb")
        pickle.dump(entry, cls.out)

    def __getattr__(self, name):
        method = getattr(self.nic, name)
        if name not in RECORDED:
            return method

        def call(*arguments):
            result = method(*arguments)
            # The number of cycles is no contract.
            kept = None if name == "command" else as_data(result)
            Recorder.write((name, [as_data(one) for one in arguments], kept))
            return result

        return call


def pytest_configure(config):
    lineside_rtl.Nic = Recorder


def pytest_runtest_setup(item):
    Recorder.write(("test", item.nodeid))


def pytest_unconfigure(config):
    if Recorder.out:
        Recorder.out.close()


def repeat(path) -> int:
    nic, test = None, ""
    with open(path, "rb") as file:
        while True:
            try:
                name, *rest = pickle.load(file)
            except EOFError:
                return 0
            if name == "test":
                test = rest[0]
                continue
            if name == "new":
                if nic:
                    nic.close()
                nic = Nic()
                continue
            arguments, wanted = rest
            arguments = [Pauses(*one[1:]) if isinstance(one, tuple) else one for one in arguments]
            try:
                result = getattr(nic, name)(*arguments)
            except AssertionError as fault:
                print(f"{test}: {fault}")
                return 2
            if wanted is not None and as_data(result) != wanted:
                print(f"{test}: another result of {name}")
                return 1


if __name__ == "__main__":
    sys.exit(repeat(sys.argv[1]))

# SPDX-License-Identifier: Apache-2.0
"""Lists the longest paths of a placed design, from the SDF file that nextpnr writes.

Paths with the same registers at both ends, apart from their bits, are one group. Without routing, nextpnr predicts the
delays of wires from their length. Usage: paths.py FILE.sdf [NANOSECONDS]; groups with a path of at least so many
nanoseconds are listed, by default 8. Each line has the longest path of a group, the number of ends of such paths, and
the registers.
"""

import collections
import pathlib
import re
import sys

CLOCKS = {"CLK", "WCK", "CLKA", "CLKB", "CLK0"}
# The last number of the three that SDF has for a delay is its maximum.
INTERCONNECT = re.compile(r"\s*\(INTERCONNECT (\S+) (\S+) \(-?\d+:-?\d+:(-?\d+)\)")
IOPATH = re.compile(r"\s*\(IOPATH (\S+) (\S+) \(-?\d+:-?\d+:(-?\d+)\)")
SETUPHOLD = re.compile(r"\s*\(SETUPHOLD \(\w+ (\S+)\) \(\w+ \S+\) \(-?\d+:-?\d+:(-?\d+)\)")
NEVER = -(10**9)
# What synthesis appends to the name of a register or memory.
SUFFIX = re.compile(r"_TRELLIS_FF_Q.*|_(DP16KD|DPR16X4|MULT18X18D|LUT4|PFUMX|L6MUX21|CCU2C).*|\$DPRAM.*|_register_\d+$")


class Netlist:
    """Delays in picoseconds between pins, which are named CELL/PORT."""

    def __init__(self, lines):
        self.wires = collections.defaultdict(list)  # output pin: input pins with delays
        self.cells = collections.defaultdict(list)  # input pin: output pins with delays
        self.starts = {}  # output pin of a register: delay from the clock
        self.setups = {}  # input pin of a register: set-up time
        cell = ""
        for line in lines:
            if found := INTERCONNECT.match(line):
                source, sink, delay = found.groups()
                self.wires[source.replace("\\", "")].append((sink.replace("\\", ""), int(delay)))
            elif found := IOPATH.match(line):
                source, sink, delay = found.groups()
                if source in CLOCKS:
                    self.starts[f"{cell}/{sink}"] = int(delay)
                else:
                    self.cells[f"{cell}/{source}"].append((f"{cell}/{sink}", int(delay)))
            elif found := SETUPHOLD.match(line):
                self.setups[f"{cell}/{found[1]}"] = int(found[2])
            elif line.lstrip().startswith("(INSTANCE"):
                cell = line.strip()[len("(INSTANCE") : -1].strip().replace("\\", "")

    def use_cells_of(self, other: "Netlist"):
        """Takes the delays of cells from another SDF file of the same netlist."""
        for own, others in ((self.cells, other.cells), (self.starts, other.starts), (self.setups, other.setups)):
            if own.keys() != others.keys():
                raise ValueError("the SDF files are of different netlists")
        self.cells, self.starts, self.setups = other.cells, other.starts, other.setups

    def order(self) -> list[str]:
        """Returns all output pins, each after those from which a path through one cell leads to it."""
        waits = collections.Counter(  # number of inputs of an output pin whose output pins are not in the list
            output for inputs in self.wires.values() for sink, _ in inputs for output, _ in self.cells.get(sink, ())
        )
        order = [pin for pin in dict.fromkeys([*self.wires, *self.starts]) if not waits[pin]]
        for pin in order:
            for sink, _ in self.wires.get(pin, ()):
                for output, _ in self.cells.get(sink, ()):
                    waits[output] -= 1
                    if not waits[output]:
                        order.append(output)
        return order

    def longest(self) -> list[tuple[int, str, str]]:
        """Returns delay, first and last pin of the longest path to each input of a register, the longest one first."""
        order, ends = self.order(), {}
        # A pin that no register leads to, such as that of a constant, comes before all paths.
        known = {pin: (self.starts.get(pin, NEVER), pin) for pin in order}
        for pin in order:
            delay, start = known[pin]
            for sink, wire in self.wires.get(pin, ()):
                if sink in self.setups and delay >= 0:
                    ends[sink] = max(ends.get(sink, (0, "")), (delay + wire + self.setups[sink], start))
                for output, cell in self.cells.get(sink, ()):
                    known[output] = max(known[output], (delay + wire + cell, start))
        return sorted(((delay, start, sink) for sink, (delay, start) in ends.items()), reverse=True)


def group(pin: str) -> str:
    """Returns the register or memory of a pin, without the number of the bit."""
    cell, port = pin.rsplit("/", 1)
    name = re.sub(r"_held_\d+$", "_held", SUFFIX.sub("", cell))
    name = re.sub(r"\.\d+(\.\d+)*$", "", re.sub(r"\[\d+\]", "[]", name))
    return name if port in {"DI", "M", "Q", "F", "LSR"} else f"{name}/{re.sub(r'[0-9]+$', '', port)}"


def longest(sdf: pathlib.Path, cells_sdf: pathlib.Path | None = None) -> list[tuple[int, str, str]]:
    """Returns what Netlist.longest does, with the delays of cells of another SDF file if there is one."""
    with sdf.open() as lines:
        netlist = Netlist(lines)
    if cells_sdf:
        with cells_sdf.open() as lines:
            netlist.use_cells_of(Netlist(lines))
    return netlist.longest()


def report(ends: list[tuple[int, str, str]], at_least_ns: float = 8.0) -> str:
    late = [end for end in ends if end[0] >= 1000 * at_least_ns]
    groups = collections.defaultdict(list)
    for delay, start, sink in late:
        groups[group(start), group(sink)].append(delay)
    lines = [f"{len(late)} of {len(ends)} ends of paths at {at_least_ns} ns or later"]
    for (start, sink), delays in sorted(groups.items(), key=lambda item: -max(item[1])):
        lines.append(f"{max(delays) / 1000:6.2f} ns {len(delays):5}  {start} -> {sink}")
    return "\n".join(lines)


if __name__ == "__main__":
    print(report(longest(pathlib.Path(sys.argv[1])), *map(float, sys.argv[2:])))

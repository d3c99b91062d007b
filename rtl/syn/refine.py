# SPDX-License-Identifier: Apache-2.0
"""Moves cells of a design that nextpnr has placed on an ECP5, so that its longest paths become shorter.

The placer of nextpnr makes the sum of all wires short, and its last step moves cells by a few places only. A look-up
table on a long path may then be far away from both ends of the path, if its other wires lead there. Here, such a cell
moves to the free site on the whole FPGA where the longest path through it is shortest, the cells on the longest paths
first; this is repeated until nothing gets shorter. In designs that fill two thirds of the FPGA, enough sites are free.

Units that move: a look-up table, a register, a look-up table with the register directly behind it, and look-up tables
that multiplexers of their slice join. Carry chains, memories and multipliers stay. nextpnr checks the result again
before it routes it.

The delays of cells are those of the SDF file that nextpnr writes; those of wires are computed as nextpnr predicts them
for ECP5 (Arch::predictDelay), except that those within a tile, of which nextpnr predicts some as 0, have the shortest
delay of a wire. Usage: refine.py PLACED.json FILE.sdf REFINED.json
"""

import collections
import json
import pathlib
import re
import sys

import numpy as np
import paths

COLUMNS, ROWS = 127, 96
SITE = re.compile(r"X(\d+)/Y(\d+)/SLICE([A-D])\.(K|FF|RAMW)(\d?)$")
PLACE = re.compile(r"X(\d+)/Y(\d+)/")
# Unit of the delays of wires at speed grade 8, in picoseconds.
UNIT_PS = 62
# Inputs that have a wire of their own from the output next to them.
DIRECT = {"FCI", "FXA", "FXB"}
# A path counts as long if it has this part of the longest delay.
LONG = 0.8
# A path of less than this is never long.
SHORT_PS = 8000
# Weights of the other wires of a cell, and of the squares of wires on long paths, in the cost of a site. They choose
# between sites with equal paths; the squares are smaller if a cell is between its neighbours, so both can come nearer.
WIRE_WEIGHT = 0.002
SQUARE_WEIGHT = 1e-4
# A move must shorten a path by more than this. Sites that are tried for one unit; wires of one output whose length
# counts.
GAIN_PS = 8
SITES_MAX = 1500
WIRES_MAX = 8
ROUNDS_MAX = 30
NEVER = paths.NEVER


def steps(distance):
    """Returns what a distance in columns or rows adds to the delay of a wire, in units."""
    return distance + np.minimum(distance, 5)


def wire_ps(first, second) -> int:
    return UNIT_PS * int(6 + steps(abs(first[0] - second[0])) + steps(abs(first[1] - second[1])))


def wires_ps(place):
    """Returns the delays of wires from a place to all places."""
    across, along = np.abs(np.arange(COLUMNS) - place[0]), np.abs(np.arange(ROWS) - place[1])
    return (UNIT_PS * (6 + steps(across)[:, None] + steps(along)[None, :])).astype(float)


class Placement:
    """Sites of the cells, and which sites are free for a unit."""

    def __init__(self, design):
        (self.cells,) = (module["cells"] for module in design["modules"].values() if "top" in module["attributes"])
        self.place, self.site = {}, {}
        self.tiles = collections.defaultdict(dict)  # place: cells by slice, number in the slice, and kind
        for name, cell in self.cells.items():
            bel = cell["attributes"]["NEXTPNR_BEL"]
            self.place[name] = tuple(map(int, PLACE.match(bel).groups()))
            if found := SITE.match(bel):
                self.site[name] = ("ABCD".index(found[3]), int(found[5] or 0), found[4])
                self.tiles[self.place[name]][self.site[name]] = name
        self.is_logic = np.zeros((COLUMNS, ROWS), bool)
        for place in self.tiles:
            self.is_logic[place] = True

    def nets(self, name, port) -> tuple:
        return tuple(self.cells[name]["connections"].get(port, ()))

    def mode(self, name) -> str:
        return self.cells[name]["parameters"].get("MODE", "LOGIC")

    def is_table(self, name) -> bool:
        return self.cells[name]["type"] == "TRELLIS_COMB"

    def slice_rule(self, name) -> tuple:
        """What all registers of a slice have in common."""
        parameters = self.cells[name]["parameters"]
        return parameters.get("GSR"), parameters.get("CEMUX"), self.nets(name, "CE")

    def tile_rule(self, name) -> tuple:
        """What all registers of a tile have in common."""
        parameters = self.cells[name]["parameters"]
        return (
            self.nets(name, "CLK"),
            self.nets(name, "LSR"),
            *(parameters.get(key) for key in ("CLKMUX", "LSRMUX", "SRMODE")),
        )

    def units(self) -> list[tuple[str, ...]]:
        """Returns the units that can move."""
        drivers = {
            net: name
            for name, cell in self.cells.items()
            if cell["type"] == "TRELLIS_COMB"
            for port in ("F", "OFX")
            for net in self.nets(name, port)
        }
        joined = {name: [name] for name in self.cells if self.is_table(name)}
        for name in list(joined):
            for port in ("F1", "FXA", "FXB"):
                for net in self.nets(name, port):
                    if (other := joined[drivers[net]]) is not joined[name]:
                        joined[name] += other
                        joined.update(dict.fromkeys(other, joined[name]))
        registers = {name for name, cell in self.cells.items() if cell["type"] == "TRELLIS_FF"}
        pairs = {name: drivers.get(*self.nets(name, "DI")) for name in registers if self.nets(name, "DI")}
        paired = set(pairs.values())
        found = [(name,) for name in registers - set(pairs)]
        for names in {id(names): names for names in joined.values()}.values():
            if any(self.mode(name) != "LOGIC" for name in names):
                continue
            if not paired.intersection(names):
                found.append(tuple(names))
        for register, table in pairs.items():
            if table and self.mode(table) == "LOGIC" and len(joined[table]) == 1:
                found.append((table, register))
        return sorted(found)

    def sites(self, place, unit):
        """Returns free sites for the cells of a unit in a tile, or None."""
        tile = self.tiles.get(place, {})
        if any(kind == "RAMW" or (kind == "K" and self.mode(name) == "DPRAM") for (*_, kind), name in tile.items()):
            return None
        registers = [name for name in unit if not self.is_table(name)]
        for register in registers:
            if any(kind == "FF" and self.tile_rule(name) != self.tile_rule(register) for (*_, kind), name in tile.items()):
                return None
        lowest = min(self.site[name][0] for name in unit)
        tables = len(unit) - len(registers)
        # The multiplexers of more than two look-up tables join pairs of slices.
        pairs_slices = tables > 2
        for to in range(0, 4, 2 if pairs_slices else 1):
            base = lowest - lowest % 2 if pairs_slices else lowest
            for flip in (0, 1) if tables < 2 else (0,):
                sites = {
                    name: (self.site[name][0] - base + to, self.site[name][1] ^ flip, self.site[name][2]) for name in unit
                }
                if all(self.is_free(tile, name, site) for name, site in sites.items()):
                    return sites
        return None

    def is_free(self, tile, name, site) -> bool:
        at, number, kind = site
        if at > 3 or site in tile:
            return False
        same, other = tile.get((at, number, "FF" if kind == "K" else "K")), (at, 1 - number, kind)
        if kind == "K":
            # Both look-up tables of a slice are in its carry chain, or none is. Its input M chooses between look-up
            # tables, or leads to a register.
            if other in tile and self.mode(tile[other]) != "LOGIC":
                return False
            return not (same and self.nets(name, "M") and self.nets(same, "M"))
        if other in tile and self.slice_rule(tile[other]) != self.slice_rule(name):
            return False
        return not (same and self.nets(name, "M") and self.nets(same, "M"))

    def take(self, unit):
        for name in unit:
            del self.tiles[self.place[name]][self.site[name]]

    def put(self, place, sites):
        for name, (at, number, kind) in sites.items():
            self.place[name], self.site[name] = place, (at, number, kind)
            self.tiles[place][at, number, kind] = name
            self.cells[name]["attributes"]["NEXTPNR_BEL"] = f"X{place[0]}/Y{place[1]}/SLICE{'ABCD'[at]}.{kind}{number}"


def cell_of(pin: str) -> str:
    return pin.rsplit("/", 1)[0]


class Timing:
    """Delays of all paths of a placement, in picoseconds."""

    def __init__(self, netlist: paths.Netlist, placement: Placement):
        self.netlist, self.placement = netlist, placement
        self.source, self.inputs, self.outputs = {}, collections.defaultdict(list), collections.defaultdict(list)
        for source, sinks in netlist.wires.items():
            self.outputs[cell_of(source)].append(source)
            for sink, _ in sinks:
                self.source[sink] = source
                self.inputs[cell_of(sink)].append(sink)
        self.order = netlist.order()
        self.arrival, self.at_input, self.tail = {}, {}, {}

    def wire(self, source: str, sink: str) -> int:
        port = sink.rsplit("/", 1)[1]
        if port in DIRECT or (port == "DI" and source.endswith("/F")):
            return 0
        place = self.placement.place
        return wire_ps(place[cell_of(source)], place[cell_of(sink)])

    def update(self) -> int:
        """Computes all delays again: from a register to each output and input, and from there to a register. Returns the
        longest one."""
        netlist = self.netlist
        self.arrival = {pin: netlist.starts.get(pin, NEVER) for pin in self.order}
        delays = {}
        for pin in self.order:
            for sink, _ in netlist.wires.get(pin, ()):
                delays[sink] = self.wire(pin, sink)
                at_input = self.at_input[sink] = self.arrival[pin] + delays[sink]
                for output, cell in netlist.cells.get(sink, ()):
                    self.arrival[output] = max(self.arrival[output], at_input + cell)
        for pin in reversed(self.order):
            self.tail[pin] = NEVER
            for sink, _ in netlist.wires.get(pin, ()):
                after = [self.tail[output] + cell for output, cell in netlist.cells.get(sink, ())]
                self.tail[sink] = max([netlist.setups.get(sink, NEVER), *after])
                self.tail[pin] = max(self.tail[pin], self.tail[sink] + delays[sink])
        return max(self.path(sink) for sink in self.source)

    def path(self, sink: str) -> int:
        """Returns the delay of the longest path through an input."""
        return self.at_input[sink] + self.tail[sink]

    def longest(self) -> dict[str, int]:
        """Returns the delay of the longest path through each cell."""
        longest = collections.defaultdict(int)
        for sink, source in self.source.items():
            for name in (cell_of(sink), cell_of(source)):
                longest[name] = max(longest[name], self.path(sink))
        return longest


def costs(timing: Timing, unit, long_ps: float):
    """Returns the cost of each place for a unit, and the cells that it is connected with."""
    placement, netlist = timing.placement, timing.netlist
    before = np.full((COLUMNS, ROWS), float(NEVER))  # longest path to the unit
    after = np.full((COLUMNS, ROWS), float(NEVER))  # and from it
    whole = np.zeros((COLUMNS, ROWS))  # longest path that begins or ends in the unit
    wires, squares = np.zeros((COLUMNS, ROWS)), np.zeros((COLUMNS, ROWS))
    neighbours = set()
    outputs = [pin for name in unit for pin in timing.outputs[name]]
    is_logic = all(placement.is_table(name) for name in unit)
    for sink in (sink for name in unit for sink in timing.inputs[name]):
        source = timing.source[sink]
        other = cell_of(source)
        if other in unit or timing.arrival[source] < 0 or timing.tail[sink] < 0:
            continue
        neighbours.add(other)
        delays = wires_ps(placement.place[other])
        wires += delays
        if timing.path(sink) > long_ps:
            squares += delays**2
        if is_logic:
            before = np.maximum(before, timing.arrival[source] + delays + timing.tail[sink])
        else:
            whole = np.maximum(whole, timing.arrival[source] + delays + timing.tail[sink])
    for source in outputs:
        others = [sink for sink, _ in netlist.wires[source] if cell_of(sink) not in unit]
        others = [sink for sink in others if timing.tail[sink] > 0 and timing.arrival[source] >= 0]
        for at, sink in enumerate(others):
            neighbours.add(cell_of(sink))
            delays = wires_ps(placement.place[cell_of(sink)])
            if at < WIRES_MAX:
                wires += delays
            if timing.path(sink) > long_ps:
                squares += delays**2 / len(others)
            if is_logic:
                # `before` has the present path from the output on.
                after = np.maximum(after, timing.tail[sink] + delays - timing.tail[source])
            else:
                whole = np.maximum(whole, timing.arrival[source] + delays + timing.tail[sink])
    path = before + after if is_logic else whole
    return path + WIRE_WEIGHT * wires + SQUARE_WEIGHT * squares, neighbours


def move(timing: Timing, unit, long_ps: float) -> set[str]:
    """Moves a unit to the best free site, if that is better than its own. Returns the cells that it is connected with,
    none if it stays."""
    placement = timing.placement
    cost, neighbours = costs(timing, unit, long_ps)
    place, sites = placement.place[unit[0]], {name: placement.site[name] for name in unit}
    places = np.argwhere((cost < cost[place] - GAIN_PS) & placement.is_logic)
    places = places[np.argsort(cost[places[:, 0], places[:, 1]], kind="stable")][:SITES_MAX]
    placement.take(unit)
    for better in (tuple(map(int, place)) for place in places):
        if found := placement.sites(better, unit):
            placement.put(better, found)
            return neighbours
    placement.put(place, sites)
    return set()


def refine(timing: Timing) -> list[int]:
    """Moves units until their moves shorten nothing. Returns the longest delay before each round, and after the last."""
    units = timing.placement.units()
    history = []
    for _ in range(ROUNDS_MAX):
        history.append(timing.update())
        long_ps = max(LONG * history[-1], SHORT_PS)
        longest = timing.longest()
        late = [(max(longest[name] for name in unit), unit) for unit in units]
        # The delays around a unit that has moved are not known until the next round.
        settled, moves = set(), 0
        for _, unit in sorted((item for item in late if item[0] > long_ps), reverse=True):
            if settled.isdisjoint(unit) and (neighbours := move(timing, unit, long_ps)):
                settled |= neighbours | set(unit)
                moves += 1
        if not moves:
            break
    return [*history, timing.update()]


def refine_file(placed: pathlib.Path, sdf: pathlib.Path, refined: pathlib.Path) -> str:
    """Refines a design and writes it. Returns a line about the longest path."""
    design = json.loads(placed.read_text())
    with sdf.open() as lines:
        netlist = paths.Netlist(lines)
    history = refine(Timing(netlist, Placement(design)))
    refined.write_text(json.dumps(design))
    return f"the longest path had {history[0]} ps, and has {history[-1]} ps after {len(history) - 1} rounds"


if __name__ == "__main__":
    print("refine:", refine_file(*map(pathlib.Path, sys.argv[1:])))

# SPDX-License-Identifier: Apache-2.0
"""Moves cells of a design that nextpnr has placed on an ECP5, so that its longest paths become shorter.

The placer of nextpnr makes the sum of all wires short, and its last step moves cells by a few places only. A look-up
table on a long path may then be far away from both ends of the path, if its other wires lead there. Here, such a cell
moves to the free site where all paths through it together are least late, those on the longest paths first. In the
round after it, cells that are near each other on a late path move together: a move of one of them alone would make the
path longer. In designs that fill two thirds of the FPGA, enough sites are free.

Units that move: a look-up table, a register, a look-up table with the register directly behind it, and look-up tables
that multiplexers of their slice join, unless a register is directly behind the multiplexer. In the round after that of
the groups, blocks move: a carry chain, a memory of look-up tables, or more than two look-up tables that multiplexers
join; units in their way find other sites. RAM blocks and multipliers stay. nextpnr checks the result again before it routes it.

The delays of cells are those of the SDF file that nextpnr writes; those of wires are computed as nextpnr predicts them
for ECP5 (Arch::predictDelay), except that those within a tile, of which nextpnr predicts some as 0, have the shortest
delay of a wire. Usage: refine.py PLACED.json FILE.sdf REFINED.json
"""

import collections
import itertools
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
# Modes of the cells of a memory that consists of look-up tables.
MEMORY = {"DPRAM", "RAMW_BLOCK"}
# Inputs that have a wire of their own from the output next to them.
DIRECT = {"FCI", "FXA", "FXB"}
# A path of more than this is late.
TARGET_PS = 8500
# What a place costs: for each wire to other cells, the lateness of the longest path through it, in picoseconds, and its
# square divided by this, so that the latest paths count most.
SQUARED_PS = 500
# For each column or row by which a net becomes longer (half perimeter of its cells). A design with much longer nets
# cannot be routed. The first rounds make only moves that gain much for the length; each third round halves the weight.
FIRST_WIRE_WEIGHT = 240
WIRE_WEIGHT = 15
# The squares of wires on late paths choose between places that are equal otherwise. They are smaller if a cell is between
# its neighbours, so both can come nearer.
SQUARE_WEIGHT = 1e-6
# A move must lower the cost by more than this.
GAIN = 2
# Places around the neighbours of a cell that are tried, sites that are tried for one unit and for a group, and failures
# after which a group stays.
MARGIN = 3
SITES_MAX = 200
GROUP_SITES_MAX = 40
MISSES_MAX = 6
# Places that are tried for a block in one round, and around the neighbours of a unit that has to leave for it.
BLOCK_TRIES = 5
SETTLE_MARGIN = 8
# Units of a group, and columns and rows between two of them.
GROUP_MAX = 5
GROUP_STEPS = 4
# A net with more inputs does not join units to a group, nor keep its other cells from moving in the same round, and its
# length does not count.
FANOUT_MAX = 60
ROUNDS_MAX = 60
# Refining ends when this many rounds have not lowered the sum of all lateness by one part in a hundred.
ROUNDS_WITHOUT_GAIN = 6
# Wires whose path would be late if the wire took this long have squares, too.
SQUARES_FROM_PS = 1128
# Places that are tried for a unit of a group, around the one that keeps the form of the group.
AROUND = sorted(itertools.product(range(-2, 3), repeat=2), key=lambda at: abs(at[0]) + abs(at[1]))[:13]
NEVER = paths.NEVER


def steps(distance):
    """Returns what a distance in columns or rows adds to the delay of a wire, in units."""
    return distance + np.minimum(distance, 5)


def wire_ps(first, second) -> int:
    return UNIT_PS * int(6 + steps(abs(first[0] - second[0])) + steps(abs(first[1] - second[1])))


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
        self.logic = set(self.tiles)  # tiles that have a look-up table or a register now; no others are used

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

    def blocks(self) -> list[tuple[str, ...]]:
        """Returns the carry chains and the memories of a tile, with the registers directly behind their cells."""
        behind = collections.defaultdict(list)
        for name, cell in self.cells.items():
            if cell["type"] == "TRELLIS_FF" and self.nets(name, "DI"):
                behind[self.nets(name, "DI")].append(name)
        after = {self.nets(name, "FCI"): name for name in self.cells if self.nets(name, "FCI")}
        drivers = {self.nets(name, "FCO") for name in self.cells if self.nets(name, "FCO")}
        followers = {name for net, name in after.items() if net in drivers}
        found = []
        for name in self.cells:
            if self.mode(name) == "CCU2" and name not in followers:
                chain = [name]
                while following := after.get(self.nets(chain[-1], "FCO")):
                    chain.append(following)
                found.append(chain)
        for tile in self.tiles.values():
            memory = [name for name in tile.values() if self.mode(name) in MEMORY or self.site[name][2] == "RAMW"]
            if memory:
                found.append(memory)
        return [tuple(block + [name for table in block for name in behind[self.nets(table, "F")]]) for block in found]

    def cleared(self, sites, unit_of):
        """Returns the units that must leave a block's new sites, or None if there is something that cannot move."""
        block, leaving = set(sites), set()
        slices = {(place, site[0]) for place, site in sites.values()}
        for place in {place for place, _ in sites.values()}:
            inside = [name for name, (at, _) in sites.items() if at == place]
            is_memory = any(self.mode(name) in MEMORY for name in inside)
            rules = {self.tile_rule(name) for name in inside if not self.is_table(name) and self.site[name][2] == "FF"}
            for site, name in self.tiles.get(place, {}).items():
                if name in block:
                    continue
                if site[2] == "RAMW" or self.mode(name) in MEMORY:
                    return None
                has_other_rule = rules and site[2] == "FF" and self.tile_rule(name) not in rules
                if is_memory or has_other_rule or (place, site[0]) in slices:
                    if name not in unit_of:
                        return None
                    leaving.add(unit_of[name])
        return sorted(leaving)

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

    def put(self, sites):
        """Puts cells on sites, which are places with sites in their tiles."""
        for name, (place, site) in sites.items():
            self.place[name], self.site[name] = place, site
            self.tiles[place][site] = name

    def restore(self, before):
        """Puts cells back, some of which may have no site."""
        for name in before:
            if self.tiles[self.place[name]].get(self.site[name]) == name:
                del self.tiles[self.place[name]][self.site[name]]
        self.put(before)

    def where(self, cells) -> dict[str, tuple]:
        return {name: (self.place[name], self.site[name]) for name in cells}

    def write(self, cells):
        """Writes the sites of cells into the design."""
        for name in cells:
            (x, y), (at, number, kind) = self.place[name], self.site[name]
            number = "" if kind == "RAMW" else number
            self.cells[name]["attributes"]["NEXTPNR_BEL"] = f"X{x}/Y{y}/SLICE{'ABCD'[at]}.{kind}{number}"


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
        self.rank = {pin: at for at, pin in enumerate(self.order)}
        self.arrival, self.at_input, self.tail = {}, {}, {}
        self.wire_weight = WIRE_WEIGHT

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

    def lateness(self) -> int:
        """Returns the sum of the lateness of the longest path to each input of a register."""
        return sum(max(self.path(sink) - TARGET_PS, 0) for sink in self.netlist.setups if sink in self.source)

    def longest(self) -> dict[str, int]:
        """Returns the delay of the longest path through each cell."""
        longest = collections.defaultdict(int)
        for sink, source in self.source.items():
            for name in (cell_of(sink), cell_of(source)):
                longest[name] = max(longest[name], self.path(sink))
        return longest

    def half_perimeters(self) -> int:
        """Returns the sum of the half perimeters of all nets but that of the clock, in columns and rows."""
        total = 0
        for source, sinks in self.netlist.wires.items():
            pins = [source] + [sink for sink, _ in sinks if sink.rsplit("/", 1)[1] not in paths.CLOCKS]
            ends = zip(*(self.placement.place[cell_of(pin)] for pin in pins), strict=True)
            total += sum(max(at) - min(at) for at in ends)
        return total

    def neighbours(self, cells) -> set[str]:
        """Returns the cells whose delays change when these cells move."""
        found = {cell_of(self.source[sink]) for name in cells for sink in self.inputs[name]}
        for source in (source for name in cells for source in self.outputs[name]):
            sinks = [sink for sink, _ in self.netlist.wires[source]]
            found.update(cell_of(sink) for sink in sinks if len(sinks) <= FANOUT_MAX or self.path(sink) > TARGET_PS)
        return found.difference(cells)


def larger(first, second):
    return second if first is None else np.maximum(first, second)


class Group:
    """Cells that move together, and what each place costs them. A place is that of the first cell."""

    def __init__(self, timing: Timing, cells):
        self.timing, self.cells, self.inside = timing, cells, set(cells)
        self.place = timing.placement.place[cells[0]]
        self.inputs = []  # input pin, output pin that drives it, and where that is
        self.outputs = collections.defaultdict(dict)  # output pin: where its inputs are, and the longest delay from there
        for name in cells:
            for sink in timing.inputs[name]:
                source = timing.source[sink]
                if cell_of(source) not in self.inside and timing.arrival[source] >= 0:
                    self.inputs.append((sink, source, self.seen(name, source)))
            for source in self.sources(name):
                for sink, _ in timing.netlist.wires[source]:
                    if cell_of(sink) not in self.inside and timing.tail[sink] >= 0:
                        point, ends = self.seen(name, sink), self.outputs[source]
                        ends[point] = max(ends.get(point, 0), timing.tail[sink])
        self.points = [point for *_, point in self.inputs] + [point for ends in self.outputs.values() for point in ends]
        self.boxes = list(self.find_boxes())

    def find_boxes(self):
        """Yields, for each net of the group, the columns and the rows between its cells outside of the group."""
        timing, nets = self.timing, {}
        for name in self.cells:
            for source in [timing.source[sink] for sink in timing.inputs[name]] + timing.outputs[name]:
                nets.setdefault(source, name)
        for source, name in nets.items():
            pins = [source] + [sink for sink, _ in timing.netlist.wires[source]]
            if len(pins) <= FANOUT_MAX and (others := [pin for pin in pins if cell_of(pin) not in self.inside]):
                yield tuple((min(at), max(at)) for at in zip(*(self.seen(name, pin) for pin in others), strict=True))

    def seen(self, name, pin) -> tuple[int, int]:
        """Returns the place of a pin's cell, moved by the way from `name` to the first cell of the group."""
        place = self.timing.placement.place
        (x, y), own = place[cell_of(pin)], place[name]
        return x - own[0] + self.place[0], y - own[1] + self.place[1]

    def sources(self, name) -> list[str]:
        return [source for source in self.timing.outputs[name] if self.timing.arrival[source] >= 0]

    def window(self, margin=MARGIN):
        """Returns the columns and rows in which a move may be useful."""
        xs, ys = zip(self.place, *self.points, strict=True)
        return (
            np.arange(max(min(xs) - margin, 0), min(max(xs) + margin + 1, COLUMNS)),
            np.arange(max(min(ys) - margin, 0), min(max(ys) + margin + 1, ROWS)),
        )

    def costs(self, columns, rows):
        """Returns the cost of all places in these columns and rows."""
        timing, netlist = self.timing, self.timing.netlist
        delays = {
            point: UNIT_PS * (6.0 + steps(np.abs(columns - point[0]))[:, None] + steps(np.abs(rows - point[1]))[None, :])
            for point in self.points
        }
        # Delays of the longest paths to the pins of the group, and from them.
        at_input = {sink: timing.arrival[source] + delays[point] for sink, source, point in self.inputs}
        arrival, tail = {}, {}
        sources = sorted((source for name in self.cells for source in self.sources(name)), key=timing.rank.__getitem__)
        before = collections.defaultdict(list)
        for sink in (sink for name in self.cells for sink in timing.inputs[name]):
            for source, cell in netlist.cells.get(sink, ()):
                before[source].append((sink, cell))
        own = {source: [sink for sink, _ in netlist.wires[source] if cell_of(sink) in self.inside] for source in sources}
        for source in sources:
            longest = netlist.starts.get(source)
            for sink, cell in before[source]:
                if sink in at_input:
                    longest = larger(longest, at_input[sink] + cell)
            arrival[source] = NEVER if longest is None else longest
            for sink in own[source]:
                at_input[sink] = arrival[source] + timing.wire(source, sink)

        def from_input(sink):
            longest = netlist.setups.get(sink)
            for source, cell in netlist.cells.get(sink, ()):
                if tail.get(source) is not None:
                    longest = larger(longest, tail[source] + cell)
            return longest

        for source in reversed(sources):
            longest = None
            for point, end in self.outputs[source].items():
                longest = larger(longest, end + delays[point])
            for sink in own[source]:
                if (end := from_input(sink)) is not None:
                    longest = larger(longest, end + timing.wire(source, sink))
            tail[source] = longest

        late, squares = (np.zeros((len(columns), len(rows))) for _ in range(2))
        for sink, _, point in self.inputs:
            if (end := from_input(sink)) is not None:
                late += cost_of(at_input[sink] + end)
                if timing.path(sink) > TARGET_PS:
                    squares += delays[point] ** 2
        for source, ends in self.outputs.items():
            for point, end in ends.items():
                late += cost_of(arrival[source] + delays[point] + end)
                if timing.arrival[source] + end > TARGET_PS - SQUARES_FROM_PS:
                    squares += delays[point] ** 2 / len(ends)
        across = sum((beyond(columns, *box[0]) for box in self.boxes), np.zeros(len(columns)))
        along = sum((beyond(rows, *box[1]) for box in self.boxes), np.zeros(len(rows)))
        return late + timing.wire_weight * (across[:, None] + along[None, :]) + SQUARE_WEIGHT * squares


def beyond(places, first, last):
    """Returns how far columns or rows are outside of a range."""
    return np.maximum(first - places, 0) + np.maximum(places - last, 0)


def cost_of(path):
    late = np.maximum(path - TARGET_PS, 0)
    return late + late**2 / SQUARED_PS


def move(timing: Timing, units) -> bool:
    """Moves units, which stay together, to the best free sites, if these are better than their own."""
    placement = timing.placement
    cells = [name for unit in units for name in unit]
    group = Group(timing, cells)
    if not group.points:
        return False
    columns, rows = group.window()
    costs = group.costs(columns, rows)
    here = costs[group.place[0] - columns[0], group.place[1] - rows[0]]
    better = np.argwhere(costs < here - GAIN)
    order = np.argsort(costs[better[:, 0], better[:, 1]], kind="stable")
    alone, before, misses = len(units) == 1, placement.where(cells), 0
    placement.take(cells)
    for column, row in better[order[: SITES_MAX if alone else GROUP_SITES_MAX]]:
        across, along = int(columns[column]) - group.place[0], int(rows[row]) - group.place[1]
        taken = []
        for unit in units:
            x, y = before[unit[0]][0]
            for to in ((x + across + a, y + along + b) for a, b in (AROUND[:1] if alone else AROUND)):
                if to in placement.logic and (sites := placement.sites(to, unit)):
                    placement.put({name: (to, site) for name, site in sites.items()})
                    taken += unit
                    break
            else:
                break
        if len(taken) == len(cells):
            # A group may have lost its form, because not all of its sites were free.
            if alone or cost_here(timing, cells) < here - GAIN:
                return True
            misses += 1
        placement.take(taken)
        placement.place.update({name: place for name, (place, _) in before.items()})
        placement.site.update({name: site for name, (_, site) in before.items()})
        if misses > MISSES_MAX:
            break
    placement.restore(before)
    return False


def cost_here(timing: Timing, cells) -> float:
    return Group(timing, cells).costs(*(np.array([at]) for at in timing.placement.place[cells[0]]))[0, 0]


def settle(timing: Timing, unit) -> bool:
    """Puts a unit that has lost its site on the best free one near its neighbours."""
    placement = timing.placement
    group = Group(timing, unit)
    columns, rows = group.window(SETTLE_MARGIN)
    costs = group.costs(columns, rows)
    for at in np.argsort(costs, axis=None, kind="stable")[:SITES_MAX]:
        column, row = np.unravel_index(at, costs.shape)
        place = (int(columns[column]), int(rows[row]))
        if place in placement.logic and (sites := placement.sites(place, unit)):
            placement.put({name: (place, site) for name, site in sites.items()})
            return True
    return False


def move_block(timing: Timing, block, unit_of) -> set[str]:
    """Moves a block to a better place, and the units that are there to other places, if all of them together are less late
    then. Returns the cells that have moved."""
    placement = timing.placement
    group = Group(timing, block)
    if not group.points:
        return set()
    columns, rows = group.window()
    costs = group.costs(columns, rows)
    here = costs[group.place[0] - columns[0], group.place[1] - rows[0]]
    better = np.argwhere(costs < here - GAIN)
    order = np.argsort(costs[better[:, 0], better[:, 1]], kind="stable")
    own, tries = placement.where(block), 0
    for column, row in better[order[:SITES_MAX]]:
        across, along = int(columns[column]) - group.place[0], int(rows[row]) - group.place[1]
        sites = {name: ((x + across, y + along), site) for name, ((x, y), site) in own.items()}
        if not all(place in placement.logic for place, _ in sites.values()):
            continue
        if (leaving := placement.cleared(sites, unit_of)) is None:
            continue
        others = [name for unit in leaving for name in unit]
        before = own | placement.where(others)
        cost = here + sum(cost_here(timing, unit) for unit in leaving)
        placement.take(before)
        placement.put(sites)
        if all(settle(timing, unit) for unit in leaving):
            now = cost_here(timing, block) + sum(cost_here(timing, unit) for unit in leaving)
            if now < cost - GAIN:
                return set(before)
        placement.restore(before)
        if (tries := tries + 1) == BLOCK_TRIES:
            break
    return set()


def grow(timing: Timing, unit, unit_of, settled) -> list[tuple[str, ...]]:
    """Returns a unit and units near it that late paths join with it."""
    group, waiting = [unit], list(unit)
    place = timing.placement.place
    while waiting:
        name = waiting.pop(0)
        near = [(timing.path(sink), cell_of(timing.source[sink])) for sink in timing.inputs[name]]
        for sinks in (timing.netlist.wires[source] for source in timing.outputs[name]):
            if len(sinks) <= FANOUT_MAX:
                near += [(timing.path(sink), cell_of(sink)) for sink, _ in sinks]
        for path, other in sorted(near, reverse=True):
            steps_between = sum(abs(a - b) for a, b in zip(place[name], place[other], strict=True))
            joined = unit_of.get(other)
            if path > TARGET_PS and joined and joined not in group and steps_between <= GROUP_STEPS:
                if len(group) < GROUP_MAX and settled.isdisjoint(joined):
                    group.append(joined)
                    waiting += joined
    return group


def refine(timing: Timing) -> list[int]:
    """Moves units, then groups of them, then blocks, and repeats this until it helps no more; leaves the best placement.
    Returns the longest delay before each round, and at the end."""
    placement = timing.placement
    units = placement.units()
    # Few places are free for a unit of more than two cells.
    blocks = placement.blocks() + [unit for unit in units if len(unit) > 2]
    unit_of = {name: unit for unit in units for name in unit}
    movable = list(dict.fromkeys(name for unit in [*units, *blocks] for name in unit))
    history, lateness = [timing.update()], [timing.lateness()]
    best = home = placement.where(movable)
    for number in range(ROUNDS_MAX):
        kind = ("unit", "group", "block")[number % 3]
        timing.wire_weight = max(WIRE_WEIGHT, FIRST_WIRE_WEIGHT / 2 ** (number // 3))
        longest = timing.longest()
        late = [(max(longest[name] for name in unit), unit) for unit in (blocks if kind == "block" else units)]
        # A unit that has moved may be better off nearer to its first place, when other units have moved, too.
        away = {unit for unit in units if any(placement.place[name] != home[name][0] for name in unit)}
        chosen = [item for item in late if item[0] > TARGET_PS or (kind == "unit" and item[1] in away)]
        # The delays around units that have moved are not known until the next round.
        settled = set()
        for _, unit in sorted(chosen, reverse=True):
            if not settled.isdisjoint(unit):
                continue
            moved = set()
            if kind == "block":
                moved = move_block(timing, unit, unit_of)
            else:
                group = [unit] if kind == "unit" else grow(timing, unit, unit_of, settled)
                if (kind == "unit" or len(group) > 1) and move(timing, group):
                    moved = {name for joined in group for name in joined}
            settled |= moved | timing.neighbours(moved)
        history.append(timing.update())
        lateness.append(timing.lateness())
        if lateness[-1] < min(lateness[:-1]):
            best = placement.where(movable)
        if not lateness[-1] or min(lateness[-ROUNDS_WITHOUT_GAIN:]) > 0.99 * min(
            lateness[:-ROUNDS_WITHOUT_GAIN], default=np.inf
        ):
            break
    placement.take(movable)
    placement.put(best)
    placement.write(movable)
    return [*history, timing.update()]


def refine_file(placed: pathlib.Path, sdf: pathlib.Path, refined: pathlib.Path) -> str:
    """Refines a design and writes it. Returns a line about the longest path and the length of all nets."""
    design = json.loads(placed.read_text())
    with sdf.open() as lines:
        netlist = paths.Netlist(lines)
    timing = Timing(netlist, Placement(design))
    nets = timing.half_perimeters()
    history = refine(timing)
    refined.write_text(json.dumps(design))
    return (
        f"the longest path had {history[0]} ps, and has {history[-1]} ps after {len(history) - 2} rounds; "
        f"the half perimeters of all nets were {nets}, and are {timing.half_perimeters()}"
    )


if __name__ == "__main__":
    print("refine:", refine_file(*map(pathlib.Path, sys.argv[1:])))

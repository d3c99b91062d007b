# SPDX-License-Identifier: Apache-2.0
"""Chooses the sites of the RAM blocks and multipliers of a placed ECP5-85K design so that their wires become short.

All blocks of a kind get their sites at once (linear sum assignment). The cost of a site is what the block adds there to
the half perimeters of its wires, with all other cells where they are; so this is repeated while the blocks have wires
with each other. The RAM blocks of the accounts keep their sites of floorplan.py.

The present table was chosen by the same method from the places that the cells have before nextpnr moves the blocks to
sites; only a changed nextpnr prints these. Usage: sites.py PLACED.json, which nextpnr has written; writes
transfer_core_sites.csv.
"""

import collections
import csv
import json
import pathlib
import sys

import floorplan
import numpy as np
import refine

ROUNDS = 6
# A net of more pins is that of the clock.
PINS_MAX = 3000
RAM_ROWS, MULTIPLIER_ROWS = (22, floorplan.ROW, 70, 82), (10, 34, 58)
MULTIPLIER_NUMBERS = {0: 0, 1: 1, 4: 4, 5: 5}  # by column in a group of nine


def all_sites() -> dict[str, list[str]]:
    """Returns the names of all sites by the type of their cells."""
    first_columns = floorplan.COLUMNS[::4]
    return {
        "DP16KD": [
            f"X{column}/Y{row}/EBR{at % 4}" for row in RAM_ROWS for at, column in enumerate(floorplan.COLUMNS)
        ],
        "MULT18X18D": [
            f"X{first + offset}/Y{row}/MULT18_{number}"
            for row in MULTIPLIER_ROWS
            for first in first_columns
            for offset, number in MULTIPLIER_NUMBERS.items()
        ],
    }


def place_of(site: str) -> tuple[int, int]:
    column, row = refine.PLACE.match(site).groups()
    return int(column), int(row)


def choose(cells: dict) -> dict[str, str]:
    """Returns a site for each block of a placed design."""
    import scipy.optimize  # the names of sites are of use without it

    place = {name: place_of(cell["attributes"]["NEXTPNR_BEL"]) for name, cell in cells.items()}
    pins = collections.defaultdict(set)
    for name, cell in cells.items():
        for bits in cell["connections"].values():
            for bit in bits:
                if isinstance(bit, int):
                    pins[bit].add(name)
    nets = collections.defaultdict(list)  # the other cells of each wire of a block
    for names in pins.values():
        if 1 < len(names) <= PINS_MAX:
            for name in names:
                if cells[name]["type"] in floorplan.BLOCKS:
                    nets[name].append(names - {name})
    accounts = floorplan.account_sites(cells)
    site = dict(accounts)
    place.update({name: place_of(at) for name, at in site.items()})

    def costs(name, places):
        boxes = []
        for others in nets[name]:
            at = np.array([place[other] for other in others])
            boxes.append((*at.min(axis=0), *at.max(axis=0)))
        left, low, right, high = np.array(boxes).T[:, :, None]
        column, row = np.array(places).T[:, None, :]
        return (
            np.maximum(left - column, 0)
            + np.maximum(column - right, 0)
            + np.maximum(low - row, 0)
            + np.maximum(row - high, 0)
        ).sum(axis=0)

    for _ in range(ROUNDS):
        for kind, sites in all_sites().items():
            free = [at for at in sites if at not in accounts.values()]
            places = [place_of(at) for at in free]
            names = sorted(name for name in nets if cells[name]["type"] == kind and name not in accounts)
            matrix = np.array([costs(name, places) for name in names])
            for row, column in zip(*scipy.optimize.linear_sum_assignment(matrix), strict=True):
                site[names[row]], place[names[row]] = free[column], places[column]
    return site


def write_table(placed: pathlib.Path):
    design = json.loads(placed.read_text())
    (cells,) = (module["cells"] for module in design["modules"].values() if "top" in module["attributes"])
    with floorplan.CORE_SITES.open("w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["cell", "site"])
        rows.writerows(sorted(choose(cells).items()))


if __name__ == "__main__":
    write_table(pathlib.Path(sys.argv[1]))

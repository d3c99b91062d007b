# SPDX-License-Identifier: Apache-2.0
"""Tables of results of area.py and fmax.py: one row for each design, in the order of the list of designs."""

import csv
import multiprocessing
import pathlib
import sys


def choose(program: str, designs, arguments, large=(), options=frozenset()):
    """Returns the designs that the arguments name, or all but the large ones; None if a name or an option is unknown. A
    design begins with its name.
    """
    if wrong := {argument for argument in arguments if argument.startswith("--")} - options:
        print(f"{program}: no such option: {', '.join(sorted(wrong))}", file=sys.stderr)
        return None
    names = [argument for argument in arguments if not argument.startswith("--")]
    unknown = set(names) - {design[0] for design in [*designs, *large]}
    if unknown:
        print(f"{program}: no such design: {', '.join(sorted(unknown))}", file=sys.stderr)
        return None
    return [design for design in [*designs, *large] if design[0] in names] if names else designs


def read(table: pathlib.Path) -> dict[str, dict]:
    """Returns the rows of a table by design; none if there is no table."""
    if not table.exists():
        return {}
    with table.open() as rows:
        return {row["design"]: row for row in csv.DictReader(rows)}


def write(table: pathlib.Path, columns, designs, rows: dict[str, dict]):
    """Writes the rows of the designs; rows of other designs are left out."""
    with table.open("w", newline="") as out:
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows[design[0]] for design in designs if design[0] in rows)


def measure(function, chosen, table: pathlib.Path, columns, designs, is_check: bool) -> dict[str, dict]:
    """Calls the function for each chosen design, in a process of its own, and returns its rows by design.

    Without is_check, the table is written after each design, so that a run that is stopped keeps what it has measured.
    A design without a row has failed.
    """
    known, done = read(table), {}
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        for row in pool.imap(function, chosen):
            if not row:
                continue
            done[row["design"]] = row
            if not is_check:
                write(table, columns, designs, known | done)
    return done

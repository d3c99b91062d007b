# SPDX-License-Identifier: Apache-2.0
"""Comparison of cycle counts with those that rtl/tb/cycles.csv records.

RTL_WRITE_CYCLES=1 writes the counts of the present RTL into the file.
"""

import csv
import os
import pathlib

TABLE = pathlib.Path(__file__).with_suffix(".csv")
COLUMNS = ["nic", "case", "cycles_per_frame", "latency_cycles"]
SLACK = 0.1
COUNT = 64  # frames of the shorter run


def measure(nic, name: str, case: str, frames: list[bytes], verdicts: set[str]) -> dict[str, str]:
    """Returns a row of the table. `frames` are sent in turn, and each must have one of the verdicts.

    The pipeline fills once in each run, so the cycles of a frame come from two runs of different lengths.
    """
    assert {one.verdict for one in nic.run(frames[:1])} <= verdicts, case
    latency = nic.latency()
    cycles = []
    for count in (COUNT, 2 * COUNT):
        left = nic.run([frames[at % len(frames)] for at in range(count)])
        assert {one.verdict for one in left} == verdicts, case
        cycles.append(nic.cycles)
    per_frame = (cycles[1] - cycles[0]) / COUNT
    return dict(zip(COLUMNS, [name, case, f"{per_frame:.2f}", str(latency)], strict=True))


def compare(name: str, rows: list[dict[str, str]]):
    """Fails if the cases are not those of the table, or a count differs by more than 10 % from it."""
    with TABLE.open() as table:
        recorded = list(csv.DictReader(table))
    if os.environ.get("RTL_WRITE_CYCLES"):
        recorded = sorted([row for row in recorded if row["nic"] != name] + rows, key=lambda row: row["nic"])
        with TABLE.open("w", newline="") as out:
            writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(recorded)
    expected = {row["case"]: row for row in recorded if row["nic"] == name}
    assert {row["case"] for row in rows} == set(expected)
    for row in rows:
        for column in COLUMNS[2:]:
            was, now = float(expected[row["case"]][column]), float(row[column])
            assert abs(now - was) <= SLACK * was, f"{name}, {row['case']}: {column} is {now}, and {was} in {TABLE.name}"

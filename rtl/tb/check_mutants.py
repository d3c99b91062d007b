# SPDX-License-Identifier: Apache-2.0
"""Checks that the text of every mutant of rtl/ occurs exactly once in its file, so that no mutant is lost when the RTL
changes; and that the tables of results describe the present mutants.

Run by scripts/rtl-lint.sh. It runs no mutant.
"""

import csv
import importlib.util
import pathlib
import sys

RTL = pathlib.Path(__file__).resolve().parents[1]
# Scripts with a list MUTANTS, whose first three fields are file, text and replacement; and the folder of the files.
LISTS = {"tb/mutants.py": ".", "tb/memory/mutants.py": ".", "transfer/tb/mutants.py": "transfer"}


def mutants_of(script):
    spec = importlib.util.spec_from_file_location("mutants", RTL / script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MUTANTS


def faults_of(script, folder):
    for number, (name, text, replacement, *_) in enumerate(mutants_of(script)):
        count = (RTL / folder / name).read_text().count(text)
        if count != 1:
            yield f"rtl/{script}: mutant {number}: {text!r} occurs {count} times in {name}; correct the mutant"
        if text == replacement:
            yield f"rtl/{script}: mutant {number} changes nothing"


def stale_results():
    """Results of mutants that have changed since they were run."""
    for script, table in {"tb/mutants.py": "mutants.csv", "transfer/tb/mutants.py": "transfer/mutants.csv"}.items():
        mutants = mutants_of(script)
        with (RTL / table).open() as file:
            rows = {int(row["mutant"]): row for row in csv.DictReader(file)}
        for number, mutant in enumerate(mutants):
            row = rows.pop(number, None)
            present = [" ".join(field.split()) for field in mutant[:3]]
            if row is None or present != [row["file"], row["text"], row["replacement"]]:
                yield f"rtl/{table}: mutant {number} has no result, or has changed since; run it"
        for number in rows:
            yield f"rtl/{table}: there is no mutant {number}"


def main():
    faults = [fault for script, folder in LISTS.items() for fault in faults_of(script, folder)] + [*stale_results()]
    for fault in faults:
        print(fault, file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())

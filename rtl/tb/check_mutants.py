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
    mutants = mutants_of("tb/mutants.py")
    with (RTL / "mutants.csv").open() as file:
        for row in csv.DictReader(file):
            present = [" ".join(field.split()) for field in mutants[int(row["mutant"])]]
            if present != [row["file"], row["text"], row["replacement"]]:
                yield f"rtl/mutants.csv: mutant {row['mutant']} has changed since its result; run it again"
    mutants = mutants_of("transfer/tb/mutants.py")
    with (RTL / "transfer/mutants.csv").open() as file:
        for row in csv.DictReader(file):
            name, _, _, description = mutants[int(row["mutant"])]
            if [name, description] != [row["file"], row["description"]]:
                yield f"rtl/transfer/mutants.csv: mutant {row['mutant']} has another description; run it again"


def main():
    faults = [fault for script, folder in LISTS.items() for fault in faults_of(script, folder)] + [*stale_results()]
    for fault in faults:
        print(fault, file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())

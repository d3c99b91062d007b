"""Runs a Yosys script with the native library pyosys. The options are those that SymbiYosys gives: -ql LOG SCRIPT."""

import os
import sys

from pyosys import libyosys as ys


def main() -> int:
    options, log, script = sys.argv[1:]
    assert options == "-ql", f"unknown options {options}"
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(out, 1)
    design = ys.Design()
    for line in open(script):
        line = line.split("#")[0].strip()
        if line:
            ys.run_pass(line, design)
    return 0


if __name__ == "__main__":
    sys.exit(main())

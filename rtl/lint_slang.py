# SPDX-License-Identifier: Apache-2.0
"""Elaborates a list of files with slang and fails on any warning: lint_slang.py LIST.f TOP [OPTION or FILE]..."""

import sys

import pyslang.driver


def main() -> int:
    with open(sys.argv[1], encoding="utf-8") as listed:
        files = listed.read().split()
    driver = pyslang.driver.Driver()
    driver.addStandardArgs()
    # In simulation, ls_ram clears its memory by an initial block.
    checks = ["-Wextra", "-Wconversion", "-Werror", "--allow-dup-initial-drivers"]
    command = ["slang", "--top", sys.argv[2], *checks, *sys.argv[3:], *files]
    if not driver.parseCommandLine(" ".join(command)) or not driver.processOptions():
        return 2
    if not driver.parseAllSources():
        return 1
    return 0 if driver.runFullCompilation(quiet=True) else 1


if __name__ == "__main__":
    sys.exit(main())

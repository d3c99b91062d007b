#!/usr/bin/env bash
# Checks the SystemVerilog of rtl/ with Verilator (-Wall), slang and verible. Waivers, with their reasons: rtl/lint.vlt,
# rtl/lint.verible, and the options below.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"
cd "$rtl_root/rtl"

verilator --lint-only --quiet -Wall --top-module ls_spv_core lint.vlt -f spv/spv.f
python3 lint_slang.py spv/spv.f ls_spv_core
# With external memory.
verilator --lint-only --quiet -Wall --top-module ls_spv_core -GMemoryLineBits=22 lint.vlt -f spv/spv.f
python3 lint_slang.py spv/spv.f ls_spv_core -G MemoryLineBits=22
mapfile -t sources < <(find . -name '*.sv')
verible-verilog-lint --rules_config=lint.verible "${sources[@]}"
echo "rtl-lint: ${#sources[@]} files without findings"

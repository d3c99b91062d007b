#!/usr/bin/env bash
# Checks the SystemVerilog of rtl/ with Verilator (-Wall), slang and verible. Waivers, with their reasons: rtl/lint.vlt,
# rtl/lint.verible, and the options below.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"
cd "$rtl_root/rtl"

verilator --lint-only --quiet -Wall --top-module ls_spv_core lint.vlt -f spv/spv.f
python3 lint_slang.py spv/spv.f ls_spv_core
verilator --lint-only --quiet -Wall --top-module ls_transfer_core lint.vlt -f transfer/transfer.f
python3 lint_slang.py transfer/transfer.f ls_transfer_core
mapfile -t sources < <(find . -name '*.sv')
verible-verilog-lint --rules_config=lint.verible "${sources[@]}"
echo "rtl-lint: ${#sources[@]} files without findings"

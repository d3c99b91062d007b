#!/usr/bin/env bash
# Checks the SystemVerilog of rtl/ with Verilator (-Wall), slang and verible. Waivers, with their reasons: rtl/lint.vlt,
# rtl/lint.verible, and the options below.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"
cd "$rtl_root/rtl"

lint=(verilator --lint-only --quiet -Wall lint.vlt)
nic=(-f spv/spv.f -f shells/nic.f)
opennic=(-Ishells/opennic/box_250mhz "${nic[@]}" -f shells/opennic/opennic.f shells/tb/box_250mhz.sv)
esnet=("${nic[@]}" -f shells/esnet-opennic/esnet.f shells/tb/esnet_shell.sv)
"${lint[@]}" --top-module ls_spv_core -f spv/spv.f
"${lint[@]}" --top-module ls_nic "${nic[@]}"
# Checks the wrappers against the port lists of the shells; that of OpenNIC with one port and with two.
"${lint[@]}" --top-module box_250mhz "${opennic[@]}"
"${lint[@]}" --top-module box_250mhz -GNUM_PHYS_FUNC=2 -GNUM_CMAC_PORT=2 "${opennic[@]}"
"${lint[@]}" --top-module esnet_shell "${esnet[@]}"
python3 lint_slang.py spv/spv.f ls_spv_core
python3 lint_slang.py spv/spv.f ls_nic -f shells/nic.f
python3 lint_slang.py spv/spv.f box_250mhz -I shells/opennic/box_250mhz "${opennic[@]:3}"
python3 lint_slang.py spv/spv.f esnet_shell "${esnet[@]:2}"
verilator --lint-only --quiet -Wall --top-module ls_transfer_core lint.vlt -f transfer/transfer.f
python3 lint_slang.py transfer/transfer.f ls_transfer_core
# Checks the NIC of `spv` with external memory.
verilator --lint-only --quiet -Wall --top-module ls_spv_core -GMemoryLineBits=22 lint.vlt -f spv/spv.f
python3 lint_slang.py spv/spv.f ls_spv_core -G MemoryLineBits=22
mapfile -t sources < <(find . -name '*.sv')
verible-verilog-lint --rules_config=lint.verible "${sources[@]}"
# Checks that each mutant still changes the RTL; the mutants themselves run by scripts/rtl-mutants.sh.
python3 tb/check_mutants.py
echo "rtl-lint: ${#sources[@]} files without findings"

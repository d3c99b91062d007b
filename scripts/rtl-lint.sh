#!/usr/bin/env bash
# Checks the SystemVerilog of rtl/ with Verilator (-Wall), slang and verible, and runs the tests of the scripts of
# rtl/syn. Waivers, with their reasons: rtl/lint.vlt, rtl/lint.verible, and the options below.
set -euo pipefail
bash "$(dirname "${BASH_SOURCE[0]}")/rtl-setup.sh"
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"
cd "$rtl_root/rtl"

lint=(verilator --lint-only --quiet -Wall lint.vlt)
nic=(-f spv/spv.f -f shells/nic.f)
opennic=(-Ishells/opennic/box_250mhz "${nic[@]}" -f shells/opennic/opennic.f shells/tb/box_250mhz.sv)
esnet=("${nic[@]}" -f shells/esnet-opennic/esnet.f shells/tb/esnet_shell.sv)
"${lint[@]}" --top-module ls_spv_core -f spv/spv.f
"${lint[@]}" --top-module ls_spv_core -DLS_SMALL_LUT_RAM -f spv/spv.f
"${lint[@]}" --top-module ls_nic "${nic[@]}"
"${lint[@]}" --top-module ls_nic -GTransfer=1 "${nic[@]}"
"${lint[@]}" --top-module ls_sim_nic "${nic[@]}" shells/sim/ls_sim_nic.sv
# Checks the wrappers against the port lists of the shells, for both services: that of OpenNIC with one network port and
# with two, without a PCIe function for DMA and with one; that of ESnet without virtual functions and with them.
for service in '' -DLINESIDE_TRANSFER; do
    for ports in 1 2; do
        for functions in "$ports" $((ports + 1)); do
            "${lint[@]}" $service --top-module box_250mhz -GNUM_PHYS_FUNC="$functions" -GNUM_CMAC_PORT="$ports" \
                "${opennic[@]}"
        done
    done
    "${lint[@]}" $service --top-module esnet_shell "${esnet[@]}"
    "${lint[@]}" $service --top-module esnet_shell -GHOST_NUM_IFS=1 "${esnet[@]}"
    python3 lint_slang.py spv/spv.f box_250mhz $service -G NUM_PHYS_FUNC=2 -I shells/opennic/box_250mhz \
        "${opennic[@]:3}"
    python3 lint_slang.py spv/spv.f esnet_shell $service "${esnet[@]:2}"
done
python3 lint_slang.py spv/spv.f ls_spv_core
python3 lint_slang.py spv/spv.f ls_nic -f shells/nic.f
python3 lint_slang.py spv/spv.f ls_sim_nic -f shells/nic.f shells/sim/ls_sim_nic.sv
verilator --lint-only --quiet -Wall --top-module ls_transfer_core lint.vlt -f transfer/transfer.f
"${lint[@]}" --top-module ls_transfer_core -DLS_SMALL_LUT_RAM -f transfer/transfer.f
python3 lint_slang.py transfer/transfer.f ls_transfer_core
# The store with the narrow types of the proofs.
(cd transfer && verilator --lint-only --quiet --top-module ls_transfer_store -DLS_TRANSFER_SMALL -f ls_transfer.f)
# Checks the NIC of `spv` with external memory.
verilator --lint-only --quiet -Wall --top-module ls_spv_core -GMemoryLineBits=22 lint.vlt -f spv/spv.f
python3 lint_slang.py spv/spv.f ls_spv_core -G MemoryLineBits=22
mapfile -t sources < <(find . -name '*.sv')
verible-verilog-lint --rules_config=lint.verible "${sources[@]}"
# Tests the scripts that change netlists and read delays.
python3 -m pytest --quiet -p no:cacheprovider syn/test_syn.py
# Checks that each mutant still changes the RTL; the mutants themselves run by scripts/rtl-mutants.sh.
python3 tb/check_mutants.py
echo "rtl-lint: ${#sources[@]} files without findings"

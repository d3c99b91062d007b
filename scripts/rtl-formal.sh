#!/usr/bin/env bash
# Proves the properties of rtl/formal/*.sby by k-induction: SymbiYosys with yices. The first run compiles WebAssembly
# into ~/.cache/YoWASP, which takes one to two minutes.
set -euo pipefail
bash "$(dirname "${BASH_SOURCE[0]}")/rtl-setup.sh" formal
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"

# SymbiYosys calls its tools by these names.
tools=$rtl_root/target/rtl-formal/bin
mkdir -p "$tools"
for tool in yosys yosys-smtbmc yosys-witness sby; do
    ln -sf "$rtl_venv/bin/yowasp-$tool" "$tools/$tool"
done
export PATH=$tools:$PATH
cd "${RTL_SOURCE:-$rtl_root/rtl}/formal"
status=0
for proof in ${*:-*.sby}; do
    name=$(basename "$proof" .sby)
    if sby -f -d "$rtl_root/target/rtl-formal/$name" "$name.sby" >"$rtl_root/target/rtl-formal/$name.log" 2>&1; then
        echo "rtl-formal: $name: proved"
    else
        echo "rtl-formal: $name: not proved, see target/rtl-formal/$name.log" >&2
        status=1
    fi
done
exit $status

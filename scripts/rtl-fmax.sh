#!/usr/bin/env bash
# Places and routes the modules of rtl/ on an ECP5-85K with Yosys and nextpnr, and writes rtl/syn/fmax.csv. Arguments
# are names of designs in rtl/syn/fmax.py; `--check` fails if a frequency is more than 10 % below the file. Takes more
# than an hour for all designs.
set -euo pipefail
bash "$(dirname "${BASH_SOURCE[0]}")/rtl-setup.sh" fmax
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"
cd "$rtl_root/rtl"
exec python3 syn/fmax.py "$@"

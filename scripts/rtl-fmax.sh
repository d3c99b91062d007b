#!/usr/bin/env bash
# Places and routes the modules of rtl/ on an ECP5-85K with Yosys and nextpnr, and writes rtl/syn/fmax.csv. Arguments
# are names of designs in rtl/syn/fmax.py; the two cores run only if they are named. `--check` fails if a frequency is
# more than 10 % below the file. All modules take more than an hour, and each core takes another one or more, with a
# native nextpnr; that of PyPI takes about ten times as long.
set -euo pipefail
bash "$(dirname "${BASH_SOURCE[0]}")/rtl-setup.sh" fmax
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"
cd "$rtl_root/rtl"
exec python3 syn/fmax.py "$@"

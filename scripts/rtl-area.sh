#!/usr/bin/env bash
# Counts the cells of rtl/ for UltraScale+ with Yosys: each module of the pipeline, and the whole. Counts only; Vivado
# was not run. With `--check`, fails if a count exceeds rtl/syn/area.csv by more than 10 %; without it, writes the file.
set -euo pipefail
bash "$(dirname "${BASH_SOURCE[0]}")/rtl-setup.sh" area
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"
cd "$rtl_root/rtl"
exec python3 syn/area.py "$@"

#!/usr/bin/env bash
# Runs the cocotb tests of rtl/tb: handshakes, back-pressure, reset and commands. The first build takes a minute or two.
set -euo pipefail
bash "$(dirname "${BASH_SOURCE[0]}")/rtl-setup.sh"
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"
cd "$rtl_root"
export PYTHONDONTWRITEBYTECODE=1
pytest --quiet -p no:cacheprovider rtl/tb/core rtl/tb/control rtl/tb/shells "$@"

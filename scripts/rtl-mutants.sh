#!/usr/bin/env bash
# Mutation test of rtl/: each mutant of rtl/tb/mutants.py must be found by the vectors, the random frames or a proof.
# Takes about half an hour on two cores; arguments are the numbers of single mutants.
set -euo pipefail
bash "$(dirname "${BASH_SOURCE[0]}")/rtl-setup.sh" formal
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"
cd "$rtl_root"
export PYTHONDONTWRITEBYTECODE=1
exec python3 rtl/tb/mutants.py "$@"

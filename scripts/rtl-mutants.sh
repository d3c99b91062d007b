#!/usr/bin/env bash
# Mutation test of rtl/: each mutant of rtl/tb/mutants.py must be found by the vectors, the random frames or a proof.
# Takes about half an hour on two cores; arguments are the numbers of single mutants. With `memory` as the first
# argument, it runs the mutants of rtl/tb/memory/mutants.py instead, which the random frames or the tests of external
# memory must find.
set -euo pipefail
bash "$(dirname "${BASH_SOURCE[0]}")/rtl-setup.sh" formal
source "$(dirname "${BASH_SOURCE[0]}")/rtl-env.sh"
cd "$rtl_root"
export PYTHONDONTWRITEBYTECODE=1
if [[ ${1:-} == memory ]]; then
    exec python3 rtl/tb/memory/mutants.py "${@:2}"
fi
exec python3 rtl/tb/mutants.py "$@"

#!/usr/bin/env bash
# Builds the Python package of crates/verify (clients/python-verify) as a wheel, installs it into a virtual environment
# below target/, and runs its tests, which compare its verdicts with those of the package `cryptography`. The wheel has
# a target folder of its own, so that nothing is built again that cargo has built for other tests.
#
# If Python 3.10 or the packages from the registries are missing, the tests are skipped with a line that says so.
# LINESIDE_CLIENT_PYTHON names another interpreter than python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python="${LINESIDE_CLIENT_PYTHON:-python3}"
folder=$PWD/target/python-verify
client=clients/python-verify
packages=('maturin>=1.9,<2' 'cryptography>=42' 'mypy>=1.11')

skip() {
    echo "test-verify-python: skipped: $1" >&2
    exit 0
}

"$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null ||
    skip "no Python 3.10 or newer with venv here"
if [ "$(cat "$folder/installed" 2>/dev/null)" != "${packages[*]}" ]; then
    rm -rf "$folder/venv"
    mkdir -p "$folder"
    "$python" -m venv "$folder/venv"
    "$folder/venv/bin/pip" install --quiet --disable-pip-version-check "${packages[@]}" >"$folder/pip.log" 2>&1 ||
        skip "pip cannot install ${packages[*]}, see $folder/pip.log"
    echo "${packages[*]}" >"$folder/installed"
fi
cargo fetch --quiet --locked --manifest-path "$client/Cargo.toml" 2>"$folder/fetch.log" ||
    skip "cargo cannot fetch the crates of $client/Cargo.lock, see $folder/fetch.log"

# The wheel is for this machine only, so it is not checked for other distributions (`--auditwheel skip`).
rm -rf "$folder/wheels"
"$folder/venv/bin/maturin" build --quiet --profile dev --locked --offline --auditwheel skip \
    --interpreter "$folder/venv/bin/python" --manifest-path "$client/Cargo.toml" --target-dir "$folder/build" \
    --out "$folder/wheels"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-index --force-reinstall "$folder"/wheels/*.whl
# The module inside of the package is not part of the interface.
echo lineside_verify.lineside_verify >"$folder/allowed"
"$folder/venv/bin/stubtest" --concise --allowlist "$folder/allowed" lineside_verify
"$folder/venv/bin/python" -B "$client/tests/test_verify.py"

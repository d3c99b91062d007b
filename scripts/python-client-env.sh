#!/usr/bin/env bash
# Makes the virtual environment of the tests of clients/python in target/python-client, if it is not there yet, and
# prints its path. Ends with code 3 and a line that says why if Python 3.9 or the packages are missing.
# LINESIDE_CLIENT_PYTHON names another interpreter than python3.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python="${LINESIDE_CLIENT_PYTHON:-python3}"
if ! "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo "no Python 3.9 or newer with venv here" >&2
    exit 3
fi
environment="$PWD/target/python-client"
stamp="$environment/installed"
if ! cmp --silent clients/python/pyproject.toml "$stamp"; then
    rm -rf "$environment"
    mkdir -p target
    "$python" -m venv "$environment"
    if ! "$environment/bin/pip" install --quiet --disable-pip-version-check --editable 'clients/python[hybrid,test]' \
        >"$environment/pip.log" 2>&1; then
        echo "pip cannot install the packages of the tests, see $environment/pip.log" >&2
        exit 3
    fi
    cp clients/python/pyproject.toml "$stamp"
fi
echo "$environment"

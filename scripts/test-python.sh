#!/usr/bin/env bash
# Tests the Python client in clients/python: types, shared vectors, and a real server of all services. The packages of
# the tests are installed in a virtual environment in target/. If Python 3.9 or its packages are missing, the tests are
# skipped with a line that says so. LINESIDE_CLIENT_PYTHON names another interpreter than python3, LINESIDE_BINARY an
# existing program `lineside`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python="${LINESIDE_CLIENT_PYTHON:-python3}"
if ! "$python" -c 'import sys, ensurepip, venv; sys.exit(sys.version_info < (3, 9))' 2>/dev/null; then
    echo "test-python: skipped: no Python 3.9 or newer with venv here" >&2
    exit 0
fi
environment="$PWD/target/python-client"
stamp="$environment/installed"
if ! cmp --silent clients/python/pyproject.toml "$stamp"; then
    rm -rf "$environment"
    mkdir -p target
    "$python" -m venv "$environment"
    if ! "$environment/bin/pip" install --quiet --disable-pip-version-check --editable 'clients/python[hybrid,test]' \
        >"$environment/pip.log" 2>&1; then
        echo "test-python: skipped: pip cannot install the packages of the tests, see $environment/pip.log" >&2
        exit 0
    fi
    cp clients/python/pyproject.toml "$stamp"
fi
LINESIDE_BINARY=$(bash scripts/debug-server.sh)
export LINESIDE_BINARY
export PYTHONDONTWRITEBYTECODE=1
cd clients/python
"$environment/bin/mypy" --no-error-summary --cache-dir "$environment/mypy"
"$environment/bin/mypy" --no-error-summary --cache-dir "$environment/mypy" tests bench
"$environment/bin/pytest" --quiet -p no:cacheprovider "$@"

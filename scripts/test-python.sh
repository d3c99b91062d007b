#!/usr/bin/env bash
# Tests the Python client in clients/python: types, shared vectors, and a real server of all services. The packages of
# the tests are installed in a virtual environment in target/. If Python 3.9 or its packages are missing, the tests are
# skipped with a line that says so. LINESIDE_CLIENT_PYTHON names another interpreter than python3, LINESIDE_BINARY an
# existing program `lineside`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! environment=$(bash scripts/python-client-env.sh 2>&1); then
    echo "test-python: skipped: $environment" >&2
    exit 0
fi
LINESIDE_BINARY=$(bash scripts/debug-server.sh)
export LINESIDE_BINARY
export PYTHONDONTWRITEBYTECODE=1
cd clients/python
"$environment/bin/mypy" --no-error-summary --cache-dir "$environment/mypy"
"$environment/bin/mypy" --no-error-summary --cache-dir "$environment/mypy" tests bench
"$environment/bin/pytest" --quiet -p no:cacheprovider "$@"

#!/usr/bin/env bash
# Builds the cargo feature `kafka` and tests it on a real broker. librdkafka's configure script requires a C++ compiler,
# although only C is compiled; if there is none, CXX names the C compiler. If Java or Maven is missing, the tests are
# skipped with a line that says so.
set -euo pipefail

if ! command -v c++ >/dev/null 2>&1 && ! command -v g++ >/dev/null 2>&1; then
    export CXX="${CXX:-${CC:-cc}}"
fi
exec cargo test -p lineside-log-kafka --features kafka --locked

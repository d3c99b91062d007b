#!/usr/bin/env bash
# Builds the cargo feature `kafka` and tests it on a real broker. librdkafka's configure wants a C++ compiler, though
# only C is compiled: where there is none it is shown the C compiler. The tests say by themselves where Java or Maven
# are missing.
set -euo pipefail

if ! command -v c++ >/dev/null 2>&1 && ! command -v g++ >/dev/null 2>&1; then
    export CXX="${CXX:-${CC:-cc}}"
fi
exec cargo test -p lineside-log-kafka --features kafka --locked

#!/usr/bin/env bash
# Measures the Python and the Go client against a real server on loopback, on the socket datapath, client and server on
# one core each, and judges the gates: 20,000 answers of `spv` and 100,000 transfers a second for Python, 100,000 and
# 500,000 for Go. Ends with code 1 if a gate is missed. Run it on a quiet machine with two cores; it takes two minutes.
# Usage: scripts/bench-clients.sh [python|go]...
# LINESIDE_BINARY names the program to measure, built for release; otherwise it is target/release/lineside.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

LINESIDE_BINARY=$(realpath -m "${LINESIDE_BINARY:-target/release/lineside}")
export LINESIDE_BINARY
if [ ! -x "$LINESIDE_BINARY" ]; then
    echo "bench-clients: there is no program $LINESIDE_BINARY; run \`cargo build --release -p lineside\`" >&2
    exit 2
fi

bench_python() {
    local environment
    environment=$(bash scripts/python-client-env.sh) || return
    "$environment/bin/python" clients/python/bench/gates.py --binary "$LINESIDE_BINARY"
}

bench_go() {
    bash clients/go/bench/run.sh
}

missed=0
[ $# -gt 0 ] || set -- python go
for client in "$@"; do
    case $client in
    python | go) "bench_$client" || missed=1 ;;
    *)
        echo "bench-clients: $client: give python or go" >&2
        exit 2
        ;;
    esac
done
exit "$missed"

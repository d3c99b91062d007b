#!/usr/bin/env bash
# Measures the Go clients: the client on core 1 with one thread of Go code, the server on core 0. LINESIDE_BINARY names
# another program than the newest in target/. Arguments go to the program, such as -rounds 5.
set -euo pipefail
cd "$(dirname "$0")/.."
go build -o ../../target/go-bench ./bench
GOMAXPROCS=1 taskset --cpu-list 1 ../../target/go-bench -server-core 0 "$@"

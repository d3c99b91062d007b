#!/usr/bin/env bash
# Tests the Go module in clients/go: formatting, vet, its own tests with the race detector, the shared vectors, and
# tests against a real server. Modules and the build cache stay in target/go. Without Go 1.25, or if the modules that
# it needs can neither be found nor downloaded, the tests are skipped with a line that says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

skip() {
    echo "test-go: skipped: $1"
    exit 0
}

command -v go >/dev/null || skip "there is no Go on the path"
export GOTOOLCHAIN=local GOFLAGS="-mod=readonly -modcacherw" GOWORK=off
export GOMODCACHE="$PWD/target/go/mod" GOCACHE="$PWD/target/go/build" GOPATH="$PWD/target/go"
minor=$(go env GOVERSION | sed -E 's/^go1\.([0-9]+).*/\1/')
[ "$minor" -ge 25 ] 2>/dev/null || skip "Go 1.25 is needed, and $(go env GOVERSION) is here"
(cd clients/go && go mod download 2>/dev/null) || skip "the modules that clients/go needs cannot be downloaded"

LINESIDE_BINARY=$(bash scripts/debug-server.sh)
export LINESIDE_BINARY

cd clients/go
unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { echo "test-go: run gofmt -w on: $unformatted" >&2; exit 1; }
go vet ./...
race=()
# The race detector needs cgo and a C compiler.
if [ "$(go env CGO_ENABLED)" = 1 ] && command -v cc >/dev/null; then
    race=(-race)
fi
go test "${race[@]}" ./...

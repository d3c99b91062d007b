#!/usr/bin/env bash
# Builds and runs all Rust tests. Two groups of test programs run at the same time, because many of them wait for
# servers, disks and clocks: the integration tests whose names begin with a to l, and all others with the unit tests.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo test --workspace --locked --no-run

output=$(mktemp)
cargo test --workspace --locked --no-fail-fast --test '[a-l]*' >"$output" 2>&1 &
group=$!
trap 'kill "$group" 2>/dev/null || true; rm -f "$output"' EXIT
failed=0
cargo test --workspace --locked --no-fail-fast --lib --bins --examples --test '[!a-l]*' || failed=1
wait "$group" || failed=1
trap 'rm -f "$output"' EXIT
cat "$output"
cargo test --workspace --locked --doc || failed=1
exit "$failed"

#!/usr/bin/env bash
# Builds and runs all tests. Four groups run at the same time, because many tests wait for servers, disks and clocks:
# the integration tests in Rust whose names begin with a to l; all other integration tests with the unit tests; and,
# with a lower priority because they also compile programs, the tests in other languages, and the examples of the
# documentation with the tests of lineside-verify without its default features. The output of the second group appears
# at once, and that of the others after it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo test --workspace --locked --no-run

output=$(mktemp -d)
groups=()
trap 'kill "${groups[@]}" 2>/dev/null || true; rm -rf "$output"' EXIT
cargo test --workspace --locked --no-fail-fast --test '[a-l]*' >"$output/a-l" 2>&1 &
groups+=($!)
nice -n 5 bash scripts/test-other-languages.sh >"$output/other-languages" 2>&1 &
groups+=($!)
nice -n 10 bash -euc '
    failed=0
    cargo test --workspace --locked --doc || failed=1
    cargo test -p lineside-verify --no-default-features --locked || failed=1
    bash scripts/test-verify-stack.sh || failed=1
    exit "$failed"
' >"$output/documentation" 2>&1 &
groups+=($!)

failed=0
cargo test --workspace --locked --no-fail-fast --lib --bins --examples --test '[!a-l]*' || failed=1
for group in "${groups[@]}"; do
    wait "$group" || failed=1
done
groups=()
cat "$output/a-l" "$output/other-languages" "$output/documentation"
exit "$failed"

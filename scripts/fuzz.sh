#!/usr/bin/env bash
# Runs every fuzz target under libFuzzer for SECONDS_EACH seconds (default: 60); TARGETS="xdp block" runs only these two
# targets. Ends at the first finding. Installs cargo-fuzz if it is missing. lab/fuzz/libfuzzer/README.md lists the
# assertions of the targets.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v cargo-fuzz >/dev/null; then
    echo "fuzz: cargo-fuzz is missing; running: cargo install cargo-fuzz --locked" >&2
    cargo install cargo-fuzz --locked
fi
# No sanitizer is used, so that stable Rust can build the targets.
cargo fuzz build --fuzz-dir lab/fuzz/libfuzzer --sanitizer none
for target in ${TARGETS:-$(cargo fuzz list --fuzz-dir lab/fuzz/libfuzzer)}; do
    echo "fuzz: $target, ${SECONDS_EACH:-60} s" >&2
    cargo fuzz run --fuzz-dir lab/fuzz/libfuzzer --sanitizer none "$target" -- \
        -max_total_time="${SECONDS_EACH:-60}" -timeout=10 -max_len=8192 -print_final_stats=1
done

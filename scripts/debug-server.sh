#!/usr/bin/env bash
# Builds the debug binary of `lineside` and prints its path. LINESIDE_BINARY names another binary, which is not built.
#
# Cargo builds the binary for an integration test of the whole workspace, as `make test` does. `cargo build -p lineside`
# would enable fewer features of shared dependencies, and so compile most crates a second time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -n "${LINESIDE_BINARY:-}" ]; then
    echo "$LINESIDE_BINARY"
    exit 0
fi
cargo test --workspace --locked --quiet --no-run --test daemon
cd "${CARGO_TARGET_DIR:-target}"
echo "$PWD/debug/lineside"

#!/usr/bin/env bash
# Builds the example of lineside-verify without optimisation, as users of the crate do in their `dev` profile, and runs
# it with the stack of a thread of Rust (2 MiB). The `dev` profile of this workspace optimises the crate.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

example=(--locked -p lineside-verify --example webauthn --config 'profile.dev.package.lineside-verify.opt-level=0')
cargo build "${example[@]}"
ulimit -s 2048
cargo run --quiet "${example[@]}" >/dev/null
echo "test-verify-stack: passed"

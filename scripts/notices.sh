#!/usr/bin/env bash
# Writes THIRD-PARTY-NOTICES: the packages from which the daemon is built, with their versions, licences and sources
# according to Cargo.lock. `cargo test -p lineside-tidy` fails if the file differs from the output of this script.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

LINESIDE_WRITE_NOTICES=1 cargo test --quiet --locked -p lineside-tidy --test notices

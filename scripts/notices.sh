#!/usr/bin/env bash
# Writes THIRD-PARTY-NOTICES: the packages that the daemon is built from, with their versions, licences and sources, as
# Cargo.lock has them. `cargo test -p lineside-tidy` fails where the file is not what this would write.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

LINESIDE_WRITE_NOTICES=1 cargo test --quiet --locked -p lineside-tidy --test notices

#!/usr/bin/env bash
# Tests the client of full nodes, and `lineside spv` with it, on a real btcd. The program is LINESIDE_BTCD, btcd on the
# path, or a btcd that Go installs into target/, which takes about a minute. If neither btcd nor Go is installed, the
# tests are skipped with a line that says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

VERSION=v0.26.2

if [ -z "${LINESIDE_BTCD:-}" ] && ! command -v btcd >/dev/null; then
    programs="$PWD/target/btcd-$VERSION"
    if [ ! -x "$programs/btcd" ] && command -v go >/dev/null; then
        echo "test-btcd: installing btcd $VERSION into $programs; this takes a minute" >&2
        GOBIN="$programs" GOTOOLCHAIN=local go install "github.com/btcsuite/btcd@$VERSION" ||
            echo "test-btcd: btcd cannot be installed" >&2
    fi
    [ ! -x "$programs/btcd" ] || export LINESIDE_BTCD="$programs/btcd"
fi
# Names the whole workspace, as `make test` does, because a single package has other features and would be built again.
cargo test --workspace --locked --test btcd --test spv_node --test spv_btcd

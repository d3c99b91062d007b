#!/usr/bin/env bash
# Tests the client of full nodes, and `lineside spv` with it, on a real btcd: LINESIDE_BTCD, or btcd on the path, or a
# btcd that Go installs into target/, which takes about a minute. If there is neither btcd nor Go, the tests are skipped
# with a line that says so.
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
# Builds the whole workspace, as `make test` has done: a single package has other features and would be built again.
cargo test --workspace --locked --test btcd --test spv_node --test spv_btcd

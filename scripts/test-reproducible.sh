#!/usr/bin/env bash
# Shows that the program of a release has the same bytes wherever it is built: clones the commit into two folders of
# different names and depths, builds it in both, and compares. Each build takes as long as `make package`.
#   scripts/test-reproducible.sh [PROGRAM]    PROGRAM, built by scripts/build-release.sh, spares the first build
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

work=$(mktemp -d "${TMPDIR:-/var/tmp}/lineside-reproducible.XXXXXX")
trap 'rm -rf "$work"' EXIT

build() { # FOLDER
    git clone --quiet --no-hardlinks . "$1"
    bash "$1/scripts/build-release.sh"
}

first=${1:-$(build "$work/one")}
second=$(build "$work/another/folder/two")
sha256sum "$first" "$second" >&2
if cmp "$first" "$second"; then
    echo "test-reproducible: equal" >&2
else
    echo "test-reproducible: FAILED: the programs differ" >&2
    exit 1
fi
if found=$(strings --all "$second" | grep -F -m 5 -e "$work" -e "$HOME/"); then
    printf 'test-reproducible: FAILED: the program contains paths of this machine:\n%s\n' "$found" >&2
    exit 1
fi

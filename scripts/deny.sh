#!/usr/bin/env bash
# Checks licences, sources and banned packages of Cargo.lock with cargo-deny, and installs it where it is missing.
# Security advisories are checked too, unless `--no-advisories` is given. Where their database cannot be fetched, that
# is said in one line, and the rest is still checked.
set -euo pipefail

VERSION=0.20.2

if ! cargo deny --version >/dev/null 2>&1; then
    echo "deny: installing cargo-deny $VERSION; this takes a few minutes" >&2
    cargo install cargo-deny --locked --version "$VERSION"
    # Where the folder of installed programs is not on the path.
    export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
fi

check() { cargo deny --locked check --hide-inclusion-graph "$@"; }

check bans licenses sources

[ "${1:-}" != --no-advisories ] || exit 0
# The same exit code tells of an advisory and of a database that cannot be had, so the database is fetched before.
if cargo deny --locked --log-level off fetch db >/dev/null 2>&1; then
    check --disable-fetch advisories
else
    echo "deny: advisories not checked: the database at github.com/RustSec/advisory-db cannot be fetched" >&2
fi

#!/usr/bin/env bash
# Checks licences, sources and banned packages of Cargo.lock with cargo-deny, which it installs if it is missing.
# Also checks security advisories, unless `--no-advisories` is given. If the database of advisories cannot be fetched,
# the script prints a line about that, and does the other checks.
set -euo pipefail

VERSION=0.20.2

if ! cargo deny --version >/dev/null 2>&1; then
    echo "deny: installing cargo-deny $VERSION; this takes a minute" >&2
    # Without optimization, which would take longer than the check.
    CARGO_PROFILE_DEV_DEBUG=false cargo install cargo-deny --debug --locked --version "$VERSION"
    # The folder of installed programs may not be on the path.
    export PATH="$PATH:${CARGO_HOME:-$HOME/.cargo}/bin"
fi

check() { cargo deny --locked check --hide-inclusion-graph "$@"; }

check bans licenses sources

[ "${1:-}" != --no-advisories ] || exit 0
# The exit code is the same for an advisory and for a database that cannot be fetched, so the database is fetched first.
if cargo deny --locked --log-level off fetch db >/dev/null 2>&1; then
    check --disable-fetch advisories
else
    echo "deny: advisories not checked: the database at github.com/RustSec/advisory-db cannot be fetched" >&2
fi

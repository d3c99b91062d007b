#!/usr/bin/env bash
# Tests the dashboard page: its functions in Node.js, and the page in Chromium with a real process of all services. As
# root, the script installs Chromium by apt if it is missing. A test whose program is missing is skipped with a line
# that says so.
#   scripts/test-dashboard.sh           the tests
#   scripts/test-dashboard.sh FOLDER    takes the screenshots of the README instead, into FOLDER; about six minutes
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

say() { printf 'test-dashboard: %s\n' "$*" >&2; }
skip() {
    say "skipped: $*"
    exit 0
}
have() { command -v "$1" >/dev/null 2>&1; }

scripts/dashboard.sh --if-possible
[ -e target/dashboard/index.html ] && [ -e dashboard/node_modules ] || skip "the page cannot be built here"

if [ $# -eq 0 ]; then
    (cd dashboard && npm run --silent test)
fi

if ! have chromium && [ "$(id -u)" = 0 ] && have apt-get; then
    say "installing chromium"
    { apt-get update -qq &&
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends chromium; } \
        >target/chromium.log 2>&1 || tail -n 3 target/chromium.log >&2
fi
chromium=$(command -v chromium || command -v chromium-browser || true)
[ -n "$chromium" ] || skip "Chromium is missing (apt-get install chromium)"

export LINESIDE_CHROMIUM=$chromium
if [ $# -gt 0 ]; then
    mkdir -p "$1"
    LINESIDE_SCREENSHOTS=$(realpath "$1")
    export LINESIDE_SCREENSHOTS
    # The release build is used, because the screenshots show its numbers.
    exec cargo test --release --locked -p lineside --test dashboard screenshots
fi
# Names the whole workspace, as `make test` does, because a single package has other features and would be built again.
exec cargo test --workspace --locked --test dashboard

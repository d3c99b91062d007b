#!/usr/bin/env bash
# Builds the dashboard page into target/dashboard, from which crates/console/build.rs embeds it. Does nothing if the
# page in target/dashboard is newer than its sources.
#   scripts/dashboard.sh               fails if Node.js or the packages are missing
#   scripts/dashboard.sh --if-possible prints a line about what is missing, and succeeds: the console then has a plain
#                                      page that says how to build the dashboard page
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../dashboard"

NEEDED="Node.js 20.19 or newer with npm"
built=../target/dashboard/index.html

say() { printf 'dashboard: %s\n' "$*" >&2; }
# Ends the script without a new page: with success for `--if-possible`, otherwise with an error.
without() {
    say "$1"
    [ "$mode" = --if-possible ] || exit 1
    if [ -e "$built" ]; then
        say "the page of an earlier build is kept"
    else
        say "the console gets a plain page without charts"
    fi
    exit 0
}
has_node() {
    command -v npm >/dev/null 2>&1 && node -e '
        const [major, minor] = process.versions.node.split(".").map(Number);
        process.exit(major > 22 || (major === 22 && minor >= 12) || (major === 20 && minor >= 19) ? 0 : 1)' 2>/dev/null
}
# Prints the sources that are newer than the built page.
changed() { find index.html package-lock.json src tsconfig.json vite.config.ts -newer "$built" -print -quit; }

mode=${1:-}
if [ -e "$built" ] && [ -z "$(changed)" ]; then
    exit 0
fi
has_node || without "$NEEDED is missing"
# npm writes this file at the end of an installation, so it shows that the packages are complete.
if [ ! -e node_modules/.package-lock.json ] || [ package-lock.json -nt node_modules/.package-lock.json ]; then
    say "installing the packages of package-lock.json"
    npm ci --no-progress --loglevel=error >&2 || without "the packages cannot be installed"
    touch node_modules/.package-lock.json
fi
say "building the page"
npm run --silent build >&2
touch "$built"

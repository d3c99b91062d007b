#!/usr/bin/env bash
# Tests clients/c/lineside_session.h against a real server: four devices at a time, each with a session of its own, move
# amounts between two accounts, while the server is killed and started again. The vectors run in `cargo test`. Without a
# C compiler the test is skipped with a line that says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if ! command -v cc >/dev/null; then
    echo "test-c: skipped: there is no C compiler (cc) on the path"
    exit 0
fi

LINESIDE_BINARY=$(bash scripts/debug-server.sh)
folder=$(mktemp -d)
server=
# Stops the server, if there is one, and waits for its end.
stop() {
    if [ -n "$server" ]; then
        kill "-$1" "$server" 2>/dev/null || true
        wait "$server" 2>/dev/null || true
        server=
    fi
}
trap 'stop TERM; rm -rf "$folder"' EXIT

# Starts the server at an address and waits until it has printed the address in use.
start() {
    : >"$folder/started"
    "$LINESIDE_BINARY" --json transfer serve --data "$folder/ledger" --listen "$1" --console 127.0.0.1:0 \
        --datapath socket >"$folder/started" 2>"$folder/log" &
    server=$!
    until grep -q listen "$folder/started"; do
        kill -0 "$server" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
        sleep 0.05
    done
    port=$(sed -E 's/.*"listen":"127\.0\.0\.1:([0-9]+)".*/\1/' "$folder/started")
}

cc -std=c99 -D_DEFAULT_SOURCE -Wall -Wextra -Werror -pedantic -O1 -fsanitize=undefined -fno-sanitize-recover \
    -o "$folder/session" clients/c/test/session.c
start 127.0.0.1:0
devices=()
for account in 1 3 5 7; do
    "$folder/session" 127.0.0.1 "$port" "$account" 1000 >"$folder/balances.$account" &
    devices+=($!)
done
# Time for some of the packets, not for all. If the devices have ended before, the kill shows nothing.
sleep 0.3
kill -0 "${devices[3]}" 2>/dev/null || echo "test-c: the devices ended before the server was killed"
stop KILL
start "127.0.0.1:$port"
for device in "${devices[@]}"; do
    wait "$device"
done
for account in 1 3 5 7; do
    # 1,000 packets move 3 there and 1 back.
    if [ "$(cat "$folder/balances.$account")" != "998000 2000" ]; then
        echo "test-c: account $account: $(cat "$folder/balances.$account"), not 998000 2000" >&2
        exit 1
    fi
done
echo "test-c: 4 devices executed 4,000 packets once each, although the server was killed"

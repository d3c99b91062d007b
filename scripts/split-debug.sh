#!/usr/bin/env bash
# Moves the debug information of a binary into BINARY.debug and strips the binary. Backtraces and gdb find the file
# through the link that stays in the binary. Does nothing where that was done already.
#
# Cargo cannot do this: with `split-debuginfo = "packed"` the line tables stay in the binary, and `strip = "debuginfo"`
# removes them from there, so that the .dwp file alone is of no use.
set -euo pipefail

binary=${1:?usage: split-debug.sh BINARY}
# Not `grep -q` behind a pipe: readelf would end by SIGPIPE.
if [[ "$(readelf --section-headers --wide "$binary")" != *" .debug_info "* ]]; then
    exit 0
fi
objcopy --only-keep-debug --compress-debug-sections=zlib "$binary" "$binary.debug"
objcopy --strip-debug --add-gnu-debuglink="$binary.debug" "$binary"

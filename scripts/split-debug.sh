#!/usr/bin/env bash
# Moves the debug information of a binary into BINARY.debug and strips the binary. Backtraces and gdb find the file
# through a link that stays in the binary. Does nothing if the binary has no debug information any more.
#
# Cargo cannot do this: with `split-debuginfo = "packed"` the line tables stay in the binary, from which
# `strip = "debuginfo"` removes them, and the .dwp file is useless without them.
set -euo pipefail

binary=${1:?usage: split-debug.sh BINARY}
# The output is compared without a pipe into `grep -q`, because SIGPIPE would then end readelf.
if [[ "$(readelf --section-headers --wide "$binary")" != *" .debug_info "* ]]; then
    exit 0
fi
objcopy --only-keep-debug --compress-debug-sections=zlib "$binary" "$binary.debug"
objcopy --strip-debug --add-gnu-debuglink="$binary.debug" "$binary"

#!/usr/bin/env bash
# Tests the clients in other languages, the peers of `spv`, the dashboard and the RTL, one after the other. Each script
# skips what needs a program that is missing here, and says so in a line. A failure does not stop the scripts after it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

failed=()
for name in btcd spv-peers dashboard c go python verify-python rtl; do
    echo "test-$name"
    bash "scripts/test-$name.sh" || failed+=("test-$name")
done
echo "test-rtl-transfer"
LINESIDE_RTL_OPERATIONS=20000 bash scripts/test-rtl-transfer.sh lint sim nic || failed+=("test-rtl-transfer")
if [ "${#failed[@]}" -gt 0 ]; then
    echo "test-other-languages: failed: ${failed[*]}" >&2
    exit 1
fi

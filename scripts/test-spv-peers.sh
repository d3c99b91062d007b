#!/usr/bin/env bash
# Tests `lineside spv` with ElectrumX and python-bitcoinlib, which pip installs into target/ (half a minute), and with
# Debian's wallet `electrum` if that is installed. A test whose program is missing is skipped with a line that says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

PACKAGES=(e-x==2.0.0 plyvel==1.5.1 python-bitcoinlib==0.12.2)

peers="$PWD/target/spv-peers"
if [ ! -x "$peers/bin/electrumx_server" ] && python3 -c 'import ensurepip, sys; assert sys.version_info >= (3, 10)' \
    2>/dev/null; then
    echo "test-spv-peers: installing ${PACKAGES[*]} into $peers" >&2
    { python3 -m venv "$peers" && "$peers/bin/pip" install --quiet --disable-pip-version-check "${PACKAGES[@]}"; } ||
        echo "test-spv-peers: the packages cannot be installed" >&2
fi
if [ -x "$peers/bin/electrumx_server" ]; then
    export LINESIDE_ELECTRUMX="$peers/bin/electrumx_server" LINESIDE_PYTHON="$peers/bin/python"
fi
# Names the whole workspace, as `make test` does, because a single package has other features and would be built again.
cargo test --workspace --locked --test spv_peers --test electrum

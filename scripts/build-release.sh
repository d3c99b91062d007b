#!/usr/bin/env bash
# Builds the program that `make package` packs, into target/reproducible, and prints its path. libelf and zlib are
# linked statically. Builds of the same commit with the same compiler and system libraries have the same bytes, in every
# folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

here=$PWD
crates=${CARGO_HOME:-$HOME/.cargo}
triple=$(rustc -vV | sed -n 's/^host: //p')
folder=$(gcc -print-multiarch 2>/dev/null || echo x86_64-linux-gnu)

# Replaces paths of this machine in the Rust and C code. crates/bpf-build does that for the XDP programs.
maps=("$here=/lineside" "$crates=/cargo")
for map in "${maps[@]}"; do
    RUSTFLAGS="${RUSTFLAGS:-} --remap-path-prefix=$map"
    CFLAGS="${CFLAGS:-} -ffile-prefix-map=$map"
done
# The commit identifies the build. The program contains no other mark of it, such as the date.
: "${LINESIDE_COMMIT=$(bash scripts/commit.sh)}"
export RUSTFLAGS CFLAGS LINESIDE_COMMIT
export CARGO_TARGET_DIR="$here/target/reproducible" CARGO_INCREMENTAL=0
export LIBBPF_SYS_LIBRARY_PATH="/usr/lib/$folder" LIBBPF_SYS_EXTRA_CFLAGS="$CFLAGS"
export LC_ALL=C TZ=UTC ZERO_AR_DATE=1

[ ! -e scripts/dashboard.sh ] || bash scripts/dashboard.sh >&2
[ -e "/usr/lib/$folder/libelf.a" ] || {
    echo "build-release: /usr/lib/$folder/libelf.a is missing: apt-get install libelf-dev zlib1g-dev" >&2
    exit 1
}
cargo build --release --locked -p lineside --features static --target "$triple" >&2
echo "$CARGO_TARGET_DIR/$triple/release/lineside"

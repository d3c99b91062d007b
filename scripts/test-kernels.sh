#!/usr/bin/env bash
# Boots Debian's kernel under qemu, loads every XDP program there and runs the tests: vectors, diff, veth, tap.
# Needs no root; needs apt (to download the kernel), qemu-system-x86_64, busybox and cpio, and says which is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

TESTS=(spv_vectors spv_diff spv_veth spv_tap transfer_vectors transfer_diff transfer_race transfer_veth transfer_tap)
MEMORY_MIB=3072
BOOT_SECONDS_MAX=900

say() { printf 'test-kernels: %s\n' "$*" >&2; }

skip() {
    say "skipped: $*"
    exit 0
}

for tool in qemu-system-x86_64 busybox cpio apt-get dpkg-deb; do
    command -v "$tool" >/dev/null ||
        skip "no $tool here; apt-get install qemu-system-x86 busybox-static cpio"
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fetch_kernel() {
    local package
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | tail -1)
    [ -n "$package" ] || skip "apt offers no linux-image-cloud-amd64"
    say "downloading $package"
    (cd "$work" && apt-get download -qq "$package" 2>/dev/null) || skip "apt cannot download $package"
    dpkg-deb -x "$work"/linux-image-*.deb "$work/kernel"
}

# Copies files and the libraries that they need, each to the same path.
copy() {
    local file
    for file in "$@"; do
        install -D "$file" "$work/root$file"
        { ldd "$file" 2>/dev/null || true; } | grep -o '/[^ ]*' | while read -r library; do
            [ -e "$work/root$library" ] || install -D "$library" "$work/root$library"
        done
    done
}

build_tests() {
    local test
    say "building the tests"
    cargo test --locked -q -p lineside-conformance --no-run
    : >"$work/tests"
    for test in "${TESTS[@]}"; do
        cargo test --locked -p lineside-conformance --test "$test" --no-run --message-format=json 2>/dev/null |
            sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1 >>"$work/tests"
    done
}

make_root() {
    local module test ip
    mkdir -p "$work"/root/{bin,proc,sys,dev,tmp,run,modules}
    install -D "$(command -v busybox)" "$work/root/bin/busybox"
    ip=$(readlink -f "$(command -v ip)")
    copy "$ip"
    mapfile -t binaries <"$work/tests"
    copy "${binaries[@]}"
    mkdir -p "$work/root$PWD"/lab/conformance # by which the tests find the vectors
    cp -r vectors "$work/root$PWD/vectors"
    for module in veth tun; do
        find "$work/kernel/lib/modules" -name "$module.ko" -exec cp {} "$work/root/modules" \;
    done
    {
        cat <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/sbin:/usr/bin:/usr/sbin RUST_BACKTRACE=0
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
mount -t bpf none /sys/fs/bpf
mkdir -p /dev/net; [ -e /dev/net/tun ] || mknod /dev/net/tun c 10 200
for module in /modules/*.ko; do insmod $module; done
echo "kernel $(uname -r)"
failed=0
INIT
        printf 'ln -sf %q /bin/ip\n' "$ip" # the ip of busybox lacks options
        echo 'ip link set lo up'
        for test in "${binaries[@]}"; do
            printf 'cd %q && %q --test-threads 1 || failed=1\n' "$PWD/lab/conformance" "$test"
        done
        echo 'echo "all tests ran, failed: $failed"; poweroff -f'
    } >"$work/root/init"
    chmod +x "$work/root/init"
    (cd "$work/root" && find . | cpio --quiet -o -H newc | gzip -1) >"$work/initrd"
}

# KVM is not used, because it is not reliable inside virtual machines; the tests do not depend on speed.
boot() {
    say "booting $(basename "$work"/kernel/boot/vmlinuz-*)"
    timeout "$BOOT_SECONDS_MAX" qemu-system-x86_64 -machine accel=tcg -cpu max -m "$MEMORY_MIB" -smp 2 \
        -kernel "$work"/kernel/boot/vmlinuz-* -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1" \
        -nographic -no-reboot </dev/null | tee "$work/console"
    grep -q 'all tests ran, failed: 0' "$work/console"
}

fetch_kernel
build_tests
make_root
if boot; then say "passed"; else
    say "FAILED"
    exit 1
fi

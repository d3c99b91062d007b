#!/usr/bin/env bash
# Shows that `make run` and `make test` work on a fresh system: makes one with debootstrap in a temporary folder, copies
# a clean clone of the committed files into it, and runs both there, as root and as an ordinary user.
#   scripts/test-fresh.sh [bookworm|noble]    Debian 12 (default) or Ubuntu 24.04
# Environment: MIRROR, source of the packages; STEPS, the steps to do, of "setup user run test"; TMPDIR.
# All steps run in separate mount, process and (for the servers) network namespaces, which end with the script, so no
# mount can remain. Exits with 0 if all steps passed, or if the machine does not permit the test (one line says so);
# otherwise with 1.
set -euo pipefail

say() { printf 'test-fresh: %s\n' "$*" >&2; }
skip() {
    say "skipped: $*"
    exit 0
}

distro=${1:-bookworm}
steps=${STEPS:-user run test}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# ---- in the namespaces ----

# Packages that a new user installs first, according to "Quick start" in README.md.
first_packages="ca-certificates git make"

enter() { # USER COMMAND
    local as=() home=/root
    [ "$1" = root ] || as=(--userspec=1000:1000) home=/home/newcomer
    chroot "${as[@]}" "$root" env -i "HOME=$home" LANG=C.UTF-8 TERM=dumb "PATH=$path" CARGO_HOME=/opt/crates \
        bash -euc "$2"
}
in_root() { enter root "$1"; }
# Runs a command in a separate network namespace: XDP attaches to the `lo` of the namespace, and no port is in use
# there.
in_own_net() { # USER COMMAND
    # shellcheck disable=SC2016
    unshare --net env "root=$root" "path=$path" bash -euc "$(declare -f enter)"'
        ip link set lo up
        enter "$@"' - "$@"
}

bootstrap() {
    local script=() keyring=() suite=$distro
    case "$distro" in
        bookworm) mirror=${MIRROR:-http://deb.debian.org/debian} components=main ;;
        noble)
            mirror=${MIRROR:-http://archive.ubuntu.com/ubuntu} components=main,universe
            # An older debootstrap lacks this release's script; the script of an older Ubuntu is the same.
            [ -e /usr/share/debootstrap/scripts/noble ] || script=(/usr/share/debootstrap/scripts/gutsy)
            if [ ! -e /usr/share/keyrings/ubuntu-archive-keyring.gpg ]; then
                say "ubuntu-keyring is missing, so the packages' signatures are not checked (the system is temporary)"
                keyring=(--no-check-gpg)
            fi
            ;;
        *) say "$distro is unknown; give bookworm or noble" && return 1 ;;
    esac
    say "making $distro from $mirror in $root"
    debootstrap --variant=minbase --components="$components" "${keyring[@]}" \
        "$suite" "$root" "$mirror" "${script[@]}" >"$work/debootstrap.log" 2>&1 || {
        tail -5 "$work/debootstrap.log" >&2
        return 1
    }
    # An installed system has these package sources as well.
    case "$distro" in
        bookworm) printf 'deb %s bookworm-updates main\ndeb %s-security bookworm-security main\n' "$mirror" "$mirror" ;;
        noble) printf 'deb %s noble-updates main universe\n' "$mirror" ;;
    esac >"$root/etc/apt/sources.list.d/updates.list"
}

mounts() {
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount --make-rslave "$root/dev"
    # The pins go into a separate BPF file system that ends with the script, not into the machine's /sys/fs/bpf.
    mount -t sysfs sysfs "$root/sys" && { mount -t bpf bpf "$root/sys/fs/bpf" || true; }
    cp --remove-destination /etc/resolv.conf "$root/etc/resolv.conf"
}

# Copies network settings of this machine: a proxy certificate that this machine trusts is trusted in the new system.
first_steps() {
    in_root "apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        $first_packages >/dev/null 2>&1"
    cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/" 2>/dev/null || return 0
    in_root "update-ca-certificates >/dev/null 2>&1"
}

# Mounts this machine's Rust toolchain read-only; if it has none, installs the newest stable one with rustup.
toolchain() {
    path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    local sysroot
    if sysroot=$(cd "$here" && rustc --print sysroot 2>/dev/null) && [ -x "$sysroot/bin/cargo" ]; then
        say "cargo: this machine's $("$sysroot/bin/cargo" --version), mounted read-only"
        mkdir -p "$root/opt/rust"
        mount --bind "$sysroot" "$root/opt/rust"
        mount -o remount,bind,ro "$root/opt/rust"
        path=/opt/rust/bin:$path
    else
        say "cargo: installing with rustup"
        in_root "apt-get install -y -qq --no-install-recommends curl >/dev/null
            export RUSTUP_HOME=/opt/rustup
            curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs |
                sh -s -- -y -q --profile minimal --no-modify-path"
        path=$(echo "$root"/opt/rustup/toolchains/*/bin | head -1):$path
        path=${path#"$root"}
    fi
}

# The first run installs the missing packages; the second finds none missing and prints nothing.
setup_step() {
    say "as root: make setup"
    in_root "cd /src/lineside && make setup"
    [ -z "$(in_root "cd /src/lineside && make setup" 2>&1)" ]
}

# For an ordinary user without sudo, setup prints the missing packages and stops. After their installation, everything
# runs on the socket datapath.
user_step() {
    in_root "useradd --create-home --uid 1000 newcomer && chown -R newcomer: /src/lineside /opt/crates"
    say "as an ordinary user, with packages missing: setup must print what to install, and stop"
    if enter newcomer "cd /src/lineside && make setup" 2>&1 | tee "$work/setup.log"; then
        say "make setup did not stop"
        return 1
    fi
    grep -q 'apt-get install' "$work/setup.log"
    setup_step
    say "as an ordinary user: make build, make run ARGS=--once"
    enter newcomer "cd /src/lineside && make build"
    in_own_net newcomer "cd /src/lineside && make run ARGS=--once" 2>&1 | tee "$work/user.log"
    grep -q 'on the socket datapath: ' "$work/user.log"
    grep -q 'from the fast path in user space' "$work/user.log"
}

# As root, installs the packages, builds, and runs the demonstration.
run_step() {
    say "as root: make build, make run ARGS=--once"
    in_root "cd /src/lineside && make build"
    local begun=$SECONDS
    in_own_net root "cd /src/lineside && make run ARGS=--once" 2>&1 | tee "$work/run.log"
    say "answers $((SECONDS - begun)) s after the build's end"
    grep -q '100.0 % asked again' "$work/run.log"
    grep -q 'from XDP' "$work/run.log" || say "not on XDP: $(grep 'on the socket datapath' "$work/run.log")"
}

test_step() {
    say "as root: make test"
    # Crates are downloaded first; the tests then have only their own network namespace.
    in_root "cd /src/lineside && make setup && cargo fetch --locked --quiet"
    in_own_net root "cd /src/lineside && CARGO_NET_OFFLINE=true make test"
}

inside() {
    work=$1 root=$1/root
    local step
    bootstrap || skip "$distro could not be made here (above)"
    mounts || skip "no mounts may be made here"
    first_steps
    toolchain
    git -c safe.directory='*' clone --quiet --no-hardlinks "$here" "$root/src/lineside"
    mkdir -p "$root/opt/crates"
    for step in $steps; do
        "${step}_step"
    done
    say "$distro: passed ($steps)"
}

if [ "${1:-}" = --inside ]; then
    distro=$3
    path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
    inside "$2"
    exit 0
fi

# ---- outside ----

[ "$(id -u)" -eq 0 ] || skip "only root can make a system to chroot into"
command -v debootstrap >/dev/null || skip "no debootstrap here: apt-get install debootstrap"
unshare --mount --pid --net --fork true 2>/dev/null || skip "no namespaces may be made here"

work=$(mktemp -d "${TMPDIR:-/var/tmp}/lineside-fresh.XXXXXX")
# Runs in the background, so that the script handles a signal at once; the processes inside end with `unshare`.
unshare --mount --pid --fork --kill-child --propagation private \
    bash "${BASH_SOURCE[0]}" --inside "$work" "$distro" &
child=$!
stop() {
    kill -KILL "$child" 2>/dev/null || true
    wait "$child" 2>/dev/null || true
    sleep 1
    exit 1
}
trap stop INT TERM HUP
# Removes only the folder: the mounts were in a namespace that has ended, and rm does not enter other file systems.
trap 'rm -rf --one-file-system "$work"' EXIT
if ! wait "$child"; then
    say "$distro: FAILED"
    exit 1
fi

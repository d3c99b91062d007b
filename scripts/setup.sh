#!/usr/bin/env bash
# Finds what the build needs on Debian 12 or Ubuntu 24.04, says what is missing, then installs it.
# Quick and silent when nothing is missing. Exits 1 only where the build cannot work.
set -euo pipefail

RUST_MINOR=89 # Rust 1.89: the first with stable AVX-512

say() { printf 'setup: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]; }
offered() { [[ "$(apt-cache policy "$1" 2>/dev/null)" == *"Candidate: "[0-9]* ]]; }

# Is the package there, or what it brings (also where another package manager brought it)?
present() {
    case "$1" in
        clang-19) have clang-19 || { have clang && have apt-cache && ! offered clang-19; } ;;
        gcc | make | pkg-config) have "$1" ;;
        iproute2) have ip || [ -x /sbin/ip ] ;;
        *) have dpkg-query && installed "$1" ;;
    esac
}

find_missing() {
    missing=()
    local package
    for package in clang-19 libelf-dev zlib1g-dev gcc libc6-dev make pkg-config iproute2 ca-certificates; do
        present "$package" || missing+=("$package")
    done
}

# Where apt does not offer clang-19, Debian's default clang (14) builds the BPF programs too.
replace_clang() {
    local i
    for i in "${!missing[@]}"; do
        if [ "${missing[$i]}" = clang-19 ] && ! offered clang-19; then
            say "apt does not offer clang-19 here; taking clang instead"
            missing[i]=clang
        fi
    done
}

# Without these the build cannot work: a C compiler, a BPF compiler, libelf and zlib (libbpf-sys links them).
buildable() {
    { have gcc || have cc; } && { have clang-19 || have clang; } &&
        [ -e /usr/include/libelf.h ] && [ -e /usr/include/zlib.h ]
}

carry_on_or_stop() {
    if buildable; then
        say "carrying on without: ${missing[*]}"
    else
        say "the build needs them; stopping"
        exit 1
    fi
}

install_missing() {
    find_missing
    [ ${#missing[@]} -gt 0 ] || return 0
    say "missing: ${missing[*]}"
    if ! have apt-get; then
        say "no apt-get here; install the same with your package manager"
        carry_on_or_stop
        return 0
    fi

    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        # Without a terminal, sudo may only be used if it asks for no password.
        if have sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
            as_root=(sudo)
        else
            replace_clang
            say "not root, and no sudo to use; please run this as root:"
            say "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
            carry_on_or_stop
            return 0
        fi
    fi

    say "will now run: ${as_root[*]:+${as_root[*]} }apt-get update, then install: ${missing[*]}"
    "${as_root[@]}" apt-get update -qq || say "apt-get update failed; trying with the lists that are here"
    replace_clang
    say "installing: ${missing[*]}"
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "${missing[@]}" >&2; then
        say "apt-get install failed (its reason is above)"
        carry_on_or_stop
    fi
}

check_cargo() {
    # rustup puts cargo here, and a shell opened before that does not know it yet.
    PATH="$PATH:${HOME:-/root}/.cargo/bin"
    local version='' major minor get
    version=$(cargo --version 2>/dev/null | cut -d' ' -f2) || version=''
    if [[ "$version" =~ ^([0-9]+)\.([0-9]+)\. ]]; then
        major=${BASH_REMATCH[1]} minor=${BASH_REMATCH[2]}
        if [ "$major" -gt 1 ] || { [ "$major" -eq 1 ] && [ "$minor" -ge "$RUST_MINOR" ]; }; then
            return 0
        fi
        say "cargo $version is too old; Lineside needs 1.$RUST_MINOR or newer. Get it with:"
    else
        say "no working cargo found; Lineside needs 1.$RUST_MINOR or newer. Get it with:"
    fi
    if have rustup; then
        get="rustup update stable && rustup default stable"
    elif have curl; then
        get="curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile default"
    else
        get="apt-get install -y rustup && rustup default stable"
        offered rustup || get="apt-get install -y curl ca-certificates &&
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y"
    fi
    say "  $get"
    exit 1
}

install_missing
check_cargo

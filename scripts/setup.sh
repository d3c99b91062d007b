#!/usr/bin/env bash
# Checks for the packages that the build needs on Debian 12 or Ubuntu 24.04, prints the missing ones, and installs them.
# If none is missing, the script is fast and prints nothing. It exits with 1 only if the build cannot work.
set -euo pipefail

RUST_MINOR=89 # Rust 1.89: the first with stable AVX-512

say() { printf 'setup: %s\n' "$*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null || true)" = installed ]; }
offered() { [[ "$(apt-cache policy "$1" 2>/dev/null)" == *"Candidate: "[0-9]* ]]; }

# Succeeds if the package, or its files from another package manager, are installed.
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

# If apt does not offer clang-19, the script installs Debian's default clang (14), which also builds the BPF programs.
replace_clang() {
    local i
    for i in "${!missing[@]}"; do
        if [ "${missing[$i]}" = clang-19 ] && ! offered clang-19; then
            say "apt does not offer clang-19; using clang instead"
            missing[i]=clang
        fi
    done
}

# Succeeds if the build can work: a C compiler, a BPF compiler, libelf and zlib (libbpf-sys links these two) exist.
buildable() {
    { have gcc || have cc; } && { have clang-19 || have clang; } &&
        [ -e /usr/include/libelf.h ] && [ -e /usr/include/zlib.h ]
}

carry_on_or_stop() {
    if buildable; then
        say "continuing without: ${missing[*]}"
    else
        say "the build needs these packages, so setup stops"
        exit 1
    fi
}

install_missing() {
    find_missing
    [ ${#missing[@]} -gt 0 ] || return 0
    say "missing: ${missing[*]}"
    if ! have apt-get; then
        say "apt-get is not available; install these packages with your package manager"
        carry_on_or_stop
        return 0
    fi

    local as_root=()
    if [ "$(id -u)" -ne 0 ]; then
        # Without a terminal, sudo can be used only if it needs no password.
        if have sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
            as_root=(sudo)
        else
            replace_clang
            say "setup does not run as root and cannot use sudo; run this as root:"
            say "  apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
            carry_on_or_stop
            return 0
        fi
    fi

    say "running: ${as_root[*]:+${as_root[*]} }apt-get update, then install: ${missing[*]}"
    "${as_root[@]}" apt-get update -qq || say "apt-get update failed; continuing with the existing package lists"
    replace_clang
    say "installing: ${missing[*]}"
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq -o Dpkg::Use-Pty=0 --no-install-recommends "${missing[@]}" >&2; then
        say "apt-get install failed; the messages above give the reason"
        carry_on_or_stop
    fi
}

check_cargo() {
    # rustup installs cargo in this folder, which the path of a shell that was opened earlier may not contain.
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
        say "cargo is missing or does not work; Lineside needs 1.$RUST_MINOR or newer. Get it with:"
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

#!/usr/bin/env bash
# Tests the files that `make package` has written into target/package: the checksums, the Debian package (its content,
# lintian, an installation), the tarball, the list of contents (SBOM), the image and the compose file. Then runs the
# service under systemd in a container: start, crash, watchdog, stop, upgrade, removal.
#   scripts/test-package.sh [STEP...]
# STEP is deb, tarball, sbom, image, engine, compose or systemd; all of them by default.
# Environment: MIRROR, source of the packages for the container; KEEP=1 keeps the work folder.
# A step that needs a program or a right that is missing says so in one line and is skipped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

MIRROR=${MIRROR:-http://deb.debian.org/debian}
COMPOSE_GO=v2.16.2
BOOT_SECONDS_MAX=180

out=$PWD/target/package
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
name=lineside-$version-x86_64-linux
deb=$out/lineside_$version-1_amd64.deb

say() { printf 'test-package: %s\n' "$*" >&2; }
fail() {
    say "FAILED: $*"
    exit 1
}
lacks() { # STEP PROGRAM...
    local step=$1 program
    shift
    for program in "$@"; do
        command -v "$program" >/dev/null || {
            say "$step: skipped: no $program here"
            return 0
        }
    done
    return 1
}

[ -e "$out/SHA256SUMS" ] || fail "target/package is empty: run \`make package\` first"
work=$(mktemp -d "${TMPDIR:-/var/tmp}/lineside-package.XXXXXX")
cleanup() {
    for mounted in "$work/bpf" "$work/system"; do
        ! mountpoint -q "$mounted" || umount "$mounted"
    done
    [ -n "${KEEP:-}" ] || rm -rf --one-file-system "$work"
}
trap cleanup EXIT

# Runs a program as an operator does at first: prints its version, and starts `transfer` in user space.
try_program() { # COMMAND...
    local version_text started
    version_text=$("$@" --version)
    [[ "$version_text" == "lineside $version"$'\n'"commit:   "*"features: kafka"* ]] || fail "--version: $version_text"
    started=$("$@" run --once --json --set transfer.enabled=true --set 'transfer.data="ledger"' \
        --set 'datapath.kind="socket"' --set 'transfer.listen="127.0.0.1:0"' --set 'console.listen="127.0.0.1:0"')
    [[ "$started" == *'"name":"transfer"'* ]] || fail "run --once: $started"
}

test_sums() {
    (cd "$out" && sha256sum --check --quiet SHA256SUMS) || fail "SHA256SUMS"
}

test_deb() {
    lacks deb dpkg-deb && return
    local fields files file depends
    fields=$(dpkg-deb --field "$deb")
    depends=$(sed -n 's/^Depends: //p' <<<"$fields")
    # The package must depend only on the C library, the compiler's run-time library, and a program that makes its user.
    [[ "$depends" == libc6* ]] || fail "deb: Depends: $depends"
    ! readelf --dynamic "$out/root/usr/bin/lineside" | grep -q 'NEEDED.*libgcc_s' ||
        [[ "$depends" == *" libgcc-s1"* ]] ||
        fail "deb: the program is linked with libgcc_s.so.1, and Depends does not name libgcc-s1: $depends"
    [[ -z "$(tr ',' '\n' <<<"$depends" | grep -v '^ *\(libc6\|libgcc-s1\|systemd\)\( \|$\)')" ]] ||
        fail "deb: depends on $depends; was the program built by scripts/build-release.sh?"
    files=$(dpkg-deb --contents "$deb" | awk '{print $6}')
    for file in usr/bin/lineside etc/lineside/lineside.toml usr/lib/systemd/system/lineside.service \
        usr/lib/sysusers.d/lineside.conf usr/share/man/man1/lineside.1.gz usr/share/man/man1/lineside-spv-get.1.gz \
        usr/share/bash-completion/completions/lineside usr/share/zsh/vendor-completions/_lineside \
        usr/share/fish/vendor_completions.d/lineside.fish usr/share/doc/lineside/copyright \
        usr/share/doc/lineside/changelog.Debian.gz usr/share/doc/lineside/third-party-licenses.txt.gz \
        usr/share/doc/lineside/lineside.json usr/share/doc/lineside/lineside.rules.yml \
        usr/share/doc/lineside/README.md usr/share/doc/lineside/docs/operations.md \
        usr/share/doc/lineside/docs/bench/results.md usr/share/doc/lineside/examples/transfer.toml; do
        grep -qE "^(\./)?$file$" <<<"$files" || fail "deb: no $file"
    done
    dpkg-deb --info "$deb" conffiles | grep -qx /etc/lineside/lineside.toml ||
        fail "deb: lineside.toml is not a conffile"
    if ! lacks "deb (lintian)" lintian; then
        # Two tags are suppressed: the first version closes no bug of Debian, and zlib is linked statically on purpose.
        lintian --allow-root --fail-on error,warning \
            --suppress-tags initial-upload-closes-no-bugs,embedded-library "$deb" >&2 || fail "lintian"
    fi
    say "deb: passed"
}

test_tarball() {
    tar -xJf "$out/$name.tar.xz" -C "$work"
    cmp "$work/$name/bin/lineside" "$out/root/usr/bin/lineside" || fail "tarball: another program"
    say "tarball: the program needs $(ldd "$work/$name/bin/lineside" | awk '{print $1}' | xargs)"
    (mkdir -p "$work/tarball" && cd "$work/tarball" && try_program "$work/$name/bin/lineside")
    bash -n "$work/$name/share/bash-completion/completions/lineside" || fail "tarball: bash completions"
    # shellcheck disable=SC2016
    local words
    words=$(bash -c 'source "$1"; COMP_WORDS=(lineside spv ge) COMP_CWORD=2; _lineside lineside ge spv
        echo "${COMPREPLY[*]}"' - "$work/$name/share/bash-completion/completions/lineside")
    [ "$words" = get ] || fail "tarball: bash completes \`lineside spv ge\` to: $words"
    say "tarball: passed"
}

test_sbom() {
    python3 - "$out/lineside-$version.cdx.json" Cargo.lock <<'PYTHON' || fail "sbom"
import json, sys, tomllib
bom = json.load(open(sys.argv[1]))
locked = {(one["name"], one["version"]) for one in tomllib.load(open(sys.argv[2], "rb"))["package"]}
listed = {(one["name"], one["version"]) for one in bom["components"]}
assert bom["bomFormat"] == "CycloneDX", bom["bomFormat"]
assert listed <= locked, listed - locked
names = {name for name, _ in listed}
assert {"tokio", "rdkafka-sys", "libbpf-sys", "lineside-spv"} <= names, "packages of the program are missing"
assert not {"proptest", "criterion", "lineside-bench"} & names, "packages of tests are listed"
assert "serialNumber" not in bom, "not reproducible"
print(f"test-package: sbom: passed ({len(listed)} packages)", file=sys.stderr)
PYTHON
}

test_image() {
    [ -e "$out/$name.oci.tar" ] || { say "image: skipped: make package made none"; return; }
    python3 scripts/unpack-image.py "$out/$name.oci.tar" "$work/image" || fail "image: unpacking"
    if [ "$(id -u)" -ne 0 ]; then
        say "image: not run: only root can chroot"
        return
    fi
    try_program unshare --root="$work/image" --wd=/var/lib/lineside --setgid=7700 --setuid=7700 /usr/bin/lineside
    say "image: passed ($(du -sh "$work/image" | cut -f1))"
}

# Runs the image with podman, with the rights that compose.yaml gives it. The server must serve, have its data after
# kill -9 and a new start, and end at SIGTERM with code 0.
test_engine() {
    lacks engine podman curl && return
    [ "$(id -u)" -eq 0 ] || { say "engine: skipped: only root is tried"; return; }
    [ -e "$out/$name.oci.tar" ] || { say "engine: skipped: make package made no image"; return; }
    local runtime container address
    local options=(--root "$work/podman" --runroot "$work/podman-run" --storage-driver vfs --cgroup-manager cgroupfs)
    podman "${options[@]}" load --quiet --input "$out/$name.oci.tar" >/dev/null || fail "engine: podman load"
    # Each of the two runtimes refuses some arrangements of control groups.
    for runtime in crun runc; do
        podman "${options[@]}" --runtime "$runtime" run --rm --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 \
            --network host "lineside:$version" --version >/dev/null 2>"$work/$runtime.log" && break
        [ "$runtime" = crun ] || { say "engine: skipped: $(tail -1 "$work/runc.log")"; return; }
    done
    pod() { podman "${options[@]}" --runtime "$runtime" "$@"; }
    container=$(pod create --ulimit nofile=1024:1024 --ulimit nproc=4096:4096 --network host --read-only \
        --cap-drop all --security-opt no-new-privileges --volume data:/var/lib/lineside "lineside:$version" run \
        --set 'transfer.enabled=true' --set 'transfer.data="ledger"' --set 'datapath.kind="socket"' \
        --set 'transfer.listen="127.0.0.1:17702"' --set 'console.listen="127.0.0.1:17700"')
    start() {
        pod start "$container" >/dev/null
        curl --silent --retry 40 --retry-connrefused --retry-delay 1 --fail http://127.0.0.1:17700/healthz >/dev/null ||
            fail "engine: /healthz: $(pod logs "$container" 2>&1 | tail -5)"
    }
    address=(--server 127.0.0.1:17702)
    start
    "$out/root/usr/bin/lineside" transfer create 1 100 "${address[@]}" >/dev/null || fail "engine: create"
    pod kill --signal KILL "$container" >/dev/null && pod wait "$container" >/dev/null
    start
    [[ $("$out/root/usr/bin/lineside" transfer refer 1 "${address[@]}") == "1: 100"* ]] ||
        fail "engine: the balance after kill -9"
    pod stop "$container" >/dev/null
    [ "$(pod inspect --format '{{.State.ExitCode}}' "$container")" = 0 ] || fail "engine: exit code after SIGTERM"
    pod rm "$container" >/dev/null
    say "engine: passed (podman, $runtime)"
}

test_compose() {
    local file model service
    for file in lineside ledger; do
        LINESIDE_NODE_PASSWORD=simnet "$out/root/usr/bin/lineside" check-config "packaging/compose/$file.toml" \
            >"$work/$file.log" 2>&1 || fail "compose: $file.toml: $(cat "$work/$file.log")"
    done
    if docker compose version >/dev/null 2>&1; then
        model=$(docker compose --file packaging/compose.yaml config --format json) ||
            fail "compose: docker compose config"
    elif ! lacks compose go; then
        # compose-go has the loader and the schema of `docker compose`, and needs no Docker.
        model=$(GOFLAGS=-mod=mod GOTOOLCHAIN=local go run \
            "github.com/compose-spec/compose-go/v2/cmd@$COMPOSE_GO" -format json packaging/compose.yaml) ||
            fail "compose: compose-go refuses compose.yaml"
    else
        return
    fi
    for service in lineside ledger-1 ledger-2 btcd kafka prometheus grafana; do
        grep -q "\"$service\": {" <<<"$model" || fail "compose: no service $service"
    done
    say "compose: passed"
}

# Creates a Debian with systemd once and keeps it in target/. The test runs in an overlay over it.
bootstrap() {
    base=$PWD/target/package-test/bookworm
    [ ! -e "$base.done" ] || return 0
    say "systemd: making Debian 12 from $MIRROR in $base"
    rm -rf --one-file-system "$base" && mkdir -p "$base"
    debootstrap --variant=minbase --include=systemd,systemd-sysv,dbus,init-system-helpers,iproute2,procps bookworm \
        "$base" "$MIRROR" >"$work/debootstrap.log" 2>&1 || {
        tail -3 "$work/debootstrap.log" >&2
        return 1
    }
    touch "$base.done"
}

test_systemd() {
    lacks systemd debootstrap systemd-nspawn && return
    [ "$(id -u)" -eq 0 ] || { say "systemd: skipped: only root can start a container"; return; }
    bootstrap || { say "systemd: skipped: no system could be made (above)"; return; }
    local system=$work/system
    mkdir -p "$system" "$work/upper" "$work/overlay"
    mount -t overlay overlay -o "lowerdir=$base,upperdir=$work/upper,workdir=$work/overlay" "$system" 2>/dev/null || {
        say "systemd: skipped: no overlay may be mounted here"
        return
    }
    cp "$deb" "$system/root/lineside.deb"
    install -m 755 scripts/test-package-inside.sh "$system/root/check.sh"
    cat >"$system/etc/systemd/system/check.service" <<'UNIT'
[Unit]
Description=Test of the package
After=multi-user.target
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/bin/bash /root/check.sh
StandardOutput=file:/root/check.log
StandardError=inherit
[Install]
WantedBy=multi-user.target
UNIT
    ln -s ../check.service "$system/etc/systemd/system/multi-user.target.wants/check.service"
    # The container gets a separate BPF file system, so that the service can pin its maps.
    local bpf=()
    mkdir "$work/bpf"
    mount -t bpf bpf "$work/bpf" 2>/dev/null && bpf=(--bind="$work/bpf:/sys/fs/bpf")
    timeout --signal=KILL "$BOOT_SECONDS_MAX" systemd-nspawn --quiet --directory="$system" --register=no --keep-unit \
        --private-network --capability=CAP_BPF,CAP_NET_ADMIN,CAP_PERFMON --system-call-filter=bpf \
        "${bpf[@]}" --boot \
        </dev/null >"$work/console" 2>&1 || true
    if ! grep -qx 'all checks passed' "$system/root/check.log" 2>/dev/null; then
        if [ ! -e "$system/root/check.log" ]; then
            tail -20 "$work/console" >&2
            fail "systemd: the container did not boot"
        fi
        cat "$system/root/check.log" >&2
        fail "systemd"
    fi
    grep '^check: ' "$system/root/check.log" >&2
    say "systemd: passed"
}

test_sums
for step in "${@:-deb tarball sbom image engine compose systemd}"; do
    for one in $step; do "test_$one"; done
done
say "passed"

#!/usr/bin/env bash
# Writes the release files into target/package: a Debian package, a tarball, a container image, the compose file, a list
# of what the program contains (SBOM) and SHA256SUMS. docs/install.md says how to install them.
# Environment: LINESIDE_PROGRAM, a built program to pack instead of a new one (for tests of the packages).
# Needs cargo-deb and cargo-cyclonedx, which it installs into target/tools if they are missing, and buildah for the
# image. The files are the same bytes for the same commit and the same system libraries.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

CARGO_DEB=3.8.0
CARGO_CYCLONEDX=0.5.9

say() { printf 'package: %s\n' "$*" >&2; }

version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
out=$PWD/target/package
root=$out/root # the files as a system has them
name=lineside-$version-x86_64-linux
# Every file and archive gets the time of the commit.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || echo 1)}"
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

tool() { # NAME VERSION
    command -v "$1" >/dev/null && return 0
    export PATH="$PWD/target/tools/bin:$PATH"
    command -v "$1" >/dev/null && return 0
    say "installing $1 $2 into target/tools; this takes some minutes"
    cargo install "$1" --version "$2" --locked --no-default-features --root target/tools
}

# Writes a tar archive of files in a folder. Its bytes do not depend on the files' owner, order or time.
archive() { # FOLDER NAMES...
    tar --create --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" --format=gnu \
        --directory "$@"
}

stage_program() {
    local program=${LINESIDE_PROGRAM:-}
    [ -n "$program" ] || program=$(bash scripts/build-release.sh)
    rm -rf "$out"
    mkdir -p "$root/usr/bin"
    # The debug information and the symbols are moved into a separate file, whose name is stored in the program.
    objcopy --only-keep-debug "$program" "$out/lineside.debug"
    strip --strip-all -o "$root/usr/bin/lineside" "$program"
    (cd "$out" && objcopy --add-gnu-debuglink=lineside.debug root/usr/bin/lineside)
    chmod 755 "$root/usr/bin/lineside"
    xz --threads=1 -6 --stdout "$out/lineside.debug" >"$out/$name.debug.xz"
    rm "$out/lineside.debug"
}

stage_documents() {
    local share=$root/usr/share lineside=$root/usr/bin/lineside
    mkdir -p "$share"/{man/man1,doc/lineside} \
        "$share"/{bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
    "$lineside" man "$share/man/man1" >&2
    "$lineside" completions bash >"$share/bash-completion/completions/lineside"
    "$lineside" completions zsh >"$share/zsh/vendor-completions/_lineside"
    "$lineside" completions fish >"$share/fish/vendor_completions.d/lineside.fish"
    python3 scripts/third-party-licenses.py kafka,static | gzip -9n >"$share/doc/lineside/third-party-licenses.txt.gz"
    gzip -9nc THIRD-PARTY-NOTICES >"$share/doc/lineside/THIRD-PARTY-NOTICES.gz"
    gzip -9nc CHANGELOG.md >"$share/doc/lineside/changelog.gz"
    cp NOTICE README.md packaging/grafana/lineside.json packaging/prometheus/lineside.rules.yml "$share/doc/lineside"
}

package_deb() {
    tool cargo-deb "$CARGO_DEB"
    cargo deb --quiet --no-build --no-strip --locked -p lineside --output "$out/"
}

package_tarball() {
    local folder=$out/$name share
    share=$folder/share
    mkdir -p "$folder/bin" "$share"/{man,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d,doc}
    cp "$root/usr/bin/lineside" "$folder/bin"
    cp -r "$root/usr/share/man/man1" "$share/man"
    cp "$root/usr/share/bash-completion/completions/lineside" "$share/bash-completion/completions"
    cp "$root/usr/share/zsh/vendor-completions/_lineside" "$share/zsh/site-functions"
    cp "$root/usr/share/fish/vendor_completions.d/lineside.fish" "$share/fish/vendor_completions.d"
    cp -r "$root/usr/share/doc/lineside" docs "$share/doc"
    mv "$share/doc/docs" "$share/doc/lineside/docs"
    cp lineside.toml packaging/lineside.service packaging/lineside.sysusers README.md CHANGELOG.md LICENSE NOTICE \
        THIRD-PARTY-NOTICES "$folder"
    cp -r LICENSES "$folder/LICENSES"
    archive "$out" "$name" | xz --threads=1 -6 >"$out/$name.tar.xz"
    rm -r "$folder"
}

package_compose() {
    local folder=$out/lineside-$version-compose
    mkdir -p "$folder"
    cp -r packaging/compose.yaml packaging/compose packaging/grafana packaging/prometheus "$folder"
    archive "$out" "$(basename "$folder")" | xz --threads=1 -6 >"$folder.tar.xz"
    rm -r "$folder"
}

# cargo-cyclonedx writes a file into the folder of every crate; only the file of the program is kept.
package_sbom() {
    tool cargo-cyclonedx "$CARGO_CYCLONEDX"
    local file=lineside-sbom-$$
    cargo cyclonedx --quiet --manifest-path crates/lineside/Cargo.toml --format json --spec-version 1.5 \
        --no-build-deps --target x86_64-unknown-linux-gnu --features static --override-filename "$file"
    sed "s#file://$PWD#file:///lineside#g" "crates/lineside/$file.json" >"$out/lineside-$version.cdx.json"
    find crates lab spec -name "$file.json" -delete
}

package_image() {
    command -v buildah >/dev/null || {
        say "no buildah here, so no image is made: apt-get install buildah"
        return 1
    }
    bash scripts/package-image.sh "$root" "$version" "$out/$name.oci.tar"
}

stage_program
stage_documents
package_deb
package_tarball
package_compose
package_sbom
package_image
(cd "$out" && sha256sum -- *.deb *.tar.xz *.debug.xz *.cdx.json *.oci.tar >SHA256SUMS)
say "made in target/package:"
(cd "$out" && ls -l -- *.deb *.tar.xz *.debug.xz *.cdx.json *.oci.tar SHA256SUMS) >&2

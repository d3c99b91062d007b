#!/usr/bin/env bash
# Builds the container image with buildah, without a daemon and without a base image. The image contains the program,
# the C library that the program is linked to, and empty folders for its data.
#   scripts/package-image.sh ROOT VERSION ARCHIVE    ROOT has usr/bin/lineside; ARCHIVE is an OCI archive to write
# Needs root, or a user that may map users (subuid).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$1 version=$2 archive=$3
USER_ID=7700

work=$(mktemp -d)
# Uses separate storage, so that the images of the machine's user are not changed.
buildah() { command buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
cleanup() {
    buildah rm --all >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap cleanup EXIT

files=$work/files
mkdir -p "$files"/{usr/bin,etc/lineside,etc/ssl/certs,var/lib,tmp,usr/share/doc/lineside}
install -m 755 "$root/usr/bin/lineside" "$files/usr/bin"
cp packaging/deb/copyright "$root"/usr/share/doc/lineside/* "$files/usr/share/doc/lineside"
cp lineside.toml "$files/etc/lineside"
# Copies the loader and the libraries that the program names to the same paths in the image.
ldd "$root/usr/bin/lineside" | grep -o '/[^ ]*' | while read -r library; do
    install -D -m 755 "$(readlink -f "$library")" "$files$library"
    package=$(dpkg-query --search "$(readlink -f "$library")" 2>/dev/null | cut -d: -f1 | head -1) || true
    [ -z "$package" ] || install -D -m 644 "/usr/share/doc/$package/copyright" "$files/usr/share/doc/$package/copyright"
done
[ ! -e /etc/ssl/certs/ca-certificates.crt ] || cp -L /etc/ssl/certs/ca-certificates.crt "$files/etc/ssl/certs"
printf 'root:x:0:0:root:/:/sbin/nologin\nlineside:x:%s:%s::/var/lib/lineside:/sbin/nologin\n' $USER_ID $USER_ID \
    >"$files/etc/passwd"
printf 'root:x:0:\nlineside:x:%s:\n' $USER_ID >"$files/etc/group"
printf 'hosts: files dns\n' >"$files/etc/nsswitch.conf"
chmod 1777 "$files/tmp"
mkdir "$work/data"

container=$(buildah from scratch)
buildah copy --quiet "$container" "$files" / >/dev/null
# `buildah copy` makes root the owner of every file, so the data folder is copied separately with its owner.
buildah copy --quiet --chown $USER_ID:$USER_ID "$container" "$work/data" /var/lib/lineside >/dev/null
buildah config --user "$USER_ID:$USER_ID" --workingdir /var/lib/lineside --entrypoint '["/usr/bin/lineside"]' \
    --cmd '["run","--config","/etc/lineside/lineside.toml"]' --stop-signal SIGTERM \
    --label "org.opencontainers.image.title=lineside" --label "org.opencontainers.image.version=$version" \
    --label "org.opencontainers.image.licenses=Apache-2.0" \
    --label "org.opencontainers.image.source=https://github.com/lineside/lineside" "$container"
rm -f "$archive"
buildah commit --quiet --timestamp "$SOURCE_DATE_EPOCH" "$container" \
    "oci-archive:$archive:docker.io/library/lineside:$version" >/dev/null

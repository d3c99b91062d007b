#!/usr/bin/env bash
# Builds the book of docs/ into target/book with mdBook, which it installs into target/ if version 0.5 is missing. The
# book does not contain files outside docs/, so links to them become links to the repository. `make docs` checks all
# links first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=0.5.4
repository=https://github.com/lineside/lineside/blob/main
# The book is tested with mdBook 0.5; an installed mdBook of another version is not used.
is_usable() { "$1" --version 2>/dev/null | grep -q '^mdbook v0\.5\.'; }
mdbook=mdbook
if ! is_usable "$mdbook"; then
    mdbook=target/mdbook/bin/mdbook
    if ! is_usable "$mdbook"; then
        echo "installing mdbook $version into target/mdbook; this takes some minutes and needs a network"
        cargo install mdbook --version "$version" --locked --force --no-default-features --root target/mdbook
    fi
fi

source=target/book-source
rm -rf "$source" target/book
mkdir -p "$source"
cp -r docs book.toml "$source"
find "$source/docs" -maxdepth 1 -name '*.md' -exec sed -i "s#](\.\./#]($repository/#g" {} +
find "$source/docs" -mindepth 2 -name '*.md' -exec sed -i "s#](\.\./\.\./#]($repository/#g" {} +
"$mdbook" build --dest-dir "$PWD/target/book" "$source"
echo "the book is in target/book/index.html"

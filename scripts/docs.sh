#!/usr/bin/env bash
# Builds the book of docs/ into target/book with mdBook, which it installs into target/ if it is missing. The book does
# not contain files outside docs/, so links to them become links to the repository. `make docs` checks all links first.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=0.5.4
repository=https://github.com/lineside/lineside/blob/main
mdbook=$(command -v mdbook || echo target/mdbook/bin/mdbook)
if ! "$mdbook" --version >/dev/null 2>&1; then
    echo "installing mdbook $version into target/mdbook; this takes some minutes"
    cargo install mdbook --version "$version" --locked --no-default-features --root target/mdbook
    mdbook=target/mdbook/bin/mdbook
fi

source=target/book-source
rm -rf "$source" target/book
mkdir -p "$source"
cp -r docs book.toml "$source"
find "$source/docs" -maxdepth 1 -name '*.md' -exec sed -i "s#](\.\./#]($repository/#g" {} +
find "$source/docs" -mindepth 2 -name '*.md' -exec sed -i "s#](\.\./\.\./#]($repository/#g" {} +
"$mdbook" build --dest-dir "$PWD/target/book" "$source"
echo "the book is in target/book/index.html"

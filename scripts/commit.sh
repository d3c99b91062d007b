#!/usr/bin/env bash
# Prints the commit of the source for `lineside --version`: 12 hex digits, with `-dirty` if files were changed since;
# `unknown` outside a git repository.
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
git describe --always --dirty --abbrev=12 --exclude '*' 2>/dev/null || echo unknown

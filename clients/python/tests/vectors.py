"""Reads the shared vectors of the repository."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[3]
VECTORS = ROOT / "vectors"


def load(name: str) -> dict[str, Any]:
    """Returns the file `vectors/NAME.toml`."""
    with (VECTORS / f"{name}.toml").open("rb") as file:
        return tomllib.load(file)


def vectors(name: str) -> list[dict[str, Any]]:
    """Returns the vectors of a file."""
    found: list[dict[str, Any]] = load(name)["vector"]
    assert found
    return found


def raw(text: str) -> bytes:
    """Returns the bytes of hexadecimal digits in one or more lines."""
    return bytes.fromhex("".join(text.split()))

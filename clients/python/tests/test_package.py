"""The package as it is installed."""

from __future__ import annotations

import re
from importlib.metadata import version

from vectors import ROOT

import lineside

FOLDER = ROOT / "clients" / "python"


def test_the_version_is_written_in_two_places() -> None:
    (found,) = re.findall(r'^version = "(.*)"$', (FOLDER / "pyproject.toml").read_text(), re.MULTILINE)
    assert found == lineside.__version__ == version("lineside")


def test_the_license_is_that_of_the_project_and_the_types_are_marked() -> None:
    assert (FOLDER / "LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert (FOLDER / "src" / "lineside" / "py.typed").exists()

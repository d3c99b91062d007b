#!/usr/bin/env python3
"""Prints the texts of the licences of everything that is linked into `lineside`: the crates of the normal dependencies,
with the C libraries in them, and the system's libelf and zlib. Equal texts are printed once, with the names of all
packages that have them.

    scripts/third-party-licenses.py [FEATURES]

Reads the sources that cargo has downloaded; needs no network."""

import json
import re
import subprocess
import sys
from pathlib import Path

NAME = re.compile(r"^(LICEN[CS]E|COPYING|COPYRIGHT|NOTICE|UNLICENSE)", re.IGNORECASE)
# Names of the Debian packages whose archives are linked statically.
SYSTEM = ["libelf-dev", "zlib1g-dev"]
# Deepest folder of a crate in which a C library has its licence, as in rdkafka-sys/librdkafka/LICENSE.
DEPTH = 2
TARGET = "x86_64-unknown-linux-gnu"


def linked(features: str) -> list[dict]:
    """Returns the packages from which the program is linked, sorted by name and version."""
    arguments = ["cargo", "tree", "--locked", "-p", "lineside", "--edges", "normal,no-proc-macro",
                 "--target", TARGET, "--prefix", "none", "--format", "{p}", "--features", features]
    tree = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    used = {tuple(line.split(" ")[:2]) for line in tree.splitlines() if line.strip()}
    # Cargo downloads what is missing: after a build of the program alone, crates of the tests are.
    metadata = ["cargo", "metadata", "--locked", "--filter-platform", TARGET, "--format-version", "1"]
    packages = json.loads(subprocess.run(metadata, check=True, capture_output=True, text=True).stdout)["packages"]
    found = [one for one in packages if one["source"] and (one["name"], "v" + one["version"]) in used]
    return sorted(found, key=lambda one: (one["name"], one["version"]))


def texts(folder: Path) -> list[str]:
    """Returns the licence texts in a crate's folder."""
    files = [file for depth in range(DEPTH) for file in folder.glob("*/" * depth + "*")]
    names = sorted(file for file in files if file.is_file() and NAME.match(file.name) and file.suffix != ".rs")
    return [file.read_text(encoding="utf-8", errors="replace").strip() for file in names]


def main() -> None:
    features = sys.argv[1] if len(sys.argv) > 1 else "kafka,static"
    by_text: dict[str, list[str]] = {}
    without = []
    for package in linked(features):
        name = f"{package['name']} {package['version']} ({package['license']})"
        found = texts(Path(package["manifest_path"]).parent)
        if not found:
            without.append(name)
        for text in found:
            by_text.setdefault(text, []).append(name)
    for package in SYSTEM if "static" in features else []:
        file = Path("/usr/share/doc", package, "copyright")
        by_text.setdefault(file.read_text(encoding="utf-8").strip(), []).append(f"{package} of the system")
    print("Texts of the licences of everything that is linked into lineside")
    print("\nThese packages name their licence in Cargo.toml and contain no text of it:")
    for name in without:
        print(f"  {name}")
    for text, names in by_text.items():
        print("\n" + "=" * 100)
        for name in sorted(set(names)):
            print(name)
        print("=" * 100 + "\n\n" + text)


main()

#!/usr/bin/env python3
"""Writes vectors/<service>/*.toml by make_<service>.py, for every service that has one. Shares no code with Lineside:
bytes from docs/wire-formats.md and the RFCs, by hand.

    python3 vectors/make.py            write the files
    python3 vectors/make.py --check    exit 1 when they differ from what would be written
"""
import importlib
import pathlib
import sys

sys.dont_write_bytecode = True
HERE = pathlib.Path(__file__).resolve().parent


def main():
    stale = []
    for script in sorted(HERE.glob("make_*.py")):
        service = importlib.import_module(script.stem)
        folder = HERE / script.stem.removeprefix("make_").replace("_", "-")
        for file in service.files():
            path = folder / f"{file.name}.toml"
            if sys.argv[1:] == ["--check"]:
                if not path.exists() or path.read_text() != file.text():
                    stale.append(f"{folder.name}/{path.name}")
            else:
                folder.mkdir(exist_ok=True)
                path.write_text(file.text())
                print(f"{folder.name}/{path.name}: {len(file.vectors)} vectors")
    if stale:
        sys.exit(f"not what make.py writes: {', '.join(stale)}")


if __name__ == "__main__":
    main()

"""The examples of README.md and docs/client-python.md, against a real server."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from blocks import Block
from servers import Server
from vectors import ROOT

from lineside.spv_proof import display

PAGES = [ROOT / "clients" / "python" / "README.md", ROOT / "docs" / "client-python.md"]
EXAMPLES = [
    pytest.param(text, id=f"{page.name}-{number}")
    for page in PAGES
    for number, text in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]
PORTS = {"7701": "spv", "7702": "transfer", "7703": "column", "7705": "hybrid"}


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_runs(
    text: str, server: Server, chain: list[Block], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for port, service in PORTS.items():
        text = text.replace(f"127.0.0.1:{port}", server.addresses[service])
    text = re.sub(r'"[0-9a-f]{64}"', f'"{display(chain[4].txids[1])}"', text)
    for name in ("genesis.bin", "alice.key"):
        shutil.copy(server.folder / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    for _ in range(2):          # A reader who runs an example again, against the same server, gets no error.
        exec(compile(text, "example", "exec"), {"__name__": "example"})
    assert os.getcwd() == str(tmp_path)


def test_the_examples_have_types(tmp_path: Path) -> None:
    """Examples are copied into programs that are checked by `mypy --strict`."""
    for number, example in enumerate(EXAMPLES):
        (tmp_path / f"example{number}.py").write_text(str(example.values[0]))
    wrong = "def name(unknown: OutcomeUnknown) -> str:\n    return unknown.id\n"
    (tmp_path / "wrong.py").write_text(f"from lineside import OutcomeUnknown\n\n\n{wrong}")
    files = sorted(path.name for path in tmp_path.iterdir())
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", "cache", *files]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    # The id of an unknown outcome has a type: it is not `Any`, which could be used as a `str`.
    (error,) = done.stdout.splitlines()
    assert error.startswith("wrong.py:5:") and "PacketId" in error, done.stdout + done.stderr


def test_every_page_has_examples() -> None:
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_a_page_names_the_command_that_makes_the_files_of_its_example(page: Path) -> None:
    before, _, _ = page.read_text().partition("Genesis.from_file(")
    assert "lineside hybrid init --member alice=alice.key:admin" in " ".join(before.split())


def test_the_examples_ask_for_a_transaction_of_the_demonstration() -> None:
    """The start page shows the output of `lineside-lab demo`, with a TXID of its chain."""
    text = (ROOT / "docs" / "getting-started.md").read_text()
    (shown,) = re.findall(r"spv get --server 127\.0\.0\.1:7701 ([0-9a-f]{64})", text)
    for page in (*PAGES, ROOT / "docs" / "client-rust.md"):
        assert re.findall(r'"([0-9a-f]{64})"', page.read_text()) == [shown], page


def test_the_example_says_that_a_transaction_is_absent(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (text,) = [str(one.values[0]) for one in EXAMPLES if "client.proof(txid)" in str(one.values[0])]
    monkeypatch.chdir(tmp_path)
    text = text.replace("127.0.0.1:7701", server.addresses["spv"])
    exec(compile(text, "example", "exec"), {"__name__": "example"})
    assert "no block of the server has this transaction" in capsys.readouterr().out

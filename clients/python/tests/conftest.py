"""Servers and relays of the tests."""

from __future__ import annotations

from typing import Callable, Iterator

import pytest
from blocks import Block, block_file, make_chain
from servers import Relay, Server, lineside

#: Blocks of the chain that the tests serve.
BLOCKS = 40


@pytest.fixture(scope="session")
def chain() -> list[Block]:
    """Chain of regtest after the genesis block; one block has 100 transactions."""
    return make_chain(BLOCKS, 5)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, chain: list[Block]) -> Iterator[Server]:
    """Server of all services."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "blocks").mkdir()
    (folder / "blocks" / "blk00000.dat").write_bytes(block_file(chain))
    lineside("spv", "init", "--data", "chain", "--network", "regtest", "--witness", cwd=folder)
    lineside("spv", "import", "--data", "chain", "blocks", cwd=folder)
    lineside("hybrid", "init", "--member", "alice=alice.key:admin", "--member", "bob=bob.key", cwd=folder)
    server = Server(
        folder,
        """
[spv]
enabled = true
listen = "127.0.0.1:0"
data = "chain"
line_bits = 12
tree_bits = 10
[transfer]
enabled = true
listen = "127.0.0.1:0"
data = "transfer-ledger"
account_bits = 12
[column]
enabled = true
listen = "127.0.0.1:0"
[hybrid]
enabled = true
listen = "127.0.0.1:0"
data = "hybrid-ledger"
""",
    )
    yield server
    server.stop()


@pytest.fixture
def relay() -> Iterator[Callable[..., Relay]]:
    """Makes relays, and stops them at the end of the test."""
    made: list[Relay] = []

    def make(server: str, seed: int = 1, rate: float = 0.2) -> Relay:
        made.append(Relay(server, seed, rate))
        return made[-1]

    yield make
    for one in made:
        one.stop()

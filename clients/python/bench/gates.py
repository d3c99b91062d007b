"""Measures the Python client against a real server on loopback, on the socket datapath.

Client and server each have one core. The chain and the ledger are made in a temporary directory:

    python bench/gates.py --binary ../../target/release/lineside

Prints the rate of each run and the median of each row; ends with code 1 if a gate is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from blocks import block_file, make_chain
from servers import Server, lineside

from lineside import LinesideError, column, spv, transfer

CLIENT_CPU, SERVER_CPU = 0, 1
BLOCKS, TRANSACTIONS = 200, 20
ANSWERS, TRANSFERS, GETS = 60_000, 160_000, 40_000
WINDOW, SESSIONS, ACCOUNTS = 128, 64, 256
#: Smallest median that is required, in answers or transfers a second.
GATES = {"spv root, blocking": 20_000, "transfer in batches of 16, blocking": 100_000}


def checked(result: Any) -> Any:
    """Returns a result; raises the error that takes its place."""
    if isinstance(result, LinesideError):
        raise result
    return result


class Rates(NamedTuple):
    """Rates of one run."""

    per_s: float
    #: rate by the processor time of the client alone, which other programs on its core do not change
    per_cpu_s: float


class Clock:
    """Measures from its creation on."""

    def __init__(self) -> None:
        self._start, self._cpu_start = time.perf_counter(), time.process_time()

    def rates(self, count: int, right: int) -> Rates:
        """Returns the rates of `count` things, all of which must be right."""
        elapsed, cpu = time.perf_counter() - self._start, time.process_time() - self._cpu_start
        assert right == count, f"{right} of {count} are right"
        return Rates(count / elapsed, count / cpu)


def rate(count: int, work: Callable[[], int]) -> Rates:
    """Returns the rates of work that returns how many things were right."""
    clock = Clock()
    return clock.rates(count, work())


def spv_rows(address: str, txids: list[bytes]) -> Iterator[tuple[str, Callable[[], Rates]]]:
    asked = [txids[number % len(txids)] for number in range(ANSWERS)]

    def blocking() -> Rates:
        with spv.Client(address) as client:
            answers = client.pipeline(map(client.requests.root, asked), WINDOW)
            return rate(ANSWERS, lambda: sum(checked(answer).result is not None for answer in answers))

    def proofs() -> Rates:
        with spv.Client(address) as client:
            answers = client.pipeline(map(client.requests.proof, asked), WINDOW)
            return rate(ANSWERS, lambda: sum(checked(answer).result is not None for answer in answers))

    def sixteen() -> Rates:
        groups = [asked[at : at + 16] for at in range(0, ANSWERS, 16)]
        with spv.Client(address) as client:
            answers = client.pipeline(map(client.requests.roots, groups), WINDOW)
            return rate(ANSWERS, lambda: sum(len(checked(answer).result) for answer in answers))

    async def ask() -> int:
        async with spv.AsyncClient(address) as client:
            answers = client.pipeline(map(client.requests.root, asked), WINDOW)
            return sum([checked(answer).result is not None async for answer in answers])

    yield "spv root, blocking", blocking
    yield "spv root, asyncio", lambda: rate(ANSWERS, lambda: asyncio.run(ask()))
    yield "spv roots of 16, blocking", sixteen
    yield "spv proof, blocking", proofs


def transfer_rows(address: str) -> Iterator[tuple[str, Callable[[], Rates]]]:
    with transfer.Client(address) as client:
        session = client.open_session()
        for packet in transfer.in_packets(transfer.create(number, 10**12) for number in range(1, ACCOUNTS + 1)):
            client.execute(session, packet)
        client.close_session(session)

    def packets() -> Iterator[list[transfer.Operation]]:
        return transfer.in_packets(
            transfer.transfer(1 + number % ACCOUNTS, 1 + (number * 7 + 1) % ACCOUNTS, 1)
            for number in range(TRANSFERS)
            if number % ACCOUNTS != (number * 7 + 1) % ACCOUNTS
        )

    count = sum(map(len, packets()))

    def done(executed: transfer.Executed) -> int:
        assert executed.is_durable
        return sum(outcome.is_done for outcome in executed.outcomes)

    def blocking() -> Rates:
        with transfer.Client(address, timeout_s=20) as client:
            sessions = [client.open_session() for _ in range(SESSIONS)]
            results = client.execute_all(packets(), sessions)
            found = rate(count, lambda: sum(done(checked(result)) for result in results))
            for session in sessions:
                client.close_session(session)
            return found

    async def execute() -> Rates:
        async with transfer.AsyncClient(address, timeout_s=20) as client:
            sessions = [await client.open_session() for _ in range(SESSIONS)]
            clock, right = Clock(), 0
            async for result in client.execute_all(packets(), sessions):
                right += done(checked(result))
            found = clock.rates(count, right)
            for session in sessions:
                await client.close_session(session)
            return found

    yield "transfer in batches of 16, blocking", blocking
    yield "transfer in batches of 16, asyncio", lambda: asyncio.run(execute())


def column_rows(address: str) -> Iterator[tuple[str, Callable[[], Rates]]]:
    with column.Client(address) as client:
        for number in range(1000):
            client.put(f"{number:04}", "value")
        for _ in client.scan():
            pass

    def gets() -> Rates:
        with column.Client(address) as client:
            rows = client.pipeline((client.requests.get(f"{n % 1000:04}") for n in range(GETS)), WINDOW)
            return rate(GETS, lambda: sum(checked(row) is not None for row in rows))

    yield "column get, blocking", gets


def rows(server: Server, txids: list[bytes]) -> Iterator[tuple[str, Callable[[], Rates]]]:
    yield from spv_rows(server.addresses["spv"], txids)
    yield from transfer_rows(server.addresses["transfer"])
    yield from column_rows(server.addresses["column"])


def main() -> int:
    arguments = argparse.ArgumentParser(description="Measures the Python client against a real server on loopback.")
    arguments.add_argument("--binary", type=Path, help="program `lineside`, built for release")
    arguments.add_argument("--runs", type=int, default=3, help="runs of each row, of which the median counts")
    arguments.add_argument("--data", type=Path, help="parent of the temporary directory: the disk that is measured")
    options = arguments.parse_args()
    if options.binary is not None:
        os.environ["LINESIDE_BINARY"] = str(options.binary.resolve())
    if (os.cpu_count() or 1) < 2:
        print("gates: this machine has one core, and client and server need one each", file=sys.stderr)
        return 1
    os.sched_setaffinity(0, {CLIENT_CPU})
    folder = Path(tempfile.mkdtemp(prefix="lineside-bench-", dir=options.data))
    chain = make_chain(BLOCKS, TRANSACTIONS)
    (folder / "blocks").mkdir()
    (folder / "blocks" / "blk00000.dat").write_bytes(block_file(chain))
    lineside("spv", "init", "--data", "chain", "--network", "regtest", cwd=folder)
    lineside("spv", "import", "--data", "chain", "blocks", cwd=folder)
    sections = {"spv": 'data = "chain"\nline_bits = 16', "transfer": 'data = "ledger"', "column": ""}
    text = "".join(f'[{name}]\nenabled = true\nlisten = "127.0.0.1:0"\n{more}\n' for name, more in sections.items())
    server = Server(folder, text, SERVER_CPU)
    is_reached = True
    try:
        print(f"{processor()}, Python {platform.python_version()}, {options.runs} runs, one core each")
        for name, measure in rows(server, [txid for block in chain for txid in block.txids]):
            load = os.getloadavg()[0]
            found = [measure() for _ in range(options.runs)]
            median = statistics.median(run.per_s for run in found)
            by_cpu = statistics.median(run.per_cpu_s for run in found)
            gate = GATES.get(name)
            verdict = "" if gate is None else f"  gate {gate:,}: {'reached' if median >= gate else 'MISSED'}"
            is_reached &= gate is None or median >= gate
            each = ", ".join(f"{run.per_s:,.0f}" for run in found)
            print(
                f"{name:<36}{median:>9,.0f}/s ({each}; load average {load:.1f} before the runs), "
                f"{by_cpu:>9,.0f} per CPU second of the client{verdict}",
                flush=True,
            )
    finally:
        server.stop()
        shutil.rmtree(folder)
    return 0 if is_reached else 1


def processor() -> str:
    """Returns the name of the processor, and the number of its cores."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    sys.exit(main())

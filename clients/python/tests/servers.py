"""Starts a real server on loopback, and a relay that loses, duplicates and reorders datagrams."""

from __future__ import annotations

import heapq
import json
import os
import random
import select
import socket
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Optional

from vectors import ROOT


# Ports that `free_address` returns. The kernel gives those from 32768 on to sockets that ask for any port.
FREE_PORTS = range(20_000, 30_000)
# Abstract Unix sockets, whose names one process at a time can have: the claims of this process to ports. The tests in
# Rust claim ports by the same names (`lineside_testkit::free_port`).
_claims: list[socket.socket] = []


def free_address() -> str:
    """Returns an address whose port is free for UDP and TCP, and that no other test gets until this process ends."""
    for port in FREE_PORTS:
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            claim.bind(f"\0lineside-test-port-{port}")
        except OSError:
            claim.close()
            continue
        _claims.append(claim)
        try:
            for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                with socket.socket(socket.AF_INET, kind) as bound:
                    bound.bind(("127.0.0.1", port))
        except OSError:
            continue
        return f"127.0.0.1:{port}"
    raise OSError(f"no port of {FREE_PORTS} is free")


class NoProgram(Exception):
    """There is no program `lineside`."""


def binary() -> Path:
    """Returns the program `lineside`: LINESIDE_BINARY, or the newest one in target/."""
    given = os.environ.get("LINESIDE_BINARY")
    found = [Path(given)] if given else [ROOT / "target" / kind / "lineside" for kind in ("release", "debug")]
    found = sorted((path for path in found if path.exists()), key=lambda path: path.stat().st_mtime)
    if not found:
        raise NoProgram("there is no program `lineside`: run `cargo build -p lineside`, or set LINESIDE_BINARY")
    return found[-1]


def lineside(*arguments: str, cwd: Optional[Path] = None) -> str:
    """Runs a command of `lineside`, and returns its output."""
    done = subprocess.run([str(binary()), *arguments], cwd=cwd, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"lineside {' '.join(arguments)}: {done.stderr}"
    return done.stdout


class Server:
    """`lineside run` with a configuration, on free ports of loopback and the socket datapath."""

    def __init__(self, folder: Path, configuration: str, cpu: Optional[int] = None) -> None:
        self.folder = folder
        self._cpu = cpu
        self._config = folder / "lineside.toml"
        self._config.write_text(f'[datapath]\nkind = "socket"\nthreads = 1\n{configuration}')
        #: Addresses of the services, by name.
        self.addresses: dict[str, str] = {}
        self._process: Optional[subprocess.Popen[str]] = None
        self.start()

    def start(self) -> None:
        """Starts the server, and waits until it serves."""
        command = [str(binary()), "run", "--config", str(self._config), "--console", "127.0.0.1:0", "--json"]
        if self._cpu is not None:
            command = ["taskset", "--cpu-list", str(self._cpu), *command]
        log = (self.folder / "log").open("a")
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=self.folder)
        log.close()
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, (self.folder / "log").read_text()
        services: list[dict[str, Any]] = json.loads(line)["services"]
        self.addresses = {service["name"]: service["listen"] for service in services}
        self.udp = {service["name"]: service.get("also", {}).get("udp", service["listen"]) for service in services}

    @property
    def pid(self) -> int:
        """Process id of the server."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Ends the server, by its process id."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process = None

    def kill(self) -> None:
        """Kills the server without warning."""
        assert self._process is not None
        self._process.kill()
        self.stop()


class Relay:
    """Relay to a UDP server that loses, duplicates and reorders `rate` of the datagrams in both directions."""

    def __init__(self, server: str, seed: int, rate: float = 0.2) -> None:
        host, _, port = server.rpartition(":")
        self._target = (host, int(port))
        self._random = random.Random(seed)
        self._rate = rate
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind(("127.0.0.1", 0))
        self.address = "127.0.0.1:{}".format(self._front.getsockname()[1])
        #: Number of datagrams that were lost, duplicated and delayed.
        self.lost = self.duplicated = self.delayed = 0
        self._late: list[tuple[float, int, socket.socket, bytes, Any]] = []
        self._count = 0
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stops the relay."""
        self._is_stopped = True
        self._thread.join()

    def _run(self) -> None:
        backs: dict[socket.socket, Any] = {}
        by_client: dict[Any, socket.socket] = {}
        while not self._is_stopped:
            wait = 0.02 if not self._late else max(0.0, min(0.02, self._late[0][0] - time.monotonic()))
            for ready in select.select([self._front, *backs], [], [], wait)[0]:
                if ready is self._front:
                    data, client = ready.recvfrom(65536)
                    if client not in by_client:
                        back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                        back.bind(("127.0.0.1", 0))
                        by_client[client], backs[back] = back, client
                    self._pass(by_client[client], data, self._target)
                else:
                    self._pass(self._front, ready.recv(65536), backs[ready])
            while self._late and self._late[0][0] <= time.monotonic():
                _, _, via, data, to = heapq.heappop(self._late)
                via.sendto(data, to)
        for back in [self._front, *backs]:
            back.close()

    def _pass(self, via: socket.socket, data: bytes, to: Any) -> None:
        if self._random.random() < self._rate:
            self.lost += 1
            return
        if self._random.random() < self._rate:
            self.duplicated += 1
            self._delay(via, data, to)
        if self._random.random() < self._rate:
            self.delayed += 1
            self._delay(via, data, to)
        else:
            via.sendto(data, to)

    def _delay(self, via: socket.socket, data: bytes, to: Any) -> None:
        """Sends a datagram after later ones."""
        self._count += 1
        heapq.heappush(self._late, (time.monotonic() + self._random.uniform(0, 0.06), self._count, via, data, to))

"""The example `pay` of docs/client-python.md, and the end of sessions, while the server is killed and restarted."""

from __future__ import annotations

import re
import select
import socket
import threading
from pathlib import Path
from typing import Any, Optional

import pytest
from servers import Server, free_address
from test_transfer import accounts, balances
from test_transfer_keys import address_of
from vectors import ROOT

from lineside import LinesideError, OutcomeUnknown
from lineside import transfer as t
from lineside._generated import TRANSFER_OP_EXECUTE, TRANSFER_OP_OPEN


class Crash:
    """Relay to a server that executes the first packet and is killed before the client gets the reply.

    The server is started again when the client asks for a new session for the second time.
    """

    def __init__(self, server: Server, target: str) -> None:
        self._server = server
        host, _, port = target.rpartition(":")
        self._back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._back.connect((host, int(port)))
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind(("127.0.0.1", 0))
        self.address = address_of(self._front)
        self.crashes = 0
        self._opens: Optional[int] = None
        self._client: Any = None
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_stopped = True
        self._thread.join()
        self._front.close()
        self._back.close()

    def _run(self) -> None:
        while not self._is_stopped:
            for ready in select.select([self._front, self._back], [], [], 0.02)[0]:
                try:
                    data, sender = ready.recvfrom(65536)
                except ConnectionRefusedError:
                    continue
                if ready is self._front:
                    self._client = sender
                    self._request(data)
                elif data[3] == TRANSFER_OP_EXECUTE | 0x80 and not self.crashes:
                    self.crashes += 1
                    self._server.kill()
                    self._opens = 0
                else:
                    self._front.sendto(data, self._client)

    def _request(self, data: bytes) -> None:
        if self._opens is not None:
            self._opens += data[3] == TRANSFER_OP_OPEN
            if self._opens < 2:
                return
            self._server.start()
            self._opens = None
        try:
            self._back.send(data)
        except ConnectionRefusedError:
            pass


def page_pay() -> Any:
    """Returns the function `pay` as it is printed on the page."""
    (example,) = [
        text
        for text in re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "client-python.md").read_text(), re.DOTALL)
        if "def pay" in text
    ]
    found: dict[str, Any] = {}
    exec(example[: example.index("\n\n\nwith ")], found)
    return found["pay"]


def test_pay_gives_the_outcome_when_the_server_is_killed_after_the_payment(tmp_path: Path) -> None:
    address = free_address()
    section = f'[transfer]\nenabled = true\nlisten = "{address}"\ndata = "ledger"\naccount_bits = 10\n'
    server = Server(tmp_path, section)
    crash = Crash(server, address)
    try:
        with t.Client(address) as client, client.session() as session:
            made = client.execute(session, [t.create(301, 1000), t.create(302)]).outcomes
            assert all(outcome.is_done for outcome in made)
        key = t.new_idempotency_key()
        first = page_pay()(crash.address, key)
        assert crash.crashes == 1
        assert (first.code, first.balance) == (t.TransferCode.DONE, 970)
        assert page_pay()(crash.address, key) == first
        with t.Client(address) as client:
            assert balances(client, 301, 302) == [970, 30]
    finally:
        crash.stop()
        server.stop()


def test_the_end_of_a_session_hides_no_outcome_and_keeps_what_resume_needs(server: Server) -> None:
    deaf = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    deaf.bind(("127.0.0.1", 0))
    with t.Client(server.addresses["transfer"]) as client, t.Client(address_of(deaf), timeout_s=0.1) as lost:
        a, b = accounts(client, 100, 0)
        # Without keys, the session stays open, and `resume` finds the outcome after the block.
        with pytest.raises(OutcomeUnknown), client.session() as session:
            lost.execute(session, [t.transfer(a, b, 1)])
        with pytest.raises(LinesideError, match="has no reply yet"):
            client.close_session(session)
        resumed = client.resume(session)
        assert resumed is not None and resumed.outcomes[0].balance == 99
        client.close_session(session)

        # With keys, it is closed: a late copy of the packet is refused, and the key finds the outcome.
        payment = t.transfer(a, b, 2, idempotency_key=t.new_idempotency_key())
        with pytest.raises(OutcomeUnknown), client.session() as session:
            lost.execute(session, [payment])
        with pytest.raises(OutcomeUnknown, match="no such session"):
            client.resume(session)
        with client.session() as session:
            assert client.execute(session, [payment]).outcomes[0].balance == 97

        # The server does not answer to the closing: the outcome is returned, nevertheless.
        def pay() -> t.Outcome:
            with client.session() as session:
                outcome = client.execute(session, [t.transfer(a, b, 3)]).outcomes[0]
                client._link, lost._link = lost._link, client._link
                client.timeout_s = 0.1
                return outcome

        assert pay().balance == 94
    deaf.close()

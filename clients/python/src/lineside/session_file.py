"""Sessions of `transfer`, and the file in which one is kept between two runs of a program."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Callable, Optional, Union

from ._generated import OPERATION
from .errors import LinesideError


class Session:
    """Session of a client: the server executes each of its packets once, by its sequence number.

    Anyone who knows the token can use the session. It belongs to one client at a time: of two equal packets with the
    same number, which two clients with copies of a session send, only one is executed, and both get its outcome.
    """

    def __init__(self, slot: int, token: int, next: int, unanswered: Optional[bytes] = None) -> None:
        self.slot = slot
        self.token = token
        #: Sequence number of the next packet, or of the one that has no reply yet.
        self.next = next
        #: Operations of the packet that may have been sent and has no reply yet.
        self.unanswered = unanswered
        #: True while a packet of the session is in flight.
        self.is_used = False
        self._save: Callable[[], None] = lambda: None

    def begin(self, operations: bytes) -> None:
        """Notes that a packet is about to be sent."""
        self.unanswered = operations
        self._save()

    def end(self, is_executed: bool) -> None:
        """Notes that the packet has a definite result."""
        self.unanswered = None
        self.next += is_executed
        self._save()

    def abandon(self) -> None:
        """Gives up the packet without a reply, whose outcome then stays unknown.

        The next packet is refused with `Status.SEQUENCE` if the server has executed the abandoned one.
        """
        self.unanswered = None
        self._save()

    def __repr__(self) -> str:
        return f"Session(slot={self.slot}, next={self.next})"


class SessionFile:
    """File with a session, in the format of `lineside transfer session open`. Mode 600: its reader can use the session.

    The context manager locks the file and returns the session; each change of the session is durable in the file
    before the packet is sent. The session of a new file must be stored first, with `store`.
    """

    def __init__(self, path: Union[str, Path]) -> None:
        self.path = Path(path)
        self._lock: Optional[int] = None

    def store(self, session: Session) -> None:
        """Writes the session of a new file."""
        if self.path.exists():
            raise LinesideError(f"{self.path}: this file exists already; give another file, or close its session")
        self._write(session)

    def remove(self) -> None:
        """Removes the file of a closed session."""
        self.path.unlink()
        self._beside(".lock").unlink(missing_ok=True)

    def __enter__(self) -> Session:
        lock = os.open(self._beside(".lock"), os.O_WRONLY | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            session = self._read()
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
        session._save = lambda: self._write(session)
        return session

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def _beside(self, ending: str) -> Path:
        return self.path.with_name(self.path.name + ending)

    def _read(self) -> Session:
        try:
            content = json.loads(self.path.read_text())
            waiting = content["unanswered"]
            unanswered = None if waiting is None else bytes.fromhex("".join(waiting))
            return Session(content["slot"], content["token"], content["next"], unanswered)
        except (ValueError, KeyError, TypeError) as error:
            raise LinesideError(f"{self.path}: this file holds no session: {error}") from error

    def _write(self, session: Session) -> None:
        """Replaces the file in one step, so that a crash leaves the old or the new content."""
        waiting = session.unanswered
        size = OPERATION.size
        words = None if waiting is None else [waiting[at : at + size].hex() for at in range(0, len(waiting), size)]
        content = {"slot": session.slot, "token": session.token, "next": session.next, "unanswered": words}
        new = self._beside(".new")
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            out.write(json.dumps(content))
            out.flush()
            os.fsync(out.fileno())
        os.replace(new, self.path)

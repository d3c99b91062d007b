"""Errors of all services."""

from __future__ import annotations

from typing import TYPE_CHECKING, Union

from ._generated import Status

if TYPE_CHECKING:
    from ._hybrid_calls import TransactionId
    from .column import ChangeId
    from .transfer import PacketId, PaperId

    UnknownId = Union[PacketId, PaperId, ChangeId, TransactionId]


class LinesideError(Exception):
    """Base of all errors of this package, except for `ValueError` of arguments that no packet can hold."""


class Timeout(LinesideError):
    """No answer to a request that changes nothing arrived in time: ask again, or ask another server."""


class Busy(LinesideError):
    """The server answered until the deadline that it is busy. The request changes nothing: ask again later."""


class Refused(LinesideError):
    """The server refused the request as a whole, and did not execute it.

    `status` is the status of the reply. `expected` is the sequence number that the server expects, where it names one.
    """

    def __init__(self, message: str, status: Status, expected: int = 0) -> None:
        super().__init__(message)
        self.status = status
        self.expected = expected


class OutcomeUnknown(LinesideError):
    """The change may or may not have been executed. Its outcome can still be found out, by `id`.

    Type of `id` by service, for `isinstance`, and the call that finds the outcome:

    - transfer: `lineside.transfer.PacketId`; `Client.resume(session)` sends the same packet again. If its operations
      have idempotency keys, `id.idempotency_keys` has the keys to repeat with, in any session.
    - column: `lineside.column.ChangeId`; `Client.resume(id)` sends the same change again.
    - hybrid: `lineside.hybrid.TransactionId`, 32 bytes with the time at which the request expires;
      `Client.outcome(id)`, which raises `OutcomeUnknown` again as long as the request may still be executed.
    """

    id: UnknownId

    def __init__(self, message: str, id: UnknownId) -> None:
        super().__init__(f"{message}; the change may have been executed, or may be later: ask for {id_text(id)}")
        self.id = id


def id_text(id: UnknownId) -> str:
    """Returns an id as messages show it."""
    return id.hex() if isinstance(id, bytes) else str(id)

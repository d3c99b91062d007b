"""Client of `transfer`: sessions, operations, batches, signed packets, and the paper's packet.

An account is a number below 2^128, 32 hexadecimal digits, or 16 bytes. Amounts are whole numbers below 2^64.
"""

from __future__ import annotations

import hashlib
from collections import deque
from contextlib import asynccontextmanager, contextmanager
from typing import AsyncIterator, Iterable, Iterator, NamedTuple, Optional, Sequence, TypeVar, Union
from uuid import UUID

from ._arguments import whole
from ._core import DATAGRAM_BYTES_MAX, Again, Call, NativeCall, Steps
from ._generated import (
    BALANCE_ITEM,
    EXECUTE_HEAD,
    NATIVE_HEADER,
    OPERATION,
    PAPER_TRANSFER,
    REFER_HEAD,
    SESSION_BODY,
    SIGNED_HEAD,
    TRANSFER_COMMAND_REFER,
    TRANSFER_DURABLE,
    TRANSFER_FLAG_KEYED,
    TRANSFER_OP_CLOSE,
    TRANSFER_OP_EXECUTE,
    TRANSFER_OP_OPEN,
    TRANSFER_OP_REFER,
    TRANSFER_OP_SESSION,
    TRANSFER_OP_SIGNED,
    TRANSFER_PAPER_REFUSED,
    TRANSFER_PORT,
    TRANSFER_REFER_MAX,
    BalanceItem,
    ExecuteHead,
    Operation,
    PaperTransfer,
    SessionBody,
    Status,
    TransferCode,
)
from ._links import Address, Awaiting, Blocking, awaiting, blocking
from ._paper import ask_once_async, ask_once_blocking
from ._transfer_operations import (
    OPERATIONS_MAX,
    Account,
    IdempotencyKey,
    Name,
    account_bytes,
    create,
    fingerprint,
    freeze,
    in_packets,
    issue,
    key_bytes,
    keyed,
    linked,
    new_idempotency_key,
    operation_key,
    packed,
    pending,
    post,
    post_all,
    transfer,
    unfreeze,
    void,
)
from .errors import Busy, LinesideError, OutcomeUnknown, Refused
from .keys import SecretKey
from .session_file import Session, SessionFile
from .settlement import Block, InclusionProof, ProvenOperation, SettlementError

__all__ = [
    "OPERATIONS_MAX",
    "SIGNED_OPERATIONS_MAX",
    "Account",
    "AsyncClient",
    "Balance",
    "Batch",
    "Block",
    "Client",
    "Executed",
    "IdempotencyKey",
    "InclusionProof",
    "Name",
    "Operation",
    "Outcome",
    "PacketId",
    "PaperId",
    "ProvenOperation",
    "Requests",
    "SecretKey",
    "Session",
    "SessionFile",
    "SettlementError",
    "TransferCode",
    "account_bytes",
    "create",
    "fingerprint",
    "freeze",
    "in_packets",
    "issue",
    "keyed",
    "linked",
    "new_idempotency_key",
    "operation_key",
    "pending",
    "post",
    "post_all",
    "transfer",
    "unfreeze",
    "void",
]

T = TypeVar("T")
#: Maximum number of operations in one signed datagram.
SIGNED_OPERATIONS_MAX = (
    DATAGRAM_BYTES_MAX - NATIVE_HEADER.size - SIGNED_HEAD.size - EXECUTE_HEAD.size
) // OPERATION.size

_SIGNED_DOMAIN = b"lineside/transfer/1"
_CODES = {int(code): code for code in TransferCode}
#: Indexes of the fields of an operation that a reply has.
_CODE, _AMOUNT, _NUMBER = (Operation._fields.index(name) for name in ("code", "amount", "number"))
_FLAGS, _UUID = (Operation._fields.index(name) for name in ("flags", "uuid"))
_ZEROS = bytes(16)


# ---- results ----


class PacketId(NamedTuple):
    """Packet of a session: its name in `OutcomeUnknown`. `Client.resume` of the session finds its outcome.

    If all operations of the packet have idempotency keys, repeating them with these keys in any session finds it, too.
    """

    slot: int
    sequence: int
    #: the key that `execute` or `execute_all` got, otherwise the keys of the operations; empty if one of them has none
    idempotency_keys: tuple[UUID, ...] = ()

    def __str__(self) -> str:
        name = f"packet {self.sequence} of session {self.slot}"
        if not self.idempotency_keys:
            return name
        if len(self.idempotency_keys) > 1:
            first, count = self.idempotency_keys[0], len(self.idempotency_keys)
            return f"{name}, or repeat its operations with their {count} idempotency keys: the first is {first}"
        return f"{name}, or repeat it in any session with the idempotency key {self.idempotency_keys[0]}"


class PaperId(NamedTuple):
    """Request in the paper's format: repeat it with the same transaction id, or look at the account (id 0)."""

    source: int
    transaction_id: int

    def __str__(self) -> str:
        return f"transaction {self.transaction_id} of account {self.source}"


class Outcome(NamedTuple):
    """Outcome of one operation."""

    code: TransferCode
    #: balance of the source after the operation; `None` if the operation was refused
    balance: Optional[int]
    #: number of the operation in the ledger; 0: it has none, or none yet (express)
    number: int

    @property
    def is_done(self) -> bool:
        """True if the operation was executed."""
        return self.code is TransferCode.DONE


class Executed(NamedTuple):
    """Result of a packet."""

    outcomes: list[Outcome]
    #: True: the operations were on the disk before the reply was sent. False: they will be within a bounded delay.
    is_durable: bool


class Balance(NamedTuple):
    """State of an account."""

    balance: int
    #: part of the balance that pending transfers reserve
    held: int
    #: number of changes of the account
    version: int
    is_frozen: bool


# ---- requests ----


class _SessionCall(NativeCall[SessionBody]):
    def read(self, status: Status, body: bytes) -> SessionBody | Again:
        if status is not Status.OK:
            raise Refused(f"the server refused the request: {status.meaning}", status)
        return SessionBody(*SESSION_BODY.unpack(body)) if len(body) == SESSION_BODY.size else Again.IGNORE


class _Execute(NativeCall[Executed]):
    #: Refusals that a repeated packet gets only if its first copy got them, too.
    _ALWAYS_DEFINITE = (Status.UNAUTHORISED, Status.BAD_REQUEST, Status.UNSUPPORTED_VERSION)

    def __init__(
        self,
        session: Session,
        operations: bytes,
        signer: Optional[SecretKey],
        is_resumed: bool,
        key: Optional[IdempotencyKey],
    ) -> None:
        self._slot, self._sequence = session.slot, session.next
        self._operations, self._key = operations, key
        self._count = len(operations) // OPERATION.size
        self._is_resumed = is_resumed
        body = EXECUTE_HEAD.pack(session.token, session.next, session.slot, self._count, 0) + operations
        if signer is None:
            super().__init__(TRANSFER_OP_EXECUTE, body)
        else:
            super().__init__(TRANSFER_OP_SIGNED, _signed_head(signer, body) + body)
        self._head = body[: EXECUTE_HEAD.size - 4]

    def read(self, status: Status, body: bytes) -> Executed | Again:
        if status is not Status.OK:
            expected = ExecuteHead(*EXECUTE_HEAD.unpack_from(body)).sequence if len(body) >= EXECUTE_HEAD.size else 0
            raise self._refusal(status, expected)
        if len(body) != EXECUTE_HEAD.size + self._count * OPERATION.size or not body.startswith(self._head):
            return Again.IGNORE
        head = ExecuteHead(*EXECUTE_HEAD.unpack_from(body))
        try:
            outcomes = [
                Outcome(_CODES[reply[_CODE]], None if reply[_CODE] else reply[_AMOUNT], reply[_NUMBER])
                for reply in OPERATION.iter_unpack(body[EXECUTE_HEAD.size :])
            ]
        except KeyError:
            return Again.IGNORE
        return Executed(outcomes, head.durability == TRANSFER_DURABLE)

    def _refusal(self, status: Status, expected: int) -> LinesideError:
        if status is Status.OUTCOME_UNKNOWN or (
            (self.sent > 1 or self._is_resumed) and status not in self._ALWAYS_DEFINITE
        ):
            # An earlier copy of the packet may have been executed.
            return OutcomeUnknown(f"the server refused a repeated packet: {status.meaning}", self._id())
        return Refused(f"the server refused the packet: {status.meaning}", status, expected)

    def expired(self, server: str, timeout_s: float, is_busy: bool) -> LinesideError:
        return OutcomeUnknown(str(super().expired(server, timeout_s, is_busy)), self._id())

    def _id(self) -> PacketId:
        if self._key is not None:
            return PacketId(self._slot, self._sequence, (UUID(bytes=key_bytes(self._key)),))
        return PacketId(self._slot, self._sequence, packet_keys(self._operations))


def packet_keys(operations: bytes) -> tuple[UUID, ...]:
    """Returns the idempotency keys of the operations of a packet; empty if one of them has none."""
    fields = list(OPERATION.iter_unpack(operations))
    has_keys = all(operation[_FLAGS] & TRANSFER_FLAG_KEYED for operation in fields)
    return tuple(UUID(bytes=operation[_UUID]) for operation in fields) if has_keys else ()


def _signed_head(signer: SecretKey, body: bytes) -> bytes:
    key = signer.public.to_bytes()
    signature = signer.sign(hashlib.sha256(_SIGNED_DOMAIN + body).digest())
    return SIGNED_HEAD.pack(key[0], key[1], 0, 0, key[2:], signature[:32], signature[32:])


class _Refer(NativeCall["list[Optional[Balance]]"]):
    def read(self, status: Status, body: bytes) -> list[Optional[Balance]] | Again:
        if status is not Status.OK:
            raise Refused(f"the server refused the request: {status.meaning}", status)
        if len(body) != len(self.body):
            return Again.IGNORE
        asked = BALANCE_ITEM.iter_unpack(self.body[REFER_HEAD.size :])
        found: list[Optional[Balance]] = []
        for request, fields in zip(asked, BALANCE_ITEM.iter_unpack(body[REFER_HEAD.size :])):
            item = BalanceItem(*fields)
            if item.account != request[0]:
                return Again.IGNORE
            is_known = item.code == TransferCode.DONE
            found.append(Balance(item.balance, item.held, item.version, item.frozen != 0) if is_known else None)
        return found


class _Paper(Call[Outcome]):
    def __init__(self, request: PaperTransfer) -> None:
        for name, value in zip(request._fields, request):
            whole(name, value, 2**32)
        self._request = request
        self.is_sent_once = request.transaction_id == 0 and request.command != TRANSFER_COMMAND_REFER

    def encode(self, id: bytes) -> bytes:
        return PAPER_TRANSFER.pack(*self._request)

    def decode(self, datagram: bytes) -> Outcome | Again:
        if len(datagram) != PAPER_TRANSFER.size:
            return Again.IGNORE
        reply = PaperTransfer(*PAPER_TRANSFER.unpack(datagram))
        is_refused = reply.command & TRANSFER_PAPER_REFUSED != 0
        asked = self._request
        command = asked.command | (reply.command & TRANSFER_PAPER_REFUSED)
        if reply != asked._replace(command=command, amount=reply.amount):
            return Again.IGNORE
        if not is_refused:
            return Outcome(TransferCode.DONE, reply.amount, 0)
        code = _CODES.get(reply.amount)
        if code is None:
            return Again.IGNORE
        if code is TransferCode.BUSY and not self.is_sent_once:
            return Again.BUSY
        return Outcome(code, None, 0)

    def expired(self, server: str, timeout_s: float, is_busy: bool) -> LinesideError:
        error = super().expired(server, timeout_s, is_busy)
        if self._request.command == TRANSFER_COMMAND_REFER:
            return error
        return OutcomeUnknown(str(error), PaperId(self._request.source, self._request.transaction_id))


class Requests:
    """Operations of `transfer` as generators of requests: for `Client.pipeline`, and for other front ends."""

    def __init__(self, signer: Optional[SecretKey] = None) -> None:
        #: Key that signs operations; `None`: they are not signed.
        self.signer = signer

    @property
    def operations_max(self) -> int:
        """Maximum number of operations in a packet: fewer if they are signed."""
        return OPERATIONS_MAX if self.signer is None else SIGNED_OPERATIONS_MAX

    def open(self) -> Steps[Session]:
        """Opens a session. Close it when it is no longer needed: an address has 64 at most."""
        challenge: SessionBody = yield _SessionCall(TRANSFER_OP_OPEN, bytes(SESSION_BODY.size))
        body = SESSION_BODY.pack(challenge.challenge, 0, 0, 0, 0)
        try:
            granted: SessionBody = yield _SessionCall(TRANSFER_OP_OPEN, body)
        except Busy as busy:
            raise Busy(f"{busy}; or this address has reached its limit of sessions") from None
        return Session(granted.slot, granted.token, granted.sequence)

    def close(self, session: Session, force: bool = False) -> Steps[None]:
        """Closes a session. A session that the server does not know is closed already.

        A session with a packet that has no reply yet is not closed, but a `LinesideError`: without the session,
        `resume` could never find the outcome of the packet. `resume` it first; or close it with `force`, if the
        operations have idempotency keys, or if the outcome does not matter.
        """
        if session.unanswered is not None and not force:
            raise LinesideError(
                f"{PacketId(session.slot, session.next)} has no reply yet: call `resume` before the session is closed, "
                "or give `force=True` to lose its outcome"
            )
        try:
            yield _SessionCall(TRANSFER_OP_CLOSE, _session_body(session))
        except Refused as refused:
            if refused.status is not Status.NO_SESSION:
                raise

    def leave(self, session: Session) -> Steps[None]:
        """Closes a session if that loses no outcome, and ignores that the server does not answer."""
        if session.unanswered is None or packet_keys(session.unanswered):
            try:
                yield from self.close(session, force=True)
            except LinesideError:
                pass

    def next_sequence(self, session: Session) -> Steps[int]:
        """Returns the sequence number that the server expects next: above that of a packet, which then was executed."""
        body: SessionBody = yield _SessionCall(TRANSFER_OP_SESSION, _session_body(session))
        return body.sequence

    def execute(
        self,
        session: Session,
        operations: Sequence[Operation],
        idempotency_key: Optional[IdempotencyKey] = None,
    ) -> Steps[Executed]:
        """Executes operations as the next packet of a session, exactly once.

        Raises `OutcomeUnknown` if no reply arrives in time: `resume` then sends the same packet again. Raises
        `Refused` if the packet was refused as a whole. An operation that was refused has its code in the result.

        With an `idempotency_key` each operation gets a key of its own (`keyed`): the same call in any session gives the
        outcomes of the operations that were executed, and tries those again that were refused.
        """
        if idempotency_key is not None:
            operations = list(keyed(operations, idempotency_key))
        return (yield from self._execute(session, operations, idempotency_key))

    def _execute(
        self, session: Session, operations: Sequence[Operation], key: Optional[IdempotencyKey]
    ) -> Steps[Executed]:
        if not 1 <= len(operations) <= self.operations_max:
            raise ValueError(f"a packet holds 1 to {self.operations_max} operations, not {len(operations)}")
        if session.unanswered is not None:
            raise LinesideError(f"{PacketId(session.slot, session.next)} has no reply yet: call `resume` first")
        session.begin(packed(operations))
        return (yield from self._send(session, False, key))

    def resume(self, session: Session) -> Steps[Optional[Executed]]:
        """Sends the packet of a session that has no reply yet again, and returns its outcome; `None`: there is none."""
        if session.unanswered is None:
            return None
        return (yield from self._send(session, True))

    def _send(self, session: Session, is_resumed: bool, key: Optional[IdempotencyKey] = None) -> Steps[Executed]:
        if session.is_used:
            raise LinesideError(f"{session} has a packet in flight: use a session for one packet at a time")
        session.is_used = True
        try:
            executed: Executed = yield _Execute(session, session.unanswered or b"", self.signer, is_resumed, key)
        except Refused:
            session.end(False)
            raise
        finally:
            session.is_used = False
        session.end(True)
        return executed

    def execute_all(
        self,
        packets: Iterable[Sequence[Operation]],
        sessions: Sequence[Session],
        idempotency_key: Optional[IdempotencyKey] = None,
    ) -> Batch:
        """Executes packets in several sessions, in any order: `pipeline(batch, batch.window)` runs them.

        With an `idempotency_key` each operation gets a key of its own, by its place among all operations.
        """
        return Batch(self, packets, sessions, idempotency_key)

    def refer(self, accounts: Sequence[Account]) -> Steps[list[Optional[Balance]]]:
        """Returns the states of 1 to 29 accounts; `None` for an account that does not exist."""
        if not 1 <= len(accounts) <= TRANSFER_REFER_MAX:
            raise ValueError(f"a packet holds 1 to {TRANSFER_REFER_MAX} accounts, not {len(accounts)}")
        items = b"".join(BALANCE_ITEM.pack(account_bytes(account), 0, 0, 0, 0, 0, 0) for account in accounts)
        balances: list[Optional[Balance]]
        balances = yield _Refer(TRANSFER_OP_REFER, REFER_HEAD.pack(len(accounts), 0, 0) + items)
        return balances


class Batch(Iterator[Steps[Executed]]):
    """Packets as operations for `pipeline`, each in a session that has no other packet."""

    def __init__(
        self,
        requests: Requests,
        packets: Iterable[Sequence[Operation]],
        sessions: Sequence[Session],
        key: Optional[IdempotencyKey],
    ) -> None:
        self._requests = requests
        self._packets = iter(packets)
        self._free = deque(sessions)
        self._in_flight = 0
        self._key = key
        self._place = 0

    def window(self) -> int:
        """Returns the number of sessions that can be used: all but those with a packet whose outcome is unknown."""
        return max(1, len(self._free) + self._in_flight)

    def __next__(self) -> Steps[Executed]:
        packet = next(self._packets)
        if self._key is not None:
            packet = list(keyed(packet, self._key, self._place))
            self._place += len(packet)
        if not self._free:
            return self._not_sent()
        self._in_flight += 1
        return self._one(packet, self._free.popleft())

    def _one(self, packet: Sequence[Operation], session: Session) -> Steps[Executed]:
        try:
            return (yield from self._requests._execute(session, packet, self._key))
        finally:
            self._in_flight -= 1
            if session.unanswered is None:
                self._free.append(session)

    def _not_sent(self) -> Steps[Executed]:
        yield from ()
        raise LinesideError("the packet was not sent: every session has a packet without a reply; `resume` them")


def _session_body(session: Session) -> bytes:
    return SESSION_BODY.pack(_ZEROS, session.token, 0, session.slot, 0)


# ---- clients ----


class Client(Blocking[Requests]):
    """Blocking client of one server.

    >>> client = Client("127.0.0.1:7702", timeout_s=3.0)
    >>> client.close()
    """

    def __init__(
        self, address: Address = "127.0.0.1", timeout_s: float = 3.0, signer: Optional[SecretKey] = None
    ) -> None:
        super().__init__(address, TRANSFER_PORT, timeout_s)
        self.requests = Requests(signer)

    open_session = blocking(Requests.open)
    close_session = blocking(Requests.close)
    next_sequence = blocking(Requests.next_sequence)
    execute = blocking(Requests.execute)
    resume = blocking(Requests.resume)
    refer = blocking(Requests.refer)

    @contextmanager
    def session(self) -> Iterator[Session]:
        """Opens a session for a `with` block, and closes it at the end.

        The end of the block raises no error: if the server does not answer, the session stays open there until it has
        not been used for days. A session with a packet that has no reply, and no idempotency keys, is left open.
        """
        session = self.open_session()
        try:
            yield session
        finally:
            self.run(self.requests.leave(session))

    def execute_all(
        self,
        packets: Iterable[Sequence[Operation]],
        sessions: Sequence[Session],
        idempotency_key: Optional[IdempotencyKey] = None,
    ) -> Iterator[Union[Executed, LinesideError]]:
        """Executes packets in several sessions at a time, in any order. Yields the results in the order of packets.

        An error is yielded in the place of its packet. After `OutcomeUnknown`, its session is no longer used: `resume`
        it. With an `idempotency_key`, the same call with the same key in new sessions does the rest of an interrupted
        batch.
        """
        batch = self.requests.execute_all(packets, sessions, idempotency_key)
        return self.pipeline(batch, batch.window)

    def paper(
        self, command: int, source: int, destination: int = 0, amount: int = 0, transaction_id: int = 0
    ) -> Outcome:
        """Sends the paper's packet: 1 CREATE, 2 ISSUE, 3 TRANSFER, 4 REFER.

        A request with a transaction id is repeated and counts once; without one (0), a change is sent once only.
        """
        call = _Paper(PaperTransfer(command, transaction_id, source, destination, amount))
        return ask_once_blocking(self._address, call, self.timeout_s)


class AsyncClient(Awaiting[Requests]):
    """Client of one server for asyncio. Use a session in one task at a time."""

    def __init__(
        self, address: Address = "127.0.0.1", timeout_s: float = 3.0, signer: Optional[SecretKey] = None
    ) -> None:
        super().__init__(address, TRANSFER_PORT, timeout_s)
        self.requests = Requests(signer)

    open_session = awaiting(Requests.open)
    close_session = awaiting(Requests.close)
    next_sequence = awaiting(Requests.next_sequence)
    execute = awaiting(Requests.execute)
    resume = awaiting(Requests.resume)
    refer = awaiting(Requests.refer)

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Opens a session for an `async with` block, and closes it at the end, like `Client.session`."""
        session = await self.open_session()
        try:
            yield session
        finally:
            await self.run(self.requests.leave(session))

    def execute_all(
        self,
        packets: Iterable[Sequence[Operation]],
        sessions: Sequence[Session],
        idempotency_key: Optional[IdempotencyKey] = None,
    ) -> AsyncIterator[Union[Executed, LinesideError]]:
        """Executes packets in several sessions at a time, like `Client.execute_all`."""
        batch = self.requests.execute_all(packets, sessions, idempotency_key)
        return self.pipeline(batch, batch.window)

    async def paper(
        self, command: int, source: int, destination: int = 0, amount: int = 0, transaction_id: int = 0
    ) -> Outcome:
        """Sends the paper's packet, like `Client.paper`."""
        call = _Paper(PaperTransfer(command, transaction_id, source, destination, amount))
        return await ask_once_async(self._address, call, self.timeout_s)

"""Client of `column`: cells and ranges of rows of a wide table.

Keys (1 to 255 bytes) and values are bytes; a `str` is encoded as UTF-8. A column is `family:qualifier`.
"""

from __future__ import annotations

from typing import AsyncIterator, Iterator, NamedTuple, Optional, Sequence, TypeVar, Union

from ._arguments import data_of, whole
from ._core import DATAGRAM_BYTES_MAX, Again, NativeCall, Steps
from ._generated import (
    COLUMN_FLAG_ABSENT,
    COLUMN_FLAG_REVERSE,
    COLUMN_FLAG_START_EXCLUSIVE,
    COLUMN_FLAG_STOP_INCLUSIVE,
    COLUMN_HEAD,
    COLUMN_NAME_BYTES_MAX,
    COLUMN_OP_APPEND,
    COLUMN_OP_CHECK_AND_PUT,
    COLUMN_OP_DELETE,
    COLUMN_OP_GET,
    COLUMN_OP_INCREMENT,
    COLUMN_OP_OPEN,
    COLUMN_OP_PUT,
    COLUMN_OP_SCAN,
    COLUMN_PORT,
    COLUMN_REPLY,
    COLUMN_REPLY_MAY_BE_STALE,
    COLUMN_REPLY_MORE,
    COLUMN_REPLY_NOT_APPLIED,
    COLUMN_ROW,
    COLUMN_ROW_CUT_KEY,
    COLUMN_ROW_LEFT_OUT,
    COLUMN_SESSION,
    COLUMN_SOURCE_FASTPATH,
    NATIVE_HEADER,
    ColumnReply,
    ColumnSession,
    Status,
)
from ._links import Address, Awaiting, Blocking, awaiting, blocking
from .errors import LinesideError, OutcomeUnknown, Refused

T = TypeVar("T")
Bytes = Union[bytes, str]

#: Column of the paper, and the default of the command line.
DEFAULT_COLUMN = "entry:foo"

#: Bytes of the longest packet: packets consist of whole words.
_PACKET_BYTES_MAX = DATAGRAM_BYTES_MAX // 8 * 8
_INCREMENT_BYTES = 8


# ---- results ----


class Row(NamedTuple):
    """Cells of a row, by column. Columns without a cell are left out."""

    key: bytes
    cells: dict[str, bytes]
    #: True: the fast path answered; False: the host
    is_from_fast_path: bool
    #: True: the answer may be stale, because the table does not announce its changes
    may_be_stale: bool


class LongRow(NamedTuple):
    """Row that exists but fits no packet: its key, and the length of its longest value."""

    key: bytes
    #: True: the key is longer than 255 bytes and cut; all rows that begin with it are named once
    is_key_cut: bool
    #: column of the longest value
    column: str
    value_bytes: int


class RowTooLong(Refused):
    """The row of a `get` fits no packet. Ask for fewer columns; a value above about 1,400 bytes cannot be read."""

    def __init__(self, row: LongRow) -> None:
        super().__init__(
            f"the row {row.key!r} fits no packet: its longest value has {row.value_bytes} bytes in {row.column}; "
            "ask for fewer columns",
            Status.TOO_LONG,
        )
        self.row = row


class Range(NamedTuple):
    """Range of rows of a scan."""

    #: first key; empty: the table's first row or, in reverse, its last
    start: bytes = b""
    #: key before which the scan stops; empty: the table's end
    stop: bytes = b""
    #: maximum number of rows; 0: no limit
    limit: int = 0
    is_reverse: bool = False
    #: True: a row at `stop` is in the range
    is_stop_inclusive: bool = False
    #: True: a row at `start` is not in the range
    is_start_exclusive: bool = False


#: Range of all rows.
WHOLE_TABLE = Range()


class Page(NamedTuple):
    """Rows of a scan that fit one packet, and the rest of the range; `None`: the scan has ended."""

    rows: list[Union[Row, LongRow]]
    rest: Optional[Range]


class ChangeId(NamedTuple):
    """Change in a session: its name in `OutcomeUnknown`. `Client.resume` finds its outcome."""

    slot: int
    nonce: int

    def __str__(self) -> str:
        return f"change {self.nonce} of session {self.slot}"


class _Cell(NamedTuple):
    key: bytes
    column: int
    value: bytes


class _Answer(NamedTuple):
    """Content of a reply."""

    status: Status
    head: ColumnReply
    #: cells, and rows that fit no packet (with bits in `column`), in their order
    cells: list[_Cell]


def _parse(status: Status, body: bytes, columns: int) -> _Answer | Again:
    if len(body) < COLUMN_REPLY.size:
        return Again.IGNORE
    head = ColumnReply(*COLUMN_REPLY.unpack_from(body))
    at, cells = COLUMN_REPLY.size, []
    for _ in range(head.rows):
        if at + COLUMN_ROW.size > len(body):
            return Again.IGNORE
        key_bytes, column, value_bytes = COLUMN_ROW.unpack_from(body, at)
        start = at + COLUMN_ROW.size
        end = start + key_bytes + value_bytes
        is_long = column & COLUMN_ROW_LEFT_OUT != 0
        index = column & ~(COLUMN_ROW_LEFT_OUT | COLUMN_ROW_CUT_KEY) if is_long else column
        if end > len(body) or index >= columns or (is_long and value_bytes != 8):
            return Again.IGNORE
        cells.append(_Cell(body[start : start + key_bytes], column, body[start + key_bytes : end]))
        at = _padded(end)
    return _Answer(status, head, cells)


def _padded(length: int) -> int:
    return (length + 7) // 8 * 8


def _bytes(data: Bytes) -> bytes:
    return data_of("key or value", data)


def _key(key: Bytes) -> bytes:
    """Returns the key of a row. Only the ends of a range may be empty."""
    data = _bytes(key)
    if not 1 <= len(data) <= 255:
        raise ValueError(f"the key of a row has 1 to 255 bytes, not {len(data)}")
    return data


def _name(column: str) -> bytes:
    if not isinstance(column, str):
        raise TypeError(f"{column!r}: a column is a str, family:qualifier")
    name = column.encode("utf-8", "surrogateescape")
    if len(name) > COLUMN_NAME_BYTES_MAX or name.find(b":") < 1 or b"\0" in name:
        raise ValueError(f"{column!r}: a column is family:qualifier, of at most {COLUMN_NAME_BYTES_MAX} bytes")
    return name.ljust(COLUMN_NAME_BYTES_MAX, b"\0")


def _body(
    columns: Sequence[str],
    parts: tuple[bytes, bytes, bytes, bytes],
    flags: int = 0,
    limit: int = 0,
    session: tuple[int, int, int] = (0, 0, 0),
    reply_bytes: int = 0,
) -> bytes:
    """Returns the body of a request. `parts`: start key, stop key, value, expected value."""
    start, stop, value, expected = (len(part) for part in parts)
    if max(start, stop) > 255:
        raise ValueError(f"a key has at most 255 bytes, not {max(start, stop)}")
    if not 1 <= len(columns) <= 255:
        raise ValueError(f"a request has at least one column, not {len(columns)}")
    room = max(_padded(reply_bytes), NATIVE_HEADER.size + COLUMN_REPLY.size) - NATIVE_HEADER.size
    names = b"".join(map(_name, columns))
    padded = b"".join(part.ljust(_padded(len(part)), b"\0") for part in parts)
    if NATIVE_HEADER.size + COLUMN_HEAD.size + len(names) + len(padded) > DATAGRAM_BYTES_MAX:
        raise ValueError(f"the request does not fit a packet of {DATAGRAM_BYTES_MAX} bytes: use a shorter key or value")
    head = COLUMN_HEAD.pack(flags, start, stop, len(columns), limit, value, expected, 0, *session)
    return (head + names + padded).ljust(room, b"\0")


# ---- requests ----


class _Read(NativeCall[_Answer]):
    def __init__(self, op: int, columns: Sequence[str], body: bytes) -> None:
        super().__init__(op, body)
        self._columns = len(columns)

    def read(self, status: Status, body: bytes) -> _Answer | Again:
        if status in (Status.OK, Status.UNKNOWN, Status.TOO_LONG):
            return _parse(status, body, self._columns) if len(body) == len(self.body) else Again.IGNORE
        raise Refused(f"the server refused the request: {status.meaning}", status)


class _Open(NativeCall[ColumnSession]):
    def read(self, status: Status, body: bytes) -> ColumnSession | Again:
        if status is not Status.OK:
            raise Refused(f"the server refused the request: {status.meaning}", status)
        return ColumnSession(*COLUMN_SESSION.unpack(body)) if len(body) == COLUMN_SESSION.size else Again.IGNORE


class _Session:
    """Session, with the nonce of its last change."""

    def __init__(self, slot: int, token: int) -> None:
        self.slot = slot
        self.token = token
        self.nonce = 0


class _Change(NativeCall[_Answer]):
    #: Refusals that a repeated change gets only if its first copy got them, too.
    _ALWAYS_DEFINITE = (
        Status.BAD_REQUEST,
        Status.NOT_A_NUMBER,
        Status.TOO_LONG,
        Status.UNAUTHORISED,
        Status.UNKNOWN_FAMILY,
        Status.UNSUPPORTED_VERSION,
    )

    def __init__(self, op: int, body: bytes, session: _Session) -> None:
        super().__init__(op, body)
        self.session = session
        self.id = ChangeId(session.slot, session.nonce)
        self.is_resumed = False

    def read(self, status: Status, body: bytes) -> _Answer | Again:
        if body and status in (Status.OK, Status.UNKNOWN):
            return _parse(status, body, 1) if len(body) == len(self.body) else Again.IGNORE
        is_repeated = self.sent > 1 or self.is_resumed
        if status is Status.OUTCOME_UNKNOWN or (is_repeated and status not in self._ALWAYS_DEFINITE):
            raise OutcomeUnknown(f"the server's answer is: {status.meaning}", self.id)
        raise Refused(f"the server refused the change: {status.meaning}", status)

    def expired(self, server: str, timeout_s: float, is_busy: bool) -> LinesideError:
        return OutcomeUnknown(str(super().expired(server, timeout_s, is_busy)), self.id)


class Requests:
    """Operations of `column` as generators of requests: for `Client.pipeline`, and for other front ends.

    Changes are made in sessions, which are opened when they are needed: as many as there are changes at a time.
    """

    #: Refusals after which a session cannot be continued.
    _ENDS_SESSION = (
        Status.BAD_REQUEST,
        Status.NO_SESSION,
        Status.REUSED,
        Status.SEQUENCE,
        Status.UNAUTHORISED,
        Status.UNSUPPORTED_VERSION,
    )

    def __init__(self) -> None:
        self._free: list[_Session] = []
        self._unknown: dict[ChangeId, _Change] = {}

    def get(self, key: Bytes, columns: Sequence[str] = (DEFAULT_COLUMN,)) -> Steps[Optional[Row]]:
        """Returns the cells of a row; `None`: there is no cell in these columns."""
        body = _body(columns, (_key(key), b"", b"", b""), reply_bytes=_PACKET_BYTES_MAX)
        answer: _Answer = yield _Read(COLUMN_OP_GET, columns, body)
        rows = _rows(answer, columns)
        if not rows:
            return None
        (row,) = rows
        if isinstance(row, LongRow):
            raise RowTooLong(row)
        return row

    def scan_page(self, range: Range = WHOLE_TABLE, columns: Sequence[str] = (DEFAULT_COLUMN,)) -> Steps[Page]:
        """Returns as many rows of a range as fit one packet, with the rest of the range."""
        flags = COLUMN_FLAG_REVERSE if range.is_reverse else 0
        flags |= COLUMN_FLAG_STOP_INCLUSIVE if range.is_stop_inclusive else 0
        flags |= COLUMN_FLAG_START_EXCLUSIVE if range.is_start_exclusive else 0
        limit = min(whole("limit", range.limit, 2**63), 0xFFFF)
        start, stop = _bytes(range.start), _bytes(range.stop)
        range = range._replace(start=start, stop=stop)
        body = _body(columns, (start, stop, b"", b""), flags, limit, reply_bytes=_PACKET_BYTES_MAX)
        answer: _Answer = yield _Read(COLUMN_OP_SCAN, columns, body)
        rows = _rows(answer, columns)
        is_full = range.limit != 0 and len(rows) >= range.limit
        if not answer.head.flags & COLUMN_REPLY_MORE or is_full:
            return Page(rows, None)
        if not rows:
            raise LinesideError("the server's answer to a scan has no rows, but claims that there are more")
        left = range.limit - len(rows) if range.limit else 0
        return Page(rows, _rest(range._replace(limit=left), rows[-1]))

    def put(self, key: Bytes, value: Bytes, column: str = DEFAULT_COLUMN) -> Steps[None]:
        """Sets a cell."""
        yield from self._change(COLUMN_OP_PUT, key, column, value)

    def delete(self, key: Bytes, column: str = DEFAULT_COLUMN) -> Steps[None]:
        """Deletes a cell; done also if there is none."""
        yield from self._change(COLUMN_OP_DELETE, key, column)

    def increment(self, key: Bytes, by: int = 1, column: str = DEFAULT_COLUMN) -> Steps[int]:
        """Adds to a cell of 8 bytes (big-endian, signed; a missing cell counts as 0), and returns its new value.

        `by` is from -2^63 to 2^63 - 1. A sum beyond this range wraps around: 2^63 - 1 and 1 give
        -2^63. The client cannot refuse that, because only the server knows the cell.
        """
        value = whole("by", by, 2**63, -(2**63)).to_bytes(_INCREMENT_BYTES, "big", signed=True)
        answer = yield from self._change(COLUMN_OP_INCREMENT, key, column, value, reply_bytes=_PACKET_BYTES_MAX)
        return _number(answer)

    def append(self, key: Bytes, suffix: Bytes, column: str = DEFAULT_COLUMN) -> Steps[Optional[bytes]]:
        """Appends to a cell, and returns its new value; `None`: done, but the value fits no packet."""
        answer = yield from self._change(COLUMN_OP_APPEND, key, column, suffix, reply_bytes=_PACKET_BYTES_MAX)
        return _value(answer)

    def check_and_put(
        self, key: Bytes, value: Bytes, expected: Optional[Bytes] = None, column: str = DEFAULT_COLUMN
    ) -> Steps[bool]:
        """Sets a cell if it has the expected value (`None`: if there is no cell). Returns whether it was set."""
        flags = COLUMN_FLAG_ABSENT if expected is None else 0
        answer = yield from self._change(COLUMN_OP_CHECK_AND_PUT, key, column, value, expected or b"", flags)
        return _is_applied(answer)

    def resume(self, id: ChangeId) -> Steps[Changed]:
        """Sends a change whose outcome is unknown again, and returns its outcome. It is executed once."""
        call = self._unknown.get(id)
        if call is None:
            raise LinesideError(f"{id}: this client has no such change without an outcome")
        call.is_resumed = True
        answer = yield from self._ask(call)
        return Changed(_is_applied(answer), _value(answer))

    def _change(
        self,
        op: int,
        key: Bytes,
        column: str,
        value: Bytes = b"",
        expected: Bytes = b"",
        flags: int = 0,
        reply_bytes: int = 0,
    ) -> Steps[_Answer]:
        parts = (_key(key), b"", _bytes(value), _bytes(expected))
        _body([column], parts)  # Refuses what no packet can hold before a session is taken.
        for is_last in (False, True):
            session = self._free.pop() if self._free else (yield from self._open())
            session.nonce += 1
            identity = (session.slot, session.token, session.nonce)
            call = _Change(op, _body([column], parts, flags, 0, identity, reply_bytes), session)
            try:
                return (yield from self._ask(call))
            except Refused as refused:
                # The server closes sessions that were not used for long, and has not executed the change.
                if refused.status is not Status.NO_SESSION or is_last:
                    raise
        raise AssertionError("the second attempt returns or raises")

    def _ask(self, call: _Change) -> Steps[_Answer]:
        # Until its outcome is known, no other change uses the session.
        self._unknown[call.id] = call
        try:
            answer: _Answer = yield call
        except Refused as refused:
            del self._unknown[call.id]
            if refused.status not in self._ENDS_SESSION:
                self._free.append(call.session)
            raise
        del self._unknown[call.id]
        self._free.append(call.session)
        return answer

    def _open(self) -> Steps[_Session]:
        challenge: ColumnSession = yield _Open(COLUMN_OP_OPEN, bytes(COLUMN_SESSION.size))
        granted: ColumnSession = yield _Open(COLUMN_OP_OPEN, COLUMN_SESSION.pack(challenge.challenge, 0, 0, 0, 0))
        return _Session(granted.slot, granted.token)


class Changed(NamedTuple):
    """Outcome of a change that was resumed."""

    #: False: nothing was changed, because the cell did not have the expected value
    is_applied: bool
    #: new value after an increment or append
    value: Optional[bytes]


def _rows(answer: _Answer, columns: Sequence[str]) -> list[Union[Row, LongRow]]:
    """Returns the rows of an answer: neighbouring cells of one key are one row."""
    is_from_fast_path = answer.head.source == COLUMN_SOURCE_FASTPATH
    may_be_stale = answer.head.flags & COLUMN_REPLY_MAY_BE_STALE != 0
    rows: list[Union[Row, LongRow]] = []
    for key, column, value in answer.cells:
        if column & COLUMN_ROW_LEFT_OUT:
            is_cut = column & COLUMN_ROW_CUT_KEY != 0
            name = columns[column & ~(COLUMN_ROW_LEFT_OUT | COLUMN_ROW_CUT_KEY)]
            rows.append(LongRow(key, is_cut, name, int.from_bytes(value, "big")))
            continue
        last = rows[-1] if rows else None
        if not isinstance(last, Row) or last.key != key:
            last = Row(key, {}, is_from_fast_path, may_be_stale)
            rows.append(last)
        last.cells[columns[column]] = value
    return rows


def _rest(range: Range, last: Union[Row, LongRow]) -> Optional[Range]:
    """Returns the rest of a range after its last row; `None`: there is none."""
    if isinstance(last, Row) or not last.is_key_cut:
        return range._replace(start=last.key, is_start_exclusive=True)
    if range.is_reverse:
        # Rows with the cut key as their prefix come before it.
        return range._replace(start=last.key, is_start_exclusive=False)
    prefix = last.key.rstrip(b"\xff")
    if not prefix:
        return None
    return range._replace(start=prefix[:-1] + bytes([prefix[-1] + 1]), is_start_exclusive=False)


def _is_applied(answer: _Answer) -> bool:
    return not answer.head.flags & COLUMN_REPLY_NOT_APPLIED


def _value(answer: _Answer) -> Optional[bytes]:
    values = [cell.value for cell in answer.cells if not cell.column & COLUMN_ROW_LEFT_OUT]
    return values[0] if values else None


def _number(answer: _Answer) -> int:
    return int.from_bytes(_value(answer) or b"", "big", signed=True)


# ---- clients ----


class Client(Blocking[Requests]):
    """Blocking client of one server.

    >>> client = Client("127.0.0.1:7703", timeout_s=3.0)
    >>> client.close()
    """

    def __init__(self, address: Address = "127.0.0.1", timeout_s: float = 3.0) -> None:
        super().__init__(address, COLUMN_PORT, timeout_s)
        self.requests = Requests()

    get = blocking(Requests.get)
    scan_page = blocking(Requests.scan_page)
    put = blocking(Requests.put)
    delete = blocking(Requests.delete)
    increment = blocking(Requests.increment)
    append = blocking(Requests.append)
    check_and_put = blocking(Requests.check_and_put)
    resume = blocking(Requests.resume)

    def scan(
        self, range: Range = WHOLE_TABLE, columns: Sequence[str] = (DEFAULT_COLUMN,)
    ) -> Iterator[Union[Row, LongRow]]:
        """Returns all rows of a range, packet by packet.

        The result is not a snapshot, but every row that exists during the whole scan is found.
        """
        rest: Optional[Range] = range
        while rest is not None:
            page = self.scan_page(rest, columns)
            yield from page.rows
            rest = page.rest


class AsyncClient(Awaiting[Requests]):
    """Client of one server for asyncio. Any number of tasks may use it at a time."""

    def __init__(self, address: Address = "127.0.0.1", timeout_s: float = 3.0) -> None:
        super().__init__(address, COLUMN_PORT, timeout_s)
        self.requests = Requests()

    get = awaiting(Requests.get)
    scan_page = awaiting(Requests.scan_page)
    put = awaiting(Requests.put)
    delete = awaiting(Requests.delete)
    increment = awaiting(Requests.increment)
    append = awaiting(Requests.append)
    check_and_put = awaiting(Requests.check_and_put)
    resume = awaiting(Requests.resume)

    async def scan(
        self, range: Range = WHOLE_TABLE, columns: Sequence[str] = (DEFAULT_COLUMN,)
    ) -> AsyncIterator[Union[Row, LongRow]]:
        """Returns all rows of a range, packet by packet, like `Client.scan`."""
        rest: Optional[Range] = range
        while rest is not None:
            page = await self.scan_page(rest, columns)
            for row in page.rows:
                yield row
            rest = page.rest

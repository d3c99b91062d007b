"""Client of `hybrid`: signed reads and writes by gRPC or UDP, and proofs that are checked without a node.

Keys and values are bytes; a `str` is encoded as UTF-8.
"""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Any,
    AsyncIterator,
    Iterator,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    TypeVar,
    Union,
)

from ._arguments import data_of, whole
from ._core import Exchange, Steps
from ._generated import (
    HYBRID_OP_CHANGE,
    HYBRID_OP_GET,
    HYBRID_OP_HEAD,
    HYBRID_OP_HISTORY,
    HYBRID_OP_OUTCOME,
    HYBRID_OP_PROVE,
    HYBRID_OP_RANGE,
    HYBRID_OP_WATCH,
    HYBRID_OP_WRITE,
    HYBRID_PORT,
    BlockHeader,
    HybridCode,
    NodeHead,
)
from ._hybrid_answers import Answer, Cell, Event, KeyCell, PastWrite, read_answer
from ._hybrid_calls import EXPIRY_MS, Ask, Identity, Order, TransactionId, unix_ms
from ._links import Address, AsyncUdpLink, Awaiting, Blocking, UdpLink, awaiting, blocking
from .errors import LinesideError, OutcomeUnknown
from .hybrid_ledger import (
    ABSENT,
    Genesis,
    NotProven,
    StateProof,
    Version,
    add_key,
    add_member,
    add_node,
    block_hash,
    change_body,
    check_head,
    get_body,
    history_body,
    prove_body,
    range_body,
    read_head,
    read_header,
    revoke_key,
    revoke_member,
    revoke_node,
    set_quorum,
    set_rule,
    short,
    write_body,
)
from .keys import PublicKey, SecretKey

if TYPE_CHECKING:
    import grpc

__all__ = [
    "ABSENT",
    "AsyncClient",
    "BlockHeader",
    "Cell",
    "Client",
    "CodeError",
    "Conflict",
    "Event",
    "Genesis",
    "HistoryPage",
    "HybridCode",
    "KeyCell",
    "NodeHead",
    "NotProven",
    "PastWrite",
    "Placed",
    "Proven",
    "PublicKey",
    "RangePage",
    "Requests",
    "SecretKey",
    "SignedHead",
    "StateProof",
    "TransactionId",
    "Version",
    "add_key",
    "add_member",
    "add_node",
    "block_hash",
    "check_head",
    "read_head",
    "read_header",
    "revoke_key",
    "revoke_member",
    "revoke_node",
    "set_quorum",
    "set_rule",
]

T = TypeVar("T")
Bytes = Union[bytes, str]

#: Attempts with another lane, when another process has used the same lane.
_LANE_ATTEMPTS = 8
#: Attempts to get value, proof and head of one block.
_PROOF_ATTEMPTS = 10
#: Time after the expiry of a request until which the client waits for a copy that the node has accepted before.
_AFTER_EXPIRY_MS = 2_000
#: Time until which a change waits for the votes of other admins, by default.
_VOTES_MS = 24 * 60 * 60 * 1000


class CodeError(LinesideError):
    """The node refused a request, which had no effect. `code` is the reason. Raised by `outcome`, it is final."""

    def __init__(self, code: HybridCode, id: Optional[bytes] = None) -> None:
        of_id = "" if id is None else f" (transaction {id.hex()})"
        super().__init__(f"the node refused the request: {code.meaning}{of_id}")
        self.code = code
        self.id = id


class Conflict(CodeError):
    """A key does not have the version that the write requires. Nothing was written."""


class Placed(NamedTuple):
    """Place of a write in the ledger."""

    #: `DONE`; `RECORDED`: the vote counts, and the change needs more votes
    code: HybridCode
    version: Version
    #: id of the transaction, for `outcome`
    id: TransactionId


class RangePage(NamedTuple):
    """Keys of a range, and the key with which to continue; `None`: the range has ended."""

    cells: list[KeyCell]
    start: Optional[bytes]


class HistoryPage(NamedTuple):
    """Writes of a key, the newest first, and the version before which to continue; `None`: there are no older ones."""

    writes: list[PastWrite]
    before: Optional[Version]


class SignedHead(NamedTuple):
    """Header of a block, and a node's signed statement about it, which is checked already."""

    header: BlockHeader
    head: NodeHead


class Proven(NamedTuple):
    """Value of a key (`None`: it has none), its proof in bytes, and the head of its block. All are checked."""

    value: Optional[bytes]
    proof: bytes
    head: NodeHead


def _bytes(data: Bytes) -> bytes:
    return data_of("key or value", data)


def _content(answer: Answer) -> Any:
    """Returns the content of an answer that is done."""
    if answer.code is HybridCode.DONE:
        return answer.content
    raise CodeError(answer.code)


class Requests:
    """Operations of `hybrid` as generators of requests: for `Client.pipeline`, and for other front ends."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    # ---- reads ----

    def get(self, key: Bytes, linearizable: bool = False) -> Steps[Optional[Cell]]:
        """Returns the value of a key, with its version; `None`: it has none.

        With `linearizable`, the answer has all writes that any node acknowledged before.
        """
        cells = yield from self.get_all([key], linearizable)
        return cells[_bytes(key)]

    def get_all(self, keys: Sequence[Bytes], linearizable: bool = False) -> Steps[dict[bytes, Optional[Cell]]]:
        """Returns the values of up to 1,000 keys, all of one state."""
        names = sorted({_bytes(key) for key in keys})
        answer = yield from self._read(HYBRID_OP_GET, get_body(names, linearizable))
        cells = _content(answer)
        if len(cells) != len(names):
            raise LinesideError(f"the node's answer has {len(cells)} cells for {len(names)} keys")
        return dict(zip(names, cells))

    def range_page(
        self, start: Bytes = b"", stop: Bytes = b"", limit: int = 1000, linearizable: bool = False
    ) -> Steps[RangePage]:
        """Returns keys from `start` on, before `stop` (empty: to the end), with their values."""
        while True:
            body = range_body(_bytes(start), _bytes(stop), limit, linearizable)
            answer = yield from self._read(HYBRID_OP_RANGE, body)
            if answer.code is not HybridCode.TOO_LARGE or limit == 1:
                break
            # By UDP an answer has at most 1,200 bytes.
            limit = max(limit // 4, 1)
        cells, more = _content(answer)
        return RangePage(cells, cells[-1].key + b"\0" if more and cells else None)

    def history_page(self, key: Bytes, limit: int = 100, before: Optional[Version] = None) -> Steps[HistoryPage]:
        """Returns the newest writes of a key; with `before`, only those older than this version."""
        while True:
            answer = yield from self._read(HYBRID_OP_HISTORY, history_body(_bytes(key), limit, before))
            if answer.code is not HybridCode.TOO_LARGE or limit == 1:
                break
            limit = max(limit // 4, 1)
        writes, more = _content(answer)
        return HistoryPage(writes, writes[-1].version if more and writes else None)

    def head(self) -> Steps[SignedHead]:
        """Returns the header of the newest block, after checking the node's signature."""
        answer = yield from self._read(HYBRID_OP_HEAD, b"")
        header_bytes, head_bytes = _content(answer)
        header, head = read_header(header_bytes), read_head(head_bytes)
        if check_head(head, self._identity.genesis) != block_hash(header):
            raise NotProven("the node's signed head is of another block than its header")
        return SignedHead(header, head)

    def prove(self, key: Bytes) -> Steps[Proven]:
        """Returns the value of a key with its proof, after checking both against the node's signed head."""
        name = _bytes(key)
        for _ in range(_PROOF_ATTEMPTS):
            cell = yield from self.get(name)
            answer = yield from self._read(HYBRID_OP_PROVE, prove_body(name))
            signed = yield from self.head()
            proof: bytes = _content(answer)
            decoded = StateProof.decode(proof)
            value = None if cell is None else cell.value
            if decoded.header != signed.header or decoded.version != (ABSENT if cell is None else cell.version):
                # A new block came between value, proof and head.
                continue
            decoded.check(signed.head.hash, name, value)
            return Proven(value, proof, signed.head)
        raise LinesideError("new blocks interrupted the proof too often: try again when there are fewer writes")

    # ---- writes ----

    def set(self, key: Bytes, value: Bytes, if_version: Optional[Version] = None) -> Steps[Placed]:
        """Sets a key. With `if_version` the key must have this version (`ABSENT`: no value); else `Conflict`."""
        reads = {} if if_version is None else {key: if_version}
        return self.write({key: value}, reads)

    def delete(self, key: Bytes, if_version: Optional[Version] = None) -> Steps[Placed]:
        """Deletes a key; done also if it has no value."""
        reads = {} if if_version is None else {key: if_version}
        return self.write({key: None}, reads)

    def write(
        self, writes: Mapping[Bytes, Optional[Bytes]], reads: Optional[Mapping[Bytes, Version]] = None
    ) -> Steps[Placed]:
        """Sets (or with `None`, deletes) up to 1,000 keys together, if all keys of `reads` have their versions."""
        new = {_bytes(key): None if value is None else _bytes(value) for key, value in writes.items()}
        known = {_bytes(key): version for key, version in (reads or {}).items()}
        return self._order(HYBRID_OP_WRITE, write_body(known, new))

    def change(self, change: bytes, until_ms: Optional[int] = None) -> Steps[Placed]:
        """Requests a change of members, keys, rules, nodes or the quorum: `add_member` and others of this module.

        A change takes effect when enough admins have requested the same change with the same `until_ms`.
        """
        until = unix_ms() + _VOTES_MS if until_ms is None else until_ms
        return self._order(HYBRID_OP_CHANGE, change_body(change, until))

    def outcome(self, id: bytes, expiry_ms: Optional[int] = None) -> Steps[Placed]:
        """Returns the outcome of a transaction.

        Raises `CodeError` with the code with which it was refused. Raises `OutcomeUnknown` if there is no outcome yet:
        the node has no such transaction, but a copy of its request may still arrive. A request expires 30 seconds
        after it was signed. Two seconds after that by the node's clock, the error is `CodeError` with
        `HybridCode.UNKNOWN`, which is final: the request was not executed, and will not be.

        The id in `OutcomeUnknown` or `Placed` has the time at which its request expires (`TransactionId.expiry_ms`).
        For other bytes give it as `expiry_ms`; without it, there is no final `HybridCode.UNKNOWN`.
        """
        expiry_ms = getattr(id, "expiry_ms", None) if expiry_ms is None else expiry_ms
        name = TransactionId(id, expiry_ms)
        answer = yield from self._read(HYBRID_OP_OUTCOME, name)
        if answer.code is not HybridCode.UNKNOWN:
            return _placed(answer, name)
        if expiry_ms is None:
            raise OutcomeUnknown(
                "the node has no such transaction, which may still arrive: it is not known when its request expires "
                "(give `expiry_ms`)",
                name,
            )
        # The node compares the expiry of every request with its own clock. If it refuses a read that expires later
        # than the request, its clock is past both, and it accepts no further copy of the request.
        over_ms = whole("expiry_ms", expiry_ms, 2**63) + _AFTER_EXPIRY_MS
        answer = yield from self._read(HYBRID_OP_OUTCOME, name, over_ms)
        if answer.code is HybridCode.EXPIRED:
            return _placed((yield from self._read(HYBRID_OP_OUTCOME, name)), name)
        if answer.code in (HybridCode.UNKNOWN, HybridCode.EXPIRY_TOO_FAR):
            left_s = max(over_ms - unix_ms(), 0) / 1000
            raise OutcomeUnknown(
                f"the node has no such transaction yet, and its request is valid for {left_s:.0f} s more", name
            )
        return _placed(answer, name)

    # ---- helpers ----

    def watch_call(self, prefix: bytes) -> Ask:
        """Returns the request of a watcher."""
        body = short(prefix)
        # The lane is not used again: the stream has no end.
        return Ask(self._identity, self._identity.take_lane(), HYBRID_OP_WATCH, body)

    def _read(self, op: int, body: bytes, expiry_ms: Optional[int] = None) -> Steps[Answer]:
        lane = self._identity.take_lane()
        try:
            answer: Answer = yield Ask(self._identity, lane, op, body, expiry_ms)
            return answer
        finally:
            self._identity.give_back(lane)

    def _order(self, op: int, body: bytes) -> Steps[Placed]:
        for _ in range(_LANE_ATTEMPTS):
            lane = self._identity.take_lane()
            order = Order(self._identity, lane, op, body)
            answer: Answer = yield order
            if answer.code is not HybridCode.NONCE_USED:
                self._identity.give_back(lane)
                return _placed(answer, order.id)
            # Another process has used a higher counter of this lane, which is not used again here. Counters only
            # rise, so no copy of this request can be executed any more; but one may have been executed before.
            if order.sent > 1:
                answer = yield from self._read(HYBRID_OP_OUTCOME, order.id)
                if answer.code not in (HybridCode.UNKNOWN, HybridCode.NONCE_USED):
                    return _placed(answer, order.id)
        raise CodeError(HybridCode.NONCE_USED)


def _placed(answer: Answer, id: TransactionId) -> Placed:
    code = answer.code
    if code in (HybridCode.DONE, HybridCode.RECORDED):
        if answer.content is None:
            raise OutcomeUnknown("the node's answer has no place in the ledger", id)
        return Placed(code, answer.content, id)
    if code is HybridCode.OUTCOME_UNKNOWN:
        raise OutcomeUnknown(f"the node's answer is: {code.meaning}", id)
    raise Conflict(code, id) if code is HybridCode.CONFLICT else CodeError(code, id)


def _identity(secret: SecretKey, genesis: Genesis, member: Optional[int], key_number: int) -> Identity:
    if member is None:
        found = genesis.member_of(secret.public)
        if found is None:
            raise ValueError("no member of the genesis has this key; give `member` if member or key was added later")
        member = found.number
    return Identity(secret, genesis, member, key_number)


def _check_timeout(timeout_s: float) -> None:
    if timeout_s * 1000 >= EXPIRY_MS:
        raise ValueError(f"a deadline must be before a request expires, {EXPIRY_MS // 1000} s after it was signed")


def _event(data: bytes) -> Event:
    answer = read_answer("Event", data)
    if answer.code is not HybridCode.DONE:
        raise CodeError(answer.code)
    event: Event = answer.content
    return event


class Client(Blocking[Requests]):
    """Blocking client of one node: by gRPC, or with `udp=True` in datagrams of at most 1,200 bytes.

    `genesis` is that of the database; `secret` is the key of a member, whose number `member` is needed only if the
    genesis does not have the key. `credentials` (of `grpc.ssl_channel_credentials`) turn TLS on.
    """

    def __init__(
        self,
        address: Address,
        genesis: Genesis,
        secret: SecretKey,
        udp: bool = False,
        timeout_s: float = 10.0,
        member: Optional[int] = None,
        key_number: int = 0,
        credentials: Optional[grpc.ChannelCredentials] = None,
    ) -> None:
        _check_timeout(timeout_s)
        self.requests = Requests(_identity(secret, genesis, member, key_number))
        self._is_udp = udp
        self._credentials = credentials
        super().__init__(address, HYBRID_PORT, timeout_s)

    def _open(self) -> Any:
        if self._is_udp:
            return UdpLink(self._address, Exchange(self._server))
        from ._grpc import GrpcLink

        return GrpcLink(self._server, self._credentials)

    get = blocking(Requests.get)
    get_all = blocking(Requests.get_all)
    range_page = blocking(Requests.range_page)
    history_page = blocking(Requests.history_page)
    head = blocking(Requests.head)
    prove = blocking(Requests.prove)
    set = blocking(Requests.set)
    delete = blocking(Requests.delete)
    write = blocking(Requests.write)
    change = blocking(Requests.change)
    outcome = blocking(Requests.outcome)

    def range(self, start: Bytes = b"", stop: Bytes = b"", linearizable: bool = False) -> Iterator[KeyCell]:
        """Returns all keys from `start` on, before `stop` (empty: to the end), page by page."""
        next_key: Optional[Bytes] = start
        while next_key is not None:
            page = self.range_page(next_key, stop, linearizable=linearizable)
            yield from page.cells
            next_key = page.start

    def history(self, key: Bytes) -> Iterator[PastWrite]:
        """Returns all writes of a key, the newest first, page by page."""
        page = self.history_page(key)
        yield from page.writes
        while page.before is not None:
            page = self.history_page(key, before=page.before)
            yield from page.writes

    def watch(self, prefix: Bytes = b"") -> Iterator[Event]:
        """Returns the writes below a prefix as they become durable; only by gRPC.

        The first event has no key; its block is the one after which all writes are reported. Ends with `CodeError`:
        `HybridCode.BUSY` if the watcher was too slow.
        """
        if self._is_udp:
            raise ValueError("a watcher needs gRPC")
        return map(_event, self._link.stream(self.requests.watch_call(_bytes(prefix))))


class AsyncClient(Awaiting[Requests]):
    """Client of one node for asyncio. Any number of tasks may use it at a time. The arguments are those of `Client`."""

    def __init__(
        self,
        address: Address,
        genesis: Genesis,
        secret: SecretKey,
        udp: bool = False,
        timeout_s: float = 10.0,
        member: Optional[int] = None,
        key_number: int = 0,
        credentials: Optional[grpc.ChannelCredentials] = None,
    ) -> None:
        _check_timeout(timeout_s)
        super().__init__(address, HYBRID_PORT, timeout_s)
        self.requests = Requests(_identity(secret, genesis, member, key_number))
        self._is_udp = udp
        self._credentials = credentials

    def _open(self) -> Any:
        if self._is_udp:
            return AsyncUdpLink(self._address, Exchange(self._server))
        from ._grpc import AsyncGrpcLink

        return AsyncGrpcLink(self._server, self._credentials)

    get = awaiting(Requests.get)
    get_all = awaiting(Requests.get_all)
    range_page = awaiting(Requests.range_page)
    history_page = awaiting(Requests.history_page)
    head = awaiting(Requests.head)
    prove = awaiting(Requests.prove)
    set = awaiting(Requests.set)
    delete = awaiting(Requests.delete)
    write = awaiting(Requests.write)
    change = awaiting(Requests.change)
    outcome = awaiting(Requests.outcome)

    async def range(self, start: Bytes = b"", stop: Bytes = b"", linearizable: bool = False) -> AsyncIterator[KeyCell]:
        """Returns all keys of a range, like `Client.range`."""
        next_key: Optional[Bytes] = start
        while next_key is not None:
            page = await self.range_page(next_key, stop, linearizable=linearizable)
            for cell in page.cells:
                yield cell
            next_key = page.start

    async def history(self, key: Bytes) -> AsyncIterator[PastWrite]:
        """Returns all writes of a key, the newest first, like `Client.history`."""
        page = await self.history_page(key)
        for write in page.writes:
            yield write
        while page.before is not None:
            page = await self.history_page(key, before=page.before)
            for write in page.writes:
                yield write

    async def watch(self, prefix: Bytes = b"") -> AsyncIterator[Event]:
        """Returns the writes below a prefix, like `Client.watch`."""
        if self._is_udp:
            raise ValueError("a watcher needs gRPC")
        async for data in self._link.stream(self.requests.watch_call(_bytes(prefix))):
            yield _event(data)

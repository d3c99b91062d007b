"""Requests of `hybrid`: signed, with a nonce of a lane of their own, for datagrams and for gRPC."""

from __future__ import annotations

import os
import secrets
import time
from typing import Optional

from ._core import Again, Call, native_request, open_reply
from ._generated import (
    ANSWER_HEAD,
    HYBRID_ANSWER_CELLS,
    HYBRID_ANSWER_HISTORY,
    HYBRID_ANSWER_PLACED,
    HYBRID_ANSWER_PROOF,
    HYBRID_ANSWER_RANGE,
    HYBRID_ANSWER_SIGNED_HEAD,
    HYBRID_DATAGRAM_BYTES_MAX,
    HYBRID_OP_ASK,
    HYBRID_OP_CHANGE,
    HYBRID_OP_GET,
    HYBRID_OP_HEAD,
    HYBRID_OP_HISTORY,
    HYBRID_OP_OUTCOME,
    HYBRID_OP_PROVE,
    HYBRID_OP_RANGE,
    HYBRID_OP_WATCH,
    HYBRID_OP_WRITE,
    NATIVE_HEADER,
    REQUEST_SIGNATURE,
    HybridCode,
    Status,
)
from ._hybrid_answers import Answer, read_answer, read_datagram
from .errors import LinesideError, OutcomeUnknown, Refused
from .hybrid_ledger import Genesis, sign_request, signed_bytes, transaction_id
from .keys import SecretKey

#: Time for which a request is valid. A deadline must be shorter.
EXPIRY_MS = 30_000
#: Start of counters: 2025-01-01, in milliseconds since 1970. A counter has 256 steps for each millisecond.
_COUNTERS_SINCE_MS = 1_735_689_600_000
_LANES = 1 << 16

#: By operation: method of gRPC, message of its answer, content of the answer by UDP.
_METHODS = {
    HYBRID_OP_GET: ("Get", "Cells", HYBRID_ANSWER_CELLS),
    HYBRID_OP_RANGE: ("Range", "KeyCells", HYBRID_ANSWER_RANGE),
    HYBRID_OP_PROVE: ("Verify", "Proof", HYBRID_ANSWER_PROOF),
    HYBRID_OP_HISTORY: ("History", "Writes", HYBRID_ANSWER_HISTORY),
    HYBRID_OP_HEAD: ("Head", "SignedHeader", HYBRID_ANSWER_SIGNED_HEAD),
    HYBRID_OP_OUTCOME: ("Outcome", "Placed", HYBRID_ANSWER_PLACED),
    HYBRID_OP_WRITE: ("Set", "Placed", HYBRID_ANSWER_PLACED),
    HYBRID_OP_CHANGE: ("Change", "Placed", HYBRID_ANSWER_PLACED),
    HYBRID_OP_WATCH: ("Watch", "Event", None),
}


def unix_ms() -> int:
    """Returns the milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class Lane:
    """Lane of nonces, whose counter only rises."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._counter = 0

    def nonce(self) -> int:
        """Returns a nonce above all earlier ones of the lane, those of earlier processes included."""
        now = max(unix_ms() - _COUNTERS_SINCE_MS, 0) << 8
        self._counter = max(self._counter + 1, now)
        return self.number << 48 | self._counter


class Identity:
    """Member that signs requests. Each request in flight has a lane of its own, chosen at random.

    So requests do not overtake one another in a lane, neither in one process nor in several with the same key.
    """

    def __init__(self, secret: SecretKey, genesis: Genesis, member: int, key_number: int) -> None:
        self.secret = secret
        self.genesis = genesis
        self.member = member
        self.key_number = key_number
        self._free: list[Lane] = []
        self._used: set[int] = set()
        self._pid = os.getpid()

    def take_lane(self) -> Lane:
        """Returns a lane that no request of this process uses now."""
        if self._pid != os.getpid():
            # A forked process must not continue the lanes of its parent.
            self._free, self._used, self._pid = [], set(), os.getpid()
        if self._free:
            return self._free.pop()
        number = secrets.randbelow(_LANES)
        while number in self._used:
            number = secrets.randbelow(_LANES)
        self._used.add(number)
        return Lane(number)

    def give_back(self, lane: Lane) -> None:
        """Makes a lane available for the next request."""
        self._free.append(lane)

    def signed(self, op: int, body: bytes, lane: Lane, expiry_ms: Optional[int] = None) -> bytes:
        """Returns a signed request, which is valid until `expiry_ms`, or for 30 seconds."""
        expiry = unix_ms() + EXPIRY_MS if expiry_ms is None else expiry_ms
        database = self.genesis.database
        signed = signed_bytes(op, database, self.member, self.key_number, lane.nonce(), expiry, body)
        return sign_request(self.secret, signed)


class TransactionId(bytes):
    """Id of a transaction, 32 bytes, with the time at which its request expires.

    `expiry_ms` is in milliseconds since 1970: a node whose clock is past it refuses each further copy of the request.
    It is `None` if it is not known. To store an id, store both: `TransactionId(data, expiry_ms)` reads them again.
    """

    expiry_ms: Optional[int]

    def __new__(cls, data: bytes, expiry_ms: Optional[int] = None) -> TransactionId:
        if len(data) != 32:
            raise ValueError(f"the id of a transaction has 32 bytes, not {len(data)}")
        made = super().__new__(cls, data)
        made.expiry_ms = expiry_ms
        return made


def id_of(request: bytes) -> bytes:
    """Returns the id of a signed request."""
    return transaction_id(request[REQUEST_SIGNATURE.size :])


class Ask(Call[Answer]):
    """Read. Each repetition is signed again, because a node accepts a nonce of a read once."""

    pause_s = 0.1
    pause_max_s = 2.0
    is_fresh = True

    def __init__(
        self, identity: Identity, lane: Lane, op: int, body: bytes, expiry_ms: Optional[int] = None
    ) -> None:
        self._identity = identity
        self._expiry_ms = expiry_ms
        self._lane = lane
        self._op = op
        self._body = body
        self.method, self._message, self._says = _METHODS[op]

    def request(self) -> bytes:
        """Returns the signed request to send next."""
        return self._identity.signed(self._op, self._body, self._lane, self._expiry_ms)

    def encode(self, id: bytes) -> bytes:
        request = self.request()
        # The answer is never longer than the request, so the request is padded; that of an outcome is short.
        is_short = self._says == HYBRID_ANSWER_PLACED
        body = len(request).to_bytes(2, "big") + request
        if not is_short:
            body = body.ljust(HYBRID_DATAGRAM_BYTES_MAX - NATIVE_HEADER.size, b"\0")
        if NATIVE_HEADER.size + len(body) > HYBRID_DATAGRAM_BYTES_MAX:
            raise LinesideError(f"the request has {len(request)} bytes, which is too long for UDP: use gRPC")
        return native_request(HYBRID_OP_ASK, body, id)

    def decode(self, datagram: bytes) -> Answer | Again:
        reply = open_reply(HYBRID_OP_ASK, datagram)
        if reply is None:
            return Again.IGNORE
        status, body = reply
        if status is Status.BUSY:
            return Again.BUSY
        if status is not Status.OK:
            raise Refused(f"the node refused the request: {status.meaning}", status)
        try:
            if len(body) < ANSWER_HEAD.size or self._says is None:
                return Again.IGNORE
            return self.judge(read_datagram(body, self._says))
        except ValueError:
            return Again.IGNORE

    def decode_message(self, data: bytes) -> Answer | Again:
        """Reads the answer of gRPC."""
        try:
            return self.judge(read_answer(self._message, data))
        except ValueError as error:
            raise LinesideError(f"the node's answer is malformed: {error}") from error

    def judge(self, answer: Answer) -> Answer | Again:
        """Returns the answer, or that the request is to be repeated."""
        # The network may duplicate a read and deliver the refusal of the second copy first.
        is_temporary = answer.code in (HybridCode.BUSY, HybridCode.NONCE_USED)
        return Again.BUSY if is_temporary else answer


class Order(Ask):
    """Write or change. It is signed once and repeated with the same bytes, so that it counts once."""

    pause_s = 0.25
    is_fresh = False

    def __init__(self, identity: Identity, lane: Lane, op: int, body: bytes) -> None:
        expiry_ms = unix_ms() + EXPIRY_MS
        super().__init__(identity, lane, op, body, expiry_ms)
        self._request = super().request()
        #: Id of the transaction.
        self.id = TransactionId(id_of(self._request), expiry_ms)

    def request(self) -> bytes:
        return self._request

    def judge(self, answer: Answer) -> Answer | Again:
        if answer.code is HybridCode.BUSY:
            return Again.BUSY
        # After several copies, one may have been executed before the node refused.
        may_be_executed = (HybridCode.READ_ONLY, HybridCode.REVOKED, HybridCode.EXPIRED)
        is_unknown = answer.code is HybridCode.OUTCOME_UNKNOWN or (self.sent > 1 and answer.code in may_be_executed)
        if is_unknown:
            raise OutcomeUnknown(f"the node's answer is: {answer.code.meaning}", self.id)
        return answer

    def expired(self, server: str, timeout_s: float, is_busy: bool) -> LinesideError:
        return OutcomeUnknown(str(super().expired(server, timeout_s, is_busy)), self.id)

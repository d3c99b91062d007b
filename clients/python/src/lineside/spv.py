"""Client of `spv`: roots, proofs and headers of Bitcoin transactions.

A TXID is 32 bytes in wire order, or 64 hexadecimal digits as explorers show them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, Optional, Sequence, TypeVar, Union

from ._arguments import whole
from ._core import Again, Call, NativeCall, Steps
from ._generated import (
    HEADERS_HEAD,
    PROOF_REPLY,
    ROOT_ITEM,
    ROOT_REPLY,
    ROOTS_HEAD,
    SPV_HEADER_BYTES,
    SPV_HEADERS_MAX,
    SPV_HEIGHT_UNKNOWN,
    SPV_OP_HEADERS,
    SPV_OP_PROOF,
    SPV_OP_ROOT,
    SPV_OP_ROOTS,
    SPV_OP_WITNESS_PROOF,
    SPV_OP_WTXID_PROOF,
    SPV_PAPER_REPLY_BYTES,
    SPV_PORT,
    SPV_PROOF_DEPTH_MAX,
    SPV_ROOTS_MAX,
    SPV_WITNESS_ROOM_MAX,
    WITNESS_REPLY,
    HeadersHead,
    ProofReply,
    RootsHead,
    Status,
    WitnessReply,
)
from ._links import Address, Awaiting, Blocking, awaiting, blocking
from ._paper import ask_once_async, ask_once_blocking
from .errors import LinesideError, Refused
from .header_chain import ChainError, HeaderChain, UnknownParent
from .spv_proof import (
    Header,
    TransactionProof,
    WitnessProof,
    display,
    hash_bytes,
)

T = TypeVar("T")
Txid = Union[bytes, str]

#: Hashes that the first request for a proof has room for: enough for a block of 4,096 transactions.
_PROOF_ROOM = 12


class Location(NamedTuple):
    """Block of a transaction, as the server claims it."""

    #: Merkle root of the block
    root: bytes
    block_hash: bytes
    #: height of the block; `None` for a block whose parents the server does not know
    height: Optional[int]


@dataclass(frozen=True)
class Answer(Generic[T]):
    """Result of a request, and the tip of the server's chain at which it is valid."""

    result: T
    tip_height: int
    tip_hash: bytes


class ServerRefused(Refused):
    """The server does not serve this operation, or not for this transaction. The message says why."""


def _height(height: int) -> Optional[int]:
    return None if height == SPV_HEIGHT_UNKNOWN else height


class _SpvCall(NativeCall[T]):
    def read(self, status: Status, body: bytes) -> T | Again:
        if status is Status.NOT_KEPT and not body:
            raise Refused("the server does not answer this operation: its option `tables` leaves it out", status)
        if status in (Status.OK, Status.UNKNOWN, Status.TOO_LONG, Status.NOT_KEPT, Status.NO_COMMITMENT):
            return self.parse(status, body)
        raise Refused(f"the server refused the request: {status.meaning}", status)

    def parse(self, status: Status, body: bytes) -> T | Again:
        raise NotImplementedError


class _Root(_SpvCall["Answer[Optional[Location]]"]):
    def parse(self, status: Status, body: bytes) -> Answer[Optional[Location]] | Again:
        if len(body) != ROOT_REPLY.size:
            return Again.IGNORE
        root, block_hash, tip_hash, height, tip_height = ROOT_REPLY.unpack(body)
        if status is Status.OK:
            return Answer(Location(root, block_hash, _height(height)), tip_height, tip_hash)
        return Answer(None, tip_height, tip_hash) if status is Status.UNKNOWN else Again.IGNORE


class _Roots(_SpvCall["Answer[list[Optional[Location]]]"]):
    def parse(self, status: Status, body: bytes) -> Answer[list[Optional[Location]]] | Again:
        if status is not Status.OK or len(body) != len(self.body):
            return Again.IGNORE
        head = RootsHead(*ROOTS_HEAD.unpack_from(body))
        items = list(ROOT_ITEM.iter_unpack(body[ROOTS_HEAD.size :]))
        if head.count != len(items) or any(item[3] not in (Status.OK, Status.UNKNOWN) for item in items):
            return Again.IGNORE
        locations = [
            Location(root, block_hash, _height(height)) if code == Status.OK else None
            for root, block_hash, height, code in items
        ]
        return Answer(locations, head.tip_height, head.tip_hash)


class _TooLong(NamedTuple):
    """The reply needs this much room: hashes, or bytes of a witness proof."""

    needed: int


class _Proof(_SpvCall["Answer[Optional[TransactionProof]] | _TooLong"]):
    def parse(self, status: Status, body: bytes) -> Answer[Optional[TransactionProof]] | _TooLong | Again:
        if len(body) != len(self.body):
            return Again.IGNORE
        reply = ProofReply(*PROOF_REPLY.unpack_from(body))
        rest = body[PROOF_REPLY.size :]
        room = len(rest) // 32
        if status is Status.TOO_LONG:
            return _TooLong(reply.depth) if reply.depth > room else Again.IGNORE
        if status is Status.UNKNOWN:
            return Answer(None, reply.tip_height, reply.tip_hash)
        if status is not Status.OK or reply.depth > room:
            return Again.IGNORE
        header, path = Header.from_bytes(reply.header), _hashes(rest, reply.depth)
        proof = TransactionProof(header, reply.height, reply.transactions, reply.index, path)
        return Answer(proof, reply.tip_height, reply.tip_hash)


class _Witness(_SpvCall["Answer[Optional[WitnessProof]] | _TooLong"]):
    def parse(self, status: Status, body: bytes) -> Answer[Optional[WitnessProof]] | _TooLong | Again:
        if len(body) != len(self.body):
            return Again.IGNORE
        reply = WitnessReply(*WITNESS_REPLY.unpack_from(body))
        rest = body[WITNESS_REPLY.size :]
        path_bytes = 32 * reply.depth
        needed = 2 * path_bytes + reply.coinbase_bytes
        if status is Status.TOO_LONG:
            return _TooLong(needed) if needed > len(rest) else Again.IGNORE
        if status is Status.NOT_KEPT:
            raise ServerRefused("the server keeps no witness data: ask another server", status)
        if status is Status.NO_COMMITMENT:
            raise ServerRefused("the transaction's block commits to no witnesses: verify it by its TXID alone", status)
        if status is Status.UNKNOWN:
            return Answer(None, reply.tip_height, reply.tip_hash)
        if needed > len(rest) or any(rest[needed:]):
            return Again.IGNORE
        proof = WitnessProof(
            reply.wtxid,
            Header.from_bytes(reply.header),
            reply.height,
            reply.transactions,
            reply.index,
            _hashes(rest, reply.depth),
            rest[2 * path_bytes : needed],
            _hashes(rest[path_bytes:], reply.depth),
            reply.witness_reserved,
        )
        return Answer(proof, reply.tip_height, reply.tip_hash)


class _Headers(_SpvCall["Answer[list[Header]]"]):
    def __init__(self, start: int, body: bytes) -> None:
        super().__init__(SPV_OP_HEADERS, body)
        self._start = start

    def parse(self, status: Status, body: bytes) -> Answer[list[Header]] | Again:
        if status is not Status.OK or len(body) != len(self.body):
            return Again.IGNORE
        head = HeadersHead(*HEADERS_HEAD.unpack_from(body))
        rest = body[HEADERS_HEAD.size :]
        filled = head.count * SPV_HEADER_BYTES
        if head.start != self._start or filled > len(rest):
            return Again.IGNORE
        starts = range(0, filled, SPV_HEADER_BYTES)
        headers = [Header.from_bytes(rest[at : at + SPV_HEADER_BYTES]) for at in starts]
        return Answer(headers, head.tip_height, head.tip_hash)


class _PaperRoot(Call[Optional[bytes]]):
    def __init__(self, txid: bytes) -> None:
        self._txid = txid

    def encode(self, id: bytes) -> bytes:
        return self._txid

    def decode(self, datagram: bytes) -> Optional[bytes] | Again:
        if len(datagram) != SPV_PAPER_REPLY_BYTES:
            return Again.IGNORE
        return datagram if any(datagram) else None


def _hashes(data: bytes, count: int) -> tuple[bytes, ...]:
    return tuple(data[at : at + 32] for at in range(0, 32 * count, 32))


class Requests:
    """Operations of `spv` as generators of requests: for `Client.pipeline`, and for other front ends."""

    def root(self, txid: Txid) -> Steps[Answer[Optional[Location]]]:
        """Returns the block of a transaction; `None`: no connected block holds it. The server must be trusted."""
        answer: Answer[Optional[Location]]
        answer = yield _Root(SPV_OP_ROOT, hash_bytes(txid).ljust(ROOT_REPLY.size, b"\0"))
        return answer

    def roots(self, txids: Sequence[Txid]) -> Steps[Answer[list[Optional[Location]]]]:
        """Returns the blocks of 1 to 16 transactions, in their order, all at one tip."""
        if not 1 <= len(txids) <= SPV_ROOTS_MAX:
            raise ValueError(f"{len(txids)} TXIDs in one request: 1 to {SPV_ROOTS_MAX} are possible")
        items = b"".join(hash_bytes(txid).ljust(ROOT_ITEM.size, b"\0") for txid in txids)
        answer: Answer[list[Optional[Location]]]
        answer = yield _Roots(SPV_OP_ROOTS, ROOTS_HEAD.pack(bytes(32), 0, len(txids)) + items)
        return answer

    def proof(self, txid: Txid) -> Steps[Answer[Optional[TransactionProof]]]:
        """Returns the proof of a transaction, not checked here; `None`: no connected block holds it."""
        room = _PROOF_ROOM
        while True:
            body = hash_bytes(txid).ljust(PROOF_REPLY.size + 32 * room, b"\0")
            answer: Union[Answer[Optional[TransactionProof]], _TooLong]
            answer = yield _Proof(SPV_OP_PROOF, body)
            if isinstance(answer, Answer):
                return answer
            # Each repetition asks for a longer path, up to the maximum, so the loop ends.
            room = answer.needed
            if room > SPV_PROOF_DEPTH_MAX:
                raise ServerRefused(
                    f"the Merkle path has {room} hashes, and a reply holds at most {SPV_PROOF_DEPTH_MAX}",
                    Status.TOO_LONG,
                )

    def witness_proof(self, txid: Txid) -> Steps[Answer[Optional[WitnessProof]]]:
        """Returns the proof of a transaction with its witness, not checked here; `None`: no block holds it.

        The proof does not show that the WTXID belongs to the TXID: compare header and index with those of `proof`.
        """
        return self._witness(SPV_OP_WITNESS_PROOF, hash_bytes(txid))

    def wtxid_proof(self, wtxid: Txid) -> Steps[Answer[Optional[WitnessProof]]]:
        """Returns a witness proof by the WTXID alone, not checked here."""
        return self._witness(SPV_OP_WTXID_PROOF, hash_bytes(wtxid))

    def _witness(self, op: int, id: bytes) -> Steps[Answer[Optional[WitnessProof]]]:
        # The length of the coinbase is not known in advance, so the request has the maximum length.
        answer: Union[Answer[Optional[WitnessProof]], _TooLong]
        answer = yield _Witness(op, id.ljust(WITNESS_REPLY.size + SPV_WITNESS_ROOM_MAX, b"\0"))
        if isinstance(answer, Answer):
            return answer
        raise ServerRefused(
            f"the witness proof needs {answer.needed} bytes, and a reply holds at most {SPV_WITNESS_ROOM_MAX}; "
            "verify the transaction by its TXID alone",
            Status.TOO_LONG,
        )

    def headers(self, start: int, count: int = SPV_HEADERS_MAX) -> Steps[Answer[list[Header]]]:
        """Returns up to 14 headers from the height `start` on, not checked here; fewer at the end of the chain."""
        if not 1 <= whole("count", count, 2**32) <= SPV_HEADERS_MAX:
            raise ValueError(f"{count} headers in one request: 1 to {SPV_HEADERS_MAX} are possible")
        body = whole("start", start, 2**32).to_bytes(4, "big") + count.to_bytes(4, "big")
        answer: Answer[list[Header]]
        answer = yield _Headers(start, body.ljust(HEADERS_HEAD.size + SPV_HEADER_BYTES * count, b"\0"))
        return answer

    def sync(self, chain: HeaderChain) -> Steps[int]:
        """Fetches the server's headers into an own chain, which checks them. Returns the number of new ones."""
        start, back, added = chain.tip.height + 1, 1, 0
        while True:
            answer = yield from self.headers(start)
            headers = answer.result
            try:
                added += chain.accept(headers)
            except UnknownParent:
                if start == 1:
                    raise LinesideError(
                        f"the server's first block is not that of {chain.network.value}: ask a server of this network"
                    ) from None
                # The server is on another branch: go back until its header follows one of this chain.
                start, back = max(start - back, 1), back * 2
                continue
            if not headers:
                break
            found = chain.find(headers[0].hash())
            if found is None or found[1] != start:
                raise ChainError(f"the server's headers are not those at height {start}: ask another server")
            start, back = start + len(headers), 1
        chain.sync()
        return added

    def verified(self, chain: HeaderChain, txid: Txid) -> Steps[Verified]:
        """Fetches new headers and a proof, and checks it against the own chain.

        Raises `NotFound`, `ProofError` or `ChainError` if the transaction is not proved.
        """
        yield from self.sync(chain)
        answer = yield from self.proof(txid)
        if answer.result is None:
            raise NotFound(f"{display(hash_bytes(txid))}: no connected block of the server holds it")
        confirmations = chain.verify(answer.result, hash_bytes(txid))
        return Verified(answer.result, confirmations)


class NotFound(LinesideError):
    """The server does not find the transaction. This is no proof that it does not exist."""


class Verified(NamedTuple):
    """Transaction that is proved to be in the own chain of headers."""

    proof: TransactionProof
    #: number of blocks that confirm it, at least 1
    confirmations: int


class Client(Blocking[Requests]):
    """Blocking client of one server.

    >>> client = Client("127.0.0.1:7701", timeout_s=3.0)
    >>> client.close()
    """

    def __init__(self, address: Address = "127.0.0.1", timeout_s: float = 3.0) -> None:
        super().__init__(address, SPV_PORT, timeout_s)
        self.requests = Requests()

    root = blocking(Requests.root)
    roots = blocking(Requests.roots)
    proof = blocking(Requests.proof)
    witness_proof = blocking(Requests.witness_proof)
    wtxid_proof = blocking(Requests.wtxid_proof)
    headers = blocking(Requests.headers)
    sync = blocking(Requests.sync)
    verified = blocking(Requests.verified)

    def paper_root(self, txid: Txid) -> Optional[bytes]:
        """Returns the Merkle root of the transaction's block by the paper's packet; `None`: unknown."""
        return ask_once_blocking(self._address, _PaperRoot(hash_bytes(txid)), self.timeout_s)


class AsyncClient(Awaiting[Requests]):
    """Client of one server for asyncio: `async with AsyncClient("127.0.0.1:7701") as client: …`."""

    def __init__(self, address: Address = "127.0.0.1", timeout_s: float = 3.0) -> None:
        super().__init__(address, SPV_PORT, timeout_s)
        self.requests = Requests()

    root = awaiting(Requests.root)
    roots = awaiting(Requests.roots)
    proof = awaiting(Requests.proof)
    witness_proof = awaiting(Requests.witness_proof)
    wtxid_proof = awaiting(Requests.wtxid_proof)
    headers = awaiting(Requests.headers)
    sync = awaiting(Requests.sync)
    verified = awaiting(Requests.verified)

    async def paper_root(self, txid: Txid) -> Optional[bytes]:
        """Returns the Merkle root of the transaction's block by the paper's packet; `None`: unknown."""
        return await ask_once_async(self._address, _PaperRoot(hash_bytes(txid)), self.timeout_s)

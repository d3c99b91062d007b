"""Operations of `transfer`: how they are made, linked, given keys, and divided into packets."""

from __future__ import annotations

import hashlib
from itertools import chain as joined
from itertools import starmap
from operator import itemgetter
from struct import error as StructError
from typing import Iterable, Iterator, Optional, Sequence, Union
from uuid import UUID, uuid4

from ._arguments import hex_data, whole
from ._core import DATAGRAM_BYTES_MAX
from ._generated import (
    EXECUTE_HEAD,
    NATIVE_HEADER,
    OPERATION,
    TRANSFER_COMMAND_CREATE,
    TRANSFER_COMMAND_FREEZE,
    TRANSFER_COMMAND_ISSUE,
    TRANSFER_COMMAND_TRANSFER,
    TRANSFER_COMMAND_UNFREEZE,
    TRANSFER_CONTRACT_PENDING,
    TRANSFER_CONTRACT_POST,
    TRANSFER_CONTRACT_VOID,
    TRANSFER_FLAG_KEYED,
    TRANSFER_FLAG_LINKED,
    Operation,
)
from .keys import SecretKey

Account = Union[int, str, bytes]
#: Key by which the server executes an operation once: a UUID, or 16 bytes that are not all zero.
IdempotencyKey = Union[UUID, bytes]
#: Name that the client chooses: at most 16 bytes, which zeros fill up to 16; a `str` is encoded as UTF-8.
Name = Union[UUID, bytes, str]

#: Maximum number of operations in one datagram.
OPERATIONS_MAX = (DATAGRAM_BYTES_MAX - NATIVE_HEADER.size - EXECUTE_HEAD.size) // OPERATION.size

_KEY_DOMAIN = b"lineside/python/idempotency-key/1"
_AMOUNTS = 2**64
_ZEROS = bytes(16)
_FIELDS_OF_16_BYTES = itemgetter(*map(Operation._fields.index, ("source", "destination", "uuid")))


def account_bytes(account: Account) -> bytes:
    """Returns the 16 bytes of an account."""
    if isinstance(account, int):
        if account is not True and account is not False:
            try:
                return account.to_bytes(16, "big")
            except OverflowError:
                pass
        return whole("account", account, 2**128).to_bytes(16, "big")
    meaning = "an account is a number, 32 hexadecimal digits, or 16 bytes"
    data = hex_data(account, meaning) if isinstance(account, str) else account
    if not isinstance(data, (bytes, bytearray)):
        raise TypeError(f"{account!r}: {meaning}")
    if len(data) != 16:
        raise ValueError(f"{account!r}: {meaning}")
    return bytes(data)


def _amount(amount: int, least: int = 0) -> int:
    if amount.__class__ is int and least <= amount < _AMOUNTS:
        return amount
    return whole("amount", amount, _AMOUNTS, least)


def name_bytes(uuid: Name) -> bytes:
    """Returns the 16 bytes of the field `uuid`. A name of more than 16 bytes is a `ValueError`, never cut."""
    data = uuid.encode() if isinstance(uuid, str) else uuid.bytes if isinstance(uuid, UUID) else uuid
    if not isinstance(data, (bytes, bytearray)):
        raise TypeError(f"uuid: {uuid!r} is not a UUID, bytes or str")
    if not 1 <= len(data) <= 16:
        raise ValueError(
            f"uuid: {uuid!r} has {len(data)} bytes, but a uuid has 1 to 16; for a longer name, use a uuid.UUID "
            "(such as `uuid.uuid5`) and store it with the order"
        )
    return bytes(data).ljust(16, b"\0")


def new_idempotency_key() -> UUID:
    """Makes a random idempotency key. Store it before the operation is sent, to be able to repeat the operation."""
    return uuid4()


def key_bytes(key: IdempotencyKey) -> bytes:
    """Returns the 16 bytes of an idempotency key."""
    data = key.bytes if isinstance(key, UUID) else key
    if not isinstance(data, (bytes, bytearray)):
        raise TypeError(f"{key!r}: an idempotency key is a UUID, or 16 bytes that are not all zero")
    data = bytes(data)
    if len(data) != 16 or data == _ZEROS:
        raise ValueError(f"{key!r}: an idempotency key is a UUID, or 16 bytes that are not all zero")
    return data


def _with_key(operation: Operation, key: Optional[IdempotencyKey]) -> Operation:
    """Gives an operation a key, which the field `uuid` contains."""
    if key is None:
        return operation
    data = key_bytes(key)
    if operation.uuid not in (_ZEROS, data):
        uuid = operation.uuid.hex()
        raise ValueError(f"key {data.hex()}: the same field has the uuid {uuid}; give only one of them")
    return operation._replace(flags=operation.flags | TRANSFER_FLAG_KEYED, uuid=data)


def _operation(
    command: int,
    source: Account,
    destination: Account = _ZEROS,
    amount: int = 0,
    contract: int = 0,
    uuid: Name = _ZEROS,
    timeout_s: int = 0,
    idempotency_key: Optional[IdempotencyKey] = None,
) -> Operation:
    operation = Operation(
        command=command,
        contract=contract,
        source=account_bytes(source),
        destination=account_bytes(destination),
        amount=_amount(amount),
        uuid=name_bytes(uuid),
        timeout_s=whole("timeout_s", timeout_s, 2**32),
    )
    return _with_key(operation, idempotency_key)


def create(
    account: Account,
    amount: int = 0,
    owner: Optional[bytes] = None,
    idempotency_key: Optional[IdempotencyKey] = None,
) -> Operation:
    """Creates an account, and issues its first balance.

    `owner` is the fingerprint of a key (`fingerprint`): only that key may then transfer from the account.
    """
    return _operation(
        TRANSFER_COMMAND_CREATE,
        account,
        _ZEROS if owner is None else owner,
        amount,
        idempotency_key=idempotency_key,
    )


def issue(account: Account, amount: int, idempotency_key: Optional[IdempotencyKey] = None) -> Operation:
    """Adds a new amount, at least 1, to an account."""
    return _operation(TRANSFER_COMMAND_ISSUE, account, amount=_amount(amount, 1), idempotency_key=idempotency_key)


def transfer(
    source: Account,
    destination: Account,
    amount: int,
    uuid: Name = _ZEROS,
    idempotency_key: Optional[IdempotencyKey] = None,
) -> Operation:
    """Moves an amount, at least 1.

    `uuid` (at most 16 bytes) is stored for the client and has no effect. With an `idempotency_key`, which takes the
    place of `uuid`, the server executes the transfer once, in whichever session it is repeated.
    """
    operation = Operation(
        command=TRANSFER_COMMAND_TRANSFER,
        source=account_bytes(source),
        destination=account_bytes(destination),
        amount=amount if amount.__class__ is int and 0 < amount < _AMOUNTS else _amount(amount, 1),
        uuid=_ZEROS if uuid is _ZEROS else name_bytes(uuid),
    )
    return operation if idempotency_key is None else _with_key(operation, idempotency_key)


def pending(
    source: Account,
    destination: Account,
    amount: int,
    uuid: Name,
    timeout_s: int = 0,
    idempotency_key: Optional[IdempotencyKey] = None,
) -> Operation:
    """Reserves an amount, at least 1, until it is posted, voided, or expires after `timeout_s` seconds (0: never).

    `uuid` names the pending transfer between the two accounts: a UUID, or 1 to 16 bytes or a `str` of as many, which
    zeros fill up to 16. A longer name is a `ValueError`. An `idempotency_key` must be these 16 bytes, too: an operation
    has one field for both.
    """
    contract = TRANSFER_CONTRACT_PENDING
    return _operation(
        TRANSFER_COMMAND_TRANSFER, source, destination, _amount(amount, 1), contract, uuid, timeout_s, idempotency_key
    )


def post(
    source: Account,
    destination: Account,
    uuid: Name,
    amount: Optional[int] = None,
    idempotency_key: Optional[IdempotencyKey] = None,
) -> Operation:
    """Posts a pending transfer: `amount` of it, at least 1, or with `None` all of it; the rest is released.

    An amount of 0 is a `ValueError`, because the packet's 0 means all of it: `void` releases a transfer without a
    payment. An `idempotency_key` must be the `uuid` of the pending transfer, as for `pending`.
    """
    part = 0 if amount is None else _amount(amount, 1)
    contract = TRANSFER_CONTRACT_POST
    return _operation(TRANSFER_COMMAND_TRANSFER, source, destination, part, contract, uuid, 0, idempotency_key)


def post_all(
    source: Account, destination: Account, uuid: Name, idempotency_key: Optional[IdempotencyKey] = None
) -> Operation:
    """Posts all of a pending transfer, like `post` without an amount."""
    return post(source, destination, uuid, None, idempotency_key)


def void(
    source: Account, destination: Account, uuid: Name, idempotency_key: Optional[IdempotencyKey] = None
) -> Operation:
    """Cancels a pending transfer. An `idempotency_key` must be its `uuid`, as for `pending`."""
    contract = TRANSFER_CONTRACT_VOID
    return _operation(TRANSFER_COMMAND_TRANSFER, source, destination, 0, contract, uuid, 0, idempotency_key)


def freeze(account: Account, idempotency_key: Optional[IdempotencyKey] = None) -> Operation:
    """Blocks transfers into and out of an account."""
    return _operation(TRANSFER_COMMAND_FREEZE, account, idempotency_key=idempotency_key)


def unfreeze(account: Account, idempotency_key: Optional[IdempotencyKey] = None) -> Operation:
    """Ends `freeze`."""
    return _operation(TRANSFER_COMMAND_UNFREEZE, account, idempotency_key=idempotency_key)


def operation_key(idempotency_key: IdempotencyKey, place: int) -> UUID:
    """Returns the key of the operation at a place (from 0) of a batch that has an idempotency key.

    The first operation has the batch's key itself; the key of each other one is the start of a SHA-256 digest over the
    batch's key and the place.
    """
    return UUID(bytes=_place_key(key_bytes(idempotency_key), place))


def _place_key(key: bytes, place: int) -> bytes:
    whole("place", place, 2**64)
    return hashlib.sha256(_KEY_DOMAIN + key + place.to_bytes(8, "big")).digest()[:16] if place else key


def keyed(operations: Iterable[Operation], idempotency_key: IdempotencyKey, start: int = 0) -> Iterator[Operation]:
    """Gives each operation of a batch an idempotency key: `operation_key` of its place, which is counted from `start`.

    A repetition must have the same operations at the same places. An operation that has a key already keeps it. The
    key of a pending transfer, its post and its void is their `uuid`.
    """
    key = key_bytes(idempotency_key)
    for place, operation in enumerate(operations, start):
        if operation.flags & TRANSFER_FLAG_KEYED:
            yield operation
        elif operation.contract:
            yield _with_key(operation, operation.uuid)
        else:
            yield _with_key(operation, _place_key(key, place))


def linked(*operations: Operation) -> list[Operation]:
    """Links operations: either all of them are executed or none. They must be in one packet."""
    chain = [operation._replace(flags=operation.flags | TRANSFER_FLAG_LINKED) for operation in operations[:-1]]
    return chain + list(operations[-1:])


def in_packets(operations: Iterable[Operation], most: int = OPERATIONS_MAX) -> Iterator[list[Operation]]:
    """Divides operations into packets of at most `most`, and leaves linked ones together."""
    packet: list[Operation] = []
    chain: list[Operation] = []
    for operation in operations:
        is_linked = operation.flags & TRANSFER_FLAG_LINKED
        if not is_linked and not chain and len(packet) < most:
            packet.append(operation)
            continue
        chain.append(operation)
        if is_linked:
            continue
        if len(chain) > most:
            raise ValueError(f"{len(chain)} linked operations do not fit a packet of {most}")
        if len(packet) + len(chain) > most:
            yield packet
            packet = []
        packet += chain
        chain = []
    if chain:
        raise ValueError("the last operation is linked with a next one, which is missing")
    if packet:
        yield packet


def packed(operations: Sequence[Operation]) -> bytes:
    """Returns the bytes of operations. A field that the format cannot hold is a `ValueError`, never changed."""
    if set(map(len, joined.from_iterable(map(_FIELDS_OF_16_BYTES, operations)))) != {16}:
        raise ValueError("the fields source, destination and uuid of an operation have 16 bytes each")
    try:
        return b"".join(starmap(OPERATION.pack, operations))
    except StructError as error:
        raise ValueError(f"an operation has a field that the packet cannot hold: {error}") from None


def fingerprint(key: SecretKey) -> bytes:
    """Returns the 16 bytes by which an account identifies its owner's key."""
    return hashlib.sha256(key.public.to_bytes()).digest()[:16]

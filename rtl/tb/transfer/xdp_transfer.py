# SPDX-License-Identifier: Apache-2.0
"""The XDP program of `transfer`, compiled for user space, with its maps in the memory of this process."""

import struct

from lineside_transfer import BUCKET_CELLS, COUNTERS, PORT, Account, Session, buckets, issuer_words
from xdp_native import XdpRoot

CELL, PAPER, RECORD_BYTES, SESSION_BYTES = "<2I16s4Q2I", "<6IQ", 144, 128
# struct ls_transfer_record, without the seal.
RECORD = "<16s16s4Q4I3Q16s2IQ"
RECORD_NAMES = [
    *("source", "destination", "amount", "source_version", "destination_version", "source_balance"),
    *("slot", "command", "contract", "place", "session_sequence", "sum", "timestamp", "uuid"),
    *("nonce", "timeout_s", "time_ns"),
]
SESSION = "<2I4Q4QQ48x"
VALID, FROZEN, CLAIMED = 1, 2, 4
ISSUERS = 8
TAIL_AT, CREDIT_AT = 64, 328
NO_LAST = (0, bytes(4), 0, 0, 0, 0)


class XdpTransfer(XdpRoot):
    """The root program with `transfer`."""

    slot, port, counts, counter_names = 2, PORT, "transfer_counts", COUNTERS

    def __init__(self, bucket_bits, ring_bits, express, sessions=4):
        super().__init__()
        self.bucket_bits, self.ring_bits, self.express, self.sessions = bucket_bits, ring_bits, express, sessions
        self.set_mode(express)
        cells = BUCKET_CELLS << bucket_bits
        sizes = {
            "transfer_cells": 64 * cells,
            "transfer_papers": 32 * cells,
            "transfer_slots": SESSION_BYTES * sessions,
            "transfer_records": RECORD_BYTES << ring_bits,
        }
        self.bind(["transfer_rings", "transfer_control", "transfer_counts", "transfer_works"], sizes)
        self.read = 0  # records read from the ring

    def set_mode(self, express: bool):
        self.set_constants(
            b".rodata.transfer", struct.pack("<4I", self.bucket_bits, self.ring_bits, 2 if express else 1, 0)
        )

    def write_control(self, lease_until_ns, key, paper_format, require_signature, issuers):
        self.key = key
        data = struct.pack("<4QQ", lease_until_ns, *key, 0)
        data += struct.pack("<4I", 2 if self.express else 1, self.bucket_bits, self.sessions, 1 << self.ring_bits)
        data += struct.pack("<4I", int(paper_format), int(require_signature), 1, len(issuers))
        ranges = [issuer_words(text) for text in issuers] + [(bytes(16), bytes(16))] * (ISSUERS - len(issuers))
        data += b"".join(address for address, _ in ranges) + b"".join(mask for _, mask in ranges)
        self.write("transfer_control", 0, data)
        assert len(data) == CREDIT_AT

    def set_lease(self, lease_until_ns: int):
        self.write("transfer_control", 0, struct.pack("<Q", lease_until_ns))

    # ---- ring ----

    def ring(self) -> tuple[int, int]:
        raw = self.maps["transfer_rings"].raw
        return struct.unpack_from("<Q", raw)[0], struct.unpack_from("<Q", raw, TAIL_AT)[0]

    def set_tail(self, tail: int):
        self.write("transfer_rings", TAIL_AT, struct.pack("<Q", tail % (1 << 64)))

    def records(self) -> list[dict]:
        """The records since the last call; empties the ring."""
        head, records = self.ring()[0], []
        assert head - self.read <= 1 << self.ring_bits
        while self.read < head:
            at = (self.read & (1 << self.ring_bits) - 1) * RECORD_BYTES
            fields = struct.unpack_from(RECORD, self.maps["transfer_records"], at + 8)
            records.append(dict(zip(RECORD_NAMES, fields, strict=True)))
            self.read += 1
        self.set_tail(head)
        return records

    # ---- accounts ----

    def credit(self, count: int):
        had = struct.unpack_from("<Q", self.maps["transfer_control"], CREDIT_AT)[0]
        self.write("transfer_control", CREDIT_AT, struct.pack("<Q", had + count))

    def cell(self, index: int):
        return struct.unpack_from(CELL, self.maps["transfer_cells"], 64 * index)

    def find(self, account: bytes) -> int | None:
        for bucket in buckets(account, self.bucket_bits, self.key):
            for index in range(bucket * BUCKET_CELLS, (bucket + 1) * BUCKET_CELLS):
                _, flags, held = self.cell(index)[:3]
                if flags & VALID and held == account:
                    return index
        return None

    def place(self, account: bytes) -> int | None:
        """The cell in which an account is created, or None if its bucket is full.

        It is in the first bucket, unless that has at least two accounts and more of them than the second one.
        """
        used, free = [], []
        for bucket in buckets(account, self.bucket_bits, self.key):
            cells = range(bucket * BUCKET_CELLS, (bucket + 1) * BUCKET_CELLS)
            taken = [bool(self.cell(index)[1] & VALID) for index in cells]
            used.append(sum(taken))
            free.append(next((index for index, is_taken in zip(cells, taken, strict=True) if not is_taken), None))
        return free[used[0] >= 2 and used[0] > used[1]]

    def read_account(self, account: bytes) -> Account | None:
        index = self.find(account)
        if index is None:
            return None
        _, flags, _, balance, held_out, held_in, version, _, _ = self.cell(index)
        number, destination, amount, asked, reply, _, _ = struct.unpack_from(
            PAPER, self.maps["transfer_papers"], 32 * index
        )
        last = (number, destination.to_bytes(4, "big"), amount, asked & 0xFFFF, asked >> 16, reply)
        last = last if number else NO_LAST
        return Account(balance, held_out, held_in, version, flags & ~VALID, last)

    def fill(self, account: bytes, to: Account, keeps_last=False) -> bool:
        index = self.find(account)
        is_new = index is None
        index = self.place(account) if is_new else index
        if index is None:
            return False
        lock = self.cell(index)[7]
        data = struct.pack(
            CELL, 0, to.flags | VALID, account, to.balance, to.held_out, to.held_in, to.version, lock, 0
        )
        self.write("transfer_cells", 64 * index, data)
        number, destination, amount, asked, code, reply = NO_LAST if keeps_last else to.last
        if is_new or not keeps_last:
            sent = int.from_bytes(destination, "big")
            last = struct.pack(PAPER, number, sent, amount, asked | code << 16, reply, 0, 0)
            self.write("transfer_papers", 32 * index, last)
        return True

    def change(self, account: bytes, set_flags=0, clear_flags=0) -> bool:
        index = self.find(account)
        if index is None:
            return False
        flags = (self.cell(index)[1] | set_flags) & ~clear_flags
        self.write("transfer_cells", 64 * index + 4, struct.pack("<I", flags))
        return True

    # ---- sessions ----

    def session(self, slot: int) -> Session:
        fields = struct.unpack_from(SESSION, self.maps["transfer_slots"], SESSION_BYTES * slot)
        _, count, token, sequence, total, codes, amount, _, _, _, claimed = fields
        return Session(token, sequence, total, count, codes & 0xFFFF, amount, bool(claimed))

    def write_session(self, slot: int, to: Session):
        fields = 0, to.count, to.token, to.sequence, to.sum, to.code, to.amount, 0, 0, 0, int(to.claimed)
        self.write("transfer_slots", SESSION_BYTES * slot, struct.pack(SESSION, *fields))

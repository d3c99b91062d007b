"""What becomes of requests to `transfer`: vectors/transfer/*.toml.

Every expected balance, code, version and number is written out here; nothing executes anything. A file's vectors are
asked one after the other, and what one does the next ones see.
"""
from packet import *

CREATE, ISSUE, MOVE, REFER, FREEZE, UNFREEZE = 1, 2, 3, 4, 5, 6
PLAIN, PENDING, POST, VOID = 0, 1, 2, 3
LINKED = 1
(DONE, UNKNOWN, EXISTS, INSUFFICIENT, OVERFLOW, SAME, FULL, STALE, BUSY, FROZEN, BAD, REUSED, UNAUTHORISED, NOT_LINKED,
 NO_PENDING, PENDING_EXISTS) = range(16)
NO_SESSION, SEQUENCE, SESSION_REUSED, STATUS_BUSY, STATUS_UNAUTHORISED = 5, 6, 7, 3, 8
EXECUTE, REFER_OP, OPEN, CLOSE, SESSION, SIGNED = 1, 2, 3, 4, 5, 6
STRANGER4, STRANGER6 = "10.0.0.7", "fd00::7"
DURABLE, EXPRESS = 1, 2
TOKENS = [0x1122334455667788, 0x99AABBCCDDEEFF01]
MAX32, MAX64 = 2**32 - 1, 2**64 - 1
WIDE = bytes.fromhex("a0a1a2a3a4a5a6a7a8a9aaabacadaeaf")
COUNTERS = ["replies", "forwarded", "not_leased", "refusals", "repeats", "busy", "ring_full"]


def account(number):
    return number if isinstance(number, bytes) else number.to_bytes(16, "big")


class Op:
    """One operation, and what is expected of it: a balance, or a code as Code(n)."""

    def __init__(self, command, source, destination=0, amount=0, says=0, code=DONE, flags=0, contract=PLAIN, uuid=0,
                 timeout_s=0, sent_code=0, sent_number=0, nonce=0xAABBCCDD, timestamp=0x0102030405060708):
        self.command, self.source, self.destination, self.amount = command, source, destination, amount
        self.says, self.code, self.flags, self.contract = says, code, flags, contract
        self.uuid, self.timeout_s, self.sent_code, self.sent_number = uuid, timeout_s, sent_code, sent_number
        self.nonce, self.timestamp = nonce, timestamp

    def packed(self, code, amount, number):
        head = struct.pack(">BBHI", self.command, self.flags, code, self.contract)
        middle = account(self.source) + account(self.destination) + struct.pack(">QQQ", amount, number, self.timestamp)
        return head + middle + account(self.uuid) + struct.pack(">II", self.nonce, self.timeout_s)

    def request(self):
        return self.packed(self.sent_code, self.amount, self.sent_number)

    def reply(self, number):
        return self.packed(self.code, self.says if self.code == DONE else 0, number)


def refused(code, *operation, **more):
    return Op(*operation, code=code, **more)


def execute_packet(token, sequence, slot, operations, status=0, reply=False, durability=0, count=None):
    count = len(operations) if count is None else count
    body = struct.pack(">QQIHH", token, sequence, slot, count, durability) + b"".join(operations)
    return header(EXECUTE | 0x80 * reply, len(body), status=status) + body


def session_body(challenge=bytes(16), token=0, sequence=0, slot=0, lease_s=0):
    return challenge + struct.pack(">QQII", token, sequence, slot, lease_s)


def session_packet(op, body=None, status=0, **fields):
    body = session_body(**fields) if body is None else body
    return header(op, len(body), status=status) + body


def refer_packet(items, count=None, durability=0, reply=False, reserved=0):
    body = struct.pack(">IHH", len(items) if count is None else count, durability, reserved) + b"".join(items)
    return header(REFER_OP | 0x80 * reply, len(body)) + body


def item(number, balance=0, held=0, version=0, code=0, frozen=0):
    return account(number) + struct.pack(">QQQHHI", balance, held, version, code, frozen, 0)


class File:
    def __init__(self, name, about, mode=DURABLE, lease="valid", paper_format=True, loopback=False, account_bits=6,
                 accounts_max=64, ring_bits=6, drains=True, sessions_max=4, disk="has room", require_signature=False):
        self.name, self.about, self.mode, self.vectors, self.at_s = name, about, mode, [], 0
        self.number = 0
        self.state = {"mode": "durable" if mode == DURABLE else "express", "lease": lease,
                      "paper_format": paper_format, "loopback": loopback, "account_bits": account_bits,
                      "accounts_max": accounts_max, "sessions_max": sessions_max, "ring_bits": ring_bits,
                      "drains": drains, "disk": disk, "require_signature": require_signature}

    @property
    def is_express(self):
        return self.mode == EXPRESS

    # ---- one vector ----

    def add(self, what, request, fastpath, counts=(), reply=None, host=None, trailer=b"", head=None, kept=(), chosen=(),
            **how):
        how.setdefault("dport", TRANSFER)
        head = headers(request, **how) if head is None else head
        lines = ["", "[[vector]]", f'what = "{what}"', parts("headers", head), hexes("request", request)]
        if trailer:
            lines.append(hexes("trailer", trailer))
        lines.append(f'fastpath = "{fastpath}"')
        if counts:
            names = [quoted(name) for name in COUNTERS if name in counts]
            lines.append(f"counts = [{', '.join(names)}]")
        if fastpath == "reply":
            lines.append(parts("reply_headers", turned(head, reply)))
        if reply is not None:
            lines.append(hexes("reply", reply))
        if host:
            lines.append(f'host = "{host}"')
        if self.at_s:
            lines.append(f"at_s = {self.at_s}")
        for key, ranges in (("kept", kept), ("chosen", chosen)):
            if ranges:
                lines.append(f"{key} = {[list(pair) for pair in ranges]}")
        self.vectors.append("\n".join(lines))

    def fastpath(self, what, request, reply, counts=(), host=True, **how):
        # Of what the fast path executes the host alone would say that it is durable.
        host = host and not self.is_express
        self.add(what, request, "reply", ["replies", *counts], reply, "reply" if host else None, **how)

    def hosts(self, what, request, reply, **how):
        """The fast path leaves it to the host."""
        counts = ["not_leased" if self.state["lease"] == "over" else "forwarded"]
        self.add(what, request, "forward", counts, reply, "reply", **how)

    def either(self, what, request, reply, by_fastpath, counts=(), **how):
        if by_fastpath and self.state["lease"] == "valid":
            self.fastpath(what, request, reply, counts, **how)
        else:
            self.hosts(what, request, reply, **how)

    def passed(self, what, request, **how):
        """It is not for us, or nobody can know whether it is: the frame goes on as it came."""
        self.add(what, request, "forward", **how)

    def drop(self, what, request, reason, host=False, **how):
        self.add(what, request, f"drop {reason}", host=f"drop {reason}" if host else None, **how)

    # ---- the paper's packet ----

    def paper(self, what, command, ident, payer, payee, amount, says=0, code=DONE, filler=b"",
              repeats=False, **how):
        """`says`: the reply's Amount."""
        request = struct.pack(">IIIII", command, ident, payer, payee, amount) + filler
        shown = (command, says) if code == DONE else (command | 0x80000000, code)
        reply = struct.pack(">IIIII", shown[0], ident, payer, payee, shown[1]) + bytes(len(filler))
        known = CREATE <= command <= REFER and not any(filler) and (command != MOVE or amount > 0)
        # In `durable` the fast path refers to what it knows, and sees what is no command.
        by_fastpath = self.is_express or not known or (command == REFER and code in (DONE, OVERFLOW))
        if known and command != REFER and not repeats and code == DONE:
            self.number += 1
        counts = ["repeats"] if repeats else ["refusals"] if code != DONE else []
        self.either(what, request, reply, by_fastpath, counts, **how)

    # ---- sessions ----

    def execute(self, what, sequence, operations, session=0, repeats=False, number=None, **how):
        """`number`: of the first operation of a repeat that was done. What was not done has none."""
        request = execute_packet(TOKENS[session], sequence, session, [op.request() for op in operations])
        plain = len(operations) <= 4 and all(op.flags == 0 and op.contract == PLAIN for op in operations)
        at_line = self.is_express and plain
        first = self.number + 1 if number is None else number
        if not repeats:
            self.number += sum(op.code == DONE for op in operations)
        numbers = [first + sum(op.code == DONE for op in operations[:at]) for at in range(len(operations))]
        replies = [op.reply(0 if at_line or op.code != DONE else number) for op, number in zip(operations, numbers)]
        reply = execute_packet(TOKENS[session], sequence, session, replies, reply=True,
                               durability=EXPRESS if at_line else DURABLE)
        counts = ["repeats"] if repeats else ["refusals"] if operations[0].code != DONE else []
        self.either(what, request, reply, at_line, counts, **how)

    def not_executed(self, what, sequence, operations, status, expected, slot=0, token=None, **how):
        """The packet as it came, with a status and the sequence that the session expects."""
        token = TOKENS[slot] if token is None else token
        sent = [op.request() for op in operations]
        request = execute_packet(token, sequence, slot, sent)
        reply = execute_packet(token, expected, slot, sent, status=status, reply=True)
        plain = len(operations) <= 4 and all(op.flags == 0 and op.contract == PLAIN for op in operations)
        self.either(what, request, reply, self.is_express and plain, ["refusals"], **how)

    def refer(self, what, items, is_known=True, **how):
        request = refer_packet([found[:16] + bytes(32) for found in items])
        reply = refer_packet(items, durability=self.mode, reply=True)
        self.either(what, request, reply, self.is_express or is_known, **how)

    def refusal(self, what, request, status=BAD_REQUEST, **how):
        self.hosts(what, request, refusal(request, status), **how)

    def text(self):
        mac = bytes(6) if self.state["loopback"] else OWN_MAC
        out = [f"# {self.about}", "# Written by vectors/make.py from docs/wire-formats.md; what the keys mean: "
               "vectors/README.md.", "", "[state]"]
        out += [f"{key} = {value if isinstance(value, int) and not isinstance(value, bool) else shown(value)}"
                for key, value in self.state.items()]
        out += [f'sessions = [{", ".join(quoted(f"{token:016x}") for token in TOKENS)}]',
                f'opener = "{PEER4}"', f'issuers = ["10.0.0.8/31", "{PEER6}"]']
        out += ["", "[endpoint]", f'mac = "{mac.hex()}"', f'addresses = ["{OWN4}", "{OWN6}"]',
                'broadcast = "10.0.0.255"']
        return "\n".join(out + self.vectors) + "\n"


def shown(value):
    return str(value).lower() if isinstance(value, bool) else quoted(value)


# ---- the files ----

def paper_commands(file):
    """Accounts 1 (110), 2 (15), 3 (7), 4 (2^32 - 1), 5 (0) afterwards."""
    paper, six, zero = file.paper, {"v6": True}, bytes
    paper("CREATE with 100, IPv4", CREATE, 0, 1, 0, 100, 100)
    paper("CREATE with nothing, 21 bytes", CREATE, 0, 2, 0, 0, 0, filler=zero(1))
    paper("CREATE, 22 bytes, IPv6, and a Destination that means nothing", CREATE, 0, 3, 77, 7, 7, filler=zero(2), **six)
    paper("CREATE what is there", CREATE, 0, 1, 0, 5, code=EXISTS)
    paper("CREATE the largest", CREATE, 0, 4, 0, MAX32, MAX32)
    paper("CREATE Source ID 0", CREATE, 0, 0, 0, 3, 3)
    paper("CREATE Source ID 2^32 - 1", CREATE, 0, MAX32, 0, 3, 3)
    paper("CREATE from where it is not allowed, IPv4", CREATE, 0, 8, 0, 5, code=UNAUTHORISED, source=STRANGER4)
    paper("CREATE from where it is not allowed, IPv6", CREATE, 0, 8, 0, 5, code=UNAUTHORISED, source=STRANGER6, **six)
    paper("ISSUE from where it is not allowed", ISSUE, 0, 1, 0, 5, code=UNAUTHORISED, source=STRANGER4)
    paper("ISSUE from the other address of the range", ISSUE, 0, 1, 0, 11, 111, source="10.0.0.8")
    paper("ISSUE, IPv6", ISSUE, 0, 1, 0, 9, 120, **six)
    paper("ISSUE to nobody", ISSUE, 0, 9, 0, 11, code=UNKNOWN)
    paper("ISSUE more than fits", ISSUE, 0, 1, 0, MAX32, code=OVERFLOW)
    paper("ISSUE nothing", ISSUE, 0, 2, 0, 0, 0)
    balance = 120
    for bytes_more in (0, 1, 2):
        for v6 in (False, True):
            balance -= 1
            paper(f"TRANSFER, {20 + bytes_more} bytes, {'IPv6' if v6 else 'IPv4'}", MOVE, 0, 1, 2, 1, balance,
                  filler=zero(bytes_more), v6=v6)
    paper("TRANSFER from an address that may not issue", MOVE, 0, 1, 2, 4, 110, source=STRANGER4)
    paper("TRANSFER nothing", MOVE, 0, 1, 2, 0, code=BAD)
    paper("TRANSFER more than there is", MOVE, 0, 1, 2, 111, code=INSUFFICIENT)
    paper("TRANSFER to oneself", MOVE, 0, 1, 1, 1, code=SAME)
    paper("TRANSFER to nobody", MOVE, 0, 1, 9, 1, code=UNKNOWN)
    paper("TRANSFER from nobody", MOVE, 0, 9, 1, 1, code=UNKNOWN)
    paper("TRANSFER from nobody to nobody", MOVE, 0, 9, 9, 1, code=UNKNOWN)
    paper("TRANSFER more than its account can hold", MOVE, 0, 1, 4, 1, code=OVERFLOW)
    paper("TRANSFER all there is", MOVE, 0, 3, 2, 7, 0)
    paper("TRANSFER some back", MOVE, 0, 2, 3, 7, 10)
    paper("CREATE another with nothing", CREATE, 0, 5, 0, 0, 0)
    for v6 in (False, True):
        family = "IPv6" if v6 else "IPv4"
        for bytes_more in (0, 1, 2):
            paper(f"REFER, {20 + bytes_more} bytes, {family}", REFER, 0, 1, 0, 0, 110, filler=zero(bytes_more), v6=v6)
        paper(f"REFER the largest, {family}", REFER, 0, 4, 0, 0, MAX32, v6=v6)
        paper(f"REFER Source ID 0, {family}", REFER, 0, 0, 0, 0, 3, v6=v6)
        paper(f"REFER nobody, {family}", REFER, 0, 9, 0, 0, code=UNKNOWN, v6=v6)
    paper("REFER with Destination and Amount, which mean nothing", REFER, 0, 2, 99, 77, 10)
    paper("REFER from anywhere", REFER, 0, 2, 0, 0, 10, source=STRANGER4)
    for command in (0, 5, 6, 7, 0x100, 0x01000000, 0x40000003, 0x7FFFFFFF):
        paper(f"command {command:#x} is none", command, 7, 1, 2, 5, code=BAD)
    for filler in (b"\1", b"\0\1", b"\1\0", b"\xff\xff"):
        paper(f"TRANSFER with {filler.hex()} behind it", MOVE, 9, 1, 2, 5, code=BAD, filler=filler)
        paper(f"REFER with {filler.hex()} behind it", REFER, 9, 1, 2, 5, code=BAD, filler=filler)
    for bytes_more in (0, 2):
        reply = struct.pack(">IIIII", 0x80000003, 1, 1, 2, 3) + bytes(bytes_more)
        file.drop(f"a refusal of {20 + bytes_more} bytes is not a request", reply, "reply_bit", True)
    file.drop("bit 31 alone", struct.pack(">IIIII", 0x80000000, 0, 0, 0, 0), "reply_bit", True)
    whole = struct.pack(">IIIII", MOVE, 0, 1, 2, 5) + bytes(13)
    for size in (0, 1, 15, 16, 19, 23, 32):
        what = f"{size} bytes are neither a packet of the paper nor a native one"
        file.drop(what, whole[:size], "not_a_request", True)
    paper("nothing of that moved anything: 1", REFER, 0, 1, 0, 0, 110)
    paper("nothing of that moved anything: 2", REFER, 0, 2, 0, 0, 10)


def paper_ids(file):
    """Exactly once by Transaction ID. Accounts 1 and 2."""
    paper, six = file.paper, {"v6": True}
    paper("CREATE 1 with id 1", CREATE, 1, 1, 0, 100, 100)
    for again in ("again", "and again"):
        paper(f"CREATE 1 {again}: the first reply, not that it exists", CREATE, 1, 1, 0, 100, 100, repeats=True)
    paper("CREATE 1 again, in 22 bytes: the same request", CREATE, 1, 1, 0, 100, 100, filler=bytes(2), repeats=True)
    paper("CREATE 1 with another amount and the same id", CREATE, 1, 1, 0, 101, code=REUSED, repeats=True)
    paper("CREATE 1 with a new id: it exists, and the id is used", CREATE, 2, 1, 0, 100, code=EXISTS)
    paper("CREATE 1 with that id again", CREATE, 2, 1, 0, 100, code=EXISTS, repeats=True)
    paper("CREATE 2", CREATE, 0, 2, 0, 0, 0)
    paper("TRANSFER, id 5: gaps are allowed", MOVE, 5, 1, 2, 10, 90)
    for again in ("again", "and again"):
        paper(f"TRANSFER, id 5, {again}", MOVE, 5, 1, 2, 10, 90, repeats=True)
    paper("TRANSFER, id 5, again over IPv6 and from elsewhere", MOVE, 5, 1, 2, 10, 90, repeats=True,
          source=STRANGER6, **six)
    paper("TRANSFER, id 5, another amount", MOVE, 5, 1, 2, 11, code=REUSED, repeats=True)
    paper("TRANSFER, id 5, another destination", MOVE, 5, 1, 3, 10, code=REUSED, repeats=True)
    paper("ISSUE with the id of a TRANSFER", ISSUE, 5, 1, 2, 10, code=REUSED, repeats=True)
    paper("the id still stands for its first reply", MOVE, 5, 1, 2, 10, 90, repeats=True)
    paper("TRANSFER, id 4: stale", MOVE, 4, 1, 2, 10, code=STALE, repeats=True)
    paper("ISSUE, id 1: stale", ISSUE, 1, 1, 0, 10, code=STALE, repeats=True)
    paper("REFER with a stale id: reads use none", REFER, 1, 1, 0, 0, 90)
    paper("REFER with a high id: reads use none", REFER, 1000, 1, 0, 0, 90)
    paper("id 0 counts beside them", MOVE, 0, 1, 2, 1, 89)
    paper("id 0 twice moves twice", MOVE, 0, 1, 2, 1, 88)
    paper("TRANSFER, id 6, more than there is: refused, and used", MOVE, 6, 1, 2, 1000, code=INSUFFICIENT)
    paper("ISSUE enough, id 0", ISSUE, 0, 1, 0, 2000, 2088)
    paper("TRANSFER, id 6, again: refused as the first time, though it would work now", MOVE, 6, 1, 2, 1000,
          code=INSUFFICIENT, repeats=True)
    paper("TRANSFER to oneself, id 7", MOVE, 7, 1, 1, 1, code=SAME)
    paper("TRANSFER to oneself, id 7, again", MOVE, 7, 1, 1, 1, code=SAME, repeats=True)
    paper("TRANSFER to nobody, id 8", MOVE, 8, 1, 9, 1, code=UNKNOWN)
    paper("CREATE that one", CREATE, 0, 9, 0, 0, 0)
    paper("TRANSFER to it, id 8, again: nobody, as the first time", MOVE, 8, 1, 9, 1, code=UNKNOWN, repeats=True)
    paper("TRANSFER from nobody, id 8: no account remembers it", MOVE, 8, 7, 1, 1, code=UNKNOWN)
    paper("CREATE that one, id 8", CREATE, 8, 7, 0, 4, 4)
    paper("ISSUE without the right, id 20: uses none", ISSUE, 20, 1, 0, 1, code=UNAUTHORISED, source=STRANGER4)
    paper("ISSUE with the right, id 20", ISSUE, 20, 1, 0, 12, 2100)
    paper("ISSUE without the right, id 20, again: not even its reply", ISSUE, 20, 1, 0, 12, code=UNAUTHORISED,
          source=STRANGER4)
    paper("a command that is none, id 21: uses none", 9, 21, 1, 2, 5, code=BAD)
    paper("ISSUE more than fits, id 21: refused, and used", ISSUE, 21, 1, 0, MAX32, code=OVERFLOW)
    paper("ISSUE more than fits, id 21, again", ISSUE, 21, 1, 0, MAX32, code=OVERFLOW, repeats=True)
    paper("the destination has ids of its own", MOVE, 5, 2, 1, 2, 10)
    paper("TRANSFER, the last id there is", MOVE, MAX32, 1, 2, 2, 2100)
    paper("TRANSFER, the last id, again", MOVE, MAX32, 1, 2, 2, 2100, repeats=True)
    paper("TRANSFER, the id before it", MOVE, MAX32 - 1, 1, 2, 2, code=STALE, repeats=True)
    paper("what 1 holds in the end", REFER, 0, 1, 0, 0, 2100)
    paper("what 2 holds in the end", REFER, 0, 2, 0, 0, 12)
    # Versions: each change, and each refusal that used an id.
    file.refer("how often they changed", [item(1, 2100, version=13), item(2, 12, version=6)])


def sessions(file):
    """Sessions: once by sequence, every code of an operation, freezing."""
    run, no = file.execute, file.not_executed
    first = [Op(CREATE, 1, 0, 100, 100), Op(CREATE, 2, 0, 0, 0), Op(CREATE, WIDE, 0, 2**40, 2**40)]
    run("three accounts, one of them wide", 1, first)
    run("the same packet again", 1, first, repeats=True, number=1)
    run("the same packet again, over IPv6, from elsewhere", 1, first, repeats=True, number=1, v6=True,
        source=STRANGER6)
    one = [Op(MOVE, 1, 2, 10, 90)]
    no("the last sequence with another body", 1, one, SESSION_REUSED, 2)
    no("the last sequence with a part of its body", 1, first[:2], SESSION_REUSED, 2)
    no("a sequence skipped", 3, one, SEQUENCE, 2)
    no("sequence 0", 0, one, SEQUENCE, 2)
    no("the largest sequence", MAX64, one, SEQUENCE, 2)
    no("another token", 2, one, NO_SESSION, 0, token=TOKENS[0] ^ 1)
    no("token 0", 2, one, NO_SESSION, 0, token=0)
    no("another session's token", 2, one, NO_SESSION, 0, slot=1, token=TOKENS[0])
    no("a slot that nobody opened", 2, one, NO_SESSION, 0, slot=3, token=TOKENS[0])
    no("a slot that there is not", 2, one, NO_SESSION, 0, slot=4, token=TOKENS[0])
    no("the largest slot", 2, one, NO_SESSION, 0, slot=MAX32, token=TOKENS[0])
    run("the next one", 2, one)
    run("a session of its own", 1, [Op(MOVE, 1, 2, 10, 80)], session=1, v6=True)
    run("four, each with what becomes of it", 3, [
        refused(INSUFFICIENT, MOVE, 1, 2, 81), Op(MOVE, 1, 2, 30, 50), refused(UNKNOWN, MOVE, 1, 9, 1),
        refused(SAME, MOVE, 1, 1, 1)])
    run("four again", 3, [
        refused(INSUFFICIENT, MOVE, 1, 2, 81), Op(MOVE, 1, 2, 30, 50), refused(UNKNOWN, MOVE, 1, 9, 1),
        refused(SAME, MOVE, 1, 1, 1)], repeats=True, number=6)
    run("the same in another order moves again", 4, [
        Op(MOVE, 1, 2, 30, 20), refused(INSUFFICIENT, MOVE, 1, 2, 81), refused(EXISTS, CREATE, 1, 0, 1),
        refused(UNKNOWN, ISSUE, 9, 0, 1)])
    run("the wide one gives", 5, [Op(MOVE, WIDE, 1, 2**33, 2**40 - 2**33), Op(ISSUE, 1, 0, 1, 2**33 + 21)])
    file.paper("REFER of more than 32 bits", REFER, 0, 1, 0, 0, code=OVERFLOW)
    file.paper("TRANSFER that leaves more than 32 bits", MOVE, 0, 1, 2, 1, code=OVERFLOW)
    run("to 64 bits and not beyond", 6, [
        Op(ISSUE, WIDE, 0, MAX64 - (2**40 - 2**33), MAX64), refused(OVERFLOW, ISSUE, WIDE, 0, 1),
        refused(OVERFLOW, MOVE, 1, WIDE, 1), Op(MOVE, 1, 2, 2**33, 21)])
    wrong = [
        ("command 0", refused(BAD, 0, 1, 0, 0)), ("command REFER", refused(BAD, REFER, 1, 0, 0)),
        ("command 7", refused(BAD, 7, 1, 0, 0)), ("command 255", refused(BAD, 255, 1, 0, 0)),
        ("a destination with ISSUE", refused(BAD, ISSUE, 1, 2, 1)),
        ("a destination with FREEZE", refused(BAD, FREEZE, 1, 2, 0)),
        ("an amount with FREEZE", refused(BAD, FREEZE, 1, 0, 1)),
        ("an amount with UNFREEZE", refused(BAD, UNFREEZE, 1, 0, 1)),
        ("ISSUE of nothing", refused(BAD, ISSUE, 1, 0, 0)), ("TRANSFER of nothing", refused(BAD, MOVE, 1, 2, 0)),
        ("a pending transfer of nothing", refused(BAD, MOVE, 1, 2, 0, contract=PENDING)),
        ("a timeout without a pending transfer", refused(BAD, MOVE, 1, 2, 1, timeout_s=1)),
        ("a code in a request", refused(BAD, MOVE, 1, 2, 1, sent_code=1)),
        ("a number in a request", refused(BAD, MOVE, 1, 2, 1, sent_number=1)),
        ("a flag that is none", refused(BAD, MOVE, 1, 2, 1, flags=2)),
        ("contract 4, which is none", refused(BAD, MOVE, 1, 2, 1, contract=4)),
        ("the largest contract", refused(BAD, MOVE, 1, 2, 1, contract=MAX32)),
        ("a contract with CREATE", refused(BAD, CREATE, 8, 0, 1, contract=PENDING)),
        ("linked with nothing", refused(BAD, MOVE, 1, 2, 1, flags=LINKED)),
    ]
    for sequence, (what, op) in enumerate(wrong, 7):
        run(f"{what}: a bad command", sequence, [op])
    at = 7 + len(wrong)
    run("CREATE from where it is not allowed", at, [refused(UNAUTHORISED, CREATE, 8, 0, 1), Op(MOVE, 1, 2, 1, 20)],
        source=STRANGER4)
    run("FREEZE from where it is not allowed, IPv6", at + 1, [refused(UNAUTHORISED, FREEZE, 1)], v6=True,
        source=STRANGER6)
    run("FREEZE", at + 2, [Op(FREEZE, 1, says=20)])
    file.refer("a frozen account is told", [item(1, 20, version=10, frozen=1)])
    run("nothing in or out of it", at + 3, [
        refused(FROZEN, MOVE, 1, 2, 1), refused(FROZEN, MOVE, 2, 1, 1), refused(FROZEN, ISSUE, 1, 0, 1),
        refused(UNKNOWN, FREEZE, 9)])
    for what, command, payer, payee in (("out of", MOVE, 1, 2), ("into", MOVE, 2, 1), ("into, ISSUE", ISSUE, 1, 0)):
        file.paper(f"the paper's packet, {what} a frozen account", command, 0, payer, payee, 1, code=FROZEN)
    file.paper("the paper's REFER of a frozen account", REFER, 0, 1, 0, 0, 20)
    file.paper("a refusal that uses an id, of a frozen account", MOVE, 3, 1, 2, 1, code=FROZEN)
    run("UNFREEZE", at + 4, [Op(UNFREEZE, 1, says=20), Op(MOVE, 1, 2, 1, 19)])
    file.paper("it stays refused for that id", MOVE, 3, 1, 2, 1, code=FROZEN, repeats=True)
    file.refer("in the end", [item(1, 19, version=13), item(WIDE, MAX64, version=3), item(2, 2**33 + 82, version=8)])


def hosts(file):
    """What is the host's in both modes: more than four, linked, pending, sessions."""
    run = file.execute
    run("five accounts: more than the line takes", 1, [Op(CREATE, at, 0, 100, 100) for at in range(1, 6)])
    run("five again", 1, [Op(CREATE, at, 0, 100, 100) for at in range(1, 6)], repeats=True, number=1)
    run("one at the line meanwhile", 2, [Op(MOVE, 1, 2, 10, 90)])
    linked = [Op(MOVE, 1, 2, 10, 80, flags=LINKED), Op(MOVE, 2, 3, 120, 0)]
    run("linked: both", 3, linked)
    run("linked: both, again", 3, linked, repeats=True, number=7)
    none = [refused(NOT_LINKED, MOVE, 1, 2, 10, flags=LINKED), refused(INSUFFICIENT, MOVE, 2, 3, 11),
            Op(MOVE, 1, 3, 1, 79)]
    run("linked: neither, and the next on its own", 4, none)
    run("linked: neither, again", 4, none, repeats=True, number=9)
    late = [refused(INSUFFICIENT, MOVE, 1, 2, 80, flags=LINKED), refused(NOT_LINKED, MOVE, 1, 3, 1)]
    run("linked: the first is refused", 5, late)
    run("linked to the end of the packet", 6, [
        refused(NOT_LINKED, MOVE, 1, 2, 1, flags=LINKED), refused(BAD, MOVE, 1, 2, 1, flags=LINKED)])
    rent, loan, tip = 0x100, 0x200, 0x300
    aside = [Op(MOVE, 1, 2, 20, 79, contract=PENDING, uuid=rent, timeout_s=60)]
    run("pending: set aside", 7, aside)
    file.refer("what is set aside is told", [item(1, 79, 20, version=5)])
    run("pending: again", 7, aside, repeats=True, number=10)
    run("pending: the same name", 8, [
        refused(PENDING_EXISTS, MOVE, 1, 2, 1, contract=PENDING, uuid=rent),
        refused(INSUFFICIENT, MOVE, 1, 2, 60, contract=PENDING, uuid=loan),
        Op(MOVE, 1, 2, 30, 79, contract=PENDING, uuid=loan)])
    run("what is set aside cannot be spent", 9, [refused(INSUFFICIENT, MOVE, 1, 2, 30)])
    file.paper("what is set aside cannot be spent, the paper's format", MOVE, 0, 1, 2, 30, code=INSUFFICIENT)
    run("post: of another account, of no name, more than it is", 10, [
        refused(NO_PENDING, MOVE, 1, 3, 0, contract=POST, uuid=rent),
        refused(NO_PENDING, MOVE, 1, 2, 0, contract=POST, uuid=tip),
        refused(OVERFLOW, MOVE, 1, 2, 21, contract=POST, uuid=rent)])
    run("post: a part", 11, [Op(MOVE, 1, 2, 15, 64, contract=POST, uuid=rent)])
    run("post: it is done with", 12, [refused(NO_PENDING, MOVE, 1, 2, 1, contract=POST, uuid=rent)])
    run("void: no amount", 13, [refused(BAD, MOVE, 1, 2, 1, contract=VOID, uuid=loan)])
    run("void", 14, [Op(MOVE, 1, 2, 0, 64, contract=VOID, uuid=loan)])
    run("post: the whole", 15, [
        Op(MOVE, 1, 2, 4, 64, contract=PENDING, uuid=tip), Op(MOVE, 1, 2, 0, 60, contract=POST, uuid=tip)])
    file.refer("after pending, post and void", [item(1, 60, version=10), item(2, 19, version=10)])
    run("pending for a minute", 16, [Op(MOVE, 1, 2, 50, 60, contract=PENDING, uuid=rent, timeout_s=60)])
    file.at_s = 59
    run("not expired yet", 17, [refused(INSUFFICIENT, MOVE, 1, 2, 11)])
    file.at_s = 60
    run("expired: post finds nothing", 18, [refused(NO_PENDING, MOVE, 1, 2, 0, contract=POST, uuid=rent)])
    run("expired: it can be spent", 19, [Op(MOVE, 1, 2, 60, 0)])

    ask, body = file.hosts, session_body
    mine = {"token": TOKENS[1], "slot": 1}
    def told(op, **fields):
        return header(op | 0x80, 40) + body(**fields)
    ask("a session told about", session_packet(SESSION, **mine), told(SESSION, sequence=1, **mine))
    file.refusal("another's session", session_packet(SESSION, slot=1, token=TOKENS[0]), NO_SESSION)
    file.refusal("a session that there is not", session_packet(SESSION, slot=9, token=TOKENS[0]), NO_SESSION)
    file.refusal("a session told about with a sequence", session_packet(SESSION, sequence=1, **mine))
    file.refusal("a session told about with a lease", session_packet(SESSION, lease_s=1, **mine))
    file.refusal("another's session is not closed", session_packet(CLOSE, slot=1, token=TOKENS[0]), NO_SESSION)
    file.refusal("open with a token", session_packet(OPEN, token=1))
    file.refusal("open with a slot", session_packet(OPEN, slot=1))
    file.refusal("open with a challenge that was never given", session_packet(OPEN, challenge=b"\1" * 16),
                 STATUS_UNAUTHORISED, check=0)
    # The challenge and the token are the server's to choose; the fast path does not look at these packets' checksums.
    given = told(OPEN, lease_s=30)
    ask("open: a challenge", session_packet(OPEN), given, chosen=[(16, 32)])
    ask("open: granted", session_packet(OPEN), told(OPEN, sequence=1, slot=2), kept=[(16, 32)],
        chosen=[(16, 32), (32, 40)], check=0)
    ask("told about", session_packet(SESSION, slot=2), told(SESSION, sequence=1, slot=2), kept=[(32, 40)],
        chosen=[(32, 40)], check=0)
    ask("close", session_packet(CLOSE, slot=2), told(CLOSE), kept=[(32, 40)], check=0)
    ask("close the other", session_packet(CLOSE, **mine), told(CLOSE))
    file.refusal("close it again", session_packet(CLOSE, **mine), NO_SESSION)
    file.not_executed("nothing is executed in a closed session", 1, [Op(MOVE, 2, 1, 1)], NO_SESSION, 0, slot=1)
    run("the first one goes on", 20, [Op(MOVE, 2, 1, 1, 78)])


def formats(file):
    """What is not well-formed, and REFER in the native format."""
    run, bad = file.execute, file.refusal
    run("accounts", 1, [Op(CREATE, at, 0, 100 + at, 100 + at) for at in range(1, 5)])
    items = [item(at, 100 + at, version=1) for at in range(1, 5)]
    for v6 in (False, True):
        family = "IPv6" if v6 else "IPv4"
        file.refer(f"refer, one, {family}", items[:1], v6=v6)
        file.refer(f"refer, four, {family}", items, v6=v6)
        file.refer(f"refer, one of them nobody, {family}", [items[0], item(9, code=UNKNOWN)], is_known=False, v6=v6)
        file.refer(f"refer, 29, {family}", [items[at % 4] for at in range(29)], v6=v6)
    file.refer("refer, the same twice", [items[2], items[2]])
    file.refer("refer, nobody", [item(WIDE, code=UNKNOWN)], is_known=False)
    asked = [found[:16] + bytes(32) for found in items]
    bad("refer, 30", refer_packet([asked[0]] * 30))
    bad("refer, none", refer_packet([]))
    bad("refer, a count of one more", refer_packet(asked, count=5))
    bad("refer, a count of one less", refer_packet(asked, count=3))
    bad("refer, a count of 2^32 - 1", refer_packet(asked, count=MAX32))
    bad("refer, a durability in a request", refer_packet(asked, durability=1))
    bad("refer, its reserved field", refer_packet(asked, reserved=1))
    for at in (16, 24, 32, 40, 42, 44, 47):
        spoiled = bytearray(asked[1])
        spoiled[at] = 1
        bad(f"refer, byte {at} of an item", refer_packet([asked[0], bytes(spoiled)]))
    bad("refer, half an item", header(REFER_OP, 8 + 24) + struct.pack(">IHH", 1, 0, 0) + asked[0][:24])
    move = Op(MOVE, 1, 2, 1).request()
    token = TOKENS[0]
    bad("execute, none", execute_packet(token, 2, 0, []))
    bad("execute, a count of one more", execute_packet(token, 2, 0, [move], count=2))
    bad("execute, a count of none", execute_packet(token, 2, 0, [move], count=0))
    bad("execute, a count of five for four", execute_packet(token, 2, 0, [move] * 4, count=5))
    bad("execute, a durability in a request", execute_packet(token, 2, 0, [move], durability=1))
    bad("execute, cut", header(EXECUTE, 24 + 44) + execute_packet(token, 2, 0, [move])[16:84])
    bad("execute, a head alone, cut", header(EXECUTE, 12) + bytes(12))
    bad("execute, a status in a request", execute_packet(token, 2, 0, [move], status=1))
    for length in (0, 111, 113, 65535):
        whole = bytearray(execute_packet(token, 2, 0, [move]))
        whole[6:8] = struct.pack(">H", length)
        bad(f"execute, a length of {length}", bytes(whole))
    for version in (0, 2, 255):
        whole = bytearray(execute_packet(token, 2, 0, [move]))
        whole[2] = version
        bad(f"execute, version {version}", bytes(whole), UNSUPPORTED)
        whole = bytearray(refer_packet(asked))
        whole[2] = version
        bad(f"refer, version {version}", bytes(whole), UNSUPPORTED)
    for op in (0, 0x20, 127):
        bad(f"operation {op}, which is not known", header(op, 40) + bytes(40))
    bad("a session's body cut", header(SESSION, 39) + bytes(39))
    bad("a session's body with a byte more", header(SESSION, 41) + bytes(41))
    bad("a header alone", header(EXECUTE, 0))
    for op in (EXECUTE, REFER_OP, OPEN, 127):
        file.drop(f"operation {op} with the reply bit", header(op | 0x80, 40) + bytes(40), "reply_bit", True)
    for magic in (0x4C54, 0x4D53, 0x534C):
        file.drop(f"magic {magic:#x}", header(SESSION, 40, magic=magic) + bytes(40), "not_a_request", True)
    short = header(SESSION, 4) + bytes(4)
    file.paper("20 bytes with the native magic are the paper's: length decides first",
               *struct.unpack(">IIIII", short), code=BAD)
    file.refer("nothing of that moved anything", items)


def frames(mode):
    """What becomes of frames; in `express` of those that change something, too."""
    name = "frames" if mode == DURABLE else "express-frames"
    file = File(name, "What becomes of frames around a request that the fast path could answer.", mode)
    paper = file.paper
    paper("an account", CREATE, 0, 1, 0, 1000, 1000)
    paper("another one", CREATE, 0, 2, 0, 0, 0)
    refer = struct.pack(">IIIII", REFER, 0, 1, 0, 0)
    held = 1000

    def answered(what, **how):
        file.fastpath(what, refer, struct.pack(">IIIII", REFER, 0, 1, 0, held), host=False, **how)

    def moved(what, **how):
        nonlocal held
        held -= 1
        paper(what, MOVE, 0, 1, 2, 1, held, **how)

    vlan, qinq = bytes.fromhex("81002007"), bytes.fromhex("88a80fff")
    for v6 in (False, True):
        family = "IPv6" if v6 else "IPv4"
        pseudo = ipaddress.ip_address(PEER6 if v6 else PEER4).packed + ipaddress.ip_address(OWN6 if v6 else OWN4).packed
        partial = fold(words(pseudo + struct.pack(">HH", 17, 28)))
        answered(f"VLAN tag, {family}", tags=vlan, v6=v6)
        answered(f"service VLAN tag, {family}", tags=qinq, v6=v6)
        answered(f"Ethernet padding stays behind the reply, {family}", trailer=bytes.fromhex("00ff00ff"), v6=v6)
        answered(f"a read's checksum wrong, {family}", check=0x1234, v6=v6)
        answered(f"a read's checksum 0, {family}", check=0, v6=v6)
        file.passed(f"two VLAN tags, {family}", refer, tags=qinq + vlan, v6=v6)
        file.passed(f"spv's port: nobody stands there, {family}", refer, dport=SPV, v6=v6)
        file.passed(f"another's MAC, {family}", refer, eth_destination=PEER_MAC, v6=v6)
        file.drop(f"source port 0, {family}", refer, "source_port", sport=0, v6=v6)
        file.drop(f"source port 7702, {family}", refer, "source_port", sport=7702, v6=v6)
        file.drop(f"sent from ourselves, {family}", refer, "source_address", source=OWN6 if v6 else OWN4, v6=v6)
        whole = b"".join(headers(refer, v6=v6, dport=TRANSFER)) + refer
        for size in (14, 33, 41, 53, len(whole) - 1):
            cut = whole[:size]
            file.passed(f"frame cut to {size} bytes, {family}", b"", head=[cut[:14], cut[14:54], cut[54:]])
        move = struct.pack(">IIIII", MOVE, 0, 1, 2, 1)
        if mode == EXPRESS:
            moved(f"TRANSFER in a VLAN, {family}", tags=vlan, v6=v6)
            moved(f"TRANSFER in a service VLAN, {family}", tags=qinq, v6=v6)
            moved(f"TRANSFER before Ethernet padding, {family}", trailer=bytes.fromhex("ffeeddccbb"), v6=v6)
            moved(f"TRANSFER, a local sender's partial checksum, {family}", check=partial, v6=v6)
            moved(f"TRANSFER of 21 bytes, {family}", filler=bytes(1), v6=v6)
            # The kernel decides what becomes of it; the fast path has done nothing and counts nothing.
            for what, check in (("wrong", partial ^ 0x5555), ("0", 0), ("ffff", 0xFFFF)):
                file.passed(f"TRANSFER, checksum {what}: not executed, {family}", move, check=check, v6=v6)
            wide = execute_packet(TOKENS[0], 1, 0, [Op(MOVE, 1, 2, 1).request()])
            file.passed(f"execute, checksum wrong: not executed, {family}", wide, check=0x1234, v6=v6)
        else:
            # In `durable` the kernel looks at what goes to the host: the fast path counts them all alike.
            file.add(f"TRANSFER, checksum wrong: forwarded as it came, {family}", move, "forward", ["forwarded"],
                     check=0x1234, v6=v6)
        answered(f"what is there then, {family}", v6=v6)
    file.passed("IPv4 options", refer, options=bytes.fromhex("94040000"), first=0x46)
    file.passed("first fragment", refer, flags=0x2000)
    file.passed("IPv6 hop-by-hop header", refer, v6=True, following=0)
    return file


def others():
    over = File("lease-over", "After the lease the fast path answers nothing, and the host everything.", lease="over")
    express = File("express-lease-over", "After the lease the fast path executes nothing, and the host everything.", EXPRESS,
                   lease="over")
    over.paper("CREATE", CREATE, 0, 1, 0, 50, 50)
    over.paper("REFER", REFER, 0, 1, 0, 0, 50)
    over.refer("refer", [item(1, 50, version=1)])
    bad = refer_packet([])
    over.refusal("what is malformed", bad)
    over.drop("a reply", struct.pack(">IIIII", 0x80000003, 1, 1, 2, 3), "reply_bit", True)
    over.drop("no request", bytes(19), "not_a_request", True)
    express.paper("CREATE", CREATE, 0, 1, 0, 50, 50)
    express.paper("REFER", REFER, 0, 1, 0, 0, 50)

    off = {}
    for mode, name in ((DURABLE, "paper-refused"), (EXPRESS, "express-paper-refused")):
        file = off[mode] = File(name, "With the paper's format switched off.", mode, paper_format=False)
        for command in (CREATE, MOVE, REFER, 9):
            file.drop(f"command {command}", struct.pack(">IIIII", command, 0, 1, 2, 5), "paper_refused", True)
        file.drop("a reply is refused as one", struct.pack(">IIIII", 0x80000003, 1, 1, 2, 3), "reply_bit", True)
        file.execute("execute is executed", 1, [Op(CREATE, 1, 0, 5, 5)])
        file.refer("refer is answered", [item(1, 5, version=1)])

    files = [over, express, *off.values()]
    for mode, name in ((DURABLE, "store-full"), (EXPRESS, "express-store-full")):
        # Two buckets of four cells: every account may lie in both.
        file = File(name, "With room for eight accounts.", mode, account_bits=1, accounts_max=8)
        for number in range(1, 9):
            file.paper(f"CREATE {number}", CREATE, 0, number, 0, number, number)
        file.paper("CREATE a ninth", CREATE, 0, 9, 0, 1, code=FULL)
        file.paper("CREATE a ninth, with an id: no account remembers it", CREATE, 5, 9, 0, 1, code=FULL)
        file.execute("CREATE a ninth in a session", 1, [refused(FULL, CREATE, 9, 0, 1), Op(MOVE, 8, 1, 1, 7)])
        file.paper("CREATE what is there", CREATE, 0, 8, 0, 1, code=EXISTS)
        file.paper("the others go on", REFER, 0, 8, 0, 0, 7)
        files.append(file)

    full = File("disk-full", "With a disk that takes nothing more: writes are refused, reads go on.", disk="full")
    create = struct.pack(">IIIII", CREATE, 0, 1, 0, 5)
    full.hosts("CREATE", create, struct.pack(">IIIII", CREATE | 0x80000000, 0, 1, 0, BUSY))
    full.paper("REFER", REFER, 0, 1, 0, 0, code=UNKNOWN)
    packet = execute_packet(TOKENS[0], 1, 0, [Op(CREATE, 1, 0, 5).request()])
    full.hosts("execute", packet, refusal(packet, 9))
    files.append(full)

    for mode, name in ((DURABLE, "signature-required"), (EXPRESS, "express-signature-required")):
        file = File(name, "With signatures required: what is not signed moves nothing.", mode, require_signature=True)
        for command, called in ((CREATE, "CREATE"), (ISSUE, "ISSUE"), (MOVE, "TRANSFER")):
            for ident in (0, 7):
                file.paper(f"{called}, id {ident}", command, ident, 1, 2, 5, code=UNAUTHORISED)
        file.paper("REFER nobody: nothing was made", REFER, 0, 1, 0, 0, code=UNKNOWN)
        file.paper("a command that is none", 9, 0, 1, 0, 0, code=BAD)
        ops = [Op(CREATE, 1, 0, 5), Op(MOVE, 1, 2, 1)]
        sent = [op.request() for op in ops]
        said = [op.packed(UNAUTHORISED, op.amount, 0) for op in ops]
        unsigned = execute_packet(TOKENS[0], 1, 0, sent)
        whole = execute_packet(TOKENS[0], 0, 0, said, status=STATUS_UNAUTHORISED, reply=True)
        file.hosts("execute, not signed: refused whole", unsigned, whole)
        file.hosts("execute, not signed: it used no sequence", unsigned, whole)
        # Of no key's: curve 1, then zeros.
        forged = bytes([1, 2]) + bytes(102) + unsigned[16:]
        answer = header(SIGNED | 0x80, len(whole) - 16, status=STATUS_UNAUTHORISED) + whole[16:]
        file.hosts("signed by nobody", header(SIGNED, len(forged)) + forged, answer)
        file.refusal("signed, cut", header(SIGNED, 104 + 24) + forged[:128])
        mine = {"token": TOKENS[0], "slot": 0}
        told = header(SESSION | 0x80, 40) + session_body(sequence=1, **mine)
        file.hosts("the session still waits for its first packet", session_packet(SESSION, **mine), told)
        files.append(file)

    ring = File("express-ring-full", "With rings of eight records that nobody empties.", EXPRESS, ring_bits=3,
                drains=False)
    ring.paper("record 1", CREATE, 0, 1, 0, 50, 50)
    ring.paper("record 2", CREATE, 0, 2, 0, 0, 0)
    for number in range(3, 7):
        ring.paper(f"record {number}", MOVE, 0, 1, 2, 1, 52 - number)
    ring.paper("no record of a refusal without an id", MOVE, 0, 1, 2, 1000, code=INSUFFICIENT)
    three = [Op(MOVE, 1, 2, 1)] * 3
    sent = execute_packet(TOKENS[0], 1, 0, [op.request() for op in three])
    busy = execute_packet(TOKENS[0], 1, 0, [op.request() for op in three], status=STATUS_BUSY, reply=True)
    ring.fastpath("no room for three", sent, busy, ["busy", "ring_full"])
    ring.execute("room for two", 1, [Op(MOVE, 1, 2, 1, 45), Op(MOVE, 1, 2, 1, 44)])
    for what, ident in (("without an id", 0), ("with an id: uses none", 7)):
        request = struct.pack(">IIIII", MOVE, ident, 1, 2, 1)
        ring.fastpath(f"TRANSFER {what}: busy", request, struct.pack(">IIIII", MOVE | 0x80000000, ident, 1, 2, BUSY),
                  ["busy", "ring_full"])
    ring.execute("the session's last packet is told all the same", 1, [Op(MOVE, 1, 2, 1, 45), Op(MOVE, 1, 2, 1, 44)],
                 repeats=True, number=1)
    ring.paper("REFER goes on", REFER, 0, 1, 0, 0, 44)
    files.append(ring)

    lo = File("express-loopback", "On lo: own and loopback sources are answered there.", EXPRESS, loopback=True)
    mac = {"eth_source": bytes(6), "eth_destination": bytes(6)}
    lo.paper("an account", CREATE, 0, 1, 0, 50, 50, **mac)
    lo.paper("another one, from loopback, which may not issue here", CREATE, 0, 2, 0, 50, code=UNAUTHORISED,
             source="127.0.0.1", **mac)
    for source in (OWN4, "127.0.0.1"):
        lo.paper(f"source {source}", REFER, 0, 1, 0, 0, 50, source=source, **mac)
    for source in (OWN6, "::1"):
        lo.paper(f"source {source}", REFER, 0, 1, 0, 0, 50, v6=True, source=source, **mac)
    lo.drop("source port 7702, of a second server", struct.pack(">IIIII", REFER, 0, 1, 0, 0), "source_port",
            source=OWN4, sport=7702, **mac)
    files.append(lo)
    return files


def files():
    made = []
    for fill, about in ((paper_commands, "The paper's commands and every refusal of theirs."),
                        (paper_ids, "The paper's Transaction IDs: once, and the first reply again."),
                        (sessions, "Sessions: once by sequence, and every code of an operation."),
                        (hosts, "What is the host's in both modes: linked, pending, more than four, sessions."),
                        (formats, "What is not well-formed, and REFER in the native format.")):
        name = fill.__name__.replace("_", "-")
        for mode, prefix in ((DURABLE, ""), (EXPRESS, "express-")):
            file = File(prefix + name, about, mode)
            fill(file)
            made.append(file)
    return made + [frames(DURABLE), frames(EXPRESS), *others()]

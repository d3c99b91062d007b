"""What becomes of requests to `column`: vectors/column/*.toml.

Rows, statuses and flags of every reply are written out here; nothing looks anything up. A file's vectors are asked one
after the other: what one changes in the table the next ones find, and the fast path is filled anew before each of them.
"""
from packet import *

GET, SCAN, PUT, DELETE, INCREMENT, CHECK_AND_PUT, APPEND, OPEN, SWITCH = range(1, 10)
(OK, UNKNOWN, _, BUSY, _, NO_SESSION, SEQUENCE, REUSED, UNAUTHORISED, NO_ROOM, OUTCOME_UNKNOWN, UNKNOWN_FAMILY,
 START_BEHIND_STOP, NOT_A_NUMBER, TOO_LONG) = range(15)
REVERSE, STOP_INCLUSIVE, START_EXCLUSIVE, ABSENT = 1, 2, 4, 8
STALE, MORE, NOT_APPLIED, LEFT_OUT = 1, 2, 4, 8
FASTPATH, HOST = 1, 2
TRUSTED4, TRUSTED6 = "10.0.0.8", "fd00::8"
FOO, BAR, OTHER = b"entry:foo", b"entry:bar", b"other:x"
NOW_MS = 2_000_000
LONGEST = 1448  # whole words that fit 1,452 bytes
ROOM = 208  # of most requests
COUNTERS = ["hits", "misses", "invalid", "not_leased", "changing", "forwarded", "line_invalidations"]


def value_of(size, seed=0):
    """A pattern, so that a byte out of order shows."""
    return bytes((seed + 7 * i + 1) % 256 for i in range(size))


# ---- what table and the fast path hold ----

C64, D65, E255 = b"C" * 64, b"D" * 65, b"E" * 255
NUMBER = struct.pack(">q", 41)
LONG = value_of(1024, 3)
ROWS = [
    (FOO, b"A", b"one byte", 1_000_001), (FOO, b"BBBB", b"four", 1_000_002), (FOO, C64, b"sixty-four", 1_000_003),
    (FOO, D65, b"sixty-five", 1_000_004), (FOO, E255, b"255", 1_000_005),
    (FOO, b"k01", b"one", 1_000_010), (FOO, b"k02", value_of(18), 1_000_030), (FOO, b"k03", value_of(19), 1_000_020),
    (FOO, b"k04", b"", 1_000_040), (FOO, b"k1\0", b"ends in zero", 1_000_050), (FOO, b"l1", LONG, 1_000_060),
    (FOO, b"l2", value_of(1025), 1_000_070), (FOO, b"l3", value_of(1402), 1_000_080),
    (FOO, b"l4", value_of(1403), 1_000_090), (FOO, b"l5", value_of(3000), 1_000_100),
    (FOO, b"n", NUMBER, 1_000_110),
    *[(FOO, b"p%d" % n, b"value %d" % n, 1_000_200 + n) for n in range(1, 10)],
    (BAR, b"k01", b"other", 1_000_300), (BAR, b"l5", b"short", 1_000_310), (OTHER, b"k01", b"not its column", 1_000_320),
]
HELD = [(FOO, b"", b"D"), (FOO, b"k", b"l2"), (FOO, b"p", None), (BAR, b"", None)]
CELLS = {(column, key): (value, at) for column, key, value, at in ROWS}


def cell(key, column=FOO):
    """A row as a reply has it: key, which of the request's names, value, timestamp."""
    value, at = CELLS[column, key]
    return key, 0, value, at


# ---- native payloads ----

def padded(part):
    return part + bytes(-len(part) % 8)


def request(op, start=b"", stop=b"", columns=(FOO,), value=b"", expected=b"", flags=0, limit=0, reserved=0, slot=0,
            token=0, nonce=0, room=ROOM, names=None, count=None, start_bytes=None, body=None, junk=b"", **head):
    """A whole request, with room for a reply of `room` bytes."""
    if body is None:
        names = b"".join(name.ljust(32, b"\0") for name in columns) if names is None else names
        body = struct.pack(">BBBBHHHHIQQ", flags, len(start) if start_bytes is None else start_bytes, len(stop),
                           len(columns) if count is None else count, limit, len(value), len(expected), reserved, slot,
                           token, nonce)
        body += names + padded(start) + padded(stop) + padded(value) + padded(expected) + junk
        body += bytes(max(0, room - 16 - len(body)))
    head.setdefault("body_bytes", len(body))
    return header(op, **head) + body


def record(key, column, value):
    return padded(struct.pack(">BBH", len(key), column, len(value)) + key + value)


def left_out(key, bytes_, column=0, cut=False):
    return key, column | 0x80 | 0x40 * cut, struct.pack(">Q", bytes_), 0


def reply(asked, status, rows=(), flags=0, source=FASTPATH):
    """The reply to `asked`, as long as that."""
    version = max([at for _, _, _, at in rows], default=0)
    body = struct.pack(">BBHIQQ", source, flags, len(rows), 0, version, 0)
    body += b"".join(record(key, column, value) for key, column, value, _ in rows)
    body = body.ljust(len(asked) - 16, b"\0")
    assert len(body) == len(asked) - 16, "the rows do not fit"
    return header(asked[3] | 0x80, len(body), status=status, ident=int.from_bytes(asked[8:16], "big")) + body


# ---- the paper's payloads ----

def paper(op, key, name=FOO, last=b"", room=0):
    packet = op + key.ljust(4, b"\0") + name.ljust(9, b"\0") + last
    return packet.ljust(room, b"\0")


def paper_get(key, name=FOO, room=19):
    return paper(b"get", key, name, room=room)


def paper_scan(start, stop, name=FOO, rows=3):
    return paper(b"sc1", start, name, stop.ljust(4, b"\0"), 2 + 22 * rows)


def paper_put(key, value, name=FOO, room=0):
    return paper(b"put", key, name, value.ljust(18, b"\0"), room)


def paper_reply(asked, bytes_):
    return bytes_.ljust(len(asked), b"\0")


def paper_rows(asked, status, keys):
    rows = b"".join(key.ljust(4, b"\0") + CELLS[FOO, key][0].ljust(18, b"\0") for key in keys)
    return paper_reply(asked, bytes([status, len(keys)]) + rows)


# ---- files of vectors ----

class File:
    def __init__(self, name, about, lease="valid", changing=False, invalid=None, literal_flags=False,
                 paper_format=True, may_be_stale=False, table="here"):
        self.name, self.about, self.vectors, self.invalid = name, about, [], invalid
        self.state = {"lease": lease, "changing": changing, "literal_flags": literal_flags,
                      "paper_format": paper_format, "may_be_stale": may_be_stale, "now_ms": NOW_MS, "table": table}

    def add(self, what, request, fastpath, counts=(), reply=None, host=None, trailer=b"", head=None, kept=(), chosen=(),
            **how):
        how.setdefault("dport", COLUMN)
        head = headers(request, **how) if head is None else head
        lines = ["", "[[vector]]", f'what = "{what}"', parts("headers", head), hexes("request", request)]
        if trailer:
            lines.append(hexes("trailer", trailer))
        lines.append(f'fastpath = "{fastpath}"')
        if counts:
            assert set(counts) <= set(COUNTERS)
            names = [quoted(name) for name in COUNTERS if name in counts]
            lines.append(f"counts = [{', '.join(names)}]")
        if fastpath == "reply":
            lines.append(parts("reply_headers", turned(head, reply)))
        if reply is not None:
            lines.append(hexes("reply", reply))
        if host:
            lines.append(f'host = "{host}"')
        for key, ranges in (("kept", kept), ("chosen", chosen)):
            if ranges:
                lines.append(f"{key} = {[list(pair) for pair in ranges]}")
        self.vectors.append("\n".join(lines))

    def fastpath(self, what, request, reply, **how):
        """The fast path answers, and the host alone would say the same, but for who says it."""
        self.add(what, request, "reply", ["hits"], reply, "reply", **how)

    def hosts(self, what, request, reply, *counts, **how):
        self.add(what, request, "forward", counts or ["forwarded"], reply, "reply", **how)

    def refused(self, what, request, status=BAD_REQUEST, *counts, **how):
        self.hosts(what, request, refusal(request, status), *counts, **how)

    def silent(self, what, request, *counts, host=None, **how):
        """The fast path leaves it to the host, which drops it, or says nothing."""
        self.add(what, request, "forward", counts or ["forwarded"], host=host, **how)

    def passed(self, what, request, **how):
        self.add(what, request, "forward", **how)

    def drop(self, what, request, reason, host=True, **how):
        self.add(what, request, f"drop {reason}", host=f"drop {reason}" if host else None, **how)

    def text(self):
        out = [f"# {self.about}", "# Written by vectors/make.py from docs/wire-formats.md; what the keys mean: "
               "vectors/README.md.", "", "[state]"]
        out += [f"{key} = {toml(value)}" for key, value in self.state.items()]
        out += [f"columns = {[FOO.decode(), BAR.decode()]}".replace("'", '"'),
                f'trusted = ["{TRUSTED4}", "{TRUSTED6}"]']
        if self.invalid:
            column, key = self.invalid
            out.append(f'invalid = ["{column.decode()}", "{key.hex()}"]')
        out += ["", "[endpoint]", f'mac = "{OWN_MAC.hex()}"', f'addresses = ["{OWN4}", "{OWN6}"]',
                'broadcast = "10.0.0.255"']
        for column, key, value, at in ROWS:
            out += ["", "[[row]]", f'column = "{column.decode()}"', hexes("key", key), hexes("value", value),
                    f"timestamp_ms = {at}"]
        for column, low, high in HELD:
            out += ["", "[[held]]", f'column = "{column.decode()}"', f'low = "{low.hex()}"']
            out += [f'high = "{high.hex()}"'] if high is not None else []
        return "\n".join(out + self.vectors) + "\n"


def toml(value):
    return str(value).lower() if isinstance(value, (bool, int)) else quoted(value)


def by_host(asked, status, rows=(), flags=0):
    return reply(asked, status, rows, flags, HOST)


UNTRUSTED_SHORT = "not_a_request"


def paper_reads():
    file = File("paper-reads", "Reads in the paper's format.")
    for v6 in (False, True):
        family = "IPv6" if v6 else "IPv4"
        asked = paper_get(b"k01")
        file.fastpath(f"get, held, {family}", asked, paper_reply(asked, b"\0one"), v6=v6)
        asked = paper_scan(b"k01", b"k02")
        file.fastpath(f"sc1, two rows, {family}", asked, paper_rows(asked, 0, [b"k01", b"k02"]), v6=v6)
        asked = paper_get(b"n")
        file.hosts(f"get, not held: the host, {family}", asked, paper_reply(asked, b"\0" + NUMBER), "misses", v6=v6)

    def get(what, key, said, fastpath=True, count="misses", name=FOO, room=19):
        asked = paper_get(key, name, room)
        if fastpath:
            file.fastpath(what, asked, paper_reply(asked, said))
        else:
            file.hosts(what, asked, paper_reply(asked, said), count)

    get("get, a key of 1 byte", b"A", b"\0one byte")
    get("get, a key of 4 bytes", b"BBBB", b"\0four")
    get("get, the longest value", b"k02", b"\0" + value_of(18))
    get("get, an empty value", b"k04", b"\0")
    get("get, more zeros behind", b"k01", b"\0one", room=40)
    get("get, 1452 bytes", b"k01", b"\0one", room=1452)
    get("get, no row in a range that is held", b"k00", b"\1")
    get("get, another column", b"k01", b"\0other", name=BAR)
    get("get, no row in a column that is held whole", b"z", b"\1", name=BAR)
    get("get, a value of 19 bytes is more", b"k03", b"\2", False, "forwarded")
    get("get, no row in a range that is not held", b"m", b"\1", False)
    get("get, a column that is not the fast path's", b"k01", b"\0not its column", False, name=OTHER)
    get("get, a column that nobody has", b"k01", b"\1", False, name=b"entry:xyz")
    get("get, a name that is none", b"k01", b"\1", False, name=b"entryfoo")
    get("get, an empty key", b"", b"\1", False, "forwarded")
    get("get, a key with a zero in it", b"k\0001", b"\1")
    for size in (16, 18):
        file.silent(f"get, {size} bytes have no room for a reply", paper_get(b"k01", room=size),
                    host=f"drop {UNTRUSTED_SHORT}")
    for packet in (b"get", b"sc1", paper_get(b"k01")[:15], paper_scan(b"k01", b"k02")[:19]):
        file.silent(f"{packet[:3].decode()}, {len(packet)} bytes are no request", packet,
                    host=f"drop {UNTRUSTED_SHORT}")
    for packet in (b"", b"g", b"ge", b"gat" + bytes(16), b"PUT" + bytes(31)):
        file.drop(f"{len(packet)} bytes that begin with {packet[:3].hex() or 'nothing'}", packet, "not_a_request")

    def scan(what, start, stop, status, keys, fastpath=True, count="misses", **more):
        asked = paper_scan(start, stop, **more)
        said = paper_rows(asked, status, keys)
        if fastpath:
            file.fastpath(what, asked, said)
        else:
            file.hosts(what, asked, said, count)

    scan("sc1, the stop row is meant too", b"A", b"BBBB", 0, [b"A", b"BBBB"])
    scan("sc1, startRow is stopRow", b"k01", b"k01", 0, [b"k01"])
    scan("sc1, neither row is there", b"k00", b"k011", 0, [b"k01"])
    scan("sc1, room for one of two rows", b"k01", b"k02", 2, [b"k01"], rows=1)
    scan("sc1, room for just the rows", b"p1", b"p3", 0, [b"p1", b"p2", b"p3"])
    scan("sc1, over several blocks", b"p1", b"p9", 0, [b"p%d" % n for n in range(1, 10)], rows=9)
    scan("sc1, over several blocks, room for all but one", b"p1", b"p9", 2, [b"p%d" % n for n in range(1, 9)], rows=8)
    scan("sc1, to the table's end", b"p8", b"\xff\xff\xff\xff", 0, [b"p8", b"p9"])
    scan("sc1, no row in a range that is held", b"k05", b"k09", 1, [])
    scan("sc1, no row behind the last one", b"q", b"r", 1, [])
    scan("sc1, startRow behind stopRow", b"k02", b"k01", 1, [])
    scan("sc1, startRow behind stopRow, in a column that nobody has", b"k02", b"k01", 1, [], name=b"entry:xyz")
    scan("sc1, startRow behind a stopRow of zeros", b"k02", b"", 1, [])
    scan("sc1, both zeros", b"", b"", 1, [])
    scan("sc1, from the first row", b"", b"B", 0, [b"A"])
    scan("sc1, a part of the range is not held", b"l11", b"m", 2, [], False)
    scan("sc1, nothing of the range is held", b"m", b"n", 0, [b"n"], False)
    scan("sc1, ends before a value of 19 bytes", b"k01", b"k03", 2, [b"k01", b"k02"], False, "forwarded")
    scan("sc1, begins with a value of 19 bytes", b"k03", b"k04", 2, [], False, "forwarded")
    scan("sc1, a key that ends in zero cannot be said", b"k1", b"k2", 2, [], False, "forwarded")
    for size in (20, 23):
        file.silent(f"sc1, {size} bytes have no room for a row", paper_scan(b"k05", b"k09")[:size],
                    host=f"drop {UNTRUSTED_SHORT}")
        file.silent(f"sc1, startRow behind stopRow, {size} bytes", paper_scan(b"k2", b"k1")[:size],
                    host=f"drop {UNTRUSTED_SHORT}")
    return file


def native_reads():
    file = File("native-reads", "Get and scan in the native format.")
    for v6 in (False, True):
        family = "IPv6" if v6 else "IPv4"
        asked = request(GET, b"k01")
        file.fastpath(f"get, held, {family}", asked, reply(asked, OK, [cell(b"k01")]), v6=v6)
        asked = request(SCAN, b"k01", b"k03")
        file.fastpath(f"scan, two rows, {family}", asked, reply(asked, OK, [cell(b"k01"), cell(b"k02")]), v6=v6)
        asked = request(GET, b"n")
        file.hosts(f"get, not held, {family}", asked, by_host(asked, OK, [cell(b"n")]), "misses", v6=v6)

    def get(what, key, status, rows, fastpath=True, count="misses", flags=0, **more):
        asked = request(GET, key, **more)
        if fastpath:
            file.fastpath(what, asked, reply(asked, status, rows, flags))
        else:
            file.hosts(what, asked, by_host(asked, status, rows, flags), count)

    for key, fastpath in ((b"A", True), (b"BBBB", True), (C64, True), (D65, False), (E255, False)):
        get(f"get, a key of {len(key)} bytes", key, OK, [cell(key)], fastpath, "forwarded", room=400)
    for size, fastpath in ((1, True), (4, True), (64, True), (65, False), (255, False)):
        get(f"get, no row, a key of {size} bytes", b"@" * size, UNKNOWN, [], fastpath, "forwarded")
    get("get, an empty value", b"k04", OK, [cell(b"k04")])
    get("get, a key that ends in zero", b"k1\0", OK, [cell(b"k1\0")])
    get("get, its beginning is no row", b"k1", UNKNOWN, [])
    get("get, the longest value that the fast path holds", b"l1", OK, [cell(b"l1")], room=LONGEST)
    get("get, one byte longer", b"l2", OK, [cell(b"l2")], False, room=LONGEST)
    get("get, the longest value that fits", b"l3", OK, [cell(b"l3")], False, room=LONGEST)
    get("get, one byte longer than fits", b"l4", TOO_LONG, [left_out(b"l4", 1403)], False, flags=LEFT_OUT, room=LONGEST)
    get("get, a value of 3,000 bytes", b"l5", TOO_LONG, [left_out(b"l5", 3000)], False, flags=LEFT_OUT, room=LONGEST)
    row = [(b"l5", 0, b"short", 1_000_310)]
    get("get, another column of a row that is too long", b"l5", OK, row, columns=[BAR])
    get("get, two columns, one of which is too long", b"l5", TOO_LONG, [left_out(b"l5", 3000, 1)], False,
        "forwarded", LEFT_OUT, columns=[BAR, FOO])
    get("get, just room enough", b"l1", OK, [cell(b"l1")], room=40 + 1032)
    get("get, a word too little room: not the same as too long", b"l1", OK, [], False, "forwarded", MORE,
        room=40 + 1032 - 8)
    get("get, in the shortest packet", b"l5", TOO_LONG, [left_out(b"l5", 3000)], False, "misses", LEFT_OUT, room=0)
    both = [(b"k01", 0, b"other", 1_000_300), (b"k01", 1, b"one", 1_000_010)]
    get("get, two columns in their order", b"k01", OK, both, False, "forwarded", columns=[BAR, FOO])
    get("get, the same column twice", b"k01", OK, [cell(b"k01"), (b"k01", 1, b"one", 1_000_010)], False, "forwarded",
        columns=[FOO, FOO])
    get("get, two columns of which one has the row", b"k02", OK, [(b"k02", 1, *CELLS[FOO, b"k02"])], False,
        "forwarded", columns=[BAR, FOO])
    get("get, no row where nothing is held", b"m", UNKNOWN, [], False)
    get("get, a column that is not the fast path's", b"k01", OK, [cell(b"k01", OTHER)], False, columns=[OTHER])
    get("get, the id all ones", b"k01", OK, [cell(b"k01")], ident=2**64 - 1)
    get("get, what is in the room does not matter", b"k01", OK, [cell(b"k01")], junk=b"\1" * 64)

    def scan(what, rows, fastpath=True, count="forwarded", said=0, status=OK, **more):
        asked = request(SCAN, **more)
        rows = [row if isinstance(row, tuple) else cell(row) for row in rows]
        if fastpath:
            file.fastpath(what, asked, reply(asked, status, rows, said))
        else:
            file.hosts(what, asked, by_host(asked, status, rows, said), count)

    nine = [b"p%d" % n for n in range(1, 10)]
    scan("scan, the stop is left out", [b"k01", b"k02"], start=b"k01", stop=b"k03")
    scan("scan, the stop is meant too", [b"k01", b"k02", b"k03"], start=b"k01", stop=b"k03", flags=STOP_INCLUSIVE)
    scan("scan, the start is left out", [b"k02"], start=b"k01", stop=b"k03", flags=START_EXCLUSIVE)
    scan("scan, both ends turned", [b"k02", b"k03"], start=b"k01", stop=b"k03",
         flags=START_EXCLUSIVE | STOP_INCLUSIVE)
    scan("scan, neither end is there", [b"k01"], start=b"k00", stop=b"k011", flags=STOP_INCLUSIVE)
    scan("scan, start and stop the same row, meant", [b"k01"], start=b"k01", stop=b"k01", flags=STOP_INCLUSIVE)
    scan("scan, start and stop the same row, not meant", [], False, start=b"k01", stop=b"k01")
    scan("scan, from behind a row to the same row", [], False, start=b"k01", stop=b"k01",
         flags=START_EXCLUSIVE | STOP_INCLUSIVE)
    scan("scan, from the first row", [b"A"], stop=b"B")
    scan("scan, keys of 1 to 64 bytes", [b"A", b"BBBB", C64], start=b"A", stop=b"D")
    scan("scan, to the table's end", nine, start=b"p")
    scan("scan, behind the last row", [], start=b"q")
    scan("scan, no row in a range that is held", [], start=b"k05", stop=b"k09")
    scan("scan, from the first row of a column to its end", [(b"k01", 0, b"other", 1_000_300),
                                                             (b"l5", 0, b"short", 1_000_310)], columns=[BAR])
    for limit, rows, said in ((1, 1, MORE), (8, 8, MORE), (9, 9, MORE), (10, 9, 0), (65535, 9, 0)):
        scan(f"scan, nine rows, at most {limit}", nine[:rows], said=said, start=b"p", limit=limit)
    for words, rows, said in ((0, 0, MORE), (1, 0, MORE), (2, 1, MORE), (3, 1, MORE), (17, 8, MORE), (18, 9, 0)):
        # A row of a key of 2 bytes and a value of 7 has two words; the head, the name and the key take eight.
        room = 40 + 8 * words
        if room >= 88:
            scan(f"scan, nine rows, room for {words} words of rows", nine[:rows], said=said, start=b"p", room=room)
    scan("scan, limit and room meet", nine[:3], said=MORE, start=b"p", limit=3, room=40 + 16 * 3)
    scan("scan, over what is not held", [b"k04", b"k1\0", b"l1"], False, "misses", MORE, start=b"k04", stop=b"n",
         room=40 + 8 + 16 + 24 + 1032 + 8)
    scan("scan, one that fits only without what is behind", [b"l3"], False, "misses", MORE, start=b"l3", stop=b"n", room=LONGEST)
    scan("scan, goes on over what is too long", [left_out(b"l4", 1403), left_out(b"l5", 3000), b"n"], False, "misses",
         LEFT_OUT, start=b"l3", stop=b"p", flags=START_EXCLUSIVE)
    scan("scan, ends with what is too long", [left_out(b"l4", 1403)], False, "misses", LEFT_OUT | MORE, start=b"l4",
         stop=b"p", limit=1)
    both = [(b"l5", 0x81, struct.pack(">Q", 3000), 0)]
    scan("scan, two columns of a row that is too long", both, False, said=LEFT_OUT, start=b"l5", stop=b"l6",
         columns=[BAR, FOO])
    scan("scan, a key of 65 bytes", [D65], False, start=D65, stop=b"E")
    scan("scan, to a key of 65 bytes", [C64], False, start=C64, stop=D65)
    scan("scan, from a key of 255 bytes", [], False, start=E255, stop=b"F", flags=START_EXCLUSIVE)
    scan("scan, keys of 65 and 255 bytes", [D65, E255], False, "misses", start=b"D", stop=b"F", room=LONGEST)
    scan("scan, reversed", [b"k02", b"k01"], False, start=b"k02", stop=b"k00", flags=REVERSE)
    scan("scan, reversed, ends turned", [b"k01"], False, start=b"k02", stop=b"k01",
         flags=REVERSE | START_EXCLUSIVE | STOP_INCLUSIVE)
    scan("scan, reversed, from the last row", nine[:6:-1], False, said=MORE, flags=REVERSE, limit=2)
    scan("scan, reversed, to the first row", [b"BBBB", b"A"], False, start=b"C", flags=REVERSE)
    scan("scan, two columns", [(b"k01", 0, b"other", 1_000_300), (b"k01", 1, b"one", 1_000_010),
                               (b"k02", 1, *CELLS[FOO, b"k02"])], False, start=b"k01", stop=b"k03", columns=[BAR, FOO])
    scan("scan, two columns, one row", [(b"k01", 0, b"other", 1_000_300), (b"k01", 1, b"one", 1_000_010)], False,
         said=MORE, start=b"k01", stop=b"k03", columns=[BAR, FOO], limit=1)
    scan("scan, a column that is not the fast path's", [cell(b"k01", OTHER)], False, "misses", columns=[OTHER])
    for flags in (0, STOP_INCLUSIVE, START_EXCLUSIVE):
        file.refused(f"scan, start behind stop, flags {flags}", request(SCAN, b"k02", b"k01", flags=flags),
                     START_BEHIND_STOP)
    file.refused("scan, reversed, start below stop", request(SCAN, b"k01", b"k02", flags=REVERSE), START_BEHIND_STOP)
    return file


def refusals():
    file = File("refusals", "Requests that are none, or not well-formed.")
    refused = file.refused
    for op, name in ((GET, "get"), (SCAN, "scan"), (PUT, "put"), (DELETE, "delete"), (INCREMENT, "increment"),
                     (CHECK_AND_PUT, "check_and_put"), (APPEND, "append")):
        value = NUMBER if op in (PUT, INCREMENT, CHECK_AND_PUT, APPEND) else b""

        def with_(start=b"k01", op=op, value=value, **more):
            more.setdefault("source", TRUSTED4)
            source = more.pop("source")
            return request(op, start, value=value, **more), source

        def wrong(what, asked, *counts):
            refused(f"{name}, {what}", asked[0], BAD_REQUEST, *counts, source=asked[1])

        counts = ["forwarded", "line_invalidations"] if op in (PUT, DELETE) else []
        if op != SCAN:
            wrong("an empty key", with_(b""))
            wrong("a limit", with_(limit=1))
            wrong("a stop key", with_(stop=b"k02"))
        wrong("no column", with_(columns=[]))
        wrong("a column too many", with_(count=2, columns=[FOO])) if op not in (GET, SCAN) else None
        wrong("the reserved word", with_(reserved=1))
        wrong("a flag that is none", with_(flags=0x10))
        wrong("reverse", with_(flags=REVERSE)) if op != SCAN else None
        wrong("absent", with_(flags=ABSENT)) if op != CHECK_AND_PUT else None
        wrong("what pads the key is not zero", with_(start=b"k01\0\0\0\0\1", start_bytes=3, room=120))
        wrong("a key longer than the packet", (request(op, b"", start_bytes=255, value=value, room=0), TRUSTED4))
        if op in (GET, SCAN):
            wrong("a value", with_(value=b"v"))
            wrong("a session's number", with_(slot=1))
            wrong("a session's secret", with_(token=1))
            wrong("a nonce", with_(nonce=1))
        elif op == DELETE:
            wrong("a value", with_(value=b"v"), *counts)
        if op not in (CHECK_AND_PUT,):
            wrong("an expected value", with_(expected=b"e"))
        if op not in (GET, SCAN):
            wrong("a session's number without its secret", with_(slot=1), *counts)
        for body_bytes in (0, 31, 65535):
            wrong(f"length {body_bytes}", with_(body_bytes=body_bytes))
        wrong("a status", with_(status=1))
        asked = request(op, b"k01", value=value)
        wrong("not in whole words", (request(op, b"k01", value=value, body=asked[16:] + b"\0"), TRUSTED4))
    name = b"entry:foo\0x".ljust(32, b"\0")
    refused("get, a name that goes on behind a zero", request(GET, b"k01", names=name, count=1), BAD_REQUEST, "misses")
    refused("get, a name without a family", request(GET, b"k01", columns=[b"entryfoo"]), BAD_REQUEST, "misses")
    refused("get, a name with an empty family", request(GET, b"k01", columns=[b":foo"]), BAD_REQUEST, "misses")
    refused("increment, by seven bytes", request(INCREMENT, b"n", value=bytes(7)), source=TRUSTED4)
    refused("check_and_put, absent and expected", request(CHECK_AND_PUT, b"k01", value=b"v", expected=b"e",
                                                         flags=ABSENT), source=TRUSTED4)
    for op in (0, 10, 127):
        refused(f"operation {op}", request(op, b"k01"))
    for version in (0, 2, 255):
        refused(f"version {version}", request(GET, b"k01", version=version), UNSUPPORTED)
    refused("version 2, and a wrong length: the version decides first",
            request(GET, b"k01", version=2, body_bytes=7), UNSUPPORTED)
    refused("a header alone", header(GET, 0))
    for op, size, name in ((OPEN, 40, "open"), (SWITCH, 8, "switch")):
        refused(f"{name}, a word too short", header(op, size - 8) + bytes(size - 8))
        refused(f"{name}, a word too long", header(op, size + 8) + bytes(size + 8))
    for at in (16, 24, 28, 32, 39):
        body = bytearray(40)
        body[at] = 1
        refused(f"open, byte {at} of its body", header(OPEN, 40) + bytes(body))
    refused("switch, to 2", header(SWITCH, 8) + struct.pack(">Q", 2), source=TRUSTED4)
    for magic in (0x4C54, 0x4D53, 0x534C):
        file.drop(f"magic {magic:04x}", request(GET, b"k01", magic=magic), "not_a_request")
    for size in (1, 15):
        file.drop(f"{size} bytes of a header", header(GET, 0)[:size], "not_a_request")
    for op in (0x80 | GET, 0x80, 0xFF):
        file.drop(f"reply bit: operation {op:02x}", request(op, b"k01"), "reply_bit")
    asked = request(GET, b"k01")
    file.drop("a whole reply of ours", reply(asked, OK, [cell(b"k01")]), "reply_bit")
    file.drop("a refusal of ours", refusal(asked, BAD_REQUEST), "reply_bit")
    return file


def changes():
    file = File("changes", "Changes by who is trusted, and by who is not.")

    def held(what, key, rows, status=OK, v6=False):
        asked = request(GET, key)
        file.fastpath(what, asked, reply(asked, status, rows), v6=v6)

    at_line = ("forwarded", "line_invalidations")
    for source, v6, value in ((TRUSTED4, False, b"new"), (TRUSTED6, True, b"newer")):
        family = "IPv6" if v6 else "IPv4"
        asked = request(PUT, b"k01", value=value, room=0)
        file.hosts(f"put, {family}", asked, by_host(asked, OK), *at_line, source=source, v6=v6)
        held(f"what was put is read, {family}", b"k01", [(b"k01", 0, value, NOW_MS)], v6=v6)
    asked = request(PUT, b"k00", value=b"", room=0)
    file.hosts("put, a new row without a byte", asked, by_host(asked, OK), *at_line, source=TRUSTED4)
    held("it is there", b"k00", [(b"k00", 0, b"", NOW_MS)])
    asked = request(PUT, b"m", value=b"v", room=0)
    file.hosts("put, where nothing is held", asked, by_host(asked, OK), source=TRUSTED4)
    asked = request(PUT, b"k01", columns=[OTHER], value=b"v", room=0)
    file.hosts("put, in a column that is not the fast path's", asked, by_host(asked, OK), source=TRUSTED4)
    for size, lines in ((1, True), (4, True), (64, True), (65, False), (255, False)):
        key = b"A" * size
        asked = request(PUT, key, value=b"%d" % size, room=0)
        file.hosts(f"put, a key of {size} bytes", asked, by_host(asked, OK), *(at_line if lines else ["forwarded"]),
                   source=TRUSTED4)
    asked = request(SCAN, b"A", b"AB", room=600)
    # The fast path holds all below D; what is too long for it cuts that off where it begins.
    rows = [(b"A" * size, 0, b"%d" % size, NOW_MS) for size in (1, 4, 64)]
    rest = [(b"A" * size, 0, b"%d" % size, NOW_MS) for size in (65, 255)]
    file.hosts("scan, keys of 1 to 255 bytes", asked, by_host(asked, OK, rows + rest), "misses")
    asked = request(DELETE, b"k00", room=0)
    file.hosts("delete", asked, by_host(asked, OK), *at_line, source=TRUSTED4)
    held("it is gone", b"k00", [], UNKNOWN)
    asked = request(DELETE, b"k00", room=0)
    file.hosts("delete, of what is not there", asked, by_host(asked, OK), *at_line, source=TRUSTED4, sport=40001)
    for op, name in ((PUT, "put"), (DELETE, "delete"), (INCREMENT, "increment"), (APPEND, "append"),
                     (CHECK_AND_PUT, "check_and_put")):
        value = b"" if op == DELETE else NUMBER
        file.refused(f"{name}, by who is not trusted", request(op, b"p1", value=value), UNAUTHORISED)
        file.refused(f"{name}, by who is not trusted, IPv6", request(op, b"p1", value=value), UNAUTHORISED, v6=True)
    held("nothing was done", b"p1", [cell(b"p1")])

    def now(what, op, key, value, then, status=OK, flags=0, **more):
        asked = request(op, key, value=value, **more)
        rows = [] if then is None else [(key, 0, then, NOW_MS)]
        file.hosts(what, asked, by_host(asked, status, rows, flags), source=TRUSTED4)

    def number(value):
        return struct.pack(">q", value)

    now("increment", INCREMENT, b"n", number(1), number(42))
    now("increment, by less than nothing", INCREMENT, b"n", number(-50), number(-8))
    now("increment, of nothing", INCREMENT, b"n2", number(7), number(7))
    now("increment, to the highest", INCREMENT, b"n2", number(2**63 - 8), number(2**63 - 1))
    now("increment, wraps", INCREMENT, b"n2", number(1), number(-(2**63)))
    now("increment, with a nonce", INCREMENT, b"n3", number(1), number(1), nonce=77)
    now("increment, the same nonce: not again", INCREMENT, b"n3", number(1), number(1), nonce=77, ident=9)
    now("increment, another nonce", INCREMENT, b"n3", number(1), number(2), nonce=78)
    file.refused("increment, of what is no number", request(INCREMENT, b"k02", value=number(1)), NOT_A_NUMBER,
                 source=TRUSTED4)
    held("it is as it was", b"k02", [cell(b"k02")])
    now("append", APPEND, b"p2", b"!", b"value 2!")
    now("append, to nothing", APPEND, b"p0", b"x", b"x")
    now("append, nothing", APPEND, b"p2", b"", b"value 2!")
    now("append, without room for the whole", APPEND, b"l1", b"x", None, flags=MORE, room=0)
    asked = request(APPEND, b"l3", value=b"more")
    file.hosts("append, until it is too long", asked, by_host(asked, OK, [left_out(b"l3", 1406)], LEFT_OUT),
               source=TRUSTED4)

    def check(what, key, value, said, **more):
        asked = request(CHECK_AND_PUT, key, value=value, room=0, **more)
        file.hosts(what, asked, by_host(asked, OK, flags=said), source=TRUSTED4)

    check("check_and_put, it holds something else", b"p3", b"v", NOT_APPLIED, expected=b"value 2")
    check("check_and_put, it is there", b"p3", b"v", NOT_APPLIED, flags=ABSENT)
    held("nothing was put", b"p3", [cell(b"p3")])
    check("check_and_put, it holds what is expected", b"p3", b"v", 0, expected=b"value 3")
    held("it was put", b"p3", [(b"p3", 0, b"v", NOW_MS)])
    check("check_and_put, it is not there", b"p33", b"w", 0, flags=ABSENT)
    held("it is now", b"p33", [(b"p33", 0, b"w", NOW_MS)])
    check("check_and_put, nothing is there and nothing is not expected", b"p34", b"w", NOT_APPLIED, expected=b"x")
    check("check_and_put, an empty value is expected", b"k04", b"w", 0)
    for off, name in ((1, "off"), (0, "on")):
        asked = header(SWITCH, 8) + struct.pack(">Q", off)
        file.hosts(f"switch {name}", asked, header(SWITCH | 0x80, 8) + struct.pack(">Q", off), source=TRUSTED4)
        file.refused(f"switch {name}, by who is not trusted", asked, UNAUTHORISED)
    paper_changes(file, at_line)
    return file


def paper_changes(file, at_line):
    def put(what, packet, said, *counts, source=TRUSTED4, **more):
        file.hosts(what, packet, paper_reply(packet, said), *counts, source=source, **more)

    put("paper put", paper_put(b"k044", b"new"), b"ok\0", *at_line)
    put("paper put, IPv6", paper_put(b"k044", value_of(18)), b"ok\0", *at_line, source=TRUSTED6, v6=True)
    asked = paper_get(b"k044")
    file.fastpath("paper put, it is read", asked, paper_reply(asked, b"\0" + value_of(18)))
    put("paper put, a value of one byte and no zeros", paper(b"put", b"k044", last=b"v"), b"ok\0", *at_line)
    put("paper put, more zeros behind", paper_put(b"k044", b"v", room=100), b"ok\0", *at_line)
    put("paper put, where nothing is held", paper_put(b"m", b"v"), b"ok\0")
    put("paper put, by who is not trusted", paper_put(b"k044", b"w"), b"er\2", source=PEER4)
    put("paper put, by who is not trusted, IPv6", paper_put(b"k044", b"w"), b"er\2", source=PEER6, v6=True)
    put("paper put, without a value", paper_put(b"k044", b""), b"er\1", source=PEER4)
    put("paper put, without a key", paper_put(b"", b"v"), b"er\5")
    put("paper put, a name that is none", paper_put(b"k044", b"v", name=b"entryfoo"), b"er\3")
    put("paper put, 15 bytes", paper_put(b"k044", b"v")[:15], b"er\5")
    put("paper put, 3 bytes", b"put", b"er\5")
    asked = paper_get(b"k044")
    file.fastpath("paper put, the last that was done", asked, paper_reply(asked, b"\0v"))


def sessions():
    file = File("sessions", "Sessions: opened by who gets what is sent to his address, and changes in them.")

    def opening(challenge=bytes(16), ident=0x0102030405060708):
        return header(OPEN, 40, ident=ident) + challenge + bytes(24)

    def granted(slot, ident=0x0102030405060708):
        body = bytes(16) + struct.pack(">QIIQ", 0, slot, 3600, 0)
        return header(OPEN | 0x80, 40, ident=ident) + body

    challenge = header(OPEN | 0x80, 40) + bytes(28) + struct.pack(">I", CHALLENGE_S) + bytes(8)
    file.refused("open, with a challenge of nobody's", opening(b"\1" * 16), UNAUTHORISED)
    file.hosts("open: a challenge", opening(), challenge, chosen=[(16, 32)])
    file.refused("open, from another address", opening(), UNAUTHORISED, kept=[(16, 32)], source="10.0.0.7")
    file.hosts("open: granted", opening(), granted(1), kept=[(16, 32)], chosen=[(16, 32), (32, 40)])
    file.hosts("open, again: the same", opening(), granted(1), kept=[(16, 32)], chosen=[(16, 32), (32, 40)])

    def change(what, op, key, value, nonce, rows=(), status=OK, slot=1, flags=0, counts=(), kept=((32, 40),), token=0,
               columns=(FOO,), room=ROOM, **more):
        asked = request(op, key, value=value, slot=slot, token=token, nonce=nonce, columns=columns, room=room,
                        **{key: more.pop(key) for key in ("ident", "expected") if key in more})
        # What is kept is not known here: the checksum is the one that a local sender leaves to its interface.
        more["check"] = pseudo_sum(more.get("source", PEER4), len(asked))
        if status == OK:
            file.hosts(what, asked, by_host(asked, OK, rows, flags), *counts, kept=kept, **more)
        else:
            file.refused(what, asked, status, *counts, kept=kept, **more)

    one = [(b"n4", 0, struct.pack(">q", 1), NOW_MS)]
    change("increment, the first", INCREMENT, b"n4", struct.pack(">q", 1), 1, one)
    change("increment, again: the same reply", INCREMENT, b"n4", struct.pack(">q", 1), 1, one, ident=77)
    change("the same nonce for something else", INCREMENT, b"n4", struct.pack(">q", 2), 1, status=REUSED)
    change("a nonce too high", INCREMENT, b"n4", struct.pack(">q", 1), 3, status=SEQUENCE)
    change("nonce 0", INCREMENT, b"n4", struct.pack(">q", 1), 0, status=SEQUENCE)
    change("another secret", INCREMENT, b"n4", struct.pack(">q", 1), 2, status=NO_SESSION, kept=(), token=1)
    change("another number", INCREMENT, b"n4", struct.pack(">q", 1), 2, status=NO_SESSION, slot=2)
    two = [(b"n4", 0, struct.pack(">q", 2), NOW_MS)]
    change("increment, the second, from another address", INCREMENT, b"n4", struct.pack(">q", 1), 2, two,
           source="10.0.0.7")
    change("a nonce too low", INCREMENT, b"n4", struct.pack(">q", 1), 1, status=SEQUENCE)
    change("put", PUT, b"p5", b"in a session", 3, room=0)
    asked = request(GET, b"p5")
    file.fastpath("it is read", asked, reply(asked, OK, [(b"p5", 0, b"in a session", NOW_MS)]))
    change("a refusal has its nonce", INCREMENT, b"p5", struct.pack(">q", 1), 4, status=NOT_A_NUMBER)
    change("the same again: the same refusal", INCREMENT, b"p5", struct.pack(">q", 1), 4, status=NOT_A_NUMBER)
    change("delete", DELETE, b"p5", b"", 5, room=0)
    change("check_and_put, a mismatch has its nonce", CHECK_AND_PUT, b"p5", b"v", 6, flags=NOT_APPLIED, room=0,
           expected=b"e")
    change("append", APPEND, b"p5", b"end", 7, [(b"p5", 0, b"end", NOW_MS)])
    file.hosts("open: a second one", opening(ident=5), header(OPEN | 0x80, 40, ident=5) + challenge[16:],
               chosen=[(16, 32)])
    file.hosts("open: it is granted", opening(ident=5), granted(2, 5), kept=[(16, 32)], chosen=[(16, 32), (32, 40)])
    change("its first change", PUT, b"p5", b"two", 1, slot=2, room=0)
    change("its secret is not the other's", PUT, b"p5", b"two", 8, slot=1, status=NO_SESSION, room=0)
    return file


def pseudo_sum(source, payload_bytes):
    packed = ipaddress.ip_address(source).packed + ipaddress.ip_address(OWN4).packed
    return fold(words(packed + struct.pack(">HH", 17, 8 + payload_bytes)))


CHALLENGE_S = 30  # seconds for which a challenge is good


def states():
    """What becomes of the same few requests in each state of the fast path."""
    get, scan = request(GET, b"k01"), request(SCAN, b"k01", b"k03")
    rows = [cell(b"k01"), cell(b"k02")]
    old, put = paper_get(b"k01"), request(PUT, b"k01", value=b"v", room=0)
    files = []

    def leaves(name, about, count, lines=True, **state):
        file = File(name, about, **state)
        file.hosts("get", get, by_host(get, OK, rows[:1]), count)
        file.hosts("scan", scan, by_host(scan, OK, rows), count)
        file.hosts("paper get", old, paper_reply(old, b"\0one"), count)
        asked = request(GET, D65)
        file.hosts("get, what is the host's", asked, by_host(asked, OK, [cell(D65)]))
        asked = paper_scan(b"k02", b"k01")
        file.fastpath("paper sc1, startRow behind stopRow needs no table", asked, paper_reply(asked, b"\1"))
        files.append(file)
        return file

    file = leaves("lease-over", "The fast path's lease is over: the host answers.", "not_leased", lease="over")
    asked = request(GET, b"n")
    file.hosts("get, not held", asked, by_host(asked, OK, [cell(b"n")]), "not_leased")
    file.hosts("put", put, by_host(put, OK), "forwarded", "line_invalidations", source=TRUSTED4)
    file = leaves("changing", "The host is in the middle of a change of the fast path's index.", "changing", changing=True)
    file.hosts("put", put, by_host(put, OK), "forwarded", source=TRUSTED4)
    invalid = (FOO, b"k02")
    file = leaves("invalid", "A row in a block may have changed.", "invalid", invalid=invalid)
    asked = request(GET, b"p1")
    file.fastpath("get, in another block", asked, reply(asked, OK, [cell(b"p1")]))
    asked = request(GET, b"n")
    file.hosts("get, not held", asked, by_host(asked, OK, [cell(b"n")]), "misses")
    file.hosts("put, in the block that is invalid", put, by_host(put, OK), "forwarded", source=TRUSTED4)
    file = leaves("literal-flags", "The paper's words as they are: one invalid block, and its column misses.", "invalid",
                  invalid=invalid, literal_flags=True)
    asked = request(GET, b"p1")
    file.hosts("get, in another block", asked, by_host(asked, OK, [cell(b"p1")]), "invalid")
    asked = request(GET, b"k01", columns=[BAR])
    file.fastpath("get, in another column", asked, reply(asked, OK, [(b"k01", 0, b"other", 1_000_300)]))

    file = File("may-be-stale", "Nothing tells the fast path of changes: every reply says so.", may_be_stale=True)
    file.fastpath("get", get, reply(get, OK, rows[:1], STALE))
    file.fastpath("scan", scan, reply(scan, OK, rows, STALE))
    asked = request(SCAN, b"p1", limit=1)
    file.fastpath("scan, and more", asked, reply(asked, OK, [cell(b"p1")], STALE | MORE))
    file.fastpath("paper get has no word for it", old, paper_reply(old, b"\0one"))
    asked = request(GET, b"n")
    file.hosts("get, not held", asked, by_host(asked, OK, [cell(b"n")], STALE), "misses")
    file.hosts("put", put, by_host(put, OK, flags=STALE), "forwarded", "line_invalidations", source=TRUSTED4)
    files.append(file)

    file = File("paper-refused", "The paper's format is switched off.", paper_format=False)
    for packet in (paper_get(b"k01"), paper_scan(b"k01", b"k02"), paper_put(b"k01", b"v"), b"get", b"put"):
        file.drop(f"{packet[:3].decode()}, {len(packet)} bytes", packet, "paper_refused", source=TRUSTED4)
    file.fastpath("native get", get, reply(get, OK, rows[:1]))
    files.append(file)
    return files


def tables():
    """What the table says, in the host's words."""
    files = []
    for name, table, status, code, reads in (
            ("table-away", "away", BUSY, 4, False), ("table-refusing", "refusing", BAD_REQUEST, 4, False),
            ("table-without-family", "without the family", UNKNOWN_FAMILY, 3, False),
            ("table-ended", "ended", NO_ROOM, 4, True), ("table-silent", "silent", OUTCOME_UNKNOWN, 4, True)):
        file = File(name, f"The table is {table}.", table=table)
        get, scan = request(GET, b"n"), request(SCAN, b"m", b"o")
        if reads:
            file.hosts("get", get, by_host(get, OK, [cell(b"n")]), "misses")
            file.hosts("scan", scan, by_host(scan, OK, [cell(b"n")]), "misses")
        else:
            file.refused("get", get, status, "misses")
            file.refused("scan", scan, status, "misses")
            file.silent("paper get: silence is not that there is no row", paper_get(b"n"), "misses")
        for op, what in ((PUT, "put"), (DELETE, "delete"), (INCREMENT, "increment"), (APPEND, "append"),
                         (CHECK_AND_PUT, "check_and_put")):
            asked = request(op, b"n", value=b"" if op == DELETE else NUMBER)
            file.refused(what, asked, status, source=TRUSTED4)
        asked = paper_put(b"n", b"v")
        file.hosts("paper put", asked, paper_reply(asked, b"er" + bytes([code])), source=TRUSTED4)
        files.append(file)
    return files


def frames():
    file = File("frames", "What is around a payload.")
    get = request(GET, b"k01", room=96)
    said = reply(get, OK, [cell(b"k01")])
    old = paper_get(b"k01")
    for v6 in (False, True):
        family = "IPv6" if v6 else "IPv4"
        for tag in (b"\x81\x00\x00\x07", b"\x88\xa8\x20\x07"):
            file.fastpath(f"tag {tag.hex()}, {family}", get, said, v6=v6, tags=tag)
        file.passed(f"two tags, {family}", get, v6=v6, tags=b"\x88\xa8\x00\x07\x81\x00\x00\x08")
        file.fastpath(f"bytes behind the datagram, {family}", old, paper_reply(old, b"\0one"), v6=v6, trailer=b"\xaa" * 5)
        file.passed(f"another port, {family}", get, v6=v6, dport=COLUMN + 10)
        file.passed(f"another MAC address, {family}", get, v6=v6, eth_destination=PEER_MAC)
        file.drop(f"from the service's own port, {family}", get, "source_port", False, v6=v6, sport=COLUMN)
        file.drop(f"from port 0, {family}", get, "source_port", False, v6=v6, sport=0)
        put = request(PUT, b"k01", value=b"v", room=0)
        file.passed(f"a put with a wrong checksum is the kernel's to throw away, {family}", put, v6=v6, check=0x1234,
                    source=TRUSTED6 if v6 else TRUSTED4)
        put = paper_put(b"k01", b"v")
        file.passed(f"a put of the paper's with a wrong checksum, {family}", put, v6=v6, check=0x1234,
                    source=TRUSTED6 if v6 else TRUSTED4)
    file.drop("from our own address", get, "source_address", False, source=OWN4)
    file.passed("IP options", get, first=0x46, options=b"\x01\x01\x01\x01")
    file.passed("a fragment", get, flags=0x2000)
    return file


def files():
    return [paper_reads(), native_reads(), refusals(), changes(), sessions(), *states(), *tables(), frames()]

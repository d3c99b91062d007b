"""What becomes of requests to `spv`: vectors/spv/*.toml."""
import hashlib

from packet import *

ZERO = bytes(32)


# ---- what the fast path and host hold: patterns, so that a byte out of order shows ----

def txid(number):
    return bytes((7 * number + i) % 256 for i in range(32))


def block(number, height):
    return {
        "header": bytes((0x13 + 29 * number + 5 * i) % 256 for i in range(80)),
        "root": bytes((0x80 + 5 * number + 3 * i) % 256 for i in range(32)),
        "hash": bytes((0x40 + 11 * number + 7 * i) % 256 for i in range(32)),
        "height": height,
    }


TIP = {"hash": bytes((0x21 + 13 * i) % 256 for i in range(32)), "height": 0x01020306}
BLOCKS = [  # block, TXIDs that the fast path has, TXIDs that only the host has, whether the fast path has its tree
    (block(0, 0x01020304), range(1, 17), [], True),
    (block(1, 0xFFFFFFFF), [17, 18], [], True),  # height not known
    (block(2, 0x01020305), [], [21, 22], True),
    (block(3, 0x01020302), range(40, 51), [51, 52], True),  # 13 transactions: odd rows
    (block(4, 0x01020301), [55], [], True),  # one transaction
    (block(5, 0x01020300), [56, 57, 58], [], False),
    (block(6, 0x01020306), [60], [], True),  # one transaction, whose TXID is the root
]
BLOCKS[6][0]["root"] = txid(60)
UNKNOWN = 30


def wtxid(number):
    return bytes((0xC3 + 7 * number + 3 * i) % 256 for i in range(32))


# Blocks that commit to witnesses: the reserved value, and the coinbase without its witness. The others do not.
WITNESSES = {
    3: (bytes((0x31 + 9 * i) % 256 for i in range(32)), bytes((0x55 + 3 * i) % 256 for i in range(173))),
    4: (bytes(32), bytes((0x66 + 5 * i) % 256 for i in range(61))),
    5: (bytes((0x32 + 9 * i) % 256 for i in range(32)), bytes((0x77 + 7 * i) % 256 for i in range(1200))),
}


def place(number):
    for of, fastpath, host, _ in BLOCKS:
        if number in fastpath or number in host:
            return of
    return None


# ---- Merkle paths (developer.bitcoin.org, "Merkle Trees"; a row of odd length ends with its last node twice) ----

def sha256d(data):
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


def row_of(number):
    return next([*fastpath, *host] for _, fastpath, host, _ in BLOCKS if number in fastpath or number in host)


def path_of(number):
    """Number of transactions, index and path of a transaction in its block."""
    row = row_of(number)
    index = row.index(number)
    return len(row), index, path_in([txid(number) for number in row], index)


def path_in(row, at):
    path = []
    while len(row) > 1:
        row += row[-1:] * (len(row) % 2)
        path.append(row[at ^ 1])
        row = [sha256d(row[i] + row[i + 1]) for i in range(0, len(row), 2)]
        at >>= 1
    return path


# ---- native payloads ----

def root_request(number, body=None, **head):
    body = (number if isinstance(number, bytes) else txid(number)) + bytes(72) if body is None else body
    head.setdefault("body_bytes", len(body))
    return header(head.pop("op", 1), **head) + body


def root_reply(number):
    of = place(number)
    found = (of["root"], of["hash"], of["height"]) if of else (ZERO, ZERO, 0)
    body = found[0] + found[1] + TIP["hash"] + struct.pack(">II", found[2], TIP["height"])
    return header(0x81, len(body), status=0 if of else 1) + body


def item(number):
    return (number if isinstance(number, bytes) else txid(number)) + bytes(40)


def roots_request(numbers, count=None, head=bytes(36), body=None, **native):
    count = len(numbers) if count is None else count
    body = head + struct.pack(">I", count) + b"".join(map(item, numbers)) if body is None else body
    native.setdefault("body_bytes", len(body))
    return header(2, **native) + body


def roots_reply(numbers):
    body = TIP["hash"] + struct.pack(">II", TIP["height"], len(numbers))
    for number in numbers:
        of = place(number) if isinstance(number, int) else None
        if of:
            body += of["root"] + of["hash"] + struct.pack(">II", of["height"], 0)
        else:
            body += ZERO + ZERO + struct.pack(">II", 0, 1)
    return header(0x82, len(body)) + body


NOISE = bytes((0xA5 + 17 * i) % 256 for i in range(1200))


def proof_request(number, room, filled=True, body_bytes=None):
    head = number if isinstance(number, bytes) else txid(number)
    size = 136 + 32 * room if body_bytes is None else body_bytes
    body = (head + (NOISE if filled else bytes(1200)))[:size]
    return header(3, len(body)) + body


def proof_reply(number, room):
    of, tail = place(number), TIP["hash"] + struct.pack(">II", TIP["height"], 0)
    if not of:
        return header(0x83, 136 + 32 * room, status=1) + bytes(96) + tail + bytes(32 * room)
    count, index, path = path_of(number)
    if len(path) > room:
        body = bytes(84) + struct.pack(">III", count, 0, len(path)) + bytes(40 + 32 * room)
        return header(0x83, len(body), status=TOO_LONG) + body
    body = of["header"] + struct.pack(">IIII", of["height"], count, index, len(path)) + tail
    body += b"".join(path) + bytes(32 * (room - len(path)))
    return header(0x83, len(body)) + body


def witness_request(number, room, filled=True, body_bytes=None, op=5):
    """By TXID, and with `op` 6 by WTXID."""
    head = number if isinstance(number, bytes) else (txid if op == 5 else wtxid)(number)
    size = 200 + room if body_bytes is None else body_bytes
    body = (head + (NOISE + NOISE if filled else bytes(2400)))[:size]
    return header(op, len(body)) + body


def witness_reply(number, room, kept=True, op=5):
    of, size = place(number), 200 + room
    code = 0x80 | op
    tip = TIP["hash"] + struct.pack(">I", TIP["height"])
    index = next((index for index, (block, *_) in enumerate(BLOCKS) if block is of), None)
    is_found = of and (op == 5 or index in WITNESSES and row_of(number)[0] != number)
    if not kept or not is_found or index not in WITNESSES:
        status = NOT_KEPT if not kept else NO_COMMITMENT if is_found else 1
        return header(code, size, status=status) + bytes(96) + tip + bytes(68 + room)
    reserved, coinbase = WITNESSES[index]
    row = row_of(number)
    at = row.index(number)
    leaves = [ZERO] + [wtxid(number) for number in row[1:]]
    path, spine = path_in(list(leaves), at), path_in([txid(number) for number in row], 0)
    if 64 * len(path) + len(coinbase) > room:
        body = bytes(84) + struct.pack(">III", len(row), 0, len(path)) + bytes(36) + struct.pack(">I", len(coinbase))
        return header(code, size, status=TOO_LONG) + body + bytes(64 + room)
    body = of["header"] + struct.pack(">IIII", of["height"], len(row), at, len(path)) + tip
    body += struct.pack(">I", len(coinbase)) + leaves[at] + reserved + b"".join(path) + b"".join(spine) + coinbase
    return header(code, size) + body + bytes(size - len(body))


def headers_request(start, count, room, body_bytes=None):
    size = 48 + 80 * room if body_bytes is None else body_bytes
    body = (struct.pack(">II", start, count) + NOISE)[:size]
    return header(4, len(body)) + body


def headers_reply(start, count, room):
    by_height = {of["height"]: of["header"] for of, *_ in BLOCKS if of["height"] != 0xFFFFFFFF}
    found = []
    while len(found) < count and start + len(found) in by_height:
        found.append(by_height[start + len(found)])
    body = TIP["hash"] + struct.pack(">IIII", TIP["height"], start, len(found), 0)
    body += b"".join(found) + bytes(80 * (room - len(found)))
    return header(0x84, len(body)) + body


# ---- files of vectors ----

class File:
    def __init__(self, name, about, lease="valid", chain="at rest", paper_format=True, loopback=False):
        self.name, self.about, self.vectors, self.has_witness = name, about, [], False
        self.state = {"lease": lease, "chain": chain, "paper_format": paper_format, "loopback": loopback}

    def hit(self, what, request, reply, host=True, trailer=b"", **how):
        head = headers(request, **how)
        self.add(what, head, request, "reply", "hits", turned(head, reply), reply, "reply" if host else None, trailer)

    def forward(self, what, request, counts=None, reply=None, host=None, trailer=b"", head=None, **how):
        head = headers(request, **how) if head is None else head
        host = "reply" if reply is not None else host
        self.add(what, head, request, "forward", counts, None, reply, host, trailer)

    def drop(self, what, request, reason, host=False, **how):
        self.add(what, headers(request, **how), request, f"drop {reason}", None, None, None,
                 f"drop {reason}" if host else None, b"")

    def add(self, what, head, request, fastpath, counts, reply_headers, reply, host, trailer):
        lines = ["", "[[vector]]", f'what = "{what}"', parts("headers", head), hexes("request", request)]
        if trailer:
            lines.append(hexes("trailer", trailer))
        lines.append(f'fastpath = "{fastpath}"')
        if counts:
            lines.append(f'counts = "{counts}"')
        if reply_headers:
            lines.append(parts("reply_headers", reply_headers))
        if reply is not None:
            lines.append(hexes("reply", reply))
        if host:
            lines.append(f'host = "{host}"')
        self.vectors.append("\n".join(lines))

    def text(self):
        mac = bytes(6) if self.state["loopback"] else OWN_MAC
        out = [f"# {self.about}", "# Written by vectors/make.py from docs/wire-formats.md; what the keys mean: "
               "vectors/README.md.", "", "[state]"]
        out += [f"{key} = {str(value).lower() if isinstance(value, bool) else quoted(value)}"
                for key, value in self.state.items()]
        out += ["", "[endpoint]", f'mac = "{mac.hex()}"', f'addresses = ["{OWN4}", "{OWN6}"]',
                'broadcast = "10.0.0.255"', "", "[tip]", f'hash = "{TIP["hash"].hex()}"', f"height = {TIP['height']}"]
        for number, (of, fastpath, host, tree) in enumerate(BLOCKS):
            out += ["", "[[block]]", f'hash = "{of["hash"].hex()}"', f'root = "{of["root"].hex()}"',
                    f"height = {of['height']}", hexes("header", of["header"]), f"tree = {str(tree).lower()}", listed("fastpath", fastpath), listed("host", host)]
            if self.has_witness and number in WITNESSES:
                leaves = [wtxid(number) for number in [*fastpath, *host][1:]]
                out += [listed_ids("wtxids", [ZERO, *leaves]),
                        hexes("reserved", WITNESSES[number][0]), hexes("coinbase", WITNESSES[number][1])]
        return "\n".join(out + self.vectors) + "\n"


def listed(key, numbers):
    return listed_ids(key, [txid(number) for number in numbers])


def listed_ids(key, ids):
    lines = [f'    "{ident.hex()}",' for ident in ids]
    return f"{key} = []" if not lines else "\n".join([f"{key} = [", *lines, "]"])

PAPER_UNKNOWN = ZERO
HIT, ROOT0 = txid(1), BLOCKS[0][0]["root"]


def payloads():
    """What a payload is answered with, by the fast path and by the host alone."""
    file = File("payloads", "What a payload is answered with: by the fast path, and by the host alone.")
    for v6 in (False, True):
        family = "IPv6" if v6 else "IPv4"
        file.hit(f"paper, cached, {family}", HIT, ROOT0, v6=v6)
        file.forward(f"paper, not cached: the host knows it, {family}", txid(21), "misses", BLOCKS[2][0]["root"], v6=v6)
        file.forward(f"paper, unknown: 32 zero bytes from the host, {family}", txid(UNKNOWN), "misses", PAPER_UNKNOWN,
                     v6=v6)
        file.drop(f"paper, TXID all zero: the reply unknown is not a request, {family}", ZERO, "not_a_request", True,
                  v6=v6)
        file.hit(f"root, cached, {family}", root_request(2), root_reply(2), v6=v6)
        file.hit(f"roots, one cached, {family}", roots_request([3]), roots_reply([3]), v6=v6)
    file.hit("paper, cached, block at no known height", txid(17), BLOCKS[1][0]["root"])
    almost = HIT[:31] + b"\0"
    file.forward("paper, a TXID that differs from a cached one in its last byte", almost, "misses", PAPER_UNKNOWN)
    native_32 = root_request(b"", body=HIT[:16])
    file.forward("32 bytes with the native magic are a TXID: length decides first", native_32, "misses", PAPER_UNKNOWN)
    for size in (0, 1, 15, 16, 31, 33, 64, 120, 512):
        request = (HIT * 16)[:size]
        file.drop(f"{size} bytes without magic are no request", request, "not_a_request", True)
    file.drop("native header cut to 15 bytes", header(1, 104)[:15], "not_a_request", True)

    file.hit("root, block at no known height", root_request(18), root_reply(18))
    file.hit("root, request id all ones", root_request(2, ident=2**64 - 1),
             header(0x81, 104, ident=2**64 - 1) + root_reply(2)[16:])
    file.forward("root, not cached: the host knows it", root_request(22), "misses", root_reply(22))
    file.forward("root, unknown", root_request(UNKNOWN), "misses", root_reply(UNKNOWN))
    file.forward("root, TXID all zero is unknown", root_request(ZERO), "misses", root_reply(UNKNOWN))

    def refused(what, request, status=BAD_REQUEST):
        file.forward(what, request, "forwarded_native", refusal(request, status))

    refused("root, header alone", header(1, 0))
    refused("root, not padded to its reply", root_request(2, body=txid(2)))
    refused("root, one byte too short", root_request(2, body=txid(2) + bytes(71)))
    refused("root, one byte too long", root_request(2, body=txid(2) + bytes(73)))
    for at in (32, 63, 64, 95, 96, 99, 100, 103):
        body = bytearray(txid(2) + bytes(72))
        body[at] = 1
        refused(f"root, padding not zero at byte {at} of the body", root_request(2, body=bytes(body)))
    refused("root, length says one byte less than there is", root_request(2, body_bytes=103))
    refused("root, length says one byte more than there is", root_request(2, body_bytes=105))
    refused("root, length 0", root_request(2, body_bytes=0))
    refused("root, length 65535", root_request(2, body_bytes=65535))
    refused("root, a status in a request", root_request(2, status=1))
    refused("operation 0", root_request(2, op=0))
    refused("operation 6, which is not known", root_request(2, op=6))
    refused("operation 127, which is not known", root_request(2, op=127))
    for version in (0, 2, 255):
        refused(f"version {version}", root_request(2, version=version), UNSUPPORTED)
    refused("version 2, and a wrong length: the version decides first", root_request(2, version=2, body_bytes=7),
            UNSUPPORTED)
    for magic in (0x4C54, 0x4D53, 0x534C):
        file.drop(f"magic {magic:04x}", root_request(2, magic=magic), "not_a_request", True)
    for op in (0x81, 0x82, 0x83, 0x84, 0x85, 0x80, 0xFF):
        file.drop(f"reply bit in a request: operation {op:02x}", root_request(2, op=op), "reply_bit", True)
    file.drop("reply bit decides before the version", root_request(2, op=0x81, version=9), "reply_bit", True)
    file.drop("a whole reply of ours", root_reply(2), "reply_bit", True)
    file.drop("a refusal of ours", refusal(root_request(2), BAD_REQUEST), "reply_bit", True)

    file.hit("roots, two of one block", roots_request([1, 2]), roots_reply([1, 2]))
    file.hit("roots, the same TXID twice", roots_request([1, 1]), roots_reply([1, 1]))
    file.hit("roots, of two blocks", roots_request([18, 1, 17]), roots_reply([18, 1, 17]))
    file.hit("roots, 16 cached", roots_request(range(1, 17)), roots_reply(range(1, 17)))
    some = [1, 21, 2]
    file.forward("roots, one of three not cached: all is the host's", roots_request(some), "misses", roots_reply(some))
    some = [1, UNKNOWN, 17]
    file.forward("roots, one of three unknown", roots_request(some), "misses", roots_reply(some))
    some = list(range(2, 17)) + [22]
    file.forward("roots, the last of 16 not cached", roots_request(some), "misses", roots_reply(some))
    file.forward("roots, none known", roots_request([31, 32]), "misses", roots_reply([31, 32]))
    file.forward("roots, TXID all zero is unknown", roots_request([1, ZERO]), "misses", roots_reply([1, ZERO]))
    refused("roots, 17 items", roots_request(range(1, 18)))
    refused("roots, no item", roots_request([]))
    refused("roots, count one less than the items", roots_request([1, 2], count=1))
    refused("roots, count one more than the items", roots_request([1, 2], count=3))
    refused("roots, count 0xffffffff", roots_request([1], count=2**32 - 1))
    refused("roots, count of 2^31 + 1", roots_request([1], count=2**31 + 1))
    refused("roots, half an item", roots_request([], body=bytes(36) + struct.pack(">I", 1) + item(1)[:36]))
    refused("roots, one byte behind the items", roots_request([], body=bytes(36) + struct.pack(">I", 1) + item(1) + b"\0"))
    refused("roots, head cut", roots_request([], body=bytes(36)))
    refused("roots, header alone", header(2, 0))
    for at in (0, 31, 32, 35):
        head = bytearray(36)
        head[at] = 0x80
        refused(f"roots, head not zero at byte {at}", roots_request([1], head=bytes(head)))
    for at in (32, 63, 64, 71):
        second = bytearray(item(2))
        second[at] = 1
        body = bytes(36) + struct.pack(">I", 2) + item(1) + bytes(second)
        refused(f"roots, padding of the second item not zero at byte {at}", roots_request([], body=body))
    return file


def proofs():
    """What `proof` and `headers` are answered with."""
    file = File("proofs", "Merkle paths and headers: what the fast path gives, and what the host alone.")
    for v6 in (False, True):
        family = "IPv6" if v6 else "IPv4"
        file.hit(f"proof, 16 transactions, {family}", proof_request(7, 12), proof_reply(7, 12), v6=v6)
        file.forward(f"proof, unknown, {family}", proof_request(UNKNOWN, 12), "misses", proof_reply(UNKNOWN, 12), v6=v6)
    for room in range(4, 15):
        file.hit(f"proof, path of 4, room for {room}", proof_request(3, room), proof_reply(3, room))
    for room in range(4):
        file.forward(f"proof, path of 4, room for {room}: too long", proof_request(3, room), "forwarded_native",
                     proof_reply(3, room))
    for number in (1, 2, 16):
        file.hit(f"proof, 16 transactions, index {number - 1}", proof_request(number, 4), proof_reply(number, 4))
    for number in range(40, 51):
        file.hit(f"proof, 13 transactions, index {number - 40}", proof_request(number, 5), proof_reply(number, 5))
    for number in (51, 52):
        file.forward(f"proof, 13 transactions, index {number - 40}: its line is not cached", proof_request(number, 5),
                     "misses", proof_reply(number, 5))
    for number in (17, 18):
        file.hit(f"proof, 2 transactions, no known height, index {number - 17}", proof_request(number, 1),
                 proof_reply(number, 1))
    file.hit("proof, one transaction: no path, no room", proof_request(55, 0), proof_reply(55, 0))
    file.hit("proof, one transaction: no path, room for 14", proof_request(55, 14), proof_reply(55, 14))
    file.forward("proof, one transaction that is the root: never at the line", proof_request(60, 0), "misses",
                 proof_reply(60, 0))
    for number in (56, 57, 58):
        file.forward(f"proof, block without a tree, 3 transactions, index {number - 56}", proof_request(number, 2),
                     "misses", proof_reply(number, 2))
    file.forward("proof, block without a tree, room for 1: a miss before it is too long", proof_request(57, 1),
                 "misses", proof_reply(57, 1))
    file.forward("proof, not cached: the host knows it", proof_request(22, 3), "misses", proof_reply(22, 3))
    file.forward("proof, TXID all zero is unknown", proof_request(ZERO, 0), "misses", proof_reply(UNKNOWN, 0))
    file.forward("proof, unknown, room for 14", proof_request(31, 14), "misses", proof_reply(31, 14))
    file.hit("proof, padded with zeros", proof_request(9, 6, filled=False), proof_reply(9, 6))
    file.hit("proof, path of 4, 0 hops in the request", proof_request(5, 4), proof_reply(5, 4), False, ttl=0)
    vlan = bytes.fromhex("81002007")
    file.hit("proof, VLAN tag", proof_request(5, 11), proof_reply(5, 11), False, tags=vlan)
    file.hit("proof, Ethernet padding stays", proof_request(5, 4), proof_reply(5, 4), False, trailer=b"\0\xff\x55")

    def refused(what, request, status=BAD_REQUEST):
        file.forward(what, request, "forwarded_native", refusal(request, status))

    for size in (0, 32, 135, 137, 152, 167, 169, 199, 136 + 32 * 14 - 1, 136 + 32 * 14 + 1, 136 + 32 * 15, 1160):
        refused(f"proof, {size} bytes after the header", proof_request(7, 0, body_bytes=size))
    good = proof_request(7, 12)
    refused("proof, length says 32 bytes less than there are", good[:6] + struct.pack(">H", 136 + 32 * 11) + good[8:])
    refused("proof, a status in a request", good[:4] + b"\0\x0e" + good[6:])
    refused("proof, version 2", good[:2] + b"\x02" + good[3:], UNSUPPORTED)
    file.drop("a whole reply to proof", proof_reply(7, 12), "reply_bit", True)

    def headers_of(what, start, count, room):
        file.forward(f"headers, {what}", headers_request(start, count, room), "forwarded_native",
                     headers_reply(start, count, room))

    headers_of("one", 0x01020304, 1, 1)
    headers_of("three of three", 0x01020300, 3, 3)
    headers_of("two, with room for 14", 0x01020301, 2, 14)
    headers_of("14: the chain ends before", 0x01020302, 14, 14)
    headers_of("above the tip: none", 0x01020307, 4, 4)
    headers_of("height 0, which is not here", 0, 1, 1)
    headers_of("height 0xffffffff is none", 2**32 - 1, 2, 2)
    refused("headers, none asked for", headers_request(0x01020300, 0, 2))
    refused("headers, more than there is room for", headers_request(0x01020300, 3, 2))
    refused("headers, 2^32 - 1 of them", headers_request(0x01020300, 2**32 - 1, 14))
    for size in (0, 8, 47, 48, 127, 129, 48 + 80 * 15):
        refused(f"headers, {size} bytes after the header", headers_request(0x01020300, 1, 0, body_bytes=size))
    file.drop("a whole reply to headers", headers_reply(0x01020300, 1, 1), "reply_bit", True)
    for number in (7, UNKNOWN):
        file.forward(f"witness proof from a chain without witness data, {number}", witness_request(number, 700),
                     "forwarded_native", witness_reply(number, 700, kept=False))
        file.forward(f"WTXID proof from a chain without witness data, {number}", witness_request(number, 700, op=6),
                     "forwarded_native", witness_reply(number, 700, kept=False, op=6))
    return file


def witnesses():
    """What `witness_proof` and `wtxid_proof` are answered with by a chain that keeps witness data."""
    file = File("witnesses", "Witness proofs: always the host's, from a chain that keeps witness data.")
    file.has_witness = True

    def asked(what, number, room, **how):
        file.forward(f"witness proof, {what}", witness_request(number, room), "forwarded_native",
                     witness_reply(number, room), **how)

    for v6 in (False, True):
        asked(f"13 transactions, {'IPv6' if v6 else 'IPv4'}", 44, 1236, v6=v6)
    for number in (*range(40, 51), 51, 52):
        asked(f"13 transactions, index {number - 40}", number, 64 * 4 + 173)
    for room in (0, 1, 64 * 4, 64 * 4 + 172):
        asked(f"13 transactions, room for {room} bytes: too long", 45, room)
    for room in (64 * 4 + 173, 64 * 4 + 174, 500, 1235, 1236):
        asked(f"13 transactions, room for {room} bytes", 45, room)
    for room in (61, 62, 1000):
        asked(f"one transaction: its coinbase, no path, room for {room} bytes", 55, room)
    asked("one transaction, too long by a byte", 55, 60)
    for number in (56, 57, 58):
        asked(f"3 transactions, a coinbase that no packet holds, index {number - 56}", number, 1236)
    asked("of a block without a commitment", 7, 700)
    asked("of a block without a commitment, no room", 7, 0)
    asked("of a block without a commitment that only the host has", 22, 700)
    asked("unknown", UNKNOWN, 700)
    file.forward("witness proof, TXID all zero is unknown", witness_request(ZERO, 3), "forwarded_native",
                 witness_reply(UNKNOWN, 3))
    file.forward("witness proof, padded with zeros", witness_request(46, 600, filled=False), "forwarded_native",
                 witness_reply(46, 600))

    def refused(what, request, status=BAD_REQUEST):
        file.forward(what, request, "forwarded_native", refusal(request, status))

    for size in (0, 32, 168, 199):
        refused(f"witness proof, {size} bytes after the header", witness_request(45, 0, body_bytes=size))
    good = witness_request(45, 600)
    refused("witness proof, length says one byte less than there is", good[:6] + struct.pack(">H", 799) + good[8:])
    refused("witness proof, length says one byte more than there is", good[:6] + struct.pack(">H", 801) + good[8:])
    refused("witness proof, a status in a request", good[:4] + b"\0\x0f" + good[6:])
    refused("witness proof, version 2", good[:2] + b"\x02" + good[3:], UNSUPPORTED)
    file.drop("a whole reply to witness proof", witness_reply(45, 600), "reply_bit", True)
    # Longer than the host reads: the fast path leaves it alone, and no datapath answers it.
    file.forward("witness proof, room for 1,237 bytes", witness_request(45, 1237), "forwarded_native")
    file.forward("witness proof, 1,472 bytes in all", witness_request(45, 1472 - 216), "forwarded_native")

    def by_wtxid(what, number, room, **how):
        file.forward(f"WTXID proof, {what}", witness_request(number, room, op=6, **how), "forwarded_native",
                     witness_reply(UNKNOWN if isinstance(number, bytes) else number, room, op=6))

    for number in range(41, 53):
        by_wtxid(f"13 transactions, index {number - 40}", number, 64 * 4 + 173)
    for room in (0, 64 * 4 + 172, 64 * 4 + 174, 1236):
        by_wtxid(f"13 transactions, room for {room} bytes", 45, room)
    by_wtxid("padded with zeros", 46, 600, filled=False)
    by_wtxid("a coinbase that no packet holds", 57, 1236)
    by_wtxid("of a coinbase: unknown, because each coinbase has the WTXID zero", 40, 700)
    by_wtxid("all zero: unknown", ZERO, 700)
    by_wtxid("the TXID of a transaction with another WTXID: unknown", txid(45), 700)
    by_wtxid("of a block without a commitment: unknown", 7, 700)
    by_wtxid("unknown", UNKNOWN, 700)
    for size in (0, 32, 168, 199):
        refused(f"WTXID proof, {size} bytes after the header", witness_request(45, 0, body_bytes=size, op=6))
    file.drop("a whole reply to WTXID proof", witness_reply(45, 600, op=6), "reply_bit", True)
    file.forward("WTXID proof, room for 1,237 bytes", witness_request(45, 1237, op=6), "forwarded_native")
    return file


def frames():
    """What the fast path does with the frame around a request that it could answer."""
    file = File("frames", "What becomes of frames around a request that the fast path could answer.")
    file.hit("no reply but TTL and checksums changes: TOS, id, TTL 2", HIT, ROOT0, False, ttl=2, tos=0xB8, ident=0xBEEF)
    for v6, name in ((False, "ttl"), (True, "hops")):
        family = "IPv6" if v6 else "IPv4"
        for left in (0, 1):
            file.forward(f"paper format, no hop left for the reply: {left}, {family}", HIT, v6=v6, **{name: left})
        for left in (2, 64, 65):
            file.hit(f"paper format, the reply has a hop less, at most 64: {left}, {family}", HIT, ROOT0, False, v6=v6,
                     **{name: left})
        for left in (0, 1, 255):
            file.hit(f"native format, the reply has 64 hops, not {left}, {family}", root_request(2), root_reply(2), False, v6=v6,
                     **{name: left})
    file.hit("TTL 255, may be fragmented on its way", HIT, ROOT0, False, ttl=255, flags=0)
    file.hit("reserved bit of the fragment word: no fragment", HIT, ROOT0, False, flags=0x8000)
    file.hit("IPv6, traffic class and flow label stay", HIT, ROOT0, False, v6=True, first=0x6B812345, hops=3)
    file.hit("Ethernet padding stays behind the reply", HIT, ROOT0, False, trailer=bytes.fromhex("00ff00ff00ff"))
    file.hit("a broken IPv4 header checksum goes out broken", HIT, ROOT0, False, ttl=9, wrong=0x0100)
    file.hit("UDP checksum 0, IPv4: none was computed", HIT, ROOT0, False, check=0)
    file.hit("UDP checksum 0, IPv6: only a read, and the reply's is computed", HIT, ROOT0, False, v6=True, check=0)
    file.hit("UDP checksum wrong: only a read, and the reply's is right", HIT, ROOT0, False, check=0x1234)
    zero = next(port for port in range(1024, 65536)
                if udp(OWN4, PEER4, SPV, port, ROOT0)[6:] == b"\xff\xff" and not SPV <= port <= 7705)
    file.hit("a reply's UDP checksum that comes out 0 is sent as ffff", HIT, ROOT0, False, sport=zero)
    vlan, qinq = bytes.fromhex("81002007"), bytes.fromhex("88a80fff")
    for v6 in (False, True):
        family = "IPv6" if v6 else "IPv4"
        file.hit(f"VLAN tag, {family}", HIT, ROOT0, False, tags=vlan, v6=v6)
        file.hit(f"service VLAN tag, {family}", HIT, ROOT0, False, tags=qinq, v6=v6)
        file.forward(f"two VLAN tags, {family}", HIT, tags=qinq + vlan, v6=v6)
        file.forward(f"port 53, {family}", HIT, dport=53, v6=v6)
        file.forward(f"port 7702: no service of ours stands there, {family}", HIT, dport=7702, v6=v6)
        file.forward(f"another's MAC, {family}", HIT, eth_destination=PEER_MAC, v6=v6)
        file.forward(f"broadcast MAC, {family}", HIT, eth_destination=b"\xff" * 6, v6=v6)
        file.drop(f"sent from a group's MAC, {family}", HIT, "source_address", eth_source=b"\x01\0\x5e\0\0\x01", v6=v6)
        file.drop(f"source port 0, {family}", HIT, "source_port", sport=0, v6=v6)
        for port in (7701, 7702, 7705):
            file.drop(f"source port {port} is a Lineside service's, {family}", HIT, "source_port", sport=port, v6=v6)
        for port in (7700, 7706):
            file.hit(f"source port {port} is no service's, {family}", HIT, ROOT0, False, sport=port, v6=v6)
        file.forward(f"UDP length one less than IP says, {family}", HIT, v6=v6, udp_length=39)
        file.forward(f"UDP length one more than IP says, {family}", HIT, v6=v6, udp_length=41)
        file.forward(f"UDP and IP length 7: less than a UDP header, {family}", HIT, v6=v6, udp_length=7, ip_length=7)
        file.forward(f"UDP and IP length longer than the frame, {family}", HIT, v6=v6, udp_length=41, ip_length=41)
        whole = b"".join(headers(HIT, v6=v6)) + HIT
        for size in (14, 17, 18, 33, 34, 41, 42, 53, 54, 61, 62, len(whole) - 1):
            cut = whole[:size]
            if size < len(whole):
                file.forward(f"frame cut to {size} bytes, {family}", b"", head=[cut[:14], cut[14:54], cut[54:]])
        file.drop(f"a wrong payload is a source's fault only after its address, {family}", b"", "source_port", sport=0,
                  v6=v6)
    for source, whose in (("0.0.0.0", "nobody"), ("224.0.0.1", "a group"), ("239.255.255.255", "a group"),
                          ("255.255.255.255", "everybody"), ("10.0.0.255", "the subnet"), ("127.0.0.1", "loopback"),
                          (OWN4, "ourselves")):
        file.drop(f"source address {source}: {whose}", HIT, "source_address", source=source)
    for source, whose in (("::", "nobody"), ("ff02::1", "a group"), ("::1", "loopback"), (OWN6, "ourselves")):
        file.drop(f"source address {source}: {whose}", HIT, "source_address", v6=True, source=source)
    for source in ("223.255.255.255", "240.0.0.1", "10.0.0.254", "128.0.0.1"):
        file.hit(f"source address {source} is a host's", HIT, ROOT0, False, source=source)
    for source in ("fe80::9", "::ffff:10.0.0.9", "fd00::1"):
        file.hit(f"source address {source} is a host's", HIT, ROOT0, False, v6=True, source=source)
    file.forward("another's IPv4 address", HIT, destination=OTHER4)
    file.forward("the subnet's broadcast address", HIT, destination="10.0.0.255")
    file.forward("another's IPv6 address", HIT, v6=True, destination="fd00::3")
    file.forward("IPv4 options", HIT, options=bytes.fromhex("94040000"), first=0x46)
    file.forward("IPv4 header of 4 words", HIT, first=0x44)
    file.forward("IPv4 version 6", HIT, first=0x65)
    file.forward("first fragment", HIT, flags=0x2000)
    file.forward("last fragment", HIT, flags=0x0001)
    file.forward("middle fragment", HIT, flags=0x3FFF)
    file.forward("TCP", HIT, protocol=6)
    file.forward("UDP-Lite", HIT, protocol=136)
    file.forward("IPv4 total length 19: less than its header", HIT, ip_length=-1, udp_length=65535)
    file.forward("IPv6 hop-by-hop header", HIT, v6=True, following=0)
    file.forward("IPv6 fragment header", HIT, v6=True, following=44)
    file.forward("IPv6 with version 4", HIT, v6=True, first=0x40000000)
    file.forward("ARP", HIT, kind=0x0806)
    file.forward("IPv4 under IPv6's EtherType", HIT, kind=0x86DD)
    return file


def others():
    """The same requests in other states."""
    over = File("lease-over", "After the lease the fast path answers nothing, and the host everything.", lease="over")
    over.forward("paper, cached", HIT, "not_leased", ROOT0)
    over.forward("paper, unknown", txid(UNKNOWN), "not_leased", PAPER_UNKNOWN)
    over.forward("root, cached", root_request(2), "not_leased", root_reply(2))
    over.forward("roots, cached", roots_request([1, 17]), "not_leased", roots_reply([1, 17]))
    over.forward("proof, cached", proof_request(7, 12), "not_leased", proof_reply(7, 12))
    over.forward("headers are the host's", headers_request(0x01020304, 1, 1), "forwarded_native",
                 headers_reply(0x01020304, 1, 1))
    bad = root_request(2, op=9)
    over.forward("an unknown operation is the host's with and without lease", bad, "forwarded_native",
                 refusal(bad, BAD_REQUEST))
    over.drop("the reply bit is refused with and without lease", root_reply(2), "reply_bit", True)
    over.drop("no request is none with and without lease", HIT[:31], "not_a_request", True)

    # The host cannot be asked here: it holds the chain's lock.
    changing = File("chain-changing", "While the chain changes the fast path answers nothing.", chain="changing")
    changing.forward("paper, cached", HIT, "not_leased")
    changing.forward("root, cached", root_request(2), "not_leased")
    changing.forward("roots, cached", roots_request([1, 17]), "not_leased")
    changing.forward("proof, cached", proof_request(7, 12), "not_leased")

    refused = File("paper-refused", "With the paper's format switched off.", paper_format=False)
    refused.drop("paper, cached", HIT, "paper_refused", True)
    refused.drop("paper, unknown", txid(UNKNOWN), "paper_refused", True)
    refused.drop("paper, TXID all zero: no request, before any policy", ZERO, "not_a_request", True)
    refused.hit("root is answered", root_request(2), root_reply(2))

    lo = File("loopback", "On lo: own and loopback sources are answered there.", loopback=True)
    mac = {"eth_source": bytes(6), "eth_destination": bytes(6)}
    for source in (OWN4, "127.0.0.1", PEER4):
        lo.hit(f"source {source}", HIT, ROOT0, False, source=source, **mac)
    for source in (OWN6, "::1", PEER6):
        lo.hit(f"source {source}", HIT, ROOT0, False, v6=True, source=source, **mac)
    lo.drop("source port 7701, of a second server", HIT, "source_port", source=OWN4, sport=7701, **mac)
    lo.drop("source 0.0.0.0", HIT, "source_address", source="0.0.0.0", **mac)
    lo.drop("source ff02::1", HIT, "source_address", v6=True, source="ff02::1", **mac)
    return [over, changing, refused, lo]


def files():
    return [payloads(), proofs(), witnesses(), frames(), *others()]

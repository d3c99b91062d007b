"""vectors/hybrid: requests and their one encoding, and a ledger made of them, from docs/wire-formats.md."""
from hybrid_rules import K1, P256, keccak, map_root, sha256, tree_root

NOW_MS = 1_700_000_000_000
LATER_MS = NOW_MS + 30_000
SECRETS = {
    1: (K1, 0x1111111111111111111111111111111111111111111111111111111111111111),
    2: (K1, 0x2222222222222222222222222222222222222222222222222222222222222222),
    3: (P256, 0x3333333333333333333333333333333333333333333333333333333333333333),
}
NODE = (K1, 0x4444444444444444444444444444444444444444444444444444444444444444)
GET, RANGE, PROVE, HISTORY, HEAD, OUTCOME, WATCH, WRITE, CHANGE = 1, 2, 3, 4, 5, 6, 7, 16, 17
DONE, RECORDED, CONFLICT, MALFORMED, WRONG_DATABASE, UNKNOWN_MEMBER, REVOKED = 0, 1, 2, 3, 4, 5, 6
BAD_SIGNATURE, HIGH_S, NONCE_USED, EXPIRED, NOT_ALLOWED, BAD_CHANGE = 7, 8, 9, 10, 11, 12


def be(value, bytes_):
    return value.to_bytes(bytes_, "big")


def short(data):
    return be(len(data), 2) + data


def long(data):
    return be(len(data), 4) + data


def key_bytes(curve, secret):
    return bytes([curve.code]) + curve.public(secret)


# Changes, as genesis and requests have them.
def add_member(member, name, role, key):
    return b"\x01" + be(member, 8) + short(name) + bytes([role]) + key


def revoke_member(member):
    return b"\x02" + be(member, 8)


def add_key(member, number, key):
    return b"\x03" + be(member, 8) + be(number, 2) + key


def revoke_key(member, number):
    return b"\x04" + be(member, 8) + be(number, 2)


def set_rule(prefix, member, rights):
    return b"\x05" + short(prefix) + be(member, 8) + bytes([rights])


def add_node(node, key):
    return b"\x06" + be(node, 4) + key


def set_quorum(admins):
    return b"\x08" + be(admins, 2)


MEMBERS = [(1, b"ada", 1), (2, b"ben", 1), (3, b"cy", 0)]
FIRST = (
    [add_node(1, key_bytes(*NODE))]
    + [add_member(member, name, role, key_bytes(*SECRETS[member])) for member, name, role in MEMBERS]
    + [set_rule(b"", 0, 3), set_rule(b"own/", 1, 3), set_quorum(2)]
)
GENESIS = b"LShybrid\x01" + short(b"vectors") + be(NOW_MS - 1000, 8) + be(len(FIRST), 4) + b"".join(FIRST)
GENESIS_HASH = keccak(b"lineside/hybrid/genesis/1", GENESIS)
DATABASE = GENESIS_HASH[:16]


def signed_bytes(op, member, counter, body, key=0, lane=0, expiry_ms=LATER_MS, database=DATABASE, version=1):
    nonce = lane << 48 | counter
    head = bytes([version, op]) + be(key, 2) + database + be(member, 8) + be(nonce, 8) + be(expiry_ms, 8)
    return head + body


def signature(curve, secret, signed):
    return curve.sign(secret, curve.digest(b"lineside/hybrid/1", signed))


def write_body(reads, writes):
    out = be(len(reads), 2)
    for key, (block, index) in reads:
        out += short(key) + be(block, 8) + be(index, 4)
    out += be(len(writes), 2)
    for key, value in writes:
        out += short(key) + (b"\x01" if value is None else b"\x00" + long(value))
    return out


class File:
    def __init__(self, name, about, state):
        self.name, self.about, self.state, self.vectors = name, about, state, []

    def text(self):
        lines = [f"# {line}" for line in self.about]
        lines.append("# Written by vectors/make.py from docs/wire-formats.md; what the keys mean: vectors/README.md.")
        lines += [""] + [f"{key} = {shown(value)}" for key, value in self.state.items()]
        for vector in self.vectors:
            lines += ["", "[[vector]]"] + [f"{key} = {shown(value)}" for key, value in vector.items()]
        return "\n".join(lines) + "\n"


def shown(value):
    if isinstance(value, bytes):
        digits = value.hex()
        if len(digits) <= 100:
            return f'"{digits}"'
        lines = [digits[at:at + 110] for at in range(0, len(digits), 110)]
        return '"""\\\n' + "\\\n".join(lines) + '"""'
    return f'"{value}"' if isinstance(value, str) else str(value)


def requests():
    """Every operation, its bytes, its digest, its id and what a signer of RFC 6979 makes of it."""
    file = File("requests", ["Requests of every operation: bytes, digest, id, signature."], {"database": DATABASE})
    key, other = b"alpha", b"beta"
    change = lambda what: be(LATER_MS, 8) + what
    bodies = [
        ("get of one key", GET, b"\x00" + be(1, 2) + short(key)),
        ("get of two keys, linearizable", GET, b"\x01" + be(2, 2) + short(key) + short(other)),
        ("range", RANGE, b"\x00" + short(b"a") + short(b"b") + be(10, 4)),
        ("range of everything", RANGE, b"\x01" + short(b"") + short(b"") + be(1, 4)),
        ("prove", PROVE, short(key)),
        ("prove of the longest key", PROVE, short(b"k" * 1024)),
        ("history", HISTORY, short(key) + be(5, 4)),
        ("head", HEAD, b""),
        ("outcome", OUTCOME, bytes(range(32))),
        ("watch", WATCH, short(b"")),
        ("set whatever the key has", WRITE, write_body([], [(key, b"value")])),
        ("set of a key that has nothing", WRITE, write_body([(key, (0, 0))], [(key, b"value")])),
        ("set of a version", WRITE, write_body([(key, (7, 3))], [(key, b"")])),
        ("delete", WRITE, write_body([(key, (7, 3))], [(key, None)])),
        ("transaction", WRITE, write_body([(key, (1, 0)), (b"gamma", (0, 0))], [(key, b"1"), (other, None)])),
        ("add a member", CHANGE, change(add_member(9, b"nine", 0, key_bytes(*SECRETS[3])))),
        ("revoke a member", CHANGE, change(revoke_member(9))),
        ("add a key", CHANGE, change(add_key(9, 1, key_bytes(*SECRETS[1])))),
        ("revoke a key", CHANGE, change(revoke_key(9, 0))),
        ("set a rule", CHANGE, change(set_rule(b"own/", 9, 1))),
        ("add a node", CHANGE, change(add_node(9, key_bytes(*NODE)))),
        ("revoke a node", CHANGE, change(b"\x07" + be(9, 4))),
        ("set the quorum", CHANGE, change(set_quorum(3))),
    ]
    for what, op, body in bodies:
        for member, (curve, secret) in ((1, SECRETS[1]), (3, SECRETS[3])):
            signed = signed_bytes(op, member, 5, body, lane=2)
            file.vectors.append({
                "what": f"{what}, {'secp256k1' if curve is K1 else 'P-256'}",
                "secret": be(secret, 32),
                "curve": curve.code,
                "signed": signed,
                "digest": curve.digest(b"lineside/hybrid/1", signed),
                "id": keccak(b"lineside/hybrid/1", signed),
                "signature": signature(curve, secret, signed),
            })
    return file


def refused():
    """What is not the one encoding of any request."""
    file = File("refused", ["What is signed, but is not the one encoding of any request."], {"database": DATABASE})
    whole = signed_bytes(WRITE, 1, 5, write_body([(b"a", (1, 0))], [(b"a", b"v"), (b"b", None)]))
    add = lambda what, signed: file.vectors.append({"what": what, "signed": signed})
    for cut in (0, 1, 43, 44, len(whole) - 1):
        add(f"cut after {cut} bytes", whole[:cut])
    add("a byte behind the end", whole + b"\x00")
    add("another version", b"\x02" + whole[1:])
    add("no such operation", signed_bytes(99, 1, 5, b""))
    add("member 0", signed_bytes(HEAD, 0, 5, b""))
    write = lambda what, reads, writes: add(what, signed_bytes(WRITE, 1, 5, write_body(reads, writes)))
    write("nothing is written", [], [])
    write("an empty key", [], [(b"", b"v")])
    write("a key of 1,025 bytes", [], [(b"k" * 1025, b"v")])
    write("keys that fall", [], [(b"b", b"v"), (b"a", b"v")])
    write("a key twice", [], [(b"a", b"v"), (b"a", b"v")])
    write("a read twice", [(b"a", (1, 0)), (b"a", (1, 0))], [(b"a", b"v")])
    write("a version of no block", [(b"a", (0, 1))], [(b"a", b"v")])
    write("1,001 keys", [], [(be(key, 4), b"") for key in range(1001)])
    add("no such kind of write", signed_bytes(WRITE, 1, 5, be(0, 2) + be(1, 2) + short(b"a") + b"\x02"))
    add("a longer length", signed_bytes(WRITE, 1, 5, be(0, 2) + be(1, 2) + short(b"a") + b"\x00" + be(2, 4) + b"v"))
    add("get of nothing", signed_bytes(GET, 1, 5, b"\x00" + be(0, 2)))
    add("no such way to read", signed_bytes(GET, 1, 5, b"\x02" + be(1, 2) + short(b"a")))
    until = be(LATER_MS, 8)
    add("no such change", signed_bytes(CHANGE, 1, 5, until + b"\x09"))
    add("no such role", signed_bytes(CHANGE, 1, 5, until + add_member(9, b"n", 2, key_bytes(*NODE))))
    add("no such curve", signed_bytes(CHANGE, 1, 5, until + add_key(9, 1, b"\x03" + key_bytes(*NODE)[1:])))
    add("no such right", signed_bytes(CHANGE, 1, 5, until + set_rule(b"", 0, 4)))
    add("a name that is no ASCII", signed_bytes(CHANGE, 1, 5, until + add_member(9, b"\xc3", 0, key_bytes(*NODE))))
    add("a name of 65 bytes", signed_bytes(CHANGE, 1, 5, until + add_member(9, b"n" * 65, 0, key_bytes(*NODE))))
    return file


class Ledger:
    """The state as the documentation has it: a map of places and contents, and the chain of headers over it."""

    def __init__(self, genesis=GENESIS):
        # A life of a node begins to number its messages with its clock, times 2^16.
        genesis_hash = keccak(b"lineside/hybrid/genesis/1", genesis)
        self.database = genesis_hash[:16]
        self.map, self.number, self.position, self.sequence = {}, 0, 0, NOW_MS << 16
        self.put(b"o" + be(1, 4), key_bytes(*NODE) + b"\x00" + be(0, 8))
        for member, name, role in MEMBERS:
            self.member(member, name, role, 0, [(0, key_bytes(*SECRETS[member]), 0)])
        self.put(b"r", be(0, 8) + b"\x03")
        self.put(b"r" + b"own/", be(1, 8) + b"\x03")
        self.put(b"q", be(2, 2))
        self.paper = keccak(bytes(32), genesis_hash)
        self.close(0, NOW_MS - 1000, 0, 0, bytes(32), genesis_hash, sha256(), keccak(b""))

    def put(self, place, content):
        self.map[keccak(place)] = keccak(content)

    def value(self, key, version, value):
        block, index = version
        self.put(b"v" + key, be(block, 8) + be(index, 4) + value)

    def gone(self, place):
        del self.map[keccak(place)]

    def member(self, member, name, role, revoked, keys):
        listed = b"".join(be(number, 2) + key + bytes([revoked]) for number, key, revoked in keys)
        self.put(b"m" + be(member, 8), short(name) + bytes([role, revoked]) + listed)

    def close(self, position, time_ms, transactions, committed, previous, th, root, codes):
        header = self.database + be(self.number, 8) + be(position, 8) + be(time_ms, 8) + be(transactions, 4)
        header += be(committed, 4) + previous + th + root + codes + map_root(self.map) + self.paper
        self.hash = keccak(b"lineside/hybrid/block/1", header)

    def block(self, request, code, change=lambda ledger: None):
        """One request alone in a message, as a node makes it that is asked for one thing at a time."""
        self.number, self.position, self.sequence = self.number + 1, self.position + 1, self.sequence + 1
        message = b"\x01" + be(1, 4) + be(self.sequence, 8) + be(NOW_MS, 8) + be(0, 4) + be(1, 4) + long(request)
        self.put(b"o" + be(1, 4), key_bytes(*NODE) + b"\x00" + be(self.sequence, 8))
        change(self)
        th = keccak(message)
        curve, secret = NODE
        self.signature = curve.sign(secret, keccak(b"lineside/hybrid/message/1", self.database, th))
        self.paper = keccak(self.paper, th)
        committed = 1 if code in (DONE, RECORDED) else 0
        self.close(self.position, NOW_MS, 1, committed, self.hash, th, tree_root([request]), keccak(bytes([code])))


def ledger():
    """Requests one after the other, what becomes of each, and the hash of the newest block then."""
    secrets = {f"secret_{member}": be(secret, 32) for member, (_, secret) in SECRETS.items()}
    state = {"genesis": GENESIS, "now_ms": NOW_MS, "node_secret": be(NODE[1], 32), **secrets}
    file = File("ledger", ["Requests asked one at a time, their codes, and the newest block's hash after each."], state)
    ledger = Ledger()
    counters = {}

    def ask(what, member, op, body, code, change=None, by=None, edit=lambda request: request, **head):
        """With `change` it is ordered: a block, whose state that changes."""
        counter = head.pop("counter", None)
        if counter is None:
            counters[member] = counters.get(member, 0) + 1
            counter = counters[member]
        signed = signed_bytes(op, member, counter, body, **head)
        request = edit(signature(*(by or SECRETS[member]), signed) + signed)
        if change is not None:
            def changes(ledger):
                if code != NONCE_USED:
                    ledger.put(b"n" + be(member, 8) + be(head.get("lane", 0), 2), be(counter, 8))
                change(ledger)

            ledger.block(request, code, changes)
        version = ledger.number if change is not None else 0
        of_block = {"node_signature": ledger.signature} if version else {}
        file.vectors.append({
            "what": what, "request": request, "code": code, "block": version, "tip": ledger.hash, **of_block,
        })
        return request

    nothing = lambda ledger: None
    a, b, own = b"a", b"b", b"own/x"
    ask("set of a key that has nothing", 1, WRITE, write_body([(a, (0, 0))], [(a, b"1")]), DONE,
        lambda ledger: ledger.value(a, (1, 0), b"1"))
    ask("the same version again", 2, WRITE, write_body([(a, (0, 0))], [(a, b"2")]), CONFLICT, nothing)
    ask("a version that is yet to come", 2, WRITE, write_body([(a, (9, 0))], [(a, b"2")]), CONFLICT, nothing)
    ask("by P-256, of the right version", 3, WRITE, write_body([(a, (1, 0))], [(a, b"33"), (b, b"")]), DONE,
        lambda ledger: (ledger.value(a, (4, 0), b"33"), ledger.value(b, (4, 0), b"")))
    ask("a key of another's", 2, WRITE, write_body([], [(own, b"x")]), NOT_ALLOWED, nothing)
    ask("by its owner", 1, WRITE, write_body([], [(own, b"x")]), DONE,
        lambda ledger: ledger.value(own, (6, 0), b"x"))
    ask("delete", 2, WRITE, write_body([(b, (4, 0))], [(b, None)]), DONE, lambda ledger: ledger.gone(b"v" + b))
    ask("a nonce that was used", 2, WRITE, write_body([], [(b, b"again")]), NONCE_USED, nothing, counter=1)
    ask("signed by another", 2, WRITE, write_body([], [(b, b"x")]), BAD_SIGNATURE, by=SECRETS[1])
    high = lambda request: request[:32] + be(K1.n - int.from_bytes(request[32:64], "big"), 32) + request[64:]
    ask("a high s", 2, WRITE, write_body([], [(b, b"x")]), HIGH_S, edit=high)
    ask("of another database", 2, WRITE, write_body([], [(b, b"x")]), WRONG_DATABASE, database=bytes(16))
    ask("no such member", 9, WRITE, write_body([], [(b, b"x")]), UNKNOWN_MEMBER, by=SECRETS[1])
    ask("no such key of a member", 1, WRITE, write_body([], [(b, b"x")]), UNKNOWN_MEMBER, key=4)
    ask("too late", 1, WRITE, write_body([], [(b, b"x")]), EXPIRED, expiry_ms=NOW_MS - 1)
    ask("at the last moment", 1, WRITE, write_body([], [(b, b"x")]), DONE,
        lambda ledger: ledger.value(b, (ledger.number, 0), b"x"), expiry_ms=NOW_MS)
    rule = be(LATER_MS, 8) + set_rule(b"own/", 2, 1)
    name = keccak(rule)
    ask("no admin's vote", 3, CHANGE, rule, NOT_ALLOWED, nothing)
    ask("the first vote", 1, CHANGE, rule, RECORDED,
        lambda ledger: ledger.put(b"a" + name, be(LATER_MS, 8) + be(1, 8)))
    ask("the second one", 2, CHANGE, rule, DONE,
        lambda ledger: (ledger.gone(b"a" + name), ledger.put(b"rown/", be(1, 8) + b"\x03" + be(2, 8) + b"\x01")))
    fresh = (K1, 0x5555555555555555555555555555555555555555555555555555555555555555)
    until = be(LATER_MS, 8)
    keys = [(0, key_bytes(*SECRETS[3]), 0), (1, key_bytes(*fresh), 0)]
    ask("a key of one's own", 3, CHANGE, until + add_key(3, 1, key_bytes(*fresh)), DONE,
        lambda ledger: ledger.member(3, b"cy", 0, 0, keys))
    gone = [(0, key_bytes(*SECRETS[3]), 1), keys[1]]
    ask("the old one revoked", 3, CHANGE, until + revoke_key(3, 0), DONE,
        lambda ledger: ledger.member(3, b"cy", 0, 0, gone))
    ask("by the revoked key", 3, WRITE, write_body([], [(b, b"y")]), REVOKED)
    ask("by the new one", 3, WRITE, write_body([], [(b, b"y")]), DONE,
        lambda ledger: ledger.value(b, (ledger.number, 0), b"y"), by=fresh, key=1)
    ask("the last key is not revoked", 3, CHANGE, until + revoke_key(3, 1), BAD_CHANGE, nothing, by=fresh, key=1)
    ask("in another lane", 1, WRITE, write_body([], [(a, b"z" * 300)]), DONE,
        lambda ledger: ledger.value(a, (ledger.number, 0), b"z" * 300), lane=65535, counter=1)
    return file


def files():
    import hybrid_paper

    return [requests(), refused(), ledger(), *hybrid_paper.files()]

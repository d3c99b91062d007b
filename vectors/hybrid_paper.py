"""vectors/hybrid/paper.toml: a ledger of the paper's mode, from docs/hybrid-ledger.md, "The paper's mode"."""
import make_hybrid as native
from hybrid_rules import K1, keccak
from make_hybrid import DONE, MALFORMED, UNKNOWN_MEMBER, be, long, short

PAPER_GET, PAPER_SET, PAPER_VERIFY = 32, 33, 34
BAD_SIGNATURE, HIGH_S, NOT_ALLOWED, UNKNOWN, WRONG_MODE, OLD_VERSION = 7, 8, 11, 18, 20, 21

# The same members and rules; only the second number says that the mode is the paper's.
GENESIS = b"LShybrid\x02" + native.GENESIS[9:]


def uncompressed(curve, secret):
    x, y = curve.times(secret, curve.base)
    return b"\x04" + be(x, 32) + be(y, 32)


def fields(op, key, value=b"", version=0):
    """What stands behind key's length, and what is signed."""
    if op == PAPER_SET:
        return short(key) + long(value) + be(version, 8), key + value + str(version).encode()
    return short(key), key


def files():
    secrets = {f"secret_{member}": be(secret, 32) for member, (_, secret) in native.SECRETS.items()}
    state = {"genesis": GENESIS, "now_ms": native.NOW_MS, "node_secret": be(native.NODE[1], 32), **secrets}
    about = ["The paper's requests asked one at a time, their codes, and the newest block's hash after each."]
    file = native.File("paper", about, state)
    ledger = native.Ledger(GENESIS)

    def ask(what, secret, op, key, code, value=b"", version=0, change=None, edit=lambda s: s, signed=None, public=None):
        body, payload = fields(op, key, value, version)
        digest = keccak(payload if signed is None else signed)
        signature = edit(K1.sign(secret, digest))
        behind = b"\x02" + bytes([op]) + (public or uncompressed(K1, secret)) + body
        if change is not None:
            ledger.block(signature + behind, code, change)
        file.vectors.append({
            "what": what, "digest": digest, "request": signature + behind, "code": code,
            "block": ledger.number if change is not None else 0, "tip": ledger.hash,
        })

    def sets(key, stored, value):
        return lambda ledger: ledger.value(key, (ledger.number, 0), be(stored, 8) + value)

    nothing = lambda ledger: None
    (_, ada), (_, ben) = native.SECRETS[1], native.SECRETS[2]
    ask("set of a key that has nothing", ada, PAPER_SET, b"a", DONE, b"bc", 0, sets(b"a", 1, b"bc"))
    ask("the version that it has", ben, PAPER_SET, b"a", DONE, b"bc", 1, sets(b"a", 2, b"bc"))
    ask("the signature of (a, bc, 1) for (ab, c, 1)", ben, PAPER_SET, b"ab", DONE, b"c", 1, sets(b"ab", 2, b"c"),
        signed=b"abc1")
    ask("a version that was jumped to", ada, PAPER_SET, b"a", DONE, b"far", 41, sets(b"a", 42, b"far"))
    ask("the same version, which is below it now", ben, PAPER_SET, b"a", OLD_VERSION, b"late", 41, nothing)
    ask("get of a key that has nothing", ada, PAPER_GET, b"a23", DONE)
    ask("a signed get of ab57 for (ab, 5, 7)", ada, PAPER_SET, b"ab", DONE, b"5", 7, sets(b"ab", 8, b"5"),
        signed=b"ab57")
    ask("an empty value", ada, PAPER_SET, b"b", DONE, b"", 0, sets(b"b", 1, b""))
    ask("text beyond ASCII", ada, PAPER_SET, "é".encode(), DONE, "ß".encode(), 0, sets("é".encode(), 1, "ß".encode()))
    ask("get", ada, PAPER_GET, b"a", DONE)
    ask("verify", ada, PAPER_VERIFY, b"a", DONE)
    ask("verify of nothing", ada, PAPER_VERIFY, b"none", UNKNOWN)
    ask("a key of another's", ben, PAPER_SET, b"own/x", NOT_ALLOWED, b"x", 0, nothing)
    ask("by its owner", ada, PAPER_SET, b"own/x", DONE, b"x", 0, sets(b"own/x", 1, b"x"))
    ask("signed by another", ben, PAPER_SET, b"b", BAD_SIGNATURE, b"x", 1, public=uncompressed(K1, ada))
    ask("another value than was signed", ada, PAPER_SET, b"b", BAD_SIGNATURE, b"x", 1, signed=b"by1")
    high = lambda signature: signature[:32] + be(K1.n - int.from_bytes(signature[32:], "big"), 32)
    ask("a high s", ada, PAPER_SET, b"b", HIGH_S, b"x", 1, edit=high)
    ask("by nobody's key", 7, PAPER_SET, b"b", UNKNOWN_MEMBER, b"x", 1)
    x, y = K1.times(ada, K1.base)
    odd = b"\x04" + be(x, 32) + be((y + 2) % K1.p, 32)
    ask("a key that is no point", ada, PAPER_SET, b"b", UNKNOWN_MEMBER, b"x", 1, public=odd)
    ask("an empty key", ada, PAPER_SET, b"", MALFORMED, b"x", 1)
    ask("the highest version", ada, PAPER_SET, b"b", DONE, b"x", 2**63 - 2, sets(b"b", 2**63 - 1, b"x"))
    ask("a version above it", ada, PAPER_SET, b"b", MALFORMED, b"x", 2**63 - 1)
    ask("text that is not UTF-8", ada, PAPER_SET, b"b", MALFORMED, b"\xff", 1)
    ask("no such operation", ada, 35, b"b", MALFORMED)
    database = keccak(b"lineside/hybrid/genesis/1", GENESIS)[:16]
    head = lambda op, body: native.signed_bytes(op, 1, len(file.vectors), body, database=database)
    for what, op, body, code, change in (
        ("a native set", native.WRITE, native.write_body([], [(b"a", b"x")]), WRONG_MODE, None),
        ("a native get", native.GET, b"\x00" + be(1, 2) + short(b"a"), WRONG_MODE, None),
        ("a native range", native.RANGE, b"\x00" + short(b"") + short(b"") + be(1, 4), WRONG_MODE, None),
        ("a native history", native.HISTORY, short(b"a") + be(1, 4), WRONG_MODE, None),
        ("a native watch", native.WATCH, short(b""), WRONG_MODE, None),
        ("a native head", native.HEAD, b"", DONE, None),
        ("a native proof", native.PROVE, short(b"a"), DONE, None),
    ):
        signed = head(op, body)
        request = native.signature(K1, ada, signed) + signed
        file.vectors.append({"what": what, "request": request, "code": code, "block": 0, "tip": ledger.hash})
    rule = be(native.LATER_MS, 8) + native.set_rule(b"own/", 2, 1)
    counter = 1 << 20
    signed = native.signed_bytes(native.CHANGE, 1, counter, rule, database=database)
    request = native.signature(K1, ada, signed) + signed

    def voted(ledger):
        ledger.put(b"n" + be(1, 8) + be(0, 2), be(counter, 8))
        ledger.put(b"a" + keccak(rule), be(native.LATER_MS, 8) + be(1, 8))

    ledger.block(request, native.RECORDED, voted)
    file.vectors.append({
        "what": "a native change", "request": request, "code": native.RECORDED, "block": ledger.number,
        "tip": ledger.hash,
    })
    return [file]

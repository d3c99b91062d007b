"""Proofs, headers and difficulties, right and wrong: vectors/spv-proof/*.toml. From the formats of Bitcoin alone: hashlib,
whole numbers of Python, and rules as Bitcoin Core's pow.cpp, BIP94, BIP141 and btcd's difficulty.go state them."""
import hashlib
import random
import struct

LIMITS = {"mainnet": 0x1D00FFFF, "testnet3": 0x1D00FFFF, "testnet4": 0x1D00FFFF, "signet": 0x1E0377AE,
          "regtest": 0x207FFFFF, "simnet": 0x207FFFFF}
POW_LIMITS = {"mainnet": 2**224 - 1, "testnet3": 2**224 - 1, "testnet4": 2**224 - 1, "signet": 0x377AE << 216,
              "regtest": 2**255 - 1, "simnet": 2**255 - 1}
CODES = ["ok", "index out of range", "wrong depth", "impossible transaction count", "equal siblings",
         "missing duplicate", "inner node is transaction", "transaction of 64 bytes", "wrong root", "invalid target",
         "wrong proof of work", "malformed transaction", "not coinbase", "no witness commitment",
         "wrong witness commitment", "wrong coinbase wtxid"]
PERIOD, TWO_WEEKS = 2016, 14 * 24 * 3600
ZERO = bytes(32)


def sha256d(data):
    return hashlib.sha256(hashlib.sha256(data).digest()).digest()


# ---- headers ----

def target_of(bits):
    size, mantissa = bits >> 24, bits & 0x7FFFFF
    value = mantissa << 8 * (size - 3) if size > 3 else mantissa >> 8 * (3 - size)
    return None if bits & 0x800000 or value == 0 or value >= 2**256 else value


def bits_of(target):
    size = (target.bit_length() + 7) // 8
    mantissa = target >> 8 * (size - 3) if size > 3 else target << 8 * (3 - size)
    return (size + 1) << 24 | mantissa >> 8 if mantissa & 0x800000 else size << 24 | mantissa


def header(root, previous=ZERO, time=1_700_000_000, bits=0x207FFFFF, version=0x20000000, good=True):
    """A header whose hash is at most its target (good), or above it."""
    for nonce in range(2**32):
        raw = struct.pack("<i32s32sIII", version, previous, root, time, bits, nonce)
        if (int.from_bytes(sha256d(raw), "little") <= target_of(bits)) == good:
            return raw
    raise RuntimeError("no nonce")


def genesis(network):
    root = sha256d(bytes.fromhex(
        "01000000010000000000000000000000000000000000000000000000000000000000000000ffffffff4d04ffff001d0104455468652054"
        "696d65732030332f4a616e2f32303039204368616e63656c6c6f72206f6e206272696e6b206f66207365636f6e64206261696c6f757420"
        "666f722062616e6b73ffffffff0100f2052a01000000434104678afdb0fe5548271967f1a67130b7105cd6a828e03909a67962e0ea1f61"
        "deb649f6bc3f4cef38c4f35504e51ec112de5c384df7ba0b8d578a4c702b6bf11d5fac00000000"))
    if network == "testnet4":
        root = bytes.fromhex("7aa0a7ae1e223414cb807e40cd57e667b718e42aaf9306db9102fe28912b7b4e")[::-1]
    time, nonce = {"mainnet": (1231006505, 2083236893), "testnet3": (1296688602, 414098458),
                   "testnet4": (1714777860, 393743547), "signet": (1598918400, 52613770),
                   "regtest": (1296688602, 2), "simnet": (1401292357, 2)}[network]
    return struct.pack("<i32s32sIII", 1, ZERO, root, time, LIMITS[network], nonce), root


# ---- trees ----

def rows_of(leaves):
    rows = [leaves]
    while len(rows[-1]) > 1:
        row = rows[-1] + rows[-1][-1:] * (len(rows[-1]) % 2)
        rows.append([sha256d(row[i] + row[i + 1]) for i in range(0, len(row), 2)])
    return rows


def root_of(leaves):
    return rows_of(leaves)[-1][0]


def path_of(leaves, index):
    path = []
    for row in rows_of(leaves)[:-1]:
        path.append(row[min(index ^ 1, len(row) - 1)])
        index //= 2
    return path


def txids(count, seed=0):
    return [sha256d(struct.pack("<II", seed, i)) for i in range(count)]


# ---- transactions ----

def compact(number):
    return bytes([number]) if number < 0xFD else b"\xfd" + struct.pack("<H", number)


def transaction(script=b"\x51", outputs=((5, b"\x51"),), outpoint=(b"\x11" * 32, 0), version=2, lock_time=0):
    raw = struct.pack("<i", version) + b"\x01" + outpoint[0] + struct.pack("<I", outpoint[1])
    raw += compact(len(script)) + script + b"\xff" * 4 + compact(len(outputs))
    for value, output in outputs:
        raw += struct.pack("<Q", value) + compact(len(output)) + output
    return raw + struct.pack("<I", lock_time)


def with_witness(raw, item=b"\x07"):
    return raw[:4] + b"\0\1" + raw[4:-4] + b"\1" + compact(len(item)) + item + raw[-4:]


def coinbase(outputs, script=b"\x03\x15\xcd\x5b\x00"):
    return transaction(script, outputs, (ZERO, 0xFFFFFFFF))


def commitment(root, reserved=ZERO):
    return b"\x6a\x24\xaa\x21\xa9\xed" + sha256d(root + reserved)


# ---- files of vectors ----

class File:
    def __init__(self, name, about):
        self.name, self.about, self.vectors = name, about, []

    def add(self, what, **keys):
        lines = ["", "[[vector]]", f'what = "{what}"']
        for key, value in keys.items():
            lines.append(f"{key} = {written(value)}")
        self.vectors.append("\n".join(lines))

    def text(self):
        head = [f"# {self.about}", "# Written by vectors/make.py; what the keys mean: vectors/README.md."]
        return "\n".join(head + self.vectors) + "\n"


def written(value):
    if isinstance(value, bytes) and len(value) > 32:
        rows = [value[at:at + 32].hex() for at in range(0, len(value), 32)]
        return "\n".join(['"""', *rows, '"""'])
    if isinstance(value, bytes):
        return f'"{value.hex()}"'
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list) and value and isinstance(value[0], bytes):
        return "\n".join(["[", *(f'    "{item.hex()}",' for item in value), "]"])
    if isinstance(value, list):
        rows = [", ".join(map(str, value[at:at + 10])) for at in range(0, len(value), 10)]
        return "\n".join(["[", *(f"    {row}," for row in rows), "]"]) if rows else "[]"
    return str(value)


class Proofs(File):
    """Proofs by TXID. Each begins as a right one, and one thing in it is changed."""

    def proof(self, what, leaves, index, expect="ok", /, **change):
        keys = {"network": "regtest", "header": None, "height": 100, "transaction_count": len(leaves), "index": index,
                "path": path_of(leaves, index), "txid": leaves[index]}
        keys.update(change)
        if keys["header"] is None:
            keys["header"] = header(root_of(leaves))
        raw = keys.pop("raw", None)
        if raw is not None:
            keys["raw"] = raw
        self.add(what, **keys, expect=expect, code=CODES.index(expect))


def flipped(path, level, bit=0):
    path = list(path)
    path[level] = bytes([path[level][0] ^ 1 << bit]) + path[level][1:]
    return path


def good_proofs():
    file = Proofs("good", "Proofs by TXID that hold: every depth from 0 to 12, odd rows at every level.")
    counts = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 31, 33, 64, 65, 100, 127, 255, 257, 511, 513, 1000, 1025,
              2047, 2048, 2049, 4095, 4096]
    for count in counts:
        leaves = txids(count, count)
        raw = header(root_of(leaves))
        for index in sorted({0, 1, count // 2, count - 2, count - 1} & set(range(count))):
            file.proof(f"{index} of {count}", leaves, index, header=raw)
    for network in LIMITS:
        raw, root = genesis(network)
        file.proof(f"the genesis block of {network}", [root], 0, header=raw, height=0, network=network)
    file.proof("the bits of regtest on simnet", txids(5), 3, network="simnet")
    return file


def bad_shapes(file):
    leaves = txids(11, 7)
    path = path_of(leaves, 6)
    file.proof("index equal to the count", leaves, 10, "index out of range", index=11)
    file.proof("index 2^depth more: another position with the same path", leaves, 6, "index out of range", index=6 + 16)
    file.proof("index 2^31 more", leaves, 6, "index out of range", index=6 + 2**31)
    file.proof("index 1 of the only transaction", txids(1), 0, "index out of range", index=1)
    file.proof("another index below the count", leaves, 6, "wrong root", index=7)
    file.proof("one hash too few: an inner node passes for a transaction", leaves, 6, "wrong depth", path=path[1:],
               txid=rows_of(leaves)[1][3], index=3)
    file.proof("one hash too few, and the count that fits: still below the root", leaves, 6, "wrong root",
               path=path[:-1], transaction_count=8)
    file.proof("one hash too many", leaves, 6, "wrong depth", path=path + [ZERO])
    file.proof("no path", leaves, 6, "wrong depth", path=[])
    file.proof("33 hashes", leaves, 6, "wrong depth", path=[ZERO] * 33)
    file.proof("a count that needs a longer path", leaves, 6, "wrong depth", transaction_count=17)
    file.proof("a count that needs a shorter path", leaves, 6, "wrong depth", transaction_count=8)
    file.proof("no transactions", leaves, 6, "impossible transaction count", transaction_count=0)
    file.proof("one transaction more than fit into a block", leaves, 6, "impossible transaction count",
               transaction_count=16667)
    file.proof("the most that fit into a block, with another depth", leaves, 6, "wrong depth", transaction_count=16666)
    file.proof("2^32 - 1 transactions", leaves, 6, "impossible transaction count", transaction_count=2**32 - 1)


def bad_siblings(file):
    three = txids(3, 8)
    four = three + three[2:]
    file.proof("CVE-2012-2459: the copy of the last of three, as if it were the fourth", four, 3, "equal siblings")
    file.proof("CVE-2012-2459: the last of three, in a block said to have four", three, 2, "equal siblings",
               transaction_count=4)
    six = txids(6, 9)
    eight = six + six[4:]
    for index in (6, 7):
        file.proof(f"CVE-2012-2459: the copied pair of six, as if it were {index} of eight", eight, index,
                   "equal siblings")
    file.proof("CVE-2012-2459: the pair that was copied", eight, 4, "equal siblings")
    file.proof("the last of eleven with another sibling than itself", txids(11, 10), 10, "missing duplicate",
               path=flipped(path_of(txids(11, 10), 10), 0))
    file.proof("the last pair of six with another sibling than itself", six, 4, "missing duplicate",
               path=flipped(path_of(six, 4), 1))


def bad_transactions(file):
    values = [transaction(b"\x51" * length, ((7, b"\x52" * (4 - length)),)) for length in range(5)]
    for length, raw in enumerate(values):
        assert len(raw) == 64
        leaves = [raw[:32], raw[32:]]
        file.proof(f"CVE-2017-12842: an inner node is a transaction, input script of {length} bytes", leaves, 0,
                   "inner node is transaction")
        others = txids(4, 20 + length)
        others[2:4] = leaves
        file.proof(f"CVE-2017-12842: the same from the right, input script of {length} bytes", others, 3,
                   "inner node is transaction")
        block = [sha256d(raw)] + txids(3, 30)
        file.proof(f"CVE-2017-12842: a transaction of 64 bytes, input script of {length} bytes", block, 0,
                   "transaction of 64 bytes", raw=raw)
        file.proof(f"a transaction of 64 bytes and its witness, input script of {length} bytes", block, 0,
                   "transaction of 64 bytes", raw=with_witness(raw))
    rich = transaction(b"", ((21_000_000 * 10**8 + 1, b"\x52" * 4),))
    file.proof("64 bytes of an inner node with a value above all money: no transaction", [rich[:32], rich[32:]], 1)
    attack = transaction(b"", ((7, b"\x52" * 4),))
    leaves = [sha256d(attack)] + txids(3, 31)
    file.proof("CVE-2017-12842: a made-up transaction below one of 64 bytes, with the count that fits", leaves, 0,
               "inner node is transaction", txid=attack[:32], path=[attack[32:]] + path_of(leaves, 0),
               transaction_count=8, index=0)
    common = transaction()
    block = txids(2, 32) + [sha256d(common)] + txids(2, 33)
    file.proof("a common transaction in its bytes", block, 2, raw=common)
    file.proof("a common transaction with its witness", block, 2, raw=with_witness(common))
    many = transaction(b"\x01" * 300, tuple((n, b"\x51" * (n % 3)) for n in range(260)))
    file.proof("a transaction with long counts", [sha256d(many)], 0, raw=many)
    for what, raw in [("without its last byte", common[:-1]), ("and a byte more", common + b"\0"), ("without bytes", b""),
                      ("with no input", common[:4] + b"\0" + common[46:]),
                      ("with a superfluous witness", common[:4] + b"\0\1" + common[4:-4] + b"\0" + common[-4:]),
                      ("with an unknown witness flag", with_witness(common).replace(b"\0\1", b"\0\2", 1)),
                      ("with a length not in its shortest form", common[:41] + b"\xfd\1\0" + common[42:]),
                      ("with a length of 2^64 - 1", common[:41] + b"\xff" * 9 + common[42:])]:
        file.proof(f"a common transaction {what}", block, 2, "malformed transaction", raw=raw)
    file.proof("another transaction in its bytes", block, 2, "wrong root", raw=transaction(lock_time=1))


def bad_roots(file):
    leaves = txids(11, 11)
    path, raw = path_of(leaves, 5), header(root_of(leaves))
    file.proof("another transaction", leaves, 5, "wrong root", txid=leaves[3])
    file.proof("the transaction before it", leaves, 5, "equal siblings", txid=leaves[4])
    file.proof("TXID in display order", leaves, 5, "wrong root", txid=leaves[5][::-1])
    file.proof("path in display order", leaves, 5, "wrong root", path=[node[::-1] for node in path])
    file.proof("path from the root down", leaves, 5, "wrong root", path=path[::-1])
    file.proof("root in display order in the header", leaves, 5, "wrong root", header=header(root_of(leaves)[::-1]))
    for level in range(4):
        file.proof(f"another hash at level {level}", leaves, 5, "wrong root", path=flipped(path, level, level))
    file.proof("only one transaction, and it is another one", txids(1, 1), 0, "wrong root", txid=txids(1, 2)[0])
    file.proof("the header of another block", leaves, 5, "wrong root", header=header(root_of(txids(11, 12))))
    file.proof("a header above its target", leaves, 5, "wrong proof of work", header=header(root_of(leaves), good=False))
    file.proof("a header in another byte order", leaves, 5, "invalid target", header=raw[::-1])
    for what, bits in [("of 0", 0x03000000), ("that is negative", 0x04923456), ("too long by a byte", 0x21010000),
                       ("above the limit of the network by 1", 0x21008000)]:
        wrong = struct.pack("<i32s32sIII", 2, ZERO, root_of(leaves), 1_700_000_000, bits, 0)
        file.proof(f"a target {what}", leaves, 5, "invalid target", header=wrong)
    for network in ("mainnet", "testnet3", "testnet4", "signet"):
        file.proof(f"a target of regtest on {network}", leaves, 5, "invalid target", network=network)
    file.proof("the genesis header of testnet4 has proof of work on mainnet, too, but another root", [ZERO], 0,
               "wrong root", header=genesis("testnet4")[0], network="mainnet")
    file.proof("signet's genesis header on mainnet", [genesis("signet")[1]], 0, "invalid target",
               header=genesis("signet")[0], network="mainnet")


def bip30(file):
    """Two blocks with one coinbase, as 91812 and 91842 of the main network."""
    same = coinbase(((50 * 10**8, b"\x51"),))
    blocks = [[sha256d(same)] + txids(4, seed) for seed in (40, 41)]
    raws = [header(root_of(leaves), time=1_700_000_000 + 600 * i) for i, leaves in enumerate(blocks)]
    for i, leaves in enumerate(blocks):
        file.proof(f"BIP30: a coinbase that is in two blocks, in block {i}", leaves, 0, header=raws[i], raw=same)
        file.proof(f"BIP30: the proof of block {i} with the header of the other", leaves, 0, "wrong root",
                   header=raws[1 - i], raw=same)


def bad_proofs():
    file = Proofs("bad", "Proofs by TXID of which one thing is wrong, and the nearest right ones.")
    for part in (bad_shapes, bad_siblings, bad_transactions, bad_roots, bip30):
        part(file)
    return file


# ---- proofs by WTXID ----

class WitnessProofs(File):
    def proof(self, what, count, index, expect="ok", /, outputs=None, first=None, reserved=b"\x33" * 32, **change):
        """Of a block with `count` transactions; `outputs` gives the coinbase's from the right commitment."""
        wtxids = [ZERO] + txids(count - 1, 1000 + count)
        right = commitment(root_of(wtxids), reserved)
        outputs = outputs(right) if outputs else ((625, b"\x51"), (0, right))
        first = first(outputs) if first else coinbase(outputs)
        ids = [sha256d(first)] + txids(count - 1, 2000 + count)
        keys = {"network": "regtest", "header": None, "height": 100, "transaction_count": count, "index": index,
                "path": path_of(wtxids, index), "coinbase": first, "coinbase_path": path_of(ids, 0),
                "witness_reserved": reserved, "wtxid": wtxids[index]}
        keys.update({key: value(keys[key]) if callable(value) else value for key, value in change.items()})
        if keys["header"] is None:
            keys["header"] = header(root_of(ids))
        self.add(what, **keys, expect=expect, code=CODES.index(expect))


def witness_proofs():
    file = WitnessProofs("witness", "Proofs by WTXID through the coinbase's commitment (BIP141).")
    for count in (1, 2, 3, 5, 8, 13, 100, 2048, 2049, 4096):
        for index in sorted({0, 1, count // 2, count - 1} & set(range(count))):
            file.proof(f"{index} of {count}", count, index)
    two = lambda right: ((0, commitment(ZERO)), (1, b"\x51"), (0, right))
    file.proof("of two commitments the last one counts", 5, 2, outputs=two)
    file.proof("of two commitments the last one counts, and it is wrong", 5, 2, "wrong witness commitment",
               outputs=lambda right: two(right)[::-1])
    file.proof("bytes after the commitment in its output", 5, 2, outputs=lambda right: ((0, right + b"\x01\x02"),))
    file.proof("a commitment without its last byte", 5, 2, "no witness commitment",
               outputs=lambda right: ((0, right[:-1]),))
    file.proof("a commitment without its last byte after a right one", 5, 2,
               outputs=lambda right: ((0, right), (0, right[:-1])))
    file.proof("another magic", 5, 2, "no witness commitment",
               outputs=lambda right: ((0, right[:5] + b"\xee" + right[6:]),))
    file.proof("no commitment", 5, 2, "no witness commitment", outputs=lambda right: ((1, b"\x51"),))
    file.proof("another reserved value", 5, 2, "wrong witness commitment", witness_reserved=b"\x34" * 32)
    file.proof("another WTXID", 5, 2, "wrong witness commitment", wtxid=txids(1, 77)[0])
    file.proof("WTXID in display order", 5, 2, "wrong witness commitment", wtxid=lambda right: right[::-1])
    file.proof("another hash in the path", 5, 2, "wrong witness commitment", path=lambda right: flipped(right, 1))
    file.proof("the WTXID of the coinbase is not 0", 5, 0, "wrong coinbase wtxid", wtxid=txids(1, 78)[0])
    file.proof("the WTXID 0 at another index", 5, 2, "wrong coinbase wtxid", wtxid=ZERO)
    file.proof("index too high", 5, 2, "index out of range", index=5)
    file.proof("path too short", 5, 2, "wrong depth", path=lambda right: right[1:])
    file.proof("path of the coinbase too short", 5, 2, "wrong depth", coinbase_path=lambda right: right[1:])
    file.proof("path of the coinbase too long", 5, 2, "wrong depth", coinbase_path=lambda right: right + [ZERO])
    file.proof("no transactions", 5, 2, "impossible transaction count", transaction_count=0)
    file.proof("another hash in the path of the coinbase", 5, 2, "wrong root",
               coinbase_path=lambda right: flipped(right, 2))
    file.proof("CVE-2012-2459 in the path", 5, 4, "equal siblings", transaction_count=6)
    file.proof("a node of an odd row without its copy", 5, 4, "missing duplicate", path=lambda right: flipped(right, 0))
    file.proof("a header above its target", 1, 0, "wrong proof of work",
               header=lambda _: header(ZERO, good=False))
    file.proof("a target of regtest on mainnet", 5, 2, "invalid target", network="mainnet")
    file.proof("a coinbase with its witness", 5, 2, "malformed transaction", coinbase=with_witness)
    file.proof("a coinbase without its last byte", 5, 2, "malformed transaction", coinbase=lambda right: right[:-1])
    file.proof("no coinbase", 5, 2, "malformed transaction", coinbase=b"")
    file.proof("a coinbase with another byte", 5, 2, "wrong root", coinbase=lambda right: right[:-1] + b"\x01")
    file.proof("a common transaction in the place of the coinbase", 5, 2, "not coinbase",
               first=lambda outputs: transaction(outputs=outputs))
    file.proof("a transaction that spends output 0 of the hash 0: no coinbase", 5, 2, "not coinbase",
               first=lambda outputs: transaction(outputs=outputs, outpoint=(ZERO, 0)))
    file.proof("a coinbase of 64 bytes", 5, 2, "transaction of 64 bytes",
               first=lambda outputs: coinbase(((1, b"\x51"),), b"\x51\x51\x51"))
    return file


# ---- headers and difficulties ----

def headers():
    file = File("headers", "Headers: hash, target, work, and whether they have the proof of work of a network.")

    def add(what, raw, network, expect="ok"):
        bits = struct.unpack("<I", raw[72:76])[0]
        target = target_of(bits)
        work = 2**256 // (target + 1) if target else 0
        file.add(what, network=network, header=raw, hash=sha256d(raw), target=f"{target or 0:064x}",
                 work=f"{work:064x}", expect=expect, code=CODES.index(expect))

    for network in LIMITS:
        add(f"the genesis block of {network}", genesis(network)[0], network)
    for bits in (0x207FFFFF, 0x2000FFFF, 0x1F7FFFFF, 0x1F00FFFF, 0x21000100, 0x22000001):
        add(f"regtest, target {bits:08x}", header(b"\x05" * 32, bits=bits), "regtest")
        add(f"regtest, above the target {bits:08x}", header(b"\x05" * 32, bits=bits, good=False), "regtest",
            "wrong proof of work")
    for bits in (0, 0x00800000, 0x01000000, 0x01003456, 0x04923456, 0x20800000, 0x21010000, 0x2100FFFF, 0x220000FF,
                 0x22000100, 0x23000001, 0xFF123456, 0xFFFFFFFF):
        raw = struct.pack("<i32s32sIII", 2, ZERO, ZERO, 1_700_000_000, bits, 0)
        add(f"target {bits:08x}, which no network allows", raw, "regtest", "invalid target")
    for bits in (0x01010000, 0x02008000, 0x03123456, 0x05009234, 0x1B0404CB, 0x170ED0EB):
        raw = struct.pack("<i32s32sIII", 2, ZERO, ZERO, 1_700_000_000, bits, 0)
        add(f"target {bits:08x} without work", raw, "mainnet", "wrong proof of work")
    return file


def next_bits(network, chain, time):
    """Target of the header after `chain`, a list of (time, bits) from height 0 on, as pow.cpp and difficulty.go say."""
    height, limit = len(chain), LIMITS[network]
    last_time, last_bits = chain[-1]
    if network == "regtest":
        return limit
    eases = network in ("testnet3", "testnet4", "simnet")
    if height % PERIOD:
        if not eases:
            return last_bits
        if time > last_time + 20 * 60:
            return limit
        position = height - 1
        while position % PERIOD and chain[position][1] == limit:
            position -= 1
        return chain[position][1]
    first_time, first_bits = chain[height - PERIOD]
    span = min(max(last_time - first_time, TWO_WEEKS // 4), TWO_WEEKS * 4)
    begin = target_of(first_bits if network == "testnet4" else last_bits)
    return bits_of(min(begin * span // TWO_WEEKS, POW_LIMITS[network]))


def difficulties():
    file = File("difficulty", "Targets along chains of every network; times are the gaps between blocks, run lengths: "
                "[gap, blocks, ...].")
    for network in LIMITS:
        for seed in range(3):
            choice = random.Random(f"{network} {seed}")
            chain = [(struct.unpack("<I", genesis(network)[0][68:72])[0], LIMITS[network])]
            runs, checks = [], []
            while len(chain) < 4 * PERIOD + 20:
                gap = choice.choice([1, 30, 100, 300, 599, 600, 601, 1200, 1201, 5000, 40000, -100])
                blocks = choice.choice([1, 1, 2, 5, 40, 700])
                runs += [gap, blocks]
                for _ in range(blocks):
                    time = chain[-1][0] + gap
                    bits = next_bits(network, chain, time)
                    if bits != chain[-1][1]:
                        checks += [len(chain), bits]
                    chain.append((time, bits))
            file.add(f"{network}, chain {seed}", network=network, gaps=runs, changes=checks)
    # Bitcoin Core's tests, pow_tests.cpp: times of real blocks of the main network (the last case is made up).
    for what, first, last, bits, after in [
            ("heights 30240 to 32255", 1261130161, 1262152739, 0x1D00FFFF, 0x1D00D86A),
            ("heights 0 to 2015: the limit holds", 1231006505, 1233061996, 0x1D00FFFF, 0x1D00FFFF),
            ("heights 66528 to 68543: at most a quarter", 1279008237, 1279297671, 0x1C05A3F4, 0x1C0168FD),
            ("at most four times", 1263163443, 1269211443, 0x1C387F6F, 0x1D00E1FD)]:
        span = min(max(last - first, TWO_WEEKS // 4), TWO_WEEKS * 4)
        assert bits_of(min(target_of(bits) * span // TWO_WEEKS, POW_LIMITS["mainnet"])) == after
        file.add(f"mainnet, {what}", network="mainnet", timespan=last - first, bits=bits, after=after)
    return file


def files():
    return [good_proofs(), bad_proofs(), witness_proofs(), headers(), difficulties()]

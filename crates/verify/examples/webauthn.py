"""Writes webauthn.json, the assertions of the example webauthn.rs: `python3 webauthn.py >webauthn.json`.

The signatures are made by OpenSSL, with the package `cryptography` (44 or newer), and Lineside's code takes no part in
it. The first cases are the ES256 assertions of Web Authentication Level 3, section 16 (test vectors). They are computed
by the rules which that section gives: HKDF-SHA-256 for keys, challenges and random bytes, and nonces of RFC 6979. The
other cases differ from a good assertion in one respect.
"""

import base64
import hashlib
import json

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
UP, UV, BE, BS, AT, ED = 0x01, 0x04, 0x08, 0x10, 0x40, 0x80


class Source:
    """Random bytes of one test vector: each call derives the next bytes."""

    def __init__(self, name):
        self.name, self.number = name, 0

    def bytes(self, length):
        salt = bytes([self.number])
        self.number += 1
        return HKDF(hashes.SHA256(), length, salt, self.name.encode()).derive(b"WebAuthn test vectors")


def base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def authenticator_data(flags, counter=0, rp_id="example.org", extensions=b""):
    return hashlib.sha256(rp_id.encode()).digest() + bytes([flags]) + counter.to_bytes(4, "big") + extensions


def client_data(challenge, kind="webauthn.get", origin="https://example.org", **more):
    fields = {"type": kind, "challenge": base64url(challenge), "origin": origin, "crossOrigin": False, **more}
    return json.dumps(fields, separators=(",", ":")).encode()


def sign(secret, data, client):
    return secret.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256(), deterministic_signing=True))


def case(name, expected, secret, challenge, data, client, stored=0, signature=None, verified=True):
    key = secret.public_key().public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    signature = sign(secret, data, client) if signature is None else signature
    return {
        "name": name,
        "key": key.hex(),
        "stored_counter": stored,
        "user_verification": verified,
        "challenge": challenge.hex(),
        "authenticator_data": data.hex(),
        "client_data_json": client.hex(),
        "signature": signature.hex(),
        "expected": expected,
    }


def extra(random):
    text = "clientDataJSON may be extended with additional fields in the future, such as this: "
    return {"extraData": text + base64url(random)}


def specification(name, expected, id_length=32, **client):
    """Return the authentication of a vector of the specification; its registration uses the first random bytes."""
    source = Source(name)
    source.bytes(32)
    secret = ec.derive_private_key(int.from_bytes(source.bytes(32), "big"), ec.SECP256R1())
    if source.bytes(1)[0] & 1:
        source.bytes(16)
    source.bytes(16)
    source.bytes(id_length)
    registered = source.bytes(1)[0]
    challenge = source.bytes(32)
    more = dict(client)
    if source.bytes(1)[0] & 1:
        more |= extra(source.bytes(16))
    # The bits of user verification and backup state come from one byte, the bit of backup eligibility from another one.
    chosen = source.bytes(1)[0]
    eligible = registered & BE
    flags = UP | chosen & UV | eligible | (chosen & BS if eligible else 0)
    data = authenticator_data(flags)
    client = client_data(challenge, **more)
    return case(f"specification: {name}", expected, secret, challenge, data, client, verified=False)


def own_cases():
    secret = ec.derive_private_key(0x5A5A5A, ec.SECP256R1())
    other = ec.derive_private_key(0x5A5A5B, ec.SECP256R1())
    challenge = b"a challenge has 16 bytes or more"
    client, good = client_data(challenge), UP | UV

    def make(name, expected, data=authenticator_data(good, 7), client=client, stored=6, **more):
        return case(name, expected, secret, challenge, data, client, stored, **more)

    counter = "the counter is {} after {}; the authenticator may have been cloned".format
    backed_up = authenticator_data(good | BE | BS, 7)
    extended = authenticator_data(good | ED, 7, extensions=b"\xa0")
    wrong_length = "authenticatorData: its length does not agree with its flags"
    r, s = utils.decode_dss_signature(sign(secret, authenticator_data(good, 7), client))
    encode = utils.encode_dss_signature
    der = encode(r, s)
    yield make("a counter that increases", "accepted, the counter is now 7")
    yield make("the largest counter", "accepted, the counter is now 4294967295", authenticator_data(good, 2**32 - 1))
    yield make("a first counter", "accepted, the counter is now 7", stored=0)
    yield make("no counter", "accepted, the counter is now 0", authenticator_data(good, 0), stored=0)
    yield make("the same counter again", counter(7, 7), stored=7)
    yield make("a smaller counter", counter(7, 8), stored=8)
    yield make("a counter that is lost", counter(0, 6), authenticator_data(good, 0))
    yield make("a backed up credential", "accepted, the counter is now 7", backed_up)
    yield make("extensions", "accepted, the counter is now 7", extended)
    yield make("both forms of s are valid", "accepted, the counter is now 7", signature=encode(r, ORDER - s))
    yield make("client data that is no JSON", "clientDataJSON: it is not JSON", client=b"challenge")
    yield make(
        "a registration", "clientDataJSON: the type is not webauthn.get",
        client=client_data(challenge, kind="webauthn.create"),
    )
    yield make(
        "an old challenge", "clientDataJSON: it has another challenge", client=client_data(b"an earlier challenge")
    )
    yield make(
        "a challenge with padding", "clientDataJSON: it has another challenge",
        client=client_data(challenge).replace(b'","origin', b'=","origin'),
    )
    yield make(
        "another origin", "clientDataJSON: it has another origin",
        client=client_data(challenge, origin="https://example.com"),
    )
    yield make("the data of another relying party", "authenticatorData: it is for another relying party",
               authenticator_data(good, 7, "example.com"))
    yield make("36 bytes", "authenticatorData: it has fewer than 37 bytes", authenticator_data(good, 7)[:36])
    yield make("an absent user", "authenticatorData: the user was not present", authenticator_data(UV, 7))
    yield make("an unverified user", "authenticatorData: the user was not verified", authenticator_data(UP, 7))
    yield make("an unverified user, which suffices", "accepted, the counter is now 7", authenticator_data(UP, 7),
               verified=False)
    yield make(
        "a backup that is not eligible",
        "authenticatorData: the credential is backed up, but not eligible for backups",
        authenticator_data(good | BS, 7),
    )
    yield make("a flag for a new credential", "authenticatorData: an assertion has no attested credential",
               authenticator_data(good | AT, 7))
    yield make("a flag without extensions", wrong_length, authenticator_data(good | ED, 7))
    yield make("extensions without a flag", wrong_length, authenticator_data(good, 7, extensions=b"\xa0"))
    invalid = "the signature is not valid"
    yield make("a signature by another key", invalid, signature=sign(other, authenticator_data(good, 7), client))
    yield make("a signature without the hash of the client data", invalid, signature=secret.sign(
        authenticator_data(good, 7) + client, ec.ECDSA(hashes.SHA256(), deterministic_signing=True)))
    yield make("a signature with s of 0", invalid, signature=encode(r, 0))
    yield make("a truncated signature", "the signature is malformed", signature=der[:-1])
    yield make("a signature with a byte more", "the signature is malformed", signature=der + b"\0")
    yield make("r and s instead of DER", "the signature is malformed",
               signature=r.to_bytes(32, "big") + s.to_bytes(32, "big"))
    yield make("no signature", "the signature is malformed", signature=b"")


accepted = "accepted, the counter is now 0"
embedded = "clientDataJSON: the page was embedded by another origin"
cases = [
    specification("none.ES256", accepted),
    specification("packed-self.ES256", accepted),
    specification("none.ES256.crossOrigin", embedded, crossOrigin=True),
    specification("none.ES256.topOrigin", embedded, crossOrigin=True, topOrigin="https://example.com"),
    specification("none.ES256.long-credential-id", accepted, id_length=1023),
    *own_cases(),
]
print(json.dumps(cases, indent=1))

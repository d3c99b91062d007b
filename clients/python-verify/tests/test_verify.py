"""Tests of the package `lineside_verify`. The reference is the package `cryptography`, which uses OpenSSL."""

import doctest
import hashlib
import pathlib
import random
import sys
import threading
import unittest

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

import lineside_verify as lv

CURVES = {"P-256": ec.SECP256R1(), "secp256k1": ec.SECP256K1()}
ORDERS = {
    "P-256": 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    "secp256k1": 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141,
}
PREHASHED = ec.ECDSA(utils.Prehashed(hashes.SHA256()))


def key_pair(name, seed):
    """Return the key of `cryptography`, and the same key of `lineside_verify`."""
    secret = ec.derive_private_key(random.Random(seed).randrange(1, ORDERS[name]), CURVES[name])
    compressed = seed % 2 == 0
    form = serialization.PublicFormat
    point = secret.public_key().public_bytes(
        serialization.Encoding.X962, form.CompressedPoint if compressed else form.UncompressedPoint
    )
    return secret, lv.PublicKey(name, point)


def openssl(secret, digest, signature):
    try:
        secret.public_key().verify(signature, digest, PREHASHED)
        return True
    except InvalidSignature:
        return False


def cases(count, seed):
    """Return (secret, key, digest, signature in DER), of which about half are changed."""
    generator = random.Random(seed)
    keys = [key_pair(name, number) for name in CURVES for number in range(8)]
    made = []
    for number in range(count):
        secret, key = generator.choice(keys)
        digest = generator.randbytes(32)
        signature = secret.sign(digest, PREHASHED)
        r, s = utils.decode_dss_signature(signature)
        change = generator.randrange(8)
        if change == 0:
            digest = generator.randbytes(32)
        elif change == 1:
            signature = utils.encode_dss_signature(r ^ 1 << generator.randrange(255), s)
        elif change == 2:
            signature = utils.encode_dss_signature(r, ORDERS[key.curve] - s)
        elif change == 3:
            signature = utils.encode_dss_signature(r, 0)
        elif change == 4:
            secret, key = generator.choice(keys)
        made.append((secret, key, digest, signature))
    return made


class Verify(unittest.TestCase):
    def test_verdicts_are_those_of_openssl(self):
        all_cases = cases(2000, 1)
        expected = [openssl(secret, digest, signature) for secret, _, digest, signature in all_cases]
        self.assertTrue(500 < sum(expected) < 1500)
        verifier = lv.Verifier()
        items = [(key, digest, signature) for _, key, digest, signature in all_cases]
        self.assertEqual(verifier.verify_batch(items), expected)
        self.assertEqual([verifier.verify_batch([item])[0] for item in items], expected)
        compact = []
        for key, digest, signature in items:
            r, s = utils.decode_dss_signature(signature)
            compact.append((key, digest, r.to_bytes(32, "big") + s.to_bytes(32, "big")))
        self.assertEqual(verifier.verify_batch(compact, "compact"), expected)
        keys = list({key for key, _, _ in items})
        prepared = dict(zip(keys, verifier.prepare(keys)))
        self.assertEqual(prepared[keys[0]].public_key, keys[0])
        self.assertEqual(prepared[keys[0]].table_bytes, 262144)
        items = [(prepared[key], digest, signature) for key, digest, signature in items]
        self.assertEqual(verifier.verify_batch(items, encoding="der"), expected)

    def test_verdicts_have_reasons(self):
        secret, key = key_pair("P-256", 3)
        digest = hashlib.sha256(b"message").digest()
        r, s = utils.decode_dss_signature(secret.sign(digest, PREHASHED))
        s = min(s, ORDERS["P-256"] - s)
        encoded = utils.encode_dss_signature
        items = [
            (key, digest, encoded(r, s)),
            (key, digest, encoded(r, ORDERS["P-256"] - s)),
            (key, digest[::-1], encoded(r, s)),
            (key, digest, encoded(r, s)[:-1]),
            (key, digest, b""),
        ]
        rest = ["invalid", "malformed", "malformed"]
        self.assertEqual(lv.Verifier().verdicts(items), ["valid", "valid", *rest])
        self.assertEqual(lv.Verifier(low_s=True).verdicts(items), ["valid", "high_s", *rest])

    def test_wrong_arguments_are_refused(self):
        _, key = key_pair("P-256", 3)
        verifier = lv.Verifier()
        for call, error, text in [
            (lambda: lv.PublicKey("P-384", key.to_sec1()), ValueError, "the curve"),
            (lambda: lv.PublicKey("secp256k1", key.to_sec1(False)), ValueError, "not on the curve"),
            (lambda: lv.PublicKey("P-256", b""), ValueError, "malformed"),
            (lambda: verifier.verify_batch([(key, b"short", b"")]), ValueError, "item 0: the digest has 5 bytes"),
            (lambda: verifier.verify_batch([(b"key", bytes(32), b"")]), TypeError, "item 0: the key"),
            (lambda: verifier.verify_batch([(key, bytes(32))]), (TypeError, ValueError), ""),
            (lambda: verifier.verify_batch([], "pem"), ValueError, "the encoding"),
            (lambda: lv.Verifier(table_bytes=1).prepare([key]), ValueError, "table_bytes"),
            (lambda: verifier.prepare([b"key"]), TypeError, ""),
        ]:
            with self.assertRaisesRegex(error, text):
                call()
        self.assertEqual(verifier.verify_batch([]), [])

    def test_keys_are_values(self):
        _, key = key_pair("secp256k1", 4)
        for compressed in (True, False):
            self.assertEqual(lv.PublicKey("secp256k1", key.to_sec1(compressed)), key)
            self.assertEqual(hash(lv.PublicKey("secp256k1", key.to_sec1(compressed))), hash(key))
        self.assertNotEqual(key, key_pair("secp256k1", 5)[1])
        self.assertEqual(key.curve, "secp256k1")

    def test_other_threads_run_while_a_batch_is_verified(self):
        # The interpreter never takes the lock away from a thread within the switch interval. So this thread can only
        # run between the marks of the other one if verify_batch gives the lock up. The scheduler may wake this thread
        # too late, so there are several attempts.
        items = [(key, digest, signature) for _, key, digest, signature in cases(500, 2)] * 40
        verifier, interval = lv.Verifier(), sys.getswitchinterval()

        def attempt():
            marks, ready = [], threading.Lock()
            ready.acquire()

            def other():
                ready.release()
                verifier.verify_batch(items)
                marks.append("verified")

            thread = threading.Thread(target=other)
            thread.start()
            ready.acquire()
            marks.append("meanwhile")
            thread.join()
            return marks

        sys.setswitchinterval(1000)
        try:
            self.assertTrue(any(attempt() == ["meanwhile", "verified"] for _ in range(20)))
        finally:
            sys.setswitchinterval(interval)

    def test_threads_share_a_verifier(self):
        all_cases = cases(400, 3)
        expected = [openssl(secret, digest, signature) for secret, _, digest, signature in all_cases]
        items = [(key, digest, signature) for _, key, digest, signature in all_cases]
        verifier, results = lv.Verifier(), []
        threads = [threading.Thread(target=lambda: results.append(verifier.verify_batch(items))) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(results, [expected] * 4)

    def test_the_example_of_the_readme_runs(self):
        readme = pathlib.Path(__file__).parent.parent / "README.md"
        failed, attempted = doctest.testfile(str(readme), module_relative=False)
        self.assertEqual(failed, 0)
        self.assertGreater(attempted, 5)


if __name__ == "__main__":
    unittest.main()

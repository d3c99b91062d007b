package secp256k1

import (
	"crypto/rand"
	"encoding/hex"
	"math/big"
	"testing"
)

func TestFieldAgreesWithBigIntegers(t *testing.T) {
	for _, f := range []*field{base, scalars} {
		m := new(big.Int).SetBytes(slice(f.modulus.bytes()))
		for range 500 {
			x, _ := rand.Int(rand.Reader, m)
			y, _ := rand.Int(rand.Reader, m)
			a, b := fromBig(x), fromBig(y)
			am, bm := f.toMontgomery(&a), f.toMontgomery(&b)
			check := func(name string, got limbs, want *big.Int) {
				t.Helper()
				plain := f.fromMontgomery(&got)
				if new(big.Int).SetBytes(slice(plain.bytes())).Cmp(want.Mod(want, m)) != 0 {
					t.Fatalf("%s of %x and %x is wrong", name, x, y)
				}
			}
			check("add", f.add(&am, &bm), new(big.Int).Add(x, y))
			check("sub", f.sub(&am, &bm), new(big.Int).Sub(x, y))
			check("mul", f.mul(&am, &bm), new(big.Int).Mul(x, y))
			check("invert", f.invert(&am), new(big.Int).ModInverse(x, m))
		}
	}
}

func slice(b [32]byte) []byte { return b[:] }

func TestPublicKeysAreMultiplesOfTheGenerator(t *testing.T) {
	// Multiples of the generator, from SEC 2 and from adding the generator to itself.
	for secret, want := range map[byte]string{
		1: "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
		2: "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5",
		3: "02f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9",
	} {
		key, err := NewPrivateKey([32]byte{31: secret})
		if err != nil {
			t.Fatal(err)
		}
		public := key.PublicKey()
		if hex.EncodeToString(public[:]) != want {
			t.Errorf("%d * G = %x, want %s", secret, public, want)
		}
	}
}

func TestSignaturesVerifyAndChangesDoNot(t *testing.T) {
	for range 20 {
		var secret, digest [32]byte
		rand.Read(secret[:])
		rand.Read(digest[:])
		key, err := NewPrivateKey(secret)
		if err != nil {
			t.Fatal(err)
		}
		public := key.PublicKey()
		parsed, err := ParsePublicKey(public[:])
		if err != nil {
			t.Fatal(err)
		}
		signature := key.Sign(digest)
		if !parsed.Verify(digest, signature) {
			t.Fatalf("the signature by %x of %x is refused", secret, digest)
		}
		high := signature
		s := fromBytes([32]byte(signature[32:]))
		s, _ = subtract(&scalars.modulus, &s)
		b := s.bytes()
		copy(high[32:], b[:])
		other, wrong := digest, signature
		other[5] ^= 1
		wrong[9] ^= 1
		if parsed.Verify(digest, high) || parsed.Verify(other, signature) || parsed.Verify(digest, wrong) {
			t.Fatal("a changed signature or digest is accepted")
		}
	}
}

func TestKeysOutsideTheCurveAreRefused(t *testing.T) {
	order := scalars.modulus.bytes()
	for _, secret := range [][32]byte{{}, order} {
		if _, err := NewPrivateKey(secret); err == nil {
			t.Errorf("the private key %x is accepted", secret)
		}
	}
	// 5 is not the x of any point: 5^3 + 7 is no square.
	for _, key := range [][]byte{nil, make([]byte, 33), append([]byte{2}, slice([32]byte{31: 5})...)} {
		if _, err := ParsePublicKey(key); err == nil {
			t.Errorf("the public key %x is accepted", key)
		}
	}
}

func BenchmarkSign(b *testing.B) {
	key, _ := NewPrivateKey([32]byte{1})
	for b.Loop() {
		key.Sign([32]byte{2})
	}
}

func BenchmarkVerify(b *testing.B) {
	key, _ := NewPrivateKey([32]byte{1})
	public := key.PublicKey()
	parsed, _ := ParsePublicKey(public[:])
	signature := key.Sign([32]byte{2})
	for b.Loop() {
		parsed.Verify([32]byte{2}, signature)
	}
}

package lineside

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strings"
	"testing"
)

// order is the order of secp256k1's generator (SEC 2, section 2.4.1).
var order, _ = new(big.Int).SetString("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141", 16)

func numberBytes(n *big.Int) [32]byte { return [32]byte(n.FillBytes(make([]byte, 32))) }

func TestPublicKeysOfSecp256k1AreMultiplesOfTheGenerator(t *testing.T) {
	// Multiples of the generator, from SEC 2 and from adding the generator to itself.
	for secret, want := range map[byte]string{
		1: "secp256k1:0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
		2: "secp256k1:02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5",
		3: "secp256k1:02f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9",
	} {
		signer, err := NewSecp256k1Signer([32]byte{31: secret})
		if err != nil {
			t.Fatal(err)
		}
		if got := signer.PublicKey().String(); got != want {
			t.Errorf("%d * G = %s, want %s", secret, got, want)
		}
	}
}

func TestSignaturesOfSecp256k1AreThoseOfOtherImplementations(t *testing.T) {
	// Signatures of SHA-256 of the message with the nonce of RFC 6979 and a low s. The first two are common to many
	// implementations for Bitcoin; the others were made with an implementation of this project that shares no code with
	// the library.
	for _, test := range []struct {
		secret        [32]byte
		message, want string
	}{
		{[32]byte{31: 1}, "Satoshi Nakamoto", "934b1ea10a4b3c1757e2b0c017d0b6143ce3c9a7e6a4a49860d7a6ab210ee3d8" +
			"2442ce9d2b916064108014783e923ec36b49743e2ffa1c4496f01a512aafd9e5"},
		{[32]byte{31: 1}, "All those moments will be lost in time, like tears in rain. Time to die...",
			"8600dbd41e348fe5c9465ab92d23e3db8b98b873beecd930736488696438cb6b" +
				"547fe64427496db33bf66019dacbf0039c04199abb0122918601db38a72cfc21"},
		{[32]byte{7}, "lineside", "1cf54fa59c1267cb1c508df527607d2e93161e2fd0cb8871e58adb39b434837c" +
			"552c779b699b7a9ec06c8e48190dc47786115d7a91fb8bfbeb612ed590b64da8"},
	} {
		signer, err := NewSecp256k1Signer(test.secret)
		if err != nil {
			t.Fatal(err)
		}
		signature, err := signer.Sign(sha256.Sum256([]byte(test.message)))
		if err != nil || hex.EncodeToString(signature[:]) != test.want {
			t.Errorf("the signature of %q is %x, not %s: %v", test.message, signature, test.want, err)
		}
	}
}

func TestChangedSignaturesOfSecp256k1AreRefused(t *testing.T) {
	half := new(big.Int).Rsh(order, 1)
	for range 20 {
		var secret, digest [32]byte
		rand.Read(secret[:])
		rand.Read(digest[:])
		signer, err := NewSecp256k1Signer(secret)
		if err != nil {
			t.Fatal(err)
		}
		key := signer.PublicKey()
		signature, err := signer.Sign(digest)
		if err != nil || !key.Verify(digest, signature) {
			t.Fatalf("the signature by %x of %x is refused: %v", secret, digest, err)
		}
		r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		if s.Cmp(half) > 0 {
			t.Fatalf("the signature by %x of %x has a high s", secret, digest)
		}
		refuse := func(what string, digest [32]byte, r, s *big.Int) {
			t.Helper()
			first, second := numberBytes(r), numberBytes(s)
			if key.Verify(digest, [64]byte(append(first[:], second[:]...))) {
				t.Fatalf("%s is accepted", what)
			}
		}
		other := digest
		other[5] ^= 1
		refuse("another digest", other, r, s)
		refuse("the high s", digest, r, new(big.Int).Sub(order, s))
		refuse("another r", digest, new(big.Int).Xor(r, big.NewInt(256)), s)
		refuse("r = 0", digest, new(big.Int), s)
		refuse("s = 0", digest, r, new(big.Int))
		refuse("r = the order", digest, order, s)
		refuse("s = the order", digest, r, order)
	}
}

// TestASignatureHasOneForm shows that r and s are not reduced: a library may take r + order for r.
func TestASignatureHasOneForm(t *testing.T) {
	// The signature (r, s) of a digest e is valid for the key (s * R - e * G) / r, if r is the x of R. This is the key
	// for r = s = e = 1 and the R with an even y: r is so small that r + order is below 2^256.
	key, err := ParsePublicKey("secp256k1:02871e0c836ec675e07395aef58d72b646" +
		"f77e0e33ce1622dfaa0fb8e131f3fe12")
	if err != nil {
		t.Fatal(err)
	}
	signature := [64]byte{31: 1, 63: 1}
	digest := [32]byte{31: 1}
	if !key.Verify(digest, signature) {
		t.Fatal("the signature is refused")
	}
	above := numberBytes(new(big.Int).Add(order, big.NewInt(1)))
	copy(signature[:32], above[:])
	if key.Verify(digest, signature) {
		t.Error("r + order is accepted for r")
	}
	signature = [64]byte{31: 1}
	copy(signature[32:], above[:])
	if key.Verify(digest, signature) {
		t.Error("s + order is accepted for s")
	}
}

func TestKeysOutsideSecp256k1AreRefused(t *testing.T) {
	for _, secret := range [][32]byte{{}, numberBytes(order), numberBytes(new(big.Int).Add(order, big.NewInt(1)))} {
		if _, err := NewSecp256k1Signer(secret); err == nil {
			t.Errorf("the secret key %x is accepted", secret)
		}
	}
	prime, _ := new(big.Int).SetString("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f", 16)
	// 5 is not the x of any point, because 5^3 + 7 is no square. 1 is one, and a coordinate must be below the prime.
	above := new(big.Int).Add(prime, big.NewInt(1))
	for what, x := range map[string]*big.Int{"5": big.NewInt(5), "0": new(big.Int), "1 + p": above} {
		bytes := numberBytes(x)
		for _, prefix := range []string{"02", "03"} {
			if key, err := ParsePublicKey("secp256k1:" + prefix + hex.EncodeToString(bytes[:])); err == nil {
				t.Errorf("x = %s is read as the public key %v", what, key)
			}
		}
	}
	for prefix, isOK := range map[string]bool{"02": true, "03": true, "00": false, "04": false, "06": false} {
		text := "secp256k1:" + prefix + strings.Repeat("0", 62) + "01"
		if _, err := ParsePublicKey(text); (err == nil) != isOK {
			t.Errorf("%s: %v", text, err)
		}
	}
}

func BenchmarkSignSecp256k1(b *testing.B) {
	signer, _ := NewSecp256k1Signer([32]byte{1})
	for b.Loop() {
		_, _ = signer.Sign([32]byte{2})
	}
}

func BenchmarkVerifySecp256k1(b *testing.B) {
	signer, _ := NewSecp256k1Signer([32]byte{1})
	signature, _ := signer.Sign([32]byte{2})
	key := signer.PublicKey()
	for b.Loop() {
		key.Verify([32]byte{2}, signature)
	}
}

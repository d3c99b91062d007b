package lineside

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"runtime"
	"strings"
)

// Curve is the curve of a key.
type Curve uint8

// The curves of keys.
const (
	// P256 is NIST's P-256.
	P256 Curve = 1
	// Secp256k1 is the curve of Bitcoin.
	Secp256k1 Curve = 2
)

// String returns the name of the curve, as in key files.
func (c Curve) String() string {
	switch c {
	case P256:
		return "p256"
	case Secp256k1:
		return "secp256k1"
	}
	return fmt.Sprintf("curve %d", uint8(c))
}

// PublicKey is a public key.
type PublicKey struct {
	// Curve is the curve of the key.
	Curve Curve
	// Bytes is the compressed point (SEC 1, section 2.3.3).
	Bytes [33]byte
}

// ParsePublicKey reads a key in the form CURVE:HEX, as `lineside hybrid key show` prints it, or 66 hexadecimal digits
// of a key on secp256k1, as in the file settlement.pub of a transfer ledger.
func ParsePublicKey(text string) (PublicKey, error) {
	key := PublicKey{Curve: Secp256k1}
	digits := strings.TrimSpace(text)
	if name, rest, found := strings.Cut(digits, ":"); found {
		digits = rest
		switch name {
		case P256.String():
			key.Curve = P256
		case Secp256k1.String():
		default:
			return PublicKey{}, fmt.Errorf("lineside: %q is the name of no curve; p256 and secp256k1 are possible", name)
		}
	}
	bytes, err := hex.DecodeString(digits)
	if err != nil || len(bytes) != len(key.Bytes) {
		return PublicKey{}, errors.New("lineside: a public key is CURVE:HEX with 66 hexadecimal digits")
	}
	copy(key.Bytes[:], bytes)
	if !key.isPoint() {
		return PublicKey{}, fmt.Errorf("lineside: this public key is not a point of %v", key.Curve)
	}
	return key, nil
}

// String returns the key in the form CURVE:HEX.
func (k PublicKey) String() string { return k.Curve.String() + ":" + hex.EncodeToString(k.Bytes[:]) }

func (k PublicKey) isPoint() bool {
	switch k.Curve {
	case P256:
		x, _ := elliptic.UnmarshalCompressed(elliptic.P256(), k.Bytes[:])
		return x != nil
	case Secp256k1:
		return isPointOfSecp256k1(k.Bytes)
	}
	return false
}

// Verify returns true if signature (r || s) of the digest was made with the key and s is at most half the curve's
// order.
func (k PublicKey) Verify(digest [32]byte, signature [64]byte) bool {
	switch k.Curve {
	case P256:
		x, y := elliptic.UnmarshalCompressed(elliptic.P256(), k.Bytes[:])
		r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		if x == nil || s.Cmp(halfP256) > 0 {
			return false
		}
		return ecdsa.Verify(&ecdsa.PublicKey{Curve: elliptic.P256(), X: x, Y: y}, digest[:], r, s)
	case Secp256k1:
		return verifySecp256k1(k.Bytes, digest, signature)
	}
	return false
}

// Signer signs digests. Implement it to keep a secret key in a device or another process.
type Signer interface {
	// PublicKey returns the public key.
	PublicKey() PublicKey
	// Sign returns the signature r || s of a digest, both numbers big-endian, with s at most half the curve's order.
	Sign(digest [32]byte) ([64]byte, error)
}

var halfP256 = new(big.Int).Rsh(elliptic.P256().Params().N, 1)

type p256Signer struct {
	secret *ecdsa.PrivateKey
	public PublicKey
}

// NewP256Signer returns a signer with a key on P-256. Signatures are those of RFC 6979.
func NewP256Signer(secret *ecdsa.PrivateKey) (Signer, error) {
	if secret.Curve != elliptic.P256() {
		return nil, errors.New("lineside: the key is not on the curve P-256")
	}
	public := PublicKey{Curve: P256}
	copy(public.Bytes[:], elliptic.MarshalCompressed(elliptic.P256(), secret.X, secret.Y))
	return &p256Signer{secret, public}, nil
}

func (s *p256Signer) PublicKey() PublicKey { return s.public }

// Format writes the public key for every verb.
func (s *p256Signer) Format(out fmt.State, _ rune) { _, _ = io.WriteString(out, s.public.String()) }

func (s *p256Signer) Sign(digest [32]byte) ([64]byte, error) {
	var out [64]byte
	// Without a source of random numbers the nonce is that of RFC 6979.
	der, err := s.secret.Sign(nil, digest[:], crypto.SHA256)
	if err != nil {
		return out, err
	}
	var parts struct{ R, S *big.Int }
	if _, err := asn1.Unmarshal(der, &parts); err != nil {
		return out, err
	}
	if parts.S.Cmp(halfP256) > 0 {
		parts.S.Sub(elliptic.P256().Params().N, parts.S)
	}
	parts.R.FillBytes(out[:32])
	parts.S.FillBytes(out[32:])
	return out, nil
}

// ReadKeyFile reads a key file, as `lineside transfer key new` and `lineside hybrid key new` make it. Only its owner
// may have access to the file.
func ReadKeyFile(path string) (Signer, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%s: others may use this key (mode %o): chmod 600 it", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	words := strings.Fields(string(text))
	if len(words) == 2 {
		secret, err := hex.DecodeString(words[1])
		if err == nil && len(secret) == 32 {
			switch words[0] {
			case P256.String():
				return p256FromSecret(secret)
			case Secp256k1.String():
				return NewSecp256k1Signer([32]byte(secret))
			}
		}
	}
	return nil, fmt.Errorf("%s: this file holds no key (CURVE, then 64 hexadecimal digits)", path)
}

func p256FromSecret(secret []byte) (Signer, error) {
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), secret)
	if err != nil {
		return nil, err
	}
	return NewP256Signer(key)
}

// Fingerprint returns the first half of SHA-256 over curve and key: the owner of an account in transfer.
func (k PublicKey) Fingerprint() [16]byte {
	hash := sha256.Sum256(append([]byte{byte(k.Curve)}, k.Bytes[:]...))
	return [16]byte(hash[:16])
}

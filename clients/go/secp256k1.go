package lineside

import (
	"errors"
	"fmt"
	"io"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
)

type secp256k1Signer struct {
	secret *secp256k1.PrivateKey
	public PublicKey
}

// NewSecp256k1Signer returns a signer with a key on secp256k1, whose secret number is given in big-endian order.
// Signatures are those of RFC 6979. The time of a signature depends slightly on secret numbers; where others can
// measure it exactly, implement [Signer] with a device or another library.
func NewSecp256k1Signer(secret [32]byte) (Signer, error) {
	var number secp256k1.ModNScalar
	if isAbove := number.SetBytes(&secret) != 0; isAbove || number.IsZero() {
		return nil, errors.New("lineside: a secret key on secp256k1 must be above 0 and below the curve's order")
	}
	key := secp256k1.NewPrivateKey(&number)
	public := PublicKey{Curve: Secp256k1, Bytes: [33]byte(key.PubKey().SerializeCompressed())}
	return &secp256k1Signer{key, public}, nil
}

func (s *secp256k1Signer) PublicKey() PublicKey { return s.public }

// Format writes the public key for every verb.
func (s *secp256k1Signer) Format(out fmt.State, _ rune) {
	_, _ = io.WriteString(out, s.public.String())
}

func (s *secp256k1Signer) Sign(digest [32]byte) ([64]byte, error) {
	var out [64]byte
	signature := ecdsa.Sign(s.secret, digest[:])
	first, second := signature.R(), signature.S()
	first.PutBytesUnchecked(out[:32])
	second.PutBytesUnchecked(out[32:])
	return out, nil
}

func isPointOfSecp256k1(key [33]byte) bool {
	_, err := secp256k1.ParsePubKey(key[:])
	return err == nil
}

func verifySecp256k1(key [33]byte, digest [32]byte, signature [64]byte) bool {
	public, err := secp256k1.ParsePubKey(key[:])
	if err != nil {
		return false
	}
	var r, s secp256k1.ModNScalar
	// The library reduces numbers that are not below the order, and accepts a high s.
	if r.SetByteSlice(signature[:32]) || s.SetByteSlice(signature[32:]) || s.IsOverHalfOrder() {
		return false
	}
	return ecdsa.NewSignature(&r, &s).Verify(digest[:], public)
}

package spv

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
)

// Hash is a hash in wire order, the order in which it is hashed. People read hashes in the reverse order: [Hash.String]
// and [ParseHash].
type Hash [32]byte

// ParseHash reads a hash as explorers show it: 64 hexadecimal digits, starting with the last byte.
func ParseHash(text string) (Hash, error) {
	var hash Hash
	bytes, err := hex.DecodeString(text)
	if err != nil || len(bytes) != len(hash) {
		return Hash{}, fmt.Errorf("spv: %q is not a hash of 64 hexadecimal digits", text)
	}
	slices.Reverse(bytes)
	copy(hash[:], bytes)
	return hash, nil
}

// MustParseHash is like [ParseHash] and panics if the text is not a hash.
func MustParseHash(text string) Hash {
	hash, err := ParseHash(text)
	if err != nil {
		panic(err)
	}
	return hash
}

// String returns the hash as explorers show it.
func (h Hash) String() string {
	slices.Reverse(h[:])
	return hex.EncodeToString(h[:])
}

// DoubleSHA256 returns the hash of transaction ids, block headers and nodes of Merkle trees.
func DoubleSHA256(bytes []byte) Hash {
	first := sha256.Sum256(bytes)
	return sha256.Sum256(first[:])
}

func hashPair(left, right *Hash) Hash {
	var bytes [64]byte
	copy(bytes[:32], left[:])
	copy(bytes[32:], right[:])
	return DoubleSHA256(bytes[:])
}

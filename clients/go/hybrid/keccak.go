package hybrid

import "golang.org/x/crypto/sha3"

// keccak256 returns Keccak-256 of the concatenation of the parts, as Ethereum defines it: with the padding 0x01, which
// is not that of SHA3-256.
func keccak256(parts ...[]byte) [32]byte {
	hash := sha3.NewLegacyKeccak256()
	for _, part := range parts {
		hash.Write(part)
	}
	var out [32]byte
	hash.Sum(out[:0])
	return out
}

package spv

import (
	"encoding/binary"
	"math/big"
	"slices"
	"time"

	"github.com/lineside/lineside/clients/go/internal/layout"
)

// HeaderBytes is the number of bytes of a block header.
const HeaderBytes = layout.SpvHeaderBytes

// Header is a block header.
type Header struct {
	// Version is the version of the block, with bits of votes.
	Version int32
	// Previous is the hash of the parent.
	Previous Hash
	// MerkleRoot is the root of the tree of TXIDs.
	MerkleRoot Hash
	// Time is the time of the block in seconds since 1970.
	Time uint32
	// Bits is the target in compact form.
	Bits uint32
	// Nonce is the number that makes the proof of work.
	Nonce uint32
}

// ParseHeader reads a header in wire order.
func ParseHeader(b [HeaderBytes]byte) Header {
	le := binary.LittleEndian
	return Header{
		Version:    int32(le.Uint32(b[:])),
		Previous:   Hash(b[4:36]),
		MerkleRoot: Hash(b[36:68]),
		Time:       le.Uint32(b[68:]),
		Bits:       le.Uint32(b[72:]),
		Nonce:      le.Uint32(b[76:]),
	}
}

// Bytes returns the header in wire order.
func (h *Header) Bytes() [HeaderBytes]byte {
	b := make([]byte, 0, HeaderBytes)
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(h.Version))
	b = append(b, h.Previous[:]...)
	b = append(b, h.MerkleRoot[:]...)
	b = le.AppendUint32(b, h.Time)
	b = le.AppendUint32(b, h.Bits)
	return [HeaderBytes]byte(le.AppendUint32(b, h.Nonce))
}

// Hash returns the hash of the header.
func (h *Header) Hash() Hash {
	b := h.Bytes()
	return DoubleSHA256(b[:])
}

// Timestamp returns the time of the block.
func (h *Header) Timestamp() time.Time { return time.Unix(int64(h.Time), 0) }

// Work returns the expected number of hashes that the header took; 0 for an invalid target.
func (h *Header) Work() *big.Int {
	target := decodeTarget(h.Bits)
	if target == nil {
		return new(big.Int)
	}
	all := new(big.Int).Lsh(big.NewInt(1), 256)
	return all.Div(all, target.Add(target, big.NewInt(1)))
}

// CheckProofOfWork checks that the target is allowed on the network at all, and that the hash is at most the target.
// Only a [HeaderChain] can check that the target is the one that this height requires.
func (h *Header) CheckProofOfWork(network Network) error { return h.checkHash(h.Hash(), network) }

func (h *Header) checkHash(hash Hash, network Network) error {
	target := decodeTarget(h.Bits)
	if target == nil || target.Cmp(network.limit()) > 0 {
		return InvalidTarget
	}
	slices.Reverse(hash[:])
	if new(big.Int).SetBytes(hash[:]).Cmp(target) > 0 {
		return WrongProofOfWork
	}
	return nil
}

// decodeTarget returns the target of a compact form (Bitcoin Core's arith_uint256::SetCompact); nil if it is negative,
// 0 or longer than 256 bits.
func decodeTarget(bits uint32) *big.Int {
	size, mantissa := int(bits>>24), int64(bits&0x007fffff)
	target := big.NewInt(mantissa)
	if size <= 3 {
		target.Rsh(target, uint(8*(3-size)))
	} else {
		target.Lsh(target, uint(8*(size-3)))
	}
	if bits&0x00800000 != 0 || target.Sign() == 0 || target.BitLen() > 256 {
		return nil
	}
	return target
}

// encodeTarget returns the compact form of a target (Bitcoin Core's arith_uint256::GetCompact).
func encodeTarget(target *big.Int) uint32 {
	size := uint32(target.BitLen()+7) / 8
	mantissa := new(big.Int)
	if size <= 3 {
		mantissa.Lsh(target, uint(8*(3-size)))
	} else {
		mantissa.Rsh(target, uint(8*(size-3)))
	}
	value := uint32(mantissa.Uint64())
	if value&0x00800000 != 0 {
		// The highest bit would be read as the sign.
		value >>= 8
		size++
	}
	return size<<24 | value
}

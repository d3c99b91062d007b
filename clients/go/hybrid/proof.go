package hybrid

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
)

// Header is the header of a block.
type Header struct {
	// Database is the id of the database.
	Database [16]byte
	// Number is the number of the block; 0 is the genesis.
	Number uint64
	// Position is the position of its message in the log.
	Position uint64
	// TimeMs is the time in milliseconds since 1970.
	TimeMs uint64
	// Transactions is the number of requests.
	Transactions uint32
	// Committed is the number of requests that were executed.
	Committed uint32
	// Previous is the hash of the previous block.
	Previous [32]byte
	// TransactionsHash is the hash of the message with the requests.
	TransactionsHash [32]byte
	// TransactionsRoot is the root of RFC 6962's tree over the requests.
	TransactionsRoot [32]byte
	// CodesHash is the hash of the codes of the requests.
	CodesHash [32]byte
	// StateRoot is the root of the map of all data.
	StateRoot [32]byte
	// PaperHash is the paper's hash of the block.
	PaperHash [32]byte
}

func readHeader(b []byte) Header {
	var header layout.BlockHeader
	header.Decode(b)
	return Header(header)
}

// Hash returns the hash of the block.
func (h *Header) Hash() [32]byte {
	header := layout.BlockHeader(*h)
	return keccak256([]byte("lineside/hybrid/block/1"), header.Append(nil))
}

// SignedHead is the statement of a node about a block.
type SignedHead struct {
	// Header is the header of the block.
	Header Header
	// Node is the number of the node.
	Node uint32

	head layout.NodeHead
}

// readSignedHead checks that the statement is about the header.
func readSignedHead(header, head []byte) (*SignedHead, error) {
	if len(header) != layout.BlockHeaderBytes || len(head) != layout.NodeHeadBytes {
		return nil, errMalformed
	}
	s := &SignedHead{Header: readHeader(header)}
	s.head.Decode(head)
	s.Node = s.head.Node
	if s.head.Hash != s.Header.Hash() || s.head.Number != s.Header.Number || s.head.Reserved != 0 {
		return nil, errors.New("hybrid: the node's statement is about another block than the header")
	}
	return s, nil
}

// Verify checks that the node with this key signed the statement. The key is in the genesis: [Genesis.NodeKey].
func (s *SignedHead) Verify(key lineside.PublicKey) error {
	var signature [64]byte
	copy(signature[:32], s.head.R[:])
	copy(signature[32:], s.head.S[:])
	signed := append([]byte("lineside/hybrid/head/1"), s.Header.Database[:]...)
	signed = (&layout.NodeHead{Node: s.head.Node, Number: s.head.Number}).Append(signed)
	// Database, node, number and hash follow each other without the reserved field.
	signed = signed[:len("lineside/hybrid/head/1")+16+4+8]
	signed = append(signed, s.head.Hash[:]...)
	if !key.Verify(digest(key.Curve, signed), signature) {
		return fmt.Errorf("hybrid: the statement about block %d is not signed by %v", s.Header.Number, key)
	}
	return nil
}

var (
	// ErrOtherBlock means that a proof is for another block.
	ErrOtherBlock = errors.New("hybrid: the proof is for another block than the one whose hash was given")
	// ErrNotProven means that a proof does not show the value or the absence of a key: it is for another key, value or
	// block, or it is forged.
	ErrNotProven = errors.New("hybrid: the proof does not show this value, or this absence, of the key")
)

// Proof shows the value of a key at the end of a block, or its absence.
type Proof struct {
	// Header is the header of the block.
	Header Header
	// Version is the version of the value; zero if the key has none.
	Version Version

	path []byte
}

// ParseProof reads a proof, as [Client.Prove] and `lineside hybrid prove` return it. Nothing is shown before
// [Proof.Verify].
func ParseProof(b []byte) (*Proof, error) {
	in := &input{rest: b}
	header := in.take(layout.BlockHeaderBytes)
	version := Version{in.u64(), in.u32()}
	if in.failed {
		return nil, errMalformed
	}
	return &Proof{readHeader(header), version, bytes.Clone(in.rest)}, nil
}

// The ends of a path.
const (
	endEmpty = iota
	endOwn
	endOther
)

// Verify checks that the key had the value, or no value if value is nil, at the end of the block with this hash. The
// caller must know the hash from a source that it trusts, such as a [SignedHead].
//
// Errors: [ErrOtherBlock], [ErrNotProven], or an error of malformed bytes.
func (p *Proof) Verify(blockHash [32]byte, key, value []byte) error {
	if p.Header.Hash() != blockHash {
		return ErrOtherBlock
	}
	if (value == nil) != (p.Version == Version{}) {
		return ErrNotProven
	}
	place := keccak256([]byte("v"), key)
	in := &input{rest: p.path}
	head := int(in.u16())
	end, depth := head>>14, head&(1<<14-1)
	if depth > 256 {
		return errMalformed
	}
	present := in.take((depth + 7) / 8)
	if in.failed {
		return errMalformed
	}
	count := 0
	for i, marks := range present {
		count += bits.OnesCount8(marks)
		if unused := 8*i + 8 - depth; unused > 0 && marks&(1<<unused-1) != 0 {
			return errMalformed
		}
	}
	siblings := in.take(32 * count)
	var node [32]byte
	switch end {
	case endEmpty:
	case endOwn:
		content := keccak256(p.Version.append(nil), value)
		node = keccak256([]byte{0}, place[:], content[:])
	case endOther:
		var other, content [32]byte
		in.bytes(other[:])
		in.bytes(content[:])
		if other == place || sharedBits(&other, &place) < depth {
			return ErrNotProven
		}
		node = keccak256([]byte{0}, other[:], content[:])
	default:
		return errMalformed
	}
	if !in.isWhole() || (end == endOwn) != (value != nil) {
		return ErrNotProven
	}
	// The deepest inner node holds at least two leaves, so that its other side is not empty; below depth 256 there is
	// nothing but the key's own leaf.
	if depth > 0 && !isSet(present, depth-1) || depth == 256 && end != endOwn {
		return errMalformed
	}
	return p.climb(node, &place, present, siblings, depth)
}

// climb hashes from the end of the path to the root.
func (p *Proof) climb(node [32]byte, place *[32]byte, present, siblings []byte, depth int) error {
	for at := depth - 1; at >= 0; at-- {
		var sibling [32]byte
		if isSet(present, at) {
			sibling = [32]byte(siblings[len(siblings)-32:])
			siblings = siblings[:len(siblings)-32]
			if sibling == ([32]byte{}) {
				return errMalformed
			}
		}
		if isSet(place[:], at) {
			node = keccak256([]byte{1}, sibling[:], node[:])
		} else {
			node = keccak256([]byte{1}, node[:], sibling[:])
		}
	}
	if node != p.Header.StateRoot {
		return ErrNotProven
	}
	return nil
}

// isSet returns true if a bit is 1; bit 0 is the most significant one of the first byte.
func isSet(bytes []byte, bit int) bool { return bytes[bit/8]>>(7-bit%8)&1 == 1 }

// sharedBits returns the number of leading bits that two places share.
func sharedBits(one, other *[32]byte) int {
	for i := range one {
		if difference := one[i] ^ other[i]; difference != 0 {
			return 8*i + bits.LeadingZeros8(difference)
		}
	}
	return 256
}

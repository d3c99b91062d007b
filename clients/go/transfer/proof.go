package transfer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"slices"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
)

const (
	// blockDomain is hashed before the head of a block.
	blockDomain = "lineside transfer block 1\x00"
	// blockHeadBytes is the length of a block before its signature.
	blockHeadBytes = 8 + 32 + 32 + 8 + 8 + 16 + 8 + 8
	blockBytes     = blockHeadBytes + 64
	leafBytes      = layout.OperationBytes + 8
)

// Block is the signed head of a sealed block.
type Block struct {
	// Number is the number of the block, from 1.
	Number uint64
	// Previous is the hash of the previous block; zeros for the first one.
	Previous [32]byte
	// Root is the Merkle root (RFC 6962) over the operations.
	Root [32]byte
	// First is the number of the first operation.
	First uint64
	// Count is the number of operations.
	Count uint64
	// Issued is the sum of all issued amounts, which equals the sum of all balances.
	Issued *big.Int
	// Accounts is the number of accounts.
	Accounts uint64
	// Sealed is the server's time when it sealed the block.
	Sealed time.Time

	head      [blockHeadBytes]byte
	signature [64]byte
}

// ParseBlock reads a block, as `--settle-to` writes it and a proof has it.
func ParseBlock(b []byte) (*Block, error) {
	if len(b) != blockBytes {
		return nil, fmt.Errorf("transfer: a block has %d bytes, not %d", blockBytes, len(b))
	}
	// A block is a record of the server's journal, whose numbers are little-endian.
	le := binary.LittleEndian
	issued := [16]byte(b[88:104])
	slices.Reverse(issued[:])
	return &Block{
		Number:    le.Uint64(b),
		Previous:  [32]byte(b[8:40]),
		Root:      [32]byte(b[40:72]),
		First:     le.Uint64(b[72:]),
		Count:     le.Uint64(b[80:]),
		Issued:    new(big.Int).SetBytes(issued[:]),
		Accounts:  le.Uint64(b[104:]),
		Sealed:    time.Unix(int64(le.Uint64(b[112:])), 0),
		head:      [blockHeadBytes]byte(b),
		signature: [64]byte(b[blockHeadBytes:]),
	}, nil
}

// Hash returns the hash that is signed and that the next block contains.
func (b *Block) Hash() [32]byte {
	return sha256.Sum256(append([]byte(blockDomain), b.head[:]...))
}

// IsSignedBy returns true if the key signed the block.
func (b *Block) IsSignedBy(key lineside.PublicKey) bool { return key.Verify(b.Hash(), b.signature) }

// Proof shows that an operation is in a sealed block.
type Proof struct {
	// Operation is the operation.
	Operation Operation
	// Outcome is its outcome.
	Outcome Outcome
	// Block is the block.
	Block *Block

	leaf  [leafBytes]byte
	index uint64
	path  [][32]byte
}

// ParseProof reads a proof, as `lineside transfer prove` prints it, and checks that it is consistent: the path leads to
// the root of the block, and the operation's number is that of its place. It shows nothing about the ledger before
// [Proof.Verify] or [Proof.VerifyHash].
func ParseProof(text []byte) (*Proof, error) {
	var printed struct {
		Operation string   `json:"operation"`
		Index     uint64   `json:"index"`
		Path      []string `json:"path"`
		Block     string   `json:"block"`
		BlockHash string   `json:"block_hash"`
	}
	malformed := func(err error) (*Proof, error) {
		return nil, fmt.Errorf("transfer: this is not a proof as `lineside transfer prove` prints it: %w", err)
	}
	if err := json.Unmarshal(text, &printed); err != nil {
		return malformed(err)
	}
	leaf, err := hex.DecodeString(printed.Operation)
	if err != nil || len(leaf) != leafBytes {
		return malformed(errors.New("wrong operation"))
	}
	head, err := hex.DecodeString(printed.Block)
	if err != nil {
		return malformed(err)
	}
	block, err := ParseBlock(head)
	if err != nil {
		return malformed(err)
	}
	var operation layout.Operation
	operation.Decode(leaf)
	proof := &Proof{
		Operation: readOperation(&operation),
		Outcome: outcomeOf(
			Code(operation.Code), binary.BigEndian.Uint64(leaf[layout.OperationBytes:]), operation.Number,
		),
		Block: block,
		leaf:  [leafBytes]byte(leaf),
		index: printed.Index,
	}
	for _, digits := range printed.Path {
		hash, err := hex.DecodeString(digits)
		if err != nil || len(hash) != 32 {
			return malformed(errors.New("wrong path"))
		}
		proof.path = append(proof.path, [32]byte(hash))
	}
	hash := block.Hash()
	named, err := hex.DecodeString(printed.BlockHash)
	switch {
	case err != nil || !bytes.Equal(named, hash[:]):
		return nil, fmt.Errorf("transfer: the hash of the proof's block is %x, not %s", hash, printed.BlockHash)
	case operation.Number != block.First+proof.index:
		return nil, errors.New("transfer: the operation's number does not match its place in the block")
	case !proof.leadsToRoot():
		return nil, errors.New("transfer: the path does not lead to the block's root")
	}
	return proof, nil
}

// Verify checks that the block is signed by the server's key, which is in the file settlement.pub of its data
// directory: [lineside.ParsePublicKey].
func (p *Proof) Verify(key lineside.PublicKey) error {
	if !p.Block.IsSignedBy(key) {
		return fmt.Errorf("transfer: block %d is not signed by %v", p.Block.Number, key)
	}
	return nil
}

// VerifyHash checks that the block is the one with a hash that is known to be right.
func (p *Proof) VerifyHash(hash [32]byte) error {
	if found := p.Block.Hash(); found != hash {
		return fmt.Errorf("transfer: the proof is of block %x, not of block %x", found, hash)
	}
	return nil
}

// leadsToRoot verifies an audit path: RFC 9162, section 2.1.3.2, for the tree of RFC 6962.
func (p *Proof) leadsToRoot() bool {
	if p.index >= p.Block.Count {
		return false
	}
	hash := sha256.Sum256(append([]byte{0}, p.leaf[:]...))
	node, last := p.index, p.Block.Count-1
	for _, sibling := range p.path {
		if last == 0 {
			return false
		}
		if node&1 == 1 || node == last {
			hash = sha256.Sum256(append(append([]byte{1}, sibling[:]...), hash[:]...))
			// Levels at which the node has no sibling are not in the path.
			if node&1 == 0 {
				skipped := bits.TrailingZeros64(node)
				node, last = node>>skipped, last>>skipped
			}
		} else {
			hash = sha256.Sum256(append(append([]byte{1}, hash[:]...), sibling[:]...))
		}
		node, last = node>>1, last>>1
	}
	return last == 0 && hash == p.Block.Root
}

package spv

import "math/bits"

// ProofError is the reason why a proof is refused. A proof that is refused is the server's fault or an attack: ask
// another server. The numbers are those of the Rust crate lineside-spv-proof and of clients/c/lineside_spv.h.
type ProofError int

// The reasons.
const (
	// IndexOutOfRange: the index is not below the number of transactions.
	IndexOutOfRange ProofError = 1
	// WrongDepth: the path is not as long as the tree of a block with this number of transactions is high.
	WrongDepth ProofError = 2
	// ImpossibleTransactionCount: no block has this number of transactions.
	ImpossibleTransactionCount ProofError = 3
	// EqualSiblings: a node and its sibling are equal where the tree has two nodes (CVE-2012-2459).
	EqualSiblings ProofError = 4
	// MissingDuplicate: the sibling of the last node of an odd row is not that node itself.
	MissingDuplicate ProofError = 5
	// InnerNodeIsTransaction: the 64 bytes of an inner node are a transaction (CVE-2017-12842).
	InnerNodeIsTransaction ProofError = 6
	// TransactionOf64Bytes: the transaction could be an inner node (CVE-2017-12842).
	TransactionOf64Bytes ProofError = 7
	// WrongRoot: the path does not lead to the header's Merkle root.
	WrongRoot ProofError = 8
	// InvalidTarget: the header's target is negative, 0, too long, or easier than the network allows.
	InvalidTarget ProofError = 9
	// WrongProofOfWork: the header's hash is above its target.
	WrongProofOfWork ProofError = 10
	// MalformedTransaction: the bytes are not exactly one transaction.
	MalformedTransaction ProofError = 11
	// NotCoinbase: the transaction that should have the witness commitment is not a coinbase.
	NotCoinbase ProofError = 12
	// NoWitnessCommitment: the coinbase has no output with a witness commitment.
	NoWitnessCommitment ProofError = 13
	// WrongWitnessCommitment: the path of the WTXID does not lead to the root that the coinbase commits to.
	WrongWitnessCommitment ProofError = 14
	// WrongCoinbaseWtxid: the WTXID is 0 at another index than 0, or not 0 at index 0.
	WrongCoinbaseWtxid ProofError = 15
)

var proofErrors = [...]string{
	IndexOutOfRange:            "index out of range",
	WrongDepth:                 "wrong depth",
	ImpossibleTransactionCount: "impossible transaction count",
	EqualSiblings:              "equal siblings",
	MissingDuplicate:           "missing duplicate",
	InnerNodeIsTransaction:     "inner node is transaction",
	TransactionOf64Bytes:       "transaction of 64 bytes",
	WrongRoot:                  "wrong root",
	InvalidTarget:              "invalid target",
	WrongProofOfWork:           "wrong proof of work",
	MalformedTransaction:       "malformed transaction",
	NotCoinbase:                "not coinbase",
	NoWitnessCommitment:        "no witness commitment",
	WrongWitnessCommitment:     "wrong witness commitment",
	WrongCoinbaseWtxid:         "wrong coinbase wtxid",
}

// Name returns the reason as in the test vectors, such as "wrong root".
func (e ProofError) Name() string { return proofErrors[e] }

// Error returns the reason.
func (e ProofError) Error() string { return "spv: the proof is refused: " + e.Name() }

// MaxTransactions is the largest number of transactions of a block: 4,000,000 units of weight, at least 240 for each.
const MaxTransactions = 4_000_000 / 240

// Proof is a proof that a transaction is in a block.
type Proof struct {
	// Header is the header of the block.
	Header Header
	// Height is the height of the block, as the server says.
	Height uint32
	// TransactionCount is the number of transactions in the block.
	TransactionCount uint32
	// Index is the position of the transaction in the block, from 0.
	Index uint32
	// Path has the siblings from the transaction to the root.
	Path []Hash
}

// Verify checks that the transaction is in the block of the header, and that the header has the proof of work that it
// claims. Only [HeaderChain.Verify] can check that the block is in the chain with the most work.
func (p *Proof) Verify(network Network, txid Hash) error {
	if err := checkShape(p.Path, p.Index, p.TransactionCount); err != nil {
		return err
	}
	if err := p.Header.CheckProofOfWork(network); err != nil {
		return err
	}
	return p.VerifyPath(txid)
}

// VerifyPath checks the path alone, for a header that is known to be right.
func (p *Proof) VerifyPath(txid Hash) error {
	root, err := climb(p.Path, txid, p.Index, p.TransactionCount)
	if err != nil {
		return err
	}
	if root != p.Header.MerkleRoot {
		return WrongRoot
	}
	return nil
}

// VerifyTransaction is the strongest check: like Verify, for the bytes of a transaction, whose TXID it returns. It
// refuses a transaction that could also be an inner node of the tree.
func (p *Proof) VerifyTransaction(network Network, raw []byte) (Hash, error) {
	t, err := parseTransaction(raw)
	if err != nil {
		return Hash{}, err
	}
	if t.baseBytes() == 64 {
		return Hash{}, TransactionOf64Bytes
	}
	txid := t.txid()
	return txid, p.Verify(network, txid)
}

// WitnessProof is a proof that a transaction with its witness is in a block (BIP141): the header commits to the
// coinbase, and the coinbase to the tree of WTXIDs.
type WitnessProof struct {
	// Wtxid is the WTXID, as the server says; zeros for a coinbase.
	Wtxid Hash
	// Header is the header of the block.
	Header Header
	// Height is the height of the block, as the server says.
	Height uint32
	// TransactionCount is the number of transactions in the block.
	TransactionCount uint32
	// Index is the position of the transaction in the block, from 0.
	Index uint32
	// Path has the siblings from the WTXID to the witness root.
	Path []Hash
	// Coinbase is the first transaction of the block without its witness.
	Coinbase []byte
	// CoinbasePath has the siblings from the coinbase's TXID to the Merkle root.
	CoinbasePath []Hash
	// WitnessReserved is the only item in the witness of the coinbase.
	WitnessReserved Hash
}

// Verify checks that the transaction with this WTXID is in the block of the header, and that the header has the proof
// of work that it claims. The WTXID of a coinbase is 0.
func (p *WitnessProof) Verify(network Network, wtxid Hash) error {
	if err := checkShape(p.CoinbasePath, 0, p.TransactionCount); err != nil {
		return err
	}
	if err := checkShape(p.Path, p.Index, p.TransactionCount); err != nil {
		return err
	}
	if err := p.Header.CheckProofOfWork(network); err != nil {
		return err
	}
	if (wtxid == Hash{}) != (p.Index == 0) {
		return WrongCoinbaseWtxid
	}
	commitment, err := p.commitment()
	if err != nil {
		return err
	}
	root, err := climb(p.Path, wtxid, p.Index, p.TransactionCount)
	if err != nil {
		return err
	}
	if hashPair(&root, &p.WitnessReserved) != commitment {
		return WrongWitnessCommitment
	}
	return nil
}

// commitment checks the coinbase and returns the hash that it commits to.
func (p *WitnessProof) commitment() (Hash, error) {
	coinbase, err := parseTransaction(p.Coinbase)
	switch {
	case err != nil:
		return Hash{}, err
	case coinbase.hasWitness:
		return Hash{}, MalformedTransaction
	case !coinbase.isCoinbase:
		return Hash{}, NotCoinbase
	case coinbase.baseBytes() == 64:
		return Hash{}, TransactionOf64Bytes
	}
	root, err := climb(p.CoinbasePath, coinbase.txid(), 0, p.TransactionCount)
	if err != nil {
		return Hash{}, err
	}
	if root != p.Header.MerkleRoot {
		return Hash{}, WrongRoot
	}
	commitment, hasOne := coinbase.commitment()
	if !hasOne {
		return Hash{}, NoWitnessCommitment
	}
	return commitment, nil
}

// checkShape checks the parts of a path that need no hash.
func checkShape(path []Hash, index, count uint32) error {
	switch {
	case count == 0 || count > MaxTransactions:
		return ImpossibleTransactionCount
	case len(path) != bits.Len32(count-1):
		return WrongDepth
	case index >= count:
		return IndexOutOfRange
	}
	return nil
}

// climb returns the root that a path leads to from a leaf of a tree with count leaves.
func climb(path []Hash, leaf Hash, index, count uint32) (Hash, error) {
	if err := checkShape(path, index, count); err != nil {
		return Hash{}, err
	}
	node := leaf
	for i := range path {
		sibling := &path[i]
		isRight := index&1 == 1
		isEqual := *sibling == node
		isLastOfOdd := !isRight && index == count-1
		if isLastOfOdd && !isEqual {
			return Hash{}, MissingDuplicate
		}
		if !isLastOfOdd && isEqual {
			return Hash{}, EqualSiblings
		}
		left, right := &node, sibling
		if isRight {
			left, right = right, left
		}
		var bytes [64]byte
		copy(bytes[:32], left[:])
		copy(bytes[32:], right[:])
		if isTransaction(&bytes) {
			return Hash{}, InnerNodeIsTransaction
		}
		node = DoubleSHA256(bytes[:])
		index >>= 1
		count = (count + 1) >> 1
	}
	return node, nil
}

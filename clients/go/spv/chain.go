package spv

import (
	"errors"
	"fmt"
	"math/big"
	"math/bits"
	"sync"
	"time"
)

// DefaultMaxHeaders is the default of [ChainOptions].MaxHeaders, more than the longest of the networks has.
const DefaultMaxHeaders = 6_000_000

// Checkpoint is a block that every chain must have.
type Checkpoint struct {
	// Height is the height of the block.
	Height uint32
	// Hash is the hash of the block.
	Hash Hash
}

// ChainOptions are the options of a [HeaderChain].
type ChainOptions struct {
	// Checkpoints are blocks that the chain must have. Once one is reached, headers that branch off below it are
	// refused.
	Checkpoints []Checkpoint
	// MaxHeaders is the largest number of headers, those of side chains included. 0 means [DefaultMaxHeaders].
	MaxHeaders int
	// Now returns the time, for the rule that a header may be at most two hours ahead. nil means [time.Now].
	Now func() time.Time
}

// ErrUnknownParent means that the parent of a header was never accepted: ask for the headers before it.
var ErrUnknownParent = errors.New("its parent is not known")

// ErrNotInChain means that a header is not in the chain with the most work at the height that a proof names.
var ErrNotInChain = errors.New("it is not in the chain with the most work")

// HeaderError says why a header was refused. Err is a [ProofError], a [*RuleError], [ErrUnknownParent],
// [ErrNotInChain], or another reason in words.
type HeaderError struct {
	// Hash is the hash of the header.
	Hash Hash
	// Index is the number of the header among those that were passed to the call, from 0. Those before it are accepted.
	Index int
	// Err is the reason.
	Err error
}

// Error returns the hash and the reason.
func (e *HeaderError) Error() string { return fmt.Sprintf("spv: header %v: %v", e.Hash, e.Err) }

// Unwrap returns the reason.
func (e *HeaderError) Unwrap() error { return e.Err }

// Tip is the last block of a chain.
type Tip struct {
	// Hash is the hash of its header.
	Hash Hash
	// Height is its height.
	Height uint32
}

// entry is an accepted header.
type entry struct {
	header Header
	hash   Hash
	parent uint32
	height uint32
	// workHigh and workLow are the work of the chain up to the header. All work of the main network up to 2026 is below
	// 2^97.
	workHigh, workLow uint64
}

// HeaderChain is a chain of headers of one network with its side chains. It accepts headers from any source, checks
// them by the rules of the network, and finds the chain with the most work. It is safe for concurrent use.
type HeaderChain struct {
	network Network
	options ChainOptions

	mu      sync.RWMutex
	entries []entry
	byHash  map[Hash]uint32
	// active has the entries of the chain with the most work, by height.
	active []uint32
	store  *store
}

// NewHeaderChain starts a chain with the genesis header of the network. It is kept in memory only.
func NewHeaderChain(network Network, options ChainOptions) *HeaderChain {
	if options.MaxHeaders == 0 {
		options.MaxHeaders = DefaultMaxHeaders
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	genesis := network.Genesis()
	hash := genesis.Hash()
	c := &HeaderChain{
		network: network,
		options: options,
		byHash:  map[Hash]uint32{hash: 0},
		active:  []uint32{0},
	}
	high, low := workOf(genesis.Bits)
	c.entries = append(c.entries, entry{header: genesis, hash: hash, workHigh: high, workLow: low})
	return c
}

// workOf returns the work of a header, as a number of 128 bits.
func workOf(compact uint32) (high, low uint64) {
	header := Header{Bits: compact}
	work := header.Work()
	if work.BitLen() > 128 {
		return ^uint64(0), ^uint64(0)
	}
	low = new(big.Int).And(work, new(big.Int).SetUint64(^uint64(0))).Uint64()
	return work.Rsh(work, 64).Uint64(), low
}

// Accept accepts headers, parents before children, and returns the number of those that were not known before. A file
// of headers has them when this returns; [HeaderChain.Sync] makes them durable.
//
// Errors: a [*HeaderError] for the first header that is refused, or the error of the file. The headers before it stay
// accepted.
func (c *HeaderChain) Accept(headers ...Header) (added int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := uint32(min(c.options.Now().Unix(), 1<<32-1))
	before := len(c.entries)
	for i := range headers {
		if err = c.add(&headers[i], now); err != nil {
			err.(*HeaderError).Index = i
			break
		}
	}
	added = len(c.entries) - before
	if saved := c.store.append(c.entries[before:]); saved != nil {
		return added, saved
	}
	return added, err
}

// add checks a header and adds it, unless it is known.
func (c *HeaderChain) add(header *Header, now uint32) error {
	hash := header.Hash()
	if _, isKnown := c.byHash[hash]; isKnown {
		return nil
	}
	refused := func(err error) error { return &HeaderError{Hash: hash, Err: err} }
	if err := header.checkHash(hash, c.network); err != nil {
		return refused(err)
	}
	parent, isKnown := c.byHash[header.Previous]
	if !isKnown {
		return refused(ErrUnknownParent)
	}
	height := c.entries[parent].height + 1
	if err := c.checkCheckpoints(hash, height); err != nil {
		return refused(err)
	}
	err := checkRules(c.network, ancestor{header.Time, header.Bits}, height-1, now, c.ancestors(parent))
	if err != nil {
		return refused(fmt.Errorf("at height %d: %w", height, err))
	}
	if len(c.entries) >= c.options.MaxHeaders {
		return refused(fmt.Errorf("the chain has %d headers, which is its limit: raise MaxHeaders", len(c.entries)))
	}
	high, low := workOf(header.Bits)
	low, carry := bits.Add64(low, c.entries[parent].workLow, 0)
	high, carry = bits.Add64(high, c.entries[parent].workHigh, carry)
	if carry != 0 {
		high, low = ^uint64(0), ^uint64(0)
	}
	id := uint32(len(c.entries))
	c.entries = append(c.entries, entry{*header, hash, parent, height, high, low})
	c.byHash[hash] = id
	tip := &c.entries[c.active[len(c.active)-1]]
	// Of two chains with equal work the first one stays.
	if high > tip.workHigh || high == tip.workHigh && low > tip.workLow {
		c.activate(id)
	}
	return nil
}

func (c *HeaderChain) checkCheckpoints(hash Hash, height uint32) error {
	for _, checkpoint := range c.options.Checkpoints {
		if checkpoint.Height == height && checkpoint.Hash != hash {
			return fmt.Errorf("the checkpoint at height %d is %v", height, checkpoint.Hash)
		}
		id, isKnown := c.byHash[checkpoint.Hash]
		if isKnown && c.isActive(id) && height < checkpoint.Height {
			return fmt.Errorf("it branches off below the checkpoint at height %d", checkpoint.Height)
		}
	}
	return nil
}

func (c *HeaderChain) isActive(id uint32) bool {
	height := c.entries[id].height
	return int(height) < len(c.active) && c.active[height] == id
}

// activate makes an entry the tip of the chain with the most work.
func (c *HeaderChain) activate(id uint32) {
	var added []uint32
	for ; !c.isActive(id); id = c.entries[id].parent {
		added = append(added, id)
	}
	c.active = c.active[:c.entries[id].height+1]
	for i := range added {
		c.active = append(c.active, added[len(added)-1-i])
	}
}

// ancestors returns the function that finds the ancestor of an entry at a height. Calls with falling heights are quick.
func (c *HeaderChain) ancestors(from uint32) func(uint32) ancestor {
	at := from
	return func(height uint32) ancestor {
		if c.entries[at].height < height {
			at = from
		}
		for c.entries[at].height > height {
			if c.isActive(at) {
				at = c.active[height]
				break
			}
			at = c.entries[at].parent
		}
		return ancestor{c.entries[at].header.Time, c.entries[at].header.Bits}
	}
}

// Network returns the network of the chain.
func (c *HeaderChain) Network() Network { return c.network }

// Len returns the number of headers, those of side chains and the genesis header included.
func (c *HeaderChain) Len() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return len(c.entries)
}

// Tip returns the last header of the chain with the most work.
func (c *HeaderChain) Tip() Tip {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.tip()
}

func (c *HeaderChain) tip() Tip {
	last := &c.entries[c.active[len(c.active)-1]]
	return Tip{last.hash, last.height}
}

// HeaderAt returns the header at a height of the chain with the most work, and false above its tip.
func (c *HeaderChain) HeaderAt(height uint32) (Header, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if int64(height) >= int64(len(c.active)) {
		return Header{}, false
	}
	return c.entries[c.active[height]].header, true
}

// HeightOf returns the height of the header with this hash, and false if it is not in the chain with the most work.
func (c *HeaderChain) HeightOf(hash Hash) (uint32, bool) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	id, isKnown := c.byHash[hash]
	if !isKnown || !c.isActive(id) {
		return 0, false
	}
	return c.entries[id].height, true
}

// isAt returns true if the header is known, in any of the chains, at this height.
func (c *HeaderChain) isAt(header *Header, height uint32) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	id, isKnown := c.byHash[header.Hash()]
	return isKnown && c.entries[id].height == height
}

// Verify checks the path of a proof, and that its header is in the chain with the most work at the height that it
// names. It returns the number of confirmations, at least 1.
//
// Errors: a [*HeaderError] with [ErrNotInChain] or a [ProofError].
func (c *HeaderChain) Verify(proof *Proof, txid Hash) (confirmations uint32, err error) {
	return c.confirmed(&proof.Header, proof.Height, func() error { return proof.VerifyPath(txid) })
}

// VerifyWitness is like Verify, for a proof by WTXID.
func (c *HeaderChain) VerifyWitness(proof *WitnessProof, wtxid Hash) (confirmations uint32, err error) {
	return c.confirmed(&proof.Header, proof.Height, func() error { return proof.Verify(c.network, wtxid) })
}

func (c *HeaderChain) confirmed(header *Header, height uint32, verify func() error) (uint32, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	hash := header.Hash()
	if int64(height) >= int64(len(c.active)) || c.entries[c.active[height]].hash != hash {
		return 0, &HeaderError{Hash: hash, Err: ErrNotInChain}
	}
	if err := verify(); err != nil {
		return 0, &HeaderError{Hash: hash, Err: err}
	}
	return c.tip().Height + 1 - height, nil
}

// Sync makes all accepted headers durable, if the chain has a file.
func (c *HeaderChain) Sync() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.store.sync()
}

// Close makes all accepted headers durable and closes the file.
func (c *HeaderChain) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.store.sync()
	return errors.Join(err, c.store.close())
}

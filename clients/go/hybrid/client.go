// Package hybrid is a client of Lineside's service hybrid, a key-value database with a ledger of every change, in which
// members sign every request.
//
// [Dial] connects over UDP, for requests and answers of up to 1,200 bytes. Package hybridgrpc connects by gRPC, for
// longer ones, for many requests in one call, and for watchers.
//
// A write ends with its place in the ledger, with a refusal ([*RefusedError]), or with a
// [*lineside.OutcomeUnknownError], whose id [Client.Outcome] takes. A [Proof] is verified without a node.
package hybrid

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
)

const (
	// validity is the time for which a request is valid.
	validity = 30 * time.Second
	// laneAttempts is the number of lanes that a write tries, if other processes use the same ones.
	laneAttempts = 8
	// proofAttempts is the number of attempts to get value, proof and head of the same block.
	proofAttempts = 10
	// rangePage is the number of cells that Range asks for at a time.
	rangePage = 100
)

// Transport carries signed requests to a node. UDP and gRPC implement it.
type Transport interface {
	// Read sends a request that only reads. sign returns the request, with a new signature for each transmission,
	// because a read counts only once, too.
	Read(ctx context.Context, op byte, sign func() ([]byte, error)) (*Answer, error)
	// Write sends a request that changes something, and repeats it unchanged. isSent is false only if no copy was sent,
	// or if all copies were refused.
	Write(ctx context.Context, op byte, request []byte) (answer *Answer, isSent bool, err error)
	// Close ends all calls.
	Close() error
}

// Client is a client of one node. It is safe for concurrent use.
type Client struct {
	transport Transport
	identity  Identity
	lanes     *lanes
}

// New returns a client with a transport of its own.
func New(transport Transport, identity Identity) *Client {
	return &Client{transport, identity, newLanes()}
}

// Close ends all calls and closes the connection.
func (c *Client) Close() error { return c.transport.Close() }

// Identity returns who signs the requests.
func (c *Client) Identity() Identity { return c.identity }

// RefusedError says that the node refused a request: nothing was written. [Client.Outcome] explains [CodeUnknown].
type RefusedError struct {
	// Code is the reason.
	Code Code
}

// Error returns the name of the code and its meaning.
func (e *RefusedError) Error() string { return fmt.Sprintf("hybrid: %v: %s", e.Code, e.Code.Meaning()) }

// SignWatch returns a signed request of a watcher of a prefix, for package hybridgrpc.
func (c *Client) SignWatch(prefix []byte) ([]byte, error) {
	lane := c.lanes.acquire()
	defer c.lanes.release(lane)
	return c.sign(lane, watchBody{prefix})
}

func (c *Client) sign(lane *lane, body body) ([]byte, error) {
	now := time.Now()
	return c.identity.sign(body, lane.nonce(now), uint64(now.Add(validity).UnixMilli()))
}

// read sends a read and returns its answer, if it is not a refusal.
func (c *Client) read(ctx context.Context, body body) (*Answer, error) {
	lane := c.lanes.acquire()
	defer c.lanes.release(lane)
	answer, err := c.transport.Read(ctx, body.op(), func() ([]byte, error) { return c.sign(lane, body) })
	if err != nil {
		return nil, err
	}
	if answer.Code != CodeDone && answer.Version == nil {
		return nil, &RefusedError{answer.Code}
	}
	return answer, nil
}

// Placed is the place of a request in the ledger.
type Placed struct {
	// ID is the id of the transaction.
	ID ID
	// Version is the place.
	Version Version
	// Code is [CodeDone], or [CodeRecorded] for a change that needs more votes. Of [Client.Outcome], it may be any
	// code. Together with an error, it is the code of the refusal; [CodeOutcomeUnknown] if the outcome is unknown; or
	// [CodeNotExecuted] if the node has not executed the request.
	Code Code
}

// write sends a write. If another process uses the same lane, the request had no effect, and it is signed again for
// another lane.
func (c *Client) write(ctx context.Context, body body) (Placed, error) {
	for attempt := 1; ; attempt++ {
		lane := c.lanes.acquire()
		request, err := c.sign(lane, body)
		if err != nil {
			c.lanes.release(lane)
			return Placed{Code: CodeNotExecuted}, err
		}
		id := idOf(request)
		answer, isSent, err := c.transport.Write(ctx, body.op(), request)
		if err == nil && answer.Code == CodeNonceUsed && attempt < laneAttempts {
			// The lane is not used again.
			continue
		}
		c.lanes.release(lane)
		switch {
		case err != nil && isSent:
			return Placed{ID: id, Code: CodeOutcomeUnknown}, &lineside.OutcomeUnknownError{Service: "hybrid", ID: id.String(), Err: err}
		case err != nil:
			return Placed{ID: id, Code: CodeNotExecuted}, err
		case answer.leavesOpen():
			err := &RefusedError{answer.Code}
			return Placed{ID: id, Code: CodeOutcomeUnknown}, &lineside.OutcomeUnknownError{Service: "hybrid", ID: id.String(), Err: err}
		case answer.Code != CodeDone && answer.Code != CodeRecorded:
			placed := Placed{ID: id, Code: answer.Code}
			if answer.Version != nil {
				placed.Version = *answer.Version
			}
			return placed, &RefusedError{answer.Code}
		}
		return Placed{id, *answer.Version, answer.Code}, nil
	}
}

// leavesOpen returns true if the answer to a write does not say if it was executed.
func (a *Answer) leavesOpen() bool {
	isWritten := a.Code == CodeDone || a.Code == CodeRecorded
	return a.Code == CodeOutcomeUnknown || a.Code > CodeOldVersion || isWritten && a.Version == nil
}

// Write executes a transaction.
//
// Errors: a [*RefusedError], with [CodeConflict] if a key has another version than the one that was read; a
// [*lineside.OutcomeUnknownError]; and the others of package lineside.
func (c *Client) Write(ctx context.Context, transaction *Transaction) (Placed, error) {
	return c.write(ctx, transaction)
}

// Set gives a key a value.
func (c *Client) Set(ctx context.Context, key, value []byte) (Placed, error) {
	return c.write(ctx, &Transaction{Writes: []Write{{Key: key, Value: value}}})
}

// SetIf gives a key a value if it still has this version; the zero version means that it has no value.
func (c *Client) SetIf(ctx context.Context, key []byte, version Version, value []byte) (Placed, error) {
	return c.write(ctx, &Transaction{Reads: []Read{{key, version}}, Writes: []Write{{Key: key, Value: value}}})
}

// Delete removes the value of a key.
func (c *Client) Delete(ctx context.Context, key []byte) (Placed, error) {
	return c.write(ctx, &Transaction{Writes: []Write{{Key: key, IsDelete: true}}})
}

// Change asks for a change of members, keys, rules, nodes or the quorum. It takes effect when enough admins have asked
// for the same change until the same time.
func (c *Client) Change(ctx context.Context, change Change, until time.Time) (Placed, error) {
	return c.write(ctx, changeBody{until, change})
}

// Outcome returns the place and the code of a transaction.
//
// Errors: a [*RefusedError] with [CodeUnknown] if the ledger has no such transaction, and a
// [*lineside.OutcomeUnknownError] if the node does not know yet: ask again later. [CodeUnknown] is final only after the
// request has expired by the clock of the node, 30 seconds after it was signed; until then the request may still arrive.
func (c *Client) Outcome(ctx context.Context, id ID) (Placed, error) {
	// The zero value of the code would mean that the transaction was executed.
	open := Placed{ID: id, Code: CodeOutcomeUnknown}
	answer, err := c.read(ctx, outcomeBody{id})
	var refused *RefusedError
	if errors.As(err, &refused) && (&Answer{Code: refused.Code}).leavesOpen() {
		return open, &lineside.OutcomeUnknownError{Service: "hybrid", ID: id.String(), Err: err}
	}
	if refused != nil && refused.Code == CodeUnknown {
		return Placed{ID: id, Code: CodeUnknown}, err
	}
	if err != nil {
		return open, err
	}
	if answer.Version == nil {
		return open, errMalformed
	}
	return Placed{id, *answer.Version, answer.Code}, nil
}

// Get returns the cell of each key, in the order of the keys; nil for a key without a value. It shows the writes that
// this node has executed.
func (c *Client) Get(ctx context.Context, keys ...[]byte) ([]*Cell, error) {
	return c.get(ctx, false, keys)
}

// GetLinearizable is like [Client.Get]. It shows all writes that any node has acknowledged before.
func (c *Client) GetLinearizable(ctx context.Context, keys ...[]byte) ([]*Cell, error) {
	return c.get(ctx, true, keys)
}

func (c *Client) get(ctx context.Context, isLinearizable bool, keys [][]byte) ([]*Cell, error) {
	sorted := slices.Clone(keys)
	slices.SortFunc(sorted, bytes.Compare)
	sorted = slices.CompactFunc(sorted, bytes.Equal)
	answer, err := c.read(ctx, getBody{isLinearizable, sorted})
	if err != nil {
		return nil, err
	}
	if len(answer.Cells) != len(sorted) {
		return nil, errMalformed
	}
	cells := make([]*Cell, len(keys))
	for i, key := range keys {
		at, _ := slices.BinarySearchFunc(sorted, key, bytes.Compare)
		cells[i] = answer.Cells[at]
	}
	return cells, nil
}

// RangePage returns at most limit cells of the keys from start on and below stop, in ascending order. An empty stop
// means the end. more says that further cells follow.
func (c *Client) RangePage(ctx context.Context, start, stop []byte, limit uint32) (cells []KeyCell, more bool, err error) {
	answer, err := c.read(ctx, rangeBody{false, start, stop, limit})
	if err != nil {
		return nil, false, err
	}
	return answer.Range, answer.More, nil
}

// Range returns all cells of the keys from start on and below stop, in ascending order, page by page. An empty stop
// means the end. An error is the last element. Over UDP, pages become smaller until they fit a datagram.
func (c *Client) Range(ctx context.Context, start, stop []byte) iter.Seq2[KeyCell, error] {
	return func(yield func(KeyCell, error) bool) {
		limit := uint32(rangePage)
		for {
			cells, more, err := c.RangePage(ctx, start, stop, limit)
			var refused *RefusedError
			if errors.As(err, &refused) && refused.Code == CodeTooLarge && limit > 1 {
				limit /= 2
				continue
			}
			if err == nil && more && len(cells) == 0 {
				err = errMalformed
			}
			if err != nil {
				yield(KeyCell{}, err)
				return
			}
			for _, cell := range cells {
				if !yield(cell, nil) {
					return
				}
			}
			if !more {
				return
			}
			// The key that follows the last one.
			start = append(bytes.Clone(cells[len(cells)-1].Key), 0)
		}
	}
}

// History returns at most limit writes of a key, the newest first. With a version other than zero, only older writes
// are returned. more says that older ones exist.
func (c *Client) History(ctx context.Context, key []byte, limit uint32, before Version) (past []PastWrite, more bool, err error) {
	answer, err := c.read(ctx, historyBody{key, limit, before})
	if err != nil {
		return nil, false, err
	}
	return answer.History, answer.More, nil
}

// Head returns the newest block's header with the node's signature, which is not verified here: [SignedHead.Verify].
func (c *Client) Head(ctx context.Context) (*SignedHead, error) {
	answer, err := c.read(ctx, headBody{})
	if err != nil {
		return nil, err
	}
	return readSignedHead(answer.Header, answer.Head)
}

// Prove returns the bytes of a proof of the value of a key in the newest block, or of its absence: [ParseProof].
func (c *Client) Prove(ctx context.Context, key []byte) ([]byte, error) {
	answer, err := c.read(ctx, proveBody{key})
	if err != nil {
		return nil, err
	}
	return answer.Proof, nil
}

// Proven is the value of a key with its proof, and the statement of the node about the block.
type Proven struct {
	// Value is the value; nil if the key has none.
	Value []byte
	// Proof is the proof, which leads to the header of Head. Verify Head with the node's key to trust it.
	Proof *Proof
	// Head is the node's statement.
	Head *SignedHead
}

// ProveValue returns the value of a key with its proof, all of the same block. The proof is verified against the
// header; the caller verifies the header: [SignedHead.Verify].
func (c *Client) ProveValue(ctx context.Context, key []byte) (*Proven, error) {
	for range proofAttempts {
		cells, err := c.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		proven := &Proven{}
		if cells[0] != nil {
			proven.Value = cells[0].Value
		}
		text, err := c.Prove(ctx, key)
		if err != nil {
			return nil, err
		}
		if proven.Proof, err = ParseProof(text); err != nil {
			return nil, err
		}
		if proven.Head, err = c.Head(ctx); err != nil {
			return nil, err
		}
		if proven.Proof.Header != proven.Head.Header {
			// A new block came between the requests.
			continue
		}
		err = proven.Proof.Verify(proven.Head.Header.Hash(), key, proven.Value)
		if err == nil {
			return proven, nil
		}
		if !errors.Is(err, ErrNotProven) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("hybrid: new blocks interrupted the proof %d times: try again when there are fewer writes", proofAttempts)
}

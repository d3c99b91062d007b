// Package spv is a client of Lineside's service spv, which finds the blocks of Bitcoin transactions and proves with
// Merkle paths that the blocks contain them.
//
// The answers of [Client.Root] and [Client.Roots] are statements of the server. A [Proof] can be checked: its path
// leads to a block header, and a [HeaderChain] of the client's own knows which headers are in the chain with the most
// work.
package spv

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/transport"
)

const (
	// firstPause is the time after which a request is sent again for the first time.
	firstPause = 20 * time.Millisecond
	// proofRoom is the number of hashes that the first request for a proof has room for: enough for 4,096 transactions.
	proofRoom = 12
	// window is the number of requests of one call that wait for their replies at the same time.
	window = 256
)

// RootsMax is the maximum number of transactions of [Client.Roots].
const RootsMax = layout.SpvRootsMax

// HeadersMax is the maximum number of headers of [Client.Headers].
const HeadersMax = layout.SpvHeadersMax

// HeightUnknown is the height of a block whose parents the server does not know.
const HeightUnknown = layout.SpvHeightUnknown

var (
	// ErrNotFound means that no block in the server's chain holds the transaction.
	ErrNotFound = errors.New("spv: no connected block holds the transaction")
	// ErrTooLong means that the proof is longer than a packet can be. For a witness proof, verify the transaction by
	// its TXID alone.
	ErrTooLong = errors.New("spv: the proof does not fit a packet")
)

// Location is the place of a transaction in the chain.
type Location struct {
	// Root is the Merkle root of the block.
	Root Hash
	// Block is the hash of the block.
	Block Hash
	// Height is the height of the block, or [HeightUnknown].
	Height uint32
}

// Client is a client of one server. It is safe for concurrent use: any number of requests can wait for their replies.
type Client struct {
	conn    *transport.Conn
	options *lineside.Options
}

// Dial returns a client of the server at HOST or HOST:PORT. It sends nothing; a server that does not answer is noticed
// by the first request. The options may be nil.
func Dial(ctx context.Context, address string, options *lineside.Options) (*Client, error) {
	conn, err := transport.DialUDP(ctx, transport.WithPort(address, layout.SpvPort), options)
	if err != nil {
		return nil, err
	}
	return &Client{conn, options}, nil
}

// Close ends all calls and closes the socket.
func (c *Client) Close() error { return c.conn.Close() }

// Resent returns the number of requests that were sent again.
func (c *Client) Resent() uint64 { return c.conn.Resent() }

// ask sends a request. read returns false for a malformed reply, which is ignored.
func (c *Client) ask(ctx context.Context, packet []byte, read func(lineside.Status, []byte) (bool, error)) error {
	var failure error
	_, err := c.conn.Exchange(ctx, &transport.Request{
		Packet: packet,
		Pause:  firstPause,
		Accept: func(reply transport.Reply) transport.Verdict {
			switch {
			case reply.Status == lineside.StatusBusy:
				return transport.Busy
			case len(reply.Body) == 0 && reply.Status != lineside.StatusOK:
				failure = &lineside.StatusError{Server: c.conn.Server(), Status: reply.Status}
				return transport.Done
			}
			isWellFormed, err := read(reply.Status, reply.Body)
			if !isWellFormed {
				return transport.Ignore
			}
			failure = err
			return transport.Done
		},
	})
	if err != nil {
		return err
	}
	return failure
}

// refused returns the error of a status without a result.
func (c *Client) refused(status lineside.Status) error {
	return &lineside.StatusError{Server: c.conn.Server(), Status: status}
}

// Root returns the location of a transaction, and the tip of the chain for which it is valid.
//
// Errors: [ErrNotFound], with the tip, and those of package lineside.
func (c *Client) Root(ctx context.Context, txid Hash) (Location, Tip, error) {
	var location Location
	var tip Tip
	packet := transport.NewPacket(layout.SpvOpRoot, layout.RootReplyBytes)
	packet = append(packet, txid[:]...)[:cap(packet)]
	err := c.ask(ctx, packet, func(status lineside.Status, body []byte) (bool, error) {
		if len(body) != layout.RootReplyBytes {
			return false, nil
		}
		var reply layout.RootReply
		reply.Decode(body)
		tip = Tip{reply.TipHash, reply.TipHeight}
		switch status {
		case lineside.StatusOK:
			location = Location{reply.Root, reply.BlockHash, reply.Height}
			return true, nil
		case lineside.StatusUnknown:
			return true, ErrNotFound
		}
		return false, nil
	})
	return location, tip, err
}

// Roots returns the locations of 1 to [RootsMax] transactions, in their order; nil for a transaction that no connected
// block holds. All are valid for one tip.
func (c *Client) Roots(ctx context.Context, txids ...Hash) ([]*Location, Tip, error) {
	if len(txids) == 0 || len(txids) > RootsMax {
		return nil, Tip{}, fmt.Errorf("spv: %d transactions in one request: 1 to %d are possible", len(txids), RootsMax)
	}
	packet := transport.NewPacket(layout.SpvOpRoots, layout.RootsHeadBytes+len(txids)*layout.RootItemBytes)
	packet = (&layout.RootsHead{Count: uint32(len(txids))}).Append(packet)
	for _, txid := range txids {
		packet = (&layout.RootItem{Root: txid}).Append(packet)
	}
	locations := make([]*Location, len(txids))
	var tip Tip
	err := c.ask(ctx, packet, func(status lineside.Status, body []byte) (bool, error) {
		if status != lineside.StatusOK || len(body) != len(packet)-layout.NativeHeaderBytes {
			return false, nil
		}
		var head layout.RootsHead
		head.Decode(body)
		if int(head.Count) != len(txids) {
			return false, nil
		}
		tip = Tip{head.TipHash, head.TipHeight}
		for i := range locations {
			var item layout.RootItem
			item.Decode(body[layout.RootsHeadBytes+i*layout.RootItemBytes:])
			switch lineside.Status(item.Status) {
			case lineside.StatusOK:
				locations[i] = &Location{item.Root, item.BlockHash, item.Height}
			case lineside.StatusUnknown:
				locations[i] = nil
			default:
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, Tip{}, err
	}
	return locations, tip, nil
}

// RootOfEach asks for the location of every transaction, many at a time, and calls each with the index of the
// transaction and its answer, as [Client.Root] returns it. The order of these calls is not that of the transactions,
// and there is one call at a time. It returns the first error other than [ErrNotFound].
func (c *Client) RootOfEach(ctx context.Context, txids []Hash, each func(index int, location Location, tip Tip, err error)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	next := 0
	var workers sync.WaitGroup
	for range min(window, len(txids)) {
		workers.Go(func() {
			mu.Lock()
			defer mu.Unlock()
			for next < len(txids) && ctx.Err() == nil {
				index := next
				next++
				mu.Unlock()
				location, tip, err := c.Root(ctx, txids[index])
				mu.Lock()
				if err != nil && !errors.Is(err, ErrNotFound) {
					cancel(err)
					return
				}
				each(index, location, tip, err)
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// Proof returns the proof of a transaction, and the tip of the chain for which it is valid. The proof is not verified:
// pass it to [HeaderChain.Verify].
//
// Errors: [ErrNotFound], with the tip; [ErrTooLong]; and those of package lineside.
func (c *Client) Proof(ctx context.Context, txid Hash) (*Proof, Tip, error) {
	for room := proofRoom; ; {
		proof, tip, depth, err := c.proof(ctx, txid, room)
		if errors.Is(err, ErrTooLong) && depth > room && depth <= layout.SpvProofDepthMax {
			room = depth
			continue
		}
		return proof, tip, err
	}
}

// proof asks with room for this number of hashes. It also returns the number of hashes of the path.
func (c *Client) proof(ctx context.Context, txid Hash, room int) (*Proof, Tip, int, error) {
	packet := transport.NewPacket(layout.SpvOpProof, layout.ProofReplyBytes+room*len(Hash{}))
	packet = append(packet, txid[:]...)[:cap(packet)]
	var proof *Proof
	var tip Tip
	var depth int
	err := c.ask(ctx, packet, func(status lineside.Status, body []byte) (bool, error) {
		if len(body) != len(packet)-layout.NativeHeaderBytes {
			return false, nil
		}
		var reply layout.ProofReply
		reply.Decode(body)
		depth = int(min(reply.Depth, 1<<16))
		switch {
		case status == lineside.StatusOK && depth <= room:
			proof = &Proof{
				Header:           ParseHeader(reply.Header),
				Height:           reply.Height,
				TransactionCount: reply.Transactions,
				Index:            reply.Index,
				Path:             readHashes(body[layout.ProofReplyBytes:], depth),
			}
			tip = Tip{reply.TipHash, reply.TipHeight}
			return true, nil
		case status == lineside.StatusUnknown:
			tip = Tip{reply.TipHash, reply.TipHeight}
			return true, ErrNotFound
		case status == lineside.StatusTooLong && depth > room:
			return true, ErrTooLong
		}
		return false, nil
	})
	return proof, tip, depth, err
}

func readHashes(bytes []byte, count int) []Hash {
	hashes := make([]Hash, count)
	for i := range hashes {
		hashes[i] = Hash(bytes[32*i : 32*i+32])
	}
	return hashes
}

// WitnessProof returns the proof of the WTXID of the transaction with this TXID. The proof is not verified: pass it to
// [HeaderChain.VerifyWitness]. It does not show that the WTXID belongs to the TXID: compare header and index with those
// of a [Proof] of the TXID.
//
// Errors: [ErrNotFound], with the tip; [ErrTooLong]; a [*lineside.StatusError] with [lineside.StatusNotKept] if the
// server has no witness data, or with [lineside.StatusNoCommitment] if the block commits to no witnesses; and the
// others of package lineside.
func (c *Client) WitnessProof(ctx context.Context, txid Hash) (*WitnessProof, Tip, error) {
	return c.witness(ctx, layout.SpvOpWitnessProof, txid)
}

// WtxidProof is like [Client.WitnessProof], by the WTXID alone.
func (c *Client) WtxidProof(ctx context.Context, wtxid Hash) (*WitnessProof, Tip, error) {
	return c.witness(ctx, layout.SpvOpWtxidProof, wtxid)
}

func (c *Client) witness(ctx context.Context, op byte, id Hash) (*WitnessProof, Tip, error) {
	// The length of the coinbase is not known in advance, so that the request has the maximum length.
	packet := transport.NewPacket(op, layout.WitnessReplyBytes+layout.SpvWitnessRoomMax)
	packet = append(packet, id[:]...)[:cap(packet)]
	var proof *WitnessProof
	var tip Tip
	err := c.ask(ctx, packet, func(status lineside.Status, body []byte) (bool, error) {
		if len(body) != len(packet)-layout.NativeHeaderBytes {
			return false, nil
		}
		var reply layout.WitnessReply
		reply.Decode(body)
		tip = Tip{reply.TipHash, reply.TipHeight}
		needed := 64*uint64(reply.Depth) + uint64(reply.CoinbaseBytes)
		switch status {
		case lineside.StatusOK:
			proof = readWitness(&reply, body[layout.WitnessReplyBytes:], needed)
			return proof != nil, nil
		case lineside.StatusUnknown:
			return true, ErrNotFound
		case lineside.StatusTooLong:
			return needed > layout.SpvWitnessRoomMax, ErrTooLong
		case lineside.StatusNotKept, lineside.StatusNoCommitment:
			return true, c.refused(status)
		}
		return false, nil
	})
	return proof, tip, err
}

// readWitness returns the proof in a reply, and nil if it is malformed.
func readWitness(reply *layout.WitnessReply, rest []byte, needed uint64) *WitnessProof {
	if needed > uint64(len(rest)) {
		return nil
	}
	for _, padding := range rest[needed:] {
		if padding != 0 {
			return nil
		}
	}
	depth := int(reply.Depth)
	return &WitnessProof{
		Wtxid:            reply.Wtxid,
		Header:           ParseHeader(reply.Header),
		Height:           reply.Height,
		TransactionCount: reply.Transactions,
		Index:            reply.Index,
		Path:             readHashes(rest, depth),
		CoinbasePath:     readHashes(rest[32*depth:], depth),
		Coinbase:         append([]byte(nil), rest[64*depth:needed]...),
		WitnessReserved:  reply.WitnessReserved,
	}
}

// Headers returns up to count headers, 1 to [HeadersMax], from the height start on; fewer if the chain ends there. They
// are not verified: pass them to [HeaderChain.Accept].
func (c *Client) Headers(ctx context.Context, start uint32, count int) ([]Header, Tip, error) {
	if count < 1 || count > HeadersMax {
		return nil, Tip{}, fmt.Errorf("spv: %d headers in one request: 1 to %d are possible", count, HeadersMax)
	}
	packet := transport.NewPacket(layout.SpvOpHeaders, layout.HeadersHeadBytes+count*HeaderBytes)
	packet = append(packet, byte(start>>24), byte(start>>16), byte(start>>8), byte(start), 0, 0, 0, byte(count))
	packet = packet[:cap(packet)]
	var headers []Header
	var tip Tip
	err := c.ask(ctx, packet, func(status lineside.Status, body []byte) (bool, error) {
		if status != lineside.StatusOK || len(body) != len(packet)-layout.NativeHeaderBytes {
			return false, nil
		}
		var head layout.HeadersHead
		head.Decode(body)
		if head.Start != start || int64(head.Count) > int64(count) {
			return false, nil
		}
		tip = Tip{head.TipHash, head.TipHeight}
		headers = make([]Header, head.Count)
		for i := range headers {
			headers[i] = ParseHeader([HeaderBytes]byte(body[layout.HeadersHeadBytes+i*HeaderBytes:]))
		}
		return true, nil
	})
	return headers, tip, err
}

// PaperRoot returns the Merkle root of the block that holds a transaction, by the format of the paper that the service
// follows: 32 bytes are answered with 32 bytes.
func (c *Client) PaperRoot(ctx context.Context, txid Hash) (Hash, error) {
	var root Hash
	accept := func(reply []byte) transport.Verdict {
		if len(reply) != layout.SpvPaperReplyBytes {
			return transport.Ignore
		}
		root = Hash(reply)
		return transport.Done
	}
	if err := transport.Plain(ctx, c.conn.Server(), txid[:], false, c.options, accept); err != nil {
		return Hash{}, err
	}
	if root == (Hash{}) {
		return Hash{}, ErrNotFound
	}
	return root, nil
}

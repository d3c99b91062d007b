package spv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/vectors"
)

// again makes the request of a vector with the client and encodes the result as the body of a reply. It returns false
// for a request that the client cannot make.
func again(t *testing.T, client *Client, request, reply []byte) (body []byte, isMade bool) {
	t.Helper()
	ctx := t.Context()
	asked := request[16:]
	status := lineside.Status(binary.BigEndian.Uint16(reply[4:]))
	expectError := func(err error) {
		t.Helper()
		var refused *lineside.StatusError
		isRefused := errors.As(err, &refused)
		switch {
		case status == lineside.StatusOK && err == nil:
		case status == lineside.StatusUnknown && errors.Is(err, ErrNotFound):
		case status == lineside.StatusTooLong && errors.Is(err, ErrTooLong):
		case isRefused && refused.Status == status:
		default:
			t.Errorf("status %v is the error %v", status, err)
		}
	}
	switch request[3] {
	case layout.SpvOpRoot:
		if len(asked) != layout.RootReplyBytes {
			return nil, false
		}
		location, tip, err := client.Root(ctx, Hash(asked[:32]))
		expectError(err)
		return (&layout.RootReply{
			Root: location.Root, BlockHash: location.Block, Height: location.Height, TipHash: tip.Hash, TipHeight: tip.Height,
		}).Append(nil), true
	case layout.SpvOpRoots:
		if len(asked) < layout.RootsHeadBytes {
			return nil, false
		}
		count := int(binary.BigEndian.Uint32(asked[36:]))
		if count < 1 || count > RootsMax || len(asked) != layout.RootsHeadBytes+count*layout.RootItemBytes {
			return nil, false
		}
		var txids []Hash
		for i := range count {
			txids = append(txids, Hash(asked[layout.RootsHeadBytes+i*layout.RootItemBytes:][:32]))
		}
		locations, tip, err := client.Roots(ctx, txids...)
		expectError(err)
		body = (&layout.RootsHead{TipHash: tip.Hash, TipHeight: tip.Height, Count: uint32(len(locations))}).Append(nil)
		for _, location := range locations {
			item := layout.RootItem{Status: uint32(lineside.StatusUnknown)}
			if location != nil {
				item = layout.RootItem{Root: location.Root, BlockHash: location.Block, Height: location.Height}
			}
			body = item.Append(body)
		}
		return body, true
	case layout.SpvOpProof:
		room := (len(asked) - layout.ProofReplyBytes) / 32
		if len(asked) != layout.ProofReplyBytes+32*max(room, 0) {
			return nil, false
		}
		proof, tip, _, err := client.proof(ctx, Hash(asked[:32]), room)
		expectError(err)
		if proof == nil {
			return reply[16:], true
		}
		body = (&layout.ProofReply{
			Header: proof.Header.Bytes(), Height: proof.Height, Transactions: proof.TransactionCount, Index: proof.Index,
			Depth: uint32(len(proof.Path)), TipHash: tip.Hash, TipHeight: tip.Height,
		}).Append(nil)
		for _, hash := range proof.Path {
			body = append(body, hash[:]...)
		}
		return append(body, make([]byte, len(asked)-len(body))...), true
	case layout.SpvOpWitnessProof, layout.SpvOpWtxidProof:
		if len(asked) != layout.WitnessReplyBytes+layout.SpvWitnessRoomMax {
			return nil, false
		}
		proof, tip, err := client.witness(ctx, request[3], Hash(asked[:32]))
		expectError(err)
		if proof == nil {
			return reply[16:], true
		}
		body = (&layout.WitnessReply{
			Header: proof.Header.Bytes(), Height: proof.Height, Transactions: proof.TransactionCount, Index: proof.Index,
			Depth: uint32(len(proof.Path)), TipHash: tip.Hash, TipHeight: tip.Height,
			CoinbaseBytes: uint32(len(proof.Coinbase)), Wtxid: proof.Wtxid, WitnessReserved: proof.WitnessReserved,
		}).Append(nil)
		for _, hash := range slices.Concat(proof.Path, proof.CoinbasePath) {
			body = append(body, hash[:]...)
		}
		body = append(body, proof.Coinbase...)
		return append(body, make([]byte, len(asked)-len(body))...), true
	case layout.SpvOpHeaders:
		if len(asked) < 8 {
			return nil, false
		}
		start, count := binary.BigEndian.Uint32(asked), int(binary.BigEndian.Uint32(asked[4:]))
		if count < 1 || count > HeadersMax || len(asked) != layout.HeadersHeadBytes+count*HeaderBytes {
			return nil, false
		}
		headers, tip, err := client.Headers(ctx, start, count)
		expectError(err)
		body = (&layout.HeadersHead{
			TipHash: tip.Hash, TipHeight: tip.Height, Start: start, Count: uint32(len(headers)),
		}).Append(nil)
		for i := range headers {
			header := headers[i].Bytes()
			body = append(body, header[:]...)
		}
		return append(body, make([]byte, len(asked)-len(body))...), true
	}
	return nil, false
}

func TestRequestsAndRepliesAreThoseOfTheVectors(t *testing.T) {
	server := vectors.Serve(t)
	client, err := Dial(t.Context(), server.Address(), &lineside.Options{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	made := map[byte]int{}
	for name, file := range vectors.ReadAll(t, "spv") {
		for _, vector := range file.Lists["vector"] {
			request, reply := vector.Bytes("request"), vector.Bytes("reply")
			if len(request) < 16 || len(reply) < 16 || string(request[:3]) != "LS\x01" {
				continue
			}
			if lineside.Status(binary.BigEndian.Uint16(reply[4:])) == lineside.StatusBadRequest {
				// The vector is a request that a client never makes.
				continue
			}
			// Any bytes are allowed as padding; the client sends zeros.
			if request[3] == layout.SpvOpProof || request[3] > layout.SpvOpHeaders {
				clear(request[min(48, len(request)):])
			} else if request[3] == layout.SpvOpHeaders {
				clear(request[min(24, len(request)):])
			}
			server.Expect(request, reply)
			body, isMade := again(t, client, request, reply)
			if !isMade {
				continue
			}
			made[request[3]]++
			if other := server.Other(); other != nil {
				t.Errorf("%s, %s: the client sent\n%x, not\n%x", name, vector.Text("what"), other, request)
			}
			if len(reply) > 16 && !bytes.Equal(body, reply[16:]) {
				t.Errorf("%s, %s: the client read\n%x from\n%x", name, vector.Text("what"), body, reply[16:])
			}
		}
	}
	for op := byte(layout.SpvOpRoot); op <= layout.SpvOpWtxidProof; op++ {
		if made[op] < 2 {
			t.Errorf("%d vectors have operation %d", made[op], op)
		}
	}
	t.Logf("requests by operation: %v", made)
}

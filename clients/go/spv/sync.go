package spv

import (
	"context"
	"errors"
	"fmt"
)

// syncRequests is the number of requests for headers that Sync sends at the same time.
const syncRequests = 16

// Sync fetches the headers that the chain lacks and returns the number of new ones. If the server is on another branch,
// Sync goes back until its headers follow one of the chain. The chain decides which branch has the most work; a server
// that sends false headers can only keep new ones from the client.
func (c *Client) Sync(ctx context.Context, chain *HeaderChain) (added int, err error) {
	genesis, _, err := c.Headers(ctx, 0, 1)
	if err != nil {
		return 0, err
	}
	if own := chain.Network().Genesis(); len(genesis) == 1 && genesis[0] != own {
		return 0, fmt.Errorf("spv: %s serves another network than %v: the server's first block is %v, not %v",
			c.conn.Server(), chain.Network(), genesis[0].Hash(), own.Hash())
	}
	start, back := chain.Tip().Height+1, uint32(1)
	for {
		headers, err := c.headersFrom(ctx, start)
		if err != nil {
			return added, err
		}
		if len(headers) == 0 && back == 1 {
			break
		}
		new, err := chain.Accept(headers...)
		added += new
		if err == nil && len(headers) > 0 && !chain.isAt(&headers[0], start) {
			// Without this check, a server could send old headers without an end.
			return added, fmt.Errorf("spv: %s sent another header than that of height %d", c.conn.Server(), start)
		}
		var refused *HeaderError
		switch {
		case err == nil:
			if len(headers) == 0 {
				return added, chain.Sync()
			}
			start, back = start+uint32(len(headers)), 1
		case errors.As(err, &refused) && refused.Index == 0 && errors.Is(err, ErrUnknownParent) && start > 1:
			start = max(start, back+1) - back
			back = min(2*back, 1<<20)
		case errors.As(err, &refused) && refused.Index > 0 && errors.Is(err, ErrUnknownParent):
			// The server's chain changed between two of the replies.
			start, back = start+uint32(refused.Index), 1
		default:
			return added, err
		}
	}
	return added, chain.Sync()
}

// headersFrom fetches headers with several requests at a time, up to the first gap or to the end of the chain.
func (c *Client) headersFrom(ctx context.Context, start uint32) ([]Header, error) {
	type answer struct {
		headers []Header
		err     error
	}
	var answers [syncRequests]chan answer
	for i := range answers {
		answers[i] = make(chan answer, 1)
		go func() {
			headers, _, err := c.Headers(ctx, start+uint32(i*HeadersMax), HeadersMax)
			answers[i] <- answer{headers, err}
		}()
	}
	var all []Header
	var failure error
	isWhole := true
	for i := range answers {
		answer := <-answers[i]
		if failure == nil {
			failure = answer.err
		}
		if isWhole {
			all = append(all, answer.headers...)
		}
		isWhole = isWhole && len(answer.headers) == HeadersMax
	}
	return all, failure
}

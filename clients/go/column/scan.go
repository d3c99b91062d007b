package column

import (
	"context"
	"fmt"
	"iter"
	"math"

	"github.com/lineside/lineside/clients/go/internal/layout"
)

// Range is a range of rows.
type Range struct {
	// Start is the first key. Empty: the first row of the table or, in reverse, its last.
	Start []byte
	// IsStartExclusive leaves out a row at Start.
	IsStartExclusive bool
	// Stop is the key at which the range ends. Empty: the end of the table.
	Stop []byte
	// IsStopInclusive includes a row at Stop.
	IsStopInclusive bool
	// Limit is the maximum number of rows; 0: all.
	Limit int
	// IsReverse reads the rows in descending order.
	IsReverse bool
}

func (r *Range) request(columns []string) *request {
	out := &request{op: layout.ColumnOpScan, columns: columns, start: r.Start, stop: r.Stop}
	out.head.Limit = uint16(min(r.Limit, math.MaxUint16))
	if r.IsReverse {
		out.head.Flags |= layout.ColumnFlagReverse
	}
	if r.IsStopInclusive {
		out.head.Flags |= layout.ColumnFlagStopInclusive
	}
	if r.IsStartExclusive {
		out.head.Flags |= layout.ColumnFlagStartExclusive
	}
	return out
}

// ScanPacket returns as many rows of a range as fit a packet. [Answer.More] says if there may be more.
func (c *Client) ScanPacket(ctx context.Context, rows Range, columns ...string) (*Answer, error) {
	return c.read(ctx, rows.request(columns))
}

// Scan returns all rows of a range that have a value in one of the columns, packet by packet. The result is not a
// snapshot, but every row that exists during the whole scan is found. A row that does not fit a packet comes with
// [Row.LeftOut]. An error is the last element.
func (c *Client) Scan(ctx context.Context, rows Range, columns ...string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		left := rows.Limit
		for {
			answer, err := c.ScanPacket(ctx, rows, columns...)
			if err != nil {
				yield(Row{}, err)
				return
			}
			for _, row := range answer.Rows {
				if !yield(row, nil) {
					return
				}
			}
			if rows.Limit > 0 {
				left -= len(answer.Rows)
				if left <= 0 {
					return
				}
				rows.Limit = left
			}
			if !answer.More {
				return
			}
			if len(answer.Rows) == 0 {
				// A packet has room for a row, or for the name of one that does not fit.
				yield(Row{}, fmt.Errorf("column: %s reports further rows and sends none", c.conn.Server()))
				return
			}
			if !rows.continueAfter(&answer.Rows[len(answer.Rows)-1]) {
				return
			}
		}
	}
}

// continueAfter makes the range begin after a row. It returns false if no row can follow.
func (r *Range) continueAfter(last *Row) bool {
	r.Start, r.IsStartExclusive = last.Key, true
	if last.LeftOut == nil || !last.LeftOut.IsKeyCut {
		return true
	}
	r.IsStartExclusive = false
	if r.IsReverse {
		// In reverse order, rows with the cut key as their prefix come before it.
		return true
	}
	// The first key that does not begin with the cut one.
	key := append([]byte(nil), last.Key...)
	for len(key) > 0 && key[len(key)-1] == 0xff {
		key = key[:len(key)-1]
	}
	if len(key) == 0 {
		return false
	}
	key[len(key)-1]++
	r.Start = key
	return true
}

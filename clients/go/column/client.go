// Package column is a client of Lineside's service column, which answers reads of rows and ranges of a wide table.
//
// Changes are made in sessions, which the client opens itself. A repeated change is executed once. If no reply comes
// before the deadline, the call ends with a [*lineside.OutcomeUnknownError], and [Client.Resolve] repeats the change
// later and returns its result.
package column

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/transport"
)

const (
	// readPause and writePause are the times after which a request is sent again for the first time.
	readPause  = 20 * time.Millisecond
	writePause = 50 * time.Millisecond
	// sessionsMax is the maximum number of sessions of a client, and so of changes at the same time.
	sessionsMax = 16
)

var (
	// ErrTooLong means that keys and values do not fit a packet.
	ErrTooLong = errors.New("column: too long for a packet")
	// ErrNotApplied means that the cell did not have the expected value, so that nothing was changed.
	ErrNotApplied = errors.New("column: the cell does not have the expected value")
	// ErrNothingUnanswered means that no change with this id waits for its result.
	ErrNothingUnanswered = errors.New("column: no change with this id waits for its result")
)

// Client is a client of one server. It is safe for concurrent use. Changes of one client are executed at the same time
// if they are made at the same time.
type Client struct {
	conn *transport.Conn
	// places limits the number of sessions.
	places chan struct{}

	mu sync.Mutex
	// free has the sessions that no change uses, and unanswered the changes without a result, by their ids.
	free       []*session
	unanswered map[string]*change
}

// session is a session of the server with the number of its last change.
type session struct {
	slot  uint32
	token uint64
	nonce uint64
}

// change is a change that was sent.
type change struct {
	session *session
	column  string
	packet  []byte
}

func (c *change) id() string { return fmt.Sprintf("%d/%d", c.session.slot, c.session.nonce) }

// Dial returns a client of the server at HOST or HOST:PORT. It sends nothing. The options may be nil.
func Dial(ctx context.Context, address string, options *lineside.Options) (*Client, error) {
	conn, err := transport.DialUDP(ctx, transport.WithPort(address, layout.ColumnPort), options)
	if err != nil {
		return nil, err
	}
	return &Client{
		conn:       conn,
		places:     make(chan struct{}, sessionsMax),
		unanswered: make(map[string]*change),
	}, nil
}

// Close ends all calls and closes the socket. The server closes the sessions when it needs their room.
func (c *Client) Close() error { return c.conn.Close() }

// Format writes the address of the server for every verb, because the client has the tokens of its sessions.
func (c *Client) Format(out fmt.State, _ rune) {
	_, _ = io.WriteString(out, "column: client of "+c.conn.Server())
}

// Resent returns the number of packets that were sent again.
func (c *Client) Resent() uint64 { return c.conn.Resent() }

// ask sends a packet. read returns false for a malformed reply, which is ignored.
func (c *Client) ask(ctx context.Context, packet []byte, pause time.Duration, read func([]byte) bool) (sent int, err error) {
	var failure error
	sent, err = c.conn.Exchange(ctx, &transport.Request{
		Packet: packet,
		Pause:  pause,
		Accept: func(reply transport.Reply) transport.Verdict {
			switch reply.Status {
			case lineside.StatusBusy:
				return transport.Busy
			case lineside.StatusOK, lineside.StatusUnknown, lineside.StatusTooLong:
				// A get of a row that is too long names the row; the refusal of a change has no body.
				if len(reply.Body) > 0 || reply.Status == lineside.StatusOK {
					if read(reply.Body) {
						return transport.Done
					}
					return transport.Ignore
				}
			}
			failure = &lineside.StatusError{Server: c.conn.Server(), Status: reply.Status}
			return transport.Done
		},
	})
	if err != nil {
		return sent, err
	}
	return sent, failure
}

func (c *Client) read(ctx context.Context, r *request) (*Answer, error) {
	r.replyBytes = packetBytesMax
	packet, err := r.build()
	if err != nil {
		return nil, err
	}
	var answer *Answer
	_, err = c.ask(ctx, packet, readPause, func(body []byte) (isWellFormed bool) {
		answer, isWellFormed = readAnswer(body, r.columns)
		return isWellFormed
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// Get returns the cells of a row in the given columns, FAMILY:QUALIFIER each. The answer has no row if none of the
// columns has a value there.
func (c *Client) Get(ctx context.Context, key []byte, columns ...string) (*Answer, error) {
	return c.read(ctx, &request{op: layout.ColumnOpGet, columns: columns, start: key})
}

// Value returns the value of one cell, and nil if there is none.
//
// Errors: [ErrTooLong] for a value that does not fit a packet, and those of package lineside.
func (c *Client) Value(ctx context.Context, key []byte, column string) ([]byte, error) {
	answer, err := c.Get(ctx, key, column)
	if err != nil || len(answer.Rows) == 0 {
		return nil, err
	}
	if left := answer.Rows[0].LeftOut; left != nil {
		return nil, fmt.Errorf("column: the value has %d bytes: %w", left.ValueBytes, ErrTooLong)
	}
	return answer.Rows[0].Cells[column], nil
}

// open opens a session.
func (c *Client) open(ctx context.Context) (*session, error) {
	challenge, err := c.askSession(ctx, &layout.ColumnSession{})
	if err != nil {
		return nil, err
	}
	granted, err := c.askSession(ctx, &layout.ColumnSession{Challenge: challenge.Challenge})
	if err != nil {
		return nil, err
	}
	return &session{slot: granted.Slot, token: granted.Token}, nil
}

func (c *Client) askSession(ctx context.Context, body *layout.ColumnSession) (reply layout.ColumnSession, err error) {
	packet := body.Append(transport.NewPacket(layout.ColumnOpOpen, layout.ColumnSessionBytes))
	_, err = c.ask(ctx, packet, readPause, func(body []byte) bool {
		if len(body) != layout.ColumnSessionBytes {
			return false
		}
		reply.Decode(body)
		return true
	})
	return reply, err
}

// acquire returns a session that no other change uses. The caller gives its place back.
func (c *Client) acquire(ctx context.Context) (*session, error) {
	select {
	case c.places <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	c.mu.Lock()
	if last := len(c.free) - 1; last >= 0 {
		session := c.free[last]
		c.free = c.free[:last]
		c.mu.Unlock()
		return session, nil
	}
	c.mu.Unlock()
	session, err := c.open(ctx)
	if err != nil {
		<-c.places
	}
	return session, err
}

// change makes a change of one cell.
func (c *Client) change(ctx context.Context, r *request) (*Answer, error) {
	// A request that no packet can hold, or that the server refuses without a look at the session, takes no session.
	if _, err := r.build(); err != nil {
		return nil, err
	}
	session, err := c.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { <-c.places }()
	r.head.Slot, r.head.Token, r.head.Nonce = session.slot, session.token, session.nonce+1
	packet, err := r.build()
	if err != nil {
		c.giveBack(session)
		return nil, err
	}
	session.nonce++
	return c.send(ctx, &change{session, r.columns[0], packet}, false)
}

func (c *Client) giveBack(session *session) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.free = append(c.free, session)
}

// keep keeps a change whose outcome is unknown, for [Client.Resolve].
func (c *Client) keep(change *change) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unanswered[change.id()] = change
}

// definite has the statuses with which a repeated change is refused only if its first copy was refused, too.
var definite = []lineside.Status{
	lineside.StatusBadRequest, lineside.StatusNotANumber, lineside.StatusTooLong, lineside.StatusUnauthorised,
	lineside.StatusUnknownFamily, lineside.StatusUnsupportedVersion,
}

// send sends a change, and keeps it if its outcome stays unknown.
func (c *Client) send(ctx context.Context, change *change, isRepetition bool) (*Answer, error) {
	var answer *Answer
	sent, err := c.ask(ctx, change.packet, writePause, func(body []byte) (isWellFormed bool) {
		answer, isWellFormed = readAnswer(body, []string{change.column})
		return isWellFormed
	})
	isRepetition = isRepetition || sent > 1
	var refused *lineside.StatusError
	unknown := &lineside.OutcomeUnknownError{Service: "column", ID: change.id(), Err: err}
	switch {
	case err == nil:
		c.giveBack(change.session)
	case errors.As(err, &refused):
		isOpen := transport.LeavesOpen(refused.Status, isRepetition, definite)
		switch refused.Status {
		case lineside.StatusNoSession, lineside.StatusSequence, lineside.StatusReused:
			// The session is lost, and with it the reply to the first copy.
		case lineside.StatusOutcomeUnknown:
			// The server repeats this reply.
			c.giveBack(change.session)
		case lineside.StatusBadRequest, lineside.StatusUnauthorised, lineside.StatusUnsupportedVersion:
			// The server refuses such a change before it counts it, and expects its number again.
			change.session.nonce--
			c.giveBack(change.session)
		default:
			if isOpen {
				c.keep(change)
			} else {
				c.giveBack(change.session)
			}
		}
		if isOpen {
			return nil, unknown
		}
		return nil, err
	case sent > 0 || isRepetition:
		c.keep(change)
		return nil, unknown
	default:
		change.session.nonce--
		c.giveBack(change.session)
		return nil, err
	}
	if !answer.isApplied {
		return nil, ErrNotApplied
	}
	return answer, nil
}

// Resolve repeats a change whose outcome is unknown, by the id in its [*lineside.OutcomeUnknownError]. The server
// executes the change if it was not executed before, and repeats its first reply if it was. It returns the value of the
// cell after an increment or an append, and nil after any other change.
func (c *Client) Resolve(ctx context.Context, id string) ([]byte, error) {
	c.mu.Lock()
	change := c.unanswered[id]
	delete(c.unanswered, id)
	c.mu.Unlock()
	if change == nil {
		return nil, fmt.Errorf("%w: %s", ErrNothingUnanswered, id)
	}
	// A copy, because the socket may still be sending the first packet, and this one gets another request id.
	change.packet = bytes.Clone(change.packet)
	answer, err := c.send(ctx, change, true)
	if err != nil {
		return nil, err
	}
	return answer.value(change.column)
}

// value returns the value of the cell that was changed.
func (a *Answer) value(column string) ([]byte, error) {
	if len(a.Rows) == 0 {
		return nil, nil
	}
	if left := a.Rows[0].LeftOut; left != nil {
		return nil, fmt.Errorf("column: the change was made; the value now has %d bytes: %w", left.ValueBytes, ErrTooLong)
	}
	return a.Rows[0].Cells[column], nil
}

// Put gives a cell a value.
func (c *Client) Put(ctx context.Context, key []byte, column string, value []byte) error {
	_, err := c.change(ctx, &request{op: layout.ColumnOpPut, columns: []string{column}, start: key, value: value})
	return err
}

// Delete removes a cell. It succeeds, too, if there is no such cell.
func (c *Client) Delete(ctx context.Context, key []byte, column string) error {
	_, err := c.change(ctx, &request{op: layout.ColumnOpDelete, columns: []string{column}, start: key})
	return err
}

// Increment adds to a cell of 8 bytes, a signed big-endian number, and returns the sum. A missing cell counts as 0. The
// sum wraps at 2^63.
func (c *Client) Increment(ctx context.Context, key []byte, column string, by int64) (int64, error) {
	value, err := c.valueOf(ctx, &request{
		op: layout.ColumnOpIncrement, columns: []string{column}, start: key,
		value: binary.BigEndian.AppendUint64(nil, uint64(by)),
	})
	if err != nil {
		return 0, err
	}
	if len(value) != 8 {
		return 0, fmt.Errorf("column: the cell has %d bytes after an increment", len(value))
	}
	return int64(binary.BigEndian.Uint64(value)), nil
}

// Append appends to the value of a cell and returns the whole value. A missing cell counts as empty.
//
// Errors: [ErrTooLong], if the change was made and the value does not fit a packet; and those of package lineside.
func (c *Client) Append(ctx context.Context, key []byte, column string, suffix []byte) ([]byte, error) {
	return c.valueOf(ctx, &request{op: layout.ColumnOpAppend, columns: []string{column}, start: key, value: suffix})
}

func (c *Client) valueOf(ctx context.Context, r *request) ([]byte, error) {
	r.replyBytes = packetBytesMax
	answer, err := c.change(ctx, r)
	if err != nil {
		return nil, err
	}
	return answer.value(r.columns[0])
}

// CheckAndPut gives a cell a value if it has the expected one.
//
// Errors: [ErrNotApplied], and those of package lineside.
func (c *Client) CheckAndPut(ctx context.Context, key []byte, column string, expected, value []byte) error {
	_, err := c.change(ctx, &request{
		op: layout.ColumnOpCheckAndPut, columns: []string{column}, start: key, value: value, expected: expected,
	})
	return err
}

// PutIfAbsent gives a cell a value if it has none.
//
// Errors: [ErrNotApplied], and those of package lineside.
func (c *Client) PutIfAbsent(ctx context.Context, key []byte, column string, value []byte) error {
	r := &request{op: layout.ColumnOpCheckAndPut, columns: []string{column}, start: key, value: value}
	r.head.Flags = layout.ColumnFlagAbsent
	_, err := c.change(ctx, r)
	return err
}

// SwitchOff switches the fast path of the server off, which empties it, or on again. Only the server's own machine and
// its trusted sources may do that.
func (c *Client) SwitchOff(ctx context.Context, off bool) error {
	body := &layout.ColumnSwitch{}
	if off {
		body.Off = 1
	}
	packet := body.Append(transport.NewPacket(layout.ColumnOpSwitch, layout.ColumnSwitchBytes))
	_, err := c.ask(ctx, packet, readPause, func(reply []byte) bool {
		return string(reply) == string(packet[layout.NativeHeaderBytes:])
	})
	return err
}

// Package transport exchanges native packets with one server: many requests at a time on one socket, sent again until a
// reply arrives or the time is over.
//
// A reply belongs to a request if it comes from the server's address, has the request's id and operation with the reply
// bit, and is as long as its header says. Everything else is ignored.
package transport

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
)

// PacketBytesMax is the maximum number of bytes of a datagram.
const PacketBytesMax = 1452

// maxPause is the maximum time between two transmissions of a request.
const maxPause = time.Second

// checkInterval is the time between two looks for requests that must be sent again.
const checkInterval = 5 * time.Millisecond

// Verdict is the judgement of a reply.
type Verdict int

const (
	// Ignore means that the reply is malformed. The request keeps waiting.
	Ignore Verdict = iota
	// Done means that the reply ends the request.
	Done
	// Busy means that the server is busy: the request is sent again later.
	Busy
)

// Reply is a reply whose header belongs to the request.
type Reply struct {
	// Status is the status in the header.
	Status lineside.Status
	// Body is what follows the header. It is valid only during the call.
	Body []byte
}

// Request is a request to the server.
type Request struct {
	// Packet is the packet: room for the native header, whose operation is set, and the body. See [NewPacket]. It must
	// not be changed or used again, because it may be sent after Exchange has returned.
	Packet []byte
	// Pause is the time after which the request is sent again for the first time; the time doubles each time.
	Pause time.Duration
	// Accept judges a reply. It must not block, and it is not called any more after Exchange has returned.
	Accept func(Reply) Verdict
	// Renew, if it is not nil, returns the packet of each repetition, which gets an id of its own.
	Renew func() ([]byte, error)
}

// NewPacket returns the beginning of a packet with room for a body of this length.
func NewPacket(op byte, bodyBytes int) []byte {
	packet := make([]byte, layout.NativeHeaderBytes, layout.NativeHeaderBytes+bodyBytes)
	packet[3] = op
	return packet
}

// LeavesOpen returns true if the refusal of a change with this status does not say if the change was executed. An
// earlier copy of a repeated change may have been executed, unless the status is one of the definite ones.
func LeavesOpen(status lineside.Status, isRepetition bool, definite []lineside.Status) bool {
	if status == lineside.StatusOutcomeUnknown || !status.IsKnown() {
		return true
	}
	return isRepetition && !slices.Contains(definite, status)
}

// link carries packets to and from the server.
type link interface {
	// send sends packets. Packets may be lost.
	send(packets [][]byte) error
	// receive waits for packets and passes each to the function, which does not keep it.
	receive(each func([]byte)) error
	// close ends receive.
	close() error
}

// Conn is a connection to one server. It is safe for concurrent use.
type Conn struct {
	server  string
	link    link
	timeout time.Duration
	resent  atomic.Uint64

	mu sync.Mutex
	// changed wakes the goroutine that sends, and waiting the one that repeats.
	changed, waiting *sync.Cond
	calls            map[uint64]*call
	queue            [][]byte
	nextID           uint64
	lastErr          error
	isClosed         bool
}

// call is a request that waits for its reply. It is guarded by the mutex of the connection.
type call struct {
	request  *Request
	ids      []uint64
	begin    time.Time
	deadline time.Time
	resendAt time.Time
	pause    time.Duration
	sent     int
	isBusy   bool
	done     chan error
}

func newConn(server string, link link, options *lineside.Options) *Conn {
	var seed [8]byte
	// The first id is random, so that an attacker who does not see the requests cannot forge replies.
	rand.Read(seed[:])
	c := &Conn{
		server:  server,
		link:    link,
		timeout: options.CallTimeout(),
		calls:   make(map[uint64]*call),
		nextID:  binary.BigEndian.Uint64(seed[:]),
	}
	c.changed, c.waiting = sync.NewCond(&c.mu), sync.NewCond(&c.mu)
	go c.sendAll()
	go c.receiveAll()
	go c.repeatAll()
	return c
}

// Server returns the address of the server.
func (c *Conn) Server() string { return c.server }

// Timeout returns the maximum duration of a call.
func (c *Conn) Timeout() time.Duration { return c.timeout }

// Resent returns the number of repeated packets.
func (c *Conn) Resent() uint64 { return c.resent.Load() }

// Close ends all calls with [lineside.ErrClosed].
func (c *Conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isClosed {
		return nil
	}
	c.isClosed = true
	for _, call := range c.calls {
		c.end(call, lineside.ErrClosed)
	}
	c.changed.Broadcast()
	c.waiting.Broadcast()
	return c.link.close()
}

var callPool = sync.Pool{New: func() any { return &call{done: make(chan error, 1)} }}

// Exchange sends a request until a reply is accepted. It returns the number of transmissions, which is 0 if the request
// was not sent.
//
// Errors: [*lineside.TimeoutError], [lineside.ErrClosed], the error of the context, and that of Renew.
func (c *Conn) Exchange(ctx context.Context, request *Request) (sent int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	now := time.Now()
	call := callPool.Get().(*call)
	call.request, call.begin, call.pause = request, now, request.Pause
	call.sent, call.isBusy, call.ids = 0, false, call.ids[:0]
	call.deadline = now.Add(c.timeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(call.deadline) {
		call.deadline = deadline
	}
	c.mu.Lock()
	if c.isClosed {
		c.mu.Unlock()
		return 0, lineside.ErrClosed
	}
	if len(c.calls) == 0 {
		c.waiting.Signal()
	}
	c.transmit(call, request.Packet, true, now)
	c.mu.Unlock()
	select {
	case err = <-call.done:
	case <-ctx.Done():
		c.mu.Lock()
		select {
		case err = <-call.done:
		default:
			err = ctx.Err()
			c.forget(call)
		}
		c.mu.Unlock()
	}
	sent = call.sent
	call.request = nil
	callPool.Put(call)
	return sent, err
}

// transmit queues a packet of a call, with an id of its own if it is new.
func (c *Conn) transmit(call *call, packet []byte, isNew bool, now time.Time) {
	if isNew {
		id := c.nextID
		c.nextID++
		header := layout.NativeHeader{
			Magic:     layout.NativeMagic,
			Version:   layout.NativeVersion,
			Op:        packet[3],
			Length:    uint16(len(packet) - layout.NativeHeaderBytes),
			RequestId: id,
		}
		header.Append(packet[:0])
		call.ids = append(call.ids, id)
		c.calls[id] = call
	}
	call.sent++
	call.resendAt = now.Add(call.pause)
	call.pause = min(2*call.pause, maxPause)
	if len(c.queue) == 0 {
		c.changed.Signal()
	}
	c.queue = append(c.queue, packet)
}

func (c *Conn) forget(call *call) {
	for _, id := range call.ids {
		delete(c.calls, id)
	}
}

func (c *Conn) end(call *call, err error) {
	c.forget(call)
	call.done <- err
}

// sendAll sends what is queued. All packets that were queued in the meantime are sent together.
func (c *Conn) sendAll() {
	var packets [][]byte
	for {
		c.mu.Lock()
		for len(c.queue) == 0 && !c.isClosed {
			c.changed.Wait()
		}
		if c.isClosed {
			c.mu.Unlock()
			return
		}
		packets, c.queue = c.queue, packets[:0]
		c.mu.Unlock()
		if err := c.link.send(packets); err != nil {
			c.note(err)
		}
		clear(packets)
	}
}

// note keeps an error of the system for the message of a timeout. It does not end calls, because the next repetition of
// a request may succeed.
func (c *Conn) note(err error) {
	c.mu.Lock()
	c.lastErr = err
	c.mu.Unlock()
}

func (c *Conn) receiveAll() {
	each := func(packet []byte) { c.take(packet) }
	for {
		if err := c.link.receive(each); err != nil {
			c.mu.Lock()
			isClosed := c.isClosed
			c.lastErr = err
			c.mu.Unlock()
			if isClosed {
				return
			}
			if !errors.Is(err, errRefused) {
				time.Sleep(checkInterval)
			}
		}
	}
}

// take passes a packet from the server to its call.
func (c *Conn) take(packet []byte) {
	if len(packet) < layout.NativeHeaderBytes {
		return
	}
	var header layout.NativeHeader
	header.Decode(packet)
	body := packet[layout.NativeHeaderBytes:]
	status := lineside.Status(header.Status)
	// A server of another version reports in its own version that it does not support this one.
	isKnown := header.Version == layout.NativeVersion || status == lineside.StatusUnsupportedVersion
	if header.Magic != layout.NativeMagic || !isKnown || int(header.Length) != len(body) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[header.RequestId]
	if call == nil || header.Op != call.request.Packet[3]|layout.NativeReplyBit {
		return
	}
	switch call.request.Accept(Reply{status, body}) {
	case Done:
		c.end(call, nil)
	case Busy:
		call.isBusy = true
	}
}

// repeatAll repeats the requests whose pause is over, and ends those whose time is over.
func (c *Conn) repeatAll() {
	for {
		c.mu.Lock()
		for len(c.calls) == 0 && !c.isClosed {
			c.waiting.Wait()
		}
		if c.isClosed {
			c.mu.Unlock()
			return
		}
		c.repeatDue(time.Now())
		c.mu.Unlock()
		time.Sleep(checkInterval)
	}
}

func (c *Conn) repeatDue(now time.Time) {
	for _, call := range c.calls {
		switch {
		case !now.Before(call.deadline):
			err := &lineside.TimeoutError{Server: c.server, Waited: now.Sub(call.begin), Busy: call.isBusy, Err: c.lastErr}
			c.end(call, err)
		case !now.Before(call.resendAt):
			packet, isNew := call.request.Packet, false
			if call.request.Renew != nil {
				renewed, err := call.request.Renew()
				if err != nil {
					c.end(call, err)
					continue
				}
				packet, isNew = renewed, true
			}
			c.resent.Add(1)
			c.transmit(call, packet, isNew, now)
		}
	}
}

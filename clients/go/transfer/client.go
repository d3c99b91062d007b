// Package transfer is a client of Lineside's service transfer, a ledger of accounts and balances.
//
// Operations are executed in a [Session], whose packets are numbered. A repeated packet gets its first reply again, so
// that each operation is executed once, whatever the network loses. If no reply comes before the deadline, the call
// ends with a [*lineside.OutcomeUnknownError]; [Session.Resolve] repeats the packet later and returns its result. A
// session in a file ([Client.OpenFile]) keeps that ability across a restart of the client. An operation with an
// [IdempotencyKey] is executed once whatever session repeats it.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/transport"
)

const (
	// readPause and writePause are the times after which a request is sent again for the first time. A write waits for
	// the server's disk.
	readPause  = 20 * time.Millisecond
	writePause = 100 * time.Millisecond
	// streamPause is the time after which a request is sent again over TCP, which itself repeats what is lost.
	streamPause = 2 * time.Second
)

// AccountsMax is the maximum number of accounts of [Client.Refer].
const AccountsMax = layout.TransferReferMax

// Client is a client of one server. It is safe for concurrent use.
type Client struct {
	conn    *transport.Conn
	options *lineside.Options
	// packetBytes is the maximum length of a packet.
	packetBytes int
	isStream    bool
}

// Dial returns a client of the server at HOST or HOST:PORT, over UDP. It sends nothing. A packet holds 16 operations.
// The options may be nil.
func Dial(ctx context.Context, address string, options *lineside.Options) (*Client, error) {
	conn, err := transport.DialUDP(ctx, transport.WithPort(address, layout.TransferPort), options)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, options: options, packetBytes: transport.PacketBytesMax}, nil
}

// DialTCP is like [Dial], over TCP. A packet holds 744 operations. A lost connection is opened again.
func DialTCP(ctx context.Context, address string, options *lineside.Options) (*Client, error) {
	conn, err := transport.DialTCP(ctx, transport.WithPort(address, layout.TransferPort), options)
	if err != nil {
		return nil, err
	}
	return &Client{conn: conn, options: options, packetBytes: transport.StreamPacketBytesMax, isStream: true}, nil
}

// Close ends all calls and closes the socket. Sessions stay open at the server: close those that are no longer needed
// first.
func (c *Client) Close() error { return c.conn.Close() }

// Resent returns the number of packets that were sent again.
func (c *Client) Resent() uint64 { return c.conn.Resent() }

// operationsMax returns the maximum number of operations of a packet.
func (c *Client) operationsMax(isSigned bool) int {
	room := c.packetBytes - layout.NativeHeaderBytes - layout.ExecuteHeadBytes
	if isSigned {
		room -= layout.SignedHeadBytes
	}
	return min(room/layout.OperationBytes, layout.TransferOperationsMax)
}

// pause returns the first pause of a request.
func (c *Client) pause(pause time.Duration) time.Duration {
	if c.isStream {
		return streamPause
	}
	return pause
}

// ask sends a request. read returns false for a malformed reply, which is ignored. It returns the number of
// transmissions.
func (c *Client) ask(ctx context.Context, packet []byte, pause time.Duration,
	read func(lineside.Status, []byte) (bool, error)) (int, error) {
	var failure error
	sent, err := c.conn.Exchange(ctx, &transport.Request{
		Packet: packet,
		Pause:  c.pause(pause),
		Accept: func(reply transport.Reply) transport.Verdict {
			switch {
			case reply.Status == lineside.StatusBusy:
				return transport.Busy
			case len(reply.Body) == 0 && reply.Status != lineside.StatusOK:
				failure = c.refused(reply.Status, 0)
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
		return sent, err
	}
	return sent, failure
}

func (c *Client) refused(status lineside.Status, expected uint64) error {
	return &lineside.StatusError{Server: c.conn.Server(), Status: status, Expected: expected}
}

// Balance is the state of an account.
type Balance struct {
	// Balance is the whole balance, with the amounts that pending transfers reserve.
	Balance uint64
	// Held is the sum of the amounts that pending transfers reserve.
	Held uint64
	// Version is the number of changes of the account.
	Version uint64
	// IsFrozen means that the account neither gives nor gets.
	IsFrozen bool
}

// Refer returns the states of 1 to [AccountsMax] accounts, in their order; nil for an account that does not exist.
func (c *Client) Refer(ctx context.Context, accounts ...AccountID) ([]*Balance, error) {
	if len(accounts) == 0 || len(accounts) > AccountsMax {
		return nil, fmt.Errorf("transfer: %d accounts in one request: 1 to %d are possible", len(accounts), AccountsMax)
	}
	packet := transport.NewPacket(layout.TransferOpRefer, layout.ReferHeadBytes+len(accounts)*layout.BalanceItemBytes)
	packet = (&layout.ReferHead{Count: uint32(len(accounts))}).Append(packet)
	for _, account := range accounts {
		packet = (&layout.BalanceItem{Account: account}).Append(packet)
	}
	balances := make([]*Balance, len(accounts))
	_, err := c.ask(ctx, packet, readPause, func(status lineside.Status, body []byte) (bool, error) {
		if status != lineside.StatusOK {
			return true, c.refused(status, 0)
		}
		if len(body) != len(packet)-layout.NativeHeaderBytes {
			return false, nil
		}
		for i, account := range accounts {
			var item layout.BalanceItem
			item.Decode(body[layout.ReferHeadBytes+i*layout.BalanceItemBytes:])
			if AccountID(item.Account) != account {
				return false, nil
			}
			balances[i] = nil
			if Code(item.Code) == CodeDone {
				balances[i] = &Balance{item.Balance, item.Held, item.Version, item.Frozen != 0}
			}
		}
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	return balances, nil
}

// session sends a request about a session.
func (c *Client) session(ctx context.Context, op byte, body *layout.SessionBody) (layout.SessionBody, error) {
	var reply layout.SessionBody
	packet := body.Append(transport.NewPacket(op, layout.SessionBodyBytes))
	_, err := c.ask(ctx, packet, readPause, func(status lineside.Status, body []byte) (bool, error) {
		if status != lineside.StatusOK {
			return true, c.refused(status, 0)
		}
		if len(body) != layout.SessionBodyBytes {
			return false, nil
		}
		reply.Decode(body)
		return true, nil
	})
	return reply, err
}

// Open opens a session. Close it when it is no longer needed, because the server limits the sessions of an address.
func (c *Client) Open(ctx context.Context) (*Session, error) {
	challenge, err := c.session(ctx, layout.TransferOpOpen, &layout.SessionBody{})
	if err != nil {
		return nil, err
	}
	granted, err := c.session(ctx, layout.TransferOpOpen, &layout.SessionBody{Challenge: challenge.Challenge})
	if err != nil {
		var timeout *lineside.TimeoutError
		if errors.As(err, &timeout) && timeout.Busy {
			return nil, fmt.Errorf("transfer: the server grants no session, because it is busy or because this address has "+
				"reached its limit; close those that are no longer needed: %w", err)
		}
		return nil, err
	}
	return &Session{client: c, slot: granted.Slot, token: hide(granted.Token), next: granted.Sequence}, nil
}

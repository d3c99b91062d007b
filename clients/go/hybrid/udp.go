package hybrid

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/transport"
)

const (
	// readPause and writePause are the times after which a request is sent again for the first time. A write waits for
	// the node's disk.
	readPause  = 100 * time.Millisecond
	writePause = 250 * time.Millisecond
)

// ErrTooLong means that a request does not fit a datagram: use package hybridgrpc.
var ErrTooLong = errors.New("hybrid: the request does not fit a datagram; use gRPC")

// udpTransport sends requests in datagrams.
type udpTransport struct{ conn *transport.Conn }

// Dial returns a client of the node at HOST or HOST:PORT, over UDP. It sends nothing. The options may be nil. A request
// is valid for 30 seconds, so that a longer timeout has no use.
func Dial(ctx context.Context, address string, identity Identity, options *lineside.Options) (*Client, error) {
	conn, err := transport.DialUDP(ctx, transport.WithPort(address, layout.HybridPort), options)
	if err != nil {
		return nil, err
	}
	return New(&udpTransport{conn}, identity), nil
}

// datagram returns the datagram with a request, with room for an answer of this length.
func datagram(request []byte, answerBytes int) ([]byte, error) {
	size := layout.NativeHeaderBytes + 2 + len(request)
	if size > layout.HybridDatagramBytesMax {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrTooLong, len(request))
	}
	size = max(size, answerBytes)
	packet := transport.NewPacket(layout.HybridOpAsk, size-layout.NativeHeaderBytes)
	packet = binary.BigEndian.AppendUint16(packet, uint16(len(request)))
	return append(packet, request...)[:size], nil
}

// exchange sends a request. isRetry returns true for codes after which the request is sent again.
func (u *udpTransport) exchange(ctx context.Context, request *transport.Request, isRetry func(Code) bool) (*Answer, int, error) {
	var answer *Answer
	var failure error
	request.Accept = func(reply transport.Reply) transport.Verdict {
		switch reply.Status {
		case lineside.StatusOK:
		case lineside.StatusBusy:
			return transport.Busy
		default:
			failure = &lineside.StatusError{Server: u.conn.Server(), Status: reply.Status}
			return transport.Done
		}
		decoded, isWellFormed := decodeAnswer(reply.Body)
		switch {
		case !isWellFormed:
			return transport.Ignore
		case isRetry(decoded.Code):
			return transport.Busy
		}
		answer = decoded
		return transport.Done
	}
	sent, err := u.conn.Exchange(ctx, request)
	if err == nil {
		err = failure
	}
	return answer, sent, err
}

func (u *udpTransport) Read(ctx context.Context, op byte, sign func() ([]byte, error)) (*Answer, error) {
	answerBytes := layout.HybridDatagramBytesMax
	if op == layout.HybridOpOutcome {
		// The answer is as short as that of a write.
		answerBytes = 0
	}
	renew := func() ([]byte, error) {
		request, err := sign()
		if err != nil {
			return nil, err
		}
		return datagram(request, answerBytes)
	}
	packet, err := renew()
	if err != nil {
		return nil, err
	}
	// The network may deliver a datagram twice; the refusal of the second copy can arrive first.
	isRetry := func(code Code) bool { return code == CodeBusy || code == CodeNonceUsed }
	answer, _, err := u.exchange(ctx, &transport.Request{Packet: packet, Pause: readPause, Renew: renew}, isRetry)
	return answer, err
}

// definite has the statuses with which a repeated request is refused only if its first copy was refused, too.
var definite = []lineside.Status{
	lineside.StatusBadRequest, lineside.StatusUnauthorised, lineside.StatusUnsupportedVersion,
}

func (u *udpTransport) Write(ctx context.Context, _ byte, request []byte) (*Answer, bool, error) {
	packet, err := datagram(request, 0)
	if err != nil {
		return nil, false, err
	}
	isRetry := func(code Code) bool { return code == CodeBusy }
	answer, sent, err := u.exchange(ctx, &transport.Request{Packet: packet, Pause: writePause}, isRetry)
	var refused *lineside.StatusError
	if errors.As(err, &refused) && !transport.LeavesOpen(refused.Status, sent > 1, definite) {
		return nil, false, err
	}
	if err == nil && sent > 1 {
		switch answer.Code {
		case CodeReadOnly, CodeRevoked, CodeExpired, CodeNonceUsed:
			// An earlier copy may have been executed.
			answer = &Answer{Code: CodeOutcomeUnknown}
		}
	}
	return answer, sent > 0, err
}

func (u *udpTransport) Close() error { return u.conn.Close() }

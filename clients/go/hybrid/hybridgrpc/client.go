// Package hybridgrpc connects clients of package hybrid to a node by gRPC.
package hybridgrpc

//go:generate protoc -I ../../../../crates/hybrid-grpc/proto --go_out=internal/pb --go_opt=paths=source_relative --go_opt=Mhybrid.proto=github.com/lineside/lineside/clients/go/hybrid/hybridgrpc/internal/pb --go-grpc_out=internal/pb --go-grpc_opt=paths=source_relative --go-grpc_opt=Mhybrid.proto=github.com/lineside/lineside/clients/go/hybrid/hybridgrpc/internal/pb hybrid.proto

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/hybrid"
	"github.com/lineside/lineside/clients/go/hybrid/hybridgrpc/internal/pb"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/transport"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	// messageBytesMax is the maximum length of a message of the service.
	messageBytesMax = 4 << 20
	// firstPause and maxPause are the shortest and the longest time before a call is repeated.
	firstPause = 50 * time.Millisecond
	maxPause   = 2 * time.Second
)

// Options are the options of a connection. A nil pointer is the same as the zero value.
type Options struct {
	lineside.Options
	// Credentials encrypt the connection: [credentials.NewTLS]. Without them it is not encrypted.
	Credentials credentials.TransportCredentials
}

// Client is a client of a node by gRPC. It has all methods of [hybrid.Client], and watchers.
type Client struct {
	*hybrid.Client
	transport *grpcTransport
}

// Dial returns a client of the node at HOST or HOST:PORT. The connection is made by the first call, and again when it
// is lost. The options may be nil.
func Dial(ctx context.Context, address string, identity hybrid.Identity, options *Options) (*Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if options == nil {
		options = &Options{}
	}
	secrets := options.Credentials
	if secrets == nil {
		secrets = insecure.NewCredentials()
	}
	server := transport.WithPort(address, layout.HybridPort)
	conn, err := grpc.NewClient(server,
		grpc.WithTransportCredentials(secrets),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageBytesMax), grpc.MaxCallSendMsgSize(messageBytesMax)))
	if err != nil {
		return nil, err
	}
	t := &grpcTransport{server, conn, pb.NewNodeClient(conn), options.CallTimeout()}
	return &Client{hybrid.New(t, identity), t}, nil
}

// grpcTransport makes calls.
type grpcTransport struct {
	server  string
	conn    *grpc.ClientConn
	node    pb.NodeClient
	timeout time.Duration
}

func (t *grpcTransport) Close() error { return t.conn.Close() }

// call makes the call of an operation and returns its answer.
func (t *grpcTransport) call(ctx context.Context, op byte, request []byte) (*hybrid.Answer, error) {
	signed := &pb.Signed{Request: request}
	switch op {
	case layout.HybridOpGet:
		reply, err := t.node.Get(ctx, signed)
		if err != nil {
			return nil, err
		}
		answer := &hybrid.Answer{Code: hybrid.Code(reply.Code)}
		for _, cell := range reply.Cells {
			answer.Cells = append(answer.Cells, cellOf(cell.Version, cell.Value))
		}
		return answer, nil
	case layout.HybridOpRange:
		reply, err := t.node.Range(ctx, signed)
		if err != nil {
			return nil, err
		}
		answer := &hybrid.Answer{Code: hybrid.Code(reply.Code), More: reply.More}
		for _, cell := range reply.Cells {
			read := hybrid.Cell{Version: *versionOf(cell.Version), Value: cell.Value}
			answer.Range = append(answer.Range, hybrid.KeyCell{Key: cell.Key, Cell: read})
		}
		return answer, nil
	case layout.HybridOpProve:
		reply, err := t.node.Verify(ctx, signed)
		if err != nil {
			return nil, err
		}
		return &hybrid.Answer{Code: hybrid.Code(reply.Code), Proof: reply.Proof}, nil
	case layout.HybridOpHistory:
		reply, err := t.node.History(ctx, signed)
		if err != nil {
			return nil, err
		}
		answer := &hybrid.Answer{Code: hybrid.Code(reply.Code), More: reply.More}
		for _, write := range reply.Writes {
			past := hybrid.PastWrite{Version: *versionOf(write.Version), TimeMs: write.TimeMs, Value: write.Value}
			answer.History = append(answer.History, past)
		}
		return answer, nil
	case layout.HybridOpHead:
		reply, err := t.node.Head(ctx, signed)
		if err != nil {
			return nil, err
		}
		return &hybrid.Answer{Code: hybrid.Code(reply.Code), Header: reply.Header, Head: reply.Head}, nil
	case layout.HybridOpOutcome:
		return placed(t.node.Outcome(ctx, signed))
	case layout.HybridOpWrite:
		return placed(t.node.Set(ctx, signed))
	case layout.HybridOpChange:
		return placed(t.node.Change(ctx, signed))
	}
	return nil, fmt.Errorf("hybrid: operation %d has no call", op)
}

func placed(reply *pb.Placed, err error) (*hybrid.Answer, error) {
	if err != nil {
		return nil, err
	}
	answer := &hybrid.Answer{Code: hybrid.Code(reply.Code)}
	if reply.Version != nil {
		answer.Version = versionOf(reply.Version)
	}
	return answer, nil
}

func versionOf(version *pb.Version) *hybrid.Version {
	return &hybrid.Version{Block: version.GetBlock(), Index: version.GetIndex()}
}

// cellOf returns nil for a key without a value.
func cellOf(version *pb.Version, value []byte) *hybrid.Cell {
	if version == nil {
		return nil
	}
	return &hybrid.Cell{Version: *versionOf(version), Value: append([]byte{}, value...)}
}

// repeat makes calls until one is answered, the time is over, or an error shows that repeating is no use. It returns
// the number of calls that may have reached the node.
func (t *grpcTransport) repeat(ctx context.Context, each func(context.Context) (*hybrid.Answer, error)) (
	answer *hybrid.Answer, calls int, err error) {
	begin := time.Now()
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	isBusy := false
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		calls++
		answer, err = each(ctx)
		code := status.Code(err)
		switch {
		case err == nil && answer.Code != hybrid.CodeBusy:
			return answer, calls, nil
		case err == nil, code == codes.ResourceExhausted:
			isBusy = true
		case code != codes.Unavailable && code != codes.DeadlineExceeded:
			return nil, calls, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			if cause := context.Cause(ctx); errors.Is(cause, context.Canceled) {
				return nil, calls, cause
			}
			return nil, calls, &lineside.TimeoutError{
				Server: t.server, Waited: time.Since(begin), Busy: isBusy, Err: err,
			}
		}
	}
}

func (t *grpcTransport) Read(ctx context.Context, op byte, sign func() ([]byte, error)) (*hybrid.Answer, error) {
	answer, _, err := t.repeat(ctx, func(ctx context.Context) (*hybrid.Answer, error) {
		request, err := sign()
		if err != nil {
			return nil, err
		}
		return t.call(ctx, op, request)
	})
	return answer, err
}

func (t *grpcTransport) Write(ctx context.Context, op byte, request []byte) (*hybrid.Answer, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	answer, calls, err := t.repeat(ctx, func(ctx context.Context) (*hybrid.Answer, error) {
		return t.call(ctx, op, request)
	})
	if err == nil && calls > 1 {
		switch answer.Code {
		case hybrid.CodeReadOnly, hybrid.CodeRevoked, hybrid.CodeExpired, hybrid.CodeNonceUsed:
			// An earlier call may have been executed.
			answer = &hybrid.Answer{Code: hybrid.CodeOutcomeUnknown}
		}
	}
	return answer, true, err
}

// Event is a write that a watcher receives.
type Event struct {
	// Version is the version of the write.
	Version hybrid.Version
	// Key is the key. The first event has none: it says that all writes after its block are reported.
	Key []byte
	// Value is the value; nil if the write deleted the key.
	Value []byte
}

// Watch returns all later writes of keys with the prefix, in the order of the ledger, until the context ends. An error
// is the last element: a [*hybrid.RefusedError] with [hybrid.CodeBusy] means that events were missed because the client
// was too slow.
func (c *Client) Watch(ctx context.Context, prefix []byte) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		request, err := c.SignWatch(prefix)
		if err != nil {
			yield(Event{}, err)
			return
		}
		stream, err := c.transport.node.Watch(ctx, &pb.Signed{Request: request})
		for err == nil {
			var event *pb.Event
			event, err = stream.Recv()
			switch {
			case err != nil:
			case hybrid.Code(event.Code) != hybrid.CodeDone:
				err = &hybrid.RefusedError{Code: hybrid.Code(event.Code)}
			case !yield(Event{*versionOf(event.Version), event.Key, event.Value}, nil):
				return
			}
		}
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("hybrid: %s ended the stream: %w", c.transport.server, io.ErrUnexpectedEOF)
		}
		yield(Event{}, err)
	}
}

package transfer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/transport"
)

// signedDomain is hashed before the signed bytes.
const signedDomain = "lineside/transfer/1"

// ErrUnanswered means that an earlier packet of the session has no reply yet: [Session.Resolve] gets it.
var ErrUnanswered = errors.New("transfer: an earlier packet of this session has no reply yet; resolve it first")

// ErrNothingUnanswered means that all packets of the session have their replies.
var ErrNothingUnanswered = errors.New("transfer: no packet of this session waits for a reply")

// ErrReleased means that the session was released or closed by this process: another process may use it.
var ErrReleased = errors.New("transfer: the session was released or closed; open it again")

// Result is the result of a packet.
type Result struct {
	// Outcomes has the outcome of each operation, in their order.
	Outcomes []Outcome
	// IsDurable means that the operations were on the disk before the reply was sent. Otherwise they are there soon
	// after.
	IsDurable bool
}

// Err returns the first error of the outcomes, with the number of its operation.
func (r *Result) Err() error {
	for i, outcome := range r.Outcomes {
		if err := outcome.Err(); err != nil {
			return fmt.Errorf("operation %d of %d: %w", i+1, len(r.Outcomes), err)
		}
	}
	return nil
}

// Session is a session of a client. Its packets are executed in their order, one at a time: calls wait for each other.
// Open several sessions, or a [Pool], to execute packets at the same time.
type Session struct {
	client *Client
	signer lineside.Signer
	slot   uint32
	token  secret[uint64]

	mu   sync.Mutex
	next uint64
	// unanswered has the operations of the packet that was sent and has no reply, and packet its bytes; packet is nil
	// if the packet was sent by an earlier process.
	unanswered []Operation
	packet     secret[[]byte]
	file       *sessionFile
	// isReleased means that no call may use the session any more.
	isReleased bool
}

// SignWith makes the session sign its packets from now on. Call it before the first use of the session.
func (s *Session) SignWith(signer lineside.Signer) { s.signer = signer }

// OperationsMax returns the maximum number of operations of a packet of this session.
func (s *Session) OperationsMax() int { return s.client.operationsMax(s.signer != nil) }

// id names the next packet of the session.
func (s *Session) id() string { return fmt.Sprintf("%d/%d", s.slot, s.next) }

// unknown returns the error of a packet without a reply.
func (s *Session) unknown(operations []Operation, err error) error {
	return &lineside.OutcomeUnknownError{Service: "transfer", ID: s.id(), Keys: keysOf(operations), Err: err}
}

// Execute executes 1 to [Session.OperationsMax] operations as one packet. The operations are independent of each other,
// except for those that are linked. Look at the outcome of each: an operation can be refused although the call
// succeeds.
//
// Errors: [ErrUnanswered]; [ErrReleased]; a [*lineside.OutcomeUnknownError], after which [Session.Resolve] gets the
// result, and operations with an [IdempotencyKey] can be executed again in any session; and any other error, after which
// nothing was executed.
func (s *Session) Execute(ctx context.Context, operations ...Operation) (*Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isReleased:
		return nil, ErrReleased
	case s.unanswered != nil:
		return nil, ErrUnanswered
	}
	if most := s.OperationsMax(); len(operations) == 0 || len(operations) > most {
		return nil, fmt.Errorf("transfer: %d operations in one packet: 1 to %d are possible", len(operations), most)
	}
	if err := checkAll(operations); err != nil {
		return nil, err
	}
	packet, err := s.build(operations)
	if err != nil {
		return nil, err
	}
	if s.file != nil {
		// If the process ends before the reply comes, the next one repeats this packet.
		if err := s.file.write(s, operations); err != nil {
			return nil, err
		}
	}
	return s.send(ctx, operations, packet, false)
}

// Resolve repeats the packet that has no reply yet and returns its result. The server executes it if it was not
// executed before, and repeats its first reply if it was.
//
// Errors: [ErrNothingUnanswered], and those of [Session.Execute]. If [Session.Unanswered] returns nil after a
// [*lineside.OutcomeUnknownError], the server has lost the session or the reply, and the outcome of operations without
// an [IdempotencyKey] cannot be found any more.
func (s *Session) Resolve(ctx context.Context) (*Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isReleased:
		return nil, ErrReleased
	case s.unanswered == nil:
		return nil, ErrNothingUnanswered
	}
	// A copy, because the socket may still be sending the first packet, and this one gets another request id.
	packet := bytes.Clone(s.packet.get())
	if packet == nil {
		built, err := s.build(s.unanswered)
		if err != nil {
			return nil, err
		}
		packet = built
	}
	return s.send(ctx, s.unanswered, packet, true)
}

// Unanswered returns the operations of the packet that has no reply yet; nil if there is none.
func (s *Session) Unanswered() []Operation {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unanswered
}

// build returns the next packet of the session.
func (s *Session) build(operations []Operation) ([]byte, error) {
	bodyBytes := layout.ExecuteHeadBytes + len(operations)*layout.OperationBytes
	op := byte(layout.TransferOpExecute)
	if s.signer != nil {
		op = layout.TransferOpSigned
		bodyBytes += layout.SignedHeadBytes
	}
	packet := transport.NewPacket(op, bodyBytes)
	if s.signer != nil {
		packet = packet[:len(packet)+layout.SignedHeadBytes]
	}
	begin := len(packet)
	packet = (&layout.ExecuteHead{
		Token:    s.token.get(),
		Sequence: s.next,
		Slot:     s.slot,
		Count:    uint16(len(operations)),
	}).Append(packet)
	for i := range operations {
		packet = operations[i].append(packet)
	}
	if s.signer == nil {
		return packet, nil
	}
	key := s.signer.PublicKey()
	signature, err := s.signer.Sign(sha256.Sum256(append([]byte(signedDomain), packet[begin:]...)))
	if err != nil {
		return nil, fmt.Errorf("transfer: signing a packet: %w", err)
	}
	(&layout.SignedHead{
		Curve:     uint8(key.Curve),
		KeyPrefix: key.Bytes[0],
		KeyX:      [32]byte(key.Bytes[1:]),
		R:         [32]byte(signature[:32]),
		S:         [32]byte(signature[32:]),
	}).Append(packet[:layout.NativeHeaderBytes])
	return packet, nil
}

// send sends a packet and keeps account of the session's number. It is a repetition if the packet may have been sent
// before.
func (s *Session) send(ctx context.Context, operations []Operation, packet []byte, isRepetition bool) (*Result, error) {
	result := &Result{Outcomes: make([]Outcome, len(operations))}
	sent, err := s.client.ask(ctx, packet, writePause, func(status lineside.Status, body []byte) (bool, error) {
		if len(body) < layout.ExecuteHeadBytes {
			return false, nil
		}
		var head layout.ExecuteHead
		head.Decode(body)
		if status != lineside.StatusOK {
			return true, s.client.refused(status, head.Sequence)
		}
		own := layout.ExecuteHead{
			Token: s.token.get(), Sequence: s.next, Slot: s.slot, Count: uint16(len(operations)), Durability: head.Durability,
		}
		if len(body) != layout.ExecuteHeadBytes+len(operations)*layout.OperationBytes || head != own {
			return false, nil
		}
		result.IsDurable = head.Durability == layout.TransferDurable
		for i := range result.Outcomes {
			var item layout.Operation
			item.Decode(body[layout.ExecuteHeadBytes+i*layout.OperationBytes:])
			if !Code(item.Code).isKnown() {
				// The reply does not say if the operation was executed.
				return false, nil
			}
			result.Outcomes[i] = outcomeOf(Code(item.Code), item.Amount, item.Number)
		}
		return true, nil
	})
	isRepetition = isRepetition || sent > 1
	var refused *lineside.StatusError
	switch {
	case err == nil:
		s.next++
	case errors.As(err, &refused):
		if !transport.LeavesOpen(refused.Status, isRepetition, definite) {
			// The packet was not executed, and its number is free.
			break
		}
		err = s.unknown(operations, err)
		switch refused.Status {
		case lineside.StatusNoSession, lineside.StatusSequence, lineside.StatusReused:
			// The server has no reply to the packet: it does not know its outcome, and never will.
			if refused.Expected > s.next {
				s.next = refused.Expected
			}
		default:
			s.unanswered, s.packet = operations, hide(packet)
			return nil, err
		}
	case sent > 0 || isRepetition:
		s.unanswered, s.packet = operations, hide(packet)
		return nil, s.unknown(operations, err)
	}
	s.unanswered, s.packet = nil, secret[[]byte]{}
	if s.file != nil {
		if failed := s.file.write(s, nil); failed != nil {
			if err == nil {
				// The file still has the packet as unanswered, and so has the session: Resolve gets the reply again.
				s.next--
				s.unanswered, s.packet = operations, hide(packet)
				return nil, s.unknown(operations, failed)
			}
			err = errors.Join(err, failed)
		}
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}

// definite has the statuses with which a repeated packet is refused only if its first copy was refused, too.
var definite = []lineside.Status{
	lineside.StatusUnauthorised, lineside.StatusBadRequest, lineside.StatusUnsupportedVersion,
}

// body returns slot and token of the session.
func (s *Session) body() *layout.SessionBody {
	return &layout.SessionBody{Token: s.token.get(), Slot: s.slot}
}

// Check asks the server for the next number of the session. It differs from [Session.Next] if another client uses the
// session, or if the server has lost it.
func (s *Session) Check(ctx context.Context) (next uint64, err error) {
	s.mu.Lock()
	isReleased := s.isReleased
	s.mu.Unlock()
	if isReleased {
		return 0, ErrReleased
	}
	reply, err := s.client.session(ctx, layout.TransferOpSession, s.body())
	return reply.Sequence, err
}

// Next returns the number of the next packet.
func (s *Session) Next() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next
}

// Close closes the session at the server, and removes its file. Afterwards all calls return [ErrReleased].
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.isReleased:
		return ErrReleased
	case s.unanswered != nil:
		return ErrUnanswered
	}
	_, err := s.client.session(ctx, layout.TransferOpClose, s.body())
	var refused *lineside.StatusError
	if errors.As(err, &refused) && refused.Status == lineside.StatusNoSession {
		// The session is closed already, by the first copy of this request or by the server.
		err = nil
	}
	if err != nil {
		return err
	}
	s.isReleased = true
	if s.file != nil {
		return s.file.remove()
	}
	return nil
}

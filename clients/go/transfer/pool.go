package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	lineside "github.com/lineside/lineside/clients/go"
)

// Pool executes many operations at the same time, in several sessions.
type Pool struct {
	sessions []*Session
	// free has the sessions that no call uses.
	free chan *Session

	mu sync.Mutex
	// unanswered has the sessions whose last packet has no reply. While they are all sessions, stuck is closed.
	unanswered map[*Session]bool
	stuck      chan struct{}
}

// ErrNotSent means that an operation of a pool was not sent: the time was over before, or no session was usable.
var ErrNotSent = errors.New("transfer: the operation was not sent")

// OpenPool opens a pool with this number of sessions. The server limits the sessions of an address that it does not
// trust to 64.
func (c *Client) OpenPool(ctx context.Context, sessions int) (*Pool, error) {
	if sessions < 1 {
		return nil, fmt.Errorf("transfer: a pool needs at least 1 session, not %d", sessions)
	}
	p := &Pool{
		sessions:   make([]*Session, sessions),
		free:       make(chan *Session, sessions),
		unanswered: make(map[*Session]bool),
		stuck:      make(chan struct{}),
	}
	errs := make([]error, sessions)
	var wait sync.WaitGroup
	for i := range sessions {
		wait.Go(func() { p.sessions[i], errs[i] = c.Open(ctx) })
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, session := range p.sessions {
			if session != nil {
				_ = session.Close(ctx)
			}
		}
		return nil, err
	}
	for _, session := range p.sessions {
		p.free <- session
	}
	return p, nil
}

// SignWith makes all sessions sign their packets. Call it before the first use of the pool.
func (p *Pool) SignWith(signer lineside.Signer) {
	for _, session := range p.sessions {
		session.SignWith(signer)
	}
}

// PoolOutcome is the outcome of one operation of a pool.
type PoolOutcome struct {
	// Outcome is the outcome. Without one, its code is [CodeOutcomeUnknown] or [CodeNotExecuted].
	Outcome
	// Err is nil if the outcome is known. Otherwise it is the error of the packet of the operation: a
	// [*lineside.OutcomeUnknownError] if the code is [CodeOutcomeUnknown], and a [*lineside.StatusError] or an error that
	// wraps [ErrNotSent] if the code is [CodeNotExecuted].
	Err error
}

// without returns the outcome of an operation whose packet has no result.
func without(err error) PoolOutcome {
	var unknown *lineside.OutcomeUnknownError
	var refused *lineside.StatusError
	code := CodeNotExecuted
	switch {
	case errors.As(err, &unknown):
		code = CodeOutcomeUnknown
	case errors.As(err, &refused):
	case !errors.Is(err, ErrNotSent):
		err = fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return PoolOutcome{Outcome{Code: code, err: err}, err}
}

// Execute executes any number of operations in packets, several at the same time. Operations of different packets are
// not executed in the order in which they are given. Linked operations stay together in one packet.
//
// The whole call, and not each packet, ends at the deadline of the context or after [lineside.Options].Timeout. Give a
// client that executes long lists a longer timeout.
//
// It returns the outcome of each operation in the given order, and an error if one has no outcome: the first
// [*lineside.OutcomeUnknownError], or without one the first other error. A session whose packet has an unknown outcome
// is used again after [Pool.Resolve] with the id in the error; if all sessions have such a packet, the rest is not
// sent. An operation with an [IdempotencyKey] can be given again in another call instead, a chain of linked operations
// as a whole.
func (p *Pool) Execute(ctx context.Context, operations []Operation) ([]PoolOutcome, error) {
	if err := checkAll(operations); err != nil {
		return nil, err
	}
	packets, err := cut(operations, p.sessions[0].OperationsMax())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.sessions[0].client.options.CallTimeout())
	defer cancel()
	outcomes := make([]PoolOutcome, len(operations))
	var mu sync.Mutex
	var unknown, other error
	next := 0
	take := func() (begin, end int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		if next == len(packets) {
			return 0, 0, false
		}
		if next > 0 {
			begin = packets[next-1]
		}
		next++
		return begin, packets[next-1], true
	}
	run := func(begin, end int) {
		var result *Result
		session, err := p.acquire(ctx)
		if err == nil {
			result, err = session.Execute(ctx, operations[begin:end]...)
			p.release(session)
		}
		if err == nil {
			for i := begin; i < end; i++ {
				outcomes[i].Outcome = result.Outcomes[i-begin]
			}
			return
		}
		missing := without(err)
		for i := begin; i < end; i++ {
			outcomes[i] = missing
		}
		mu.Lock()
		defer mu.Unlock()
		if missing.Code == CodeOutcomeUnknown && unknown == nil {
			unknown = missing.Err
		} else if other == nil {
			other = missing.Err
		}
	}
	var wait sync.WaitGroup
	for range min(len(p.sessions), len(packets)) {
		wait.Go(func() {
			for begin, end, ok := take(); ok; begin, end, ok = take() {
				run(begin, end)
			}
		})
	}
	wait.Wait()
	if unknown != nil {
		return outcomes, unknown
	}
	return outcomes, other
}

// acquire waits for a session that no call uses.
func (p *Pool) acquire(ctx context.Context) (*Session, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	p.mu.Lock()
	stuck := p.stuck
	p.mu.Unlock()
	select {
	case session := <-p.free:
		return session, nil
	default:
	}
	select {
	case session := <-p.free:
		return session, nil
	case <-stuck:
		return nil, ErrUnanswered
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// release lets other calls use the session, unless its last packet has no reply.
func (p *Pool) release(session *Session) {
	if session.Unanswered() == nil {
		p.free <- session
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unanswered[session] = true
	if len(p.unanswered) == len(p.sessions) {
		close(p.stuck)
	}
}

// Resolve repeats the packet whose outcome is unknown, by the id in its [*lineside.OutcomeUnknownError].
func (p *Pool) Resolve(ctx context.Context, id string) (*Result, error) {
	for _, session := range p.sessions {
		session.mu.Lock()
		isIt := session.unanswered != nil && session.id() == id
		session.mu.Unlock()
		if isIt {
			result, err := session.Resolve(ctx)
			p.reuse(session)
			return result, err
		}
	}
	return nil, fmt.Errorf("transfer: %s: %w", id, ErrNothingUnanswered)
}

// reuse lets calls use a session again after its last packet was resolved.
func (p *Pool) reuse(session *Session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.unanswered[session] || session.Unanswered() != nil {
		return
	}
	if len(p.unanswered) == len(p.sessions) {
		p.stuck = make(chan struct{})
	}
	delete(p.unanswered, session)
	// There is room for every session, and each is there once.
	p.free <- session
}

// Close closes all sessions. No call may be in progress.
func (p *Pool) Close(ctx context.Context) error {
	errs := make([]error, len(p.sessions))
	var wait sync.WaitGroup
	for i, session := range p.sessions {
		wait.Go(func() { errs[i] = session.Close(ctx) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// cut returns the ends of packets of at most this many operations, so that no chain of linked operations is divided.
func cut(operations []Operation, most int) ([]int, error) {
	var ends []int
	begin, chain := 0, 0
	for i := range operations {
		if i == 0 || !operations[i-1].IsLinked {
			chain = i
		}
		if i-begin == most {
			if chain == begin {
				return nil, fmt.Errorf("transfer: more than %d operations are linked from operation %d on", most, chain+1)
			}
			ends = append(ends, chain)
			begin = chain
		}
	}
	if begin < len(operations) {
		ends = append(ends, len(operations))
	}
	return ends, nil
}

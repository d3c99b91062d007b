// Package lineside has what the clients of all Lineside services share: options, errors, status codes and signers.
//
// The clients are in packages of their own: [github.com/lineside/lineside/clients/go/spv],
// [github.com/lineside/lineside/clients/go/transfer], [github.com/lineside/lineside/clients/go/column] and
// [github.com/lineside/lineside/clients/go/hybrid].
//
// # Deadlines
//
// Every call takes a context, whose deadline limits the whole call. [Options].Timeout limits each request of a call,
// and most calls make one request. Until a request ends the client sends the request again, with the same bytes and at
// growing intervals, because datagrams can be lost. The servers execute a repeated change once.
//
// # Errors
//
// A call that only reads ends with a result, a [*StatusError] (the server refused), a [*TimeoutError], or the error of
// its context. A call that changes something may also end with an [*OutcomeUnknownError]: the request was sent, and no
// reply says if it was executed. This error names the id with which the outcome can be found later, and the idempotency
// keys under which operations of transfer can be repeated.
//
// An error is of at most one of these three types: errors.As finds neither a [*TimeoutError] nor a [*StatusError] in an
// [*OutcomeUnknownError]. errors.Is with [context.DeadlineExceeded] says only that the time was over. It is true for an
// [*OutcomeUnknownError], too, and does not say if something was changed.
package lineside

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Version is the version of this module.
const Version = "0.1.0"

// DefaultTimeout is the time after which a request ends if [Options] has no other one and the context no earlier end.
const DefaultTimeout = 10 * time.Second

// Options are the options of a client of any service. A nil pointer is the same as the zero value.
type Options struct {
	// Timeout limits the duration of each request to the server, in addition to the deadline of its call's context. A call
	// that makes several requests, such as the opening of a session, can take longer. 0 means [DefaultTimeout].
	Timeout time.Duration
}

// CallTimeout returns the timeout of a call with these options.
func (o *Options) CallTimeout() time.Duration {
	if o == nil || o.Timeout <= 0 {
		return DefaultTimeout
	}
	return o.Timeout
}

// ErrClosed is the error of calls on a closed client.
var ErrClosed = errors.New("lineside: the client is closed")

// IsKnown returns true if this version of the module knows the status. A reply with any other status says nothing about
// the request.
func (s Status) IsKnown() bool { return s <= StatusNoCommitment }

// TimeoutError says that no reply to a request that changes nothing arrived in time.
type TimeoutError struct {
	// Server is the address of the server.
	Server string
	// Waited is the time since the call began.
	Waited time.Duration
	// Busy is true if the server replied only that it is busy.
	Busy bool
	// Err is the last error of the system for this connection, such as "connection refused"; nil if there was none.
	Err error
}

// Error returns the server, the time and the next step.
func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("lineside: no answer from %s within %v", e.Server, e.Waited.Round(time.Millisecond))
	if e.Busy {
		text = fmt.Sprintf("lineside: %s was busy for %v; try again later", e.Server, e.Waited.Round(time.Millisecond))
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Timeout returns true, as net.Error requires.
func (e *TimeoutError) Timeout() bool { return true }

// Unwrap returns [context.DeadlineExceeded] and the last error of the system.
func (e *TimeoutError) Unwrap() []error {
	if e.Err == nil {
		return []error{context.DeadlineExceeded}
	}
	return []error{context.DeadlineExceeded, e.Err}
}

// StatusError says that the server refused a request as a whole. Nothing was changed.
type StatusError struct {
	// Server is the address of the server.
	Server string
	// Status is the reason.
	Status Status
	// Expected is the sequence number that the server expects, for [StatusSequence] and [StatusReused]; else 0.
	Expected uint64
}

// Error returns the server, the name of the status and its meaning.
func (e *StatusError) Error() string {
	text := fmt.Sprintf("lineside: %s refused the request: %v: %s", e.Server, e.Status, e.Status.Meaning())
	if e.Expected != 0 {
		text += fmt.Sprintf(" (%d)", e.Expected)
	}
	return text
}

// OutcomeUnknownError says that a change was sent, and that no reply says if it was executed. The packages explain how
// the outcome is found with the id; it is never right to send the change again under another id before that, except for
// an operation of transfer with an idempotency key.
type OutcomeUnknownError struct {
	// Service is the name of the service.
	Service string
	// ID names the request: in hybrid the id of the transaction in hexadecimal digits, in transfer "SLOT/SEQUENCE", in
	// column "SLOT/NONCE".
	ID string
	// Keys are the idempotency keys of the request's operations as UUIDs, in their order; only in transfer. An operation
	// with a key can be sent again with the same key, in any session, and is executed once.
	Keys []string
	// Err is the reason why the outcome is unknown, such as a [*TimeoutError], the error of the context, or the
	// [*StatusError] with which the server refused a repeated request. It says nothing about the outcome, and therefore
	// errors.As does not find it in this error.
	Err error
}

// keysNamed is the number of keys that the text of an error names.
const keysNamed = 4

// Error returns the service, the id, the first keys and the reason.
func (e *OutcomeUnknownError) Error() string {
	text := fmt.Sprintf("lineside: the outcome of %s request %s is unknown; ask for it by this id", e.Service, e.ID)
	if len(e.Keys) > 0 {
		text += ", or send an operation again with its idempotency key " +
			strings.Join(e.Keys[:min(len(e.Keys), keysNamed)], ", ")
	}
	if more := len(e.Keys) - keysNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("%s: %v", text, e.Err)
}

// Is returns true for the errors that the reason is or wraps, such as [context.DeadlineExceeded], [context.Canceled]
// and [ErrClosed]. There is no method Unwrap, because the types of the reason's errors say that nothing was changed.
func (e *OutcomeUnknownError) Is(target error) bool { return errors.Is(e.Err, target) }

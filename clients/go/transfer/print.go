package transfer

import (
	"fmt"
	"io"
	"log/slog"
)

// String returns the slot of the session and the number of its next packet. Like all printed forms of a session, it
// does not have the token, with which anybody could use the session.
func (s *Session) String() string {
	if s == nil {
		return "transfer: no session"
	}
	if !s.mu.TryLock() {
		return fmt.Sprintf("transfer: session %d, with a call in progress", s.slot)
	}
	defer s.mu.Unlock()
	return fmt.Sprintf("transfer: session %d, next packet %d", s.slot, s.next)
}

// GoString is like [Session.String].
func (s *Session) GoString() string { return s.String() }

// Format writes [Session.String] for every verb.
func (s *Session) Format(out fmt.State, _ rune) { _, _ = io.WriteString(out, s.String()) }

// LogValue returns [Session.String] for package slog.
func (s *Session) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Format writes the address of the server for every verb, because packets that wait have the tokens of sessions.
func (c *Client) Format(out fmt.State, _ rune) {
	_, _ = io.WriteString(out, "transfer: client of "+c.conn.Server())
}

// secret keeps a value out of printed forms of the structure that has it: fmt prints only the address of a pointer in a
// structure. It calls no methods of hidden fields, so that [Session.Format] is not enough.
type secret[T any] struct{ hidden *T }

func hide[T any](value T) secret[T] { return secret[T]{&value} }

// get returns the value, and the zero value if there is none.
func (s secret[T]) get() (value T) {
	if s.hidden != nil {
		value = *s.hidden
	}
	return value
}

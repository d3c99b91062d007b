// Code generated from spec/*.toml by `cargo run -p lineside-spec`. DO NOT EDIT.

package lineside

import "strconv"

// Status is the status code of a native reply.
type Status uint16

// Values of Status.
const (
	// StatusOK: done.
	StatusOK Status = 0
	// StatusUnknown: not found: no connected block holds the transaction, or there is no such row.
	StatusUnknown Status = 1
	// StatusBadRequest: wrong length, unknown operation, or padding that is not zero.
	StatusBadRequest Status = 2
	// StatusBusy: the host's queue is full: try again later.
	StatusBusy Status = 3
	// StatusUnsupportedVersion: this server does not support the header's version.
	StatusUnsupportedVersion Status = 4
	// StatusNoSession: no such session, or a wrong token.
	StatusNoSession Status = 5
	// StatusSequence: wrong sequence number: the reply has the one that the session expects next.
	StatusSequence Status = 6
	// StatusReused: the request has the session's last sequence number, but another body.
	StatusReused Status = 7
	// StatusUnauthorised: the sender may not do this, or has not signed it.
	StatusUnauthorised Status = 8
	// StatusNoRoom: nothing can be written: the disk or memory is full, or writing has ended after an error.
	StatusNoRoom Status = 9
	// StatusOutcomeUnknown: the change may or may not have been executed: its outcome is not known.
	StatusOutcomeUnknown Status = 10
	// StatusUnknownFamily: the table has no such column family.
	StatusUnknownFamily Status = 11
	// StatusStartBehindStop: the scan's start key is above its stop key.
	StatusStartBehindStop Status = 12
	// StatusNotANumber: cannot increment: the cell value is not 8 bytes.
	StatusNotANumber Status = 13
	// StatusTooLong: too long for a packet (the reply has the length), or a change would make a cell too long.
	StatusTooLong Status = 14
	// StatusNotKept: the server does not keep the data that this operation needs.
	StatusNotKept Status = 15
	// StatusNoCommitment: the transaction's block commits to no witnesses.
	StatusNoCommitment Status = 16
)

// String returns the name of the code, which does not change between versions.
func (s Status) String() string {
	switch s {
	case StatusOK:
		return "ok"
	case StatusUnknown:
		return "unknown"
	case StatusBadRequest:
		return "bad_request"
	case StatusBusy:
		return "busy"
	case StatusUnsupportedVersion:
		return "unsupported_version"
	case StatusNoSession:
		return "no_session"
	case StatusSequence:
		return "sequence"
	case StatusReused:
		return "reused"
	case StatusUnauthorised:
		return "unauthorised"
	case StatusNoRoom:
		return "no_room"
	case StatusOutcomeUnknown:
		return "outcome_unknown"
	case StatusUnknownFamily:
		return "unknown_family"
	case StatusStartBehindStop:
		return "start_behind_stop"
	case StatusNotANumber:
		return "not_a_number"
	case StatusTooLong:
		return "too_long"
	case StatusNotKept:
		return "not_kept"
	case StatusNoCommitment:
		return "no_commitment"
	}
	return "code " + strconv.Itoa(int(s))
}

// Meaning returns the meaning of the code in words.
func (s Status) Meaning() string {
	switch s {
	case StatusOK:
		return "done"
	case StatusUnknown:
		return "not found: no connected block holds the transaction, or there is no such row"
	case StatusBadRequest:
		return "wrong length, unknown operation, or padding that is not zero"
	case StatusBusy:
		return "the host's queue is full: try again later"
	case StatusUnsupportedVersion:
		return "this server does not support the header's version"
	case StatusNoSession:
		return "no such session, or a wrong token"
	case StatusSequence:
		return "wrong sequence number: the reply has the one that the session expects next"
	case StatusReused:
		return "the request has the session's last sequence number, but another body"
	case StatusUnauthorised:
		return "the sender may not do this, or has not signed it"
	case StatusNoRoom:
		return "nothing can be written: the disk or memory is full, or writing has ended after an error"
	case StatusOutcomeUnknown:
		return "the change may or may not have been executed: its outcome is not known"
	case StatusUnknownFamily:
		return "the table has no such column family"
	case StatusStartBehindStop:
		return "the scan's start key is above its stop key"
	case StatusNotANumber:
		return "cannot increment: the cell value is not 8 bytes"
	case StatusTooLong:
		return "too long for a packet (the reply has the length), or a change would make a cell too long"
	case StatusNotKept:
		return "the server does not keep the data that this operation needs"
	case StatusNoCommitment:
		return "the transaction's block commits to no witnesses"
	}
	return "code " + strconv.Itoa(int(s))
}

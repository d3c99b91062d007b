// Code generated from spec/*.toml by `cargo run -p lineside-spec`. DO NOT EDIT.

package hybrid

import "strconv"

// Code is the outcome of one operation of hybrid.
type Code uint16

// Values of Code.
const (
	// CodeDone: committed; for reads: answered.
	CodeDone Code = 0
	// CodeRecorded: the vote counts; the change needs more votes.
	CodeRecorded Code = 1
	// CodeConflict: a version that the transaction read is not the newest one: nothing was written.
	CodeConflict Code = 2
	// CodeMalformed: not a canonical encoding of a request.
	CodeMalformed Code = 3
	// CodeWrongDatabase: the request is for another database.
	CodeWrongDatabase Code = 4
	// CodeUnknownMember: unknown member, or unknown key of the member.
	CodeUnknownMember Code = 5
	// CodeRevoked: the member or the key was revoked.
	CodeRevoked Code = 6
	// CodeBadSignature: the member's signature of the request is not valid.
	CodeBadSignature Code = 7
	// CodeHighS: s of the signature is above half the curve's order.
	CodeHighS Code = 8
	// CodeNonceUsed: the nonce is not above the last one of this member's lane.
	CodeNonceUsed Code = 9
	// CodeExpired: the request has expired by the time of its block, or of the node.
	CodeExpired Code = 10
	// CodeNotAllowed: no rule gives the member this right for the key, or only an admin may do this.
	CodeNotAllowed Code = 11
	// CodeBadChange: the change is not possible in the present state of the database.
	CodeBadChange Code = 12
	// CodeTooManyVotes: too many changes are waiting for votes.
	CodeTooManyVotes Code = 13
	// CodeTooLarge: too long for UDP, or for a message: use gRPC, or send less at once.
	CodeTooLarge Code = 14
	// CodeBusy: the node is busy and has not accepted the request: try again later.
	CodeBusy Code = 15
	// CodeReadOnly: this node accepts no writes; its status has the reason.
	CodeReadOnly Code = 16
	// CodeExpiryTooFar: a read must expire within a minute.
	CodeExpiryTooFar Code = 17
	// CodeUnknown: no such transaction, or nothing to prove.
	CodeUnknown Code = 18
	// CodeOutcomeUnknown: the request may or may not have been executed: ask for its outcome.
	CodeOutcomeUnknown Code = 19
	// CodeWrongMode: the paper's format for a database that is not in the paper's mode, or the reverse.
	CodeWrongMode Code = 20
	// CodeOldVersion: the key's version is above the request's version: nothing was written.
	CodeOldVersion Code = 21
)

// Values of Code that no server sends.
const (
	// CodeNotExecuted: the request was not sent, or the server refused it as a whole.
	CodeNotExecuted Code = 0xfffe
)

// String returns the name of the code, which does not change between versions.
func (c Code) String() string {
	switch c {
	case CodeDone:
		return "done"
	case CodeRecorded:
		return "recorded"
	case CodeConflict:
		return "conflict"
	case CodeMalformed:
		return "malformed"
	case CodeWrongDatabase:
		return "wrong_database"
	case CodeUnknownMember:
		return "unknown_member"
	case CodeRevoked:
		return "revoked"
	case CodeBadSignature:
		return "bad_signature"
	case CodeHighS:
		return "high_s"
	case CodeNonceUsed:
		return "nonce_used"
	case CodeExpired:
		return "expired"
	case CodeNotAllowed:
		return "not_allowed"
	case CodeBadChange:
		return "bad_change"
	case CodeTooManyVotes:
		return "too_many_votes"
	case CodeTooLarge:
		return "too_large"
	case CodeBusy:
		return "busy"
	case CodeReadOnly:
		return "read_only"
	case CodeExpiryTooFar:
		return "expiry_too_far"
	case CodeUnknown:
		return "unknown"
	case CodeOutcomeUnknown:
		return "outcome_unknown"
	case CodeWrongMode:
		return "wrong_mode"
	case CodeOldVersion:
		return "old_version"
	case CodeNotExecuted:
		return "not_executed"
	}
	return "code " + strconv.Itoa(int(c))
}

// Meaning returns the meaning of the code in words.
func (c Code) Meaning() string {
	switch c {
	case CodeDone:
		return "committed; for reads: answered"
	case CodeRecorded:
		return "the vote counts; the change needs more votes"
	case CodeConflict:
		return "a version that the transaction read is not the newest one: nothing was written"
	case CodeMalformed:
		return "not a canonical encoding of a request"
	case CodeWrongDatabase:
		return "the request is for another database"
	case CodeUnknownMember:
		return "unknown member, or unknown key of the member"
	case CodeRevoked:
		return "the member or the key was revoked"
	case CodeBadSignature:
		return "the member's signature of the request is not valid"
	case CodeHighS:
		return "s of the signature is above half the curve's order"
	case CodeNonceUsed:
		return "the nonce is not above the last one of this member's lane"
	case CodeExpired:
		return "the request has expired by the time of its block, or of the node"
	case CodeNotAllowed:
		return "no rule gives the member this right for the key, or only an admin may do this"
	case CodeBadChange:
		return "the change is not possible in the present state of the database"
	case CodeTooManyVotes:
		return "too many changes are waiting for votes"
	case CodeTooLarge:
		return "too long for UDP, or for a message: use gRPC, or send less at once"
	case CodeBusy:
		return "the node is busy and has not accepted the request: try again later"
	case CodeReadOnly:
		return "this node accepts no writes; its status has the reason"
	case CodeExpiryTooFar:
		return "a read must expire within a minute"
	case CodeUnknown:
		return "no such transaction, or nothing to prove"
	case CodeOutcomeUnknown:
		return "the request may or may not have been executed: ask for its outcome"
	case CodeWrongMode:
		return "the paper's format for a database that is not in the paper's mode, or the reverse"
	case CodeOldVersion:
		return "the key's version is above the request's version: nothing was written"
	case CodeNotExecuted:
		return "the request was not sent, or the server refused it as a whole"
	}
	return "code " + strconv.Itoa(int(c))
}

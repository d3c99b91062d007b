// Code generated from spec/*.toml by `cargo run -p lineside-spec`. DO NOT EDIT.

package transfer

import "strconv"

// Code is the outcome of one operation of transfer.
type Code uint16

// Values of Code.
const (
	// CodeDone: done.
	CodeDone Code = 0
	// CodeUnknownAccount: no such account.
	CodeUnknownAccount Code = 1
	// CodeAccountExists: the account exists already.
	CodeAccountExists Code = 2
	// CodeInsufficientFunds: insufficient funds: the source's balance without pending amounts is lower.
	CodeInsufficientFunds Code = 3
	// CodeOverflow: a balance, including pending transfers to it, would exceed its format.
	CodeOverflow Code = 4
	// CodeSameAccount: source and destination are the same.
	CodeSameAccount Code = 5
	// CodeStoreFull: the limit of accounts or pending transfers is reached.
	CodeStoreFull Code = 6
	// CodeStaleId: the transaction id is below the last one of the source account.
	CodeStaleId Code = 7
	// CodeBusy: busy, not executed: try again.
	CodeBusy Code = 8
	// CodeFrozen: source or destination is frozen.
	CodeFrozen Code = 9
	// CodeBadCommand: unknown command, contract or flag; transfer or native issue of 0; forbidden value.
	CodeBadCommand Code = 10
	// CodeIdReused: last transaction id of the account, or a known idempotency key, with another body.
	CodeIdReused Code = 11
	// CodeUnauthorised: the sender may not do this, or has not signed it.
	CodeUnauthorised Code = 12
	// CodeLinkedFailed: not executed, because a linked operation was refused.
	CodeLinkedFailed Code = 13
	// CodeUnknownPending: no pending transfer with this uuid between these accounts, or it has ended.
	CodeUnknownPending Code = 14
	// CodePendingExists: a pending transfer with this uuid exists already.
	CodePendingExists Code = 15
)

// Values of Code that no server sends.
const (
	// CodeOutcomeUnknown: the operation was sent, and no reply says if it was executed.
	CodeOutcomeUnknown Code = 0xffff
	// CodeNotExecuted: the operation was not sent, or the server refused its whole packet.
	CodeNotExecuted Code = 0xfffe
)

// String returns the name of the code, which does not change between versions.
func (c Code) String() string {
	switch c {
	case CodeDone:
		return "done"
	case CodeUnknownAccount:
		return "unknown_account"
	case CodeAccountExists:
		return "account_exists"
	case CodeInsufficientFunds:
		return "insufficient_funds"
	case CodeOverflow:
		return "overflow"
	case CodeSameAccount:
		return "same_account"
	case CodeStoreFull:
		return "store_full"
	case CodeStaleId:
		return "stale_id"
	case CodeBusy:
		return "busy"
	case CodeFrozen:
		return "frozen"
	case CodeBadCommand:
		return "bad_command"
	case CodeIdReused:
		return "id_reused"
	case CodeUnauthorised:
		return "unauthorised"
	case CodeLinkedFailed:
		return "linked_failed"
	case CodeUnknownPending:
		return "unknown_pending"
	case CodePendingExists:
		return "pending_exists"
	case CodeOutcomeUnknown:
		return "outcome_unknown"
	case CodeNotExecuted:
		return "not_executed"
	}
	return "code " + strconv.Itoa(int(c))
}

// Meaning returns the meaning of the code in words.
func (c Code) Meaning() string {
	switch c {
	case CodeDone:
		return "done"
	case CodeUnknownAccount:
		return "no such account"
	case CodeAccountExists:
		return "the account exists already"
	case CodeInsufficientFunds:
		return "insufficient funds: the source's balance without pending amounts is lower"
	case CodeOverflow:
		return "a balance, including pending transfers to it, would exceed its format"
	case CodeSameAccount:
		return "source and destination are the same"
	case CodeStoreFull:
		return "the limit of accounts or pending transfers is reached"
	case CodeStaleId:
		return "the transaction id is below the last one of the source account"
	case CodeBusy:
		return "busy, not executed: try again"
	case CodeFrozen:
		return "source or destination is frozen"
	case CodeBadCommand:
		return "unknown command, contract or flag; transfer or native issue of 0; forbidden value"
	case CodeIdReused:
		return "last transaction id of the account, or a known idempotency key, with another body"
	case CodeUnauthorised:
		return "the sender may not do this, or has not signed it"
	case CodeLinkedFailed:
		return "not executed, because a linked operation was refused"
	case CodeUnknownPending:
		return "no pending transfer with this uuid between these accounts, or it has ended"
	case CodePendingExists:
		return "a pending transfer with this uuid exists already"
	case CodeOutcomeUnknown:
		return "the operation was sent, and no reply says if it was executed"
	case CodeNotExecuted:
		return "the operation was not sent, or the server refused its whole packet"
	}
	return "code " + strconv.Itoa(int(c))
}

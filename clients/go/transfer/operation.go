package transfer

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
)

// AccountID is the id of an account. Numbers below 2^32 are also the ids of the paper's format.
type AccountID [16]byte

// Account returns the account with a number.
func Account(number uint32) AccountID {
	var id AccountID
	binary.BigEndian.PutUint32(id[12:], number)
	return id
}

// ParseAccount reads a decimal number below 2^32, or 32 hexadecimal digits.
func ParseAccount(text string) (AccountID, error) {
	if len(text) == 32 {
		if bytes, err := hex.DecodeString(text); err == nil {
			return AccountID(bytes), nil
		}
	}
	number, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return AccountID{}, errors.New("transfer: an account must be a number below 4294967296 or 32 hexadecimal digits")
	}
	return Account(uint32(number)), nil
}

// String returns a number below 2^32 in decimal digits, and any other id in 32 hexadecimal digits.
func (a AccountID) String() string {
	if (AccountID{}) == a || [12]byte(a[:12]) == ([12]byte{}) {
		return strconv.FormatUint(uint64(binary.BigEndian.Uint32(a[12:])), 10)
	}
	return hex.EncodeToString(a[:])
}

// UUID is the client's id of an operation. It names a pending transfer.
type UUID [16]byte

// Command is what an operation does.
type Command uint8

// The commands.
const (
	// CommandCreate creates an account.
	CommandCreate Command = layout.TransferCommandCreate
	// CommandIssue adds new money to an account.
	CommandIssue Command = layout.TransferCommandIssue
	// CommandTransfer moves money.
	CommandTransfer Command = layout.TransferCommandTransfer
	// CommandRefer asks for a balance; only in the paper's format.
	CommandRefer Command = layout.TransferCommandRefer
	// CommandFreeze freezes an account.
	CommandFreeze Command = layout.TransferCommandFreeze
	// CommandUnfreeze ends the freezing of an account.
	CommandUnfreeze Command = layout.TransferCommandUnfreeze
)

// Operation is one operation of a packet. The functions of this package make operations; further fields may be set
// afterwards.
type Operation struct {
	// Command is what the operation does.
	Command Command
	// IsLinked means that this operation and the next one are executed together or not at all.
	IsLinked bool
	// postsAll means that the amount 0 of a post is the whole pending amount. It and fault are here because this is where
	// they make the structure no larger.
	postsAll bool
	// fault is the reason why no packet may have the operation; 0 if there is none.
	fault fault
	// Contract is 0, or one of the values of pending transfers.
	Contract uint32
	// Source is the account that pays, is created or is affected.
	Source AccountID
	// Destination is the account that is paid; of a new account, the fingerprint of its owner's key.
	Destination AccountID
	// Amount is the amount. It is 0 for [Void], [PostAll], [Freeze] and [Unfreeze].
	Amount uint64
	// Timestamp is the time of the client's clock. The server stores it and does not use it.
	Timestamp uint64
	// UUID is the client's id of the operation. It names a pending transfer.
	UUID UUID
	// Key is the idempotency key; the zero value means that the operation has none. [Operation.WithKey] explains which
	// operations can have which key.
	Key IdempotencyKey
	// Nonce is for the client. The server stores it and does not use it.
	Nonce uint32
	// Timeout is the number of seconds until a pending transfer expires; 0: never.
	Timeout uint32
}

// fault is the reason why no packet may have an operation.
type fault uint8

const (
	faultTimeNotPositive fault = 1 + iota
	faultTimeTooLong
	faultZeroKey
)

// faults has the errors of the faults; that of no fault is nil.
var faults = [...]error{
	faultTimeNotPositive: errors.New("transfer: the time of a pending transfer is not above 0; use PendingForever " +
		"for one that does not expire"),
	faultTimeTooLong: errors.New("transfer: the time of a pending transfer is above 4294967295 seconds"),
	faultZeroKey:     errors.New("transfer: the zero value is no idempotency key; make one with NewIdempotencyKey"),
}

// errIssueOfZero is the error of an issue that issues nothing.
var errIssueOfZero = errors.New("transfer: the amount of an issue must be above 0")

func (o *Operation) isPost() bool {
	return o.Command == CommandTransfer && o.Contract == layout.TransferContractPost
}

// check returns an error if no packet may have the operation.
func (o *Operation) check() error {
	switch {
	case o.fault != 0:
		return faults[o.fault]
	case o.Amount == 0 && o.Command == CommandIssue:
		return errIssueOfZero
	case o.Amount == 0 && o.Command == CommandTransfer && o.Contract <= layout.TransferContractPending:
		return errors.New("transfer: the amount of a transfer must be above 0")
	case o.Amount == 0 && o.isPost() && !o.postsAll:
		return errors.New("transfer: a post needs an amount above 0; use PostAll for the whole amount, or Void for nothing")
	}
	return o.checkKey()
}

// checkAll returns the error of the first operation that no packet may have.
func checkAll(operations []Operation) error {
	for i := range operations {
		if err := operations[i].check(); err != nil {
			return fmt.Errorf("operation %d of %d, nothing was sent: %w", i+1, len(operations), err)
		}
	}
	return nil
}

// Create returns the operation that creates an account with an amount of new money.
func Create(account AccountID, amount uint64) Operation {
	return Operation{Command: CommandCreate, Source: account, Amount: amount}
}

// CreateOwned is like [Create], for an account that belongs to a key: [lineside.PublicKey.Fingerprint].
func CreateOwned(account AccountID, amount uint64, owner [16]byte) Operation {
	return Operation{Command: CommandCreate, Source: account, Amount: amount, Destination: owner}
}

// Issue returns the operation that adds new money to an account. Execute refuses the amount 0 before it sends anything.
func Issue(account AccountID, amount uint64) Operation {
	return Operation{Command: CommandIssue, Source: account, Amount: amount}
}

// Transfer returns the operation that moves an amount, which must be above 0.
func Transfer(from, to AccountID, amount uint64) Operation {
	return Operation{Command: CommandTransfer, Source: from, Destination: to, Amount: amount}
}

// Pending returns the operation that reserves an amount for a transfer, until [Post], [PostAll] or [Void] with the same
// UUID and accounts, or until the time is over. The server counts whole seconds: the time is rounded up. Execute
// refuses an operation with a time that is not above 0, or that is longer than 2^32 - 1 seconds, before it sends
// anything.
func Pending(id UUID, from, to AccountID, amount uint64, timeout time.Duration) Operation {
	o := PendingForever(id, from, to, amount)
	seconds := timeout / time.Second
	if timeout%time.Second > 0 {
		seconds++
	}
	switch {
	case timeout <= 0:
		o.fault = faultTimeNotPositive
	case seconds > math.MaxUint32:
		o.fault = faultTimeTooLong
	default:
		o.Timeout = uint32(seconds)
	}
	return o
}

// PendingForever is like [Pending], without an end: the amount stays reserved until [Post], [PostAll] or [Void].
func PendingForever(id UUID, from, to AccountID, amount uint64) Operation {
	o := Transfer(from, to, amount)
	o.Contract, o.UUID = layout.TransferContractPending, id
	return o
}

// Post returns the operation that executes a pending transfer with this amount, which is at most the pending one. The
// rest is free again. Execute refuses the amount 0 before it sends anything: in a packet, it means the whole amount.
func Post(id UUID, from, to AccountID, amount uint64) Operation {
	o := Transfer(from, to, amount)
	o.Contract, o.UUID = layout.TransferContractPost, id
	return o
}

// PostAll returns the operation that executes a pending transfer with its whole amount.
func PostAll(id UUID, from, to AccountID) Operation {
	o := Post(id, from, to, 0)
	o.postsAll = true
	return o
}

// Void returns the operation that ends a pending transfer without executing it.
func Void(id UUID, from, to AccountID) Operation {
	o := Transfer(from, to, 0)
	o.Contract, o.UUID = layout.TransferContractVoid, id
	return o
}

// Freeze returns the operation after which an account neither gives nor gets.
func Freeze(account AccountID) Operation { return Operation{Command: CommandFreeze, Source: account} }

// Unfreeze returns the operation that ends the effect of [Freeze].
func Unfreeze(account AccountID) Operation {
	return Operation{Command: CommandUnfreeze, Source: account}
}

// Linked returns the operation linked with the next one of its packet: a chain of linked operations is executed as a
// whole or not at all.
func (o Operation) Linked() Operation {
	o.IsLinked = true
	return o
}

func (o *Operation) append(b []byte) []byte {
	m := layout.Operation{
		Command:     uint8(o.Command),
		Contract:    o.Contract,
		Source:      o.Source,
		Destination: o.Destination,
		Amount:      o.Amount,
		Timestamp:   o.Timestamp,
		Uuid:        o.UUID,
		Nonce:       o.Nonce,
		TimeoutS:    o.Timeout,
	}
	if o.IsLinked {
		m.Flags |= layout.TransferFlagLinked
	}
	if !o.Key.isZero() {
		m.Flags |= layout.TransferFlagKeyed
		m.Uuid = o.Key
	}
	return m.Append(b)
}

// readOperation reads the operation of a request or of a sealed block.
func readOperation(m *layout.Operation) Operation {
	o := Operation{
		Command:     Command(m.Command),
		IsLinked:    m.Flags&layout.TransferFlagLinked != 0,
		Contract:    m.Contract,
		Source:      m.Source,
		Destination: m.Destination,
		Amount:      m.Amount,
		Timestamp:   m.Timestamp,
		UUID:        m.Uuid,
		Nonce:       m.Nonce,
		Timeout:     m.TimeoutS,
	}
	o.postsAll = o.Amount == 0 && o.isPost()
	if m.Flags&layout.TransferFlagKeyed != 0 {
		o.Key = m.Uuid
		if o.Contract == 0 {
			o.UUID = UUID{}
		}
	}
	return o
}

// isKnown returns true for a code that a server of this version sends.
func (c Code) isKnown() bool { return c <= CodePendingExists }

// Outcome is the result of one operation.
type Outcome struct {
	// Code is [CodeDone], or the reason why the operation was not executed.
	Code Code
	// HasBalance means that Balance is known. The reply to a refused operation says nothing about the balance:
	// [Client.Refer] asks for it.
	HasBalance bool
	// Balance is the balance of the source after the operation. It is 0 if HasBalance is false.
	Balance uint64
	// Number is the number of the operation in the ledger; 0 if it was refused or has no number yet.
	Number uint64

	// err is the error of an operation of a pool without an outcome.
	err error
}

// outcomeOf returns the outcome in a reply or in a sealed block.
func outcomeOf(code Code, balance, number uint64) Outcome {
	if code != CodeDone {
		return Outcome{Code: code, Number: number}
	}
	return Outcome{Code: code, Balance: balance, HasBalance: true, Number: number}
}

// Err returns nil for an executed operation, and a [*RefusedError] for one that was not executed. For an operation of a
// [Pool] without an outcome it returns [PoolOutcome].Err.
func (o Outcome) Err() error {
	switch {
	case o.err != nil:
		return o.err
	case o.Code == CodeDone:
		return nil
	case o.Code == CodeOutcomeUnknown:
		return &lineside.OutcomeUnknownError{Service: "transfer", Err: errors.New("the operation has no outcome")}
	case o.Code == CodeNotExecuted:
		return ErrNotSent
	}
	return &RefusedError{o.Code}
}

// RefusedError says that an operation was not executed.
type RefusedError struct {
	// Code is the reason.
	Code Code
}

// Error returns the name of the code and its meaning.
func (e *RefusedError) Error() string {
	return fmt.Sprintf("transfer: %v: %s", e.Code, e.Code.Meaning())
}

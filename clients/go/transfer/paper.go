package transfer

import (
	"context"
	"errors"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/transport"
)

// PaperRequest is a request in the format of the paper that the service follows.
type PaperRequest struct {
	// Command is [CommandCreate], [CommandIssue], [CommandTransfer] or [CommandRefer].
	Command Command
	// TransactionID makes the request exactly-once: it must be above the last one of the source. With 0 the request is
	// sent once and never repeated.
	TransactionID uint32
	// Source is the account that pays, is created or is queried.
	Source uint32
	// Destination is the account that is paid; only of a transfer.
	Destination uint32
	// Amount is the amount.
	Amount uint32
}

func (r *PaperRequest) layout() layout.PaperTransfer {
	return layout.PaperTransfer{
		Command:       uint32(r.Command),
		TransactionId: r.TransactionID,
		Source:        r.Source,
		Destination:   r.Destination,
		Amount:        r.Amount,
	}
}

// Paper sends a request in the paper's format and returns the balance of the source after the operation.
//
// Errors: a [*RefusedError]; a [*lineside.OutcomeUnknownError] if a change got no reply, whose id is
// "SOURCE/TRANSACTION ID": send the same request again, unless its transaction id is 0; and the others of package
// lineside.
func (c *Client) Paper(ctx context.Context, request PaperRequest) (balance uint32, err error) {
	if request.Command == CommandIssue && request.Amount == 0 {
		return 0, errIssueOfZero
	}
	sent := request.layout()
	var refused error
	accept := func(packet []byte) transport.Verdict {
		if len(packet) != layout.PaperTransferBytes {
			return transport.Ignore
		}
		var reply layout.PaperTransfer
		reply.Decode(packet)
		isRefusal := reply.Command&layout.TransferPaperRefused != 0
		same := reply
		same.Command &^= layout.TransferPaperRefused
		same.Amount = sent.Amount
		switch {
		case same != sent:
			return transport.Ignore
		case isRefusal && Code(reply.Amount) == CodeBusy:
			return transport.Busy
		case isRefusal && !Code(reply.Amount).isKnown():
			return transport.Ignore
		case isRefusal:
			refused = &RefusedError{Code(reply.Amount)}
		default:
			balance = reply.Amount
		}
		return transport.Done
	}
	isRead := request.Command == CommandRefer
	once := !isRead && request.TransactionID == 0
	err = transport.Plain(ctx, c.conn.Server(), sent.Append(nil), once, c.options, accept)
	var timeout *lineside.TimeoutError
	if err != nil && !isRead && !(once && errors.As(err, &timeout) && timeout.Busy) {
		id := Account(request.Source).String() + "/" + Account(request.TransactionID).String()
		return 0, &lineside.OutcomeUnknownError{Service: "transfer", ID: id, Err: err}
	}
	if err == nil {
		err = refused
	}
	return balance, err
}

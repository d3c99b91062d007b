package transfer

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/vectors"
)

// signature is a signer with a key and a signature from a vector.
type signature layout.SignedHead

func (s *signature) PublicKey() lineside.PublicKey {
	key := lineside.PublicKey{Curve: lineside.Curve(s.Curve)}
	key.Bytes[0] = s.KeyPrefix
	copy(key.Bytes[1:], s.KeyX[:])
	return key
}

func (s *signature) Sign([32]byte) ([64]byte, error) {
	var out [64]byte
	copy(out[:32], s.R[:])
	copy(out[32:], s.S[:])
	return out, nil
}

// execute makes the packet of a vector again and returns the body of the reply that its result has.
func execute(t *testing.T, client *Client, request, reply []byte) (body []byte, isMade bool, err error) {
	t.Helper()
	asked := request[16:]
	session := &Session{client: client}
	if request[3] == layout.TransferOpSigned {
		if len(asked) < layout.SignedHeadBytes {
			return nil, false, nil
		}
		var head layout.SignedHead
		head.Decode(asked)
		session.signer = (*signature)(&head)
		asked = asked[layout.SignedHeadBytes:]
	}
	if len(asked) < layout.ExecuteHeadBytes+layout.OperationBytes {
		return nil, false, nil
	}
	var head layout.ExecuteHead
	head.Decode(asked)
	session.slot, session.token, session.next = head.Slot, hide(head.Token), head.Sequence
	var operations []Operation
	for rest := asked[layout.ExecuteHeadBytes:]; len(rest) >= layout.OperationBytes; rest = rest[layout.OperationBytes:] {
		var operation layout.Operation
		operation.Decode(rest)
		isKeyed := operation.Flags&layout.TransferFlagKeyed != 0
		if operation.Flags > 3 || isKeyed && operation.Uuid == [16]byte{} || operation.Code != 0 || operation.Number != 0 {
			// The client cannot set such a field.
			return nil, false, nil
		}
		operations = append(operations, readOperation(&operation))
	}
	if checkAll(operations) != nil {
		return nil, false, nil
	}
	if int(head.Count) != len(operations) || head.Durability != 0 || len(operations) > session.OperationsMax() {
		return nil, false, nil
	}
	result, err := session.Execute(t.Context(), operations...)
	if err != nil {
		return nil, true, err
	}
	head.Durability = layout.TransferExpress
	if result.IsDurable {
		head.Durability = layout.TransferDurable
	}
	body = head.Append(nil)
	for i, outcome := range result.Outcomes {
		var item layout.Operation
		item.Decode(operations[i].append(nil))
		item.Code, item.Amount, item.Number = uint16(outcome.Code), outcome.Balance, outcome.Number
		body = item.Append(body)
	}
	return body, true, nil
}

// again makes the request of a vector with the client. It returns the body of the reply that the result has.
func again(t *testing.T, client *Client, request, reply []byte) (body []byte, isMade bool, err error) {
	t.Helper()
	asked := request[16:]
	switch request[3] {
	case layout.TransferOpExecute, layout.TransferOpSigned:
		return execute(t, client, request, reply)
	case layout.TransferOpOpen, layout.TransferOpClose, layout.TransferOpSession:
		if len(asked) != layout.SessionBodyBytes {
			return nil, false, nil
		}
		var session layout.SessionBody
		session.Decode(asked)
		answer, err := client.session(t.Context(), request[3], &session)
		return answer.Append(nil), true, err
	case layout.TransferOpRefer:
		count := (len(asked) - layout.ReferHeadBytes) / layout.BalanceItemBytes
		if count < 1 || count > AccountsMax || len(asked) != layout.ReferHeadBytes+count*layout.BalanceItemBytes {
			return nil, false, nil
		}
		var accounts []AccountID
		for i := range count {
			accounts = append(accounts, AccountID(asked[layout.ReferHeadBytes+i*layout.BalanceItemBytes:][:16]))
		}
		balances, err := client.Refer(t.Context(), accounts...)
		body = append(body, reply[16:min(16+layout.ReferHeadBytes, len(reply))]...)
		for i, balance := range balances {
			item := layout.BalanceItem{Account: accounts[i], Code: uint16(CodeUnknownAccount)}
			if balance != nil {
				item = layout.BalanceItem{
					Account: accounts[i], Balance: balance.Balance, Held: balance.Held, Version: balance.Version,
				}
				if balance.IsFrozen {
					item.Frozen = 1
				}
			}
			body = item.Append(body)
		}
		return body, true, err
	}
	return nil, false, nil
}

func TestRequestsAndRepliesAreThoseOfTheVectors(t *testing.T) {
	server := vectors.Serve(t)
	client, err := Dial(t.Context(), server.Address(), &lineside.Options{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	made, papers := map[byte]int{}, 0
	for name, file := range vectors.ReadAll(t, "transfer") {
		for _, vector := range file.Lists["vector"] {
			request, reply := vector.Bytes("request"), vector.Bytes("reply")
			what := name + ", " + vector.Text("what")
			if len(request) == layout.PaperTransferBytes && len(reply) == len(request) {
				if paperAgain(t, client, server, what, request, reply) {
					papers++
				}
				continue
			}
			if len(request) < 16 || len(reply) < 16 || string(request[:3]) != "LS\x01" {
				continue
			}
			status := lineside.Status(binary.BigEndian.Uint16(reply[4:]))
			if status == lineside.StatusBadRequest || status == lineside.StatusBusy {
				// A client never makes such a request; or it repeats it.
				continue
			}
			server.Expect(request, reply)
			body, isMade, err := again(t, client, request, reply)
			if !isMade {
				continue
			}
			made[request[3]]++
			if other := server.Other(); other != nil {
				t.Errorf("%s: the client sent\n%x, not\n%x", what, other, request)
			}
			var refused *lineside.StatusError
			switch {
			case status == lineside.StatusOK && err == nil:
				if !bytes.Equal(body, reply[16:]) {
					t.Errorf("%s: the client read\n%x from\n%x", what, body, reply[16:])
				}
			case !errors.As(err, &refused) || refused.Status != status:
				t.Errorf("%s: status %v is the error %v", what, status, err)
			}
		}
	}
	for op := byte(layout.TransferOpExecute); op <= layout.TransferOpSigned; op++ {
		if made[op] < 2 {
			t.Errorf("%d vectors have operation %d", made[op], op)
		}
	}
	if papers < 100 {
		t.Errorf("%d vectors are in the paper's format", papers)
	}
	t.Logf("requests by operation: %v, in the paper's format: %d", made, papers)
}

// paperAgain makes a request in the paper's format again.
func paperAgain(t *testing.T, client *Client, server *vectors.Server, what string, request, reply []byte) bool {
	t.Helper()
	var asked, answered layout.PaperTransfer
	asked.Decode(request)
	answered.Decode(reply)
	isRefusal := answered.Command&layout.TransferPaperRefused != 0
	if asked.Command > 255 || asked.Command == uint32(CommandIssue) && asked.Amount == 0 || isRefusal && Code(answered.Amount) == CodeBusy {
		return false
	}
	server.Expect(request, reply)
	balance, err := client.Paper(t.Context(), PaperRequest{
		Command: Command(asked.Command), TransactionID: asked.TransactionId, Source: asked.Source,
		Destination: asked.Destination, Amount: asked.Amount,
	})
	if other := server.Other(); other != nil {
		t.Errorf("%s: the client sent\n%x, not\n%x", what, other, request)
	}
	var refused *RefusedError
	switch {
	case !isRefusal && (err != nil || balance != answered.Amount):
		t.Errorf("%s: %d, %v, not %d", what, balance, err, answered.Amount)
	case isRefusal && (!errors.As(err, &refused) || refused.Code != Code(answered.Amount)):
		t.Errorf("%s: code %d is the error %v", what, answered.Amount, err)
	}
	return true
}

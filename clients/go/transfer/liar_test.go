package transfer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/livetest"
)

// liar is a false server that opens sessions as a real one does. execute replies to packets of operations.
type liar struct {
	execute livetest.Lie
	slot    uint32
	// packets is the number of packets of operations that arrived.
	packets atomic.Int32
}

// secretToken is the token of all sessions of a liar.
const secretToken = 0x5ec4e7ca11ab1e

func (l *liar) lie(op byte, body []byte) (lineside.Status, []byte, bool) {
	switch op {
	case layout.TransferOpOpen:
		var asked layout.SessionBody
		asked.Decode(body)
		if asked.Challenge == [16]byte{} {
			return lineside.StatusOK, (&layout.SessionBody{Challenge: [16]byte{1}}).Append(nil), true
		}
		l.slot++
		granted := layout.SessionBody{Token: secretToken, Sequence: 1, Slot: l.slot}
		return lineside.StatusOK, granted.Append(nil), true
	case layout.TransferOpClose, layout.TransferOpSession:
		return lineside.StatusOK, make([]byte, layout.SessionBodyBytes), true
	}
	l.packets.Add(1)
	return l.execute(op, body)
}

// answered returns the reply in which every operation has this code.
func answered(body []byte, code Code) []byte {
	var head layout.ExecuteHead
	head.Decode(body)
	head.Durability = layout.TransferDurable
	reply := head.Append(nil)
	for rest := body[layout.ExecuteHeadBytes:]; len(rest) >= layout.OperationBytes; rest = rest[layout.OperationBytes:] {
		var item layout.Operation
		item.Decode(rest)
		item.Code, item.Amount, item.Number = uint16(code), 0, 0
		if code == CodeDone {
			item.Amount, item.Number = 77, 9
		}
		reply = item.Append(reply)
	}
	return reply
}

func startLiar(t *testing.T, execute livetest.Lie) (*Client, *liar) {
	t.Helper()
	server := &liar{execute: execute}
	address := livetest.StartLiar(t, server.lie)
	return dial(t, address, &lineside.Options{Timeout: 300 * time.Millisecond}), server
}

// forTime ends the test if the call takes much longer than the timeout of the client.
func forTime(t *testing.T, call func()) {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		call()
	}()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Fatal("the call did not end 20 s after a timeout of 300 ms")
	}
}

func TestACallOfAPoolEndsAlthoughTheServerIsSilent(t *testing.T) {
	var isHonest atomic.Bool
	client, server := startLiar(t, func(_ byte, body []byte) (lineside.Status, []byte, bool) {
		return lineside.StatusOK, answered(body, CodeDone), isHonest.Load()
	})
	// The context has no deadline.
	ctx := context.Background()
	pool, err := client.OpenPool(ctx, 2)
	if err != nil {
		t.Fatal(err)
	}
	operations := make([]Operation, 40)
	for i := range operations {
		operations[i] = Transfer(Account(1), Account(2), 1)
	}
	var outcomes []PoolOutcome
	execute := func() {
		t.Helper()
		forTime(t, func() { outcomes, err = pool.Execute(ctx, operations) })
	}
	execute()
	var open *lineside.OutcomeUnknownError
	if !errors.As(err, &open) {
		t.Errorf("the error of the call is %v", err)
	}
	ids := map[string]int{}
	for i, outcome := range outcomes {
		var unknown *lineside.OutcomeUnknownError
		var refused *RefusedError
		isUnknown := errors.As(outcome.Err, &unknown)
		if outcome.Outcome.Err() == nil || errors.As(outcome.Outcome.Err(), &refused) {
			t.Errorf("operation %d without an outcome has the error %v", i, outcome.Outcome.Err())
		}
		switch {
		case i < 32 && isUnknown && outcome.Code == CodeOutcomeUnknown:
			ids[unknown.ID]++
		case i >= 32 && errors.Is(outcome.Err, ErrNotSent) && outcome.Code == CodeNotExecuted && !isUnknown:
		default:
			t.Errorf("operation %d has the code %v and the error %v", i, outcome.Code, outcome.Err)
		}
	}
	if len(ids) != 2 {
		t.Fatalf("the ids of the unknown packets are %v", ids)
	}
	// While all packets are unanswered, nothing is sent.
	before := server.packets.Load()
	execute()
	for i, outcome := range outcomes {
		if !errors.Is(outcome.Err, ErrNotSent) || !errors.Is(outcome.Err, ErrUnanswered) || outcome.Code == CodeDone {
			t.Errorf("operation %d of the second call: %v, %v", i, outcome.Code, outcome.Err)
		}
	}
	if server.packets.Load() != before {
		t.Error("a packet was sent although all sessions wait for a reply")
	}
	isHonest.Store(true)
	for id, count := range ids {
		result, err := pool.Resolve(ctx, id)
		if err != nil || len(result.Outcomes) != count {
			t.Errorf("%s is resolved as %+v, %v", id, result, err)
		}
		if _, err := pool.Resolve(ctx, id); !errors.Is(err, ErrNothingUnanswered) {
			t.Errorf("%s is resolved a second time: %v", id, err)
		}
	}
	execute()
	for i, outcome := range outcomes {
		if err != nil || outcome.Code != CodeDone || outcome.Err != nil || outcome.Outcome.Err() != nil {
			t.Errorf("operation %d after the resolution: %+v, %v", i, outcome, err)
		}
	}
}

func TestACallOfAPoolEndsAtTheTimeoutAlthoughEachPacketIsAnswered(t *testing.T) {
	client, _ := startLiar(t, func(_ byte, body []byte) (lineside.Status, []byte, bool) {
		time.Sleep(50 * time.Millisecond)
		return lineside.StatusOK, answered(body, CodeDone), true
	})
	pool, err := client.OpenPool(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	operations := make([]Operation, 16*1000)
	for i := range operations {
		operations[i] = Transfer(Account(1), Account(2), 1)
	}
	var outcomes []PoolOutcome
	forTime(t, func() { outcomes, err = pool.Execute(context.Background(), operations) })
	if err == nil {
		t.Error("1000 packets of 50 ms were answered within 300 ms")
	}
	last := outcomes[len(outcomes)-1]
	if last.Code != CodeNotExecuted || !errors.Is(last.Err, ErrNotSent) {
		t.Errorf("the last operation: %v, %v", last.Code, last.Err)
	}
}

func TestOperationsOfARefusedPacketOfAPoolAreNotDone(t *testing.T) {
	client, _ := startLiar(t, func(_ byte, body []byte) (lineside.Status, []byte, bool) {
		return lineside.StatusUnauthorised, nil, true
	})
	pool, err := client.OpenPool(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	outcomes, err := pool.Execute(t.Context(), []Operation{Transfer(Account(1), Account(2), 1)})
	var refused *lineside.StatusError
	if !errors.As(err, &refused) || outcomes[0].Code != CodeNotExecuted || !errors.As(outcomes[0].Outcome.Err(), &refused) ||
		errors.Is(err, ErrNotSent) {
		t.Errorf("%+v, %v", outcomes, err)
	}
	for code, name := range map[Code]string{CodeOutcomeUnknown: "outcome_unknown", CodeNotExecuted: "not_executed"} {
		if (Outcome{Code: code}).Err() == nil || code.isKnown() {
			t.Errorf("%v is no error, or is a code that servers send", code)
		}
		if code.String() != name || strings.HasPrefix(code.Meaning(), "code ") {
			t.Errorf("the code %d is printed as %q, with the meaning %q", code, code.String(), code.Meaning())
		}
	}
}

func TestOnlyADefiniteRefusalIsARefusal(t *testing.T) {
	const strange = lineside.Status(777)
	if last := CodePendingExists; !last.isKnown() || (last + 1).isKnown() || (last+1).String() != fmt.Sprintf("code %d", last+1) {
		t.Errorf("%v is not the last known code", last)
	}
	for _, test := range []struct {
		status lineside.Status
		// isRepeated means that the server answers only the second copy.
		isRepeated, isUnknown, isUnanswered bool
	}{
		{lineside.StatusNoSession, false, false, false},
		{lineside.StatusSequence, false, false, false},
		{lineside.StatusUnauthorised, false, false, false},
		{lineside.StatusNoRoom, false, false, false},
		{lineside.StatusOutcomeUnknown, false, true, true},
		{strange, false, true, true},
		{lineside.StatusNoSession, true, true, false},
		{lineside.StatusSequence, true, true, false},
		{lineside.StatusReused, true, true, false},
		{lineside.StatusNoRoom, true, true, true},
		{lineside.StatusOutcomeUnknown, true, true, true},
		{lineside.StatusUnauthorised, true, false, false},
		{lineside.StatusBadRequest, true, false, false},
	} {
		for _, hasBody := range []bool{false, true} {
			copies := 0
			client, _ := startLiar(t, func(_ byte, body []byte) (lineside.Status, []byte, bool) {
				copies++
				var reply []byte
				if hasBody {
					reply = answered(body, CodeBusy)
				}
				return test.status, reply, !test.isRepeated || copies > 1
			})
			session := open(t, client)
			payment := Transfer(Account(1), Account(2), 5).WithKey(NewIdempotencyKey())
			result, err := session.Execute(t.Context(), payment)
			var unknown *lineside.OutcomeUnknownError
			var refused *lineside.StatusError
			var timeout *lineside.TimeoutError
			isUnknown, isRefused := errors.As(err, &unknown), errors.As(err, &refused)
			if result != nil || isUnknown != test.isUnknown || isRefused == test.isUnknown || errors.As(err, &timeout) {
				t.Errorf("%+v: %+v, %v", test, result, err)
			}
			if isUnknown && (unknown.ID != "1/1" || len(unknown.Keys) != 1 || !strings.Contains(err.Error(), test.status.String())) {
				t.Errorf("%+v: the error does not name the request and the reason: %v", test, err)
			}
			if isUnanswered := session.Unanswered() != nil; isUnanswered != test.isUnanswered {
				t.Errorf("%+v: unanswered: %v", test, isUnanswered)
			}
		}
	}
}

func TestAReplyWithAnUnknownCodeIsNoOutcome(t *testing.T) {
	client, _ := startLiar(t, func(_ byte, body []byte) (lineside.Status, []byte, bool) {
		return lineside.StatusOK, answered(body, 999), true
	})
	result, err := open(t, client).Execute(t.Context(), Transfer(Account(1), Account(2), 5))
	var unknown *lineside.OutcomeUnknownError
	if !errors.As(err, &unknown) {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestAReplyOfAnotherPacketIsIgnored(t *testing.T) {
	// Each offset is in one field of the head: token, sequence, slot, count.
	for _, offset := range []int{0, 7, 8, 15, 16, 19, 21} {
		client, _ := startLiar(t, func(_ byte, body []byte) (lineside.Status, []byte, bool) {
			reply := answered(body, CodeDone)
			reply[offset] ^= 0xff
			return lineside.StatusOK, reply, true
		})
		result, err := open(t, client).Execute(t.Context(), Transfer(Account(1), Account(2), 5))
		var unknown *lineside.OutcomeUnknownError
		if !errors.As(err, &unknown) {
			t.Errorf("a reply with another byte %d: %+v, %v", offset, result, err)
		}
	}
}

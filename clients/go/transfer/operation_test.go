package transfer

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
)

// refuses ends the test if a session or a pool sends an operation that no packet may have.
func refuses(t *testing.T, operation Operation, words string) {
	t.Helper()
	client, server := startLiar(t, func(_ byte, body []byte) (lineside.Status, []byte, bool) {
		return lineside.StatusOK, answered(body, CodeDone), true
	})
	session := open(t, client)
	pool, err := client.OpenPool(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	good := Transfer(Account(1), Account(2), 5)
	_, err = session.Execute(t.Context(), good, operation)
	if err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), "operation 2 of 2") {
		t.Errorf("%+v in a session: %v", operation, err)
	}
	if outcomes, err := pool.Execute(t.Context(), []Operation{good, operation}); err == nil || outcomes != nil {
		t.Errorf("%+v in a pool: %+v, %v", operation, outcomes, err)
	}
	if sent := server.packets.Load(); sent != 0 || session.Unanswered() != nil {
		t.Errorf("%d packets were sent with %+v", sent, operation)
	}
	if _, err := session.Execute(t.Context(), good); err != nil {
		t.Errorf("an operation after a refusal of the client: %v", err)
	}
}

func TestThePendingTimeIsRoundedUp(t *testing.T) {
	id, one, two := UUID{1}, Account(1), Account(2)
	for _, test := range []struct {
		timeout time.Duration
		seconds uint32
	}{
		{1, 1}, {500 * time.Millisecond, 1}, {time.Second, 1}, {time.Second + 1, 2}, {time.Minute, 60},
		{math.MaxUint32 * time.Second, math.MaxUint32},
		{(math.MaxUint32-1)*time.Second + 1, math.MaxUint32},
	} {
		operation := Pending(id, one, two, 50, test.timeout)
		var wire layout.Operation
		wire.Decode(operation.append(nil))
		if operation.check() != nil || wire.TimeoutS != test.seconds {
			t.Errorf("%v is sent as %d s: %v", test.timeout, wire.TimeoutS, operation.check())
		}
	}
	if forever := PendingForever(id, one, two, 50); forever.check() != nil || forever.Timeout != 0 {
		t.Errorf("a pending transfer that never expires: %+v", forever)
	}
	for _, timeout := range []time.Duration{0, -1, -time.Second, math.MinInt64} {
		refuses(t, Pending(id, one, two, 50, timeout), "not above 0")
	}
	for _, timeout := range []time.Duration{math.MaxUint32*time.Second + 1, 200 * 365 * 24 * time.Hour, math.MaxInt64} {
		refuses(t, Pending(id, one, two, 50, timeout).Linked(), "above 4294967295 seconds")
	}
}

func TestAPendingTransferOfHalfASecondExpires(t *testing.T) {
	client := dial(t, start(t, "").Address("transfer"), patient)
	session, id := open(t, client), UUID{1, 2, 3}
	must(t)(session.Execute(t.Context(), Create(Account(1), 100), Create(Account(2), 0)))
	must(t)(session.Execute(t.Context(), Pending(id, Account(1), Account(2), 50, 500*time.Millisecond)))
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		found, err := client.Refer(t.Context(), Account(1))
		if err != nil {
			t.Fatal(err)
		}
		if found[0].Held == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("20 s later, %d are held", found[0].Held)
		}
	}
}

func TestAmountsOfZeroAreRefusedByTheClient(t *testing.T) {
	id, one, two := UUID{1}, Account(1), Account(2)
	refuses(t, Post(id, one, two, 0), "PostAll")
	refuses(t, Post(id, one, two, 0).WithKey(IdempotencyKey(id)).Linked(), "PostAll")
	post := Transfer(one, two, 0)
	post.Contract, post.UUID = layout.TransferContractPost, id
	refuses(t, post, "PostAll")
	refuses(t, Issue(one, 0), "issue")
	refuses(t, Transfer(one, two, 0), "a transfer must be above 0")
	refuses(t, Pending(id, one, two, 0, time.Hour), "a transfer must be above 0")
	refuses(t, PendingForever(id, one, two, 0).Linked(), "a transfer must be above 0")
	var client Client
	if _, err := client.Paper(t.Context(), PaperRequest{Command: CommandIssue, TransactionID: 1, Source: 1}); err == nil {
		t.Error("the paper's issue of 0 is sent")
	}
}

func TestAPostOfAllPostsThePendingAmount(t *testing.T) {
	client := dial(t, start(t, "").Address("transfer"), patient)
	one, two := Account(1), Account(2)
	session := open(t, client)
	must(t)(session.Execute(t.Context(), Create(one, 100), Create(two, 0), Pending(UUID{1}, one, two, 50, time.Hour)))
	must(t)(session.Execute(t.Context(), PostAll(UUID{1}, one, two)))
	found, err := client.Refer(t.Context(), one, two)
	if err != nil || found[0].Balance != 50 || found[0].Held != 0 || found[1].Balance != 50 {
		t.Errorf("after the post: %+v, %+v, %v", found[0], found[1], err)
	}
}

func TestARefusalHasNoBalance(t *testing.T) {
	client := dial(t, start(t, "").Address("transfer"), patient)
	one, two := Account(1), Account(2)
	result, err := open(t, client).Execute(t.Context(),
		Create(one, 100), Create(two, 0), Transfer(one, two, 1000), Transfer(one, two, 100))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []Outcome{
		{Code: CodeDone, Balance: 100, HasBalance: true, Number: 1},
		{Code: CodeDone, Balance: 0, HasBalance: true, Number: 2},
		{Code: CodeInsufficientFunds},
		{Code: CodeDone, Balance: 0, HasBalance: true, Number: 3},
	} {
		if result.Outcomes[i] != want {
			t.Errorf("operation %d: %+v, not %+v", i, result.Outcomes[i], want)
		}
	}
	// A server that sends a number all the same.
	client, _ = startLiar(t, func(_ byte, body []byte) (lineside.Status, []byte, bool) {
		reply := answered(body, CodeDone)
		reply[layout.ExecuteHeadBytes+3] = byte(CodeFrozen)
		return lineside.StatusOK, reply, true
	})
	result, err = open(t, client).Execute(t.Context(), Transfer(one, two, 1))
	if err != nil || result.Outcomes[0].HasBalance || result.Outcomes[0].Balance != 0 {
		t.Errorf("%+v, %v", result, err)
	}
}

func TestTheZeroKeyIsRefused(t *testing.T) {
	var none IdempotencyKey
	id, one, two := UUID{1}, Account(1), Account(2)
	for _, operation := range []Operation{
		Transfer(one, two, 5), Create(one, 5), Pending(id, one, two, 5, time.Hour), PostAll(id, one, two), Void(id, one, two),
	} {
		refuses(t, operation.WithKey(none), "the zero value is no idempotency key")
		refuses(t, operation.WithKey(none).Linked(), "the zero value is no idempotency key")
	}
}

func TestAReleasedSessionIsNotUsed(t *testing.T) {
	client, server := startLiar(t, func(_ byte, body []byte) (lineside.Status, []byte, bool) {
		return lineside.StatusOK, answered(body, CodeDone), true
	})
	ctx, good := t.Context(), Transfer(Account(1), Account(2), 5)
	path := filepath.Join(t.TempDir(), "session")
	for _, isClosed := range []bool{false, true} {
		inFile, err := client.OpenFile(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, session := range []*Session{inFile, open(t, client)} {
			must(t)(session.Execute(ctx, good))
			end := session.Release
			if isClosed {
				end = func() error { return session.Close(ctx) }
			}
			if err := end(); err != nil {
				t.Error(err)
			}
			before, _ := os.ReadFile(path)
			sent := server.packets.Load()
			_, executed := session.Execute(ctx, good)
			_, resolved := session.Resolve(ctx)
			_, checked := session.Check(ctx)
			for _, err := range []error{executed, resolved, checked, session.Close(ctx)} {
				if !errors.Is(err, ErrReleased) {
					t.Errorf("a call after the end of a session: %v", err)
				}
			}
			if err := session.Release(); err != nil {
				t.Errorf("a second release: %v", err)
			}
			after, err := os.ReadFile(path)
			if server.packets.Load() != sent || string(after) != string(before) || isClosed && err == nil {
				t.Errorf("the session was used after its end; its file is %q", after)
			}
		}
	}
}

func TestAFileThatCannotBeWrittenLosesNoResult(t *testing.T) {
	path := filepath.Join(t.TempDir(), "session")
	obstacle := path + ".new"
	isBlocked := true
	client, server := startLiar(t, func(_ byte, body []byte) (lineside.Status, []byte, bool) {
		if isBlocked {
			// The file was written before the packet was sent; it cannot be written after the reply.
			isBlocked = false
			if err := os.Mkdir(obstacle, 0o700); err != nil {
				t.Error(err)
			}
		}
		return lineside.StatusOK, answered(body, CodeDone), true
	})
	session, err := client.OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	result, err := session.Execute(t.Context(), Transfer(Account(1), Account(2), 5))
	var unknown *lineside.OutcomeUnknownError
	if !errors.As(err, &unknown) || result != nil || unknown.ID != "1/1" || session.Unanswered() == nil {
		t.Fatalf("a payment whose session file cannot be written: %+v, %v", result, err)
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	must(t)(session.Resolve(t.Context()))
	if session.Next() != 2 || session.Unanswered() != nil || server.packets.Load() != 2 {
		t.Errorf("after %d packets the next one is %d", server.packets.Load(), session.Next())
	}
}

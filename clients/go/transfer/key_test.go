package transfer

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/livetest"
)

func TestAKeyIsReadAsItIsPrinted(t *testing.T) {
	key := IdempotencyKey{0x7d, 0x44, 0x48, 0x40, 0x9d, 0xc0, 0x11, 0xd1, 0xb2, 0x45, 0x5f, 0xfd, 0xce, 0x74, 0xfa, 0xd2}
	const text = "7d444840-9dc0-11d1-b245-5ffdce74fad2"
	if key.String() != text {
		t.Errorf("the key is printed as %v", key)
	}
	for _, form := range []string{text, strings.ToUpper(text), strings.ReplaceAll(text, "-", "")} {
		if parsed, err := ParseIdempotencyKey(form); err != nil || parsed != key {
			t.Errorf("%s is read as %v, %v", form, parsed, err)
		}
	}
	zero := "00000000-0000-0000-0000-000000000000"
	for _, form := range []string{"", zero, text[1:], text + "0", text[:35] + "g", "7d4448409dc0-11d1-b245-5ffdce74fad2",
		"7-d444840-9dc0-11d1-b245-5ffdce74fad2", "{" + text + "}", strings.ReplaceAll(text, "-", "+")} {
		if parsed, err := ParseIdempotencyKey(form); err == nil {
			t.Errorf("%q is read as %v", form, parsed)
		}
	}
	seen := map[IdempotencyKey]bool{}
	for range 1000 {
		key := NewIdempotencyKey()
		text := key.String()
		parsed, err := ParseIdempotencyKey(text)
		// RFC 9562, section 5.4: version 4, variant 10.
		if seen[key] || err != nil || parsed != key || text[14] != '4' || !strings.Contains("89ab", text[19:20]) {
			t.Fatalf("%v is no new random UUID: %v, %v", key, parsed, err)
		}
		seen[key] = true
	}
}

func TestTheKeyIsInTheFieldOfTheUUID(t *testing.T) {
	key, id := IdempotencyKey{1, 2}, UUID{1, 2}
	one, two := Account(1), Account(2)
	for _, test := range []struct {
		operation Operation
		flags     uint8
	}{
		{Transfer(one, two, 3), 0},
		{Transfer(one, two, 3).WithKey(key), layout.TransferFlagKeyed},
		{Transfer(one, two, 3).WithKey(key).Linked(), layout.TransferFlagKeyed | layout.TransferFlagLinked},
		{Create(one, 3).WithKey(key), layout.TransferFlagKeyed},
		{Pending(id, one, two, 3, time.Minute).WithKey(key), layout.TransferFlagKeyed},
		{Post(id, one, two, 3).WithKey(key), layout.TransferFlagKeyed},
		{PostAll(id, one, two), 0},
		{PostAll(id, one, two).WithKey(key).Linked(), layout.TransferFlagKeyed | layout.TransferFlagLinked},
		{Void(id, one, two), 0},
		{Operation{Command: CommandTransfer, Source: one, Destination: two, Amount: 1, UUID: id}, 0},
	} {
		var wire layout.Operation
		wire.Decode(test.operation.append(nil))
		isMarked := test.flags&layout.TransferFlagKeyed != 0
		if wire.Flags != test.flags || isMarked && wire.Uuid != key {
			t.Errorf("%+v has the flags %d and the uuid %x", test.operation, wire.Flags, wire.Uuid)
		}
		if again := readOperation(&wire); again != test.operation || again.checkKey() != nil {
			t.Errorf("%+v is read as %+v: %v", test.operation, again, again.checkKey())
		}
	}
	session := &Session{client: &Client{packetBytes: 1400}}
	other := Transfer(one, two, 3).WithKey(key)
	other.UUID = UUID{9}
	for _, operation := range []Operation{
		other, PendingForever(UUID{9}, one, two, 3).WithKey(key), Post(UUID{}, one, two, 3).WithKey(key),
	} {
		if _, err := session.Execute(t.Context(), operation); err == nil || !strings.Contains(err.Error(), key.String()) {
			t.Errorf("%+v: %v", operation, err)
		}
	}
}

func open(t *testing.T, client *Client) *Session {
	t.Helper()
	session, err := client.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return session
}

// codes returns the codes of a packet's outcomes.
func codes(t *testing.T, session *Session, operations ...Operation) (codes []Code) {
	t.Helper()
	result, err := session.Execute(t.Context(), operations...)
	if err != nil {
		t.Fatal(err)
	}
	for _, outcome := range result.Outcomes {
		codes = append(codes, outcome.Code)
	}
	return codes
}

func TestAKeyedOperationIsExecutedOnceInEverySessionAndAfterAKill(t *testing.T) {
	server := start(t, "")
	ctx := t.Context()
	client := dial(t, server.Address("transfer"), patient)
	stream, err := DialTCP(ctx, server.Address("transfer"), patient)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	one, two := Account(1), Account(2)
	session := open(t, client)
	must(t)(session.Execute(ctx, Create(one, 1000), Create(two, 0)))
	payment := Transfer(one, two, 30).WithKey(NewIdempotencyKey())
	first := must(t)(session.Execute(ctx, payment)).Outcomes[0]
	if first.Balance != 970 || first.Number != 3 {
		t.Fatalf("the first outcome is %+v", first)
	}
	// The balance changes, so that the first outcome is not that of an execution now.
	must(t)(session.Execute(ctx, Transfer(one, two, 5)))
	repeat := func(what string, client *Client) {
		t.Helper()
		session := open(t, client)
		// Fields that are for the client may differ.
		again := payment
		again.Timestamp, again.Nonce = uint64(time.Now().UnixNano()), 7
		result := must(t)(session.Execute(ctx, again, payment))
		if result.Outcomes[0] != first || result.Outcomes[1] != first {
			t.Errorf("%s: the outcomes are %+v, not %+v", what, result.Outcomes, first)
		}
		larger, elsewhere, command := payment, payment, payment
		larger.Amount++
		elsewhere.Destination = Account(3)
		command.Command, command.Destination = CommandIssue, AccountID{}
		got := codes(t, session, larger, elsewhere, command)
		if fmt.Sprint(got) != "[id_reused id_reused id_reused]" {
			t.Errorf("%s: other operations with the key: %v", what, got)
		}
		if got := balances(t, client, one, two); got[0] != 965 || got[1] != 35 {
			t.Errorf("%s: the balances are %v", what, got)
		}
	}
	repeat("in another session", client)
	repeat("over TCP", stream)
	if err := server.KillAndRestart(); err != nil {
		t.Fatal(err)
	}
	repeat("after a kill", dial(t, server.Address("transfer"), patient))
	// The command line is another client.
	livetest.Do(t, server.Directory, "transfer", "transfer", "1", "2", "30", "--idempotency-key", payment.Key.String(),
		"--server", server.Address("transfer"))
	byCommand := Transfer(one, two, 1).WithKey(NewIdempotencyKey())
	livetest.Do(t, server.Directory, "transfer", "transfer", "1", "2", "1", "--idempotency-key", byCommand.Key.String(),
		"--server", server.Address("transfer"))
	again := must(t)(open(t, client).Execute(ctx, byCommand)).Outcomes[0]
	if again.Number != 5 || again.Balance != 964 {
		t.Errorf("the outcome of the command is %+v", again)
	}
	server.Stop()
	audit := livetest.Do(t, server.Directory, "--json", "transfer", "audit", "--data", "ledger")
	if !strings.Contains(audit, `"operations":5,`) {
		t.Errorf("the audit counts other operations than 5: %s", audit)
	}
}

func TestKeysOfAccountsAndOfPendingTransfersAreTheirOwn(t *testing.T) {
	client := dial(t, start(t, "").Address("transfer"), patient)
	one, two, three := Account(1), Account(2), Account(3)
	session := open(t, client)
	must(t)(session.Execute(t.Context(), Create(one, 100), Create(two, 100)))
	key := NewIdempotencyKey()
	id := UUID(key)
	for _, test := range []struct {
		what, want string
		operations []Operation
	}{
		{"a refused operation is not remembered", "[unknown_account done done]", []Operation{
			Transfer(one, three, 10).WithKey(key), Create(three, 0), Transfer(one, three, 10).WithKey(key)}},
		{"each account has its own keys", "[done done]", []Operation{
			Transfer(two, one, 10).WithKey(key), Transfer(two, one, 10).WithKey(key)}},
		{"a pending transfer and its post have one UUID", "[done done done done]", []Operation{
			PendingForever(id, three, two, 8).WithKey(key), PendingForever(id, three, two, 8).WithKey(key),
			Post(id, three, two, 6).WithKey(key), Post(id, three, two, 6).WithKey(key)}},
		{"another post", "[id_reused]", []Operation{Post(id, three, two, 5).WithKey(key)}},
	} {
		if got := fmt.Sprint(codes(t, session, test.operations...)); got != test.want {
			t.Errorf("%s: %v, not %v", test.what, got, test.want)
		}
	}
	if got := balances(t, client, one, two, three); fmt.Sprint(got) != "[100 96 4]" {
		t.Errorf("the balances are %v", got)
	}
	// A chain is repeated as a whole.
	chain := []Operation{
		Transfer(one, two, 1).WithKey(NewIdempotencyKey()).Linked(), Transfer(two, three, 1).WithKey(NewIdempotencyKey()),
	}
	first := must(t)(session.Execute(t.Context(), chain...))
	if again := must(t)(open(t, client).Execute(t.Context(), chain...)); !reflect.DeepEqual(again, first) {
		t.Errorf("the chain has the outcomes %+v, then %+v", first, again)
	}
	chain[1].Key = IdempotencyKey{}
	if got := codes(t, session, chain...); got[0] == CodeDone || got[1] == CodeDone {
		t.Errorf("a chain in which one operation has no key: %v", got)
	}
	if got := balances(t, client, one, two, three); fmt.Sprint(got) != "[99 96 5]" {
		t.Errorf("the balances after the chain are %v", got)
	}
}

func TestAnUnknownOutcomeIsFoundInAnotherSessionByItsKey(t *testing.T) {
	server := start(t, "")
	ctx := t.Context()
	relay := livetest.StartRelay(t, server.Address("transfer"), 11)
	far, near := dial(t, relay.Address(), patient), dial(t, server.Address("transfer"), patient)
	path := filepath.Join(t.TempDir(), "session")
	session, err := far.OpenFile(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	one, two := Account(1), Account(2)
	must(t)(session.Execute(ctx, Create(one, 100), Create(two, 0)))
	relay.LoseReplies()
	payment, plain := Transfer(one, two, 30).WithKey(NewIdempotencyKey()), Transfer(one, two, 1)
	short, cancel := context.WithCancel(ctx)
	failure := make(chan error, 1)
	go func() {
		_, err := session.Execute(short, payment, plain)
		failure <- err
	}()
	// The packet is executed, and its reply is lost.
	for balances(t, near, two)[0] != 31 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	err = <-failure
	var unknown *lineside.OutcomeUnknownError
	if !errors.As(err, &unknown) || !reflect.DeepEqual(unknown.Keys, []string{payment.Key.String()}) ||
		!strings.Contains(err.Error(), payment.Key.String()) {
		t.Fatalf("the error without a reply is %v", err)
	}
	key, err := ParseIdempotencyKey(unknown.Keys[0])
	if err != nil {
		t.Fatal(err)
	}
	found := must(t)(open(t, near).Execute(ctx, Transfer(one, two, 30).WithKey(key))).Outcomes[0]
	if found != outcomeOf(CodeDone, 70, 3) {
		t.Errorf("the outcome by the key is %+v", found)
	}
	// The session's file has the key, too.
	if err := session.Release(); err != nil {
		t.Fatal(err)
	}
	session, err = near.OpenFile(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	if waiting := session.Unanswered(); !reflect.DeepEqual(waiting, []Operation{payment, plain}) {
		t.Errorf("the file has the operations %+v", waiting)
	}
	if result := must(t)(session.Resolve(ctx)); result.Outcomes[0] != found {
		t.Errorf("the outcome of the session is %+v, that by the key %+v", result.Outcomes[0], found)
	}
	if got := balances(t, near, one, two); got[0] != 69 || got[1] != 31 {
		t.Errorf("the balances are %v", got)
	}
}

package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/livetest"
	"github.com/lineside/lineside/clients/go/transfer"
)

// server is the address of the server.
var server = "127.0.0.1:7702"

func ExampleSession_Execute() {
	ctx := context.Background()
	client, err := transfer.Dial(ctx, server, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	session, err := client.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)

	alice, bob := transfer.Account(1), transfer.Account(2)
	_, err = session.Execute(ctx, transfer.Create(alice, 100), transfer.Create(bob, 0))
	if err != nil {
		log.Fatal(err)
	}
	result, err := session.Execute(ctx, transfer.Transfer(alice, bob, 30), transfer.Transfer(alice, bob, 1000))
	var unknown *lineside.OutcomeUnknownError
	if errors.As(err, &unknown) {
		// No reply came in time. The packet is repeated, and executed once.
		result, err = session.Resolve(ctx)
	}
	if err != nil {
		log.Fatal(err)
	}
	for _, outcome := range result.Outcomes {
		fmt.Println(outcome.Code, outcome.Err())
	}
	balances, err := client.Refer(ctx, alice, bob)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(balances[0].Balance, balances[1].Balance)
}

func ExampleOperation_WithKey() {
	ctx := context.Background()
	client, err := transfer.Dial(ctx, server, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	session, err := client.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer session.Close(ctx)
	alice, bob := transfer.Account(1), transfer.Account(2)
	if _, err = session.Execute(ctx, transfer.Create(alice, 100), transfer.Create(bob, 0)); err != nil {
		log.Fatal(err)
	}

	// Store the key with the payment before it is sent.
	key := transfer.NewIdempotencyKey()
	payment := transfer.Transfer(alice, bob, 30).WithKey(key)
	first, err := session.Execute(ctx, payment)
	if err != nil {
		log.Fatal(err)
	}
	// After a crash or an unknown outcome, the payment is sent again in any session.
	other, err := client.Open(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer other.Close(ctx)
	again, err := other.Execute(ctx, payment, transfer.Transfer(alice, bob, 31).WithKey(key))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("the first outcome again:", again.Outcomes[0] == first.Outcomes[0])
	fmt.Println("another payment with the key:", again.Outcomes[1].Code)
	balances, err := client.Refer(ctx, alice, bob)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(balances[0].Balance, balances[1].Balance)
}

// start starts a server for an example.
func start(t *testing.T) {
	options := livetest.Options{Config: "[transfer]\ndata = \"ledger\"\n", Services: []string{"transfer"}}
	server = livetest.Start(t, options).Address("transfer")
}

func TestTheExamplesRun(t *testing.T) {
	start(t)
	livetest.RunExample(t, ExampleSession_Execute, `done <nil>
insufficient_funds transfer: insufficient_funds: `+transfer.CodeInsufficientFunds.Meaning()+`
70 30`)
	start(t)
	livetest.RunExample(t, ExampleOperation_WithKey, `the first outcome again: true
another payment with the key: id_reused
70 30`)
}

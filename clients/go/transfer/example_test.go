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

func TestTheExampleRuns(t *testing.T) {
	options := livetest.Options{Config: "[transfer]\ndata = \"ledger\"\n", Services: []string{"transfer"}}
	server = livetest.Start(t, options).Address("transfer")
	livetest.RunExample(t, ExampleSession_Execute, `done <nil>
insufficient_funds transfer: insufficient_funds: `+transfer.CodeInsufficientFunds.Meaning()+`
70 30`)
}

package column_test

import (
	"context"
	"fmt"
	"log"
	"testing"

	"github.com/lineside/lineside/clients/go/column"
	"github.com/lineside/lineside/clients/go/internal/livetest"
)

// server is the address of the server.
var server = "127.0.0.1:7703"

func ExampleClient_Scan() {
	ctx := context.Background()
	client, err := column.Dial(ctx, server, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, name := range []string{"alice", "bob", "carol"} {
		if err := client.Put(ctx, []byte(name), "entry:foo", []byte("value of "+name)); err != nil {
			log.Fatal(err)
		}
	}
	for row, err := range client.Scan(ctx, column.Range{Start: []byte("b")}, "entry:foo") {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %s\n", row.Key, row.Cells["entry:foo"])
	}
	visits, err := client.Increment(ctx, []byte("alice"), "entry:visits", 1)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("visits:", visits)
}

func TestTheExampleRuns(t *testing.T) {
	server = livetest.Start(t, livetest.Options{Services: []string{"column"}}).Address("column")
	livetest.RunExample(t, ExampleClient_Scan, "bob: value of bob\ncarol: value of carol\nvisits: 1")
}

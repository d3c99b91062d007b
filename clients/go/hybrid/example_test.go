package hybrid_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/hybrid"
	"github.com/lineside/lineside/clients/go/hybrid/hybridgrpc"
	"github.com/lineside/lineside/clients/go/internal/livetest"
)

// server is the address of the node, and directory has the files that `lineside hybrid init` has made.
var (
	server    = "127.0.0.1:7705"
	directory = "."
)

func ExampleClient_ProveValue() {
	ctx := context.Background()
	text, err := os.ReadFile(filepath.Join(directory, "genesis.bin"))
	if err != nil {
		log.Fatal(err)
	}
	genesis, err := hybrid.ParseGenesis(text)
	if err != nil {
		log.Fatal(err)
	}
	signer, err := lineside.ReadKeyFile(filepath.Join(directory, "alice.key"))
	if err != nil {
		log.Fatal(err)
	}
	identity, err := genesis.Identity(signer)
	if err != nil {
		log.Fatal(err)
	}
	client, err := hybrid.Dial(ctx, server, identity, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	placed, err := client.Set(ctx, []byte("greeting"), []byte("hello"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("written as version", placed.Version)
	proven, err := client.ProveValue(ctx, []byte("greeting"))
	if err != nil {
		log.Fatal(err)
	}
	// From here on no node is needed: the proof leads to the header that the node has signed.
	nodeKey, err := genesis.NodeKey(proven.Head.Node)
	if err != nil {
		log.Fatal(err)
	}
	if err := proven.Head.Verify(nodeKey); err != nil {
		log.Fatal(err)
	}
	err = proven.Proof.Verify(proven.Head.Header.Hash(), []byte("greeting"), []byte("hello"))
	fmt.Println("proven:", err == nil)
}

func TestTheExampleRuns(t *testing.T) {
	n := start(t)
	server, directory = n.server.Address("hybrid"), n.server.Directory
	livetest.RunExample(t, ExampleClient_ProveValue, "written as version 1.0\nproven: true")
	livetest.RunExample(t, Example_grpc, "hello")
}

func Example_grpc() {
	ctx := context.Background()
	text, err := os.ReadFile(filepath.Join(directory, "genesis.bin"))
	if err != nil {
		log.Fatal(err)
	}
	genesis, err := hybrid.ParseGenesis(text)
	if err != nil {
		log.Fatal(err)
	}
	signer, err := lineside.ReadKeyFile(filepath.Join(directory, "bob.key"))
	if err != nil {
		log.Fatal(err)
	}
	identity, err := genesis.Identity(signer)
	if err != nil {
		log.Fatal(err)
	}
	client, err := hybridgrpc.Dial(ctx, server, identity, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	cells, err := client.GetLinearizable(ctx, []byte("greeting"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", cells[0].Value)
}

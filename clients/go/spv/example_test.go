package spv_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	"github.com/lineside/lineside/clients/go/internal/livetest"
	"github.com/lineside/lineside/clients/go/spv"
)

// server is the address of the server, directory the one of the client's headers, and txid a transaction.
var (
	server    = "127.0.0.1:7701"
	directory = os.TempDir()
	txid      spv.Hash
)

func ExampleClient_Proof() {
	ctx := context.Background()
	client, err := spv.Dial(ctx, server, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	chain, err := spv.OpenHeaderChain(directory, spv.Regtest, spv.ChainOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer chain.Close()
	// The client's own chain of headers decides which blocks count, whatever the server says.
	if _, err := client.Sync(ctx, chain); err != nil {
		log.Fatal(err)
	}
	proof, _, err := client.Proof(ctx, txid)
	if err != nil {
		log.Fatal(err)
	}
	confirmations, err := chain.Verify(proof, txid)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("transaction %d of block %d, %d confirmations\n", proof.Index, proof.Height, confirmations)
}

func ExampleProof_Verify() {
	// The only transaction of block 0 is its coinbase, so that the Merkle root is its TXID.
	header := spv.Mainnet.Genesis()
	proof := spv.Proof{Header: header, TransactionCount: 1}
	fmt.Println(proof.Verify(spv.Mainnet, header.MerkleRoot))
	fmt.Println(proof.Verify(spv.Mainnet, spv.Hash{7}))
	// Output:
	// <nil>
	// spv: the proof is refused: wrong root
}

func TestTheExampleRuns(t *testing.T) {
	if _, err := livetest.Binary(); err != nil {
		t.Skip(err)
	}
	genesis := spv.Regtest.Genesis()
	blocks := livetest.MakeChain(genesis.Bytes(), 5, 3)
	directory = t.TempDir()
	if err := livetest.ImportChain(directory, genesis.Bytes(), blocks); err != nil {
		t.Fatal(err)
	}
	options := livetest.Options{Directory: directory, Config: "[spv]\ndata = \"chain\"\n", Services: []string{"spv"}}
	server = livetest.Start(t, options).Address("spv")
	txid = blocks[2].Txids[1]
	livetest.RunExample(t, ExampleClient_Proof, "transaction 1 of block 3, 3 confirmations")
}

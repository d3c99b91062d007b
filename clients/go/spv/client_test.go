package spv

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/livetest"
)

// startServer starts a server with 40 blocks of 30 transactions.
func startServer(t testing.TB) (*livetest.Server, []livetest.Block) {
	t.Helper()
	genesis := Regtest.Genesis()
	blocks := livetest.MakeChain(genesis.Bytes(), 40, 30)
	directory := t.TempDir()
	if _, err := livetest.Binary(); err != nil {
		t.Skip(err)
	}
	if err := livetest.ImportChain(directory, genesis.Bytes(), blocks); err != nil {
		t.Fatal(err)
	}
	return livetest.Start(t, livetest.Options{
		Directory: directory, Config: "[spv]\ndata = \"chain\"\n", Services: []string{"spv"},
	}), blocks
}

func dial(t testing.TB, address string) *Client {
	t.Helper()
	client, err := Dial(t.Context(), address, &lineside.Options{Timeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestALightClientVerifiesTransactionsOfARealServer(t *testing.T) {
	server, blocks := startServer(t)
	ctx := t.Context()
	client := dial(t, livetest.StartRelay(t, server.Address("spv"), 1).Address())
	directory := filepath.Join(t.TempDir(), "headers")
	chain, err := OpenHeaderChain(directory, Regtest, ChainOptions{})
	if err != nil {
		t.Fatal(err)
	}
	added, err := client.Sync(ctx, chain)
	if err != nil || added != len(blocks) {
		t.Fatalf("%d headers added: %v", added, err)
	}
	if tip := chain.Tip(); tip != (Tip{Hash(blocks[39].Hash), 40}) {
		t.Fatalf("the tip is %v", tip)
	}
	var wait sync.WaitGroup
	for height, block := range blocks {
		wait.Go(func() {
			index := height % 30
			txid := Hash(block.Txids[index])
			location, tip, err := client.Root(ctx, txid)
			if err != nil || location.Block != Hash(block.Hash) || tip.Height != 40 {
				t.Errorf("root of %v: %+v, %v, %v", txid, location, tip, err)
			}
			proof, _, err := client.Proof(ctx, txid)
			if err != nil {
				t.Errorf("proof of %v: %v", txid, err)
				return
			}
			confirmations, err := chain.Verify(proof, txid)
			if err != nil || int(confirmations) != 40-height {
				t.Errorf("proof of %v: %d confirmations, %v", txid, confirmations, err)
			}
			var refused ProofError
			if _, err := chain.Verify(proof, Hash(block.Txids[(index+1)%30])); !errors.As(err, &refused) {
				t.Errorf("the proof of %v is accepted for another transaction: %v", txid, err)
			}
			witness, _, err := client.WitnessProof(ctx, txid)
			if err != nil || witness.Wtxid != Hash(block.Wtxids[index]) || witness.Index != proof.Index {
				t.Errorf("witness proof of %v: %+v, %v", txid, witness, err)
				return
			}
			if _, err := chain.VerifyWitness(witness, witness.Wtxid); err != nil {
				t.Errorf("witness proof of %v: %v", txid, err)
			}
			if root, err := client.PaperRoot(ctx, txid); err != nil || root != proof.Header.MerkleRoot {
				t.Errorf("paper's root of %v: %v, %v", txid, root, err)
			}
		})
	}
	wait.Wait()
	if client.Resent() == 0 {
		t.Error("no request was sent again, although the relay lost some")
	}
	if err := chain.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := OpenHeaderChain(directory, Regtest, ChainOptions{})
	if err != nil || again.Tip() != (Tip{Hash(blocks[39].Hash), 40}) {
		t.Fatalf("the chain of the file has the tip %v: %v", again.Tip(), err)
	}
	if added, err := client.Sync(ctx, again); added != 0 || err != nil {
		t.Errorf("%d headers added again: %v", added, err)
	}
	again.Close()
	if _, err := OpenHeaderChain(directory, Mainnet, ChainOptions{}); err == nil {
		t.Error("headers of regtest are accepted for mainnet")
	}
	if _, err := client.Sync(ctx, NewHeaderChain(Mainnet, ChainOptions{})); err == nil {
		t.Error("a server of regtest is accepted for mainnet")
	}
}

func TestAnswersInPacketsAndByWtxid(t *testing.T) {
	server, blocks := startServer(t)
	ctx := t.Context()
	client := dial(t, server.Address("spv"))
	unknown := Hash{1}
	if _, tip, err := client.Root(ctx, unknown); !errors.Is(err, ErrNotFound) || tip.Height != 40 {
		t.Errorf("root of an unknown transaction: %v, %v", tip, err)
	}
	if _, tip, err := client.Proof(ctx, unknown); !errors.Is(err, ErrNotFound) || tip.Height != 40 {
		t.Errorf("proof of an unknown transaction: %v, %v", tip, err)
	}
	if _, err := client.PaperRoot(ctx, unknown); !errors.Is(err, ErrNotFound) {
		t.Errorf("paper's root of an unknown transaction: %v", err)
	}
	locations, _, err := client.Roots(ctx, Hash(blocks[3].Txids[2]), unknown)
	if err != nil || locations[0] == nil || locations[0].Height != 4 || locations[1] != nil {
		t.Errorf("roots: %v, %v", locations, err)
	}
	witness, _, err := client.WtxidProof(ctx, Hash(blocks[7].Wtxids[5]))
	if err != nil || witness.Index != 5 || witness.Height != 8 {
		t.Errorf("proof by WTXID: %+v, %v", witness, err)
	}
	headers, _, err := client.Headers(ctx, 38, 14)
	if err != nil || len(headers) != 3 || headers[2].Hash() != Hash(blocks[39].Hash) {
		t.Errorf("headers: %v, %v", headers, err)
	}
	var txids []Hash
	for _, block := range blocks {
		for _, txid := range block.Txids {
			txids = append(txids, Hash(txid))
		}
	}
	seen := make([]int, len(txids))
	err = client.RootOfEach(ctx, txids, func(i int, location Location, _ Tip, err error) {
		if err != nil || int(location.Height) != 1+i/30 {
			t.Errorf("transaction %d: %+v, %v", i, location, err)
		}
		seen[i]++
	})
	if err != nil {
		t.Error(err)
	}
	for i, count := range seen {
		if count != 1 {
			t.Errorf("transaction %d was answered %d times", i, count)
		}
	}
}

func TestASilentServerIsATimeout(t *testing.T) {
	client, err := Dial(t.Context(), "127.0.0.1:9", &lineside.Options{Timeout: 60 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	_, _, err = client.Root(t.Context(), Hash{1})
	var timeout *lineside.TimeoutError
	if !errors.As(err, &timeout) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	client.Close()
	if _, _, err = client.Root(t.Context(), Hash{1}); !errors.Is(err, lineside.ErrClosed) {
		t.Errorf("the error of a closed client is %v", err)
	}
}

package spv

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// mine returns headers on top of a parent, with the proof of work of regtest. Chains with different roots differ.
func mine(parent Header, count int, root byte) []Header {
	var headers []Header
	for range count {
		header := Header{
			Version: 0x20000000, Previous: parent.Hash(), MerkleRoot: Hash{root}, Time: parent.Time + 600, Bits: 0x207fffff,
		}
		for header.CheckProofOfWork(Regtest) != nil {
			header.Nonce++
		}
		headers = append(headers, header)
		parent = header
	}
	return headers
}

func TestTheChainWithTheMostWorkWins(t *testing.T) {
	chain := NewHeaderChain(Regtest, ChainOptions{})
	first, second := mine(Regtest.Genesis(), 10, 1), mine(Regtest.Genesis(), 12, 2)
	if added, err := chain.Accept(first...); added != 10 || err != nil {
		t.Fatalf("%d added: %v", added, err)
	}
	if added, err := chain.Accept(second[:10]...); added != 10 || err != nil {
		t.Fatalf("%d added: %v", added, err)
	}
	if tip := chain.Tip(); tip.Hash != first[9].Hash() {
		t.Errorf("of two chains with equal work the second one wins: %v", tip)
	}
	proof := &Proof{Header: first[4], Height: 5, TransactionCount: 1}
	if confirmations, err := chain.Verify(proof, first[4].MerkleRoot); confirmations != 6 || err != nil {
		t.Errorf("%d confirmations: %v", confirmations, err)
	}
	if _, err := chain.Accept(second[10:]...); err != nil {
		t.Fatal(err)
	}
	if tip := chain.Tip(); tip != (Tip{second[11].Hash(), 12}) {
		t.Errorf("the tip is %v", tip)
	}
	if _, err := chain.Verify(proof, first[4].MerkleRoot); !errors.Is(err, ErrNotInChain) {
		t.Errorf("a proof of the lost chain: %v", err)
	}
	if _, isThere := chain.HeightOf(first[4].Hash()); isThere {
		t.Error("a header of the lost chain is in the chain")
	}
	if height, isThere := chain.HeightOf(second[4].Hash()); height != 5 || !isThere {
		t.Errorf("the height is %d", height)
	}
}

func TestHeadersThatBreakARuleAreRefused(t *testing.T) {
	now := time.Unix(int64(Regtest.Genesis().Time)+100*600, 0)
	headers := mine(Regtest.Genesis(), 20, 1)
	again := func(change func(*Header)) Header {
		header := headers[19]
		change(&header)
		for header.Nonce = 0; header.CheckProofOfWork(Regtest) == WrongProofOfWork; {
			header.Nonce++
		}
		return header
	}
	for _, test := range []struct {
		what   string
		header Header
		is     func(error) bool
	}{
		{"an unknown parent", again(func(h *Header) { h.Previous[3] ^= 1 }), func(err error) bool {
			return errors.Is(err, ErrUnknownParent)
		}},
		{"the median time", again(func(h *Header) { h.Time = headers[13].Time }), isRule("median time")},
		{"the clock", again(func(h *Header) { h.Time = uint32(now.Unix()) + 7201 }), isRule("clock")},
		{"the target", again(func(h *Header) { h.Bits = 0x207ffffe }), isRule("target")},
		{"an easy target", again(func(h *Header) { h.Bits = 0x217fffff }), func(err error) bool {
			return errors.Is(err, InvalidTarget)
		}},
	} {
		chain := NewHeaderChain(Regtest, ChainOptions{Now: func() time.Time { return now }})
		all := append(headers[:19:19], test.header)
		added, err := chain.Accept(all...)
		var refused *HeaderError
		if added != 19 || !errors.As(err, &refused) || refused.Index != 19 || !test.is(err) {
			t.Errorf("%s: %d added, %v", test.what, added, err)
		}
	}
	for _, header := range []Header{again(func(h *Header) { h.Time = headers[14].Time }), headers[19]} {
		chain := NewHeaderChain(Regtest, ChainOptions{Now: func() time.Time { return now }})
		if _, err := chain.Accept(append(headers[:19:19], header)...); err != nil {
			t.Errorf("a header at the edge of a rule: %v", err)
		}
	}
}

func isRule(name string) func(error) bool {
	return func(err error) bool {
		var rule *RuleError
		return errors.As(err, &rule) && rule.Rule == name
	}
}

func TestCheckpointsAndTheLimitOfHeaders(t *testing.T) {
	first, second := mine(Regtest.Genesis(), 10, 1), mine(Regtest.Genesis(), 12, 2)
	options := ChainOptions{Checkpoints: []Checkpoint{{5, first[4].Hash()}}}
	chain := NewHeaderChain(Regtest, options)
	if added, err := chain.Accept(second...); added != 4 || err == nil {
		t.Errorf("another block at a checkpoint: %d added, %v", added, err)
	}
	chain = NewHeaderChain(Regtest, options)
	if _, err := chain.Accept(first...); err != nil {
		t.Error(err)
	}
	if added, err := chain.Accept(second...); added != 0 || err == nil {
		t.Errorf("a branch below a checkpoint: %d added, %v", added, err)
	}
	chain = NewHeaderChain(Regtest, ChainOptions{MaxHeaders: 5})
	if added, err := chain.Accept(first...); added != 4 || err == nil {
		t.Errorf("more headers than the limit: %d added, %v", added, err)
	}
}

func TestAFileOfHeadersSurvivesAPowerCut(t *testing.T) {
	headers := mine(Regtest.Genesis(), 30, 1)
	directory := t.TempDir()
	path := filepath.Join(directory, headersFile)
	open := func() (*HeaderChain, error) { return OpenHeaderChain(directory, Regtest, ChainOptions{}) }
	chain, err := open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := chain.Accept(headers...); err != nil {
		t.Fatal(err)
	}
	if err := chain.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte{}, whole...)
	damaged[len(damaged)-50] ^= 1
	inside := append([]byte{}, whole...)
	inside[storeHeaderBytes+10*HeaderBytes+40] ^= 1
	for _, test := range []struct {
		what    string
		content []byte
		height  int
	}{
		{"nothing", nil, 0},
		{"a part of the file header", whole[:7], 0},
		{"a part of the last header", whole[:len(whole)-30], 29},
		{"a damaged last header", damaged, 29},
		{"zeros after the last header", append(whole[:len(whole):len(whole)], make([]byte, 400)...), 30},
		{"a damaged header in the middle", inside, -1},
		{"another kind of file", []byte("LSSOMETHINGELSE, and more"), -1},
	} {
		if err := os.WriteFile(path, test.content, 0o600); err != nil {
			t.Fatal(err)
		}
		chain, err := open()
		if test.height < 0 {
			if err == nil {
				t.Errorf("%s: the file is accepted", test.what)
			}
			continue
		}
		if err != nil || chain.Tip().Height != uint32(test.height) {
			t.Errorf("%s: the height is not %d: %v", test.what, test.height, err)
			continue
		}
		if _, err := chain.Accept(headers...); err != nil || chain.Tip().Height != 30 {
			t.Errorf("%s: the headers cannot be added again: %v", test.what, err)
		}
		chain.Close()
		if after, err := os.ReadFile(path); err != nil || string(after) != string(whole) {
			t.Errorf("%s: the file differs after the headers were added again: %v", test.what, err)
		}
	}
}

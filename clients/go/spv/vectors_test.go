package spv

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/lineside/lineside/clients/go/internal/vectors"
)

func hashes(list []any) []Hash {
	var out []Hash
	for _, text := range list {
		out = append(out, Hash(vectors.FromHex(text.(string))))
	}
	return out
}

func networkOf(t *testing.T, vector vectors.Table) Network {
	t.Helper()
	network, err := ParseNetwork(vector.Text("network"))
	if err != nil {
		t.Fatal(err)
	}
	return network
}

// verdict verifies the proof of a vector.
func verdict(t *testing.T, vector vectors.Table) error {
	network := networkOf(t, vector)
	header := ParseHeader([80]byte(vector.Bytes("header")))
	height, count := uint32(vector.Number("height")), uint32(vector.Number("transaction_count"))
	index, path := uint32(vector.Number("index")), hashes(vector.List("path"))
	if wtxid := vector.Bytes("wtxid"); wtxid != nil {
		proof := WitnessProof{
			Header: header, Height: height, TransactionCount: count, Index: index, Path: path,
			Coinbase: vector.Bytes("coinbase"), CoinbasePath: hashes(vector.List("coinbase_path")),
			WitnessReserved: Hash(vector.Bytes("witness_reserved")),
		}
		return proof.Verify(network, Hash(wtxid))
	}
	proof := Proof{Header: header, Height: height, TransactionCount: count, Index: index, Path: path}
	if raw := vector.Bytes("raw"); raw != nil {
		_, err := proof.VerifyTransaction(network, raw)
		return err
	}
	return proof.Verify(network, Hash(vector.Bytes("txid")))
}

// expect compares a verdict with the name and the number in the vector.
func expect(t *testing.T, vector vectors.Table, err error) {
	t.Helper()
	name, code := "ok", int64(0)
	var reason ProofError
	if errors.As(err, &reason) {
		name, code = reason.Name(), int64(reason)
	} else if err != nil {
		t.Errorf("%s: %v", vector.Text("what"), err)
	}
	if name != vector.Text("expect") || code != vector.Number("code") {
		t.Errorf("%s: %s (%d), want %s (%d)",
			vector.Text("what"), name, code, vector.Text("expect"), vector.Number("code"))
	}
}

func TestProofsAreJudgedAsTheVectorsSay(t *testing.T) {
	codes := map[int64]bool{}
	for _, name := range []string{"good.toml", "bad.toml", "witness.toml"} {
		for _, vector := range vectors.Read(t, "spv-proof", name).Lists["vector"] {
			expect(t, vector, verdict(t, vector))
			codes[vector.Number("code")] = true
		}
	}
	if len(codes) != 16 {
		t.Errorf("the vectors have %d of 16 verdicts", len(codes))
	}
}

func TestHeadersHaveTheHashTargetAndWorkOfTheVectors(t *testing.T) {
	for _, vector := range vectors.Read(t, "spv-proof", "headers.toml").Lists["vector"] {
		what := vector.Text("what")
		header := ParseHeader([80]byte(vector.Bytes("header")))
		if b := header.Bytes(); !slices.Equal(b[:], vector.Bytes("header")) {
			t.Errorf("%s: the header is encoded as %x", what, b)
		}
		if hash := header.Hash(); hash != Hash(vector.Bytes("hash")) {
			t.Errorf("%s: hash %v", what, hash)
		}
		target := fmt.Sprintf("%064x", 0)
		if decoded := decodeTarget(header.Bits); decoded != nil {
			target = fmt.Sprintf("%064x", decoded)
		}
		if target != vector.Text("target") {
			t.Errorf("%s: target %s, want %s", what, target, vector.Text("target"))
		}
		if work := fmt.Sprintf("%064x", header.Work()); work != vector.Text("work") {
			t.Errorf("%s: work %s, want %s", what, work, vector.Text("work"))
		}
		expect(t, vector, header.CheckProofOfWork(networkOf(t, vector)))
	}
}

func TestTargetsAlongChainsAreThoseOfTheVectors(t *testing.T) {
	chains := 0
	for _, vector := range vectors.Read(t, "spv-proof", "difficulty.toml").Lists["vector"] {
		network, what := networkOf(t, vector), vector.Text("what")
		gaps, changes := vector.List("gaps"), vector.List("changes")
		if gaps == nil {
			after := retarget(network, uint32(vector.Number("bits")), vector.Number("timespan"))
			if int64(after) != vector.Number("after") {
				t.Errorf("%s: %08x, want %08x", what, after, vector.Number("after"))
			}
			continue
		}
		chains++
		genesis := network.Genesis()
		chain := []ancestor{{genesis.Time, genesis.Bits}}
		at := func(height uint32) ancestor { return chain[height] }
		for ; len(gaps) > 0; gaps = gaps[2:] {
			for range gaps[1].(int64) {
				parent := chain[len(chain)-1]
				height := uint32(len(chain))
				time := uint32(int64(parent.time) + gaps[0].(int64))
				want := parent.bits
				if len(changes) > 0 && changes[0].(int64) == int64(height) {
					want = uint32(changes[1].(int64))
					changes = changes[2:]
				}
				found := requiredBits(network, height-1, time, at)
				if found != want {
					t.Fatalf("%s, height %d: %08x, want %08x", what, height, found, want)
				}
				chain = append(chain, ancestor{time, found})
			}
		}
		if len(changes) > 0 || len(chain) < 8000 {
			t.Errorf("%s: the chain has %d headers and %d unused changes", what, len(chain), len(changes))
		}
	}
	if chains == 0 {
		t.Error("no vector has a chain")
	}
}

func TestEveryGenesisHasItsProofOfWork(t *testing.T) {
	for _, network := range Networks {
		genesis := network.Genesis()
		if err := genesis.CheckProofOfWork(network); err != nil {
			t.Errorf("%v: %v", network, err)
		}
		if encodeTarget(network.limit()) != network.LimitBits() {
			t.Errorf("%v: the compact form of the limit is %08x", network, encodeTarget(network.limit()))
		}
	}
}

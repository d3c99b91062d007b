package hybrid_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/hybrid"
	"github.com/lineside/lineside/clients/go/hybrid/hybridgrpc"
	"github.com/lineside/lineside/clients/go/internal/livetest"
)

var patient = lineside.Options{Timeout: 25 * time.Second}

// network is a running node with two members.
type network struct {
	server  *livetest.Server
	genesis *hybrid.Genesis
}

func start(t testing.TB) *network {
	t.Helper()
	directory := t.TempDir()
	livetest.Do(t, directory, "hybrid", "key", "new", "--curve", "p256", "bob.key")
	livetest.Do(t, directory, "hybrid", "init", "--member", "alice=alice.key:admin", "--member", "bob=bob.key")
	text, err := os.ReadFile(filepath.Join(directory, "genesis.bin"))
	if err != nil {
		t.Fatal(err)
	}
	genesis, err := hybrid.ParseGenesis(text)
	if err != nil {
		t.Fatal(err)
	}
	server := livetest.Start(t, livetest.Options{
		Directory: directory,
		Config:    "[hybrid]\ndata = \"ledger\"\ngenesis = \"genesis.bin\"\nnode_key = \"node.key\"\n",
		Services:  []string{"hybrid"},
	})
	return &network{server, genesis}
}

func (n *network) identity(t testing.TB, name string) hybrid.Identity {
	t.Helper()
	signer, err := lineside.ReadKeyFile(filepath.Join(n.server.Directory, name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	identity, err := n.genesis.Identity(signer)
	if err != nil {
		t.Fatal(err)
	}
	return identity
}

func (n *network) udp(t testing.TB, name, address string) *hybrid.Client {
	t.Helper()
	client, err := hybrid.Dial(t.Context(), address, n.identity(t, name), &patient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func (n *network) grpc(t testing.TB, name string) *hybridgrpc.Client {
	t.Helper()
	options := &hybridgrpc.Options{Options: patient}
	client, err := hybridgrpc.Dial(t.Context(), n.server.Address("hybrid"), n.identity(t, name), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// use exercises every operation of a client.
func use(t *testing.T, n *network, client *hybrid.Client, prefix string) {
	t.Helper()
	ctx := t.Context()
	key := []byte(prefix + "greeting")
	first, err := client.Set(ctx, key, []byte("hello"))
	if err != nil {
		t.Fatal(err)
	}
	if outcome, err := client.Outcome(ctx, first.ID); err != nil || outcome != first {
		t.Errorf("the outcome of %+v is %+v, %v", first, outcome, err)
	}
	var refused *hybrid.RefusedError
	_, err = client.SetIf(ctx, key, hybrid.Version{}, []byte("other"))
	if !errors.As(err, &refused) || refused.Code != hybrid.CodeConflict {
		t.Errorf("a set with another version: %v", err)
	}
	second, err := client.SetIf(ctx, key, first.Version, []byte("hello again"))
	if err != nil {
		t.Fatal(err)
	}
	cells, err := client.GetLinearizable(ctx, []byte(prefix+"none"), key, key)
	if err != nil || cells[0] != nil || string(cells[2].Value) != "hello again" || cells[1].Version != second.Version {
		t.Errorf("get: %+v, %v", cells, err)
	}
	past, more, err := client.History(ctx, key, 1, hybrid.Version{})
	if err != nil || !more || len(past) != 1 || string(past[0].Value) != "hello again" {
		t.Errorf("history: %+v, %v, %v", past, more, err)
	}
	past, more, err = client.History(ctx, key, 10, second.Version)
	if err != nil || more || len(past) != 1 || past[0].Version != first.Version {
		t.Errorf("older history: %+v, %v, %v", past, more, err)
	}
	for _, name := range []string{"greeting", "nothing"} {
		checkProof(t, n, client, []byte(prefix+name))
	}
	transaction := &hybrid.Transaction{Reads: []hybrid.Read{{Key: key, Version: second.Version}}}
	for i := range 20 {
		write := hybrid.Write{Key: fmt.Appendf(nil, "%srow %02d", prefix, i), Value: fmt.Append(nil, i)}
		transaction.Writes = append(transaction.Writes, write)
	}
	if _, err := client.Write(ctx, transaction); err != nil {
		t.Fatal(err)
	}
	count := 0
	for cell, err := range client.Range(ctx, []byte(prefix+"row 05"), []byte(prefix+"row 15")) {
		if err != nil || string(cell.Value) != fmt.Sprint(5+count) {
			t.Fatalf("cell %d of the range: %+v, %v", count, cell, err)
		}
		count++
	}
	if count != 10 {
		t.Errorf("the range has %d cells", count)
	}
	if _, err := client.Delete(ctx, key); err != nil {
		t.Error(err)
	}
	if cells, err := client.Get(ctx, key); err != nil || cells[0] != nil {
		t.Errorf("a deleted key: %+v, %v", cells, err)
	}
	none, err := client.Outcome(ctx, hybrid.ID{1})
	if !errors.As(err, &refused) || refused.Code != hybrid.CodeUnknown || none.Code != hybrid.CodeUnknown {
		t.Errorf("the outcome of no transaction: %v", err)
	}
}

func checkProof(t *testing.T, n *network, client *hybrid.Client, key []byte) {
	t.Helper()
	proven, err := client.ProveValue(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	nodeKey, err := n.genesis.NodeKey(proven.Head.Node)
	if err != nil {
		t.Fatal(err)
	}
	if err := proven.Head.Verify(nodeKey); err != nil {
		t.Error(err)
	}
	if proven.Head.Verify(n.genesis.Members[0].Key) == nil {
		t.Error("the statement of the node is accepted for the key of a member")
	}
	hash := proven.Head.Header.Hash()
	for _, wrong := range [][]byte{[]byte("other"), {}, nil} {
		if string(wrong) == string(proven.Value) && (wrong == nil) == (proven.Value == nil) {
			continue
		}
		if err := proven.Proof.Verify(hash, key, wrong); !errors.Is(err, hybrid.ErrNotProven) {
			t.Errorf("the proof of %q for %s is accepted for %q: %v", proven.Value, key, wrong, err)
		}
	}
	if err := proven.Proof.Verify([32]byte{}, key, proven.Value); !errors.Is(err, hybrid.ErrOtherBlock) {
		t.Errorf("another block: %v", err)
	}
}

func TestEveryOperationByUDPOverABadNetwork(t *testing.T) {
	n := start(t)
	relay := livetest.StartRelay(t, n.server.Address("hybrid"), 21)
	use(t, n, n.udp(t, "alice", relay.Address()), "a ")
	use(t, n, n.udp(t, "bob", relay.Address()), "b ")
}

func TestEveryOperationByGRPC(t *testing.T) {
	n := start(t)
	use(t, n, n.grpc(t, "alice").Client, "a ")
	use(t, n, n.grpc(t, "bob").Client, "b ")
}

func TestProcessesWithOneKeyDoNotDisturbEachOther(t *testing.T) {
	n := start(t)
	relay := livetest.StartRelay(t, n.server.Address("hybrid"), 22)
	var wait sync.WaitGroup
	for i := range 8 {
		// Each client stands for a process.
		client := n.udp(t, "alice", relay.Address())
		for j := range 5 {
			wait.Go(func() {
				if _, err := client.Set(t.Context(), fmt.Appendf(nil, "key %d %d", i, j), []byte("x")); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wait.Wait()
	count := 0
	bob := n.grpc(t, "bob")
	for cell, err := range bob.Range(t.Context(), nil, nil) {
		if err != nil {
			t.Fatal(err)
		}
		past, _, err := bob.History(t.Context(), cell.Key, 10, hybrid.Version{})
		if err != nil || len(past) != 1 {
			t.Errorf("%s was written %d times: %v", cell.Key, len(past), err)
		}
		count++
	}
	if count != 40 {
		t.Errorf("the database has %d keys", count)
	}
	n.server.Stop()
	audit := livetest.Do(t, n.server.Directory, "--json", "hybrid", "audit", "--data", "ledger")
	if !strings.Contains(audit, `"clean":true`) {
		t.Errorf("the audit: %s", audit)
	}
}

func TestAnUnknownOutcomeIsFoundByItsID(t *testing.T) {
	n := start(t)
	client := n.udp(t, "alice", livetest.StartRelay(t, n.server.Address("hybrid"), 23).Address())
	unknown, done := 0, 0
	for i := range 30 {
		short, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		placed, err := client.Set(short, fmt.Appendf(nil, "key %d", i), []byte("x"))
		cancel()
		var open *lineside.OutcomeUnknownError
		if !errors.As(err, &open) {
			continue
		}
		if placed.Code != hybrid.CodeOutcomeUnknown || placed.ID.String() != open.ID {
			t.Errorf("the value with %v is %+v", err, placed)
		}
		unknown++
		id, err := hybrid.ParseID(open.ID)
		if err != nil {
			t.Fatal(err)
		}
		outcome, err := client.Outcome(t.Context(), id)
		var refused *hybrid.RefusedError
		switch {
		case err == nil && outcome.Code == hybrid.CodeDone:
			done++
		case errors.As(err, &refused) && refused.Code == hybrid.CodeUnknown:
		default:
			t.Errorf("the outcome of %s: %+v, %v", open.ID, outcome, err)
		}
	}
	if unknown == 0 {
		t.Error("every write was answered within 2 ms, so that nothing was unknown")
	}
	t.Logf("%d outcomes were unknown, of which %d were executed", unknown, done)
}

func TestAWatcherReceivesWritesInOrder(t *testing.T) {
	n := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	writer := n.grpc(t, "alice")
	count := 0
	for event, err := range n.grpc(t, "bob").Watch(ctx, []byte("w ")) {
		if err != nil {
			t.Fatal(err)
		}
		if event.Key == nil {
			// The first event says that the watcher is in place.
			for i := range 10 {
				if _, err := writer.Set(ctx, fmt.Appendf(nil, "w %d", i), []byte("x")); err != nil {
					t.Fatal(err)
				}
				if _, err := writer.Set(ctx, []byte("other"), []byte("x")); err != nil {
					t.Fatal(err)
				}
			}
			continue
		}
		if string(event.Key) != fmt.Sprintf("w %d", count) || string(event.Value) != "x" {
			t.Errorf("event %d: %+v", count, event)
		}
		if count++; count == 10 {
			break
		}
	}
	if count != 10 {
		t.Errorf("%d events", count)
	}
}

func TestChangesOfTheMembership(t *testing.T) {
	n := start(t)
	ctx := t.Context()
	alice := n.grpc(t, "alice")
	carol, err := lineside.NewSecp256k1Signer([32]byte{9})
	if err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(time.Minute)
	for _, change := range []hybrid.Change{
		hybrid.AddMember{Member: 3, Name: "carol", Key: carol.PublicKey()},
		hybrid.SetRule{Prefix: []byte("secret "), Member: 1, Rights: hybrid.RightRead | hybrid.RightWrite},
	} {
		if _, err := alice.Change(ctx, change, until); err != nil {
			t.Fatalf("%T: %v", change, err)
		}
	}
	identity := hybrid.Identity{Database: n.genesis.Database(), Member: 3, Signer: carol}
	client, err := hybrid.Dial(ctx, n.server.Address("hybrid"), identity, &patient)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Set(ctx, []byte("from carol"), []byte("x")); err != nil {
		t.Error(err)
	}
	var refused *hybrid.RefusedError
	if _, err := client.Get(ctx, []byte("secret key")); !errors.As(err, &refused) || refused.Code != hybrid.CodeNotAllowed {
		t.Errorf("a key without a right: %v", err)
	}
	if _, err := client.Set(ctx, []byte("k"), make([]byte, 2000)); !errors.Is(err, hybrid.ErrTooLong) {
		t.Errorf("a long value over UDP: %v", err)
	}
	if _, err := alice.Set(ctx, []byte("k"), make([]byte, 200_000)); err != nil {
		t.Errorf("a long value by gRPC: %v", err)
	}
	if _, err := client.Get(ctx, []byte("k")); !errors.As(err, &refused) || refused.Code != hybrid.CodeTooLarge {
		t.Errorf("a long value over UDP: %v", err)
	}
}

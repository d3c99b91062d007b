package transfer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/livetest"
)

var patient = &lineside.Options{Timeout: 30 * time.Second}

func start(t testing.TB, config string) *livetest.Server {
	t.Helper()
	return livetest.Start(t, livetest.Options{
		Config: "[transfer]\ndata = \"ledger\"\n" + config, Services: []string{"transfer"},
	})
}

func dial(t testing.TB, address string, options *lineside.Options) *Client {
	t.Helper()
	client, err := Dial(t.Context(), address, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// must ends the test if the packet or one of its operations failed.
func must(t testing.TB) func(*Result, error) *Result {
	return func(result *Result, err error) *Result {
		t.Helper()
		if err == nil {
			err = result.Err()
		}
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
}

func balances(t testing.TB, client *Client, accounts ...AccountID) []uint64 {
	t.Helper()
	found, err := client.Refer(t.Context(), accounts...)
	if err != nil {
		t.Fatal(err)
	}
	var all []uint64
	for _, balance := range found {
		all = append(all, balance.Balance)
	}
	return all
}

// move executes random transfers in a pool and returns the balances that must result.
func move(t testing.TB, client *Client, seed uint64, sessions, count int) (accounts []AccountID, want []uint64) {
	t.Helper()
	const start = 1 << 40
	ctx := t.Context()
	pool, err := client.OpenPool(ctx, sessions)
	if err != nil {
		t.Fatal(err)
	}
	var creates []Operation
	for i := range 20 {
		accounts = append(accounts, Account(uint32(100+i)))
		want = append(want, start)
		creates = append(creates, Create(accounts[i], start))
	}
	run := func(operations []Operation) {
		t.Helper()
		outcomes, err := pool.Execute(ctx, operations)
		if err != nil {
			t.Fatal(err)
		}
		numbers := map[uint64]bool{}
		for i, outcome := range outcomes {
			if outcome.Outcome.Err() != nil || outcome.Err != nil || numbers[outcome.Number] {
				t.Fatalf("operation %d: %+v", i, outcome)
			}
			numbers[outcome.Number] = true
		}
	}
	run(creates)
	random := rand.New(rand.NewPCG(seed, 2))
	var transfers []Operation
	for range count {
		from, to := random.IntN(20), random.IntN(19)
		if to >= from {
			to++
		}
		amount := 1 + random.Uint64N(1000)
		transfers = append(transfers, Transfer(accounts[from], accounts[to], amount))
		want[from] -= amount
		want[to] += amount
	}
	run(transfers)
	if err := pool.Close(ctx); err != nil {
		t.Error(err)
	}
	return accounts, want
}

func TestEachTransferIsExecutedOnceOverABadNetwork(t *testing.T) {
	server := start(t, "")
	client := dial(t, livetest.StartRelay(t, server.Address("transfer"), 7).Address(), patient)
	accounts, want := move(t, client, 1, 8, 2000)
	if got := balances(t, client, accounts...); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the balances are %v, not %v", got, want)
	}
	if client.Resent() == 0 {
		t.Error("nothing was sent again, although the relay lost some")
	}
	server.Stop()
	audit := livetest.Do(t, server.Directory, "--json", "transfer", "audit", "--data", "ledger")
	if !strings.Contains(audit, `"operations":2020,`) {
		t.Errorf("the audit counts other operations than 2020: %s", audit)
	}
}

func TestPacketsOverTCPHoldHundredsOfOperations(t *testing.T) {
	server := start(t, "")
	client, err := DialTCP(t.Context(), server.Address("transfer"), patient)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if most := client.operationsMax(false); most != 744 {
		t.Errorf("a packet holds %d operations", most)
	}
	accounts, want := move(t, client, 2, 4, 5000)
	// The server closes the connection, and the client opens it again.
	client.conn.Close()
	again, err := DialTCP(t.Context(), server.Address("transfer"), patient)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := balances(t, again, accounts...); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("the balances are %v, not %v", got, want)
	}
}

func TestEachTransferIsExecutedOnceAlthoughTheServerIsKilled(t *testing.T) {
	server := start(t, "")
	ctx := t.Context()
	datagrams := dial(t, server.Address("transfer"), patient)
	stream, err := DialTCP(ctx, server.Address("transfer"), patient)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	one, two := Account(1), Account(2)
	var wait sync.WaitGroup
	var mu sync.Mutex
	moved, packets := 0, 0
	for i, client := range []*Client{datagrams, datagrams, datagrams, stream, stream} {
		session, err := client.Open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			must(t)(session.Execute(ctx, Create(one, 1_000_000), Create(two, 0)))
		}
		wait.Go(func() {
			for {
				if _, err := session.Execute(ctx, Transfer(one, two, 1), Transfer(one, two, 2)); err != nil {
					t.Errorf("session %d: %v", i, err)
					return
				}
				mu.Lock()
				moved += 3
				packets++
				isEnough := packets >= 600
				mu.Unlock()
				if isEnough {
					return
				}
			}
		})
	}
	for _, after := range []int{100, 200, 300} {
		for {
			mu.Lock()
			isThere := packets >= after || t.Failed()
			mu.Unlock()
			if isThere {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if err := server.KillAndRestart(); err != nil {
			t.Fatal(err)
		}
	}
	wait.Wait()
	if got := balances(t, datagrams, one, two); got[0] != 1_000_000-uint64(moved) || got[1] != uint64(moved) {
		t.Errorf("the balances are %v after moving %d", got, moved)
	}
}

func TestLinkedAndPendingOperations(t *testing.T) {
	client := dial(t, start(t, "").Address("transfer"), patient)
	ctx := t.Context()
	session, err := client.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close(ctx)
	one, two := Account(1), Account(2)
	must(t)(session.Execute(ctx, Create(one, 100), Create(two, 0)))
	result, err := session.Execute(ctx, Transfer(one, two, 10).Linked(), Transfer(one, two, 1000))
	if err != nil || result.Outcomes[0].Code != CodeLinkedFailed || result.Outcomes[1].Code != CodeInsufficientFunds {
		t.Errorf("linked operations: %+v, %v", result, err)
	}
	var refused *RefusedError
	if !errors.As(result.Err(), &refused) || refused.Code != CodeLinkedFailed {
		t.Errorf("the error of the result is %v", result.Err())
	}
	must(t)(session.Execute(ctx, Pending(UUID{1}, one, two, 40, time.Minute), PendingForever(UUID{2}, one, two, 5)))
	found, err := client.Refer(ctx, one, two, Account(3))
	if err != nil || *found[0] != (Balance{100, 45, 3, false}) || found[2] != nil {
		t.Errorf("balances: %+v, %v", found[0], err)
	}
	result = must(t)(session.Execute(ctx, Post(UUID{1}, one, two, 30), Void(UUID{2}, one, two), Freeze(two)))
	if !result.IsDurable {
		t.Error("the reply of a durable server is not durable")
	}
	result, err = session.Execute(ctx, Transfer(one, two, 1))
	if err != nil || result.Outcomes[0].Code != CodeFrozen {
		t.Errorf("transfer to a frozen account: %+v, %v", result, err)
	}
	must(t)(session.Execute(ctx, Unfreeze(two), Transfer(two, one, 5)))
	if got := balances(t, client, one, two); got[0] != 75 || got[1] != 25 {
		t.Errorf("the balances are %v", got)
	}
}

func TestASignedTransferNeedsTheOwnersKey(t *testing.T) {
	directory := t.TempDir()
	livetest.Do(t, directory, "transfer", "key", "new", "mint")
	mint, err := lineside.ReadKeyFile(filepath.Join(directory, "mint"))
	if err != nil {
		t.Fatal(err)
	}
	fingerprint := mint.PublicKey().Fingerprint()
	server := livetest.Start(t, livetest.Options{
		Directory: directory,
		Config: fmt.Sprintf("[transfer]\ndata = \"ledger\"\nrequire_signature = true\nblock_s = 1\nissuers = [\"key:%x\"]\n",
			fingerprint),
		Services: []string{"transfer"},
	})
	client := dial(t, server.Address("transfer"), patient)
	ctx := t.Context()
	owner, err := lineside.NewSecp256k1Signer([32]byte{5})
	if err != nil {
		t.Fatal(err)
	}
	for name, secret := range map[string]lineside.Signer{"the issuer": mint, "the owner": owner, "nobody": nil} {
		session, err := client.Open(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if secret != nil {
			session.SignWith(secret)
		}
		ownFingerprint := owner.PublicKey().Fingerprint()
		_, err = session.Execute(ctx, CreateOwned(Account(1), 50, ownFingerprint), Create(Account(2), 0))
		var refused *lineside.StatusError
		isRefused := errors.As(err, &refused) && refused.Status == lineside.StatusUnauthorised
		if name == "nobody" && !isRefused {
			t.Errorf("an unsigned packet: %v", err)
		}
		session.Close(ctx)
	}
	session, err := client.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	session.SignWith(owner)
	result := must(t)(session.Execute(ctx, Transfer(Account(1), Account(2), 20)))
	number := result.Outcomes[0].Number
	session.SignWith(mint)
	if result, err := session.Execute(ctx, Transfer(Account(1), Account(2), 20)); err == nil &&
		result.Outcomes[0].Code != CodeUnauthorised {
		t.Errorf("another key pays: %+v", result)
	}
	checkProof(t, server, number)
}

// checkProof waits for the block of an operation and verifies its proof.
func checkProof(t *testing.T, server *livetest.Server, number uint64) {
	t.Helper()
	var text string
	for deadline := time.Now().Add(20 * time.Second); ; {
		var err error
		text, err = livetest.Command(server.Directory, "transfer", "prove", fmt.Sprint(number), "--data", "ledger")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(200 * time.Millisecond)
	}
	proof, err := ParseProof([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if proof.Outcome.Number != number || proof.Operation.Amount != 20 || proof.Outcome.Balance != 30 {
		t.Errorf("the proof is of %+v with %+v", proof.Operation, proof.Outcome)
	}
	public, err := os.ReadFile(filepath.Join(server.Directory, "ledger", "settlement.pub"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := lineside.ParsePublicKey(string(public))
	if err != nil {
		t.Fatal(err)
	}
	if err := proof.Verify(key); err != nil {
		t.Error(err)
	}
	if err := proof.VerifyHash(proof.Block.Hash()); err != nil {
		t.Error(err)
	}
	other, _ := lineside.NewSecp256k1Signer([32]byte{6})
	if proof.Verify(other.PublicKey()) == nil || proof.VerifyHash([32]byte{}) == nil {
		t.Error("the proof is accepted for another key or hash")
	}
	for _, digit := range []int{strings.Index(text, `"operation"`) + 40, strings.Index(text, `"block"`) + 120} {
		forged := []byte(text)
		forged[digit] ^= 1
		if _, err := ParseProof(forged); err == nil {
			t.Errorf("the proof is accepted with another digit at %d", digit)
		}
	}
}

func TestAnUnknownOutcomeIsResolvedOnce(t *testing.T) {
	server := start(t, "")
	relay := livetest.StartRelay(t, server.Address("transfer"), 3)
	client := dial(t, relay.Address(), patient)
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "session")
	session, err := client.OpenFile(ctx, path)
	if err != nil {
		t.Fatal(err)
	}
	must(t)(session.Execute(ctx, Create(Account(1), 1_000_000), Create(Account(2), 0)))
	unknown, moved := 0, uint64(0)
	for i := range 60 {
		short, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
		amount := uint64(i + 1)
		result, err := session.Execute(short, Transfer(Account(1), Account(2), amount))
		cancel()
		var open *lineside.OutcomeUnknownError
		if errors.As(err, &open) {
			unknown++
			if _, err := session.Execute(ctx, Issue(Account(1), 1)); !errors.Is(err, ErrUnanswered) {
				t.Fatalf("another packet is sent before the outcome is known: %v", err)
			}
			if i%2 == 0 {
				// A process ends here, and another one continues with the file.
				if err := session.Release(); err != nil {
					t.Fatal(err)
				}
				if session, err = client.OpenFile(ctx, path); err != nil {
					t.Fatal(err)
				}
			}
			result, err = session.Resolve(ctx)
		}
		if err != nil || result.Err() != nil {
			// Nothing was sent before the deadline.
			if errors.Is(err, context.DeadlineExceeded) && session.Unanswered() == nil {
				continue
			}
			t.Fatalf("transfer %d: %+v, %v", i, result, err)
		}
		moved += amount
	}
	if unknown == 0 {
		t.Error("every transfer was answered within 3 ms, so that nothing was resolved")
	}
	if got := balances(t, client, Account(1), Account(2)); got[0] != 1_000_000-moved || got[1] != moved {
		t.Errorf("the balances are %v after moving %d", got, moved)
	}
	if err := session.Close(ctx); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the file of a closed session remains")
	}
}

func TestTheFileOfTheCommandLineIsUnderstood(t *testing.T) {
	server := start(t, "")
	client := dial(t, server.Address("transfer"), patient)
	path := filepath.Join(t.TempDir(), "session")
	livetest.Do(t, server.Directory, "transfer", "session", "open", path, "--server", server.Address("transfer"))
	session, err := client.OpenFile(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	must(t)(session.Execute(t.Context(), Create(Account(7), 5)))
	if next, err := session.Check(t.Context()); err != nil || next != session.Next() {
		t.Errorf("the server expects %d, the client sends %d: %v", next, session.Next(), err)
	}
	if err := session.Release(); err != nil {
		t.Fatal(err)
	}
	livetest.Do(t, server.Directory, "transfer", "issue", "7", "3", "--session", path, "--server", server.Address("transfer"))
	if got := balances(t, client, Account(7)); got[0] != 8 {
		t.Errorf("the balance is %v", got)
	}
}

func TestThePapersFormat(t *testing.T) {
	server := start(t, "")
	client := dial(t, livetest.StartRelay(t, server.Address("transfer"), 5).Address(), patient)
	ctx := t.Context()
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			source := uint32(1 + i)
			request := PaperRequest{Command: CommandCreate, TransactionID: 1, Source: source, Amount: 10}
			if balance, err := client.Paper(ctx, request); err != nil || balance != 10 {
				t.Errorf("create: %d, %v", balance, err)
			}
			request = PaperRequest{Command: CommandIssue, TransactionID: 2, Source: source, Amount: 5}
			if balance, err := client.Paper(ctx, request); err != nil || balance != 15 {
				t.Errorf("issue: %d, %v", balance, err)
			}
			request = PaperRequest{Command: CommandTransfer, TransactionID: 3, Source: source, Destination: 99, Amount: 1}
			var refused *RefusedError
			if _, err := client.Paper(ctx, request); !errors.As(err, &refused) || refused.Code != CodeUnknownAccount {
				t.Errorf("transfer to an unknown account: %v", err)
			}
			if balance, err := client.Paper(ctx, PaperRequest{Command: CommandRefer, Source: source}); balance != 15 {
				t.Errorf("refer: %d, %v", balance, err)
			}
		})
	}
	wait.Wait()
}

func TestLinkedOperationsStayInOnePacket(t *testing.T) {
	operations := make([]Operation, 40)
	for i := 14; i < 20; i++ {
		operations[i].IsLinked = true
	}
	ends, err := cut(operations, 16)
	if err != nil || fmt.Sprint(ends) != "[14 30 40]" {
		t.Errorf("the packets end at %v: %v", ends, err)
	}
	for i := range 20 {
		operations[i].IsLinked = true
	}
	if ends, err := cut(operations, 16); err == nil {
		t.Errorf("a chain of 21 operations is cut at %v", ends)
	}
}

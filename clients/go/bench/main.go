// Command bench measures the clients of spv and transfer against a server on the same machine: pipelined answers and
// transfers a second. It starts the server itself, on one core; `run.sh` runs the client on another one.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/lineside/lineside/clients/go/internal/livetest"
	"github.com/lineside/lineside/clients/go/spv"
	"github.com/lineside/lineside/clients/go/transfer"
)

const (
	blocks       = 40
	transactions = 2000
)

func main() {
	log.SetFlags(0)
	core := flag.Int("server-core", 0, "core of the server")
	rounds := flag.Int("rounds", 3, "number of rounds, of which the median counts")
	seconds := flag.Float64("seconds", 3, "length of a round")
	flag.Parse()
	fmt.Printf("GOMAXPROCS %d, %s, %s/%s\n", runtime.GOMAXPROCS(0), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	length := time.Duration(*seconds * float64(time.Second))
	if err := run(*core, *rounds, length); err != nil {
		log.Fatal(err)
	}
}

func run(core, rounds int, length time.Duration) error {
	directory, err := os.MkdirTemp("", "lineside-go-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(directory)
	return errors.Join(
		benchSpv(directory, core, rounds, length),
		benchTransfer(directory, core, rounds, length),
	)
}

// report prints the median of the rounds and the gate.
func report(name string, rates []float64, gate float64) {
	slices.Sort(rates)
	median := rates[len(rates)/2]
	verdict := "reached"
	if median < gate {
		verdict = "missed"
	}
	fmt.Printf("%s: median %.0f a second of %.0f; gate %.0f %s\n", name, median, rates, gate, verdict)
}

func benchSpv(directory string, core, rounds int, length time.Duration) error {
	genesis := spv.Regtest.Genesis()
	chain := livetest.MakeChain(genesis.Bytes(), blocks, transactions)
	if err := livetest.ImportChain(directory, genesis.Bytes(), chain); err != nil {
		return err
	}
	config := "[spv]\ndata = \"chain\"\n"
	server, err := livetest.Run(livetest.Options{Directory: directory, Config: config, Services: []string{"spv"}, Core: core})
	if err != nil {
		return err
	}
	defer server.Stop()
	ctx := context.Background()
	client, err := spv.Dial(ctx, server.Address("spv"), nil)
	if err != nil {
		return err
	}
	defer client.Close()
	var txids []spv.Hash
	roots := make(map[spv.Hash]spv.Hash)
	for i := range chain {
		header := spv.ParseHeader(chain[i].Header)
		for _, txid := range chain[i].Txids {
			txids = append(txids, txid)
			roots[txid] = header.MerkleRoot
		}
	}
	wrong := 0
	ask := func() error {
		return client.RootOfEach(ctx, txids, func(i int, location spv.Location, _ spv.Tip, err error) {
			if err != nil || location.Root != roots[txids[i]] {
				wrong++
			}
		})
	}
	// The first pass fills the fast-path table.
	if err := ask(); err != nil {
		return err
	}
	var rates []float64
	for range rounds {
		begin, count := time.Now(), 0
		for time.Since(begin) < length {
			if err := ask(); err != nil {
				return err
			}
			count += len(txids)
		}
		rates = append(rates, float64(count)/time.Since(begin).Seconds())
	}
	if wrong > 0 {
		return fmt.Errorf("spv: %d answers were wrong", wrong)
	}
	fmt.Printf("spv: %d requests were sent again\n", client.Resent())
	report("spv, pipelined answers", rates, 100_000)
	return nil
}

const (
	accounts = 1000
	// batch is the number of transfers of one call.
	batch = 40_000
	// udpSessions and tcpSessions are the numbers of packets that wait for their replies at the same time.
	udpSessions = 64
	tcpSessions = 16
)

func benchTransfer(directory string, core, rounds int, length time.Duration) error {
	config := "[transfer]\ndata = \"ledger\"\n"
	server, err := livetest.Run(
		livetest.Options{Directory: directory, Config: config, Services: []string{"transfer"}, Core: core})
	if err != nil {
		return err
	}
	defer server.Stop()
	ctx := context.Background()
	address := server.Address("transfer")
	datagrams, err := transfer.Dial(ctx, address, nil)
	if err != nil {
		return err
	}
	defer datagrams.Close()
	stream, err := transfer.DialTCP(ctx, address, nil)
	if err != nil {
		return err
	}
	defer stream.Close()
	var creates, transfers []transfer.Operation
	for i := range uint32(accounts) {
		creates = append(creates, transfer.Create(transfer.Account(i+1), 1<<40))
	}
	for i := range uint32(batch) {
		from, to := i%accounts, (i*7+3)%accounts
		if from == to {
			to = (to + 1) % accounts
		}
		transfers = append(transfers, transfer.Transfer(transfer.Account(from+1), transfer.Account(to+1), 1))
	}
	if err := fill(ctx, stream, creates); err != nil {
		return err
	}
	return errors.Join(
		transferRounds(ctx, "transfer over UDP", datagrams, udpSessions, transfers, rounds, length),
		transferRounds(ctx, "transfer over TCP", stream, tcpSessions, transfers, rounds, length),
	)
}

func fill(ctx context.Context, client *transfer.Client, creates []transfer.Operation) error {
	pool, err := client.OpenPool(ctx, 1)
	if err != nil {
		return err
	}
	return errors.Join(execute(ctx, pool, creates), pool.Close(ctx))
}

// execute executes the operations and checks that all were executed and are durable.
func execute(ctx context.Context, pool *transfer.Pool, operations []transfer.Operation) error {
	outcomes, err := pool.Execute(ctx, operations)
	if err != nil {
		return err
	}
	for i := range outcomes {
		if err := outcomes[i].Outcome.Err(); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return nil
}

func transferRounds(ctx context.Context, name string, client *transfer.Client, sessions int,
	transfers []transfer.Operation, rounds int, length time.Duration) error {
	pool, err := client.OpenPool(ctx, sessions)
	if err != nil {
		return err
	}
	if err := execute(ctx, pool, transfers); err != nil {
		return err
	}
	var rates []float64
	for range rounds {
		begin, count := time.Now(), 0
		for time.Since(begin) < length {
			if err := execute(ctx, pool, transfers); err != nil {
				return err
			}
			count += len(transfers)
		}
		rates = append(rates, float64(count)/time.Since(begin).Seconds())
	}
	fmt.Printf("%s: %d packets were sent again\n", name, client.Resent())
	report(name+", durable", rates, 500_000)
	return pool.Close(ctx)
}

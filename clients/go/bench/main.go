//go:build unix

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
	"runtime/pprof"
	"slices"
	"syscall"
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
	profile := flag.String("cpuprofile", "", "file for a CPU profile of the client")
	flag.Parse()
	if *profile != "" {
		file, err := os.Create(*profile)
		if err != nil {
			log.Fatal(err)
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			log.Fatal(err)
		}
		defer pprof.StopCPUProfile()
	}
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

// rates has the rates of the rounds: by the clock, and by the CPU time that this process used.
type rates struct{ byClock, byCPU []float64 }

// measure calls a function for the length of each round. The function returns the number of answers.
func measure(rounds int, length time.Duration, call func() (int, error)) (*rates, error) {
	r := &rates{}
	for range rounds {
		begin, cpu, count := time.Now(), cpuTime(), 0
		for time.Since(begin) < length {
			answers, err := call()
			if err != nil {
				return nil, err
			}
			count += answers
		}
		r.byClock = append(r.byClock, float64(count)/time.Since(begin).Seconds())
		r.byCPU = append(r.byCPU, float64(count)/(cpuTime()-cpu).Seconds())
	}
	return r, nil
}

// cpuTime returns the CPU time that this process has used, in user space and in the kernel.
func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// report prints the medians of the rounds and the gate, 0 if there is none, and returns an error if the gate is missed.
// The rate by CPU time is what the client could do on a core of its own with a server that keeps up.
func (r *rates) report(name string, gate float64) error {
	slices.Sort(r.byClock)
	slices.Sort(r.byCPU)
	median := r.byClock[len(r.byClock)/2]
	verdict := fmt.Sprintf("gate %.0f reached; ", gate)
	if median < gate {
		verdict = fmt.Sprintf("gate %.0f missed; ", gate)
	}
	if gate == 0 {
		verdict = ""
	}
	fmt.Printf("%s: median %.0f a second of %.0f; %s%.0f in a second of the client's CPU time\n",
		name, median, r.byClock, verdict, r.byCPU[len(r.byCPU)/2])
	if median < gate {
		return fmt.Errorf("%s: the gate of %.0f a second is missed", name, gate)
	}
	return nil
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
	result, err := measure(rounds, length, func() (int, error) { return len(txids), ask() })
	if err != nil {
		return err
	}
	if wrong > 0 {
		return fmt.Errorf("spv: %d answers were wrong", wrong)
	}
	fmt.Printf("spv: %d requests were sent again\n", client.Resent())
	return result.report("spv, pipelined answers", 100_000)
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
		// A packet holds 744 operations over TCP, and 16 over UDP, for which there is no gate.
		transferRounds(ctx, "transfer over UDP", datagrams, udpSessions, 0, transfers, rounds, length),
		transferRounds(ctx, "transfer over TCP", stream, tcpSessions, 500_000, transfers, rounds, length),
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
	gate float64, transfers []transfer.Operation, rounds int, length time.Duration) error {
	pool, err := client.OpenPool(ctx, sessions)
	if err != nil {
		return err
	}
	if err := execute(ctx, pool, transfers); err != nil {
		return err
	}
	result, err := measure(rounds, length, func() (int, error) {
		return len(transfers), execute(ctx, pool, transfers)
	})
	if err != nil {
		return err
	}
	fmt.Printf("%s: %d packets were sent again\n", name, client.Resent())
	return errors.Join(result.report(name+", durable", gate), pool.Close(ctx))
}

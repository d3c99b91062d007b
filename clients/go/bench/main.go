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
	return errors.Join(benchSpv(directory, core, rounds, length))
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

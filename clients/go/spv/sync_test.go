package spv

import (
	"encoding/binary"
	"net"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
)

// serveHeaders answers requests for headers with those that the function returns.
func serveHeaders(t *testing.T, headers func(start uint32) []Header) string {
	t.Helper()
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, client, err := socket.ReadFromUDP(buffer)
			if err != nil {
				return
			}
			start := binary.BigEndian.Uint32(buffer[16:])
			count := int(binary.BigEndian.Uint32(buffer[20:]))
			found := headers(start)
			found = found[:min(count, len(found))]
			reply := append([]byte{}, buffer[:16]...)
			reply[3] |= layout.NativeReplyBit
			reply = (&layout.HeadersHead{Start: start, Count: uint32(len(found))}).Append(reply)
			for i := range found {
				b := found[i].Bytes()
				reply = append(reply, b[:]...)
			}
			reply = append(reply, make([]byte, n-len(reply))...)
			socket.WriteToUDP(reply, client)
		}
	}()
	return socket.LocalAddr().String()
}

// from returns the headers of a chain after the genesis block from a height on.
func from(chain []Header) func(uint32) []Header {
	all := append([]Header{Regtest.Genesis()}, chain...)
	return func(start uint32) []Header { return all[min(int(start), len(all)):] }
}

func TestSyncFollowsAnotherBranchWithMoreWork(t *testing.T) {
	shared := mine(Regtest.Genesis(), 50, 1)
	own, others := mine(shared[49], 30, 2), mine(shared[49], 400, 3)
	chain := NewHeaderChain(Regtest, ChainOptions{})
	if _, err := chain.Accept(append(shared[:50:50], own...)...); err != nil {
		t.Fatal(err)
	}
	options := &lineside.Options{Timeout: 5 * time.Second}
	client, err := Dial(t.Context(), serveHeaders(t, from(append(shared[:50:50], others...))), options)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	added, err := client.Sync(t.Context(), chain)
	if err != nil || added != 400 || chain.Tip() != (Tip{others[399].Hash(), 450}) {
		t.Errorf("%d headers added, tip %v: %v", added, chain.Tip(), err)
	}
	// A server with less work changes nothing.
	weak, err := Dial(t.Context(), serveHeaders(t, from(append(shared[:50:50], own...))), options)
	if err != nil {
		t.Fatal(err)
	}
	defer weak.Close()
	if added, err := weak.Sync(t.Context(), chain); err != nil || added != 0 || chain.Tip().Height != 450 {
		t.Errorf("%d headers added, tip %v: %v", added, chain.Tip(), err)
	}
}

func TestSyncEndsWithAServerThatRepeatsOldHeaders(t *testing.T) {
	headers := mine(Regtest.Genesis(), 300, 1)
	whole := from(headers)
	server := serveHeaders(t, func(start uint32) []Header {
		if start == 0 {
			return whole(0)
		}
		// Whatever the height, the first headers.
		return whole(1 + (start-1)%224)
	})
	client, err := Dial(t.Context(), server, &lineside.Options{Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	chain := NewHeaderChain(Regtest, ChainOptions{})
	if added, err := client.Sync(t.Context(), chain); err == nil || added != 224 {
		t.Errorf("%d headers added: %v", added, err)
	}
}

package livetest

import (
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// share is the share of datagrams in each direction that the relay loses; the same share is sent twice, and the same is
// delayed, so that later datagrams overtake it.
const share = 0.2

// Relay passes datagrams between clients and a server as a bad network does.
type Relay struct {
	socket *net.UDPConn
	server *net.UDPAddr

	mu     sync.Mutex
	random *rand.Rand
	// ways has a socket to the server for each address of a client.
	ways map[string]*net.UDPConn
	lost int
	// isDeaf means that replies are lost.
	isDeaf bool
}

// StartRelay starts a relay before a server, with a seed for its faults. It ends with the test.
func StartRelay(t testing.TB, server string, seed uint64) *Relay {
	t.Helper()
	address, err := net.ResolveUDPAddr("udp", server)
	if err != nil {
		t.Fatal(err)
	}
	socket, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	relay := &Relay{
		socket: socket,
		server: address,
		random: rand.New(rand.NewPCG(seed, 1)),
		ways:   make(map[string]*net.UDPConn),
	}
	go relay.requests()
	t.Cleanup(func() {
		_ = socket.Close()
		relay.mu.Lock()
		defer relay.mu.Unlock()
		if relay.lost == 0 {
			t.Error("the relay lost no datagram, so that the test has shown nothing")
		}
		for _, way := range relay.ways {
			_ = way.Close()
		}
	})
	return relay
}

// Address returns the address at which clients reach the server.
func (r *Relay) Address() string { return r.socket.LocalAddr().String() }

// pass sends a datagram once, twice, later, or not at all.
func (r *Relay) pass(datagram []byte, send func([]byte)) {
	r.mu.Lock()
	isLost, isTwice, isLate := r.random.Float64() < share, r.random.Float64() < share, r.random.Float64() < share
	delay := time.Duration(r.random.IntN(20)) * time.Millisecond
	if isLost {
		r.lost++
	}
	r.mu.Unlock()
	if isLost {
		return
	}
	copied := append([]byte(nil), datagram...)
	if isTwice {
		time.AfterFunc(delay, func() { send(copied) })
	}
	if isLate {
		time.AfterFunc(delay, func() { send(copied) })
	} else {
		send(copied)
	}
}

// LoseReplies makes the relay lose all replies from now on, while requests still reach the server.
func (r *Relay) LoseReplies() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isDeaf = true
}

func (r *Relay) losesReplies() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isDeaf
}

func (r *Relay) requests() {
	buffer := make([]byte, 2048)
	for {
		n, client, err := r.socket.ReadFromUDP(buffer)
		if err != nil {
			return
		}
		way := r.way(client)
		if way != nil {
			r.pass(buffer[:n], func(datagram []byte) { _, _ = way.Write(datagram) })
		}
	}
}

func (r *Relay) way(client *net.UDPAddr) *net.UDPConn {
	r.mu.Lock()
	defer r.mu.Unlock()
	if way := r.ways[client.String()]; way != nil {
		return way
	}
	way, err := net.DialUDP("udp", nil, r.server)
	if err != nil {
		return nil
	}
	r.ways[client.String()] = way
	go func() {
		buffer := make([]byte, 2048)
		for {
			n, err := way.Read(buffer)
			if err != nil {
				return
			}
			r.pass(buffer[:n], func(datagram []byte) {
				if !r.losesReplies() {
					_, _ = r.socket.WriteToUDP(datagram, client)
				}
			})
		}
	}()
	return way
}

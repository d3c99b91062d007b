package hybrid

import (
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// countersSinceMs is the start of counters made from the clock: 2025-01-01 in milliseconds since 1970.
	countersSinceMs = 1_735_689_600_000
	// countersPerMs is the mean number of requests in a millisecond that a lane can have without overtaking the clock.
	countersPerMs = 256
	counterMax    = 1<<48 - 1
)

// lanes gives each request in progress a lane of its own, in which the counters of nonces rise. Lanes are chosen at
// random, so that processes that sign with one key do not share one. A counter begins at the clock, so that nothing has
// to be stored.
type lanes struct {
	mu   sync.Mutex
	free []*lane
	used map[uint16]bool
}

type lane struct {
	number  uint16
	counter uint64
}

func newLanes() *lanes { return &lanes{used: make(map[uint16]bool)} }

func (l *lanes) acquire() *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last := len(l.free) - 1; last >= 0 {
		lane := l.free[last]
		l.free = l.free[:last]
		return lane
	}
	number := uint16(rand.Uint32())
	for l.used[number] && len(l.used) < 1<<16 {
		number++
	}
	l.used[number] = true
	return &lane{number: number}
}

// release lets another request use the lane.
func (l *lanes) release(lane *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free = append(l.free, lane)
}

// nonce returns the next nonce of the lane.
func (l *lane) nonce(now time.Time) uint64 {
	clock := uint64(max(now.UnixMilli()-countersSinceMs, 0)) * countersPerMs
	l.counter = min(max(l.counter+1, clock), counterMax)
	return uint64(l.number)<<48 | l.counter
}

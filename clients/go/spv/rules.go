package spv

import (
	"fmt"
	"math/big"
	"slices"
)

const (
	// maxFuture is the time in seconds that a header may be ahead of the clock: 2 hours.
	maxFuture = 2 * 60 * 60
	// medianSpan is the number of headers whose median time a header must be above (BIP113).
	medianSpan = 11
	// maxTimeWarp is the time in seconds that the first header of a period may be older than its parent (BIP94).
	maxTimeWarp = 600
)

// ancestor has the fields of a header that the rules use.
type ancestor struct{ time, bits uint32 }

// RuleError is the reason why a header may not follow its parent.
type RuleError struct {
	// Rule is "target", "median time", "clock" or "time warp".
	Rule string
	// Found is the value of the header, and Bound the value that the rule gives.
	Found, Bound uint32
}

// Error returns the rule and both values.
func (e *RuleError) Error() string {
	switch e.Rule {
	case "target":
		return fmt.Sprintf("its target is %08x, but the network's rule gives %08x", e.Found, e.Bound)
	case "median time":
		return fmt.Sprintf("its time %d is not above %d, the median of the 11 headers before it", e.Found, e.Bound)
	case "clock":
		return fmt.Sprintf("its time %d is more than two hours after %d; check this machine's clock", e.Found, e.Bound)
	}
	return fmt.Sprintf("its time %d is more than 600 s before its parent's, %d (BIP94)", e.Found, e.Bound)
}

// checkRules checks a header against its ancestors, in the order of Bitcoin Core; the minimum version that BIP34, BIP65
// and BIP66 require is not checked. at returns the ancestor at a height, at most parentHeight.
func checkRules(network Network, header ancestor, parentHeight, now uint32, at func(uint32) ancestor) error {
	if required := requiredBits(network, parentHeight, header.time, at); header.bits != required {
		return &RuleError{"target", header.bits, required}
	}
	if median := medianTime(parentHeight, at); header.time <= median {
		return &RuleError{"median time", header.time, median}
	}
	parent := at(parentHeight).time
	isFirst := (parentHeight+1)%RetargetInterval == 0
	if networks[network].rule == bip94 && isFirst && uint64(header.time)+maxTimeWarp < uint64(parent) {
		return &RuleError{"time warp", header.time, parent}
	}
	if uint64(header.time) > uint64(now)+maxFuture {
		return &RuleError{"clock", header.time, now}
	}
	return nil
}

// requiredBits returns the target that the header after parentHeight must have if its time is time.
func requiredBits(network Network, parentHeight, time uint32, at func(uint32) ancestor) uint32 {
	rule, limit := networks[network].rule, network.LimitBits()
	if rule == never {
		return limit
	}
	parent := at(parentHeight)
	if (parentHeight+1)%RetargetInterval != 0 {
		switch {
		case rule == every2016:
			return parent.bits
		case uint64(time) > uint64(parent.time)+minDifficultyAfter:
			return limit
		}
		// The last target of the period that is not the minimum difficulty, or that of its first header.
		height := parentHeight
		for height%RetargetInterval != 0 && at(height).bits == limit {
			height--
		}
		return at(height).bits
	}
	first := at(parentHeight + 1 - RetargetInterval)
	begin := parent.bits
	if rule == bip94 {
		begin = first.bits
	}
	return retarget(network, begin, int64(parent.time)-int64(first.time))
}

// retarget returns the target after a period that began with bits and took timespan seconds from its first header to
// its last.
func retarget(network Network, bits uint32, timespan int64) uint32 {
	timespan = min(max(timespan, targetTimespan/4), targetTimespan*4)
	limit := network.limit()
	target := decodeTarget(bits)
	if target == nil {
		target = network.limit()
	}
	target.Mul(target, big.NewInt(timespan))
	target.Div(target, big.NewInt(targetTimespan))
	if target.Cmp(limit) > 0 {
		target = limit
	}
	return encodeTarget(target)
}

// medianTime returns the median of the times of the last 11 headers up to height, or of all if there are fewer.
func medianTime(height uint32, at func(uint32) ancestor) uint32 {
	var times [medianSpan]uint32
	count := min(height+1, medianSpan)
	for back := range count {
		times[back] = at(height - back).time
	}
	slices.Sort(times[:count])
	return times[count/2]
}

// Package keccak computes Keccak-256 as Ethereum does: with the padding 0x01, which is not that of SHA3-256.
package keccak

import (
	"encoding/binary"
	"math/bits"
)

const rate = 136

var roundConstants = [24]uint64{
	0x0000000000000001, 0x0000000000008082, 0x800000000000808a, 0x8000000080008000,
	0x000000000000808b, 0x0000000080000001, 0x8000000080008081, 0x8000000000008009,
	0x000000000000008a, 0x0000000000000088, 0x0000000080008009, 0x000000008000000a,
	0x000000008000808b, 0x800000000000008b, 0x8000000000008089, 0x8000000000008003,
	0x8000000000008002, 0x8000000000000080, 0x000000000000800a, 0x800000008000000a,
	0x8000000080008081, 0x8000000000008080, 0x0000000080000001, 0x8000000080008008,
}

// Sum256 returns the hash of the concatenation of the parts.
func Sum256(parts ...[]byte) [32]byte {
	var state [25]uint64
	var block [rate]byte
	used := 0
	for _, part := range parts {
		for len(part) > 0 {
			n := copy(block[used:], part)
			used, part = used+n, part[n:]
			if used == rate {
				absorb(&state, &block)
				used = 0
			}
		}
	}
	clear(block[used:])
	block[used] = 0x01
	block[rate-1] |= 0x80
	absorb(&state, &block)
	var out [32]byte
	for i := range 4 {
		binary.LittleEndian.PutUint64(out[8*i:], state[i])
	}
	return out
}

func absorb(state *[25]uint64, block *[rate]byte) {
	for i := range rate / 8 {
		state[i] ^= binary.LittleEndian.Uint64(block[8*i:])
	}
	permute(state)
}

// permute is Keccak-f[1600] (FIPS 202, section 3.3); lane (x, y) is a[x+5y].
func permute(a *[25]uint64) {
	for _, constant := range roundConstants {
		// Theta.
		var c [5]uint64
		for x := range c {
			c[x] = a[x] ^ a[x+5] ^ a[x+10] ^ a[x+15] ^ a[x+20]
		}
		for x := range c {
			d := c[(x+4)%5] ^ bits.RotateLeft64(c[(x+1)%5], 1)
			for y := 0; y < 25; y += 5 {
				a[x+y] ^= d
			}
		}
		// Rho and pi.
		x, y, current := 1, 0, a[1]
		for step := range 24 {
			x, y = y, (2*x+3*y)%5
			current, a[x+5*y] = a[x+5*y], bits.RotateLeft64(current, (step+1)*(step+2)/2%64)
		}
		// Chi.
		for y := 0; y < 25; y += 5 {
			row := [5]uint64(a[y : y+5])
			for x := range row {
				a[x+y] = row[x] ^ ^row[(x+1)%5]&row[(x+2)%5]
			}
		}
		// Iota.
		a[0] ^= constant
	}
}

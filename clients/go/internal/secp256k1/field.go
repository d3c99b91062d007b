package secp256k1

import (
	"encoding/binary"
	"math/big"
	"math/bits"
)

// limbs is a number of 256 bits, least significant word first.
type limbs [4]uint64

// field does arithmetic modulo an odd number above 2^255. Its methods take and return numbers in Montgomery form,
// which is the number times 2^256, below the modulus. The time of add, sub and mul does not depend on the numbers.
type field struct {
	modulus limbs
	// inverse is -1 / modulus modulo 2^64.
	inverse uint64
	// one is 1 in Montgomery form, and square is 2^256 in Montgomery form, which converts to it.
	one, square limbs
}

func newField(modulus string) *field {
	m, ok := new(big.Int).SetString(modulus, 16)
	if !ok {
		panic("secp256k1: wrong modulus")
	}
	f := &field{modulus: fromBig(m)}
	// Newton's iteration doubles the number of right bits.
	inverse := uint64(1)
	for range 6 {
		inverse *= 2 - f.modulus[0]*inverse
	}
	f.inverse = -inverse
	r := new(big.Int).Lsh(big.NewInt(1), 256)
	f.one = fromBig(new(big.Int).Mod(r, m))
	f.square = fromBig(new(big.Int).Mod(new(big.Int).Mul(r, r), m))
	return f
}

func fromBig(n *big.Int) limbs {
	return fromBytes([32]byte(n.FillBytes(make([]byte, 32))))
}

// fromBytes reads a big-endian number.
func fromBytes(b [32]byte) limbs {
	var n limbs
	for i := range n {
		n[i] = binary.BigEndian.Uint64(b[24-8*i:])
	}
	return n
}

// bytes returns the number in big-endian order.
func (n *limbs) bytes() [32]byte {
	var b [32]byte
	for i := range n {
		binary.BigEndian.PutUint64(b[24-8*i:], n[i])
	}
	return b
}

// isZero returns true for 0.
func (n *limbs) isZero() bool { return n[0]|n[1]|n[2]|n[3] == 0 }

// isBelow returns true if n < other.
func (n *limbs) isBelow(other *limbs) bool {
	_, borrow := subtract(n, other)
	return borrow == 1
}

func subtract(x, y *limbs) (difference limbs, borrow uint64) {
	for i := range x {
		difference[i], borrow = bits.Sub64(x[i], y[i], borrow)
	}
	return difference, borrow
}

// choose returns x if bit is 1 and y if it is 0.
func choose(bit uint64, x, y *limbs) limbs {
	var chosen limbs
	mask := -bit
	for i := range x {
		chosen[i] = x[i]&mask | y[i]&^mask
	}
	return chosen
}

// reduce subtracts the modulus once from x + carry * 2^256, unless the number is below the modulus.
func (f *field) reduce(x *limbs, carry uint64) limbs {
	reduced, borrow := subtract(x, &f.modulus)
	_, isBelow := bits.Sub64(carry, 0, borrow)
	return choose(isBelow, x, &reduced)
}

func (f *field) add(x, y *limbs) limbs {
	var sum limbs
	var carry uint64
	for i := range x {
		sum[i], carry = bits.Add64(x[i], y[i], carry)
	}
	return f.reduce(&sum, carry)
}

func (f *field) sub(x, y *limbs) limbs {
	difference, borrow := subtract(x, y)
	var carry uint64
	for i := range difference {
		difference[i], carry = bits.Add64(difference[i], f.modulus[i]&-borrow, carry)
	}
	return difference
}

// mul returns x * y / 2^256, which is the Montgomery form of the product.
func (f *field) mul(x, y *limbs) limbs {
	var t limbs
	var top uint64
	for i := range y {
		var carry, c uint64
		for j := range x {
			hi, lo := bits.Mul64(x[j], y[i])
			lo, c = bits.Add64(lo, t[j], 0)
			hi += c
			t[j], c = bits.Add64(lo, carry, 0)
			carry = hi + c
		}
		sum, over := bits.Add64(top, carry, 0)
		factor := t[0] * f.inverse
		hi, lo := bits.Mul64(factor, f.modulus[0])
		_, c = bits.Add64(lo, t[0], 0)
		carry = hi + c
		for j := 1; j < 4; j++ {
			hi, lo := bits.Mul64(factor, f.modulus[j])
			lo, c = bits.Add64(lo, t[j], 0)
			hi += c
			t[j-1], c = bits.Add64(lo, carry, 0)
			carry = hi + c
		}
		t[3], c = bits.Add64(sum, carry, 0)
		top = over + c
	}
	return f.reduce(&t, top)
}

// toMontgomery converts a number below 2^256.
func (f *field) toMontgomery(x *limbs) limbs { return f.mul(x, &f.square) }

// fromMontgomery returns the number itself.
func (f *field) fromMontgomery(x *limbs) limbs { return f.mul(x, &limbs{1}) }

// power returns x to an exponent that is not secret.
func (f *field) power(x, exponent *limbs) limbs {
	result := f.one
	for i := 255; i >= 0; i-- {
		result = f.mul(&result, &result)
		if exponent[i/64]>>(i%64)&1 == 1 {
			result = f.mul(&result, x)
		}
	}
	return result
}

// invert returns 1 / x for a prime modulus (Fermat), and 0 for 0.
func (f *field) invert(x *limbs) limbs {
	exponent, _ := subtract(&f.modulus, &limbs{2})
	return f.power(x, &exponent)
}

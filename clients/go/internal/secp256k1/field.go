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
	difference[0], borrow = bits.Sub64(x[0], y[0], 0)
	difference[1], borrow = bits.Sub64(x[1], y[1], borrow)
	difference[2], borrow = bits.Sub64(x[2], y[2], borrow)
	difference[3], borrow = bits.Sub64(x[3], y[3], borrow)
	return difference, borrow
}

// choose returns x if bit is 1 and y if it is 0.
func choose(bit uint64, x, y *limbs) limbs {
	mask := -bit
	return limbs{
		x[0]&mask | y[0]&^mask, x[1]&mask | y[1]&^mask, x[2]&mask | y[2]&^mask, x[3]&mask | y[3]&^mask,
	}
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
	sum[0], carry = bits.Add64(x[0], y[0], 0)
	sum[1], carry = bits.Add64(x[1], y[1], carry)
	sum[2], carry = bits.Add64(x[2], y[2], carry)
	sum[3], carry = bits.Add64(x[3], y[3], carry)
	return f.reduce(&sum, carry)
}

func (f *field) sub(x, y *limbs) limbs {
	d, borrow := subtract(x, y)
	mask := -borrow
	var carry uint64
	d[0], carry = bits.Add64(d[0], f.modulus[0]&mask, 0)
	d[1], carry = bits.Add64(d[1], f.modulus[1]&mask, carry)
	d[2], carry = bits.Add64(d[2], f.modulus[2]&mask, carry)
	d[3], _ = bits.Add64(d[3], f.modulus[3]&mask, carry)
	return d
}

// mulAdd returns a * b + c + d, which is below 2^128.
func mulAdd(a, b, c, d uint64) (hi, lo uint64) {
	hi, lo = bits.Mul64(a, b)
	lo, carry := bits.Add64(lo, c, 0)
	hi += carry
	lo, carry = bits.Add64(lo, d, 0)
	return hi + carry, lo
}

// mul returns x * y / 2^256, which is the Montgomery form of the product. The words are variables of their own, because
// that is faster than with arrays.
func (f *field) mul(x, y *limbs) limbs {
	var t0, t1, t2, t3, t4 uint64
	m0, m1, m2, m3 := f.modulus[0], f.modulus[1], f.modulus[2], f.modulus[3]
	x0, x1, x2, x3 := x[0], x[1], x[2], x[3]
	for _, word := range y {
		var carry, over uint64
		carry, t0 = mulAdd(x0, word, t0, 0)
		carry, t1 = mulAdd(x1, word, t1, carry)
		carry, t2 = mulAdd(x2, word, t2, carry)
		carry, t3 = mulAdd(x3, word, t3, carry)
		t4, over = bits.Add64(t4, carry, 0)
		factor := t0 * f.inverse
		carry, _ = mulAdd(factor, m0, t0, 0)
		carry, t0 = mulAdd(factor, m1, t1, carry)
		carry, t1 = mulAdd(factor, m2, t2, carry)
		carry, t2 = mulAdd(factor, m3, t3, carry)
		t3, carry = bits.Add64(t4, carry, 0)
		t4 = over + carry
	}
	return f.reduce(&limbs{t0, t1, t2, t3}, t4)
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

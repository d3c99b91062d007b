// Package secp256k1 signs and verifies with ECDSA over the curve secp256k1 (SEC 2, section 2.4.1), which the standard
// library does not have. It accepts and makes only signatures whose s is at most half the curve's order.
//
// The time of operations with secret numbers does not depend on these numbers: the arithmetic has no branches and no
// memory accesses that depend on them, and points are added with complete formulas.
package secp256k1

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
)

var (
	// base does arithmetic of coordinates, and scalars modulo the order of the generator.
	base    = newField("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f")
	scalars = newField("fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141")
	// half is the half of the order, rounded down.
	half = limbs{0xdfe92f46681b20a0, 0x5d576e7357a4501d, 0xffffffffffffffff, 0x7fffffffffffffff}
	// seven is the curve's b, and threeB three times b.
	seven     = base.toMontgomery(&limbs{7})
	threeB    = base.toMontgomery(&limbs{21})
	generator = point{
		x: montgomery(0x79be667ef9dcbbac, 0x55a06295ce870b07, 0x029bfcdb2dce28d9, 0x59f2815b16f81798),
		y: montgomery(0x483ada7726a3c465, 0x5da4fbfc0e1108a8, 0xfd17b448a6855419, 0x9c47d08ffb10d4b8),
		z: base.one,
	}
)

// montgomery returns a coordinate whose words are given with the most significant one first.
func montgomery(words ...uint64) limbs {
	return base.toMontgomery(&limbs{words[3], words[2], words[1], words[0]})
}

// point is a point in projective coordinates in Montgomery form; z is 0 for the neutral element.
type point struct{ x, y, z limbs }

// add returns the sum of any two points: algorithm 7 of Renes, Costello and Batina, "Complete addition formulas for
// prime order elliptic curves" (2015).
func (p *point) add(q *point) point {
	f := base
	t0, t1, t2 := f.mul(&p.x, &q.x), f.mul(&p.y, &q.y), f.mul(&p.z, &q.z)
	cross := func(a, b, c, d, first, second *limbs) limbs {
		left, right, sum := f.add(a, b), f.add(c, d), f.add(first, second)
		product := f.mul(&left, &right)
		return f.sub(&product, &sum)
	}
	t3 := cross(&p.x, &p.y, &q.x, &q.y, &t0, &t1)
	t4 := cross(&p.y, &p.z, &q.y, &q.z, &t1, &t2)
	y3 := cross(&p.x, &p.z, &q.x, &q.z, &t0, &t2)
	double := f.add(&t0, &t0)
	t0 = f.add(&double, &t0)
	t2 = f.mul(&threeB, &t2)
	z3 := f.add(&t1, &t2)
	t1 = f.sub(&t1, &t2)
	y3 = f.mul(&threeB, &y3)
	x3, product := f.mul(&t4, &y3), f.mul(&t3, &t1)
	x3 = f.sub(&product, &x3)
	y3 = f.mul(&y3, &t0)
	product = f.mul(&t1, &z3)
	y3 = f.add(&product, &y3)
	t0 = f.mul(&t0, &t3)
	z3 = f.mul(&z3, &t4)
	z3 = f.add(&z3, &t0)
	return point{x3, y3, z3}
}

// times returns scalar * p in windows of four bits.
func (p *point) times(scalar *limbs) point {
	var table [16]point
	table[0] = point{y: base.one}
	for i := 1; i < len(table); i++ {
		table[i] = table[i-1].add(p)
	}
	result := table[0]
	for i := 252; i >= 0; i -= 4 {
		for range 4 {
			result = result.add(&result)
		}
		window := scalar[i/64] >> (i % 64) & 15
		var chosen point
		for entry := range table {
			// The difference is 0 only for the right entry.
			difference := uint64(entry) ^ window
			isRight := (difference - 1) >> 63
			chosen.x = choose(isRight, &table[entry].x, &chosen.x)
			chosen.y = choose(isRight, &table[entry].y, &chosen.y)
			chosen.z = choose(isRight, &table[entry].z, &chosen.z)
		}
		result = result.add(&chosen)
	}
	return result
}

// affine returns the coordinates of a point that is not the neutral element.
func (p *point) affine() (x, y limbs) {
	inverse := base.invert(&p.z)
	x, y = base.mul(&p.x, &inverse), base.mul(&p.y, &inverse)
	return base.fromMontgomery(&x), base.fromMontgomery(&y)
}

func (p *point) compressed() [33]byte {
	x, y := p.affine()
	var out [33]byte
	out[0] = 2 + byte(y[0]&1)
	b := x.bytes()
	copy(out[1:], b[:])
	return out
}

// PublicKey is a point of the curve.
type PublicKey struct{ point point }

// ParsePublicKey reads a compressed key of 33 bytes (SEC 1, section 2.3.4).
func ParsePublicKey(b []byte) (*PublicKey, error) {
	wrong := errors.New("secp256k1: these bytes are not a compressed point of the curve")
	if len(b) != 33 || b[0] != 2 && b[0] != 3 {
		return nil, wrong
	}
	number := fromBytes([32]byte(b[1:]))
	if !number.isBelow(&base.modulus) {
		return nil, wrong
	}
	x := base.toMontgomery(&number)
	square := base.mul(&x, &x)
	square = base.mul(&square, &x)
	square = base.add(&square, &seven)
	// The modulus is 3 modulo 4, so that the square root is the power (modulus + 1) / 4.
	y := base.power(&square, &limbs{0xffffffffbfffff0c, ^uint64(0), ^uint64(0), 0x3fffffffffffffff})
	if base.mul(&y, &y) != square {
		return nil, wrong
	}
	plain := base.fromMontgomery(&y)
	if plain[0]&1 != uint64(b[0]&1) {
		y = base.sub(&limbs{}, &y)
	}
	return &PublicKey{point{x, y, base.one}}, nil
}

// Verify returns true if the signature r || s of the digest was made with the key, and s is at most half the order.
func (k *PublicKey) Verify(digest [32]byte, signature [64]byte) bool {
	r, s := fromBytes([32]byte(signature[:32])), fromBytes([32]byte(signature[32:]))
	if r.isZero() || s.isZero() || !r.isBelow(&scalars.modulus) || half.isBelow(&s) {
		return false
	}
	number := fromBytes(digest)
	// toMontgomery also reduces a digest that is not below the order.
	z, rm, inverse := scalars.toMontgomery(&number), scalars.toMontgomery(&r), scalars.toMontgomery(&s)
	inverse = scalars.invert(&inverse)
	u1, u2 := scalars.mul(&z, &inverse), scalars.mul(&rm, &inverse)
	u1, u2 = scalars.fromMontgomery(&u1), scalars.fromMontgomery(&u2)
	first, second := generator.times(&u1), k.point.times(&u2)
	sum := first.add(&second)
	if sum.z.isZero() {
		return false
	}
	x, _ := sum.affine()
	return scalars.reduce(&x, 0) == r
}

// PrivateKey is a secret number, from 1 to the curve's order minus 1.
type PrivateKey struct {
	secret [32]byte
	public [33]byte
}

// NewPrivateKey returns the key with this number, in big-endian order.
func NewPrivateKey(secret [32]byte) (*PrivateKey, error) {
	number := fromBytes(secret)
	if number.isZero() || !number.isBelow(&scalars.modulus) {
		return nil, errors.New("secp256k1: a private key must be above 0 and below the curve's order")
	}
	public := generator.times(&number)
	return &PrivateKey{secret, public.compressed()}, nil
}

// PublicKey returns the compressed public key.
func (k *PrivateKey) PublicKey() [33]byte { return k.public }

// Sign returns the signature r || s of a digest, with s at most half the order. The nonce is that of RFC 6979 with
// HMAC-SHA-256, so that the same digest has the same signature.
func (k *PrivateKey) Sign(digest [32]byte) [64]byte {
	secret, number := fromBytes(k.secret), fromBytes(digest)
	d, z := scalars.toMontgomery(&secret), scalars.toMontgomery(&number)
	plain := scalars.fromMontgomery(&z)
	reduced := plain.bytes()
	nonces := newNonces(k.secret, reduced)
	for {
		nonce := nonces.next()
		if nonce.isZero() || !nonce.isBelow(&scalars.modulus) {
			continue
		}
		commitment := generator.times(&nonce)
		x, _ := commitment.affine()
		r := scalars.reduce(&x, 0)
		rm, inverse := scalars.toMontgomery(&r), scalars.toMontgomery(&nonce)
		inverse = scalars.invert(&inverse)
		s := scalars.mul(&rm, &d)
		s = scalars.add(&s, &z)
		s = scalars.mul(&s, &inverse)
		s = scalars.fromMontgomery(&s)
		if r.isZero() || s.isZero() {
			continue
		}
		if half.isBelow(&s) {
			s, _ = subtract(&scalars.modulus, &s)
		}
		var signature [64]byte
		rb, sb := r.bytes(), s.bytes()
		copy(signature[:32], rb[:])
		copy(signature[32:], sb[:])
		return signature
	}
}

// nonces is the generator of RFC 6979, section 3.2.
type nonces struct {
	key, value []byte
	isStarted  bool
}

func newNonces(secret, digest [32]byte) *nonces {
	n := &nonces{key: make([]byte, 32), value: make([]byte, 32)}
	for i := range n.value {
		n.value[i] = 1
	}
	n.mix(0, secret[:], digest[:])
	n.mix(1, secret[:], digest[:])
	return n
}

// mix updates key and value with a byte and seeds.
func (n *nonces) mix(separator byte, seeds ...[]byte) {
	mac := hmac.New(sha256.New, n.key)
	mac.Write(n.value)
	mac.Write([]byte{separator})
	for _, seed := range seeds {
		mac.Write(seed)
	}
	n.key = mac.Sum(nil)
	n.step()
}

func (n *nonces) step() {
	mac := hmac.New(sha256.New, n.key)
	mac.Write(n.value)
	n.value = mac.Sum(nil)
}

func (n *nonces) next() limbs {
	if n.isStarted {
		n.mix(0)
	}
	n.isStarted = true
	n.step()
	return fromBytes([32]byte(n.value))
}

package spv

import (
	"bytes"
	"encoding/binary"
)

// transaction is a parsed transaction. Its slices share the memory of the raw bytes.
type transaction struct {
	raw []byte
	// body has inputs and outputs with their counts, and outputs what follows the count of the outputs.
	body, outputs []byte
	outputCount   uint64
	isCoinbase    bool
	hasWitness    bool
}

// reader reads the parts of a transaction; after a read past the end it is failed.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) take(count uint64) []byte {
	if r.failed || count > uint64(len(r.rest)) {
		r.failed = true
		return nil
	}
	taken := r.rest[:count]
	r.rest = r.rest[count:]
	return taken
}

// count reads a count or length, which must be in its shortest form.
func (r *reader) count() uint64 {
	first := r.take(1)
	if r.failed {
		return 0
	}
	if first[0] < 0xfd {
		return uint64(first[0])
	}
	size := 1 << (first[0] - 0xfc)
	var bytes [8]byte
	copy(bytes[:], r.take(uint64(size)))
	value := binary.LittleEndian.Uint64(bytes[:])
	least := uint64(0xfd)
	if size > 2 {
		least = 1 << (4 * size)
	}
	if value < least {
		r.failed = true
	}
	if r.failed {
		return 0
	}
	return value
}

// output reads an output and returns its script.
func (r *reader) output() []byte {
	r.take(8)
	return r.take(r.count())
}

// witness reads the witnesses of all inputs. It returns true if one of them is not empty.
func (r *reader) witness(inputs uint64) bool {
	hasItems := false
	for ; inputs > 0 && !r.failed; inputs-- {
		items := r.count()
		hasItems = hasItems || items > 0
		for ; items > 0 && !r.failed; items-- {
			r.take(r.count())
		}
	}
	return hasItems
}

// parseTransaction reads bytes that are exactly one transaction, with its witness or without.
func parseTransaction(raw []byte) (*transaction, error) {
	r := &reader{rest: raw}
	t := &transaction{raw: raw}
	r.take(4)
	t.hasWitness = len(r.rest) >= 2 && r.rest[0] == 0 && r.rest[1] == 1
	if t.hasWitness {
		r.take(2)
	}
	body := r.rest
	inputs := r.count()
	if inputs == 1 && len(r.rest) >= 36 {
		outpoint := r.rest[:36]
		t.isCoinbase = bytes.Equal(outpoint[:32], make([]byte, 32)) && binary.LittleEndian.Uint32(outpoint[32:]) == 1<<32-1
	}
	for i := uint64(0); i < inputs && !r.failed; i++ {
		r.take(36)
		r.take(r.count())
		r.take(4)
	}
	t.outputCount = r.count()
	t.outputs = r.rest
	for i := uint64(0); i < t.outputCount && !r.failed; i++ {
		r.output()
	}
	if r.failed {
		return nil, MalformedTransaction
	}
	t.body = body[:len(body)-len(r.rest)]
	if t.hasWitness && !r.witness(inputs) {
		return nil, MalformedTransaction
	}
	r.take(4)
	if r.failed || len(r.rest) != 0 || inputs == 0 || t.outputCount == 0 {
		return nil, MalformedTransaction
	}
	return t, nil
}

// baseBytes returns the length without the witness: that of the part whose hash is the TXID.
func (t *transaction) baseBytes() int { return 4 + len(t.body) + 4 }

func (t *transaction) txid() Hash {
	base := make([]byte, 0, t.baseBytes())
	base = append(base, t.raw[:4]...)
	base = append(base, t.body...)
	return DoubleSHA256(append(base, t.raw[len(t.raw)-4:]...))
}

// commitment returns the witness commitment of a coinbase: 32 bytes in the last output that has one (BIP141).
func (t *transaction) commitment() (Hash, bool) {
	var found Hash
	hasOne := false
	r := &reader{rest: t.outputs}
	for range t.outputCount {
		script := r.output()
		if len(script) >= 38 && bytes.HasPrefix(script, []byte{0x6a, 0x24, 0xaa, 0x21, 0xa9, 0xed}) {
			found, hasOne = Hash(script[6:38]), true
		}
	}
	return found, hasOne
}

// isTransaction returns true if the 64 bytes of an inner node are a valid transaction: one input, one output, scripts
// of 4 bytes together, and a value in range.
func isTransaction(node *[64]byte) bool {
	if node[4] != 1 || node[41] > 4 {
		return false
	}
	after := node[42+int(node[41]):]
	value := binary.LittleEndian.Uint64(after[5:])
	return after[4] == 1 && value <= 21_000_000*100_000_000 && after[13] == 4-node[41]
}

package hybrid

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
)

// requestTag is hashed before the signed bytes of a request.
const requestTag = "lineside/hybrid/1"

const signatureBytes = layout.RequestSignatureBytes

// KeyBytesMax is the maximum number of bytes of a key, and ValueBytesMax that of a value.
const (
	KeyBytesMax   = layout.HybridKeyBytesMax
	ValueBytesMax = layout.HybridValueBytesMax
)

// ID is the id of a transaction: the hash of its signed bytes.
type ID [32]byte

// ParseID reads an id of 64 hexadecimal digits, such as that of a [*lineside.OutcomeUnknownError].
func ParseID(text string) (ID, error) {
	bytes, err := hex.DecodeString(text)
	if err != nil || len(bytes) != 32 {
		return ID{}, fmt.Errorf("hybrid: %q is not an id of 64 hexadecimal digits", text)
	}
	return ID(bytes), nil
}

// String returns the id in hexadecimal digits.
func (id ID) String() string { return hex.EncodeToString(id[:]) }

// Identity is who signs requests.
type Identity struct {
	// Database is the id of the database: [Genesis.Database].
	Database [16]byte
	// Member is the number of the member.
	Member uint64
	// Key is the number of the member's key; the first one is 0.
	Key uint16
	// Signer signs with the member's key.
	Signer lineside.Signer
}

// Digest returns what a key of a curve signs: the hash of the tag and the bytes.
func digest(curve lineside.Curve, parts ...[]byte) [32]byte {
	if curve == lineside.P256 {
		return sha256.Sum256(bytes.Join(parts, nil))
	}
	return keccak256(parts...)
}

// sign returns a signed request.
func (i *Identity) sign(body body, nonce, expiryMs uint64) ([]byte, error) {
	head := layout.RequestHead{
		Version:  layout.HybridRequestVersion,
		Op:       body.op(),
		Key:      i.Key,
		Database: i.Database,
		Member:   i.Member,
		Nonce:    nonce,
		ExpiryMs: expiryMs,
	}
	request := head.Append(make([]byte, signatureBytes, signatureBytes+layout.RequestHeadBytes+256))
	request, err := body.append(request)
	if err != nil {
		return nil, err
	}
	if len(request) > layout.HybridRequestBytesMax {
		return nil, fmt.Errorf("hybrid: the request has %d bytes, at most %d are possible",
			len(request), layout.HybridRequestBytesMax)
	}
	curve := i.Signer.PublicKey().Curve
	signature, err := i.Signer.Sign(digest(curve, []byte(requestTag), request[signatureBytes:]))
	if err != nil {
		return nil, fmt.Errorf("hybrid: signing a request: %w", err)
	}
	copy(request, signature[:])
	return request, nil
}

// idOf returns the id of a signed request.
func idOf(request []byte) ID {
	return keccak256([]byte(requestTag), request[signatureBytes:])
}

// body is the body of a request.
type body interface {
	op() byte
	append([]byte) ([]byte, error)
}

func appendKey(b, key []byte) ([]byte, error) {
	if len(key) == 0 || len(key) > KeyBytesMax {
		return nil, fmt.Errorf("hybrid: a key has 1 to %d bytes, not %d", KeyBytesMax, len(key))
	}
	return appendShort(b, key), nil
}

func appendConsistency(b []byte, isLinearizable bool) []byte {
	if isLinearizable {
		return append(b, layout.HybridReadLinearizable)
	}
	return append(b, layout.HybridReadLocal)
}

// checkCount checks the number of keys of a request.
func checkCount(count int) error {
	if count > layout.HybridRequestKeysMax {
		return fmt.Errorf("hybrid: %d keys in one request, at most %d are possible", count, layout.HybridRequestKeysMax)
	}
	return nil
}

type getBody struct {
	isLinearizable bool
	// keys are in ascending order.
	keys [][]byte
}

func (getBody) op() byte { return layout.HybridOpGet }

func (g getBody) append(b []byte) ([]byte, error) {
	if err := checkCount(len(g.keys)); err != nil {
		return nil, err
	}
	b = binary.BigEndian.AppendUint16(appendConsistency(b, g.isLinearizable), uint16(len(g.keys)))
	for _, key := range g.keys {
		var err error
		if b, err = appendKey(b, key); err != nil {
			return nil, err
		}
	}
	return b, nil
}

type rangeBody struct {
	isLinearizable bool
	start, stop    []byte
	limit          uint32
}

func (rangeBody) op() byte { return layout.HybridOpRange }

func (r rangeBody) append(b []byte) ([]byte, error) {
	if len(r.start) > KeyBytesMax || len(r.stop) > KeyBytesMax {
		return nil, fmt.Errorf("hybrid: the ends of a range have at most %d bytes", KeyBytesMax)
	}
	b = appendShort(appendShort(appendConsistency(b, r.isLinearizable), r.start), r.stop)
	return binary.BigEndian.AppendUint32(b, r.limit), nil
}

type proveBody struct{ key []byte }

func (proveBody) op() byte                          { return layout.HybridOpProve }
func (p proveBody) append(b []byte) ([]byte, error) { return appendKey(b, p.key) }

type historyBody struct {
	key    []byte
	limit  uint32
	before Version
}

func (historyBody) op() byte { return layout.HybridOpHistory }

func (h historyBody) append(b []byte) ([]byte, error) {
	b, err := appendKey(b, h.key)
	if err != nil {
		return nil, err
	}
	b = binary.BigEndian.AppendUint32(b, h.limit)
	if h.before != (Version{}) {
		b = h.before.append(b)
	}
	return b, nil
}

type headBody struct{}

func (headBody) op() byte                        { return layout.HybridOpHead }
func (headBody) append(b []byte) ([]byte, error) { return b, nil }

type outcomeBody struct{ id ID }

func (outcomeBody) op() byte                          { return layout.HybridOpOutcome }
func (o outcomeBody) append(b []byte) ([]byte, error) { return append(b, o.id[:]...), nil }

type watchBody struct{ prefix []byte }

func (watchBody) op() byte { return layout.HybridOpWatch }

func (w watchBody) append(b []byte) ([]byte, error) {
	if len(w.prefix) > KeyBytesMax {
		return nil, fmt.Errorf("hybrid: a prefix has at most %d bytes", KeyBytesMax)
	}
	return appendShort(b, w.prefix), nil
}

// Read is a key that a transaction has read, with its version.
type Read struct {
	// Key is the key.
	Key []byte
	// Version is the version that the key must still have. The zero value means that it must have no value.
	Version Version
}

// Write is a write of a transaction.
type Write struct {
	// Key is the key.
	Key []byte
	// Value is the value. It is ignored if IsDelete is true.
	Value []byte
	// IsDelete deletes the key.
	IsDelete bool
}

// Transaction reads and writes keys atomically: if a key that it has read has another version, nothing is written. Keys
// are in ascending order in both lists, and occur once in each.
type Transaction struct {
	// Reads are the keys that were read.
	Reads []Read
	// Writes are the keys that are written.
	Writes []Write
}

func (*Transaction) op() byte { return layout.HybridOpWrite }

var errNotAscending = errors.New("hybrid: the keys of a request must be in ascending order, each once")

func (t *Transaction) append(b []byte) ([]byte, error) {
	if err := errors.Join(checkCount(len(t.Reads)), checkCount(len(t.Writes))); err != nil {
		return nil, err
	}
	var err error
	b = binary.BigEndian.AppendUint16(b, uint16(len(t.Reads)))
	for i, read := range t.Reads {
		if i > 0 && bytes.Compare(t.Reads[i-1].Key, read.Key) >= 0 {
			return nil, errNotAscending
		}
		if b, err = appendKey(b, read.Key); err != nil {
			return nil, err
		}
		b = read.Version.append(b)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(t.Writes)))
	for i, write := range t.Writes {
		if i > 0 && bytes.Compare(t.Writes[i-1].Key, write.Key) >= 0 {
			return nil, errNotAscending
		}
		if b, err = appendKey(b, write.Key); err != nil {
			return nil, err
		}
		if write.IsDelete {
			b = append(b, layout.HybridWriteDelete)
			continue
		}
		if len(write.Value) > ValueBytesMax {
			return nil, fmt.Errorf("hybrid: a value has at most %d bytes, not %d", ValueBytesMax, len(write.Value))
		}
		b = appendLong(append(b, layout.HybridWritePut), write.Value)
	}
	return b, nil
}

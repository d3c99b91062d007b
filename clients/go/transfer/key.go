package transfer

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// IdempotencyKey is a key under which an operation is executed once. While the server remembers the key, the same
// operation with the same key gets the first outcome again and changes nothing: in every session, from every client and
// after a restart. Another operation with the key is refused with [CodeIdReused].
//
// A key belongs to the operation's source account: operations of two accounts may have the same key. Only executed
// operations are remembered, for 24 hours unless the server is configured otherwise. Any UUID is a key:
// IdempotencyKey(id) for a [16]byte such as a uuid.UUID of github.com/google/uuid. The zero value of the field
// [Operation].Key means that an operation has no key.
type IdempotencyKey [16]byte

// NewIdempotencyKey returns a random key (a UUID of version 4). Store it with the operation before the operation is
// sent, so that it can be repeated after a crash.
func NewIdempotencyKey() IdempotencyKey {
	var key IdempotencyKey
	// rand.Read never returns an error.
	_, _ = rand.Read(key[:])
	key[6] = key[6]&0x0f | 0x40
	key[8] = key[8]&0x3f | 0x80
	return key
}

// ParseIdempotencyKey reads a UUID, or 32 hexadecimal digits that are not all zero.
func ParseIdempotencyKey(text string) (IdempotencyKey, error) {
	digits := text
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' {
		digits = strings.ReplaceAll(text, "-", "")
	}
	bytes, err := hex.DecodeString(digits)
	if err != nil || len(bytes) != len(IdempotencyKey{}) || IdempotencyKey(bytes).isZero() {
		return IdempotencyKey{}, errors.New(
			"transfer: an idempotency key is a UUID, or 32 hexadecimal digits that are not all zero")
	}
	return IdempotencyKey(bytes), nil
}

// String returns the key as a UUID.
func (k IdempotencyKey) String() string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", k[:4], k[4:6], k[6:8], k[8:10], k[10:])
}

func (k IdempotencyKey) isZero() bool { return k == IdempotencyKey{} }

// WithKey returns the operation with an idempotency key. The wire format has one field for the key and for the UUID of
// a pending transfer. Therefore the key of [Pending], [Post] and [Void] must equal the UUID of the pending transfer.
// The server distinguishes the three operations all the same, and each has an outcome of its own. In a chain of linked
// operations either all have a key or none has.
//
// The zero value is no key. Execute refuses an operation to which WithKey gave it before it sends anything, because the
// operation would be executed again when it is repeated.
func (o Operation) WithKey(key IdempotencyKey) Operation {
	if key.isZero() && o.fault == 0 {
		o.fault = faultZeroKey
	}
	o.Key = key
	return o
}

// checkKey returns an error if the operation has a key and a different UUID, because the wire format has one field for
// both.
func (o *Operation) checkKey() error {
	switch {
	case o.Key.isZero() || UUID(o.Key) == o.UUID:
		return nil
	case o.Contract != 0:
		return fmt.Errorf("transfer: the idempotency key of a pending transfer, of its post and of its void must be its "+
			"UUID (%v), not %v", IdempotencyKey(o.UUID), o.Key)
	case o.UUID != UUID{}:
		return fmt.Errorf("transfer: an operation has either the idempotency key %v or the UUID %v", o.Key,
			IdempotencyKey(o.UUID))
	}
	return nil
}

// keysOf returns the keys of operations as UUIDs, for an error.
func keysOf(operations []Operation) []string {
	var keys []string
	for i := range operations {
		if key := operations[i].Key; !key.isZero() {
			keys = append(keys, key.String())
		}
	}
	return keys
}

package hybrid

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func TestKeccak256HashesKnownMessages(t *testing.T) {
	// Keccak-256 of the empty string and of "abc", as Ethereum defines it.
	for message, want := range map[string]string{
		"":    "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470",
		"abc": "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45",
	} {
		got := keccak256([]byte(message))
		if hex.EncodeToString(got[:]) != want {
			t.Errorf("keccak256(%q) = %x, want %s", message, got, want)
		}
	}
}

func TestKeccak256IsTheSameForAnyDivisionIntoParts(t *testing.T) {
	for size := range 300 {
		message := bytes.Repeat([]byte{7}, size)
		whole := keccak256(message)
		for _, cut := range []int{0, size / 3, size} {
			if parts := keccak256(message[:cut], message[cut:]); parts != whole {
				t.Fatalf("size %d, cut %d: %x, want %x", size, cut, parts, whole)
			}
		}
	}
}

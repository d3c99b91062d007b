package lineside

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestBothCurvesSignAndVerify(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256, err := NewP256Signer(private)
	if err != nil {
		t.Fatal(err)
	}
	k1, err := NewSecp256k1Signer([32]byte{7})
	if err != nil {
		t.Fatal(err)
	}
	for _, signer := range []Signer{p256, k1} {
		key := signer.PublicKey()
		parsed, err := ParsePublicKey(key.String())
		if err != nil || parsed != key {
			t.Errorf("%v is parsed as %v, %v", key, parsed, err)
		}
		for i := range 30 {
			digest := [32]byte{byte(i)}
			signature, err := signer.Sign(digest)
			if err != nil || !key.Verify(digest, signature) {
				t.Fatalf("%v: the signature of %x is refused: %v", key, digest, err)
			}
			again, err := signer.Sign(digest)
			if err != nil || again != signature {
				t.Errorf("%v: two signatures of one digest differ", key)
			}
			digest[9] ^= 1
			if key.Verify(digest, signature) {
				t.Errorf("%v: the signature is accepted for another digest", key)
			}
		}
	}
	for _, text := range []string{"", "p256:00", "p384:" + strings.Repeat("0", 66), "secp256k1:" + strings.Repeat("0", 66)} {
		if key, err := ParsePublicKey(text); err == nil {
			t.Errorf("%q is parsed as %v", text, key)
		}
	}
	p384, _ := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if _, err := NewP256Signer(p384); err == nil {
		t.Error("a key on P-384 is accepted")
	}
}

func TestASignerIsPrintedAsItsPublicKey(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p256, _ := NewP256Signer(private)
	k1, _ := NewSecp256k1Signer([32]byte{7})
	for _, signer := range []Signer{p256, k1} {
		for _, verb := range strings.Fields("%v %+v %#v %s %q %d %x %t") {
			if text := fmt.Sprintf(verb, signer); text != signer.PublicKey().String() {
				t.Errorf("%s prints a signer as %s", verb, text)
			}
		}
	}
}

func TestKeyFilesOfOthersAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	for _, test := range []struct {
		text string
		mode os.FileMode
		isOK bool
	}{
		{"secp256k1 " + strings.Repeat("01", 32) + "\n", 0o600, true},
		{"p256 " + strings.Repeat("01", 32) + "\n", 0o600, true},
		{"p256 " + strings.Repeat("01", 32) + "\n", 0o644, false},
		{"p256 " + strings.Repeat("00", 32) + "\n", 0o600, false},
		{"p384 " + strings.Repeat("01", 32) + "\n", 0o600, false},
		{"p256\n", 0o600, false},
	} {
		if err := os.WriteFile(path, []byte(test.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, test.mode); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadKeyFile(path); (err == nil) != test.isOK {
			t.Errorf("%.12q with mode %o: %v", test.text, test.mode, err)
		}
	}
}

func TestErrorsSayWhatHappened(t *testing.T) {
	timeout := &TimeoutError{Server: "192.0.2.7:7701", Waited: 3 * time.Second, Err: errors.New("connection refused")}
	unknown := &OutcomeUnknownError{Service: "transfer", ID: "1/2", Err: timeout}
	if !errors.Is(unknown, context.DeadlineExceeded) {
		t.Error("a timeout is not the error of a deadline")
	}
	for _, reason := range []error{timeout, &StatusError{Status: StatusNoSession}} {
		err := fmt.Errorf("payment 7: %w", &OutcomeUnknownError{Service: "transfer", ID: "1/2", Err: reason})
		var isTimeout *TimeoutError
		var isRefused *StatusError
		var isOfNet net.Error
		var isUnknown *OutcomeUnknownError
		if errors.As(err, &isTimeout) || errors.As(err, &isRefused) || errors.As(err, &isOfNet) || !errors.As(err, &isUnknown) {
			t.Errorf("%v is not of one kind", err)
		}
	}
	if last := StatusNoCommitment; !last.IsKnown() || (last + 1).IsKnown() || (last+1).String() != fmt.Sprintf("code %d", last+1) {
		t.Errorf("%v is not the last known status", last)
	}
	for _, test := range []struct {
		err  error
		want string
	}{
		{timeout, "lineside: no answer from 192.0.2.7:7701 within 3s: connection refused"},
		{&TimeoutError{Server: "s", Waited: time.Second, Busy: true}, "lineside: s was busy for 1s; try again later"},
		{&StatusError{Server: "s", Status: StatusSequence, Expected: 9}, "lineside: s refused the request: sequence: " +
			StatusSequence.Meaning() + " (9)"},
		{&OutcomeUnknownError{Service: "transfer", ID: "1/2", Err: errors.New("closed")},
			"lineside: the outcome of transfer request 1/2 is unknown; ask for it by this id: closed"},
		{&OutcomeUnknownError{Service: "transfer", ID: "1/2", Keys: []string{"a"}, Err: errors.New("closed")},
			"lineside: the outcome of transfer request 1/2 is unknown; ask for it by this id, or send an operation again with " +
				"its idempotency key a: closed"},
		{&OutcomeUnknownError{Service: "transfer", ID: "1/2", Keys: strings.Split("abcdef", ""), Err: errors.New("closed")},
			"lineside: the outcome of transfer request 1/2 is unknown; ask for it by this id, or send an operation again with " +
				"its idempotency key a, b, c, d and 2 more: closed"},
	} {
		if test.err.Error() != test.want {
			t.Errorf("%q, not %q", test.err, test.want)
		}
	}
}

// TestReadmeHasTheExamples compares the code of README.md and of the page in docs with the examples, which run as
// tests.
func TestReadmeHasTheExamples(t *testing.T) {
	var examples strings.Builder
	for _, folder := range []string{"spv", "transfer", "column", "hybrid/hybridgrpc", "hybrid", "."} {
		paths, err := filepath.Glob(filepath.Join(folder, "example*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			examples.Write(text)
		}
	}
	whole := unindented(examples.String())
	for _, path := range []string{"README.md", "../../docs/client-go.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		if len(blocks) == 0 {
			t.Errorf("%s has no example", path)
		}
		for _, block := range blocks {
			if !strings.Contains(whole, unindented(block[1])) {
				t.Errorf("%s has code that is in no example:\n%s", path, block[1])
			}
		}
	}
}

// unindented removes the indentation of every line.
func unindented(text string) string {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

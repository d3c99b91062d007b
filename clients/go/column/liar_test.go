package column

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/livetest"
)

// secretToken is the token of all sessions of a false server.
const secretToken = 0x5ec4e7ca11ab1e

// startLiar returns a client of a false server that opens sessions as a real one does, and answers changes by the given
// function.
func startLiar(t *testing.T, change livetest.Lie) *Client {
	t.Helper()
	slot := uint32(0)
	address := livetest.StartLiar(t, func(op byte, body []byte) (lineside.Status, []byte, bool) {
		if op != layout.ColumnOpOpen {
			return change(op, body)
		}
		var asked layout.ColumnSession
		asked.Decode(body)
		if asked.Challenge == [16]byte{} {
			return lineside.StatusOK, (&layout.ColumnSession{Challenge: [16]byte{1}}).Append(nil), true
		}
		slot++
		return lineside.StatusOK, (&layout.ColumnSession{Slot: slot, Token: secretToken}).Append(nil), true
	})
	client, err := Dial(t.Context(), address, &lineside.Options{Timeout: 300 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestOnlyADefiniteRefusalIsARefusal(t *testing.T) {
	const strange = lineside.Status(777)
	for _, test := range []struct {
		status lineside.Status
		// isRepeated means that the server answers only the second copy.
		isRepeated, isUnknown, isKept bool
	}{
		{lineside.StatusNoSession, false, false, false},
		{lineside.StatusUnknownFamily, false, false, false},
		{lineside.StatusNoRoom, false, false, false},
		{lineside.StatusOutcomeUnknown, false, true, false},
		{strange, false, true, true},
		{lineside.StatusNoSession, true, true, false},
		{lineside.StatusReused, true, true, false},
		{lineside.StatusNoRoom, true, true, true},
		{strange, true, true, true},
		{lineside.StatusUnknownFamily, true, false, false},
		{lineside.StatusBadRequest, true, false, false},
	} {
		copies := 0
		client := startLiar(t, func(byte, []byte) (lineside.Status, []byte, bool) {
			copies++
			return test.status, nil, !test.isRepeated || copies > 1
		})
		err := client.Put(t.Context(), []byte("key"), foo, []byte("value"))
		var unknown *lineside.OutcomeUnknownError
		var refused *lineside.StatusError
		isUnknown, isRefused := errors.As(err, &unknown), errors.As(err, &refused)
		if isUnknown != test.isUnknown || isRefused == test.isUnknown {
			t.Errorf("%+v: %v", test, err)
		}
		if isKept := isUnknown && client.unanswered[unknown.ID] != nil; isKept != test.isKept {
			t.Errorf("%+v: the change is kept: %v", test, isKept)
		}
	}
}

// TestARefusedChangeUsesNoNumber has a server that counts changes as a real one does: those that it refuses as malformed
// are not counted.
func TestARefusedChangeUsesNoNumber(t *testing.T) {
	for _, status := range []lineside.Status{
		lineside.StatusBadRequest, lineside.StatusUnauthorised, lineside.StatusUnsupportedVersion, lineside.StatusUnknownFamily,
	} {
		last, requests := uint64(0), 0
		client := startLiar(t, func(_ byte, body []byte) (lineside.Status, []byte, bool) {
			var head layout.ColumnHead
			head.Decode(body)
			requests++
			isCounted := status == lineside.StatusUnknownFamily
			switch {
			case requests%2 == 1 && !isCounted:
				return status, nil, true
			case head.Nonce != last+1:
				return lineside.StatusSequence, nil, true
			}
			last++
			if requests%2 == 1 {
				return status, nil, true
			}
			return lineside.StatusOK, (&layout.ColumnReply{}).Append(nil), true
		})
		for i := range 6 {
			err := client.Put(t.Context(), []byte("key"), foo, []byte("value"))
			var refused *lineside.StatusError
			switch {
			case i%2 == 1 && err == nil:
			case i%2 == 0 && errors.As(err, &refused) && refused.Status == status:
			default:
				t.Errorf("change %d of a server that refuses with %v: %v", i, status, err)
			}
		}
	}
}

func TestNoPrintedFormHasTheToken(t *testing.T) {
	client := startLiar(t, func(byte, []byte) (lineside.Status, []byte, bool) {
		return lineside.StatusOK, (&layout.ColumnReply{}).Append(nil), true
	})
	if err := client.Put(t.Context(), []byte("key"), foo, []byte("value")); err != nil {
		t.Fatal(err)
	}
	if len(client.free) != 1 || client.free[0].token != secretToken {
		t.Fatalf("there is no session with the token")
	}
	type owner struct {
		Client *Client
		hidden *Client
	}
	for _, value := range []any{client, owner{client, client}, &owner{client, client}, []*Client{client}} {
		for _, verb := range strings.Fields("%v %+v %#v %s %q %d %x %X %o %t %p") {
			text := fmt.Sprintf(verb, value)
			if strings.Contains(text, fmt.Sprint(secretToken)) || strings.Contains(strings.ToLower(text), "5ec4e7ca") {
				t.Errorf("%s of %T prints the token: %s", verb, value, text)
			}
		}
	}
}

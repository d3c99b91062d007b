package hybrid

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/livetest"
)

func TestOnlyADefiniteRefusalIsARefusal(t *testing.T) {
	signer, err := lineside.NewSecp256k1Signer([32]byte{7})
	if err != nil {
		t.Fatal(err)
	}
	const strange = 777
	if last := CodeOldVersion; last.String() == "code 21" || (last+1).String() != "code 22" {
		t.Errorf("%v is not the last code that this package knows", last)
	}
	for _, test := range []struct {
		status lineside.Status
		code   Code
		// isRepeated means that the server answers only the second copy.
		isRepeated, isUnknown bool
	}{
		{lineside.StatusBadRequest, 0, false, false},
		{lineside.StatusBadRequest, 0, true, false},
		{lineside.StatusNoRoom, 0, false, false},
		{lineside.StatusNoRoom, 0, true, true},
		{lineside.StatusOutcomeUnknown, 0, false, true},
		{strange, 0, false, true},
		{lineside.StatusOK, CodeNotAllowed, false, false},
		{lineside.StatusOK, CodeNotAllowed, true, false},
		{lineside.StatusOK, CodeExpired, true, true},
		{lineside.StatusOK, CodeNonceUsed, true, true},
		{lineside.StatusOK, CodeOutcomeUnknown, false, true},
		{lineside.StatusOK, strange, false, true},
	} {
		copies := 0
		address := livetest.StartLiar(t, func(byte, []byte) (lineside.Status, []byte, bool) {
			copies++
			var body []byte
			if test.status == lineside.StatusOK {
				body = append(binary.BigEndian.AppendUint16(nil, uint16(test.code)), layout.HybridAnswerRefused)
			}
			return test.status, body, !test.isRepeated || copies > 1
		})
		identity := Identity{Database: [16]byte{1}, Member: 1, Signer: signer}
		client, err := Dial(t.Context(), address, identity, &lineside.Options{Timeout: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		placed, err := client.Set(t.Context(), []byte("key"), []byte("value"))
		client.Close()
		var unknown *lineside.OutcomeUnknownError
		var status *lineside.StatusError
		var refused *RefusedError
		isUnknown, isRefused := errors.As(err, &unknown), errors.As(err, &status) || errors.As(err, &refused)
		if isUnknown != test.isUnknown || isRefused == test.isUnknown {
			t.Errorf("%+v: %v", test, err)
		}
		code := CodeNotExecuted
		switch {
		case isUnknown:
			code = CodeOutcomeUnknown
		case refused != nil:
			code = refused.Code
		}
		if placed.Code != code {
			t.Errorf("%+v: the value with the error %v has the code %v", test, err, placed.Code)
		}
	}
}

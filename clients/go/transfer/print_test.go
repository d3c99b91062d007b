package transfer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	lineside "github.com/lineside/lineside/clients/go"
)

func TestNoPrintedFormHasTheToken(t *testing.T) {
	client, _ := startLiar(t, func(byte, []byte) (lineside.Status, []byte, bool) { return 0, nil, false })
	session := open(t, client)
	// A packet without a reply, which the session keeps, has the token, too.
	if _, err := session.Execute(t.Context(), Transfer(Account(1), Account(2), 5)); err == nil {
		t.Fatal("a silent server has answered")
	}
	pool, err := client.OpenPool(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	type owner struct {
		Session *Session
		hidden  *Session
		Pool    *Pool
	}
	secrets := []string{fmt.Sprint(uint64(secretToken)), fmt.Sprintf("%x", secretToken), fmt.Sprintf("%o", secretToken),
		fmt.Sprintf("%b", secretToken), fmt.Sprint([]byte{0x5e, 0xc4, 0xe7, 0xca})[1:15]}
	check := func(how, text string) {
		t.Helper()
		for _, secret := range secrets {
			if strings.Contains(strings.ToLower(text), secret) {
				t.Errorf("%s prints the token: %s", how, text)
			}
		}
	}
	values := []any{session, []*Session{session}, owner{session, session, pool}, &owner{session, session, pool}, pool, client}
	for _, value := range values {
		for _, verb := range strings.Fields("%v %+v %#v %s %q %d %x %X %o %b %t %p %20v") {
			check(fmt.Sprintf("%s of %T", verb, value), fmt.Sprintf(verb, value))
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("m", "value", value)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "value", value, slog.Group("g", "value", value))
		check(fmt.Sprintf("slog of %T", value), log.String())
		text, _ := json.Marshal(value)
		check(fmt.Sprintf("JSON of %T", value), string(text))
	}
	if text := fmt.Sprintf("%v", session); text != "transfer: session 1, next packet 1" {
		t.Errorf("a session is printed as %q", text)
	}
	var none *Session
	if text := fmt.Sprint(none); text != "transfer: no session" {
		t.Errorf("a nil session is printed as %q", text)
	}
}

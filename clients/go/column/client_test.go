package column

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/livetest"
)

const foo = "entry:foo"

func start(t testing.TB) *livetest.Server {
	t.Helper()
	return livetest.Start(t, livetest.Options{
		Config: "[column]\nstore = \"embedded\"\ndata = \"table\"\n", Services: []string{"column"},
	})
}

func dial(t testing.TB, address string) *Client {
	t.Helper()
	client, err := Dial(t.Context(), address, &lineside.Options{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestEachChangeIsMadeOnceOverABadNetwork(t *testing.T) {
	server := start(t)
	client := dial(t, livetest.StartRelay(t, server.Address("column"), 11).Address())
	ctx := t.Context()
	var wait sync.WaitGroup
	for i := range 40 {
		wait.Go(func() {
			key := fmt.Appendf(nil, "key %d", i)
			if err := client.Put(ctx, key, foo, []byte("value")); err != nil {
				t.Error(err)
			}
			for range 20 {
				if _, err := client.Increment(ctx, []byte("counter"), "entry:count", 3); err != nil {
					t.Error(err)
				}
			}
			if value, err := client.Value(ctx, key, foo); err != nil || string(value) != "value" {
				t.Errorf("%s: %q, %v", key, value, err)
			}
		})
	}
	wait.Wait()
	sum, err := client.Increment(ctx, []byte("counter"), "entry:count", -1)
	if err != nil || sum != 40*20*3-1 {
		t.Errorf("800 increments by 3 and one by -1 give %d, %v", sum, err)
	}
	if client.Resent() == 0 {
		t.Error("nothing was sent again, although the relay lost some")
	}
}

func TestAnUnknownOutcomeIsResolvedOnce(t *testing.T) {
	server := start(t)
	client := dial(t, livetest.StartRelay(t, server.Address("column"), 12).Address())
	unknown := 0
	key, sum := []byte("counter"), int64(0)
	for range 60 {
		short, cancel := context.WithTimeout(t.Context(), 3*time.Millisecond)
		value, err := client.Increment(short, key, foo, 1)
		cancel()
		var open *lineside.OutcomeUnknownError
		if errors.As(err, &open) {
			unknown++
			bytes, err := client.Resolve(t.Context(), open.ID)
			if err != nil || len(bytes) != 8 || bytes[7] != byte(sum+1) {
				t.Fatalf("%s is resolved as %x, %v", open.ID, bytes, err)
			}
			sum++
			continue
		}
		if errors.Is(err, context.DeadlineExceeded) {
			// Nothing was sent.
			continue
		}
		if sum++; err != nil || value != sum {
			t.Fatalf("increment %d: %d, %v", sum, value, err)
		}
	}
	if unknown == 0 {
		t.Error("every change was answered within 3 ms, so that nothing was resolved")
	}
	if _, err := client.Resolve(t.Context(), "7/7"); !errors.Is(err, ErrNothingUnanswered) {
		t.Errorf("an unknown id: %v", err)
	}
}

func TestChangesOfACell(t *testing.T) {
	client := dial(t, start(t).Address("column"))
	ctx, key := t.Context(), []byte{0, 0xff}
	if err := client.PutIfAbsent(ctx, key, foo, []byte("a")); err != nil {
		t.Error(err)
	}
	if err := client.PutIfAbsent(ctx, key, foo, []byte("b")); !errors.Is(err, ErrNotApplied) {
		t.Errorf("a second put: %v", err)
	}
	if err := client.CheckAndPut(ctx, key, foo, []byte("a"), []byte("c")); err != nil {
		t.Error(err)
	}
	if err := client.CheckAndPut(ctx, key, foo, []byte("a"), []byte("d")); !errors.Is(err, ErrNotApplied) {
		t.Errorf("another value: %v", err)
	}
	if value, err := client.Append(ctx, key, foo, []byte("de")); err != nil || string(value) != "cde" {
		t.Errorf("append: %q, %v", value, err)
	}
	var refused *lineside.StatusError
	if _, err := client.Increment(ctx, key, foo, 1); !errors.As(err, &refused) || refused.Status != lineside.StatusNotANumber {
		t.Errorf("increment of a text: %v", err)
	}
	answer, err := client.Get(ctx, key, foo, "entry:bar")
	if err != nil || len(answer.Rows) != 1 || string(answer.Rows[0].Cells[foo]) != "cde" || answer.VersionMs == 0 {
		t.Errorf("get: %+v, %v", answer, err)
	}
	if err := client.Delete(ctx, key, foo); err != nil {
		t.Error(err)
	}
	if value, err := client.Value(ctx, key, foo); value != nil || err != nil {
		t.Errorf("a deleted cell: %q, %v", value, err)
	}
	if err := client.Put(ctx, key, foo, make([]byte, 2000)); !errors.Is(err, ErrTooLong) {
		t.Errorf("a long value: %v", err)
	}
	if err := client.SwitchOff(ctx, true); err != nil {
		t.Error(err)
	}
	if err := client.SwitchOff(ctx, false); err != nil {
		t.Error(err)
	}
}

func TestAScanContinuesUntilTheEnd(t *testing.T) {
	server := start(t)
	client := dial(t, livetest.StartRelay(t, server.Address("column"), 13).Address())
	ctx := t.Context()
	var wait sync.WaitGroup
	for i := range 200 {
		wait.Go(func() {
			value := bytes.Repeat([]byte{byte(i)}, 100)
			if err := client.Put(ctx, fmt.Appendf(nil, "row %03d", i), foo, value); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	// The value of one row grows until it does not fit a packet.
	for range 3 {
		if _, err := client.Append(ctx, []byte("row 150"), foo, make([]byte, 700)); err != nil && !errors.Is(err, ErrTooLong) {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		rows        Range
		first, last int
	}{
		{Range{}, 0, 199},
		{Range{IsReverse: true}, 199, 0},
		{Range{Start: []byte("row 010"), Stop: []byte("row 180")}, 10, 179},
		{Range{Start: []byte("row 010"), IsStartExclusive: true, Stop: []byte("row 180"), IsStopInclusive: true}, 11, 180},
		{Range{Start: []byte("row 180"), Stop: []byte("row 140"), IsReverse: true}, 180, 141},
		{Range{Limit: 33, Start: []byte("row 140")}, 140, 172},
	} {
		step, want := 1, test.first
		if test.last < test.first {
			step = -1
		}
		for row, err := range client.Scan(ctx, test.rows, foo) {
			if err != nil {
				t.Fatalf("%+v: %v", test.rows, err)
			}
			if string(row.Key) != fmt.Sprintf("row %03d", want) {
				t.Fatalf("%+v: %q, not row %d", test.rows, row.Key, want)
			}
			if (row.LeftOut != nil) != (want == 150) || row.LeftOut != nil && row.LeftOut.ValueBytes != 2200 {
				t.Errorf("%+v: %s is left out: %+v", test.rows, row.Key, row.LeftOut)
			}
			want += step
		}
		if want != test.last+step {
			t.Errorf("%+v: the scan ended before row %d", test.rows, want)
		}
	}
	count := 0
	for range client.Scan(ctx, Range{}, foo) {
		if count++; count == 5 {
			break
		}
	}
	var refused *lineside.StatusError
	for _, err := range client.Scan(ctx, Range{Start: []byte("b"), Stop: []byte("a")}, foo) {
		if !errors.As(err, &refused) || refused.Status != lineside.StatusStartBehindStop {
			t.Errorf("a start behind the stop: %v", err)
		}
	}
	if refused == nil {
		t.Error("a start behind the stop is no error")
	}
}

func TestAScanContinuesAfterACutKey(t *testing.T) {
	long := bytes.Repeat([]byte{'a'}, 255)
	long[254] = 0xff
	rows := Range{}
	if !rows.continueAfter(&Row{Key: long, LeftOut: &LeftOut{IsKeyCut: true}}) || rows.IsStartExclusive ||
		len(rows.Start) != 254 || rows.Start[253] != 'b' {
		t.Errorf("the scan continues with %q", rows.Start)
	}
	if rows.continueAfter(&Row{Key: bytes.Repeat([]byte{0xff}, 255), LeftOut: &LeftOut{IsKeyCut: true}}) {
		t.Errorf("a scan continues behind the last possible key with %q", rows.Start)
	}
}

func TestAChangeSucceedsAfterARefusedOne(t *testing.T) {
	client := dial(t, start(t).Address("column"))
	ctx, key, value := t.Context(), []byte("key"), []byte("value")
	for _, test := range []struct {
		what   string
		key    []byte
		column string
	}{
		{"an empty key", nil, foo},
		{"a long key", make([]byte, 256), foo},
		{"no family", key, "nocolon"},
		{"an empty family", key, ":foo"},
		{"a zero", key, "entry:\x00"},
	} {
		for range 3 {
			err := client.Put(ctx, test.key, test.column, value)
			var refused *lineside.StatusError
			if err == nil || errors.As(err, &refused) {
				t.Errorf("%s is not refused before it is sent: %v", test.what, err)
			}
			if err := client.Put(ctx, key, foo, value); err != nil {
				t.Errorf("a change after one with %s: %v", test.what, err)
			}
		}
	}
	if len(client.free) != 1 || client.free[0].slot == 0 && client.free[0].token == 0 {
		t.Errorf("one session was enough, and there are %d", len(client.free))
	}
}

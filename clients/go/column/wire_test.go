package column

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	lineside "github.com/lineside/lineside/clients/go"
	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/vectors"
)

// readRequest reads the packet of a vector. It returns false if a client cannot make it.
func readRequest(packet []byte) (*request, bool) {
	body := packet[layout.NativeHeaderBytes:]
	if len(body) < layout.ColumnHeadBytes {
		return nil, false
	}
	r := &request{op: packet[3], replyBytes: len(packet)}
	r.head.Decode(body)
	rest := body[layout.ColumnHeadBytes:]
	for range r.head.Columns {
		if len(rest) < layout.ColumnNameBytesMax {
			return nil, false
		}
		r.columns = append(r.columns, string(bytes.TrimRight(rest[:layout.ColumnNameBytesMax], "\x00")))
		rest = rest[layout.ColumnNameBytesMax:]
	}
	for _, part := range []struct {
		bytes  int
		target *[]byte
	}{
		{int(r.head.StartBytes), &r.start}, {int(r.head.StopBytes), &r.stop},
		{int(r.head.ValueBytes), &r.value}, {int(r.head.ExpectedBytes), &r.expected},
	} {
		size := (part.bytes + wordMask) &^ wordMask
		if size > len(rest) {
			return nil, false
		}
		*part.target = rest[:part.bytes]
		rest = rest[size:]
	}
	// Any bytes are allowed in the room for the reply; the client sends zeros.
	return r, len(bytes.Trim(rest, "\x00")) == 0
}

// encode returns the rows of an answer in the form of a reply.
func encode(answer *Answer, columns []string, size int) []byte {
	head := layout.ColumnReply{Source: layout.ColumnSourceHost, VersionMs: answer.VersionMs}
	if answer.IsFromFastPath {
		head.Source = layout.ColumnSourceFastpath
	}
	if answer.MayBeStale {
		head.Flags |= layout.ColumnReplyMayBeStale
	}
	if answer.More {
		head.Flags |= layout.ColumnReplyMore
	}
	if !answer.isApplied {
		head.Flags |= layout.ColumnReplyNotApplied
	}
	var rows []byte
	add := func(key, value []byte, column uint8) {
		cell := layout.ColumnRow{KeyBytes: uint8(len(key)), Column: column, ValueBytes: uint16(len(value))}
		rows = append(append(cell.Append(rows), key...), value...)
		rows = append(rows, make([]byte, -len(rows)&wordMask)...)
		head.Rows++
	}
	for _, row := range answer.Rows {
		for i, column := range columns {
			if row.LeftOut != nil && row.LeftOut.Column == column {
				flags := uint8(layout.ColumnRowLeftOut)
				if row.LeftOut.IsKeyCut {
					flags |= layout.ColumnRowCutKey
				}
				head.Flags |= layout.ColumnReplyLeftOut
				add(row.Key, binary.BigEndian.AppendUint64(nil, row.LeftOut.ValueBytes), uint8(i)|flags)
			} else if value, ok := row.Cells[column]; ok {
				add(row.Key, value, uint8(i))
			}
		}
	}
	body := append(head.Append(nil), rows...)
	return append(body, make([]byte, size-len(body))...)
}

func TestRequestsAndRepliesAreThoseOfTheVectors(t *testing.T) {
	server := vectors.Serve(t)
	client, err := Dial(t.Context(), server.Address(), &lineside.Options{Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	made := map[byte]int{}
	for name, file := range vectors.ReadAll(t, "column") {
		for _, vector := range file.Lists["vector"] {
			packet, reply := vector.Bytes("request"), vector.Bytes("reply")
			if len(packet) < 16 || len(reply) < 16 || string(packet[:3]) != "LS\x01" {
				continue
			}
			what := fmt.Sprintf("%s, %s", name, vector.Text("what"))
			status := lineside.Status(binary.BigEndian.Uint16(reply[4:]))
			if status == lineside.StatusBadRequest || status == lineside.StatusBusy {
				continue
			}
			server.Expect(packet, reply)
			body := reply[16:]
			var again []byte
			var err error
			if packet[3] == layout.ColumnOpOpen {
				var session layout.ColumnSession
				session.Decode(packet[16:])
				answer, failed := client.askSession(t.Context(), &session)
				again, err = answer.Append(nil), failed
			} else if packet[3] == layout.ColumnOpSwitch {
				err = client.SwitchOff(t.Context(), packet[len(packet)-1] == 1)
				again = body
			} else {
				r, isPossible := readRequest(packet)
				if !isPossible {
					continue
				}
				built, failed := r.build()
				if failed != nil {
					if status == lineside.StatusOK && len(packet) <= packetBytesMax {
						t.Errorf("%s: the client cannot make the request: %v", what, failed)
					}
					continue
				}
				var answer *Answer
				_, err = client.ask(t.Context(), built, readPause, func(body []byte) (isWellFormed bool) {
					answer, isWellFormed = readAnswer(body, r.columns)
					return isWellFormed
				})
				if answer != nil {
					again = encode(answer, r.columns, len(body))
				}
			}
			made[packet[3]]++
			if other := server.Other(); other != nil {
				t.Errorf("%s: the client sent\n%x, not\n%x", what, other, packet)
			}
			var refused *lineside.StatusError
			isRefused := errors.As(err, &refused)
			switch {
			case len(body) == 0 && isRefused && refused.Status == status:
			case err != nil:
				t.Errorf("%s: status %v is the error %v", what, status, err)
			case !bytes.Equal(again, body):
				t.Errorf("%s: the client read\n%x from\n%x", what, again, body)
			}
		}
	}
	for op := byte(layout.ColumnOpGet); op <= layout.ColumnOpSwitch; op++ {
		if made[op] < 2 {
			t.Errorf("%d vectors have operation %d", made[op], op)
		}
	}
	t.Logf("requests by operation: %v", made)
}

package column

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/lineside/lineside/clients/go/internal/layout"
	"github.com/lineside/lineside/clients/go/internal/transport"
)

// wordMask rounds to the words of 8 bytes of which packets consist.
const wordMask = 7

// packetBytesMax is the longest packet of whole words.
const packetBytesMax = transport.PacketBytesMax &^ wordMask

// replyHeadBytes is the number of bytes of a reply before its rows.
const replyHeadBytes = layout.NativeHeaderBytes + layout.ColumnReplyBytes

// request is a request about rows.
type request struct {
	op      byte
	head    layout.ColumnHead
	columns []string
	// start, stop, value and expected are the parts after the names.
	start, stop, value, expected []byte
	// replyBytes is the room for the reply: the reply is as long as its request.
	replyBytes int
}

// isChange returns true for the operations that change a cell.
func isChange(op byte) bool {
	switch op {
	case layout.ColumnOpPut, layout.ColumnOpDelete, layout.ColumnOpIncrement, layout.ColumnOpCheckAndPut, layout.ColumnOpAppend:
		return true
	}
	return false
}

// build returns the packet.
func (r *request) build() ([]byte, error) {
	parts := [][]byte{r.start, r.stop, r.value, r.expected}
	size := layout.NativeHeaderBytes + layout.ColumnHeadBytes + len(r.columns)*layout.ColumnNameBytesMax
	for _, part := range parts {
		size += (len(part) + wordMask) &^ wordMask
	}
	size = max(size, (r.replyBytes+wordMask)&^wordMask, replyHeadBytes)
	switch {
	case len(r.columns) == 0 || len(r.columns) > 255:
		return nil, fmt.Errorf("column: %d columns in one request: 1 to 255 are possible", len(r.columns))
	case isChange(r.op) && len(r.start) == 0:
		return nil, errors.New("column: the key of a row has at least 1 byte")
	case len(r.start) > 255 || len(r.stop) > 255:
		return nil, fmt.Errorf("column: a key has at most 255 bytes: %w", ErrTooLong)
	case size > packetBytesMax:
		return nil, fmt.Errorf("column: the request needs %d bytes, and a packet has %d: %w", size, packetBytesMax, ErrTooLong)
	}
	r.head.StartBytes = uint8(len(r.start))
	r.head.StopBytes = uint8(len(r.stop))
	r.head.Columns = uint8(len(r.columns))
	r.head.ValueBytes = uint16(len(r.value))
	r.head.ExpectedBytes = uint16(len(r.expected))
	packet := r.head.Append(transport.NewPacket(r.op, size-layout.NativeHeaderBytes))
	for _, name := range r.columns {
		isName := strings.Index(name, ":") > 0 && len(name) <= layout.ColumnNameBytesMax && !strings.Contains(name, "\x00")
		if !isName {
			return nil, fmt.Errorf("column: %q is not the name of a column: it has the form FAMILY:QUALIFIER, and at most %d "+
				"bytes without zeros", name, layout.ColumnNameBytesMax)
		}
		packet = append(packet, name...)
		packet = append(packet, make([]byte, layout.ColumnNameBytesMax-len(name))...)
	}
	for _, part := range parts {
		packet = append(packet, part...)
		packet = append(packet, make([]byte, -len(part)&wordMask)...)
	}
	return packet[:size], nil
}

// Row is a row of a result.
type Row struct {
	// Key is the key of the row.
	Key []byte
	// Cells has the values of the columns that have one, by their names. It is nil if the row is left out.
	Cells map[string][]byte
	// LeftOut is not nil if the row does not fit a packet.
	LeftOut *LeftOut
}

// LeftOut describes a row that exists in the table and does not fit a packet.
type LeftOut struct {
	// Column is the column with the longest value.
	Column string
	// ValueBytes is the length of that value.
	ValueBytes uint64
	// IsKeyCut means that the key is longer than 255 bytes. Only its beginning is known, and other rows with the same
	// beginning are not reported.
	IsKeyCut bool
}

// Answer is the answer to a read.
type Answer struct {
	// Rows are the rows, in the order of the request.
	Rows []Row
	// IsFromFastPath means that the fast path answered, and not the host.
	IsFromFastPath bool
	// MayBeStale means that the rows may be as old as the server's configuration allows.
	MayBeStale bool
	// More means that there are further rows.
	More bool
	// VersionMs is the newest timestamp of the rows in milliseconds since 1970; 0 without rows.
	VersionMs uint64

	isApplied bool
}

// readAnswer reads the body of a reply. It returns false if it is malformed.
func readAnswer(body []byte, columns []string) (*Answer, bool) {
	if len(body) < layout.ColumnReplyBytes {
		return nil, false
	}
	var head layout.ColumnReply
	head.Decode(body)
	answer := &Answer{
		IsFromFastPath: head.Source == layout.ColumnSourceFastpath,
		MayBeStale:     head.Flags&layout.ColumnReplyMayBeStale != 0,
		More:           head.Flags&layout.ColumnReplyMore != 0,
		VersionMs:      head.VersionMs,
		isApplied:      head.Flags&layout.ColumnReplyNotApplied == 0,
	}
	rest := body[layout.ColumnReplyBytes:]
	for range head.Rows {
		if len(rest) < layout.ColumnRowBytes {
			return nil, false
		}
		var cell layout.ColumnRow
		cell.Decode(rest)
		end := layout.ColumnRowBytes + int(cell.KeyBytes) + int(cell.ValueBytes)
		size := (end + wordMask) &^ wordMask
		column := int(cell.Column &^ (layout.ColumnRowLeftOut | layout.ColumnRowCutKey))
		if size > len(rest) || column >= len(columns) {
			return nil, false
		}
		key := rest[layout.ColumnRowBytes : layout.ColumnRowBytes+int(cell.KeyBytes)]
		value := rest[layout.ColumnRowBytes+int(cell.KeyBytes) : end]
		if !answer.add(key, value, columns[column], cell.Column) {
			return nil, false
		}
		rest = rest[size:]
	}
	return answer, true
}

// add adds a cell, or a row that is left out.
func (a *Answer) add(key, value []byte, column string, flags uint8) bool {
	if flags&layout.ColumnRowLeftOut != 0 {
		if len(value) != 8 {
			return false
		}
		left := &LeftOut{column, binary.BigEndian.Uint64(value), flags&layout.ColumnRowCutKey != 0}
		a.Rows = append(a.Rows, Row{Key: bytes.Clone(key), LeftOut: left})
		return true
	}
	last := len(a.Rows) - 1
	if last < 0 || a.Rows[last].LeftOut != nil || !bytes.Equal(a.Rows[last].Key, key) {
		a.Rows = append(a.Rows, Row{Key: append([]byte{}, key...), Cells: make(map[string][]byte, 1)})
		last++
	}
	a.Rows[last].Cells[column] = append([]byte{}, value...)
	return true
}

package hybrid

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/lineside/lineside/clients/go/internal/layout"
)

// errMalformed is the error of bytes that are not the one encoding of anything.
var errMalformed = errors.New("hybrid: malformed bytes")

// input reads big-endian numbers and bytes with their lengths. After a read past the end it is failed, and all further
// results are zero.
type input struct {
	rest   []byte
	failed bool
}

func (in *input) take(count int) []byte {
	if in.failed || count > len(in.rest) {
		in.failed = true
		return make([]byte, min(count, 8))
	}
	taken := in.rest[:count]
	in.rest = in.rest[count:]
	return taken
}

func (in *input) u8() uint8   { return in.take(1)[0] }
func (in *input) u16() uint16 { return binary.BigEndian.Uint16(in.take(2)) }
func (in *input) u32() uint32 { return binary.BigEndian.Uint32(in.take(4)) }
func (in *input) u64() uint64 { return binary.BigEndian.Uint64(in.take(8)) }

// bytes reads a field of fixed length.
func (in *input) bytes(out []byte) { copy(out, in.take(len(out))) }

// short reads bytes after their length of 16 bits, and long after one of 32 bits. The results are copies.
func (in *input) short(most int) []byte { return in.field(int(in.u16()), most) }
func (in *input) long(most int) []byte  { return in.field(int(in.u32()), most) }

func (in *input) field(count, most int) []byte {
	if in.failed || count > most {
		in.failed = true
		return nil
	}
	return append([]byte{}, in.take(count)...)
}

// flag reads 0 or 1.
func (in *input) flag() bool {
	value := in.u8()
	in.failed = in.failed || value > 1
	return value == 1
}

// version reads the version of a write. Block 0, genesis, writes nothing.
func (in *input) version() Version {
	version := Version{in.u64(), in.u32()}
	in.failed = in.failed || version.Block == 0
	return version
}

// isWhole returns true if everything was read and nothing failed.
func (in *input) isWhole() bool { return !in.failed && len(in.rest) == 0 }

func appendShort(b, field []byte) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(field))), field...)
}

func appendLong(b, field []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(field))), field...)
}

// Version is the version of a key: the place of its last write. The zero value means that the key has no value.
type Version struct {
	// Block is the number of the block.
	Block uint64
	// Index is the place of the request in the block, from 0.
	Index uint32
}

// String returns the version as the command line shows it: BLOCK.INDEX.
func (v Version) String() string { return fmt.Sprintf("%d.%d", v.Block, v.Index) }

// isBefore returns true if the version is older.
func (v Version) isBefore(other Version) bool {
	return v.Block < other.Block || v.Block == other.Block && v.Index < other.Index
}

func (v Version) append(b []byte) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(b, v.Block), v.Index)
}

// Cell is the value of a key with its version.
type Cell struct {
	// Version is the version of the last write.
	Version Version
	// Value is the value.
	Value []byte
}

// KeyCell is a cell of a range.
type KeyCell struct {
	// Key is the key.
	Key []byte
	Cell
}

// PastWrite is one write in the history of a key.
type PastWrite struct {
	// Version is the version of the write.
	Version Version
	// TimeMs is the time of its block in milliseconds since 1970.
	TimeMs uint64
	// Value is the value; nil if the write deleted the key.
	Value []byte
}

// Answer is the answer of a node to any request. The fields that do not belong to the request are zero. It is used by
// implementations of [Transport].
type Answer struct {
	// Code is the code of the answer.
	Code Code
	// Cells has the cell of each key of a get, nil for a key without a value.
	Cells []*Cell
	// Range has the cells of a range.
	Range []KeyCell
	// More says that a range or a history continues.
	More bool
	// Proof is a proof: see [VerifyProof].
	Proof []byte
	// History has writes, the newest first.
	History []PastWrite
	// Header and Head are a block header and its signature by the node.
	Header, Head []byte
	// Version is the place of a request in the ledger, nil if it is not in the ledger.
	Version *Version
}

// decodeAnswer reads the answer in a datagram: docs/hybrid-ledger.md, "Datagrams".
func decodeAnswer(body []byte) (*Answer, bool) {
	in := &input{rest: body}
	answer := &Answer{Code: Code(in.u16())}
	kind := in.u8()
	isOfAKind := answer.Code == CodeDone
	switch kind {
	case layout.HybridAnswerRefused:
		isOfAKind = answer.Code != CodeDone
	case layout.HybridAnswerCells:
		for range in.u16() {
			var cell *Cell
			if in.flag() {
				cell = &Cell{in.version(), in.long(layout.HybridValueBytesMax)}
			}
			answer.Cells = append(answer.Cells, cell)
		}
	case layout.HybridAnswerRange:
		answer.More = in.flag()
		for i := range int(in.u16()) {
			cell := KeyCell{in.short(layout.HybridKeyBytesMax), Cell{in.version(), in.long(layout.HybridValueBytesMax)}}
			if i > 0 && bytes.Compare(answer.Range[i-1].Key, cell.Key) >= 0 {
				in.failed = true
			}
			answer.Range = append(answer.Range, cell)
		}
	case layout.HybridAnswerProof:
		answer.Proof = bytes.Clone(in.take(len(in.rest)))
	case layout.HybridAnswerHistory:
		answer.More = in.flag()
		for i := range int(in.u16()) {
			past := PastWrite{Version: in.version(), TimeMs: in.u64()}
			if in.flag() {
				past.Value = in.long(layout.HybridValueBytesMax)
			}
			if i > 0 && !past.Version.isBefore(answer.History[i-1].Version) {
				in.failed = true
			}
			answer.History = append(answer.History, past)
		}
	case layout.HybridAnswerSignedHead:
		answer.Header = bytes.Clone(in.take(layout.BlockHeaderBytes))
		answer.Head = bytes.Clone(in.take(layout.NodeHeadBytes))
	case layout.HybridAnswerPlaced:
		version := in.version()
		answer.Version = &version
		isOfAKind = true
	default:
		return nil, false
	}
	return answer, isOfAKind && in.isWhole()
}

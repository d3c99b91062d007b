package spv

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// headersFile is the name of the file in its directory. It has the format of the Rust client: `LSHEADER`, the format
// version 1 in 4 bytes, the network's magic in 4 bytes (numbers are little-endian), then headers of 80 bytes in the
// order in which they were accepted. Proof of work and parent of each header show that it is intact.
const headersFile = "headers.dat"

const storeHeaderBytes = 16

// store keeps accepted headers in a file. A nil store keeps nothing.
type store struct {
	file *os.File
	// size is the number of bytes of the whole headers in the file.
	size int64
	err  error
}

// OpenHeaderChain opens the chain of headers that is kept in the directory, which is created if it is missing. All
// headers are checked again. A bad last header, which a power cut can leave, is removed.
//
// The directory must not be used by two processes at the same time.
func OpenHeaderChain(directory string, network Network, options ChainOptions) (*HeaderChain, error) {
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(directory, headersFile)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	c := NewHeaderChain(network, options)
	c.store = &store{file: file, size: storeHeaderBytes}
	if err := c.load(path); err != nil {
		file.Close()
		return nil, err
	}
	return c, nil
}

func (c *HeaderChain) load(path string) error {
	expected := make([]byte, 0, storeHeaderBytes)
	expected = append(expected, "LSHEADER"...)
	expected = binary.LittleEndian.AppendUint32(expected, 1)
	magic := c.network.Magic()
	expected = append(expected, magic[:]...)
	in := bufio.NewReaderSize(c.store.file, 1<<20)
	start := make([]byte, storeHeaderBytes)
	n, err := io.ReadFull(in, start)
	switch {
	case err == nil && string(start) == string(expected):
	case err != nil && string(start[:n]) == string(expected[:n]):
		if _, err := c.store.file.WriteAt(expected, 0); err != nil {
			return err
		}
		return c.store.file.Truncate(storeHeaderBytes)
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF):
		return err
	default:
		return fmt.Errorf("%s holds no headers of %v: give another directory", path, c.network)
	}
	var bytes [HeaderBytes]byte
	for {
		if _, err := io.ReadFull(in, bytes[:]); err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				return c.store.file.Truncate(c.store.size)
			}
			return err
		}
		header := ParseHeader(bytes)
		refused := c.add(&header, 1<<32-1)
		if refused == nil {
			c.store.size += HeaderBytes
			continue
		}
		isEmpty, err := isZero(in)
		if err != nil {
			return err
		}
		if !isEmpty || len(c.entries) >= c.options.MaxHeaders {
			return fmt.Errorf("%s: %w; remove the file of headers and fetch them again", path, refused)
		}
		return c.store.file.Truncate(c.store.size)
	}
}

// isZero returns true if only zeros follow.
func isZero(in *bufio.Reader) (bool, error) {
	for {
		b, err := in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil || b != 0:
			return false, err
		}
	}
}

// append adds headers to the file. A failed write ends writing until the chain is opened again.
func (s *store) append(entries []entry) error {
	if s == nil || len(entries) == 0 {
		return nil
	}
	if s.err != nil {
		return s.err
	}
	bytes := make([]byte, 0, len(entries)*HeaderBytes)
	for i := range entries {
		b := entries[i].header.Bytes()
		bytes = append(bytes, b[:]...)
	}
	if _, err := s.file.WriteAt(bytes, s.size); err != nil {
		// The headers that follow would lack their parents, so that nothing is written any more.
		s.err = fmt.Errorf("%s: %w; open the chain again", s.file.Name(), err)
		return s.err
	}
	s.size += int64(len(bytes))
	return nil
}

func (s *store) sync() error {
	if s == nil {
		return nil
	}
	return s.file.Sync()
}

func (s *store) close() error {
	if s == nil {
		return nil
	}
	return s.file.Close()
}

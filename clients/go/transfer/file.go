package transfer

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/lineside/lineside/clients/go/internal/layout"
)

// sessionContent is the content of a session file, which is that of `lineside transfer session open`. Unanswered has
// the operations of the packet that may have been sent and has no reply yet.
type sessionContent struct {
	Slot       uint32   `json:"slot"`
	Token      uint64   `json:"token"`
	Next       uint64   `json:"next"`
	Unanswered []string `json:"unanswered"`
}

// sessionFile is the file of a session and its lock, which is held while the session is open.
type sessionFile struct {
	path string
	lock *os.File
}

// OpenFile continues the session in a file, and opens a session and makes the file if there is none. Everybody who can
// read the file can use the session. Another process that opens the same file waits until [Session.Release].
//
// If [Session.Unanswered] is not nil afterwards, the last packet of an earlier process has no reply yet: call
// [Session.Resolve].
func (c *Client) OpenFile(ctx context.Context, path string) (*Session, error) {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, err
	}
	file := &sessionFile{path, lock}
	session, err := c.openLocked(ctx, file)
	if err != nil {
		_ = file.release()
		return nil, err
	}
	return session, nil
}

func (c *Client) openLocked(ctx context.Context, file *sessionFile) (*Session, error) {
	text, err := os.ReadFile(file.path)
	if errors.Is(err, fs.ErrNotExist) {
		session, err := c.Open(ctx)
		if err != nil {
			return nil, err
		}
		session.file = file
		return session, file.write(session, nil)
	}
	if err != nil {
		return nil, err
	}
	var content sessionContent
	if err := json.Unmarshal(text, &content); err != nil {
		return nil, fmt.Errorf("%s: this file holds no session: %w", file.path, err)
	}
	session := &Session{client: c, slot: content.Slot, token: hide(content.Token), next: content.Next, file: file}
	for _, digits := range content.Unanswered {
		bytes, err := hex.DecodeString(digits)
		if err != nil || len(bytes) != layout.OperationBytes {
			return nil, fmt.Errorf("%s: this file holds no session", file.path)
		}
		var operation layout.Operation
		operation.Decode(bytes)
		session.unanswered = append(session.unanswered, readOperation(&operation))
	}
	return session, nil
}

// write replaces the file.
func (f *sessionFile) write(s *Session, unanswered []Operation) error {
	content := sessionContent{Slot: s.slot, Token: s.token.get(), Next: s.next}
	for i := range unanswered {
		content.Unanswered = append(content.Unanswered, hex.EncodeToString(unanswered[i].append(nil)))
	}
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	next := f.path + ".new"
	out, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = out.Write(text)
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	if err := os.Rename(next, f.path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(f.path))
}

// remove removes the file and lets other processes use the name.
func (f *sessionFile) remove() error {
	return errors.Join(os.Remove(f.path), f.release())
}

func (f *sessionFile) release() error {
	if f.lock == nil {
		return nil
	}
	lock := f.lock
	f.lock = nil
	return lock.Close()
}

// Release lets another process use the file of the session. Afterwards all other calls return [ErrReleased], because
// another process may have sent the next packet. A session without a file stays open at the server.
func (s *Session) Release() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isReleased = true
	if s.file == nil {
		return nil
	}
	return s.file.release()
}

//go:build !unix

package transfer

import "os"

// lockFile opens a file. This system has no locks of files here: only one process may use a session file.
func lockFile(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
}

// syncDirectory does nothing, because this system has no such operation.
func syncDirectory(string) error { return nil }

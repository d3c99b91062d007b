// Package livetest starts a real server for tests and benches, and puts a bad network before it.
package livetest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startTime is the time within which a server must print its addresses.
const startTime = 60 * time.Second

// ErrNoBinary means that there is no program `lineside` to start.
var ErrNoBinary = errors.New("no lineside binary: `cargo build -p lineside` builds it; LINESIDE_BINARY names another one")

// Binary returns the path of the program: LINESIDE_BINARY, or the newer of target/debug/lineside and
// target/release/lineside.
func Binary() (string, error) {
	if path := os.Getenv("LINESIDE_BINARY"); path != "" {
		return path, nil
	}
	_, self, _, _ := runtime.Caller(0)
	target := filepath.Join(filepath.Dir(self), "..", "..", "..", "..", "target")
	var found string
	var newest time.Time
	for _, profile := range []string{"debug", "release"} {
		path := filepath.Join(target, profile, "lineside")
		if info, err := os.Stat(path); err == nil && info.ModTime().After(newest) {
			found, newest = path, info.ModTime()
		}
	}
	if found == "" {
		return "", ErrNoBinary
	}
	return found, nil
}

// Server is a running `lineside run`.
type Server struct {
	// Directory is the working directory of the server, with its data.
	Directory string
	addresses map[string]string
	options   Options
	command   *exec.Cmd
	log       *os.File
}

// Options are the options of a server.
type Options struct {
	// Directory is the working directory.
	Directory string
	// Config is the configuration without the addresses of console and services.
	Config string
	// Services are the services that are enabled.
	Services []string
	// Addresses are the addresses of services; a service without one gets a port that is free.
	Addresses map[string]string
	// Core is the core that the server runs on, with taskset; negative: any core.
	Core int
}

// Start starts a server for a test and stops it at the end of the test. The test is skipped if there is no program.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	if options.Directory == "" {
		options.Directory = t.TempDir()
	}
	options.Core = -1
	server, err := Run(options)
	if errors.Is(err, ErrNoBinary) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	return server
}

// Do runs another verb of the program in a directory, and ends the test if it fails.
func Do(t testing.TB, directory string, arguments ...string) string {
	t.Helper()
	output, err := Command(directory, arguments...)
	if errors.Is(err, ErrNoBinary) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// Command runs another verb of the program in a directory and returns its output.
func Command(directory string, arguments ...string) (string, error) {
	binary, err := Binary()
	if err != nil {
		return "", err
	}
	command := exec.Command(binary, arguments...)
	command.Dir = directory
	output, err := command.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return "", fmt.Errorf("lineside %s: %w: %s", strings.Join(arguments, " "), err, failed.Stderr)
	}
	return string(output), err
}

// Run starts a server.
func Run(options Options) (*Server, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	var config strings.Builder
	config.WriteString("[datapath]\nkind = \"socket\"\n[console]\nlisten = \"127.0.0.1:0\"\n")
	config.WriteString(options.Config)
	path := filepath.Join(options.Directory, "test.toml")
	if err := os.WriteFile(path, []byte(config.String()), 0o600); err != nil {
		return nil, err
	}
	arguments := []string{binary, "--json", "run", "--config", path}
	for _, service := range options.Services {
		address := options.Addresses[service]
		if address == "" {
			address = "127.0.0.1:0"
		}
		arguments = append(arguments, "--set", service+".enabled=true", "--set", service+`.listen="`+address+`"`)
	}
	if options.Core >= 0 {
		arguments = append([]string{"taskset", "--cpu-list", fmt.Sprint(options.Core)}, arguments...)
	}
	command := exec.Command(arguments[0], arguments[1:]...)
	command.Dir = options.Directory
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(options.Directory, "server.log"))
	if err != nil {
		return nil, err
	}
	command.Stderr = log
	if err := command.Start(); err != nil {
		return nil, err
	}
	server := &Server{Directory: options.Directory, options: options, command: command, log: log}
	timer := time.AfterFunc(startTime, func() { _ = command.Process.Kill() })
	err = server.readAddresses(output)
	timer.Stop()
	if err != nil {
		server.Stop()
		text, _ := os.ReadFile(log.Name())
		return nil, fmt.Errorf("the server did not start: %w: %s", err, text)
	}
	return server, nil
}

// readAddresses reads the line with which the server reports that it has started.
func (s *Server) readAddresses(output io.ReadCloser) error {
	line, err := bufio.NewReader(output).ReadBytes('\n')
	if err != nil {
		return err
	}
	var started struct {
		Services []struct{ Name, Listen string }
	}
	if err := json.Unmarshal(line, &started); err != nil {
		return fmt.Errorf("%s: %w", line, err)
	}
	s.addresses = make(map[string]string)
	for _, service := range started.Services {
		s.addresses[service.Name] = service.Listen
	}
	go func() { _, _ = io.Copy(io.Discard, output) }()
	return nil
}

// Address returns the address of a service.
func (s *Server) Address(service string) string { return s.addresses[service] }

// Pid returns the number of the process.
func (s *Server) Pid() int { return s.command.Process.Pid }

// KillAndRestart kills the server, so that it cannot finish anything, and starts it again at the same addresses.
func (s *Server) KillAndRestart() error {
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
	_ = s.log.Close()
	options := s.options
	options.Addresses = s.addresses
	again, err := Run(options)
	if err != nil {
		s.command = nil
		return err
	}
	*s = *again
	return nil
}

// Stop stops the server and waits for its end.
func (s *Server) Stop() {
	if s.command == nil {
		return
	}
	_ = s.command.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(20*time.Second, func() { _ = s.command.Process.Kill() })
	_ = s.command.Wait()
	timer.Stop()
	_ = s.log.Close()
	s.command = nil
}

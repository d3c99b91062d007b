package livetest

import (
	"io"
	"os"
	"strings"
	"testing"
)

// RunExample calls an example and compares what it prints.
func RunExample(t testing.TB, example func(), want string) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = write
	printed := make(chan string)
	go func() {
		text, _ := io.ReadAll(read)
		printed <- string(text)
	}()
	func() {
		defer func() {
			os.Stdout = stdout
			write.Close()
		}()
		example()
	}()
	if got := strings.TrimSpace(<-printed); got != strings.TrimSpace(want) {
		t.Errorf("the example printed\n%s\nnot\n%s", got, want)
	}
}

// Package vectors reads the shared test vectors of the repository, for the tests of the other packages. It understands
// the part of TOML that the vectors use.
package vectors

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// Table has the values of a table: strings, int64 and bool, and lists of these.
type Table map[string]any

// File is the content of a file of vectors.
type File struct {
	// Root has the values before the first table.
	Root Table
	// Tables has the tables `[name]`.
	Tables map[string]Table
	// Lists has the tables `[[name]]`, in their order.
	Lists map[string][]Table
}

// Folder returns the path of the folder of vectors, or of a folder in it.
func Folder(parts ...string) string {
	_, self, _, _ := runtime.Caller(0)
	root := filepath.Join(filepath.Dir(self), "..", "..", "..", "..", "vectors")
	return filepath.Join(append([]string{root}, parts...)...)
}

// Read returns the content of a file of vectors.
func Read(t testing.TB, parts ...string) *File {
	t.Helper()
	path := Folder(parts...)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return file
}

// ReadAll returns all files of a folder by their names without the ending.
func ReadAll(t testing.TB, folder string) map[string]*File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(Folder(folder), "*.toml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no vectors in %s: %v", Folder(folder), err)
	}
	files := make(map[string]*File)
	for _, path := range paths {
		name := filepath.Base(path)
		files[strings.TrimSuffix(name, ".toml")] = Read(t, folder, name)
	}
	return files
}

// Text returns the string with this key; "" if there is none.
func (t Table) Text(key string) string {
	text, _ := t[key].(string)
	return text
}

// Number returns the integer with this key; 0 if there is none.
func (t Table) Number(key string) int64 {
	number, _ := t[key].(int64)
	return number
}

// Bytes returns the bytes that the string with this key has as hexadecimal digits; nil if there is none.
func (t Table) Bytes(key string) []byte {
	text, ok := t[key].(string)
	if !ok {
		return nil
	}
	return FromHex(text)
}

// FromHex decodes hexadecimal digits with line breaks between them.
func FromHex(text string) []byte {
	bytes, err := hex.DecodeString(strings.Join(strings.Fields(text), ""))
	if err != nil {
		panic(fmt.Sprintf("vectors: %q: %v", text, err))
	}
	return bytes
}

// List returns the list with this key.
func (t Table) List(key string) []any {
	list, _ := t[key].([]any)
	return list
}

type parser struct {
	text string
	at   int
}

func parse(text string) (*File, error) {
	file := &File{Root: Table{}, Tables: map[string]Table{}, Lists: map[string][]Table{}}
	current := file.Root
	p := &parser{text: text}
	for p.skip(); p.at < len(p.text); p.skip() {
		if p.text[p.at] == '[' {
			line := p.line()
			if name, isList := strings.CutPrefix(line, "[["); isList {
				name = strings.TrimSuffix(name, "]]")
				current = Table{}
				file.Lists[name] = append(file.Lists[name], current)
			} else {
				current = Table{}
				file.Tables[strings.Trim(line, "[]")] = current
			}
			continue
		}
		end := strings.IndexByte(p.text[p.at:], '=')
		if end < 0 {
			return nil, fmt.Errorf("offset %d: no value", p.at)
		}
		key := strings.TrimSpace(p.text[p.at : p.at+end])
		p.at += end + 1
		p.skip()
		value, err := p.value()
		if err != nil {
			return nil, err
		}
		current[key] = value
	}
	return file, nil
}

// skip skips spaces, line breaks and comments.
func (p *parser) skip() {
	for p.at < len(p.text) {
		switch p.text[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		case '#':
			p.line()
		default:
			return
		}
	}
}

func (p *parser) line() string {
	rest := p.text[p.at:]
	line, _, _ := strings.Cut(rest, "\n")
	p.at += min(len(line)+1, len(rest))
	return strings.TrimSpace(line)
}

func (p *parser) value() (any, error) {
	rest := p.text[p.at:]
	switch {
	case strings.HasPrefix(rest, `"""`):
		text, _, found := strings.Cut(rest[3:], `"""`)
		if !found {
			return nil, fmt.Errorf("offset %d: the string does not end", p.at)
		}
		p.at += 6 + len(text)
		return strings.ReplaceAll(strings.TrimPrefix(text, "\n"), "\\\n", ""), nil
	case rest[0] == '"':
		end := 1
		for rest[end] != '"' {
			if rest[end] == '\\' {
				end++
			}
			end++
		}
		p.at += end + 1
		return strconv.Unquote(rest[:end+1])
	case rest[0] == '[':
		p.at++
		list := []any{}
		for p.skip(); p.text[p.at] != ']'; p.skip() {
			value, err := p.value()
			if err != nil {
				return nil, err
			}
			list = append(list, value)
			p.skip()
			if p.text[p.at] == ',' {
				p.at++
			}
		}
		p.at++
		return list, nil
	}
	end := strings.IndexAny(rest, ",]\n#")
	if end < 0 {
		end = len(rest)
	}
	word := strings.TrimSpace(rest[:end])
	p.at += end
	if word == "true" || word == "false" {
		return word == "true", nil
	}
	number, err := strconv.ParseInt(strings.ReplaceAll(word, "_", ""), 0, 64)
	if err != nil {
		return nil, fmt.Errorf("offset %d: %w", p.at, err)
	}
	return number, nil
}

package dataio

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// countdown is a context that is done after its error has been asked for so many times.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// Reading a file of any format ends when the context is done, in the middle of it.
func TestReadingEndsWithTheContext(t *testing.T) {
	dir := t.TempDir()
	const n = 1 << 17
	array := Array{Name: "y", Shape: []int{16 * n}, Data: make([]float64, 16*n)}
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(WriteNPZ(path("y.npz"), array), WriteNPY(path("y.npy"), array)); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("0.12345678\n", n)
	var zipped bytes.Buffer
	z, err := gzip.NewWriterLevel(&zipped, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(z, text)
	z.Close()
	for name, content := range map[string]string{"y.csv": "y\n" + text, "y.csv.gz": zipped.String()} {
		if err := os.WriteFile(path(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"y.npz", "y.npy", "y.csv", "y.csv.gz"} {
		ctx := &countdown{t.Context(), 10}
		s, err := OpenAs(path(name), TableOptions{Files: Files{Context: ctx}})
		if err == nil {
			_, err = s.Floats(s.Names()[0])
			s.Close()
		}
		if !errors.Is(err, context.Canceled) || strings.Contains(err.Error(), "corrupt") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := OpenTable(path("y.csv"), TableOptions{Files: Files{Context: &countdown{t.Context(), 5}}}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("table: %v", err)
	}
	f, err := OpenFile(&countdown{t.Context(), 5}, path("y.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if n, err := io.Copy(io.Discard, f); !errors.Is(err, context.Canceled) || n == 0 || n > 1<<20 {
		t.Errorf("%d bytes copied: %v", n, err)
	}
}

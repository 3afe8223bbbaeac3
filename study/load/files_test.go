package load

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"

	"surepipe/internal/dataio"
	"surepipe/problems"
)

// plain is a file system whose files are read from their start only.
type plain struct{ fs.FS }

func (p plain) Open(name string) (fs.File, error) {
	f, err := p.FS.Open(name)
	return struct{ fs.File }{f}, err
}

// A table and an archive have the same values wherever they are: on disk, at a reader, or in a file system of which
// files can only be read from their start.
func TestDataAreTheSameFromEveryFileSystem(t *testing.T) {
	const table = "volume,girth,kind\n1,2,oak\n2,,elm\n3,5,oak\n4,4,oak\n"
	dir := t.TempDir()
	x := dataio.Array{Name: "X", Shape: []int{3, 2}, Data: []float64{1, 2, 3, 4, 5, 7}}
	y := dataio.Array{Name: "y", Shape: []int{3}, Data: []float64{1, 0, 2}}
	var npz bytes.Buffer
	if err := dataio.EncodeNPZ(&npz, x, y); err != nil {
		t.Fatal(err)
	}
	archive := npz.Bytes()
	in := fstest.MapFS{"d/t.csv": {Data: []byte(table)}, "d/a.npz": {Data: archive}}
	if err := os.CopyFS(dir, in); err != nil {
		t.Fatal(err)
	}
	piece, err := dataio.ReadFile(t.Context(), "d/t.csv", iotest.OneByteReader(strings.NewReader(table)))
	if err != nil {
		t.Fatal(err)
	}
	piece.(dataio.Memory)["d/a.npz"] = dataio.HeldFile{At: bytes.NewReader(archive), Size: int64(len(archive))}
	for _, files := range []fs.FS{os.DirFS(dir), in, plain{in}, piece} {
		trees := Source{Files: files, Problem: "ridge", Data: "d/t.csv",
			Table: Table{Response: "volume", Missing: "mean"}}
		data, err := trees.Read(t.Context())
		if err != nil || !slices.Equal(data.Y, []float64{1, 2, 3, 4}) || data.Table.Filled != 1 ||
			data.Table.Design.Columns()[1] != "kind=elm" {
			t.Fatalf("%T: %+v, %v", files, data.Table, err)
		}
		numbers := Source{Files: files, Problem: "lasso", Data: "d/a.npz", Storage: StorageAuto}
		data, err = numbers.Read(t.Context())
		if err != nil || data.X.At(2, 1) != 7 || !slices.Equal(data.Y, y.Data) {
			t.Fatalf("%T: %+v, %v", files, data, err)
		}
	}
	missing := Source{Problem: "ridge", Data: "d/t.csv", Table: Table{Response: "volume"}}
	if _, err := missing.Read(t.Context()); err == nil || !strings.Contains(err.Error(), "no file system is given") {
		t.Errorf("%v, expected nothing to be opened", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := dataio.ReadFile(ended, "t.csv", strings.NewReader(table)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, expected the end of the context", err)
	}
}

// A specification opens what its file system has, and nothing else.
func TestSpecificationsOpenNoOtherFiles(t *testing.T) {
	parse := func(file string) *problems.Spec {
		s, err := problems.ParseSpec([]byte("data: {y: "+file+"}\noperator: identity\nregularizer: {l1: lambda}\n"),
			"specs/s.yaml")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	files := fstest.MapFS{"specs/y.csv": {Data: []byte("1\n2\n3\n")}}
	data, err := parse("y.csv").Load(problems.SpecFiles{FS: files})
	if err != nil || !slices.Equal(data.Y, []float64{1, 2, 3}) {
		t.Fatalf("%v, %v", data.Y, err)
	}
	for _, file := range []string{"../../../../etc/passwd", "/etc/passwd", "other.csv"} {
		if _, err := parse(file).Load(problems.SpecFiles{FS: files}); !errors.Is(err, fs.ErrInvalid) &&
			!errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, expected no such file", file, err)
		}
		if _, err := parse(file).Load(problems.SpecFiles{}); err == nil ||
			!strings.Contains(err.Error(), "no file system is given") {
			t.Errorf("%s: %v, expected nothing to be opened", file, err)
		}
	}
}

package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
)

// grid is a small text format: the numbers of rows and columns, and the entries.
var grid = dataio.Format{
	Name: "grid", Extensions: []string{".grid"}, Help: "one matrix: its rows and columns, and its entries", Axes: 2,
	Is: func(_ []byte, extension string) bool { return extension == ".grid" },
	Read: func(r io.Reader, _ dataio.TableOptions) (a dataio.Array, err error) {
		a.Shape = make([]int, 2)
		b := bufio.NewReader(r)
		if _, err = fmt.Fscan(b, &a.Shape[0], &a.Shape[1]); err != nil {
			return a, fmt.Errorf("has no size: %w", err)
		}
		a.Data = make([]float64, a.Shape[0]*a.Shape[1])
		for i := range a.Data {
			if _, err = fmt.Fscan(b, &a.Data[i]); err != nil {
				return a, fmt.Errorf("ends after %d of %d entries: %w", i, len(a.Data), err)
			}
		}
		return a, nil
	},
	Write: func(w io.Writer, a dataio.Array, _ dataio.Depth, _ bool) (int, error) {
		fmt.Fprintln(w, a.Shape[0], a.Shape[1])
		for _, v := range a.Data {
			if _, err := fmt.Fprintf(w, "%.17g\n", v); err != nil {
				return 0, err
			}
		}
		return 0, nil
	},
}

// A format that is added by one row, in a process of its own, is in the help and in the errors, is read, and written.
func TestAFormatIsARow(t *testing.T) {
	if !inOwnProcess(t) {
		return
	}
	dataio.Register(grid)
	if _, out, _ := command(t, "help", "data"); !strings.Contains(out, "  .grid          one matrix: its rows") {
		t.Error("help data does not name .grid")
	}
	dir := t.TempDir()
	in, out := filepath.Join(dir, "y.grid"), filepath.Join(dir, "fit.grid")
	if err := os.WriteFile(in, []byte("2 3\n1 2 3\n2 4 6\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", "--problem", "svt", "--data", in, "--sigma2", "1", "--lambda", "0.5max", "--out"}
	if status, _, stderr := command(t, append(args, out)...); status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	set, err := dataio.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	fit, err := set.Floats("fit")
	if err != nil || fit.Shape[0] != 2 || fit.Shape[1] != 3 || !(fit.Data[5] > 2.9 && fit.Data[5] < 3.1) {
		t.Errorf("the fit is %v, %v", fit, err) // y has rank 1: half of it
	}
	if _, _, stderr := command(t, append(args, filepath.Join(dir, "fit.dat"))...); !strings.Contains(stderr,
		".csv or .grid") {
		t.Errorf("an unknown format of --out: %s", stderr)
	}
	if err := os.WriteFile(in, []byte("2 3\n1 2 3\n2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if status, _, stderr := command(t, append(args, out)...); status != 2 ||
		!strings.Contains(stderr, "ends after 4 of 6 entries") {
		t.Errorf("a short file: status %d, %s", status, stderr)
	}
}

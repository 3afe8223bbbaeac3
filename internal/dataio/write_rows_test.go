package dataio

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// A matrix written row by row is read as any other, and where it lies without being copied.
func TestWriteNPZRows(t *testing.T) {
	for _, single := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "x.npz")
		const d, p = 5, 7
		x := Rows{Name: "X", Rows: d, Cols: p, Single: single, Each: func(write func([]float64) error) error {
			row := make([]float64, p)
			for i := range d {
				for j := range row {
					row[j] = float64(i) + float64(j)/8
				}
				if err := write(row); err != nil {
					return err
				}
			}
			return nil
		}}
		if err := WriteNPZRows(path, x, func() []Array {
			return []Array{{Name: "y", Shape: []int{2},
				Data: []float64{1, 2}}}
		}); err != nil {
			t.Fatal(err)
		}
		set, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer set.Close()
		read, err := set.Floats("X")
		if err != nil {
			t.Fatal(err)
		}
		m, err := set.Map("X")
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		if !single && !m.Views() {
			t.Error("the values are not where they can be used in place")
		}
		for i, v := range read.Data {
			if want := float64(i/p) + float64(i%p)/8; v != want || m.At(i/p, i%p) != want {
				t.Fatalf("[%d, %d] is %g, mapped %g, want %g", i/p, i%p, v, m.At(i/p, i%p), want)
			}
		}
		if y, err := set.Floats("y"); err != nil || y.Data[1] != 2 {
			t.Errorf("y is %v, %v", y.Data, err)
		}
	}
	path, full := filepath.Join(t.TempDir(), "none.npz"), errors.New("full")
	if err := WriteNPZRows(path, Rows{Name: "X", Rows: 1, Cols: 1,
		Each: func(func([]float64) error) error { return full }}, nil); !errors.Is(err, full) {
		t.Errorf("found %v, want %v", err, full)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file that failed is there")
	}
}

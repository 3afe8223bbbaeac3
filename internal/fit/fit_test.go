package fit_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/internal/dataio"
	"surepipe/internal/design"
	"surepipe/internal/fit"
)

func regression() *fit.Fit {
	b0 := 2.5
	return &fit.Fit{
		Info: fit.Info{
			Predicts: fit.Rows, Problem: "lasso", D: 2, P: 3, Intercept: true,
			Numbers: fit.Numbers{Lambda: 1.5, Converged: true},
			Version: "v1", Data: "sha256:0",
			Design: &design.Design{Response: "y", Variables: []design.Variable{{Name: "größe", Fill: []float64{0.1}},
				{Name: "kind", Levels: []string{"a", "b"}}}},
		},
		B: []float64{1, -2, 0}, BShape: []int{3}, MuHat: []float64{4, 5}, MuShape: []int{2}, B0: []float64{b0},
		Names: []string{"größe", "kind=a", "kind=b"}, Center: []float64{0.1, 0.5, 0.5}, Scale: []float64{1, 2, 3},
	}
}

// What is loaded predicts as what was saved.
func TestFitsComeBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fit.npz")
	want := regression()
	if err := save(want, path); err != nil {
		t.Fatal(err)
	}
	got, err := load(path)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Info, want.Info) || !reflect.DeepEqual(got.B, want.B) || got.B0[0] != 2.5 {
		t.Errorf("%+v, expected %+v", got, want)
	}
	x := mat.NewDense(2, 3, []float64{1, 1, 0, 0, 0, 7})
	mu, err := got.PredictRows(x)
	if err != nil || !reflect.DeepEqual(mu, []float64{1.5, 2.5}) {
		t.Errorf("%v, %v", mu, err)
	}
	mu, err = got.PredictSparse(&dataio.Sparse{Rows: 2, Cols: 3, IndPtr: []int{0, 2, 3}, Indices: []int{0, 1, 2},
		Values: []float64{1, 1, 7}})
	if err != nil || !reflect.DeepEqual(mu, []float64{1.5, 2.5}) {
		t.Errorf("%v, %v", mu, err)
	}
	if _, err := got.PredictRows(mat.NewDense(1, 2, nil)); err == nil ||
		err.Error() != "X has 2 columns, expected 3 as in the fit" {
		t.Errorf("error %v", err)
	}
	set, err := dataio.OpenNPZ(path)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if names, err := set.Texts("names"); err != nil || !reflect.DeepEqual(names.Texts, want.Names) {
		t.Errorf("%q, %v", names.Texts, err)
	}
}

func TestBadFitsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*fit.Fit){
		"has nothing to predict":         func(f *fit.Fit) { f.Predicts = "" },
		"expected (p,)":                  func(f *fit.Fit) { f.BShape = []int{3, 1} },
		"expected 3, as many as the fit": func(f *fit.Fit) { f.B, f.BShape = f.B[:2], []int{2} },
		"disagree":                       func(f *fit.Fit) { f.B0 = nil },
		"array \"indices\" is missing":   func(f *fit.Fit) { f.Predicts, f.BShape = fit.Entries, []int{1, 3} },
		"array \"indices\" holds 3 at [1]": func(f *fit.Fit) {
			f.Predicts, f.BShape, f.Observed = fit.Entries, []int{1, 3}, []int{0, 3}
		},
	} {
		path := filepath.Join(t.TempDir(), "fit.npz")
		f := regression()
		change(f)
		if err := save(f, path); err != nil {
			t.Fatal(err)
		}
		if _, err := load(path); err == nil || !strings.HasPrefix(err.Error(), path+": ") ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := filepath.Join(t.TempDir(), "old.npz")
	if err := dataio.WriteNPZ(path, dataio.Array{Name: "fit", Shape: []int{},
		Texts: []string{`{"surepipe_fit": 9, "version": "v9"}`}}); err != nil {
		t.Fatal(err)
	}
	if _, err := load(path); err == nil || !strings.Contains(err.Error(),
		"is a fit of version 9, expected 1: it was written by surepipe v9") {
		t.Errorf("error %v", err)
	}
}

func Example() {
	f := &fit.Fit{
		Info: fit.Info{Predicts: fit.Entries, Problem: "matrix-completion", Numbers: fit.Numbers{Converged: true}},
		B:    []float64{1, 2, 3, 4}, BShape: []int{2, 2}, MuHat: []float64{1, 4}, MuShape: []int{2},
		Observed: []int{0, 3},
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "fit.npz")
	if err := save(f, path); err != nil {
		panic(err)
	}
	loaded, err := load(path)
	if err != nil {
		panic(err)
	}
	for e := range loaded.Missing {
		fmt.Println(e.Row, e.Column, e.Value)
	}
	// Output:
	// 0 1 2
	// 1 0 3
}

// save writes a file.
func save(f *fit.Fit, path string) error {
	return dataio.WriteFile(path, f.Write)
}

// load reads a file.
func load(path string) (*fit.Fit, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := fit.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

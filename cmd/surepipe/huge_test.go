package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"surepipe/internal/dataio"
	"surepipe/internal/sublist"
	"surepipe/problems"
)

// hugeEntries writes a small completion, and the same one as some rows and columns of a matrix that is too
// large to be written down. place maps the entries of the small matrix to those of the other.
func hugeEntries(t *testing.T) (small, huge string, place func(i, j int) (row, column int)) {
	t.Helper()
	const m, n, rows, cols = 120, 90, 50000, 43000
	data, err := problems.GenerateRatings(m, n, 2500, 2, 5)
	if err != nil {
		t.Fatal(err)
	}
	*data.Lambda = 20
	place = func(i, j int) (row, column int) { return (i*577 + 11) % rows, (j*307 + 5) % cols }
	arrays := problems.Arrays(data)
	small = save(t, arrays...)
	for k, a := range arrays {
		switch a.Name {
		case "shape":
			arrays[k].Ints = []int64{rows, cols}
		case "indices":
			there := make([]int64, len(a.Ints))
			for e, c := range a.Ints {
				i, j := place(int(c)/n, int(c)%n)
				there[e] = int64(i)*cols + int64(j)
			}
			arrays[k].Ints = there
		}
	}
	return small, save(t, arrays...), place
}

// A completion of a matrix of more than 2^31 entries goes from the data to predictions, with the numbers
// of the small matrix that it holds.
func TestCompletionsThatCannotBeWrittenDown(t *testing.T) {
	small, huge, place := hugeEntries(t)
	dir := t.TempDir()
	fits := map[string]string{}
	results := map[string]map[string]any{}
	for name, data := range map[string]string{"small": small, "huge": huge} {
		fits[name] = filepath.Join(dir, name+".npz")
		results[name] = object(t, "run", "--problem", "matrix-completion", "--data", data, "--queries", "60",
			"--effects", "rows", "--out", fits[name])
	}
	for _, key := range []string{"sure", "sure_stderr", "gcv", "alo", "loss", "residual", "divergence",
		"effects_mean", "effects_df"} {
		got, want := results["huge"][key].(float64), results["small"][key].(float64)
		if !(math.Abs(got-want) <= 1e-3*math.Abs(want)) {
			t.Errorf("%s is %g, of the small matrix %g", key, got, want)
		}
	}
	var at, there strings.Builder
	fmt.Fprintln(&at, "row,column")
	fmt.Fprintln(&there, "row,column")
	for i := 0; i < 120; i += 7 {
		j := i * 5 % 90
		fmt.Fprintf(&at, "%d,%d\n", i, j)
		row, column := place(i, j)
		fmt.Fprintf(&there, "%d,%d\n", row, column)
	}
	var predicted [2][]float64
	for k, name := range []string{"small", "huge"} {
		table := text(t, name+".csv", []string{at.String(), there.String()}[k])
		status, stdout, stderr := command(t, "predict", "--fit", fits[name], "--data", table)
		if status != exitDone {
			t.Fatalf("status %d, %s", status, stderr)
		}
		predicted[k] = column(t, stdout, "prediction")
	}
	for i, want := range predicted[0] {
		if got := predicted[1][i]; math.Abs(got-want) > 1e-3 {
			t.Errorf("prediction %d is %g, of the small matrix %g", i, got, want)
		}
	}
	set, err := dataio.OpenNPZ(fits["huge"])
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if set.Has("b") || !set.Has("U") || !set.Has("S") || !set.Has("V") {
		t.Error("the fit does not hold the factors alone")
	}
	for flags, expected := range map[string]string{
		"--verify":              "writes it down",
		"--derivative unrolled": "too many to be written down",
	} {
		status, stdout, stderr := command(t, append([]string{"run", "--problem", "matrix-completion", "--data", huge},
			strings.Fields(flags)...)...)
		if status == exitDone || !strings.Contains(stderr, expected) {
			t.Errorf("%s: status %d, %s%s", flags, status, stdout, stderr)
		}
	}
}

// A fit of a completion has the factors of its matrix, with which an entry is predicted as from the matrix.
func TestFitsOfCompletionsHaveFactors(t *testing.T) {
	data := filepath.Join(t.TempDir(), "mc.npz")
	if status, _, stderr := command(t, "generate", "--problem", "matrix-completion", "--rows", "90", "--cols", "70",
		"--entries", "1500", "--rank", "2", "--out", data); status != exitDone {
		t.Fatal(stderr)
	}
	for _, lambda := range []string{"0.5max", "1.5max"} {
		fitted := filepath.Join(t.TempDir(), "fit.npz")
		object(t, "run", "--problem", "matrix-completion", "--data", data, "--lambda", lambda, "--out", fitted)
		b, u, s, v := readArray(t, fitted, "b"), readArray(t, fitted, "U"), readArray(t, fitted, "S"),
			readArray(t, fitted, "V")
		rows, cols := listedLines(t, fitted, "rows"), listedLines(t, fitted, "cols")
		r := len(s)
		for c, want := range b {
			got := 0.0
			i, inRow := sublist.At(rows, c/70)
			j, inColumn := sublist.At(cols, c%70)
			for k := range s {
				if inRow && inColumn {
					got += u[i*r+k] * s[k] * v[j*r+k]
				}
			}
			if math.Abs(got-want) > 1e-10*(1+math.Abs(want)) {
				t.Fatalf("lambda %s: entry %d of the factors is %g, of b %g", lambda, c, got, want)
			}
		}
	}
}

// listedLines are the rows or columns for which a fit has factors, nil for all.
func listedLines(t *testing.T, fitted, name string) (list []int) {
	t.Helper()
	set, err := dataio.OpenNPZ(fitted)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if !set.Has(name) {
		return nil
	}
	a, err := set.Ints(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range a.Ints {
		list = append(list, int(v))
	}
	return list
}

// Three entries of a huge matrix are three entries: each is thresholded by itself, in no time and memory.
func TestThreeEntriesOfAHugeMatrix(t *testing.T) {
	for _, side := range []int64{1e4, 1 << 14, 1e5, 1 << 26} {
		data := save(t,
			dataio.Array{Name: "y", Shape: []int{3}, Data: []float64{3, 0.5, -4}},
			dataio.Array{Name: "indices", Shape: []int{3}, Ints: []int64{5, side*7 + 6, side*side - 1}},
			dataio.Array{Name: "shape", Shape: []int{2}, Ints: []int64{side, side}},
			dataio.Array{Name: "sigma2", Shape: []int{}, Data: []float64{1}})
		fitted := filepath.Join(t.TempDir(), "fit.npz")
		var got map[string]any
		allocated := allocation(func() {
			got = object(t, "run", "--problem", "matrix-completion", "--data", data, "--lambda", "0.25max", "--out",
				fitted)
		})
		if got["divergence"] != 2. || math.Abs(got["residual"].(float64)-2.25) > 1e-12 || got["lambda"] != 1. {
			t.Errorf("side %d: lambda %v, divergence %v, residual %v; expected 1, 2 and 2.25", side, got["lambda"],
				got["divergence"], got["residual"])
		}
		if allocated > 1<<26 {
			t.Errorf("side %d: %d bytes were allocated", side, allocated)
		}
		table := text(t, "entries.csv", fmt.Sprintf("row,column\n0,5\n0,6\n%d,%d\n3,3\n", side-1, side-1))
		status, stdout, stderr := command(t, "predict", "--fit", fitted, "--data", table)
		if status != exitDone {
			t.Fatal(stderr)
		}
		for i, got := range column(t, stdout, "prediction") {
			near(t, fmt.Sprintf("side %d: prediction %d", side, i), got, []float64{2, 0, -3, 0}[i])
		}
	}
}

// allocation is how many bytes f allocates.
func allocation(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// The entries of a table are those of the archive of the same seed.
func TestGeneratedRatings(t *testing.T) {
	dir := t.TempDir()
	args := strings.Fields("generate --problem matrix-completion --rows 300 --cols 200 --entries 4000 --seed 3 --out")
	npz, table := filepath.Join(dir, "r.npz"), filepath.Join(dir, "r.csv")
	for _, out := range []string{npz, table} {
		if status, _, stderr := command(t, append(args, out)...); status != exitDone {
			t.Fatal(stderr)
		}
	}
	fromNPZ := object(t, "run", "--problem", "matrix-completion", "--data", npz, "--lambda", "25")
	fromTable := object(t, "run", "--problem", "matrix-completion", "--data", table, "--response", "value",
		"--sigma2", "2", "--lambda", "25")
	if fromTable["d"] != fromNPZ["d"] || math.Abs(fromTable["residual"].(float64)/fromNPZ["residual"].(float64)-1) > 1e-6 {
		a, _ := json.Marshal([]any{fromNPZ, fromTable})
		t.Errorf("from the archive and from the table: %s", a)
	}
	for _, bad := range []string{
		"--rows 300 --cols 200 --rank 4", "--rows 300 --cols 200 --entries 15001",
		"--rows 300 --cols 20 --entries 100 --rank 21",
	} {
		if status, _, stderr := command(t, append(strings.Fields("generate --problem matrix-completion --out "+filepath.Join(dir, "bad.npz")), strings.Fields(bad)...)...); status != exitUsage {
			t.Errorf("%s: status %d, %s", bad, status, stderr)
		}
	}
	if status, _, stderr := command(t, "generate", "--problem", "lasso", "--d", "20", "--out",
		filepath.Join(dir, "bad.csv")); status != exitUsage || !strings.Contains(stderr, ".npz") {
		t.Errorf("status %d, %s", status, stderr)
	}
}

// Little garbage beside large arrays, and the collector's work is no more than a part of the program's.
func TestGarbagePercent(t *testing.T) {
	for _, c := range []struct {
		used, read uint64
		want       int
	}{
		{0, 0, mostGarbage}, {16 << 20, 1 << 20, mostGarbage}, {50 << 20, 1 << 20, 128}, {640 << 20, 1 << 20, 10},
		{640 << 20, 128 << 20, 20},
		{640 << 20, 640 << 20, 100}, {100 << 30, 0, leastGarbage},
	} {
		if got := garbagePercent(c.used, c.read); got != c.want {
			t.Errorf("%d bytes, of which %d are read: %d percent, want %d", c.used, c.read, got, c.want)
		}
	}
}

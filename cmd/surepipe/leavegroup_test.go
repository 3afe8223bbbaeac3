package main

import (
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"surepipe/internal/dataio"
)

// Leave-group-out of groups of one is leave-one-out, value and error bar: with an intercept, a loss, gaps in a matrix,
// effects and weights, from factors and from images.
func TestLeaveGroupOutOfSinglesIsLeaveOneOut(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	draw := func(n int, f func() float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = f()
		}
		return out
	}
	dir := t.TempDir()
	write := func(name string, arrays ...dataio.Array) string {
		path := filepath.Join(dir, name)
		if err := dataio.WriteNPZ(path, arrays...); err != nil {
			t.Fatal(err)
		}
		return path
	}
	table := write("x.npz", floats("X", draw(60*12, r.NormFloat64), 60, 12), floats("y", draw(60,
		func() float64 { return float64(r.IntN(2)) }), 60))
	series := write("s.npz", floats("y", draw(80, r.NormFloat64), 80))
	const completion = "../../testdata/mc60x40.npz"
	for _, args := range [][]string{
		{"lasso", table, "--lambda", "0.1max"}, {"lasso", table, "--lambda", "0.1max", "--intercept"},
		{"ridge", table, "--lambda", "3", "--intercept"}, {"lasso", table, "--lambda", "0.1max", "--loss", "logistic"},
		{"elastic-net", table, "--lambda", "0.1max", "--lambda2", "1"}, {"whittaker", series, "--lambda", "30"},
		{"matrix-completion", completion, "--lambda", "0.3max"},
		{"matrix-completion", completion, "--lambda", "0.3max", "--effects", "rows,cols"},
		{"matrix-completion", completion, "--lambda", "0.3max", "--effects", "mean"},
	} {
		o := object(t, append([]string{"run", "--blocks", "1", "--alo", "--problem", args[0], "--data", args[1]},
			args[2:]...)...)
		lgo, _ := o["criteria"].(map[string]any)
		for _, key := range []string{"", "_stderr"} {
			got, _ := lgo["lgo"+key].(float64)
			want, ok := o["alo"+key].(float64)
			if !ok || math.Abs(got-want) > 1e-9*want {
				t.Errorf("%v: lgo%s is %g, alo%[2]s %g", args, key, got, want)
			}
		}
	}
	_, _, out := command(t, "run", "--problem", "trend1d", "--data", series, "--lambda", "0.001max", "--blocks", "4")
	if !strings.Contains(out, "there is no leave-group-out") {
		t.Errorf("blocks that decide their own fit:\n%s", out)
	}
}

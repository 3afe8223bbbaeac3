package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"surepipe/pipeline"
	"surepipe/risk/warning"
)

// A sweep of a small wide table is cross-validated, and marked where the criterion is one without refits.
func TestSmallWideTablesAreMarked(t *testing.T) {
	const rows, columns = 20, 30
	var text strings.Builder
	r := rand.New(rand.NewPCG(3, 1))
	for j := range columns {
		fmt.Fprintf(&text, "x%d,", j)
	}
	text.WriteString("y,success\n")
	for range rows {
		y := r.NormFloat64()
		for j := range columns {
			x := r.NormFloat64()
			if j == 0 {
				y += x
			}
			fmt.Fprintf(&text, "%.4f,", x)
		}
		fmt.Fprintf(&text, "%.4f,%d\n", y, r.IntN(2))
	}
	file := filepath.Join(t.TempDir(), "wide.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	overfit := 0
	for _, c := range []struct {
		args   string
		marked bool
	}{{"--response y --drop success", false}, {"--response y --drop success --criterion gcv", true},
		{"--response y --drop success --criterion alo", true}, {"--response y --drop success --sigma2 1", false},
		{"--response y --only x0,x1,x2 --criterion gcv", false}, {"--response success --drop y --loss logistic", false},
		{"--response success --drop y --loss logistic --criterion alo", true}} {
		_, points, s := sweepLines(t, append(strings.Fields(c.args), "--problem", "lasso", "--data", file, "--lambda",
			"0.001max:max:12", "--refine", "0")...)
		for _, l := range points {
			if l.Overfits && (!c.marked || l.Index == s.Minimizer.Index) {
				t.Errorf("%s: point %d overfits, divergence %g; the minimizer is %d", c.args, l.Index, l.Divergence,
					s.Minimizer.Index)
			}
			if l.Overfits {
				overfit++
			}
		}
		is := func(w pipeline.Warning) bool { return w.Is(warning.FewRows) }
		if got := slices.ContainsFunc(s.Warnings, is); got != c.marked {
			t.Errorf("%s: criterion %s, marked %v, expected %v", c.args, s.Criterion, got, c.marked)
		}
	}
	if overfit == 0 {
		t.Error("no point overfits")
	}
}

// A short signal that is joined to levels is chosen by cross-validation, and marked by another criterion; a long one
// and a smooth fit are not.
func TestShortSignals(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 2))
	for _, c := range []struct {
		values              int
		problem, args, want string
		marked              bool
	}{{64, "tv1d", "", "cv", false}, {64, "trend1d", "", "cv", false}, {64, "tv1d", "--criterion gcv", "gcv", true},
		{300, "tv1d", "", "gcv", false}, {64, "whittaker", "", "gcv", false}} {
		y := make([]float64, c.values)
		for i := range y {
			y[i] = r.NormFloat64()
		}
		file := npyFile(t, y, c.values)
		args := append(strings.Fields(c.args), "--problem", c.problem, "--data", file, "--refine", "0", "--lambda")
		_, _, s := sweepLines(t, append(args, "0.1:100:6")...)
		marked := slices.ContainsFunc(s.Warnings, func(w pipeline.Warning) bool { return w.Is(warning.FewRows) })
		if string(s.Criterion) != c.want || marked != c.marked {
			t.Errorf("%s of %d values %s: criterion %s, marked %v", c.problem, c.values, c.args, s.Criterion, marked)
		}
		if c.want == "cv" && c.problem == "tv1d" && !(s.Minimizer.Divergence < 20) {
			t.Errorf("the fit to noise has %g degrees of freedom", s.Minimizer.Divergence)
		}
	}
}

// Levels that come once make columns that one row decides: leave-one-out by one step finds no use for them, and takes
// refits of few, so that cross-validation is the default of a loss that has no GCV, and the other is marked. A sum of squares chooses none, and a group of
// levels stays without one of them.
func TestLevelsThatComeOnceAreLeftOutByRefits(t *testing.T) {
	const rows, levels = 200, 70
	r := rand.New(rand.NewPCG(3, 4))
	var text strings.Builder
	text.WriteString("x,level,count\n")
	effects := make([]float64, levels)
	for k := range effects {
		effects[k] = 1.2 * r.NormFloat64()
	}
	for range rows {
		level, n := r.IntN(levels), 0
		for below := math.Exp(effects[level]) - r.ExpFloat64(); below > 0; below -= r.ExpFloat64() {
			n++
		}
		fmt.Fprintf(&text, "%.4f,l%d,%d\n", r.NormFloat64(), level, n)
	}
	file := filepath.Join(t.TempDir(), "levels.csv")
	if err := os.WriteFile(file, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	df := map[string]float64{}
	for _, c := range []struct {
		args, want string
		marked     bool
	}{{"lasso --loss poisson", "cv", false}, {"group-lasso --loss poisson", "alo", false}, {"lasso", "gcv", false},
		{"lasso --criterion alo", "alo", true}, {"lasso --loss poisson --criterion alo", "alo", true},
		{"ridge --loss poisson", "alo", false}, {"lasso --loss poisson --drop level", "alo", false}} {
		grid := "0.01max:max:20"
		if strings.HasPrefix(c.args, "ridge") {
			grid = "1:100:3"
		}
		_, _, s := sweepLines(t, append(strings.Fields("--problem "+c.args), "--data", file, "--response", "count",
			"--lambda", grid, "--refine", "0")...)
		marked := slices.ContainsFunc(s.Warnings, func(w pipeline.Warning) bool { return w.Is(warning.LoneRows) })
		if string(s.Criterion) != c.want || marked != c.marked {
			t.Errorf("%s: criterion %s, marked %v", c.args, s.Criterion, marked)
		}
		df[c.args] = s.Minimizer.Divergence
	}
	if df["lasso --loss poisson"] < 10 {
		t.Errorf("degrees of freedom %v: the test tries nothing", df)
	}
}

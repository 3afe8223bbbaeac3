package surepipe_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe"
)

// manyData are m responses on one X.
func manyData(t *testing.T, d, p, m int) (x *mat.Dense, ys [][]float64, y []float64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(3, 4))
	x = mat.NewDense(d, p, nil)
	for i := range d {
		for j := range p {
			x.Set(i, j, rng.NormFloat64()+float64(j%3))
		}
	}
	ys, y = make([][]float64, m), make([]float64, d*m)
	for k := range ys {
		ys[k] = make([]float64, d)
		for i := range d {
			ys[k][i] = 3 + 2*x.At(i, k) - x.At(i, k+1) + rng.NormFloat64()
			y[i*m+k] = ys[k][i]
		}
	}
	return x, ys, y
}

// near reports values that agree to a part of their size.
func near(a, b, tol float64) bool {
	return a == b || math.Abs(a-b) <= tol*math.Max(math.Abs(a), math.Abs(b))
}

// Sweeps of many responses at once are those of each alone, with audits and choices, and so are fits.
func TestManyResponsesAreEachAlone(t *testing.T) {
	ctx := context.Background()
	yes := true
	for _, c := range []struct {
		d, p    int
		o       surepipe.Options
		g       surepipe.Grid
		weights bool
	}{
		{60, 20, surepipe.Options{Problem: surepipe.Lasso, Intercept: &yes, Standardize: &yes},
			surepipe.Grid{Lambda: "0.01max:max:10"}, false},
		{60, 20, surepipe.Options{Problem: surepipe.Ridge, Intercept: &yes}, surepipe.Grid{Lambda: "1:100:6"}, true},
		{60, 9, surepipe.Options{Problem: surepipe.Lasso, Intercept: &yes, Standardize: &yes},
			surepipe.Grid{Lambda: "0.1max:max:4"}, true},
		{256, 17000, surepipe.Options{Problem: surepipe.Lasso, Intercept: &yes, Standardize: &yes},
			surepipe.Grid{Lambda: "0.5max:max:4", Refine: new(int)}, false},
		{60, 12, surepipe.Options{Problem: surepipe.OLS, Intercept: &yes}, surepipe.Grid{}, false},
	} {
		if testing.Short() && c.p > 10000 {
			continue
		}
		x, ys, y := manyData(t, c.d, c.p, 4)
		arrays := surepipe.Arrays{X: x, Y: y, Shape: []int{c.d, 4}}
		if c.weights {
			for i := range c.d {
				arrays.Weights = append(arrays.Weights, 1+float64(i%3))
			}
		}
		data, err := arrays.Data()
		if err != nil {
			t.Fatal(err)
		}
		many, err := surepipe.Open(ctx, data, c.o)
		if err != nil {
			t.Fatal(err)
		}
		defer many.Close()
		got := make([]surepipe.Result, 4)
		paths := make([]*surepipe.Path, 4)
		run := func(e *surepipe.Estimator) (surepipe.Result, *surepipe.Path, error) {
			if c.g.Lambda == "" {
				f, err := e.Fit(ctx)
				if err != nil {
					return surepipe.Result{}, nil, err
				}
				return f.Result, nil, nil
			}
			p, err := e.Sweep(ctx, c.g)
			if err != nil {
				return surepipe.Result{}, nil, err
			}
			return p.Fit.Result, p, nil
		}
		if err := many.Each(ctx, func(_ context.Context, k int, e *surepipe.Estimator) (err error) {
			got[k], paths[k], err = run(e)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		for k := range ys {
			arrays.Y, arrays.Shape = ys[k], nil
			one, err := arrays.Data()
			if err != nil {
				t.Fatal(err)
			}
			if k > 0 && c.p > 10000 {
				continue
			}
			e, err := surepipe.Open(ctx, one, c.o)
			if err != nil {
				t.Fatal(err)
			}
			want, path, err := run(e)
			e.Close()
			if err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s %d x %d, response %d", c.o.Problem, c.d, c.p, k)
			if got[k].Response != fmt.Sprintf("y%d", k+1) {
				t.Errorf("%s: its name is %q", name, got[k].Response)
			}
			if !near(got[k].Divergence, want.Divergence, 1e-9) || !near(*got[k].Residual, *want.Residual, 1e-9) ||
				!near(*got[k].GCV, *want.GCV, 1e-9) || len(got[k].Audits) != len(want.Audits) {
				t.Errorf("%s: divergence %g and %g, residual %g and %g", name, got[k].Divergence, want.Divergence,
					*got[k].Residual, *want.Residual)
			}
			for i := range want.Audits {
				if !near(got[k].Audits[i].Error, want.Audits[i].Error, 1e-9) {
					t.Errorf("%s: audit %g and %g", name, got[k].Audits[i].Error, want.Audits[i].Error)
				}
			}
			if path == nil {
				continue
			}
			if a, b := paths[k].Summary.Chosen.Index, path.Summary.Chosen.Index; a != b ||
				len(paths[k].Points) != len(path.Points) {
				t.Errorf("%s: chosen are %d of %d and %d of %d", name, a, len(paths[k].Points), b, len(path.Points))
			}
		}
	}
}

// Responses of a table have the rows of their own where values are missing, and errors name them.
func TestManyResponsesOfTable(t *testing.T) {
	ctx := context.Background()
	rows := []string{"a,b,x,g"}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 40 {
		b := fmt.Sprint(rng.NormFloat64())
		if i == 7 {
			b = ""
		}
		rows = append(rows, fmt.Sprintf("%g,%s,%g,%s", rng.NormFloat64(), b, rng.NormFloat64(), string("uvw"[i%3])))
	}
	table, err := surepipe.Read(ctx, "t.csv", strings.NewReader(strings.Join(rows, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ response, missing, says string }{
		{"a,b", "drop", ""}, {"a,b", "", "missing"}, {"a,a", "drop", "named twice"}, {"a,g", "drop", "texts"},
		{"a,", "drop", "empty name"}, {"a,z", "drop", `"z"`},
	} {
		var told []string
		many, err := surepipe.Open(ctx, table, surepipe.Options{Problem: surepipe.Lasso, Lambda: "0.1max",
			Table: surepipe.Table{Response: c.response, Missing: c.missing},
			Warn:  func(w surepipe.Warning) { told = append(told, w.Text) }})
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("--response %s: %v, expected %q", c.response, err, c.says)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		var d []int
		if err := many.Each(ctx, func(_ context.Context, k int, e *surepipe.Estimator) error {
			f, err := e.Fit(ctx)
			if err == nil {
				d = append(d, f.D)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		many.Close()
		if fmt.Sprint(d) != "[40 39]" && fmt.Sprint(d) != "[39 40]" {
			t.Errorf("the responses have %d rows, expected 40 and 39", d)
		}
		if all := strings.Join(told, "\n"); !strings.Contains(all, `response "b": 1 of 40 rows`) {
			t.Errorf("told is %s", all)
		}
	}
}

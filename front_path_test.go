package surepipe_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	"gonum.org/v1/gonum/mat"

	"surepipe"
)

// The coefficients of every point are those of a fit at its weight.
func TestCoefficientsAlongThePath(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	x, y := mat.NewDense(60, 4, nil), make([]float64, 60)
	for i := range y {
		for j := range 4 {
			x.Set(i, j, 1+rng.NormFloat64())
		}
		y[i] = math.Floor(math.Exp(1 + 0.3*x.At(i, 1) + 0.3*rng.NormFloat64()))
	}
	data, err := surepipe.Arrays{X: x, Y: y}.Data()
	if err != nil {
		t.Fatal(err)
	}
	for _, loss := range []string{"", "poisson"} {
		o := surepipe.Options{Problem: surepipe.Lasso, Lambda: "0.1max"}
		yes := true
		o.Loss, o.Intercept, o.Standardize = loss, &yes, &yes
		e := open(t, data, o)
		refine := 2
		path, err := e.Sweep(t.Context(), surepipe.Grid{Lambda: "0.05max:max:4", Refine: &refine, Coefficients: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(path.Coefficients) != len(path.Points) || len(path.Names) != path.Points[0].P {
			t.Fatalf("%d coefficients of %d points, %d names", len(path.Coefficients), len(path.Points), len(path.Names))
		}
		for i, p := range path.Points {
			o.Lambda = strconv.FormatFloat(float64(*p.Lambda), 'g', -1, 64)
			f := fitted(t, open(t, data, o))
			at, b := path.Coefficients[i], f.B().Data
			if math.Abs(at.Intercept-*f.Intercept) > 1e-5*math.Abs(*f.Intercept) {
				t.Errorf("%s, point %d: intercept %g, of a fit %g", loss, i, at.Intercept, *f.Intercept)
			}
			for j, v := range b {
				if math.Abs(at.Coefficients[j]-v) > 1e-5*(1+math.Abs(v)) {
					t.Errorf("%s, point %d: coefficient %d is %g, of a fit %g", loss, i, j, at.Coefficients[j], v)
				}
			}
		}
		if path.Fit.Intercept == nil || *path.Fit.Intercept != path.Coefficients[path.Summary.Chosen.Index].Intercept {
			t.Errorf("%s: the fit's intercept is %v", loss, path.Fit.Intercept)
		}
		var bad *surepipe.InputError
		_, err = e.Sweep(t.Context(), surepipe.Grid{Lambda: "0.1max:max:3", Coefficients: true, Known: &bytes.Buffer{}})
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), "coefficients") {
			t.Errorf("coefficients of known points: %v", err)
		}
	}
}

// What a default grid begins with is computed by the context of its sweep: that of Open may be over.
func TestSweepsAfterTheContextOfOpen(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	x, y, counts := mat.NewDense(60, 4, nil), make([]float64, 60), make([]float64, 60)
	for i := range y {
		for j := range 4 {
			x.Set(i, j, rng.NormFloat64())
		}
		y[i], counts[i] = float64(rng.IntN(2)), float64(rng.IntN(9))
	}
	for loss, y := range map[string][]float64{"": counts, "logistic": y, "poisson": counts} {
		for _, name := range []surepipe.Problem{surepipe.Ridge, surepipe.Lasso} {
			data, err := surepipe.Arrays{X: x, Y: y}.Data()
			if err != nil {
				t.Fatal(err)
			}
			yes := true
			ctx, cancel := context.WithCancel(t.Context())
			e, err := surepipe.Open(ctx, data, surepipe.Options{Problem: name, Loss: loss, Intercept: &yes})
			if err != nil {
				t.Fatal(err)
			}
			cancel()
			both, ctx := errgroup.WithContext(t.Context())
			for range 2 {
				both.Go(func() error {
					_, err := e.Sweep(ctx, surepipe.Grid{})
					return err
				})
			}
			if err := both.Wait(); err != nil {
				t.Errorf("%s, %s: %v", name, loss, err)
			}
			e.Close()
		}
	}
}

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
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe"
	"surepipe/linops"
	"surepipe/prox"
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

// An operator of one's own whose second function is not the adjoint of the first, or which is not linear, is told.
func TestOperatorsWhoseProductsDoNotFitAreTold(t *testing.T) {
	const d = 30
	y := make([]float64, d)
	for i := range y {
		y[i] = math.Sin(float64(i * i))
	}
	data, err := surepipe.Arrays{Y: y}.Data()
	if err != nil {
		t.Fatal(err)
	}
	type product = func(dst, src []float64)
	sums := func(dst, b []float64) { floats.CumSum(dst, b) }
	adjoint := func(dst, z []float64) {
		for i, sum := d-1, 0.0; i >= 0; i-- {
			sum += z[i]
			dst[i] = sum
		}
	}
	rounded := func(f product) product {
		return func(dst, b []float64) {
			f(dst, b)
			for i, v := range dst {
				dst[i] = float64(float32(v))
			}
		}
	}
	shifted := func(dst, b []float64) { floats.CumSum(dst, b); floats.AddConst(1, dst) }
	same := func(dst, b []float64) { copy(dst, b) }
	for name, c := range map[string]struct {
		a, k [2]product
		says string
	}{
		"exact":           {a: [2]product{sums, adjoint}},
		"rounded":         {a: [2]product{rounded(sums), rounded(adjoint)}},
		"no adjoint":      {a: [2]product{sums, sums}, says: "A* is not the adjoint"},
		"not linear":      {a: [2]product{shifted, adjoint}, says: "A is not linear"},
		"no adjoint of K": {a: [2]product{same, same}, k: [2]product{sums, sums}, says: "K* is not the adjoint"},
	} {
		own := &surepipe.Own{Operator: linops.NewFunc(d, d, c.a[0], c.a[1]),
			Regularizer: func(lambda, _, _ float64) (prox.Prox, error) { return prox.NewL1(lambda), nil }}
		if c.k[0] != nil {
			own.Behind = linops.NewFunc(d, d, c.k[0], c.k[1])
		}
		told := ""
		for _, w := range open(t, data, surepipe.Options{Own: own, Lambda: "0.5", Sigma2: 1}).Warnings() {
			if w.Code == "operator" {
				told = w.Text
			}
		}
		if (told != "") != (c.says != "") || !strings.Contains(told, c.says) {
			t.Errorf("%s: %q, expected %q", name, told, c.says)
		}
	}
}

package problems_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/problems"
	"surepipe/vjp"
)

// observed is a regression with y for a loss, whose columns have other means and units.
func observed(name string, d, p int) problems.Data {
	rng := rand.New(rand.NewPCG(3, 9))
	data := problems.Data{X: mat.NewDense(d, p, nil), Y: make([]float64, d)}
	if name == "huber" {
		data.Loss.Parameter = 1.3
	}
	data.Loss.Name = name
	for i := range d {
		z := 0.4
		for j := range p {
			v := rng.NormFloat64()
			if j < 3 {
				z += v * []float64{1, -0.6, 0.5}[j]
			}
			data.X.(*mat.Dense).Set(i, j, (v+float64(j))*math.Pow(10, float64(j%3)))
		}
		switch data.Y[i] = z + rng.NormFloat64(); name {
		case "logistic":
			data.Y[i] = 0
			if rng.Float64() < 1/(1+math.Exp(-z)) {
				data.Y[i] = 1
			}
		case "poisson":
			data.Y[i] = math.Round(math.Exp(z))
		}
	}
	return data
}

func solveLoss(t *testing.T, p *problems.Problem, y []float64) (b, muHat []float64) {
	t.Helper()
	s, err := vjp.NewSolver(t.Context(), p.DefaultSolver, p.Solve(), vjp.Options{Tol: 1e-11})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	dev := p.Solve().Device
	at := dev.Alloc(1, len(y))
	defer at.Free()
	dev.Upload(at, y)
	sol, err := s.Solve(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer sol.Release()
	if !sol.Converged {
		t.Fatalf("%s: not converged: %+v", p.Name, sol.Convergence)
	}
	return sol.B.ToHost(), sol.MuHat.ToHost()
}

// At lambda_max all coefficients but the intercept are 0, and just below it one is not; the
// intercept is that of a fit to y alone, and mu_hat is that of an unpenalized column of ones.
func TestLambdaMaxAndInterceptOfLosses(t *testing.T) {
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	for _, name := range []string{"logistic", "poisson", "huber"} {
		for _, intercept := range []bool{false, true} {
			data := observed(name, 50, 5)
			data.Intercept = intercept
			for _, c := range []struct {
				share float64
				zero  bool
			}{{1, true}, {0.999, false}} {
				p, err := problems.New("lasso", dev, data, problems.Hyper{Lambda: problems.OfMax(c.share)})
				if err != nil {
					t.Fatal(err)
				}
				if p.Solve().Origin != nil || p.Loss.Name != name || p.P != 5 {
					t.Errorf("%s: %+v with p = %d", name, p.Loss, p.P)
				}
				b, mu := solveLoss(t, p, data.Y)
				if zero := !slices.ContainsFunc(p.Coefficients(b),
					func(v float64) bool { return v != 0 }); zero != c.zero {
					t.Errorf("%s, intercept %t, at %g lambda_max: b = %v", name, intercept, c.share, b)
				}
				if b0, ok := p.Intercept(mu, b); ok != intercept {
					t.Errorf("%s: intercept %g, %t", name, b0, ok)
				} else if ok && c.zero {
					mean := 0.0
					for _, v := range data.Y {
						mean += v / 50
					}
					want := map[string]float64{"logistic": math.Log(mean / (1 - mean)), "poisson": math.Log(mean),
						"huber": b0}[name]
					if math.Abs(b0-want) > 1e-7 {
						t.Errorf("%s: the intercept alone is %g, want %g", name, b0, want)
					}
				}
				p.Release()
			}
		}
		checkConstant(t, dev, name)
	}
}

// checkConstant checks that mu_hat is that of the coefficients and the intercept, and that a
// specification may name the loss.
func checkConstant(t *testing.T, dev array.Device, name string) {
	t.Helper()
	data := observed(name, 50, 5)
	data.Intercept = true
	p, err := problems.New("lasso", dev, data, problems.Hyper{Lambda: problems.OfMax(0.2)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	b, mu := solveLoss(t, p, data.Y)
	b0, _ := p.Intercept(mu, b)
	for i := range mu {
		z := b0
		for j, v := range p.Coefficients(b) {
			z += v * data.X.At(i, j)
		}
		if math.Abs(z-mu[i]) > 1e-8*(1+math.Abs(z)) {
			t.Fatalf("%s: mu_hat[%d] is %g, the coefficients give %g", name, i, mu[i], z)
		}
	}
	lossKey := "loss: " + name
	if name == "huber" {
		lossKey = "loss: {name: huber, delta: 1.3}"
	}
	spec, err := problems.ParseSpec([]byte("data: d.npz\noperator: {matrix: X}\n"+lossKey+"\nregularizer:\n  l1: "+
		"{weight: lambda, unpenalized: [0]}\n"), "t.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if spec.Loss.Name != name {
		t.Errorf("the specification's loss is %+v", spec.Loss)
	}
}

// A specification with a loss that is none, or without what it needs, is an error with its line.
func TestSpecificationsOfLosses(t *testing.T) {
	for text, want := range map[string]string{
		"loss: logit":                       `loss is "logit"`,
		"loss: huber":                       "no delta",
		"loss: {delta: 1}":                  "no name",
		"loss: {name: huber, delta: -1}":    "delta of the huber loss is -1",
		"loss: {name: logistic, delta: 1}":  "the logistic loss has no such parameter",
		"loss: {name: logistic, deltas: 1}": "deltas",
	} {
		_, err := problems.ParseSpec([]byte("data: d.npz\noperator: {matrix: X}\n"+text+"\nregularizer: {l1: 1}\n"),
			"t.yaml")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "t.yaml:3") {
			t.Errorf("%s: error %v, expected %q", text, err, want)
		}
	}
	dev := array.NewHost()
	data := observed("logistic", 20, 3)
	for what, c := range map[string]struct {
		change func(d *problems.Data)
		want   string
	}{
		"labels": {func(d *problems.Data) { d.Y[2] = -1 }, "code labels of -1 and 1"},
		"one kind": {func(d *problems.Data) { d.Intercept = true; d.Y = slices.Repeat([]float64{1}, 20) },
			"no least intercept"},
		"name":  {func(d *problems.Data) { d.Loss.Name = "probit" }, "expected one of squared, logistic"},
		"delta": {func(d *problems.Data) { d.Loss = problems.Loss{Name: "huber"} }, "delta of the huber loss is 0"},
	} {
		changed := data
		changed.Y = slices.Clone(data.Y)
		c.change(&changed)
		if _, err := problems.New("lasso", dev, changed, problems.Hyper{Lambda: problems.Absolute(1)}); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected %q", what, err, c.want)
		}
	}
}

package problems_test

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/internal/dataio"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/vjp"
)

// list writes numbers as a list in YAML.
func list(v []float64) string { return strings.ReplaceAll(fmt.Sprint(v), " ", ", ") }

// The problem's loss is half the weighted sum of squares, and nil where there are no weights.
func TestWeightsAreThoseOfTheLoss(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		dir := t.TempDir()
		arrays := []dataio.Array{{Name: "y", Shape: []int{3}, Data: []float64{3, 1, -1}},
			{Name: "w", Shape: []int{3}, Data: []float64{2, 0, 0.5}}}
		if err := dataio.WriteNPZ(filepath.Join(dir, "data.npz"), arrays...); err != nil {
			t.Fatal(err)
		}
		const text = "data: data.npz\noperator: identity\nregularizer: {l1: 1}\n"
		if p, _ := built(t, dev, dir, text, problems.Hyper{}); p.Solve().Loss != nil {
			t.Error("there is a loss without weights")
		}
		for _, weights := range []string{"w", "[2, 0, 0.5]"} {
			p, data := built(t, dev, dir, text+"weights: "+weights+"\n", problems.Hyper{})
			l := p.Solve().Loss
			if l == nil {
				t.Fatal("there is no loss")
			}
			z, y, g := dev.Put([]float64{1, 5, 1}, 1, 3), dev.Put(data.Y, 1, 3), dev.Alloc(1, 3)
			if v := l.Value(z, y); math.Abs(v-(2*4+0.5*4)/2) > 1e-14 {
				t.Errorf("the loss is %g, expected 5", v)
			}
			l.Gradient(g, z, y)
			if got := fmt.Sprint(g.ToHost()); got != "[-4 0 1]" {
				t.Errorf("the gradient is %s, expected [-4 0 1]", got)
			}
			if w, ok := l.Weights(); !ok || fmt.Sprint(w.ToHost()) != "[2 0 0.5]" {
				t.Errorf("the weights are %v", w)
			}
			for _, b := range []array.Batch{z, y, g} {
				b.Free()
			}
		}
	})
}

// The maximum of a weight is that of the problem without weights of the loss whose rows and y are
// multiplied by their square roots.
func TestMaximumWithWeightsOfTheLoss(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const matrix = "[[2, 0, 1, 1, 0, 3], [1, 1, 0, 2, 1, 0], [0, 1, 4, 1, 2, 1], [1, 0, 2, 0, 1, 1]]"
		y, w := []float64{3, -1, 2, 4}, []float64{1, 0, 0.25, 9}
		roots, scaled := make([]float64, 4), make([]float64, 4)
		for i := range w {
			roots[i] = math.Sqrt(w[i])
			scaled[i] = roots[i] * y[i]
		}
		check := func(operator, regularizer string) {
			t.Helper()
			with := fmt.Sprintf("data: {y: %s}\noperator: {%s}\nregularizer: {%s}\nweights: %s\nlambda: 1max\n",
				list(y), operator, regularizer, list(w))
			without := fmt.Sprintf("data: {y: %s}\noperator: {product: [diagonal: %s, {%s}]}\nregularizer: "+
				"{%s}\nlambda: 1max\n", list(scaled), list(roots), operator, regularizer)
			got, _ := built(t, dev, "", with, problems.Hyper{})
			want, _ := built(t, dev, "", without, problems.Hyper{})
			if !(math.Abs(got.Lambda-want.Lambda) <= 1e-12*want.Lambda) || !got.Relative {
				t.Errorf("%s, %s: lambda is %g, expected %g", operator, regularizer, got.Lambda, want.Lambda)
			}
		}
		for _, n := range norms {
			if !n.orthogonal {
				check("dense: "+matrix, n.regularizer)
			}
		}
		check("selection: {indices: [5, 0, 2, 3], shape: [2, 3]}", "nuclear: lambda")
		// Columns that are orthogonal are so no more.
		data, err := load(t, "", "data: {y: [1, 2, 3]}\noperator: identity\nregularizer: {tv1d: lambda}\nweights: "+
			"[1, 2, 3]\nlambda: 1max\n")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := problems.New("", dev, data, problems.Hyper{}); err == nil ||
			!strings.Contains(err.Error(), "problem.yaml:5: lambda is given as a multiple of its maximum, which "+
				"is not known") {
			t.Errorf("error %v", err)
		}
	})
}

// With weights no single step is the solution, and the solver is one that takes many.
func TestWeightsChangeTheSolver(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range []struct{ operator, regularizer, with, without string }{
			{"identity: 2", "l1: 1", "active-set", "ista"},
			{"dense: [[1, 2], [3, 4]]", "l1: 1", "active-set", "active-set"},
			{"dense: [[1, 2], [3, 4]]", "squared-l2: 1", "direct", "direct"},
		} {
			text := fmt.Sprintf("data: {y: [1, 2]}\noperator: {%s}\nregularizer: {%s}\n", c.operator, c.regularizer)
			if p, _ := built(t, dev, "", text, problems.Hyper{}); p.DefaultSolver != c.without {
				t.Errorf("%s, %s: %s, expected %s", c.operator, c.regularizer, p.DefaultSolver, c.without)
			}
			if p, _ := built(t, dev, "", text+"weights: [1, 2]\n", problems.Hyper{}); p.DefaultSolver != c.with {
				t.Errorf("%s, %s with weights: %s, expected %s", c.operator, c.regularizer, p.DefaultSolver, c.with)
			}
		}
	})
}

func TestBadWeightsAreRefused(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for weights, want := range map[string]string{
			"[1, 2]":         `problem.yaml:4: array "weights" has 2 values, expected 3, a weight for each entry of y`,
			"[1, -2, 3]":     `problem.yaml:4: array "weights" holds -2 at [1], expected weights of at least 0`,
			"[1, 2, inf]":    `problem.yaml:4: array "weights" holds +Inf at [2], expected finite numbers`,
			"[0, 0, 0]":      `problem.yaml:4: array "weights" is 0 everywhere, expected some positive weights`,
			"[0, 0, 1e-200]": `problem.yaml:4: array "weights" has no entry above 1e-200`,
			"w":              `problem.yaml:4: array "w" is missing`,
			"y":              "problem.yaml:4: weights is y: SURE assumes an estimator",
			"{by: 2}": "problem.yaml:4: weights is a mapping, expected the name of an array in data, or a " +
				"list of numbers",
		} {
			data, err := load(t, "", "data: {y: [1, 2, 3]}\noperator: identity\nregularizer: {l1: 1}\nweights: "+weights+"\n")
			if err == nil {
				_, err = problems.New("", dev, data, problems.Hyper{})
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, expected %q", weights, err, want)
			}
		}
	})
}

// The hash changes with the weights in a file.
func TestHashTellsWeightsApart(t *testing.T) {
	dir := t.TempDir()
	hash := func(w ...float64) string {
		if err := dataio.WriteNPY(filepath.Join(dir, "w.npy"), dataio.Array{Shape: []int{2}, Data: w}); err != nil {
			t.Fatal(err)
		}
		data, err := load(t, dir, "data: {y: [1, 2], w: w.npy}\noperator: identity\nregularizer: {l1: 1}\nweights: w\n")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(data.Spec.Hashed()...)
	}
	if first, again := hash(1, 2), hash(1, 2); first != again || first == hash(1, 3) {
		t.Error("the hash does not tell the weights")
	}
}

// The solution with weights is that of the problem without whose rows and y are multiplied by the
// square roots of the weights; a weight of 0 leaves a row out.
func TestWeightedSolutionIsThatOfScaledRows(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const matrix = "[[2, 0, 1, 1, 0, 3], [1, 1, 0, 2, 1, 0], [0, 1, 4, 1, 2, 1], [1, 0, 2, 0, 1, 1]]"
		y, w := []float64{3, -1, 2, 4}, []float64{1, 0, 0.25, 9}
		roots, scaled := make([]float64, 4), make([]float64, 4)
		for i := range w {
			roots[i] = math.Sqrt(w[i])
			scaled[i] = roots[i] * y[i]
		}
		for _, c := range []struct{ operator, regularizer string }{
			{"dense: " + matrix, "l1: 0.5"},
			{"dense: " + matrix, "squared-l2: 0.5"},
			{"dense: " + matrix, "elastic-net: {weight: 0.5, weight2: 0.25}"},
			{"dense: " + matrix, "group-l2: {weight: 0.5, size: 2}"},
			{"dense: " + matrix, "l1: {weight: 0.5, unpenalized: [0]}"},
			{"selection: {indices: [5, 0, 2, 3], shape: [2, 3]}", "nuclear: 0.5"},
			{"identity: 4", "l1: 0.5"},
			{"identity: 4", "tv1d: 0.5"},
		} {
			with := fmt.Sprintf("data: {y: %s}\noperator: {%s}\nregularizer: {%s}\nweights: %s\n", list(y),
				c.operator, c.regularizer, list(w))
			without := fmt.Sprintf("data: {y: %s}\noperator: {product: [diagonal: %s, {%s}]}\nregularizer: {%s}\n",
				list(scaled), list(roots), c.operator, c.regularizer)
			p, _ := built(t, dev, "", with, problems.Hyper{})
			q, _ := built(t, dev, "", without, problems.Hyper{})
			if p.DefaultSolver == "active-set" {
				q.DefaultSolver = "active-set" // of several solutions each solver has its own
			}
			got, want := solve(t, dev, p, y), solve(t, dev, q, scaled)
			for j := range got {
				if math.Abs(got[j]-want[j]) > 1e-6 {
					t.Errorf("%s, %s: b[%d] is %g, expected %g", c.operator, c.regularizer, j, got[j], want[j])
				}
			}
		}
	})
}

// Weighted ridge regression: mu_hat and its divergence against the closed forms
//
//	mu_hat = X (X*W X + lambda I)^{-1} X*W y,   div mu_hat = tr of that matrix,
//
// by the default solver and by fista.
func TestWeightedRidgeIsItsClosedForm(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d, p, lambda = 12, 4, 0.7
		x, y, w := mat.NewDense(d, p, nil), make([]float64, d), make([]float64, d)
		var rows []string
		for i := range d {
			for j := range p {
				x.Set(i, j, math.Sin(float64(1+i*p+j)))
			}
			y[i], w[i] = math.Cos(float64(3*i)), float64(i%4)/2
			rows = append(rows, list(x.RawRowView(i)))
		}
		weighted := mat.DenseCopyOf(x)
		weighted.Apply(func(i, _ int, v float64) float64 { return w[i] * v }, weighted)
		gram, hat := mat.NewDense(p, p, nil), mat.NewDense(p, d, nil)
		gram.Mul(x.T(), weighted)
		for j := range p {
			gram.Set(j, j, gram.At(j, j)+lambda)
		}
		if err := hat.Solve(gram, weighted.T()); err != nil {
			t.Fatal(err)
		}
		var whole mat.Dense
		whole.Mul(x, hat)
		want := mat.NewVecDense(d, nil)
		want.MulVec(&whole, mat.NewVecDense(d, y))
		text := fmt.Sprintf("data: {y: %s, X: [%s]}\noperator: {dense: X}\nregularizer: {squared-l2: "+
			"%g}\nweights: %s\n", list(y), strings.Join(rows, ", "), lambda, list(w))
		problem, _ := built(t, dev, "", text, problems.Hyper{})
		for _, name := range []string{problem.DefaultSolver, "fista"} {
			solver, err := vjp.NewSolver(context.Background(), name, problem.Solve(), vjp.Options{Tol: 1e-12})
			if err != nil {
				t.Fatal(err)
			}
			pipe, err := pipeline.New(solver, pipeline.Options{Sigma2: 1, Estimator: "exact"})
			if err != nil {
				t.Fatal(err)
			}
			risk, err := pipe.Estimate(context.Background(), y)
			if err != nil {
				t.Fatal(err)
			}
			for i := range d {
				if math.Abs(risk.MuHat[i]-want.AtVec(i)) > 1e-8 {
					t.Errorf("%s: mu_hat[%d] is %g, expected %g", name, i, risk.MuHat[i], want.AtVec(i))
				}
			}
			if div := mat.Trace(&whole); math.Abs(risk.Trace.Trace-div) > 1e-8 {
				t.Errorf("%s: divergence %g, expected %g", name, risk.Trace.Trace, div)
			}
			solver.Release()
		}
	})
}

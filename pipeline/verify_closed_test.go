package pipeline_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/pipeline"
	"surepipe/problems"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/verify"
	"surepipe/vjp"
)

// spoiledClosed is a derivative whose diagonal somebody has changed.
type spoiledClosed struct {
	vjp.Linearization
	diagonal func([]float64)
}

func (l spoiledClosed) Closed() vjp.Closed {
	c := l.Linearization.Closed()
	c.Diagonal = changed(c.Diagonal, l.diagonal)
	return c
}

// changed is what f returns after change; f where there is no change.
func changed(f func() ([]float64, error), change func([]float64)) func() ([]float64, error) {
	if change == nil {
		return f
	}
	return func() ([]float64, error) {
		values, err := f()
		if err == nil {
			change(values)
		}
		return values, err
	}
}

// factoredProblem is one whose derivative knows its diagonal.
type factoredProblem struct {
	name    string
	problem vjp.Problem
	y       []float64
	sigma2  float64
}

// factoredProblems are regressions with d observations: in raw units and with an intercept, with
// curvature and without, and on clusters.
func factoredProblems(t *testing.T, dev array.Device, d int) []factoredProblem {
	t.Helper()
	p := d + d/2
	rng := rand.New(rand.NewPCG(31, uint64(d)))
	x, raw := mat.NewDense(d, p, gaussian(rng, d*p)), mat.NewDense(d, p, nil)
	y := make([]float64, d)
	const sigma = 2
	for i := range d {
		for j := range p {
			raw.Set(i, j, 5+x.At(i, j)*math.Pow(10, float64(j%5)-2))
		}
		for j := range d / 6 {
			y[i] += 2 * x.At(i, j)
		}
		y[i] += sigma * rng.NormFloat64()
	}
	shifted := slices.Clone(y)
	floats.AddConst(100, shifted)
	var all []factoredProblem
	named := func(what, name string, data problems.Data, h problems.Hyper) {
		made, err := problems.New(name, dev, data, h)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(made.Release)
		all = append(all, factoredProblem{what, made.Solve(), data.Y, sigma * sigma})
	}
	named("lasso", "lasso", problems.Data{X: x, Y: y}, problems.Hyper{Lambda: problems.Absolute(20)})
	named("lasso in raw units with an intercept", "lasso", problems.Data{X: raw, Y: shifted, Intercept: true},
		problems.Hyper{Lambda: problems.Absolute(60)})
	named("elastic net", "elastic-net", problems.Data{X: x, Y: y}, problems.Hyper{Lambda: problems.Absolute(15),
		Lambda2: problems.Absolute(10)})
	named("ridge", "ridge", problems.Data{X: x, Y: y}, problems.Hyper{Lambda: problems.Absolute(30)})
	var groups [][]int
	weights := make([]float64, p)
	for j := range p {
		if j%3 == 0 {
			groups = append(groups, nil)
		}
		groups[j/3] = append(groups[j/3], j)
		weights[j] = 20 - 10*float64(j)/float64(p)
	}
	group, err := prox.NewGroupL2(dev, p, 25, groups, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prox.Release(group) })
	sorted, err := clustered.NewSortedL1(weights)
	if err != nil {
		t.Fatal(err)
	}
	a := linops.NewDense(dev, x)
	t.Cleanup(a.Release)
	return append(all,
		factoredProblem{"group", vjp.Problem{A: a, R: group, Device: dev}, y, sigma * sigma},
		factoredProblem{"sorted l1", vjp.Problem{A: a, R: sorted, Device: dev}, y, sigma * sigma})
}

// largestAndSmallest are the places of the extreme entries.
func largestAndSmallest(v []float64) (int, int) { return floats.MaxIdx(v), floats.MinIdx(v) }

// A wrong diagonal is caught by the check of its own and by no other, with differences along all unit
// vectors and along a few. What is right passes.
func TestVerifyCatchesAWrongDiagonal(t *testing.T) {
	if testing.Short() {
		t.Skip("short: an algorithm above the device, shown by the full run")
	}
	mutants := map[string]func([]float64){
		"nothing":                 nil,
		"2% too large":            func(v []float64) { floats.Scale(1.02, v) },
		"one entry 0.1 too large": func(v []float64) { i, _ := largestAndSmallest(v); v[i] += 0.1 },
		"two entries exchanged":   func(v []float64) { i, k := largestAndSmallest(v); v[i], v[k] = v[k], v[i] },
		"the mean in every entry": spread,
		"no number":               func(v []float64) { v[0] = math.NaN() },
	}
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		sizes := []int{24, 72}
		emulated := arraytest.Emulated(t, dev)
		if emulated {
			sizes = []int{12} // hundreds of solves
		}
		for _, d := range sizes {
			for _, f := range factoredProblems(t, dev, d) {
				s, err := vjp.NewSolver(context.Background(), "fista", f.problem, vjp.Options{Sigma2: f.sigma2})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Release()
				for name, m := range mutants {
					if emulated && name != "nothing" {
						continue
					}
					bad := spoiled{s, func(s *vjp.Solution) {
						s.Linearization = spoiledClosed{s.Linearization, m}
					}}
					pipe, err := pipeline.New(bad,
						pipeline.Options{Sigma2: f.sigma2, Verify: &verify.Options{Problem: f.problem}})
					if err != nil {
						t.Fatal(err)
					}
					risk, err := pipe.Estimate(context.Background(), f.y)
					if err != nil {
						t.Fatal(err)
					}
					checkMutant(t, f.name+", "+name, risk.Verification, m != nil)
				}
			}
		}
	})
}

// spread replaces all entries by their mean.
func spread(v []float64) {
	mean := floats.Sum(v) / float64(len(v))
	for i := range v {
		v[i] = mean
	}
}

// checkMutant expects that the diagonal was compared, and that this check alone fails if it is wrong.
func checkMutant(t *testing.T, name string, v *verify.Verification, wrong bool) {
	t.Helper()
	bars := map[string]float64{}
	for _, c := range v.Comparisons {
		bars[c.Name] = c.Bars
	}
	t.Logf("%-60s diagonal %.3g bars; %.3g s", name, bars[verify.Diagonal], v.Seconds)
	if _, ok := bars[verify.Diagonal]; !ok {
		t.Errorf("%s: the diagonal was not compared", name)
	}
	caught := above(v)
	if !wrong {
		if len(caught) > 0 || !v.Passed() {
			t.Errorf("%s: a right result did not pass: %s", name, v.Describe())
		}
	} else if len(caught) != 1 || caught[0] != verify.Diagonal || v.Check != verify.Diagonal {
		t.Errorf("%s: caught by %v, expected %s", name, caught, verify.Diagonal)
	}
}

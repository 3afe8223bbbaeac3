package vjp_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/clustered"
	"surepipe/vjp"
)

// closedProblems have factored systems: on working sets, in other units, with curvature and
// without, on clusters and behind a constraint.
func closedProblems(t *testing.T, dev array.Device, d, p int) map[string]vjp.Problem {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, uint64(p)))
	x, raw := mat.NewDense(d, p, nil), mat.NewDense(d, p, nil)
	for i := range d {
		for j := range p {
			x.Set(i, j, rng.NormFloat64())
			raw.Set(i, j, x.At(i, j)*math.Pow(10, float64(j%5)-2))
		}
	}
	groups := make([][]int, p/4)
	weights := make([]float64, p)
	for j := range p {
		weights[j] = 3 - float64(j)/float64(p)
		groups[min(j/4, len(groups)-1)] = append(groups[min(j/4, len(groups)-1)], j)
	}
	group, err := prox.NewGroupL2(dev, p, 6, groups, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prox.Release(group) })
	slope, err := clustered.NewSortedL1(weights)
	if err != nil {
		t.Fatal(err)
	}
	plain, units := linops.NewDense(dev, x), linops.NewDense(dev, raw)
	t.Cleanup(plain.Release)
	t.Cleanup(units.Release)
	return map[string]vjp.Problem{
		"lasso":                {A: plain, R: prox.NewL1(4), Device: dev},
		"lasso in other units": {A: units, R: prox.NewL1(60), Device: dev},
		"elastic net":          {A: plain, R: prox.NewElasticNet(3, 2), Device: dev},
		"ridge":                {A: plain, R: prox.NewSquaredL2(3), Device: dev},
		"group":                {A: plain, R: group, Device: dev},
		"slope":                {A: plain, R: slope, Device: dev},
	}
}

// The diagonal is that of the Jacobian.
func TestFactoredSystemsKnowTheirDiagonal(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d, p = 24, 300
		y := make([]float64, d)
		for i := range y {
			y[i] = 6 * math.Sin(float64(i*i))
		}
		for name, problem := range closedProblems(t, dev, d, p) {
			t.Run(name, func(t *testing.T) {
				o := vjp.Options{Tol: 1e-12, MaxIter: 100000}
				s := newSolver(t, "fista", problem, o)
				sol := solved(t, s, dev, y)
				defer sol.Release()
				c := sol.Linearization.Closed()
				if !c.Known || c.Diagonal == nil {
					t.Fatalf("known %t, diagonal %t; %v", c.Known, c.Diagonal != nil, sol.Choices)
				}
				checkDiagonal(t, dev, sol, c)
			})
		}
	})
}

func checkDiagonal(t *testing.T, dev array.Device, sol *vjp.Solution, c vjp.Closed) {
	t.Helper()
	diagonal := sure(t, c.Diagonal)
	d := len(diagonal)
	units, images := dev.Alloc(d, d), dev.Alloc(d, d)
	defer units.Free()
	defer images.Free()
	dev.Fill(units, 0)
	dev.Fill(units.Diagonal(), 1)
	if err := sol.Linearization.VJP(context.Background(), images, units); err != nil {
		t.Fatal(err)
	}
	jacobian, sum := images.ToHost(), 0.0
	for i, v := range diagonal {
		sum += v
		if want := jacobian[i*d+i]; math.Abs(v-want) > 1e-9 {
			t.Errorf("diagonal entry %d is %g, expected %g", i, v, want)
		}
	}
	if c.Root == nil {
		t.Fatal("no root")
	}
	root := sure(t, c.Root)
	for i := range d {
		for k := range d {
			got := 0.0
			for n := 0; n < len(root); n += d {
				got += root[n+i] * root[n+k]
			}
			if want := jacobian[i*d+k]; math.Abs(got-want) > 1e-8 {
				t.Fatalf("entry %d, %d of R* R is %g, expected %g", i, k, got, want)
			}
		}
	}
	if math.Abs(sum-c.Trace) > 1e-8*(1+c.Trace) {
		t.Errorf("the diagonal sums to %g, the trace is %g", sum, c.Trace)
	}
}

// sure is what f computes.
func sure(t *testing.T, f func() ([]float64, error)) []float64 {
	t.Helper()
	out, err := f()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// The factors that a path's solver has made give the images that new ones give, and say when they
// have gone.
func TestImagesByTheSolversFactors(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const d, p, k = 60, 140, 5
		rng := rand.New(rand.NewPCG(8, 8))
		x := mat.NewDense(d, p, nil)
		for i := range d {
			for j := range p {
				x.Set(i, j, rng.NormFloat64()*math.Pow(10, float64(j%5)-2))
			}
		}
		a := linops.NewDense(dev, x)
		defer a.Release()
		y, v, got, want := dev.Alloc(1, d), dev.Alloc(k, d), dev.Alloc(k, d), dev.Alloc(k, d)
		for _, b := range []array.Batch{y, v, got, want} {
			defer b.Free()
		}
		values := make([]float64, (k+1)*d)
		for i := range values {
			values[i] = rng.NormFloat64()
		}
		dev.Upload(y, values[:d])
		dev.Upload(v, values[d:])
		for name, r := range map[string]func(s float64) prox.Prox{
			"lasso":       func(s float64) prox.Prox { return prox.NewL1(6 * s) },
			"elastic net": func(s float64) prox.Prox { return prox.NewElasticNet(4*s, 2) },
		} {
			base := newSolver(t, "active-set", vjp.Problem{A: a, R: r(1), Device: dev}, vjp.Options{Tol: 1e-10})
			var path vjp.Path
			for step, weight := range []float64{1, 0.5, 0.2} {
				s, err := base.Reweight(t.Context(), r(weight))
				if err != nil {
					t.Fatal(err)
				}
				sol, err := s.SolveFrom(t.Context(), y, vjp.From{Path: &path})
				if err != nil {
					t.Fatal(err)
				}
				c := sol.Linearization.Closed()
				if c.Images == nil || !c.Images(got, v) {
					t.Fatalf("%s, step %d: the solver's factors are not there", name, step)
				}
				if err := sol.Linearization.VJP(t.Context(), want, v); err != nil {
					t.Fatal(err)
				}
				g, w := got.ToHost(), want.ToHost()
				for i := range w {
					if math.Abs(g[i]-w[i]) > 1e-9 {
						t.Fatalf("%s, step %d: %g, expected %g", name, step, g[i], w[i])
					}
				}
				if step == 2 {
					if path.Release(); c.Images(got, v) {
						t.Errorf("%s: images by factors that have been given up", name)
					}
				}
				sol.Release()
				s.Release()
			}
		}
	})
}

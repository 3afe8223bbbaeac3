package vjp_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/loss"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// parted are places of a 26 x 23 matrix: two blocks of which most entries are seen, a path of four entries, two
// entries of a row, and one by itself, in a mixed order; some rows and columns have none.
func parted(rng *rand.Rand) (shape array.Shape, places []int) {
	shape = array.Shape{Rows: 26, Cols: 23}
	see := func(i, j int) { places = append(places, (i*7+3)%26*23+(j*5+1)%23) }
	for i := range 9 {
		for j := range 8 {
			if rng.IntN(4) > 0 {
				see(i, j)
			}
			if i < 5 && j < 4 {
				see(10+i, 9+j)
			}
		}
	}
	for _, e := range [][2]int{{16, 14}, {16, 15}, {17, 15}, {17, 16}, {18, 17}, {18, 18}, {19, 19}} {
		see(e[0], e[1])
	}
	rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
	return shape, places
}

// A completion part by part is the one of the whole matrix: the estimate, b, its derivative, also along a path,
// with weights, effects and another loss.
func TestPartsOfACompletion(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(4, 4))
		shape, places := parted(rng)
		d := len(places)
		a, err := linops.NewSelection(dev, shape.Len(), places)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Release()
		y, weights, counts := solvetest.Gaussian(rng, d), make([]float64, d), make([]float64, d)
		for i := range y {
			y[i] *= 3
			weights[i], counts[i] = 0.5+rng.Float64(), float64(rng.IntN(4))
		}
		weighted, err := loss.WeightedSquared(dev, weights)
		if err != nil {
			t.Fatal(err)
		}
		defer weighted.Release()
		poisson, err := loss.Poisson(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name       string
			loss       loss.Loss
			y, weights []float64
			effects    bool
			rows, cols bool
		}{
			{name: "squared", y: y},
			{name: "weighted", loss: weighted, y: y},
			{name: "poisson", loss: poisson, y: counts},
			{name: "effects of both", y: y, effects: true, rows: true, cols: true},
			{name: "weighted effects of both", loss: weighted, y: y, weights: weights, effects: true, rows: true,
				cols: true},
			{name: "effects of rows", y: y, effects: true, rows: true},
			{name: "a mean", y: y, effects: true},
		} {
			if arraytest.Emulated(t, dev) && c.weights == nil && c.loss != poisson {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				if testing.Short() && c.name != "squared" && c.name != "weighted effects of both" {
					t.Skip("what differs is above the device")
				}
				p, y := vjp.Problem{A: a, Loss: c.loss, R: lowrank.NewNuclear(shape, 1.5), Device: dev}, c.y
				if c.effects {
					e, err := additive.NewEffects(dev, shape, places, c.rows, c.cols, c.weights)
					if err != nil {
						t.Fatal(err)
					}
					defer e.Release()
					p.A = additive.WithoutEffects(a, e)
					z := dev.Alloc(1, d)
					dev.Upload(z, y)
					e.Remove(z)
					y = z.ToHost()
					z.Free()
				}
				checkParts(t, dev, p, y)
			})
		}
	})
}

// checkParts compares with the solution by an operator that does not know that it has parts.
func checkParts(t *testing.T, dev array.Device, p vjp.Problem, y []float64) {
	t.Helper()
	d, dim := p.A.Dims()
	o, accuracy := vjp.Options{Derivative: vjp.Implicit, Tol: 1e-11}, 1e-7
	if !loss.Quadratic(p.Loss) { // for which the solver has no Newton steps
		o.Tol, accuracy = 1e-7, 1e-4
	}
	whole := p
	whole.A = plain{p.A}
	want := solved(t, newSolver(t, "fista", whole, o), dev, y)
	defer want.Release()
	solver := newSolver(t, "fista", p, o)
	got := solved(t, solver, dev, y)
	defer got.Release()
	size := floats.Norm(y, 2)
	same := func(what string, got, want []float64, tol float64) {
		t.Helper()
		if off := floats.Distance(got, want, 2); !(off <= tol*size) {
			t.Errorf("%s is off by %.3g, y of size %.3g", what, off, size)
		}
	}
	mu, b := want.MuHat.ToHost(), want.B.ToHost()
	same("mu_hat", got.MuHat.ToHost(), mu, accuracy)
	same("b", got.B.ToHost(), b, accuracy)
	if !got.Converged || got.Error > 1e-2 {
		t.Errorf("optimality %g, error %g, converged %v", got.Optimality, got.Error, got.Converged)
	}
	same("the derivative", derivative(t, dev, got, d), derivative(t, dev, want, d), 10*accuracy)

	// Factors, and a path.
	o.Compact = true
	compact := newSolver(t, "fista", p, o)
	first := solved(t, compact, dev, y)
	defer first.Release()
	low := first.Implied.Factors()
	if err := low.Check(); err != nil {
		t.Error(err)
	}
	joined, err := low.Joined()
	if err != nil {
		t.Fatal(err)
	}
	same("b by its factors", low.Dense(), b, accuracy)
	same("b by the joined factors", joined.Dense(), b, accuracy)
	places := []int{0, 7, dim / 2, dim - 1}
	for i, v := range low.Places(places) {
		same("an entry", []float64{v, joined.At(places[i]/23, places[i]%23)}, []float64{b[places[i]], b[places[i]]},
			accuracy)
	}
	path := new(vjp.Path)
	defer path.Release()
	for _, from := range []vjp.From{{Factors: low}, {Factors: joined}, {B: want.B}, {Path: path}, {Path: path}} {
		at := dev.Put(y, 1, d)
		again, err := compact.SolveFrom(context.Background(), at, from)
		if err != nil {
			t.Fatal(err)
		}
		estimate := make([]float64, d)
		again.Implied.MuHat(estimate, 0)
		same("mu_hat from a warm start", estimate, mu, accuracy)
		again.Release()
		at.Free()
	}
	r := lowrank.NewNuclear(array.Shape{Rows: 26, Cols: 23}, 2.5)
	reweighted, err := solver.Reweight(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer reweighted.Release()
	p.R, o.Compact = r, false
	fresh := solved(t, newSolver(t, "fista", p, o), dev, y)
	defer fresh.Release()
	other := solved(t, reweighted, dev, y)
	defer other.Release()
	same("mu_hat at another weight", other.MuHat.ToHost(), fresh.MuHat.ToHost(), 0)
}

// derivative is D mu_hat, row by row; what is known of it without images is checked.
func derivative(t *testing.T, dev array.Device, sol *vjp.Solution, d int) []float64 {
	t.Helper()
	out := jacobian(t, sol.Linearization, dev, d).RawMatrix().Data
	c, trace := sol.Linearization.Closed(), 0.0
	for i := range d {
		trace += out[i*d+i]
	}
	if c.Known && math.Abs(c.Trace-trace) > 1e-6*trace {
		t.Errorf("the trace is %g, known as %g", trace, c.Trace)
	}
	if c.Diagonal == nil {
		return out
	}
	diagonal, err := c.Diagonal()
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range diagonal {
		if math.Abs(v-out[i*d+i]) > 1e-7 {
			t.Errorf("entry %d of the diagonal is %g, expected %g", i, v, out[i*d+i])
		}
	}
	return out
}

// Parts of which most is seen improve their own probes: what they change of the images of unit vectors is off the
// diagonal, most of which goes.
func TestPartsImproveTheirProbes(t *testing.T) {
	solvetest.Decompose(t)
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		if arraytest.Emulated(t, dev) {
			t.Skip("what differs is above the device")
		}
		rng := rand.New(rand.NewPCG(4, 5))
		shape, places := array.Shape{Rows: 38, Cols: 37}, []int(nil)
		for place := range shape.Len() { // the last row and the last columns have none
			if i, j := place/37, place%37; i < 37 && j < 34 && i%2 == j%2 && rng.IntN(5) > 0 {
				places = append(places, place)
			}
		}
		rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
		d := len(places)
		a, err := linops.NewSelection(dev, shape.Len(), places)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Release()
		p := vjp.Problem{A: a, R: lowrank.NewNuclear(shape, 4), Device: dev}
		s, err := vjp.NewSolver(t.Context(), "fista", p, vjp.Options{Derivative: vjp.Implicit, Tol: 1e-10})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		sol := solved(t, s, dev, solvetest.Gaussian(rng, d))
		defer sol.Release()
		control := sol.Linearization.Closed().Control
		if control == nil {
			t.Fatal("nothing improves the probes")
		}
		signs, images := dev.Alloc(d, d), dev.Alloc(d, d)
		defer array.Free(signs, images)
		dev.Fill(signs, 0)
		dev.Fill(signs.Diagonal(), 1)
		before := derivative(t, dev, sol, d)
		dev.Upload(images, before)
		control(signs, images)
		var old, left float64
		for i, v := range images.ToHost() {
			if i%(d+1) != 0 {
				old, left = old+before[i]*before[i], left+v*v
			} else if math.Abs(v-before[i]) > 1e-9 {
				t.Errorf("entry %d of the diagonal is %g, expected %g", i/(d+1), v, before[i])
			}
		}
		if !(left < old/2) {
			t.Errorf("off the diagonal there are squares of %g, and %g without control", left, old)
		}
	})
}

package vjp_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
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

// The leverages of completions are the central differences of the solver, tall and wide, with effects and weights, in
// connected parts and in both forms of the iterates, and ||D mu_hat||_F^2 and images belong to them.
func TestLeveragesOfCompletionsAgainstCentralDifferences(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range []struct {
			shape                     array.Shape
			parts                     bool
			effects, rows, cols       bool
			weighted, factored, large bool
		}{
			{shape: array.Shape{Rows: 24, Cols: 14}},
			{shape: array.Shape{Rows: 14, Cols: 24}, factored: true},
			{shape: array.Shape{Rows: 24, Cols: 14}, effects: true, rows: true, cols: true},
			{shape: array.Shape{Rows: 14, Cols: 24}, effects: true, rows: true, factored: true},
			{shape: array.Shape{Rows: 24, Cols: 14}, effects: true, cols: true},
			{shape: array.Shape{Rows: 24, Cols: 14}, effects: true},
			{shape: array.Shape{Rows: 24, Cols: 14}, effects: true, weighted: true},
			{shape: array.Shape{Rows: 24, Cols: 14}, weighted: true},
			{shape: array.Shape{Rows: 14, Cols: 24}, effects: true, rows: true, cols: true, weighted: true},
			{shape: array.Shape{Rows: 40, Cols: 30}, parts: true, effects: true, rows: true},
			{shape: array.Shape{Rows: 40, Cols: 30}, parts: true, effects: true, rows: true, cols: true},
		} {
			if arraytest.Emulated(t, dev) && !c.factored && !(c.cols && (c.weighted || c.parts)) {
				continue
			}
			t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
				if c.factored {
					vjp.FactorAll(t)
				}
				arraytest.NoLeak(t, dev)
				rng := rand.New(rand.NewPCG(7, 7))
				var places []int
				for i := range c.shape.Rows {
					for j := range c.shape.Cols {
						apart := c.parts && (i < 20) != (j < 16)
						if !apart && (rng.Float64() < 0.7 || i%c.shape.Cols == j) {
							places = append(places, i*c.shape.Cols+j)
						}
					}
				}
				rng.Shuffle(len(places), func(i, j int) { places[i], places[j] = places[j], places[i] })
				d := len(places)
				y, weights := lowRankSample(rng, c.shape, places), []float64(nil)
				a, err := linops.NewSelection(dev, c.shape.Len(), places)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Release()
				p := vjp.Problem{A: a, R: lowrank.NewNuclear(c.shape, 4), Device: dev}
				if c.weighted {
					for range places {
						weights = append(weights, 0.5+rng.Float64())
					}
					w, err := loss.WeightedSquared(dev, weights)
					if err != nil {
						t.Fatal(err)
					}
					defer w.Release()
					p.Loss = w
				}
				remove := func(y []float64) []float64 { return y }
				if c.effects {
					e, err := additive.NewEffects(dev, c.shape, places, c.rows, c.cols, weights)
					if err != nil {
						t.Fatal(err)
					}
					defer e.Release()
					p.A = additive.WithoutEffects(a, e)
					remove = func(y []float64) []float64 {
						z := dev.Put(y, 1, d)
						defer z.Free()
						e.Remove(z)
						return z.ToHost()
					}
				}
				checkLeverages(t, dev, p, y, remove)
			})
		}
	})
}

// lowRankSample are entries of a matrix of rank 3 with unit noise.
func lowRankSample(rng *rand.Rand, shape array.Shape, places []int) []float64 {
	l, r := solvetest.Gaussian(rng, 3*shape.Rows), solvetest.Gaussian(rng, 3*shape.Cols)
	y := make([]float64, len(places))
	for e, place := range places {
		i, j := place/shape.Cols, place%shape.Cols
		y[e] = 2*floats.Dot(l[3*i:3*i+3], r[3*j:3*j+3]) + rng.NormFloat64()
	}
	return y
}

func checkLeverages(t *testing.T, dev array.Device, p vjp.Problem, y []float64, remove func([]float64) []float64) {
	t.Helper()
	d := len(y)
	solver := newSolver(t, "fista", p, vjp.Options{Derivative: vjp.Implicit, Tol: 1e-13, MaxIter: 100000, Images: true})
	sol := solved(t, solver, dev, remove(y))
	defer sol.Release()
	c := sol.Linearization.Closed()
	if !slices.ContainsFunc(sol.Choices, func(c vjp.Choice) bool { return c.Chosen == "factored, with its diagonal" }) {
		t.Fatalf("not by the arrow: %+v", sol.Choices)
	}
	h, err := c.Diagonal()
	if err != nil {
		t.Fatal(err)
	}
	if off := math.Abs(floats.Sum(h) - c.Trace); off > 1e-12*c.Trace {
		t.Errorf("trace %g, sum of the diagonal %g", c.Trace, floats.Sum(h))
	}
	units, images := dev.Alloc(d, d), dev.Alloc(d, d)
	defer units.Free()
	defer images.Free()
	dev.Fill(units, 0)
	dev.Fill(units.Diagonal(), 1)
	if err := sol.Linearization.VJP(t.Context(), images, units); err != nil {
		t.Fatal(err)
	}
	all := images.ToHost()
	if square := floats.Dot(all, all); math.Abs(square-c.Frobenius2) > 1e-10*square {
		t.Errorf("||D||_F^2 = %g, that of the images %g", c.Frobenius2, square)
	}
	for e := range d {
		if off := math.Abs(all[e*d+e] - h[e]); off > 1e-11 {
			t.Errorf("leverage %d is %g, by the image %g", e, h[e], all[e*d+e])
		}
	}
	const step = 1e-4
	for e := 0; e < d; e += d / 7 {
		var mu [2][]float64
		for i, by := range []float64{step, -step} {
			moved := slices.Clone(y)
			moved[e] += by
			s := solved(t, solver, dev, remove(moved))
			mu[i] = s.MuHat.ToHost()
			s.Release()
		}
		if slope := (mu[0][e] - mu[1][e]) / (2 * step); math.Abs(slope-h[e]) > 3e-8 {
			t.Errorf("leverage %d is %.10f, by central differences %.10f", e, h[e], slope)
		}
	}
}

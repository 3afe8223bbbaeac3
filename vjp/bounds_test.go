package vjp_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/hutch"
	"surepipe/linops"
	"surepipe/prox"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// The error of a form against one of converged images is not negative and within its bound, the
// bound is at most the requested one, the image is within the root of the bound, and batches change
// no bit.
func TestFormsAreWithinTheirBounds(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		vjp.FactorAll(t)
		type problem struct {
			name string
			a    linops.Operator
			r    prox.Prox
			y    []float64
		}
		var problems []problem
		solvetest.IterateAll(t)
		for _, i := range []int{0, 4, 5} {
			c := solvetest.CompletionCases[i].On(t, dev)
			a, y := solvetest.Completion(t, dev, c.Shape, c.D)
			r := lowrank.NewNuclear(c.Shape, c.Weight(t, dev, a, y))
			problems = append(problems, problem{c.Name, a, r, y})
			if !arraytest.Emulated(t, dev) {
				problems = append(problems, problem{c.Name + ", J's product", plain{a}, r, y})
			}
		}
		shape := array.Shape{Rows: 18, Cols: 14}
		n := shape.Len()
		rng := rand.New(rand.NewPCG(4, 4))
		y := solvetest.Gaussian(rng, n)
		floats.Scale(2, y)
		problems = append(problems, problem{"robust PCA", linops.HStack(linops.Identity(n), linops.Identity(n)),
			prox.NewSeparable(lowrank.NewNuclear(shape, 4), prox.Block{Prox: prox.NewL1(1.5), N: n}), y})
		for _, p := range problems {
			t.Run(p.name, func(t *testing.T) {
				arraytest.NoLeak(t, dev)
				checkBounds(t, dev, vjp.Problem{A: p.a, R: p.r, Device: dev}, p.y)
			})
		}
	})
}

func checkBounds(t *testing.T, dev array.Device, p vjp.Problem, y []float64) {
	sol := solved(t, newSolver(t, "fista", p, vjp.Options{Derivative: vjp.Implicit}), dev, y)
	defer sol.Release()
	former := sol.Linearization
	const k = 6
	d := len(y)
	v, exact, rough, pair := dev.Alloc(k, d), dev.Alloc(k, d), dev.Alloc(k, d), dev.Alloc(2, d)
	for _, b := range []array.Batch{v, exact, rough, pair} {
		defer b.Free()
	}
	dev.Upload(v, solvetest.Gaussian(rand.New(rand.NewPCG(9, 9)), k*d))
	want, form, size, off := make([]float64, k), make([]float64, k), make([]float64, k), make([]float64, k)
	if err := former.VJP(t.Context(), exact, v); err != nil {
		t.Fatal(err)
	}
	dev.Dot(want, v, exact)
	dev.Dot(size, v, v)
	for _, share := range []float64{1, 0.1, 0.01, 1e-4} {
		left, two := make([]float64, k), make([]float64, 2)
		forms := hutch.Accuracy{Need: hutch.Forms, Share: share}
		if err := former.Apply(t.Context(), rough, v, forms, left); err != nil {
			t.Fatal(err)
		}
		if err := former.Apply(t.Context(), pair, v.Rows(2, 4), forms, two); err != nil {
			t.Fatal(err)
		}
		dev.Dot(form, v, rough)
		if two[1] != left[3] || pair.ToHost()[d] != rough.ToHost()[3*d] {
			t.Errorf("share %g: bound %g of a batch of six, %g of two", share, left[3], two[1])
		}
		dev.Lin(rough, 1, rough, -1, exact)
		dev.Dot(off, rough, rough)
		for i := range k {
			lacks, rounding := want[i]-form[i], 1e-9*want[i]
			if lacks < -rounding || lacks > left[i]+rounding {
				t.Errorf("share %g, probe %d: the form %g lacks %g, bound %g", share, i, form[i], lacks, left[i])
			}
			if left[i] > share*size[i]/math.Sqrt(2*float64(d)) {
				t.Errorf("share %g, probe %d: bound %g of %g", share, i, left[i], size[i])
			}
			if off[i] > left[i]*1.01+rounding {
				t.Errorf("share %g, probe %d: the image is off by %g, bound %g", share, i, off[i], left[i])
			}
		}
		t.Logf("share %g: form %g lacks %g, bound %g, image off by %g", share, form[0], want[0]-form[0], left[0],
			off[0])
	}
	if n := former.Inner(); n.Failed > 0 {
		t.Errorf("%d probes stopped short after %d steps", n.Failed, n.Steps)
	}
}

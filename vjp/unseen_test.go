package vjp_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/additive"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
	"surepipe/vjp"
)

// Where most entries are seen the system is that of the others: images are those of an operator without structure,
// with effects, rows that have no entry, and all entries seen too.
func TestUnseenEntriesAreFilledIn(t *testing.T) {
	solvetest.Decompose(t)
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		shape := array.Shape{Rows: 24, Cols: 18}
		for _, seen := range []float64{0.5, 0.9, 1} {
			for effects := range 4 {
				if arraytest.Emulated(t, dev) && (seen != 0.9 || effects%3 == 1) {
					continue
				}
				rows, cols := effects&1 > 0, effects&2 > 0
				t.Run(fmt.Sprintf("%v, rows %v, cols %v", seen, rows, cols), func(t *testing.T) {
					arraytest.NoLeak(t, dev)
					checkUnseen(t, dev, shape, seen, rows, cols)
				})
			}
		}
	})
}

func checkUnseen(t *testing.T, dev array.Device, shape array.Shape, seen float64, rows, cols bool) {
	rng := rand.New(rand.NewPCG(5, 6))
	var places []int
	for place := range shape.Len() {
		if seen == 1 || rng.Float64() < seen && place/shape.Cols != 3 && place%shape.Cols != 7 {
			places = append(places, place)
		}
	}
	s, err := linops.NewSelection(dev, shape.Len(), places)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	var a linops.Operator = s
	y := solvetest.Gaussian(rng, len(places))
	for i, place := range places {
		y[i] += float64(place%shape.Cols) * float64(place/shape.Cols%5) / 4
	}
	if rows || cols {
		e, err := additive.NewEffects(dev, shape, places, rows, cols, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer e.Release()
		on := dev.Put(y, 1, len(y))
		e.Remove(on)
		y = on.ToHost()
		on.Free()
		a = additive.WithoutEffects(s, e)
	}
	o := vjp.Options{Derivative: vjp.Implicit, Tol: 1e-10}
	r := lowrank.NewNuclear(shape, 4)
	got := solved(t, newSolver(t, "fista", vjp.Problem{A: a, R: r, Device: dev}, o), dev, y)
	defer got.Release()
	want := solved(t, newSolver(t, "fista", vjp.Problem{A: plain{a}, R: r, Device: dev}, o), dev, y)
	defer want.Release()
	by := ""
	for _, c := range got.Choices {
		if c.Part == "space" {
			by = c.Chosen
		}
	}
	if seen < 1 && !strings.Contains(by, "not seen") {
		t.Fatalf("the space is %q", by)
	}
	probes, images := dev.Alloc(3, len(y)), dev.Alloc(3, len(y))
	defer array.Free(probes, images)
	dev.Upload(probes, solvetest.Gaussian(rng, 3*len(y)))
	image := func(s *vjp.Solution) []float64 {
		if err := s.Linearization.VJP(context.Background(), images, probes); err != nil {
			t.Fatal(err)
		}
		return images.ToHost()
	}
	near(t, "the Jacobian's images", image(got), image(want), 1e-6)
}

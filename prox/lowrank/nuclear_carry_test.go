package lowrank_test

import (
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox/lowrank"
	"surepipe/solve/solvetest"
)

// A product with K is what the preconditioner says of its own vectors.
func TestCurvatureMultiplies(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for _, c := range curvatureCases {
			x := withSingularValues(c.m, c.n, c.sigma...)
			curved, _ := x.curvature(dev, 3, 1, varied(c.m, c.n), 0)
			defer curved.Release()
			z, want := dense(dev, curved, identity(curved.Len()))
			in, out := dev.Alloc(curved.Len(), curved.Len()), dev.Alloc(curved.Len(), curved.Len())
			defer in.Free()
			defer out.Free()
			dev.Upload(in, z)
			curved.Model(nil).Carried.Multiply(out, in)
			if off := floats.Distance(out.ToHost(), want, 2); !(off <= 1e-12*floats.Norm(want, 2)) {
				t.Errorf("%d x %d: off by %.2g of %.2g", c.m, c.n, off, floats.Norm(want, 2))
			}
		}
	})
}

// Coordinates with another frame become those of the orthogonal projection on this tangent space.
func TestCoordinatesAreCarried(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		const m, n, count = 9, 7, 3
		at := func(tau float64, sigma ...float64) *lowrank.NuclearCurvature {
			k, _ := withSingularValues(m, n, sigma...).curvature(dev, tau, 1, varied(m, n), 0)
			return k
		}
		there, here := at(3, 9, 6, 4, 2, 1, .5, .1), at(2, 8, 7, 4, 3, 1, .5, .1)
		defer there.Release()
		defer here.Release()
		from, to := there.Space(), here.Space()
		defer from.Release()
		defer to.Release()
		z := dev.Alloc(count, there.Len())
		c := dev.Alloc(count, here.Len())
		old, got, want := dev.Alloc(count, m*n), dev.Alloc(count, m*n), dev.Alloc(count, m*n)
		for _, b := range []array.Batch{z, c, old, got, want} {
			defer b.Free()
		}
		dev.Upload(z, solvetest.Gaussian(rand.New(rand.NewPCG(1, 2)), count*there.Len()))
		from.Embed(old, z)
		to.Project(want, old)
		before, now := there.Model(nil).Carried, here.Model(nil).Carried
		now.From(before.Frame())(c, z)
		to.Embed(got, c)
		if off := floats.Distance(got.ToHost(), want.ToHost(), 2); !(off <= 1e-12*floats.Norm(want.ToHost(), 2)) {
			t.Errorf("the projection is off by %.2g", off)
		}
		// Q has no part within U.
		q := c.Cols(0, m*4)
		inU := dev.Alloc(count, 4*4)
		defer inU.Free()
		u, _ := here.Factors()
		dev.GemmEach(true, false, 1, u, array.Shape{Rows: m, Cols: 4}, q, array.Shape{Rows: m, Cols: 4}, 0, inU)
		if size := floats.Norm(inU.ToHost(), 2); !(size <= 1e-10) {
			t.Errorf("U* Q is %.2g", size)
		}
		if now.From("a frame of another kind") != nil {
			t.Error("a frame of another kind is accepted")
		}
	})
}

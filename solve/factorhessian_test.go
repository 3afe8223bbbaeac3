package solve

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"surepipe/array"
)

// The blocks' inverses, the coupling and the elimination are those of the second derivative of phi, by
// central differences of its gradient, and its quadratic form vanishes along (L M, -R M*).
func TestFactorHessianIsTheSecondDerivative(t *testing.T) {
	dev := array.NewHost()
	for _, shape := range []array.Shape{{Rows: 7, Cols: 5}, {Rows: 5, Cols: 8}} {
		m, n, k := shape.Rows, shape.Cols, 3
		const mu = 0.7
		rng := rand.New(rand.NewPCG(uint64(m), 3))
		var places []int
		for p := range m * n {
			if rng.Float64() < 0.5 {
				places = append(places, p)
			}
		}
		random := func(n int) array.Batch {
			b, host := dev.Alloc(1, n), make([]float64, n)
			for i := range host {
				host[i] = rng.NormFloat64()
			}
			dev.Upload(b, host)
			return b
		}
		pattern := dev.NewPattern(m, n, places)
		y := random(len(places))
		w := &matrices{nuclearSampling: &nuclearSampling{shape: shape}, dev: dev, pattern: pattern, m: m, n: n}
		w.seen = seen(dev, pattern)
		w.z = dev.Alloc(1, len(places))
		u, v := random(m*k), random(n*k)
		h, err := w.newFactorHessian(t.Context(), u.Reshape(m, k), []float64{1, 1, 1}, v.Reshape(n, k), w.z, mu)
		if err != nil {
			t.Fatal(err)
		}
		x := [2]array.Batch{random(m * k), random(n * k)}
		gradient := func(step float64) [2][]float64 {
			at := &factorHessian{dev: dev, k: k, d: len(places), pattern: pattern, misfit: dev.Alloc(1, len(places))}
			for i, f := range []array.Batch{u, v} {
				moved := dev.Alloc(1, f.N())
				dev.Lin(moved, 1, f, step, x[i])
				at.side[i] = factorSide{n: f.N() / k, factor: moved}
			}
			at.sample(rowSide, at.misfit, at.side[rowSide].factor, 0)
			dev.Lin(at.misfit, 1, at.misfit, -1, y)
			if step == 0 {
				dev.Copy(w.z, at.misfit)
			}
			var g [2][]float64
			for i := range g {
				d := dev.Alloc(1, x[i].N())
				at.descent(i, d, mu)
				g[i] = d.ToHost()
			}
			return g
		}
		gradient(0)
		const step = 1e-4
		up, down := gradient(step), gradient(-step)
		for side := range x {
			// D x = (the derivative of the gradient) - C x', hence D^{-1} of that is x.
			c := dev.Alloc(1, x[side].N())
			h.couple(side, c, x[1-side])
			host := c.ToHost()
			for i := range host {
				host[i] = (down[side][i]-up[side][i])/(2*step) - host[i]
			}
			dev.Upload(c, host)
			h.invert(side, c, c)
			for i, got := range c.ToHost() {
				if want := x[side].ToHost()[i]; math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
					t.Fatalf("%v, side %d: coordinate %d is %g after a product with D and its inverse, was %g", shape, side, i, got, want)
				}
			}
		}
		if !slices.Equal(u.ToHost(), h.side[rowSide].factor.ToHost()) {
			t.Error("the factors are not U F^{1/2}")
		}
		h.free()
	}
}

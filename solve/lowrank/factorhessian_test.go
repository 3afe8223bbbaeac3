package lowrank

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"surepipe/array"
)

// The blocks' inverses, the coupling and the elimination are those of the second derivative of phi, by
// central differences of its gradient.
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
		w := &sampled{Sampling: &Sampling{shape: shape}, pattern: pattern,
			iterates: iterates{dev: dev, m: m, n: n}}
		w.seen = seen(dev, pattern)
		w.z = dev.Alloc(1, len(places))
		u, v := random(m*k), random(n*k)
		h, err := w.newFactorHessian(t.Context(), u.Reshape(m, k), []float64{1, 1, 1}, v.Reshape(n, k), w.z, mu)
		if err != nil {
			t.Fatal(err)
		}
		x := [2]array.Batch{random(m * k), random(n * k)}
		gradient := func(step float64) [2][]float64 {
			at := &factorHessian{dev: dev, mu: mu, rank: k, k: k, d: len(places), pattern: pattern,
				misfit: dev.Alloc(1, len(places))}
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
				at.descent(i, d)
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
			inverse := dev.Alloc(1, c.N())
			h.invert(side, inverse, c)
			for i, got := range inverse.ToHost() {
				if want := x[side].ToHost()[i]; math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
					t.Fatalf("%v, side %d: coordinate %d is %g after a product with D and its inverse, was %g", shape,
						side, i, got, want)
				}
			}
		}
		// With Q = 0 the gradient's derivatives are D_R P and C P.
		in, out := h.in(), h.out()
		dev.Fill(x[out], 0)
		up, down = gradient(step), gradient(-step)
		for i := range up[in] {
			up[in][i] = (down[in][i] - up[in][i]) / (2 * step)
		}
		want, c, q, got := dev.Alloc(1, x[in].N()), dev.Alloc(1, x[out].N()), dev.Alloc(1, x[out].N()),
			dev.Alloc(1, x[in].N())
		h.couple(out, c, x[in])
		h.invert(out, q, c)
		h.couple(in, want, q)
		h.square(got, x[in])
		for i, eliminated := range want.ToHost() {
			if want, got := up[in][i]-eliminated, got.ToHost()[i]; math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
				t.Fatalf("%v: coordinate %d of a product with S is %g, expected %g", shape, i, got, want)
			}
		}
		if !slices.Equal(u.ToHost(), h.side[rowSide].factor.ToHost()) {
			t.Error("the factors are not U F^{1/2}")
		}
		h.free()
	}
}

// What is taken out of a direction P is its part -V F^{1/2} M*, M antisymmetric.
func TestDirectionsWithoutCurvatureAreTakenOut(t *testing.T) {
	dev := array.NewHost()
	const n, k = 9, 4
	rng := rand.New(rand.NewPCG(4, 4))
	f := []float64{5, 3, 1, 0.2}
	v, r := dev.Alloc(n, k), dev.Alloc(1, k*k)
	host := make([]float64, n*k)
	for i := range k {
		host[i*k+i] = 1
	}
	dev.Upload(v, host)
	anti := make([]float64, k*k)
	for i := range k {
		for j := range i {
			anti[i*k+j] = rng.NormFloat64()
			anti[j*k+i] = -anti[i*k+j]
		}
	}
	for i := range k {
		for j := range k {
			anti[i*k+j] *= math.Sqrt(f[i])
		}
	}
	dev.Upload(r, anti)
	for _, width := range []int{k, k + 1} {
		h := &factorHessian{dev: dev, mu: 1, rank: k, k: width, rows: true}
		h.side[columnSide].n = n
		ones := dev.Alloc(n, width)
		dev.Fill(ones, 1)
		core := make([]float64, k*k)
		h.deflate(v, f, core, ones)
		x, null := dev.Alloc(1, n*width), dev.Alloc(1, n*width)
		dev.Fill(null, 0)
		dev.Gemm(false, false, 1, v, r.Reshape(k, k), 0, h.columns(columnSide, null))
		random := make([]float64, n*width)
		for i := range random {
			random[i] = rng.NormFloat64()
		}
		dev.Upload(x, random)
		clean(h, x)
		once := x.ToHost()
		if along := dot(x, null); math.Abs(along) > 1e-12 {
			t.Errorf("width %d: a part %g is left", width, along)
		}
		dev.Lin(x, 1, x, 2, null)
		clean(h, x)
		for i, got := range x.ToHost() {
			if math.Abs(got-once[i]) > 1e-12 {
				t.Fatalf("width %d: coordinate %d is %g, was %g without a part that has no curvature", width, i, got,
					once[i])
			}
		}
	}
}

// clean takes the directions out of x along which the second derivative is 0.
func clean(h *factorHessian, x array.Batch) {
	sum := h.dev.Alloc(x.K(), h.k*h.k)
	h.along(sum, x, h.nullSame, h.nullTurned, 0)
	h.addAlong(x, sum)
	sum.Free()
}

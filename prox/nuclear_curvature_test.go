package prox_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox"
)

// denseNormal is a matrix by products, m x n.
type denseNormal struct {
	g     array.Batch
	shape array.Shape
}

func (d denseNormal) SubMul(trans bool, dst, x array.Batch) {
	rows := d.shape.Cols
	if trans {
		rows = d.shape.Rows
	}
	d.g.Device().GemmEach(trans, false, -1, d.g, d.shape, x, array.Shape{Rows: rows, Cols: x.N() / rows}, 1, dst)
}

func (d denseNormal) Bytes() int64 { return d.g.Bytes() }
func (d denseNormal) Release()     { d.g.Free() }

// columns puts columns from to to-1 of the n x n orthogonal matrix on the device.
func (x matrix) columns(dev array.Device, left bool, from, to int) array.Batch {
	u, n := x.v, x.n
	if left {
		u, n = x.u, x.m
	}
	host := make([]float64, 0, n*(to-from))
	for i := range n {
		for j := from; j < to; j++ {
			host = append(host, u.At(i, j))
		}
	}
	b := dev.Alloc(n, to-from)
	dev.Upload(b, host)
	return b
}

// curvature returns K of the threshold tau at x, with eta = 1 and with as many leading triplets as
// asked for, rotated by an angle that makes them wrong.
func (x matrix) curvature(dev array.Device, tau float64, lead int, h, wrong float64) (*prox.NuclearCurvature, int) {
	r := 0
	for r < len(x.sigma) && x.sigma[r] > tau {
		r++
	}
	f := make([]float64, r)
	for i := range f {
		f[i] = x.sigma[i] - tau
	}
	u, v := x.columns(dev, true, 0, r), x.columns(dev, false, 0, r)
	defer u.Free()
	defer v.Free()
	a, c := x.columns(dev, true, r, r+lead), x.columns(dev, false, r, r+lead)
	defer a.Free()
	defer c.Free()
	if lead > 1 {
		// A plane rotation of the first two.
		host := a.ToHost()
		for i := range x.m {
			p, q := host[i*lead], host[i*lead+1]
			host[i*lead], host[i*lead+1] = math.Cos(wrong)*p-math.Sin(wrong)*q, math.Sin(wrong)*p+math.Cos(wrong)*q
		}
		dev.Upload(a, host)
	}
	// G has U V* in T, to be taken for W.
	inactive := slices.Clone(x.sigma)
	for i := range r {
		inactive[i] = tau
	}
	w := matrix{x.m, x.n, inactive, x.u, x.v}
	normal := denseNormal{dev.Alloc(1, x.m*x.n), array.Shape{Rows: x.m, Cols: x.n}}
	dev.Upload(normal.g, w.data())
	return prox.NewNuclearCurvature(tau, u, f, v, prox.Leading{Sigma: x.sigma[r : r+lead], A: a, C: c}, h, normal), r
}

// data is the matrix itself, row-major.
func (x matrix) data() []float64 {
	out := make([]float64, x.m*x.n)
	for i := range x.m {
		for j := range x.n {
			for k, s := range x.sigma {
				out[i*x.n+j] += s * x.u.At(i, k) * x.v.At(j, k)
			}
		}
	}
	return out
}

// expand sets dst = Q v* + u P*.
func expand(dst, z, u, v array.Batch, m, n, r int) {
	dev := dst.Device()
	mr, nr := array.Shape{Rows: m, Cols: r}, array.Shape{Rows: n, Cols: r}
	dev.GemmEach(false, true, 1, z.Cols(0, m*r), mr, v, nr, 0, dst)
	dev.GemmEach(false, true, 1, u, mr, z.Cols(m*r, (m+n)*r), nr, 1, dst)
}

var curvatureCases = []struct {
	m, n  int
	sigma []float64
}{
	{9, 7, []float64{9, 6, 4, 2.5, 1.8, 0.7, 0.2}},
	{6, 8, []float64{7, 5, 2.9, 2.8, 1, 0.3}},
	{8, 8, []float64{5, 5, 5, 2.9, 2.9, 0, 0, 0}},      // repeated values, W singular
	{8, 7, []float64{300, 5, 3.0001, 3, 2.99, 1, 0.1}}, // at the threshold and beside it
	{7, 7, []float64{8, 2, 1, 0.9, 0.8, 0.7, 0.6}},     // one active value
}

// With J the derivative, J (Z + K Z) = Z for every Z in the tangent space, K being that of
// t = 1.
func TestCurvatureIsTheInverseOfTheDerivative(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for _, c := range curvatureCases {
			const tau, k = 3., 4
			m, n := c.m, c.n
			x := withSingularValues(m, n, c.sigma...)
			curved, r := x.curvature(dev, tau, 2, 0.3, 0)
			at := dev.Alloc(1, m*n)
			dev.Upload(at, x.data())
			j, err := prox.NewNuclear(array.Shape{Rows: m, Cols: n}, tau).Linearize(at, at, 1)
			if err != nil {
				t.Fatal(err)
			}
			z, kz, from := dev.Alloc(k, curved.Len()), dev.Alloc(k, curved.Len()), dev.Alloc(k, curved.Len())
			random := make([]float64, k*curved.Len())
			rng := rand.New(rand.NewPCG(3, 4))
			for i := range random {
				random[i] = rng.NormFloat64()
			}
			dev.Upload(from, random)
			curved.Precondition(z, kz, from)
			// K's coordinates are a gradient's: its matrix is Q F^{-1/2} V* + U F^{-1/2} P*
			// less what P and Q both have of U U*.
			u, v := curved.Factors()
			full, sum := dev.Alloc(k, m*n), dev.Alloc(k, m*n)
			expand(full, z, u, v, m, n, r)
			project := func(b array.Batch) {
				mr, rr := array.Shape{Rows: m, Cols: r}, array.Shape{Rows: r, Cols: r}
				u1 := x.columns(dev, true, 0, r)
				defer u1.Free()
				inner := dev.Alloc(k, r*r)
				defer inner.Free()
				dev.GemmEach(true, false, 1, u1.Reshape(1, m*r), mr, b.Cols(0, m*r), mr, 0, inner)
				dev.GemmEach(false, false, -1, u1.Reshape(1, m*r), mr, inner, rr, 1, b.Cols(0, m*r))
			}
			project(kz)
			host := kz.ToHost()
			for i := range host {
				host[i] /= c.sigma[i%r] - tau
			}
			dev.Upload(kz, host)
			expand(sum, kz, u, v, m, n, r)
			dev.Lin(sum, 1, full, 1, sum)
			j.Apply(sum, sum)
			got, want := sum.ToHost(), full.ToHost()
			// The derivative's vectors come out of squares: the range counts twice. And
			// sigma - tau is known to the rounding of the largest value.
			tol := max(1e-11, 1e-14*c.sigma[0]*c.sigma[0]/(tau*tau), 16*0x1p-52*c.sigma[0]/(c.sigma[r-1]-tau))
			if e := floats.Distance(got, want, 2) / floats.Norm(want, 2); !(e <= tol) {
				t.Errorf("%d x %d, sigma %v: J (I + K) is off the identity by %.2g, tolerance %.2g", m, n, c.sigma, e, tol)
			}
			for _, b := range []array.Batch{at, z, kz, from, full, sum} {
				b.Free()
			}
			j.Release()
			curved.Release()
		}
	})
}

// The preconditioner is symmetric and positive, whatever the leading triplets are worth, and
// the inverse of K + h F where they are all there are.
func TestCurvaturePreconditioner(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range curvatureCases {
			x := withSingularValues(c.m, c.n, c.sigma...)
			const tau, h = 3., 0.3
			r := 0
			for c.sigma[r] > tau {
				r++
			}
			all := min(c.m, c.n) - r
			for _, way := range []struct {
				lead  int
				wrong float64
			}{{0, 0}, {2, 0}, {2, 1}, {all, 0}} {
				t.Run(fmt.Sprintf("%dx%d/%d", c.m, c.n, way.lead), func(t *testing.T) {
					arraytest.NoLeak(t, dev)
					curved, r := x.curvature(dev, tau, way.lead, h, way.wrong)
					defer curved.Release()
					p := curved.Len()
					eye, inverse, image := dev.Alloc(p, p), dev.Alloc(p, p), dev.Alloc(p, p)
					defer eye.Free()
					defer inverse.Free()
					defer image.Free()
					host := make([]float64, p*p)
					for i := range p {
						host[i*p+i] = 1
					}
					dev.Upload(eye, host)
					curved.Precondition(inverse, image, eye)
					b, k := inverse.ToHost(), image.ToHost()
					largest := floats.Max(b)
					for i := range p {
						for j := range i {
							if e := math.Abs(b[i*p+j] - b[j*p+i]); !(e <= 1e-12*largest) {
								t.Fatalf("entries (%d, %d) of the preconditioner differ by %.2g of %.2g", i, j, e, largest)
							}
						}
						if !(b[i*p+i] >= 0) {
							t.Fatalf("entry %d of the preconditioner's diagonal is %v", i, b[i*p+i])
						}
					}
					if way.lead < all {
						return
					}
					// K B + h F B = I on the tangent space, which B projects on: tested by B.
					for i := range k {
						k[i] += h * (c.sigma[i%p%r] - tau) * b[i]
					}
					sum, again := dev.Alloc(p, p), dev.Alloc(p, p)
					defer sum.Free()
					defer again.Free()
					dev.Upload(sum, k)
					curved.Precondition(again, image, sum)
					if e := floats.Distance(again.ToHost(), b, math.Inf(1)); !(e <= 1e-10*largest) {
						t.Errorf("B (K + h F) B is off B by %.2g of %.2g", e, largest)
					}
				})
			}
		}
	})
}

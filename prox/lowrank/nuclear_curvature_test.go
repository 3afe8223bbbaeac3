package lowrank_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/prox/lowrank"
)

// denseNormal is a matrix by products, m x n.
type denseNormal struct {
	g     array.Batch
	shape array.Shape
}

func (d denseNormal) SubMul(q, p, q0, p0 array.Batch) {
	dev, r := d.g.Device(), q.N()/d.shape.Rows
	left, right := array.Shape{Rows: d.shape.Rows, Cols: r}, array.Shape{Rows: d.shape.Cols, Cols: r}
	dev.GemmEach(false, false, -1, d.g, d.shape, p0, right, 1, q)
	dev.GemmEach(true, false, -1, d.g, d.shape, q0, left, 1, p)
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
func (x matrix) curvature(dev array.Device, tau float64, lead int, h func(r int) mass,
	wrong float64) (*lowrank.NuclearCurvature, int) {
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
	numbers := h(r)
	on := lowrank.Mass{Rows: dev.Alloc(x.m, r), Columns: dev.Alloc(x.n, r), Core: numbers.core}
	defer on.Rows.Free()
	defer on.Columns.Free()
	dev.Upload(on.Rows, numbers.rows)
	dev.Upload(on.Columns, numbers.columns)
	return lowrank.NewNuclearCurvature(tau, u, f, v, lowrank.Leading{Sigma: x.sigma[r : r+lead], A: a, C: c}, on,
		normal), r
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
			curved, r := x.curvature(dev, tau, 2, varied(m, n), 0)
			at := dev.Alloc(1, m*n)
			dev.Upload(at, x.data())
			j, err := lowrank.NewNuclear(array.Shape{Rows: m, Cols: n}, tau).Linearize(at, at, 1)
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
				t.Errorf("%d x %d, sigma %v: J (I + K) is off the identity by %.2g, tolerance %.2g", m, n, c.sigma, e,
					tol)
			}
			for _, b := range []array.Batch{at, z, kz, from, full, sum} {
				b.Free()
			}
			j.Release()
			curved.Release()
		}
	})
}

// mass is a Mass on the host.
type mass struct{ rows, columns, core []float64 }

// uniform is the mass of h I, and varied one that differs from entry to entry by a factor of 100.
func uniform(m, n int, h float64) func(r int) mass {
	fill := func(count int) []float64 { return slices.Repeat([]float64{h}, count) }
	return func(r int) mass { return mass{fill(m * r), fill(n * r), fill(r * r)} }
}

func varied(m, n int) func(r int) mass {
	rng := rand.New(rand.NewPCG(5, 6))
	fill := func(count int) []float64 {
		out := make([]float64, count)
		for i := range out {
			out[i] = math.Pow(10, 2*rng.Float64()-1.5)
		}
		return out
	}
	return func(r int) mass { return mass{fill(m * r), fill(n * r), fill(r * r)} }
}

// dense returns the preconditioner B and K B, one column of a unit vector a row.
func dense(dev array.Device, k *lowrank.NuclearCurvature, of []float64) (b, kb []float64) {
	p := k.Len()
	z, dst, image := dev.Alloc(p, p), dev.Alloc(p, p), dev.Alloc(p, p)
	defer z.Free()
	defer dst.Free()
	defer image.Free()
	dev.Upload(z, of)
	k.Precondition(dst, image, z)
	return dst.ToHost(), image.ToHost()
}

func identity(p int) []float64 {
	eye := make([]float64, p*p)
	for i := range p {
		eye[i*p+i] = 1
	}
	return eye
}

// least is the smallest eigenvalue of the symmetric part of a - c b.
func least(t *testing.T, p int, a, b []float64, c float64) float64 {
	t.Helper()
	sum := mat.NewSymDense(p, nil)
	for i := range p {
		for j := range i + 1 {
			sum.SetSym(i, j, (a[i*p+j]+a[j*p+i]-c*(b[i*p+j]+b[j*p+i]))/2)
		}
	}
	var eigen mat.EigenSym
	if !eigen.Factorize(sum, false) {
		t.Fatal("no eigenvalues")
	}
	return floats.Min(eigen.Values(nil))
}

// The preconditioner is symmetric and positive, whatever the mass and the leading triplets
// are worth. With a uniform mass and all triplets there are, B lies between the inverse of
// K + h F and twice that: what it takes for the part of W that adds to K is 0.
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
				mass  func(r int) mass
				exact bool
			}{
				{0, 0, uniform(c.m, c.n, h), false},
				{2, 0, varied(c.m, c.n), false},
				{2, 1, varied(c.m, c.n), false},
				{all, 0, varied(c.m, c.n), false},
				{all, 0, uniform(c.m, c.n, h), true},
			} {
				t.Run(fmt.Sprintf("%dx%d/%d", c.m, c.n, way.lead), func(t *testing.T) {
					arraytest.NoLeak(t, dev)
					curved, r := x.curvature(dev, tau, way.lead, way.mass, way.wrong)
					defer curved.Release()
					p := curved.Len()
					b, sum := dense(dev, curved, identity(p))
					largest := floats.Max(b)
					for i := range p {
						for j := range i {
							if e := math.Abs(b[i*p+j] - b[j*p+i]); !(e <= 1e-12*largest) {
								t.Fatalf("entries (%d, %d) of the preconditioner differ by %.2g of %.2g", i, j, e,
									largest)
							}
						}
					}
					if e := least(t, p, b, b, 0); !(e >= -1e-12*largest) {
						t.Fatalf("the preconditioner has the eigenvalue %v", e)
					}
					if !way.exact {
						return
					}
					for i := range sum {
						sum[i] += h * (c.sigma[i%p%r] - tau) * b[i]
					}
					twice, _ := dense(dev, curved, sum) // B (K + h F) B
					if low, high := least(t, p, twice, b, 1), least(t, p, b, twice, 0.5); !(low >= -1e-10*largest &&
						high >= -1e-10*largest) {
						t.Errorf("B (K + h F) B is not between B and 2 B: by %.2g and %.2g of %.2g", low, high, largest)
					}
				})
			}
		}
	})
}

// With W = 0 the preconditioner is Pi D^{-1} Pi outside U and V, and along them the inverse of
// K plus the mass there.
func TestCurvaturePreconditionerFollowsTheMass(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		const tau, m, n, r = 3., 7, 6, 3
		sigma := []float64{9, 6, 4, 0, 0, 0}
		x := withSingularValues(m, n, sigma...)
		h := varied(m, n)(r)
		curved, _ := x.curvature(dev, tau, 0, func(int) mass { return h }, 0)
		defer curved.Release()
		p := curved.Len()
		b, kb := dense(dev, curved, identity(p))
		entry := func(basis *mat.Dense, i, j int) float64 { // of I - U U* or I - V V*
			sum := 0.0
			if i == j {
				sum = 1
			}
			for l := range r {
				sum -= basis.At(i, l) * basis.At(j, l)
			}
			return sum
		}
		for l := range r {
			f := sigma[l] - tau
			for i := range m {
				for j := range m {
					want := 0.0
					for a := range m {
						want += entry(x.u, i, a) / (tau + h.rows[a*r+l]*f) * entry(x.u, a, j)
					}
					if got := b[(i*r+l)*p+j*r+l]; !(math.Abs(got-want) <= 1e-12) {
						t.Fatalf("rows: entry (%d, %d) of column %d is %v, expected %v", i, j, l, got, want)
					}
				}
			}
			for i := range n {
				for j := range n {
					want := 0.0
					for a := range n {
						want += entry(x.v, i, a) / (tau + h.columns[a*r+l]*f) * entry(x.v, a, j)
					}
					got := b[((m+i)*r+l)*p+(m+j)*r+l]
					for a := range n { // less the part along V
						for c := range n {
							got -= (x.along(r, i, a) * b[((m+a)*r+l)*p+(m+c)*r+l] * x.along(r, c, j))
						}
					}
					if !(math.Abs(got-want) <= 1e-12) {
						t.Fatalf("columns: entry (%d, %d) of column %d is %v, expected %v", i, j, l, got, want)
					}
				}
			}
		}
		// z = v_k in column l: K B z + mass B z = z, along V.
		for k := range r {
			for l := range r {
				image, dst := make([]float64, p), make([]float64, p)
				for a := range n {
					floats.AddScaled(image, x.v.At(a, k), kb[((m+a)*r+l)*p:][:p])
					floats.AddScaled(dst, x.v.At(a, k), b[((m+a)*r+l)*p:][:p])
				}
				for i := range r {
					for j := range r {
						got := 0.0
						for a := range n {
							at := (m+a)*r + j
							got += x.v.At(a, i) * (image[at] + h.core[j*r+i]*(sigma[j]-tau)*dst[at])
						}
						want := 0.0
						if i == k && j == l {
							want = 1
						}
						if !(math.Abs(got-want) <= 1e-12) {
							t.Fatalf("core: entry (%d, %d) of (%d, %d) is %v, expected %v", i, j, k, l, got, want)
						}
					}
				}
			}
		}
	})
}

// along is an entry of V V*, V the first r right singular vectors.
func (x matrix) along(r, i, j int) float64 {
	sum := 0.0
	for l := range r {
		sum += x.v.At(i, l) * x.v.At(j, l)
	}
	return sum
}

package subspace

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
)

func gaussianMatrix(m, n int, seed uint64) *mat.Dense {
	rng := rand.New(rand.NewPCG(seed, 0))
	x := mat.NewDense(m, n, nil)
	x.Apply(func(int, int, float64) float64 { return rng.NormFloat64() }, x)
	return x
}

func onDevice(dev array.Device, x *mat.Dense) array.Batch {
	m, n := x.Dims()
	b := dev.Alloc(m, n)
	dev.Upload(b, mat.DenseCopyOf(x).RawMatrix().Data)
	return b
}

// The subspace finds the values and vectors that an SVD does, for tall, wide and
// rank-deficient matrices.
func TestSubspaceFindsTheLeadingSingularVectors(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, c := range []struct {
			name       string
			m, n, rank int
		}{{"tall", 60, 40, 40}, {"wide", 40, 60, 40}, {"deficient", 50, 50, 9}, {"zero", 20, 20, 0}} {
			t.Run(c.name, func(t *testing.T) {
				arraytest.NoLeak(t, dev)
				x := mat.NewDense(c.m, c.n, nil)
				var exact mat.SVD
				if c.rank > 0 {
					x.Mul(gaussianMatrix(c.m, c.rank, 1), gaussianMatrix(c.rank, c.n, 2))
				}
				exact.Factorize(x, mat.SVDNone)
				values := exact.Values(nil)
				tau := (values[4] + values[5]) / 2
				active := 5
				if c.rank == 0 {
					tau, active = 1, 0
				}
				on := onDevice(dev, x)
				defer on.Free()
				s := New(dev, array.Shape{Rows: c.m, Cols: c.n})
				defer s.Free()
				for range 60 {
					top, err := s.Advance(Dense(on), tau)
					if err != nil {
						t.Fatal(err)
					}
					top.Free()
				}
				top, err := s.Advance(Dense(on), tau)
				if err != nil {
					t.Fatal(err)
				}
				defer top.Free()
				if len(top.Sigma) != active || active > 0 && floats.Distance(top.Sigma, values[:active],
					math.Inf(1)) > 1e-10*values[0] {
					t.Fatalf("values %v, want %v", top.Sigma, values[:active])
				}
				if e := top.Residual(Dense(on)); e > 1e-7*values[0] {
					t.Errorf("||X V - U S|| = %.3g", e)
				}
			})
		}
	})
}

// Columns that depend on others are dropped, and a badly scaled or nearly dependent block
// comes out orthonormal to rounding.
func TestOrthonormalize(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		y := gaussianMatrix(50, 8, 3)
		for i := range 50 {
			y.Set(i, 1, 1e-120*y.At(i, 1))
			y.Set(i, 4, y.At(i, 3)+1e-4*y.At(i, 4))
			y.Set(i, 6, 0)
			y.Set(i, 7, y.At(i, 0)-2*y.At(i, 2))
		}
		on := onDevice(dev, y)
		defer on.Free()
		q, b, err := orthonormalize(on)
		if err != nil {
			t.Fatal(err)
		}
		defer q.Free()
		if q.N() != 6 {
			t.Fatalf("%d columns, want 6", q.N())
		}
		g := hostGram(q)
		for i := range 6 {
			g[i*6+i]--
		}
		if e := floats.Norm(g, math.Inf(1)); e > 1e-13 {
			t.Errorf("Q*Q is off by %.3g", e)
		}
		var product mat.Dense
		product.Mul(y, mat.NewDense(8, 6, b))
		if e := floats.Distance(product.RawMatrix().Data, q.ToHost(), math.Inf(1)); e > 1e-10 {
			t.Errorf("Y B is off Q by %.3g", e)
		}
	})
}

// The certificate holds just above the largest singular value and fails just below it.
func TestBelowThreshold(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for _, shape := range []array.Shape{{Rows: 300, Cols: 270}, {Rows: 20, Cols: 33}} {
			x := gaussianMatrix(shape.Rows, shape.Cols, 4)
			var svd mat.SVD
			svd.Factorize(x, mat.SVDNone)
			values := svd.Values(nil)
			on := onDevice(dev, x)
			defer on.Free()
			for _, f := range []float64{1 - 1e-9, 1 + 1e-9} {
				below, err := BelowThreshold(context.Background(), on, f*values[0])
				if err != nil || below != (f > 1) {
					t.Errorf("%v: %v at %v of the largest value, error %v", shape, below, f, err)
				}
			}
			tau := (values[2] + values[3]) / 2
			got, err := Excess(context.Background(), on, tau)
			want := math.Hypot(values[0]-tau, math.Hypot(values[1]-tau, values[2]-tau))
			if err != nil || math.Abs(got-want) > 1e-9*values[0] {
				t.Errorf("%v: excess %v, want %v, error %v", shape, got, want, err)
			}
		}
	})
}

// The certificate by products holds above the largest value that is not among the first r
// and fails below it, whether that is in the block, half converged, or beyond it.
func TestCertify(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		ctx := context.Background()
		for _, shape := range []array.Shape{{Rows: 150, Cols: 120}, {Rows: 110, Cols: 160}} {
			x := gaussianMatrix(shape.Rows, shape.Cols, 4)
			// Five values stand out of the noise.
			left, right := gaussianMatrix(shape.Rows, 5, 5), gaussianMatrix(5, shape.Cols, 6)
			var low mat.Dense
			low.Mul(left, right)
			x.Add(x, &low)
			var svd mat.SVD
			svd.Factorize(x, mat.SVDNone)
			values := svd.Values(nil)
			on := onDevice(dev, x)
			for _, c := range []struct {
				r, passes int
				factor    float64 // of value r
				want      bool
			}{
				{5, 9, 1.02, true},
				{5, 9, 0.98, false},
				{7, 25, 1.002, true},  // in the block
				{7, 25, 0.998, false}, // so is the one that is missed
				{4, 9, 1.01, true},
				{4, 9, 0.99, false},
				{5, 1, 1.02, false}, // values of the block not converged: no certificate
			} {
				// The block has r vectors and a few more.
				tau := c.factor * values[c.r]
				it := New(dev, shape)
				var all Triplets
				for pass := range c.passes {
					if pass > 0 {
						all.Free()
					}
					var err error
					if all, _, err = it.AdvanceAll(Dense(on), (values[c.r-1]+values[c.r])/2); err != nil {
						t.Fatal(err)
					}
				}
				got, err := all.Certify(ctx, Dense(on), c.r, tau)
				if err != nil || got != c.want {
					t.Errorf("%v: %v at %v of value %d after %d passes with a block of %d, want %v; error %v",
						shape, got, c.factor, c.r, c.passes, len(all.Sigma), c.want, err)
				}
				all.Free()
				it.Free()
			}
			on.Free()
		}
		stopped, cancel := context.WithCancel(ctx)
		cancel()
		on := onDevice(dev, gaussianMatrix(40, 30, 1))
		defer on.Free()
		it := New(dev, array.Shape{Rows: 40, Cols: 30})
		defer it.Free()
		all, _, err := it.AdvanceAll(Dense(on), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer all.Free()
		if _, err := all.Certify(stopped, Dense(on), 0, 100); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled certificate returns %v", err)
		}
	})
}

// Thin finds the triplets of a product of thin factors, also where they depend on each other or
// are 0.
func TestThin(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		for _, rank := range []int{4, 2, 0} {
			const m, n, k = 30, 20, 4
			l, r := mat.NewDense(m, k, nil), gaussianMatrix(n, k, 4)
			if rank > 0 {
				l.Mul(gaussianMatrix(m, rank, 5), gaussianMatrix(rank, k, 6))
			}
			x := new(mat.Dense)
			x.Mul(l, r.T())
			var exact mat.SVD
			exact.Factorize(x, mat.SVDNone)
			left, right := onDevice(dev, l), onDevice(dev, r)
			got, err := Thin(left, right)
			if err != nil {
				t.Fatal(err)
			}
			left.Free()
			right.Free()
			if len(got.Sigma) != rank {
				t.Fatalf("rank %d: %d triplets", rank, len(got.Sigma))
			}
			u, v := mat.NewDense(m, max(rank, 1), got.U.ToHost()), mat.NewDense(n, max(rank, 1), got.V.ToHost())
			for i, s := range got.Sigma {
				if want := exact.Values(nil)[i]; !(math.Abs(s-want) <= 1e-12*want) {
					t.Errorf("rank %d: value %d is %v, expected %v", rank, i, s, want)
				}
				for j := range m {
					u.Set(j, i, s*u.At(j, i))
				}
			}
			again := new(mat.Dense)
			again.Mul(u, v.T())
			again.Sub(again, x)
			if e := mat.Norm(again, 2); !(e <= 1e-11*(1+mat.Norm(x, 2))) {
				t.Errorf("rank %d: the product of the triplets is off by %v", rank, e)
			}
			got.Free()
		}
	})
}

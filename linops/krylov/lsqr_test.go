package krylov_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/krylov"
)

// The solution is that of a QR factorization, for several right sides, with columns of very
// different lengths, and where conjugate gradients on the normal equations lose their digits.
func TestLSQR(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		rng := rand.New(rand.NewPCG(2, 3))
		const d, p, k = 40, 12, 3
		for _, c := range []struct{ condition, spread float64 }{{1, 1}, {1e5, 1}, {10, 1e6}} {
			x, e := mat.NewDense(d, p, nil), make([]float64, p)
			var q mat.QR
			q.Factorize(mat.NewDense(d, d, normals(rng, d*d)))
			var left mat.Dense
			q.QTo(&left)
			for j := range p {
				e[j] = math.Pow(c.spread, float64(j)/(p-1))
				for i := range d {
					x.Set(i, j, e[j]*(left.At(i, j)*math.Pow(c.condition, -float64(j)/(p-1))+left.At(i,
						(j+1)%p)/10*math.Pow(c.condition, -float64(j+1)/(p-1))))
				}
			}
			o := krylov.LSQROptions{MaxIterations: 400}
			if c.spread > 1 {
				o.Lengths = e
			}
			rhs := normals(rng, k*d)
			a := linops.NewDense(dev, x)
			defer a.Release()
			y, b := dev.Put(rhs, k, d), dev.Alloc(k, p)
			res, err := krylov.LSQR(context.Background(), b, y, a, o)
			if err != nil || !res.Converged || len(res.Residual) != k {
				t.Fatalf("%+v: %+v, %v", c, res, err)
			}
			got := b.ToHost()
			for i := range k {
				var want mat.VecDense
				if err := want.SolveVec(x, mat.NewVecDense(d, rhs[i*d:(i+1)*d])); err != nil &&
					math.IsInf(mat.Cond(x, 2), 1) {
					t.Fatal(err)
				}
				for j := range p {
					if off := math.Abs(got[i*p+j]-want.AtVec(j)) *
						e[j]; !(off < 1e-10*c.condition*(1+floats.Norm(want.RawVector().Data, 2))) {
						t.Errorf("%+v, vector %d: %g off", c, i, off)
					}
				}
			}
			y.Free()
			b.Free()
		}
	})
}

// With a condition number of 1e6 conjugate gradients on the normal equations, of condition 1e12, keep three or four
// digits where LSQR keeps nine.
func TestLSQRKeepsDigits(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		rng := rand.New(rand.NewPCG(5, 6))
		const d, p = 40, 12
		var left, right mat.QR
		left.Factorize(mat.NewDense(d, d, normals(rng, d*d)))
		right.Factorize(mat.NewDense(p, p, normals(rng, p*p)))
		var u, v, x mat.Dense
		left.QTo(&u)
		right.QTo(&v)
		s := mat.NewDense(d, p, nil)
		for j := range p {
			s.Set(j, j, math.Pow(10, -6*float64(j)/(p-1)))
		}
		x.Product(&u, s, v.T())
		truth := normals(rng, p)
		var rhs, normal mat.VecDense
		rhs.MulVec(&x, mat.NewVecDense(p, truth))
		normal.MulVec(x.T(), &rhs)
		a := linops.NewDense(dev, &x)
		defer a.Release()
		y, aty, b := dev.Put(rhs.RawVector().Data, 1, d), dev.Put(normal.RawVector().Data, 1, p), dev.Alloc(1, p)
		off := func() float64 { return floats.Distance(b.ToHost(), truth, 2) / floats.Norm(truth, 2) }
		if _, err := krylov.LSQR(context.Background(), b, y, a, krylov.LSQROptions{MaxIterations: 400}); err != nil ||
			!(off() < 1e-8) {
			t.Errorf("LSQR is %.1g off, error %v", off(), err)
		}
		fit := dev.Alloc(1, d)
		apply := func(dst, x array.Batch) {
			a.Forward(fit, x)
			a.Adjoint(dst, fit)
		}
		if _, err := krylov.CG(context.Background(), b, aty, apply,
			krylov.CGOptions{Tol: 1e-15, MaxIterations: 400}); err != nil || !(off() > 1e-7) {
			t.Errorf("conjugate gradients are only %.1g off, error %v: this case is too easy", off(), err)
		}
		for _, x := range []array.Batch{y, aty, b, fit} {
			x.Free()
		}
	})
}

func normals(rng *rand.Rand, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = rng.NormFloat64()
	}
	return x
}

// Right sides of zeros, and one outside of A's range, have the solution 0; a value that is not finite and a cancelled
// context are errors.
func TestLSQRAtTheEdges(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		a := linops.NewDense(dev, mat.NewDense(3, 2, []float64{1, 0, 0, 1, 0, 0}))
		defer a.Release()
		solve := func(ctx context.Context, rhs []float64) ([]float64, krylov.LSQRResult, error) {
			y, b := dev.Put(rhs, len(rhs)/3, 3), dev.Alloc(len(rhs)/3, 2)
			defer y.Free()
			defer b.Free()
			res, err := krylov.LSQR(ctx, b, y, a, krylov.LSQROptions{})
			return b.ToHost(), res, err
		}
		b, res, err := solve(context.Background(), []float64{0, 0, 0, 0, 0, 1, 3, 4, 5})
		if want := []float64{0, 0, 0, 0, 3, 4}; err != nil || !res.Converged || floats.Distance(b, want, 2) > 1e-12 {
			t.Errorf("%v, %+v, %v", b, res, err)
		}
		if _, _, err := solve(context.Background(), []float64{math.NaN(), 0, 1}); err == nil {
			t.Error("a NaN passed")
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if _, _, err := solve(ctx, []float64{1, 2, 3}); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled context gave %v", err)
		}
	})
}

// The line through three points of least squares.
func ExampleLSQR() {
	dev := array.NewHost()
	defer dev.Close()
	a := linops.NewDense(dev, mat.NewDense(3, 2, []float64{1, 0, 1, 1, 1, 2}))
	y, b := dev.Put([]float64{1, 2, 4}, 1, 3), dev.Alloc(1, 2)
	res, err := krylov.LSQR(context.Background(), b, y, a, krylov.LSQROptions{})
	fmt.Printf("%.3f %t %v\n", b.ToHost(), res.Converged, err)
	// Output: [0.833 1.500] true <nil>
}

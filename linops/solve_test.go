package linops_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	. "surepipe/linops"
	"surepipe/linops/krylov"
)

// plain hides the structure of an operator.
type plain struct{ Operator }

func upload(dev array.Device, k int, x []float64) array.Batch {
	b := dev.Alloc(k, len(x)/k)
	dev.Upload(b, x)
	return b
}

func maxDiff(x, y []float64) float64 {
	m := 0.0
	for i, v := range x {
		if e := math.Abs(v - y[i]); e > m || math.IsNaN(e) {
			m = e
		}
	}
	return m
}

func TestClosedFormsAgreeWithAFactorizationForEveryOperator(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, e := range catalogue(t, dev) {
			d, p := e.a.Dims()
			if d == 0 || p == 0 {
				continue
			}
			x := ToDense(dev, e.a)
			const eta, k = 0.7, 3
			var gram mat.Dense
			gram.Mul(x.T(), x)
			gram.Scale(eta, &gram)
			for i := range p {
				gram.Set(i, i, gram.At(i, i)+1)
			}
			values := gaussian(k*p, 3)
			var want mat.Dense
			if err := want.Solve(&gram, mat.NewDense(k, p, values).T()); err != nil {
				t.Fatal(err)
			}
			b := upload(dev, k, values)
			solve(e.a, b, eta) // what it keeps for eta is no leak
			b.Free()
			live := dev.Stats().Live
			if closed := Complete(e.a, StructureOf(e.a)).SolveNormal; closed != nil {
				rhs := upload(dev, k, values)
				if !closed(rhs, rhs, eta) {
					t.Errorf("%s has no solution", e.name)
				}
				wantRows := mat.DenseCopyOf(want.T()).RawMatrix().Data
				// Relative to vectors of size 1; condition numbers stay below 1e3.
				if e2 := maxDiff(rhs.ToHost(), wantRows); !(e2 <= 1e-11) {
					t.Errorf("%s: off by %.2g", e.name, e2)
				}
				rhs.Free()
			}
			if now := dev.Stats().Live; now != live {
				t.Errorf("%s: %d batches leaked", e.name, now-live)
			}
		}
	})
}

func TestClosedFormsAreSafeForConcurrentUse(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, a := range []Operator{randomDense(dev, 12, 20), NewDiagonal(dev, gaussian(20, 9))} {
			solved := func(eta float64) []float64 {
				b := upload(dev, 2, gaussian(40, 4))
				defer b.Free()
				if !solve(a, b, eta) {
					t.Errorf("%T has no solution", a)
				}
				return b.ToHost()
			}
			want := make([][]float64, 7)
			for i := range want {
				want[i] = solved(float64(i + 1))
			}
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() {
					for i := range 21 {
						j := (i*(g+1) + g) % len(want)
						if got := solved(float64(j + 1)); maxDiff(got, want[j]) != 0 {
							t.Errorf("%T: eta = %d from many goroutines differs", a, j+1)
							return
						}
					}
				})
			}
			wg.Wait()
		}
	})
}

// spd returns x -> (I + X'X) x and its matrix X.
func spd(dev array.Device, d, p int) func(dst, x array.Batch) {
	a := randomDense(dev, d, p)
	return func(dst, x array.Batch) {
		t := dev.Alloc(x.K(), d)
		a.Forward(t, x)
		a.Adjoint(dst, t)
		dev.Lin(dst, 1, dst, 1, x)
		t.Free()
	}
}

func TestCGVectorsDoNotSeeEachOther(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const p = 30
		apply := spd(dev, 40, p)
		x := gaussian(5*p, 2)
		clear(x[2*p : 3*p]) // done at once
		// An image of three unit vectors' span converges early.
		for j := range p {
			x[p+j] *= 1e-8
		}
		for _, opts := range []krylov.CGOptions{{}, {Tol: 1e-4},
			{Precondition: func(dst, r array.Batch) { dev.Lin(dst, 0.25, r, 0, array.Batch{}) }}} {
			rhs, all := upload(dev, 5, x), dev.Alloc(5, p)
			res, err := krylov.CG(t.Context(), all, rhs, apply, opts)
			if err != nil || !res.Converged {
				t.Fatal(res, err)
			}
			for i := 0; i < 4; i++ {
				part := dev.Alloc(2, p)
				if _, err := krylov.CG(t.Context(), part, rhs.Rows(i, i+2), apply, opts); err != nil {
					t.Fatal(err)
				}
				if e := maxDiff(part.ToHost(), all.Rows(i, i+2).ToHost()); e != 0 {
					t.Errorf("vectors %d and %d by themselves differ by %g", i, i+1, e)
				}
				part.Free()
			}
			for _, v := range all.Rows(2, 3).ToHost() {
				if math.Float64bits(v) != 0 {
					t.Fatalf("the solution for a zero right-hand side holds %v", v)
				}
			}
		}
	})
}

func TestCGReportsWhatWentWrong(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const p = 20
		apply := spd(dev, 30, p)
		rhs, dst := upload(dev, 2, gaussian(2*p, 1)), dev.Alloc(2, p)
		nan := upload(dev, 2, gaussian(2*p, 1))
		dev.Fill(nan.Rows(1, 2).Cols(3, 4), math.NaN())
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()

		res, err := krylov.CG(t.Context(), dst, rhs, apply, krylov.CGOptions{MaxIterations: 3})
		if err != nil || res.Converged || res.Iterations != 3 || !(res.Residual > 1e-13) {
			t.Errorf("three steps give %+v, %v", res, err)
		}
		live := dev.Stats().Live
		for _, c := range []struct {
			ctx   context.Context
			rhs   array.Batch
			apply func(dst, x array.Batch)
			want  string
		}{
			{t.Context(), nan, apply, "residual of vector 1 is NaN"},
			{t.Context(), rhs, func(dst, x array.Batch) { dev.Lin(dst, -1, x, 0, array.Batch{}) },
				"not positive definite"},
			{t.Context(), rhs, func(dst, x array.Batch) { dev.Fill(dst, math.NaN()) }, "not finite"},
			{cancelled, rhs, apply, "context canceled"},
		} {
			if _, err := krylov.CG(c.ctx, dst, c.rhs, c.apply, krylov.CGOptions{}); err == nil ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		}
		if now := dev.Stats().Live; now != live {
			t.Errorf("%d batches leaked", now-live)
		}
	})
}

func TestDenseWithNaNHasNoClosedForm(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		a := NewDense(dev, mat.NewDense(2, 3, []float64{1, 2, 3, 4, math.NaN(), 6}))
		b := upload(dev, 2, gaussian(6, 1))
		if solve(a, b, 1) {
			t.Error("SolveNormal of a matrix with a NaN says true")
		}
	})
}

func TestNormEstimateBracketsTheTrueNorm(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		for _, s := range []struct{ d, p int }{{1, 1}, {1, 9}, {9, 1}, {3, 4}, {60, 40}, {200, 400}} {
			a := randomDense(dev, s.d, s.p)
			var svd mat.SVD
			if !svd.Factorize(a.Dense(), mat.SVDNone) {
				t.Fatal("svd")
			}
			truth := svd.Values(nil)[0] * svd.Values(nil)[0]
			for seed := range uint64(5) {
				est, err := krylov.Norm2(t.Context(), dev, a, krylov.NormOptions{Seed: seed})
				if err != nil {
					t.Fatal(err)
				}
				if est.Value > truth*(1+1e-12) || est.Upper() < truth*(1-1e-12) {
					t.Errorf("%d x %d, seed %d: [%v, %v] misses %v", s.d, s.p, seed, est.Value, est.Upper(), truth)
				}
				if est.Upper() > 1.011*truth || est.Iterations >= 40 {
					t.Errorf("%d x %d, seed %d: upper bound %v for %v after %d products", s.d, s.p, seed, est.Upper(),
						truth, est.Iterations)
				}
				again, _ := krylov.Norm2(t.Context(), dev, a, krylov.NormOptions{Seed: seed})
				if est != again {
					t.Errorf("seed %d gives %+v, then %+v", seed, est, again)
				}
			}
		}
	})
}

func TestNormEstimateFindsALoneLargeEigenvalue(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		// Ones but for one coordinate of 100000: the start sees it least.
		w := make([]float64, 100000)
		for i := range w {
			w[i] = 1
		}
		w[77] = 2
		est, err := krylov.Norm2(t.Context(), dev, plain{NewDiagonal(dev, w)}, krylov.NormOptions{})
		if err != nil || math.Abs(est.Value-4) > 1e-6 {
			t.Errorf("%+v, %v, want 4", est, err)
		}
	})
}

func TestNormOfZeroIsZeroAndOfNaNAnError(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		if est, err := krylov.Norm2(t.Context(), dev, plain{Zero(4, 6)}, krylov.NormOptions{}); err != nil ||
			est.Upper() != 0 {
			t.Errorf("%+v, %v", est, err)
		}
		a := NewDense(dev, mat.NewDense(1, 2, []float64{1, math.NaN()}))
		if _, err := krylov.Norm2(t.Context(), dev, a, krylov.NormOptions{}); err == nil ||
			!strings.Contains(err.Error(), "not finite") {
			t.Errorf("error %v", err)
		}
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := krylov.Norm2(cancelled, dev, difference(9), krylov.NormOptions{}); !errors.Is(err,
			context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

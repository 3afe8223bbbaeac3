package krylov_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops/krylov"
)

// The approximation is below the matrix, exact where the rank reaches it, with orthonormal vectors; it
// is the same for the same seed, and stops as soon as the rank suffices.
func TestNystromOfDecayingEigenvalues(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const n = 120
		eigenvalues := make([]float64, n)
		for i := range eigenvalues {
			eigenvalues[i] = 1e4 * math.Pow(0.5, float64(i))
		}
		apply, _ := symmetric(dev, eigenvalues, 3)
		y, err := krylov.NewNystrom(t.Context(), dev, n, apply, krylov.NystromOptions{Shift: 1e-2, MaxRank: 100})
		if err != nil {
			t.Fatal(err)
		}
		defer y.Release()
		if !y.Enough() || y.Rank() != 32 {
			t.Errorf("rank %d, enough %t: expected 32, as the 18th eigenvalue is below 10 shifts", y.Rank(), y.Enough())
		}
		for i, v := range y.Values()[:20] {
			if e := eigenvalues[i]; v > e*(1+1e-9) || v < e*0.98 {
				t.Errorf("eigenvalue %d is %g, of the matrix %g", i, v, e)
			}
		}
		gram := dev.Alloc(y.Rank(), y.Rank())
		defer gram.Free()
		dev.Gemm(false, true, 1, y.Vectors(), y.Vectors(), 0, gram)
		for i, v := range gram.ToHost() {
			want := 0.0
			if i%(y.Rank()+1) == 0 {
				want = 1
			}
			if math.Abs(v-want) > 1e-12 {
				t.Fatalf("entry %d of U*U is %g, expected %g", i, v, want)
			}
		}
		again, err := krylov.NewNystrom(t.Context(), dev, n, apply, krylov.NystromOptions{Shift: 1e-2, MaxRank: 100})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Release()
		if d := maxDiff(y.Vectors().ToHost(), again.Vectors().ToHost()); d != 0 {
			t.Errorf("the same seed gives vectors that differ by %g", d)
		}
	})
}

// Preconditioned by it, conjugate gradients take a few steps for any shift, alone and beside another
// map, and vectors of a batch have the bits that they have in another.
func TestNystromPreconditions(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const n, k = 150, 5
		eigenvalues, other := make([]float64, n), make([]float64, n)
		for i := range eigenvalues {
			eigenvalues[i] = 1e6 / math.Pow(float64(i+1), 4)
			other[i] = 1 + float64(i%3)
		}
		m, _ := symmetric(dev, eigenvalues, 5)
		y, err := krylov.NewNystrom(t.Context(), dev, n, m, krylov.NystromOptions{Shift: 0.1, MaxRank: n})
		if err != nil || !y.Enough() {
			t.Fatal(y, err)
		}
		defer y.Release()
		diagonal, inverse := upload(dev, 1, other), dev.Alloc(1, n)
		defer diagonal.Free()
		defer inverse.Free()
		host := make([]float64, n)
		for i, v := range other {
			host[i] = 1 / v
		}
		dev.Upload(inverse, host)
		rhs, dst, two, t2 := upload(dev, k, gaussian(k*n, 8)), dev.Alloc(k, n), dev.Alloc(2, n), dev.Alloc(k, n)
		for _, b := range []array.Batch{rhs, dst, two, t2} {
			defer b.Free()
		}
		solve := func(name string, most int, apply, precondition func(dst, x array.Batch)) {
			res, err := krylov.CG(t.Context(), dst, rhs, apply,
				krylov.CGOptions{Tol: 1e-10, Precondition: precondition})
			if err != nil || !res.Converged || res.Iterations > most {
				t.Errorf("%s: %+v, %v, expected at most %d steps", name, res, err, most)
			}
			if _, err := krylov.CG(t.Context(), two, rhs.Rows(2, 4), apply,
				krylov.CGOptions{Tol: 1e-10, Precondition: precondition}); err != nil {
				t.Error(err)
			}
			if d := maxDiff(two.ToHost(), dst.Rows(2, 4).ToHost()); d != 0 {
				t.Errorf("%s: two of the vectors alone differ by %g", name, d)
			}
			apply(t2, dst)
			if d := maxDiff(t2.ToHost(), rhs.ToHost()); d > 1e-7 {
				t.Errorf("%s: residual %g", name, d)
			}
		}
		for _, mu := range []float64{0.1, 10, 1e5} {
			p, free := y.Precondition(mu)
			solve("a shift", 60, func(dst, x array.Batch) {
				m(dst, x)
				dev.Lin(dst, 1, dst, mu, x)
			}, p)
			free()
		}
		p, free, err := y.Beside(func(dst, x array.Batch) { dev.Mul(dst, x, inverse) })
		if err != nil {
			t.Fatal(err)
		}
		defer free()
		solve("beside a diagonal", 20, func(dst, x array.Batch) {
			m(dst, x)
			s := dev.Alloc(x.K(), n)
			defer s.Free()
			dev.Mul(s, x, diagonal)
			dev.Lin(dst, 1, dst, 1, s)
		}, p)
	})
}

// Maps of low rank, the map 0, a map that is not positive, a cancelled context.
func TestNystromAtTheEdges(t *testing.T) {
	dev := array.NewHost()
	defer dev.Close()
	values := make([]float64, 60)
	copy(values, []float64{5, 3, 1e-3})
	apply, _ := symmetric(dev, values, 4)
	y, err := krylov.NewNystrom(t.Context(), dev, 60, apply, krylov.NystromOptions{})
	if err != nil || y.Rank() != 3 || !y.Enough() {
		t.Errorf("rank %d of a matrix of rank 3, %v", y.Rank(), err)
	}
	y.Release()
	y, err = krylov.NewNystrom(t.Context(), dev, 60, func(dst, x array.Batch) { dev.Fill(dst, 0) },
		krylov.NystromOptions{})
	if err != nil || y.Rank() != 0 || y.Least() != 0 {
		t.Error(y, err)
	}
	p, free := y.Precondition(1)
	x, to := upload(dev, 1, gaussian(60, 1)), dev.Alloc(1, 60)
	p(to, x)
	if maxDiff(to.ToHost(), x.ToHost()) != 0 {
		t.Error("the preconditioner of 0 is not the identity")
	}
	free()
	y.Release()
	x.Free()
	to.Free()
	if _, err := krylov.NewNystrom(t.Context(), dev, 60,
		func(dst, x array.Batch) { dev.Lin(dst, -1, x, 0, array.Batch{}) }, krylov.NystromOptions{}); err == nil ||
		!strings.Contains(err.Error(), "positive semidefinite") {
		t.Errorf("of -I: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := krylov.NewNystrom(ctx, dev, 60, apply, krylov.NystromOptions{}); err == nil {
		t.Error("a cancelled context is no error")
	}
	if s := dev.Stats(); s.Live != 1 { // the matrix of symmetric
		t.Errorf("%d batches are left", s.Live)
	}
}

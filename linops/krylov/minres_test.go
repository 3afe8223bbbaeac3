package krylov_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops/krylov"
)

// symmetric returns the products with a symmetric matrix of the given eigenvalues, and the matrix.
func symmetric(dev array.Device, eigenvalues []float64, seed uint64) (apply func(dst, x array.Batch), m *mat.Dense) {
	n := len(eigenvalues)
	var qr mat.QR
	qr.Factorize(mat.NewDense(n, n, gaussian(n*n, seed)))
	var q mat.Dense
	qr.QTo(&q)
	m = new(mat.Dense)
	m.Product(&q, mat.NewDiagDense(n, eigenvalues), q.T())
	rows := upload(dev, n, m.RawMatrix().Data)
	return func(dst, x array.Batch) { dev.Gemm(false, false, 1, x, rows, 0, dst) }, m
}

// Minimal residuals solve definite, indefinite and singular systems, with and without a preconditioner.
func TestMINRESSolvesSymmetricSystems(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const n, k = 24, 4
		for name, value := range map[string]func(i int) float64{
			"definite":         func(i int) float64 { return float64(i + 1) },
			"indefinite":       func(i int) float64 { return float64(i) - 7.5 },
			"singular":         func(i int) float64 { return float64(max(i-5, 0)) * math.Pow(-1, float64(i)) },
			"two values":       func(i int) float64 { return []float64{3, -2}[i%2] },
			"identity":         func(int) float64 { return 1 },
			"over eight units": func(i int) float64 { return math.Pow(10, float64(i)/6-2) * math.Pow(-1, float64(i)) },
		} {
			eigenvalues := make([]float64, n)
			for i := range eigenvalues {
				eigenvalues[i] = value(i)
			}
			apply, m := symmetric(dev, eigenvalues, 3)
			x := mat.NewDense(n, k, gaussian(n*k, 4))
			var f mat.Dense
			f.Mul(m, x)
			rhs, dst := upload(dev, k, mat.DenseCopyOf(f.T()).RawMatrix().Data), dev.Alloc(k, n)
			weights := dev.Alloc(1, n)
			host := make([]float64, n)
			for i := range host {
				host[i] = 0.5 + float64(i%3)
			}
			dev.Upload(weights, host)
			for by, precondition := range map[string]func(dst, r array.Batch){"": nil,
				", preconditioned": func(dst, r array.Batch) { dev.Mul(dst, r, weights) }} {
				res, err := krylov.MINRES(t.Context(), dst, rhs, apply,
					krylov.CGOptions{Tol: 1e-12, Precondition: precondition})
				if err != nil || !res.Converged {
					t.Errorf("%s%s: %+v, %v", name, by, res, err)
				}
				var left mat.Dense
				left.Mul(m, mat.NewDense(k, n, dst.ToHost()).T())
				left.Sub(&left, &f)
				if e := mat.Norm(&left, 2) / mat.Norm(&f, 2); e > 1e-9 {
					t.Errorf("%s%s: residual %g", name, by, e)
				}
			}
			rhs.Free()
			dst.Free()
			weights.Free()
		}
	})
}

// Where the right-hand side is not in the range of the matrix the residual is what is out of it, and the
// run says that it has not converged.
func TestMINRESOfAnInconsistentSystem(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		apply := func(dst, x array.Batch) {
			dev.Copy(dst, x)
			dev.Fill(dst.Cols(2, 3), 0)
		}
		rhs, dst := upload(dev, 1, []float64{3, 0, 4}), dev.Alloc(1, 3)
		res, err := krylov.MINRES(t.Context(), dst, rhs, apply, krylov.CGOptions{MaxIterations: 20})
		if err != nil || res.Converged || math.Abs(res.Residual[0]-0.8) > 1e-12 {
			t.Errorf("%+v, %v", res, err)
		}
	})
}

func TestMINRESVectorsDoNotSeeEachOther(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const n = 20
		eigenvalues := make([]float64, n)
		for i := range eigenvalues {
			eigenvalues[i] = float64(i) - 6.5
		}
		apply, _ := symmetric(dev, eigenvalues, 5)
		x := gaussian(4*n, 6)
		clear(x[2*n : 3*n]) // done at once
		rhs, all := upload(dev, 4, x), dev.Alloc(4, n)
		for _, opts := range []krylov.CGOptions{{Tol: 1e-10}, {Tol: 1e-2}, {MaxIterations: 5}} {
			if _, err := krylov.MINRES(t.Context(), all, rhs, apply, opts); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				part := dev.Alloc(2, n)
				if _, err := krylov.MINRES(t.Context(), part, rhs.Rows(i, i+2), apply, opts); err != nil {
					t.Fatal(err)
				}
				if e := maxDiff(part.ToHost(), all.Rows(i, i+2).ToHost()); e != 0 {
					t.Errorf("vectors %d and %d by themselves differ by %g", i, i+1, e)
				}
				part.Free()
			}
			for _, v := range all.Rows(2, 3).ToHost() {
				if v != 0 {
					t.Fatalf("the solution for a zero right-hand side holds %v", v)
				}
			}
		}
	})
}

func TestMINRESReportsWhatWentWrong(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const n = 10
		rhs, nan, dst := upload(dev, 2, gaussian(2*n, 1)), upload(dev, 2, gaussian(2*n, 1)), dev.Alloc(2, n)
		dev.Fill(nan.Rows(1, 2).Cols(3, 4), math.NaN())
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		twice := func(dst, x array.Batch) { dev.Lin(dst, 2, x, 0, array.Batch{}) }
		minus := func(dst, x array.Batch) { dev.Lin(dst, -1, x, 0, array.Batch{}) }
		live := dev.Stats().Live
		for _, c := range []struct {
			ctx                 context.Context
			rhs                 array.Batch
			apply, precondition func(dst, x array.Batch)
			want                string
		}{
			{t.Context(), nan, twice, nil, "on vector 1 <r, P r> is NaN"},
			{t.Context(), rhs, twice, minus, "not positive definite"},
			{t.Context(), rhs, func(dst, x array.Batch) { dev.Fill(dst, math.NaN()) }, nil, "not finite"},
			{cancelled, rhs, twice, nil, "context canceled"},
		} {
			if _, err := krylov.MINRES(c.ctx, dst, c.rhs, c.apply,
				krylov.CGOptions{Precondition: c.precondition}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		}
		if now := dev.Stats().Live; now != live {
			t.Errorf("%d batches leaked", now-live)
		}
	})
}

package vjp_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/linops"
	"surepipe/linops/imaging"
	"surepipe/prox"
	"surepipe/vjp"
)

// Of an operator that cannot be restricted the derivative is solved for on the support all the
// same: it is the projection on the active columns, with the support's size as its trace.
func TestSupportOfAnyOperator(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		const n = 24
		kernel := mat.NewDense(3, 3, []float64{0.05, 0.1, 0.05, 0.1, 0.4, 0.1, 0.05, 0.1, 0.05})
		blur, err := imaging.NewConvolution2D(n, n, kernel, imaging.Circular)
		if err != nil {
			t.Fatal(err)
		}
		basis, err := imaging.NewWavelet2D(n, n, "db3", 2)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []linops.Operator{
			linops.Compose(blur, linops.Adjoint(basis)), // in other units
			linops.Compose(blur, linops.Adjoint(imaging.NewDCT2D(n, n))),
		} {
			s, err := vjp.NewSolver(context.Background(), "fista", vjp.Problem{A: a, R: prox.NewL1(0.4), Device: dev},
				vjp.Options{Tol: 1e-10})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			y, w, got := dev.Alloc(1, n*n), dev.Alloc(2, n*n), dev.Alloc(2, n*n)
			signal := make([]float64, 2*n*n)
			for i := range signal {
				signal[i] = math.Sin(0.7*float64(i%n)) + math.Cos(float64(i*i)/50)
			}
			dev.Upload(w, signal)
			dev.Upload(y, signal[:n*n])
			sol, err := s.Solve(context.Background(), y)
			if err != nil {
				t.Fatal(err)
			}
			defer sol.Release()
			if what := fmt.Sprint(sol.Choices); !strings.Contains(what, "vectors of conjugate gradients are shorter") {
				t.Errorf("choices %s", what)
			}
			if err := sol.Linearization.VJP(context.Background(), got, w); err != nil {
				t.Fatal(err)
			}
			// The projection on the columns of the support, by a QR factorization.
			x := linops.ToDense(dev, a)
			var set []int
			for j, v := range sol.B.ToHost() {
				if v != 0 {
					set = append(set, j)
				}
			}
			columns := mat.NewDense(n*n, len(set), nil)
			for i := range n * n {
				for k, j := range set {
					columns.Set(i, k, x.At(i, j))
				}
			}
			var qr mat.QR
			qr.Factorize(columns)
			var c, want mat.Dense
			probes := mat.DenseCopyOf(mat.NewDense(2, n*n, signal).T())
			if err := qr.SolveTo(&c, false, probes); err != nil {
				t.Fatal(err)
			}
			want.Mul(columns, &c)
			host := got.ToHost()
			worst := 0.0
			for i := range n * n {
				for k := range 2 {
					worst = max(worst, math.Abs(host[k*n*n+i]-want.At(i, k)))
				}
			}
			if !(worst <= 1e-6) || len(set) < 20 || len(set) > n*n/2 {
				t.Errorf("%d active columns: the derivative differs from their projection by %g", len(set), worst)
			}
		}
	})
}

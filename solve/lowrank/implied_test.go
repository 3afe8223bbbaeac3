package lowrank_test

import (
	"context"
	"math"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
	"surepipe/solve"
)

// An implied solution is the one that is written down otherwise, read from anywhere, also where it
// spans panels; and it holds far less than y.
func TestImpliedSolution(t *testing.T) {
	arraytest.OnEach(t, func(t *testing.T, dev array.Device) {
		arraytest.NoLeak(t, dev)
		ctx := context.Background()
		for _, sparseFirst := range []bool{false, true} {
			m, n := 280, 66
			if !sparseFirst && !arraytest.Emulated(t, dev) {
				m = 4200 // two panels
			}
			p, values := robust(dev, m, n, 15*math.Sqrt(float64(m)/280), 1.5, sparseFirst)
			d := m * n
			y := dev.Alloc(1, d)
			dev.Upload(y, values)
			solved := func(o solve.Options) *solve.Solution {
				s, err := solve.New(ctx, "fista", p, o)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Release()
				sol, err := s.Solve(ctx, y, solve.From{})
				if err != nil {
					t.Fatal(err)
				}
				return sol
			}
			written, compact := solved(solve.Options{}), solved(solve.Options{Compact: true})
			implied := compact.Implied
			if implied == nil || !compact.B.IsZero() || !compact.MuHat.IsZero() || written.Implied != nil {
				t.Fatalf("implied: %v, %s and %s", implied, compact.B, compact.MuHat)
			}
			b, mu := written.B.ToHost(), written.MuHat.ToHost()
			for _, at := range [][2]int{{0, 2 * d}, {0, 1}, {d - 1, d + 1}, {d, 2 * d}, {5, d + n + 3},
				{2*d - 1, 2 * d}, {n * 100, n*100 + 2}} {
				got := make([]float64, at[1]-at[0])
				implied.B(got, at[0])
				if !slices.Equal(got, b[at[0]:at[1]]) {
					t.Errorf("b from %d to %d differs", at[0], at[1])
				}
				if at[1] <= d {
					implied.MuHat(got, at[0])
					if !slices.Equal(got, mu[at[0]:at[1]]) {
						t.Errorf("mu_hat from %d to %d differs", at[0], at[1])
					}
				}
			}
			if r := distance(y, written.MuHat); math.Abs(implied.Residual2-r*r) > 1e-12*r*r {
				t.Errorf("squared residual %g, want %g", implied.Residual2, r*r)
			}
			compact.Expand(dev)
			if compact.Implied != nil || !slices.Equal(compact.B.ToHost(), b) ||
				!slices.Equal(compact.MuHat.ToHost(), mu) {
				t.Error("the solution written down later differs")
			}
			written.Release()
			compact.Release()

			// Where there is no derivative in factored form another one needs the solution itself.
			zero, _ := robust(dev, m, n, 1e6, 1.5, sparseFirst)
			p = zero
			sol := solved(solve.Options{Compact: true, Point: true})
			if sol.Implied != nil || sol.B.IsZero() || sol.At.B.IsZero() {
				t.Error("a solution without a tangent space is implied")
			}
			sol.Release()
			y.Free()
		}
	})
}

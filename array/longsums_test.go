package array_test

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"surepipe/array"
	"surepipe/array/arraytest"
)

// Products of tall matrices, which processors share along their sums, are the sums, whatever C held where beta is 0,
// and have the same bits for any number of processors.
func TestLongSums(t *testing.T) {
	const rows, m, n, stride = 20011, 30, 45, 50
	dev := array.NewHost()
	arraytest.NoLeak(t, dev)
	rng := rand.New(rand.NewPCG(3, 0))
	fill := func(k, n int) (array.Batch, []float64) {
		v := make([]float64, k*n)
		for i := range v {
			v[i] = rng.NormFloat64()
		}
		to := dev.Alloc(k, n)
		dev.Upload(to, v)
		return to, v
	}
	x, xs := fill(1, rows)
	wide, ws := fill(rows, stride)
	a, as := fill(1, rows*m)
	b, bs := fill(1, rows*n)
	defer array.Free(x, wide, a, b)
	check := func(name string, n int, beta float64, want func(i int) float64, do func(c array.Batch)) {
		t.Helper()
		c, before := fill(1, n*n)
		defer c.Free()
		if beta == 0 {
			dev.Fill(c, math.NaN())
		} else {
			dev.Upload(c, before)
		}
		start := c.ToHost()
		var first []float64
		for _, procs := range []int{1, 2, 8} {
			runtime.GOMAXPROCS(procs)
			dev.Upload(c, start)
			do(c)
			got := c.ToHost()
			if first == nil {
				first = got
			}
			if !slices.Equal(got, first) {
				t.Errorf("%s: bits differ with %d processors", name, procs)
			}
			for i, v := range got {
				w := want(i)
				if beta != 0 {
					w += beta * before[i]
				}
				if !(math.Abs(v-w) <= 1e-9) {
					t.Fatalf("%s, entry %d: %g, expected %g", name, i, v, w)
				}
			}
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	column := func(x []float64, n, i int, y []float64, m, j int) (sum float64) {
		for r := range rows {
			sum += x[r*n+i] * y[r*m+j]
		}
		return sum
	}
	for _, beta := range []float64{0, 0.5} {
		check("A'A", m, beta, func(i int) float64 { return 2 * column(as, m, i/m, as, m, i%m) }, func(c array.Batch) {
			s := array.Shape{Rows: rows, Cols: m}
			dev.GemmEach(true, false, 2, a, s, a, s, beta, c)
		})
		c, before := fill(1, m*n)
		sa, sb := array.Shape{Rows: rows, Cols: m}, array.Shape{Rows: rows, Cols: n}
		dev.GemmEach(true, false, 2, a, sa, b, sb, beta, c)
		for i, v := range c.ToHost() {
			if w := 2*column(as, m, i/n, bs, n, i%n) + beta*before[i]; !(math.Abs(v-w) <= 1e-9) {
				t.Fatalf("A'B, entry %d: %g, expected %g", i, v, w)
			}
		}
		c.Free()
		c, before = fill(1, n)
		dev.Gemm(false, false, 2, x, wide.Cols(2, 2+n), beta, c)
		for i, v := range c.ToHost() {
			if w := 2*column(xs, 1, 0, ws, stride, 2+i) + beta*before[i]; !(math.Abs(v-w) <= 1e-9) {
				t.Fatalf("x'A, entry %d: %g, expected %g", i, v, w)
			}
		}
		c.Free()
	}
}

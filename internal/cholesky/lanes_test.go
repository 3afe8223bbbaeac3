package cholesky

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The kernels do what the loops in Go do, for any number of columns and of rows.
func TestFourRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for columns := 4; columns <= 40; columns += 4 {
		stride, count := columns+3, columns/3
		var kernel, loop [4][]float64
		for r := range loop {
			for range columns {
				loop[r] = append(loop[r], rng.NormFloat64())
			}
			kernel[r] = append(kernel[r], loop[r]...)
		}
		x := make([]float64, count*stride)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		var c [10]float64
		for i := range c {
			c[i] = rng.NormFloat64()
		}
		for times := 1; times >= 0; times-- {
			takeEach(&loop, x, stride, count, times)
			takeProduct(&kernel, x, stride, count, times)
			solveEach(&loop, &c)
			solveFour(&kernel, &c)
			for r := range loop {
				for j, v := range loop[r] {
					if math.Abs(kernel[r][j]-v) > 1e-10*(1+math.Abs(v)) {
						t.Fatalf("%d columns, times %d: (%d, %d) is %g, want %g", columns, times, r, j, kernel[r][j], v)
					}
				}
			}
		}
	}
}

package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Assembly and Go give the same bits, of lines of all lengths.
func TestBallStepIsThatOfGo(t *testing.T) {
	if !Fast {
		t.Skip("no vector instructions")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) []float64 {
		x := make([]float64, n)
		for i := range x {
			x[i] = rng.NormFloat64()
		}
		return x
	}
	for pixels := 1; pixels < 40; pixels++ {
		for _, bad := range []float64{0, math.NaN(), math.Inf(1)} {
			apart := 1 + pixels%4
			n, rows := pixels*apart, 3
			s := BallStep{U: draw(2 * n * rows), Before: draw(2 * n * rows), B: draw(n * rows), Momentum: 0.9, Back: 1.1,
				Step: 0.3, Radius: 0.7, Row: n, Apart: apart, Channels: []int{0, 1, apart}[pixels%3],
				Uphill: pixels%4 < 2}
			if bad != 0 {
				s.U[n/2], s.B[2*n-1] = bad, bad
			}
			var dst [2][]float64
			var sum [2]float64
			for k := range 2 {
				s.Dst = make([]float64, 2*n*rows)
				dst[k] = s.Dst
				l := BallRow{make([]float64, n), make([]float64, n), make([]float64, n+apart), make([]float64, n)}
				Fast = k == 0
				s.Begin(&l, 0, true)
				for r := range rows {
					sum[k] += s.Advance(&l, r, r == rows-1)
				}
			}
			Fast = true
			for i, x := range [][2][]float64{dst, {sum[:1], sum[1:]}} {
				for j := range x[0] {
					if math.Float64bits(x[0][j]) != math.Float64bits(x[1][j]) && !(math.IsNaN(x[0][j]) && math.IsNaN(x[1][j])) {
						t.Fatalf("n %d, array %d, entry %d: %v and %v", n, i, j, x[0][j], x[1][j])
					}
				}
			}
		}
	}
}

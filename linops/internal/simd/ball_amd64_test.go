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
			n := pixels * apart
			l := BallLine{draw(n), draw(n), draw(n), draw(n)}
			up, b, below := draw(n), draw(n), draw(n)
			if bad != 0 {
				l.Down[n/2], below[n-1] = bad, bad
			}
			s := BallStep{Step: 0.3, Radius: 0.7, Channels: []int{0, 1, apart}[pixels%3]}
			var primal, down, along, d0, d1 [2][]float64
			var sum [2]float64
			for k := range 2 {
				primal[k], down[k], along[k] = make([]float64, n+apart), make([]float64, n), make([]float64, apart+n)
				d0[k], d1[k] = make([]float64, n), make([]float64, n)
				Fast = k == 0
				l.Extrapolate(primal[k], down[k], along[k], up, b, 0.9, 1.1, float64(n%3%2), apart)
				copy(primal[k][n:], primal[k][n-apart:n])
				sum[k] = s.Project(d0[k], d1[k], l.Down, l.Along, down[k], along[k][apart:], primal[k], below, apart,
					make([]float64, n))
			}
			Fast = true
			for i, x := range [][2][]float64{primal, down, along, d0, d1, {sum[:1], sum[1:]}} {
				for j := range x[0] {
					if math.Float64bits(x[0][j]) != math.Float64bits(x[1][j]) && !(math.IsNaN(x[0][j]) && math.IsNaN(x[1][j])) {
						t.Fatalf("n %d, array %d, entry %d: %v and %v", n, i, j, x[0][j], x[1][j])
					}
				}
			}
		}
	}
}

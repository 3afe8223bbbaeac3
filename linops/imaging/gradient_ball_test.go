package imaging

import (
	"math"
	"math/rand/v2"
	"testing"

	"surepipe/array"
	"surepipe/linops"
)

// A step in one pass is the step by products with the operator.
func TestBallStepIsTheStepByProducts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	dev := array.NewHost()
	for _, shape := range [][]int{{1, 1}, {1, 6}, {7, 1}, {5, 4}, {70, 33}, {3, 20, 9}, {2, 1, 5}, {90, 80}} {
		axes := []int{len(shape) - 2, len(shape) - 1}
		g := NewGradient(shape, axes, Reflecting)
		q, p := g.Dims()
		vector := func(n int) array.Batch {
			x := make([]float64, n)
			for i := range x {
				x[i] = rng.NormFloat64()
			}
			b := dev.Alloc(1, n)
			dev.Upload(b, x)
			return b
		}
		for planes := 1; planes <= 2; planes++ {
			s := linops.BallStep{Dst: dev.Alloc(1, q), U: vector(q), Before: vector(q), B: vector(p), Momentum: 0.7,
				Back: 0.5, Step: 0.3, Radius: 1.1, Planes: planes}
			uphill, ok := g.Structure().BallStep(s)
			if !ok {
				t.Fatalf("%v: no step", shape)
			}
			x, b, v := dev.Alloc(1, q), dev.Alloc(1, p), dev.Alloc(1, q)
			dev.Lin(x, 1+s.Momentum, s.U, -s.Momentum, s.Before)
			g.Adjoint(b, x)
			dev.Lin(b, 1, s.B, -s.Back, b)
			g.Forward(v, b)
			dev.Lin(v, 1, x, s.Step, v)
			at, from, got, want := x.ToHost(), s.U.ToHost(), s.Dst.ToHost(), v.ToHost()
			sum := 0.0
			for i := range p {
				one, other := math.Abs(want[i]), math.Abs(want[p+i])
				if planes == 2 {
					one = math.Hypot(one, other)
					other = one
				}
				want[i] *= math.Min(1, s.Radius/one)
				want[p+i] *= math.Min(1, s.Radius/other)
			}
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-13 {
					t.Fatalf("%v, %d planes: entry %d is %v, want %v", shape, planes, i, got[i], want[i])
				}
				sum += (at[i] - want[i]) * (want[i] - from[i])
			}
			if math.Abs(uphill-sum) > 1e-10*(1+math.Abs(sum)) {
				t.Errorf("%v, %d planes: uphill is %v, want %v", shape, planes, uphill, sum)
			}
		}
	}
}

// No step where the operator or the balls are others.
func TestBallStepOnlyWhereKnown(t *testing.T) {
	dev := array.NewHost()
	for _, c := range []struct {
		shape, axes []int
		edge        Edge
		planes      int
	}{{[]int{4, 5}, nil, Periodic, 2}, {[]int{4, 5, 3}, []int{0, 1}, Reflecting, 2},
		{[]int{4, 5, 3}, nil, Reflecting, 3}, {[]int{4, 5}, nil, Reflecting, 4}} {
		g := NewGradient(c.shape, c.axes, c.edge)
		q, p := g.Dims()
		if _, ok := g.Structure().BallStep(linops.BallStep{Dst: dev.Alloc(1, q), U: dev.Alloc(1, q),
			Before: dev.Alloc(1, q), B: dev.Alloc(1, p), Planes: c.planes}); ok {
			t.Errorf("%v along %v with %v edges: a step for %d planes", c.shape, c.axes, c.edge, c.planes)
		}
	}
}

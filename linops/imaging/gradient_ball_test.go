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
	for _, c := range []struct {
		shape []int
		axes  []int
	}{{[]int{1, 1}, nil}, {[]int{1, 6}, nil}, {[]int{7, 1}, nil}, {[]int{5, 4}, nil}, {[]int{70, 33}, nil},
		{[]int{3, 20, 9}, []int{1, 2}}, {[]int{2, 1, 5}, []int{1, 2}}, {[]int{90, 80}, nil}, {[]int{1, 1, 3}, []int{0, 1}},
		{[]int{40, 23, 3}, []int{0, 1}}, {[]int{2, 30, 7, 2, 2}, []int{1, 2}}} {
		shape := c.shape
		g := NewGradient(shape, c.axes, Reflecting)
		channels := g.inner[1]
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
		for _, of := range [][2]int{{1, 1}, {2, 1}, {2, channels}} {
			planes, together := of[0], of[1]
			s := linops.BallStep{Dst: dev.Alloc(1, q), U: vector(q), Before: vector(q), B: vector(p), Momentum: 0.7,
				Back: 0.5, Step: 0.3, Radius: 1.1, Planes: planes, Channels: together,
				Uphill: true}
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
			for i := 0; i < p; i += together {
				square := 0.0
				for c := i; c < i+together; c++ {
					square += want[c]*want[c] + want[p+c]*want[p+c]
				}
				for c := i; c < i+together; c++ {
					one, other := math.Abs(want[c]), math.Abs(want[p+c])
					if planes == 2 {
						one, other = math.Sqrt(square), math.Sqrt(square)
					}
					want[c] *= math.Min(1, s.Radius/one)
					want[p+c] *= math.Min(1, s.Radius/other)
				}
			}
			for i := range want {
				if math.Abs(got[i]-want[i]) > 1e-13 {
					t.Fatalf("%v, %d planes, %d channels together: entry %d is %v, want %v", shape, planes, together, i, got[i], want[i])
				}
				sum += (at[i] - want[i]) * (want[i] - from[i])
			}
			if math.Abs(uphill-sum) > 1e-10*(1+math.Abs(sum)) {
				t.Errorf("%v, %d planes, %d channels together: uphill is %v, want %v", shape, planes, together, uphill, sum)
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
		channels    int
	}{{[]int{4, 5}, nil, Periodic, 2, 1}, {[]int{4, 5, 3}, []int{0, 2}, Reflecting, 2, 1},
		{[]int{4, 5, 3}, nil, Reflecting, 3, 1}, {[]int{4, 5}, nil, Reflecting, 4, 1},
		{[]int{4, 6, 3}, []int{0, 1}, Reflecting, 2, 2}, {[]int{4, 5, 3}, []int{0, 1}, Reflecting, 1, 3}} {
		g := NewGradient(c.shape, c.axes, c.edge)
		q, p := g.Dims()
		if _, ok := g.Structure().BallStep(linops.BallStep{Dst: dev.Alloc(1, q), U: dev.Alloc(1, q),
			Before: dev.Alloc(1, q), B: dev.Alloc(1, p), Planes: c.planes, Channels: c.channels}); ok {
			t.Errorf("%v along %v with %v edges: a step for %d planes, %d channels together", c.shape, c.axes, c.edge, c.planes,
				c.channels)
		}
	}
}

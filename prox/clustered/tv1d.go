package clustered

import (
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"surepipe/array"
	"surepipe/internal/lists"
	"surepipe/prox"
	"surepipe/prox/internal/vector"
)

// tv1d is r(b) = lambda sum_i |b_{i+1} - b_i|.
type tv1d struct {
	n      int
	lambda float64
	work   sync.Pool // of *tv1dWork
	prox.Known
}

// NewTV1D returns the total variation penalty of a sequence, the one-dimensional fused LASSO,
//
//	r(b) = lambda sum_{i<n} |b_{i+1} - b_i|
//
// on vectors of length n, or of any length if n = 0. With tau = t lambda the result is constant on
// pieces, and on a piece P of it
//
//	prox_{t r}(v)_P = (sum_{i in P} v_i + tau (s_right - s_left)) / |P|,
//
// where s_left and s_right are the signs of the steps into and out of P, 0 at the two ends of the
// sequence. The pieces are found by dynamic programming (Johnson 2013) on the host, in time and
// memory linear in n whatever v is. The derivative
//
//	(J z)_i = mean of z over the piece of i
//
// is applied on the device, in time linear in n. It is an orthogonal projection whose trace is the
// number of pieces.
//
// Two neighbours are in one piece unless the optimum has a step between them. Where the dual
// variable lies on its bound without a step, at a kink, they are in one piece, which gives an
// element of the Clarke Jacobian. There is no tolerance: values of the recursion are compared,
// which is exact where sums of v's entries and of tau are exact in float64, as for integers, and
// otherwise right for a v that differs by rounding.
//
// lambda = 0 gives the identity, lambda = +Inf the mean. Otherwise a NaN and an entry beyond 1e290
// in size are errors. NewTV1D panics if lambda is negative or NaN, or n is negative.
func NewTV1D(n int, lambda float64) prox.Prox {
	vector.CheckDim("total variation", n)
	vector.CheckLambda("the total variation's lambda", lambda)
	p := &tv1d{n: n, lambda: lambda}
	p.Is = prox.Structure{Value: p.value}
	return p
}

func (p *tv1d) Dim() int { return p.n }

type tv1dWork struct {
	x      []float64 // v, then the result
	lo, hi []float64 // b_k = min(max(b_{k+1}, lo_k), hi_k)
	knots  []knot
	ends   []int // of the pieces, increasing
}

// knot is a point at which the slope of a piecewise linear function changes: on its right the line
// a x + c is added to the function on its left.
type knot struct{ x, a, c float64 }

func (p *tv1d) getWork(n int) *tv1dWork {
	w, ok := p.work.Get().(*tv1dWork)
	if !ok {
		w = new(tv1dWork)
	}
	w.x, w.lo, w.hi = lists.Resize(w.x, n), lists.Resize(w.lo, n), lists.Resize(w.hi, n)
	w.knots = lists.Resize(w.knots, 2*n)
	return w
}

// solve sets x to prox(x) for tau > 0 and ends to the pieces.
//
// With f_k(b) the least value of the objective's first k terms that ends in b_k = b,
//
//	f_{k+1}'(b) = min(max(f_k'(b), -tau), tau) + b - v_{k+1}
//
// is increasing and piecewise linear, and b_k = min(max(b_{k+1}, lo_k), hi_k) with
// f_k'(lo_k) = -tau, f_k'(hi_k) = tau. Each step adds a knot at either end, and removes those
// beyond lo_k and hi_k. Slopes are counts of coordinates, hence exact, and at least 1.
//
// On the left f' is kept relative to -tau, on the right to tau, so that tau enters at the ends of
// the sequence only. Data are taken relative to the first entry, because a large common offset
// would cost digits.
func (w *tv1dWork) solve(tau float64) {
	x, n := w.x, len(w.x)
	if n == 0 {
		w.ends = w.ends[:0]
		return
	}
	origin, total := x[0], 0.0
	for _, a := range x {
		total += math.Abs(a - origin)
	}
	// The dual never exceeds twice the total: a larger tau changes nothing.
	tau = min(tau, 4*total)

	knots := w.knots
	left, right := n, n-1 // the knots in use, both included
	a, c := 1.0, tau      // the line left of all knots, plus tau
	e, g := 1.0, -tau     // the line right of all knots, minus tau
	for k := range n - 1 {
		y := x[k] - origin
		if k > 0 {
			a, c, e, g = 1, -y, 1, -y
		}
		for left <= right && a*knots[left].x+c < 0 {
			a += knots[left].a
			c += knots[left].c
			left++
		}
		for left <= right && e*knots[right].x+g > 0 {
			e -= knots[right].a
			g -= knots[right].c
			right--
		}
		lo, hi := -c/a, -g/e
		left--
		knots[left] = knot{lo, a, c}
		right++
		knots[right] = knot{hi, -e, -g}
		w.lo[k], w.hi[k] = lo, hi
	}
	a, c = 1, origin-x[n-1]
	for left <= right && a*knots[left].x+c < tau {
		a += knots[left].a
		c += knots[left].c
		left++
	}
	b := (tau - c) / a

	// Backwards through the pieces. Their values come from v itself and not from the recursion,
	// whose rounding errors they do not share.
	ends, end, out := w.ends[:0], n, 0.0
	for k := n - 2; k >= -1; k-- {
		in := 0.0
		switch {
		case k < 0:
		case b < w.lo[k]:
			b, in = w.lo[k], -1
		case b > w.hi[k]:
			b, in = w.hi[k], 1
		default:
			continue
		}
		piece := x[k+1 : end]
		value := (floats.SumCompensated(piece) + tau*(out-in)) / float64(len(piece))
		for i := range piece {
			piece[i] = value
		}
		ends = append(ends, end)
		end, out = k+1, in
	}
	slices.Reverse(ends)
	w.ends = ends
}

func (p *tv1d) Eval(dst, v array.Batch, t float64) error {
	vector.CheckEval("total variation", p.n, dst, v, t)
	if p.lambda == 0 {
		dst.Device().Copy(dst, v)
		return nil
	}
	w := p.getWork(v.N())
	defer p.work.Put(w)
	return vector.OnEach("total variation", dst, v, w.x, func() { w.solve(t * p.lambda) })
}

func (p *tv1d) Linearize(dst, v array.Batch, t float64) (prox.Derivative, error) {
	vector.CheckLinearize("total variation", p.n, dst, v, t)
	if p.lambda == 0 {
		dst.Device().Copy(dst, v)
		return prox.NewMultiple(1, v, nil), nil
	}
	w := p.getWork(v.N())
	defer p.work.Put(w)
	if err := vector.OnEach("total variation", dst, v, w.x, func() { w.solve(t * p.lambda) }); err != nil {
		return nil, err
	}
	return averaging(v, w.ends, nil, nil, func(v array.Batch) float64 {
		return p.margin(v, t*p.lambda)
	}), nil
}

func (p *tv1d) margin(v array.Batch, tau float64) float64 {
	at := v.Read()
	w := p.getWork(len(at))
	defer p.work.Put(w)
	copy(w.x, at)
	w.solve(tau)
	return variationMargin(at, w.x, w.ends, tau)
}

func (p *tv1d) value(b array.Batch) float64 {
	vector.CheckValue("total variation", p.n, b)
	x, s := b.Read(), 0.0
	for i := 1; i < len(x); i++ {
		s += math.Abs(x[i] - x[i-1])
	}
	return vector.Times(p.lambda, s)
}

package lowrank

import (
	"context"
	"math"

	"surepipe/array"
	"surepipe/prox/subspace"
)

// factorNewton does a step of Newton's method for the function phi of the factors ([factorHessian])
// at b_k = U diag(f) V*, and reports whether the objective is less. z = A b_k - y. Factors with columns
// that the solution does not have are no obstacle: their values go to 0, as long as the singular values
// of the gradient there are below lambda.
func (w *matrices) factorNewton(ctx context.Context, tol float64) (bool, error) {
	r, lambda := len(w.top.Sigma), w.above/w.eta
	f := make([]float64, r)
	for i, s := range w.top.Sigma {
		f[i] = s - w.above
	}
	if err := w.reweigh(f, lambda); err != nil {
		return false, err
	}
	over, err := w.beyond(lambda)
	if err != nil {
		return false, err
	}
	defer over.Free()
	h, err := w.newFactorHessian(ctx, w.top.U, f, w.top.V, w.z, lambda*(1+w.second.shift()))
	if err != nil {
		return false, err
	}
	defer h.free()
	h.clip(over, lambda)
	x := [2]array.Batch{w.dev.Alloc(1, h.len(rowSide)), w.dev.Alloc(1, h.len(columnSide))}
	defer x[0].Free()
	defer x[1].Free()
	most := mostNewton
	if w.level > w.tau {
		most = mostLoose
	}
	if err := h.newtonStep(ctx, x, lambda, tol, most); err != nil {
		return false, err
	}
	w.second.learn(h.indefinite)
	if h.indefinite && w.patient {
		w.second.rejected()
	}
	step := h.course(x, lambda).least()
	if !(step > 0) {
		return false, w.dev.Err()
	}
	moved := [2]array.Batch{w.dev.Alloc(w.m, r), w.dev.Alloc(w.n, r)}
	for i := range x {
		w.dev.Lin(moved[i], step, h.columns(i, x[i]), 1, h.columns(i, h.side[i].factor))
		defer moved[i].Free()
	}
	t, err := subspace.Thin(moved[rowSide], moved[columnSide])
	if err != nil {
		return false, err
	}
	defer t.Free()
	at := factored{w.dev.Alloc(w.m, t.U.N()), w.dev.Alloc(w.n, t.V.N())}
	subspace.ScaleColumns(at.l, t.U, t.Sigma)
	w.dev.Copy(at.v, t.V)
	w.replace(&at)
	at.free()
	w.space.Lead(t.V)
	return true, w.dev.Err()
}

// newtonStep sets x to an approximate solution of the Newton system, by conjugate gradients to a
// relative residual in the preconditioner's norm, or to a direction of negative curvature.
func (h *factorHessian) newtonStep(ctx context.Context, x [2]array.Batch, lambda, tol float64, most int) error {
	dev, in, out := h.dev, h.in(), h.out()
	n := h.len(in)
	res, dir, t, q := dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n), dev.Alloc(1, n)
	b := dev.Alloc(1, h.len(out))
	defer func() {
		for _, v := range []array.Batch{res, dir, t, q, b} {
			v.Free()
		}
	}()
	h.descent(out, b, lambda)
	h.descent(in, res, lambda)
	h.eliminate(t, b)
	dev.Lin(res, 1, res, -1, t)
	dev.Fill(x[in], 0)
	h.precondition(dir, res, true)
	rho := dot(res, dir)
	first, look := rho, firstLook
	for step := 0; step < most && rho > tol*tol*first; step++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		h.square(q, dir)
		along := dot(q, dir)
		if !(along > 0) {
			if step == 0 {
				dev.Copy(x[in], dir)
			}
			h.indefinite = true
			break
		}
		alpha := rho / along
		dev.Lin(x[in], 1, x[in], alpha, dir)
		dev.Lin(res, 1, res, -alpha, q)
		h.precondition(t, res, true)
		next := dot(res, t)
		beta := next / rho
		rho = next
		if h.indefinite = rho > mostGrowth*first; h.indefinite {
			break
		}
		dev.Lin(dir, 1, t, beta, dir)
		if next := step + 1; next == look && rho > tol*tol*first {
			h.complement(x, b)
			tol = max(tol, asNear*h.course(x, lambda).unlike())
			look *= 2
		}
	}
	h.complement(x, b)
	return dev.Err()
}

// complement sets the eliminated part of a direction: Q = D^{-1} (b - C P).
func (h *factorHessian) complement(x [2]array.Batch, b array.Batch) {
	out := h.out()
	t := h.dev.Alloc(1, b.N())
	h.couple(out, t, x[h.in()])
	h.dev.Lin(t, -1, t, 1, b)
	h.invert(out, x[out], t)
	t.Free()
}

// descent sets dst to the negative gradient of phi by the factor of a side: -(G R + mu L), or -(G* L +
// mu R).
func (h *factorHessian) descent(side int, dst array.Batch, lambda float64) {
	h.spread(side, dst, h.misfit)
	h.dev.Lin(dst, -1, dst, -lambda, h.side[side].factor)
}

const (
	// mostLoose bounds the conjugate gradient steps of a Newton step in the continuation.
	mostLoose = 15
	// After firstLook conjugate gradient steps, and twice as many, four times and so on, the direction is looked
	// at: where phi is not quadratic along it, the system is not solved to more than asNear of how much.
	firstLook = 8
	asNear    = 0.3
	// A residual that has grown by mostGrowth shows that the second derivative is indefinite.
	mostGrowth = 10
)

const (
	longestStep = 2
	stepGrid    = 64
)

// polynomial is phi(L + t Q, R + t P) - phi(L, R) of t: its coefficients.
type polynomial [5]float64

// course is the polynomial along x. The slope is that of the gradient, so that it is accurate near
// the solution, where the difference of two objectives is not.
func (h *factorHessian) course(x [2]array.Batch, lambda float64) polynomial {
	dev := h.dev
	a, c := dev.Alloc(1, h.d), dev.Alloc(1, h.d)
	defer a.Free()
	defer c.Free()
	h.sample(rowSide, a, x[rowSide], 0)
	h.sample(columnSide, a, x[columnSide], 1)
	dev.SampleProduct(c, h.pattern, 1, x[rowSide], x[columnSide], 0)
	z := h.misfit
	slope, size := 0.0, 0.0
	for i := range x {
		down := dev.Alloc(1, x[i].N())
		h.descent(i, down, lambda)
		slope -= dot(down, x[i])
		size += dot(x[i], x[i])
		down.Free()
	}
	return polynomial{0, slope, dot(a, a)/2 + dot(z, c) + lambda/2*size, dot(a, c), dot(c, c) / 2}
}

func (p polynomial) at(t float64) float64 { return t * (p[1] + t*(p[2]+t*(p[3]+t*p[4]))) }

// unlike is by how much the slope at t = 1 differs from that of the quadratic model, relative to that at 0.
func (p polynomial) unlike() float64 {
	return math.Abs((3*p[3] + 4*p[4]) / p[1])
}

// least is the t in [0, 2] at which the polynomial is least; 0 where it does not fall.
func (p polynomial) least() float64 {
	best := 0.0
	for i := 1; i <= stepGrid; i++ {
		if t := longestStep * float64(i) / stepGrid; p.at(t) < p.at(best) {
			best = t
		}
	}
	for range 8 {
		slope := p[1] + best*(2*p[2]+best*(3*p[3]+best*4*p[4]))
		if bend := 2*p[2] + best*(6*p[3]+best*12*p[4]); bend > 0 {
			if t := best - slope/bend; t > 0 && p.at(t) < p.at(best) {
				best = t
			}
		}
	}
	return best
}

// beyondPasses are the passes of the subspace iteration for the gradient, and beyondShare is by how much
// its values exceed lambda where they count.
const (
	beyondPasses = 1
	beyondShare  = 1e-3
)

// gradient is the product with A*(A b_k - y), z being A b_k - y.
func (w *matrices) gradient(trans bool, dst, x array.Batch) {
	rows, cols := w.m, w.n
	if trans {
		rows, cols = cols, rows
	}
	w.dev.SpreadProduct(trans, 1, w.pattern, w.z, x.Reshape(1, cols*x.N()), 0, dst.Reshape(1, rows*x.N()))
}

// beyond estimates the singular triplets of the gradient whose values exceed lambda.
func (w *matrices) beyond(lambda float64) (t subspace.Triplets, err error) {
	if w.slope == nil {
		w.slope = subspace.New(w.dev, w.shape)
	}
	for range beyondPasses {
		t.Free()
		if t, err = w.slope.Advance(w.gradient, lambda*(1+beyondShare)); err != nil {
			return t, err
		}
	}
	return t, w.dev.Err()
}

// clip replaces the gradient G in the second derivative by one whose singular values t are cut off at
// mu. They belong to columns that the factors lack, and made the second derivative indefinite.
func (h *factorHessian) clip(t subspace.Triplets, mu float64) {
	l := len(t.Sigma)
	if l == 0 {
		return
	}
	over := make([]float64, l)
	for i, s := range t.Sigma {
		over[i] = s - mu
	}
	h.over[rowSide], h.over[columnSide] = h.dev.Alloc(t.U.K(), l), h.dev.Alloc(t.V.K(), l)
	h.dev.Copy(h.over[columnSide], t.V)
	subspace.ScaleColumns(h.over[rowSide], t.U, over)
}

package differential

import (
	"math"
	"slices"
)

// solution is a solution of the canonical problem with its certificate.
type solution struct {
	b, u []dd // u = y - A b
	z    []dd // K b, and b itself where there is no K
	g    []dd // of r's subdifferential at z: A* u, or the multiplier of K b = z
	// gap bounds F(b) - min F >= 1/2 ||A b - A b*||^2, if ||b* - b|| in units of the columns
	// is at most ten times what the sizes of b and y suggest.
	gap float64
	off []dd // a subgradient of F at b
}

// The proximal point method's step grows by stepGrowth an iteration, from firstStep to
// lastStep.
const (
	firstStep  = 1.0
	stepGrowth = 64.0
	lastStep   = 0x1p80
	outerMost  = 24
	innerMost  = 40

	// settled is the gap, relative to ||y||^2, below which more steps gain nothing.
	settled = 1e-28
)

// solve is the proximal point method,
//
//	b+ = argmin 1/2 ||A b - y||^2 + r(b) + 1/(2 t) ||b - b_k||^2,
//
// each step by Newton's method on its dual, a strongly convex function of the residual u
// whose gradient is piecewise smooth,
//
//	u - y + A prox_{t r}(b_k + t A* u),   Hessian I + t A J A*
//
// (Li, Sun and Toh 2018). No step requires A of full rank or a unique b.
func (k *canonical) solve() (best solution) {
	if k.k != nil {
		return k.solveBehind()
	}
	b := make([]dd, k.a.c)
	u := slices.Clone(k.y)
	best.gap = math.Inf(1)
	enough := settled * norm2(k.y).Hi
	for t, n := firstStep, 0; n < outerMost; n++ {
		b, u = k.step(b, u, num(t))
		s := k.polish(k.certify(b))
		if s.gap < best.gap {
			best = s
			b = s.b
		}
		if best.gap <= enough {
			break
		}
		t = min(t*stepGrowth, lastStep)
	}
	return best
}

// polish takes Newton steps on the face of the solution, as long as they reduce the gap.
func (k *canonical) polish(s solution) solution {
	for range 6 {
		at := k.differentiate(s, k.strict(s))
		if at.chol == nil {
			return s
		}
		next := k.certify(at.newton(s))
		if !(next.gap < s.gap) {
			return s
		}
		s = next
	}
	return s
}

// step is a proximal point step from b, begun at the residual u.
func (k *canonical) step(b, u []dd, t dd) (next, residual []dd) {
	// evaluate is the gradient at u, and the argument of the prox.
	evaluate := func(u []dd) (grad, v, next []dd) {
		v = k.a.applyT(u)
		for j := range v {
			v[j] = b[j].Add(t.Mul(v[j]))
		}
		next = k.prox(v, t)
		grad = k.a.apply(next)
		for i := range grad {
			grad[i] = grad[i].Add(u[i]).Sub(k.y[i])
		}
		return grad, v, next
	}
	grad, v, next := evaluate(u)
	size := length(k.y)
	floor := 0.0 // of the rounding in t A* u
	for _, v := range k.norms {
		floor += 1e-30 * t.Hi * v * v
	}
	least, stuck := length(grad), 0
	for range innerMost {
		if length(grad) <= 1e-29*size+floor*length(u) {
			break
		}
		h := k.imageOfJacobian(v, t).mul(k.a.t())
		for i := range h.r {
			for j := range i + 1 {
				x := t.Mul(h.at(i, j)) // cholesky reads no more than this half
				if i == j {
					x = x.Add(num(1))
				}
				h.set(i, j, x)
			}
		}
		l, ok := h.cholesky()
		if !ok {
			break
		}
		dir := solveCholesky(l, grad)
		u2, grad2, v2, next2 := search(u, grad, dir, 0.5, evaluate)
		// The objective decreases at every step; the gradient's norm need not.
		if g := length(grad2); g < least {
			least, stuck = g, 0
		} else if stuck++; stuck == 12 {
			break
		}
		u, grad, v, next = u2, grad2, v2, next2
	}
	return next, u
}

// search follows the direction -dir to a point where the slope has decreased by half or more, by
// doubling and halving: for a convex function that is a descent.
func search(u, grad, dir []dd, share float64, evaluate func([]dd) ([]dd, []dd, []dd)) (to, g, v, next []dd) {
	start := -dot(grad, dir).Hi
	lo, hi := 0.0, math.Inf(1)
	alpha := 1.0
	for range 30 {
		to = make([]dd, len(u))
		for i := range u {
			to[i] = u[i].Sub(dir[i].Mul(num(alpha)))
		}
		g, v, next = evaluate(to)
		slope := -dot(g, dir).Hi
		switch {
		case math.Abs(slope) <= share*math.Abs(start):
			return to, g, v, next
		case slope < 0:
			lo = alpha
		default:
			hi = alpha
		}
		if math.IsInf(hi, 0) {
			alpha *= 2
		} else {
			alpha = (lo + hi) / 2
		}
	}
	return to, g, v, next
}

// reach is how long an entry of b is, by the sizes of y and of A's columns. Squares that tie entries together
// may be far larger than A: then every entry may be as long as the longest.
func (k *canonical) reach() []float64 {
	size := length(k.y)
	out := make([]float64, k.a.c)
	for j, norm := range k.images().columnNorms() {
		if norm > 0 {
			out[j] = size / norm
		}
	}
	if k.observed < k.a.r {
		return slices.Repeat([]float64{slices.Max(out)}, len(out))
	}
	return out
}

// certify measures how optimal b is: p = prox_{t r}(b + t A*(y - A b)) has the subgradient (b -
// p)/t + A*(y - A b), which differs from -A*(A p - y) by s, and by convexity
//
//	F(p) - F(b*) <= <s, p - b*>.
//
// It returns p.
func (k *canonical) certify(b []dd) solution {
	residual := func(b []dd) []dd {
		u := k.a.apply(b)
		for i := range u {
			u[i] = k.y[i].Sub(u[i])
		}
		return u
	}
	t := num(1)
	g := k.a.applyT(residual(b))
	v := make([]dd, len(b))
	for j := range b {
		v[j] = b[j].Add(t.Mul(g[j]))
	}
	p := k.prox(v, t)
	u := residual(p)
	s := solution{b: p, z: p, u: u, g: k.a.applyT(u), off: make([]dd, len(p))}
	for j, reach := range k.reach() {
		s.off[j] = v[j].Sub(p[j]).Div(t).Sub(s.g[j])
		s.gap += 10 * math.Abs(s.off[j].Hi) * (math.Abs(p[j].Hi) + reach)
	}
	return s
}

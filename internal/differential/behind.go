package differential

import (
	"math"
	"slices"
)

// behind is the problem with r(K b): the blocks are those of z = K b. With the multiplier u of K b = z
//
//	A*(A b - y) + K* u = 0,   u in the subdifferential of r at K b.

// stack sets K, and puts the columns of A and K in units in which those of A, and the entries of K, have size 1.
func (k *canonical) stack(o Op) {
	k.k, _ = o.matrix()
	k.norms = k.a.columnNorms()
	top := 0.0
	for j, norm := range k.norms {
		s := 1 / exponent(norm)
		for i := range k.a.r {
			k.a.set(i, j, k.a.at(i, j).Pow2(s))
		}
		for i := range k.k.r {
			k.k.set(i, j, k.k.at(i, j).Pow2(s))
			top = max(top, math.Abs(k.k.at(i, j).Hi))
		}
	}
	f := exponent(top)
	for i, v := range k.k.a {
		k.k.a[i] = v.Pow2(1 / f)
	}
	for i, b := range k.blocks {
		k.blocks[i] = b.scaled(slices.Repeat([]float64{f}, len(k.members[i])))
	}
	k.norms, k.left = k.a.columnNorms(), 1
	large := make([]dd, k.k.r) // and all different
	for i := range large {
		large[i] = num(0x1p64 * float64(i+1))
	}
	z := k.prox(large, num(1))
	for i, v := range large {
		z[i] = v.Sub(z[i])
	}
	k.steepest = length(z)
}

// multipliers are the parameters t of the proximal method of multipliers.
var multipliers = []float64{1, 8, 64, 0x1p9, 0x1p12, 0x1p15, 0x1p18, 0x1p21, 0x1p24, 0x1p24, 0x1p15, 64}

// solveBehind is the proximal method of multipliers (Rockafellar 1976),
//
//	b+ = argmin_b 1/2 ||A b - y||^2 + min_z [ r(z) + t/2 ||K b + u/t - z||^2 ] + 1/(2 t^2) ||b - b_k||^2,
//	u+ = t (K b+ + u/t - z+),
//
// each step by Newton's method on a function whose gradient is piecewise smooth, until the face is that
// of the solution.
func (k *canonical) solveBehind() (best solution) {
	b, u := make([]dd, k.a.c), make([]dd, k.k.r)
	best.gap = math.Inf(1)
	enough := settled * norm2(k.y).Hi
	for _, t := range multipliers {
		var z []dd
		b, z, u = k.stepBehind(b, u, num(t), num(1/(t*t)))
		s := k.certifyBehind(b, z, u)
		for range 4 {
			if s.gap < best.gap {
				best = s
			}
			s = k.polishBehind(s)
		}
		if best.gap <= enough {
			break
		}
	}
	return best
}

// polishBehind is the solution on the face of s, with the multiplier nearest to that of s: where r has no
// curvature it is exact if the face is the solution's.
func (k *canonical) polishBehind(s solution) solution {
	e, q := k.face(s, k.strict(s))
	left := k.off(e)
	from, values, to := left.svd() // of N K
	pseudo := func(x []dd, from, to *matrix) []dd {
		c := from.applyT(x)
		out := make([]dd, to.r)
		for i, v := range values {
			if !(v.Hi > 1e-20) {
				continue
			}
			f := c[i].Div(v)
			for j := range out {
				out[j] = out[j].Add(f.Mul(to.at(j, i)))
			}
		}
		return out
	}
	away := k.k.apply(s.b)
	for i, v := range s.z {
		away[i] = v.Sub(away[i])
	}
	b := plus(s.b, pseudo(away, from, to))
	basis, curvature, _ := k.pull(e, q)
	d := k.confine(basis, curvature)
	if d.chol == nil {
		return s
	}
	b = d.newton(k.certifyBehind(b, s.z, s.g))
	off := k.certifyBehind(b, s.z, s.g).off
	for j := range off {
		off[j] = off[j].Neg()
	}
	v := plus(plus(k.k.apply(b), s.g), pseudo(off, to, from))
	z := k.prox(v, num(1))
	u := make([]dd, len(v))
	for i := range v {
		u[i] = v[i].Sub(z[i])
	}
	return k.certifyBehind(b, z, u)
}

func plus(a, b []dd) []dd {
	out := make([]dd, len(a))
	for i := range a {
		out[i] = a[i].Add(b[i])
	}
	return out
}

// stepBehind is a step of the method from b and u.
func (k *canonical) stepBehind(from, u []dd, t, near dd) (b, z, multiplier []dd) {
	inverse := num(1).Div(t)
	evaluate := func(b []dd) (grad, v, z []dd) {
		v = k.k.apply(b)
		for i := range v {
			v[i] = v[i].Add(u[i].Mul(inverse))
		}
		z = k.prox(v, inverse)
		w := make([]dd, len(v))
		for i := range v {
			w[i] = v[i].Sub(z[i]).Mul(t)
		}
		misfit := k.a.apply(b)
		for i := range misfit {
			misfit[i] = misfit[i].Sub(k.y[i])
		}
		grad, kw := k.a.applyT(misfit), k.k.applyT(w)
		for j := range grad {
			grad[j] = grad[j].Add(kw[j]).Add(b[j].Sub(from[j]).Mul(near))
		}
		return grad, v, z
	}
	gram := k.a.t().mul(k.a)
	b = slices.Clone(from)
	grad, v, z := evaluate(b)
	size := length(k.y)
	least, stuck := math.Inf(1), 0
	for range 2 * innerMost {
		g := length(grad)
		if g < least {
			least, stuck = g, 0
		} else if stuck++; stuck == 12 {
			break
		}
		if g <= 1e-31*(1+t.Hi)*size {
			break
		}
		rest := k.jacobian(v, inverse) // I - J
		for i := range rest.r {
			for j := range rest.r {
				x := rest.at(i, j).Neg()
				if i == j {
					x = x.Add(num(1))
				}
				rest.set(i, j, x.Mul(t))
			}
		}
		h := k.k.t().mul(rest).mul(k.k)
		for i := range h.r {
			for j := range h.r {
				x := h.at(i, j).Add(gram.at(i, j))
				if i == j {
					x = x.Add(near)
				}
				h.set(i, j, x)
			}
		}
		l, ok := h.cholesky()
		if !ok {
			break
		}
		b, grad, v, z = search(b, grad, solveCholesky(l, grad), 1e-3, evaluate)
	}
	multiplier = make([]dd, len(v))
	for i := range v {
		multiplier[i] = v[i].Sub(z[i]).Mul(t)
	}
	return b, z, multiplier
}

// jacobian is the derivative of prox.
func (k *canonical) jacobian(v []dd, t dd) *matrix {
	out := newMatrix(len(v), len(v))
	for i, b := range k.blocks {
		j, on := b.jacobian(k.part(i, v), t), k.members[i]
		for p, from := range on {
			for q, to := range on {
				out.set(from, to, j.at(p, q))
			}
		}
	}
	return out
}

// certifyBehind measures how optimal b is, where u is a subgradient of r at z: by convexity
//
//	F(b) - F(b*) <= <f, b - b*> + r(K b) - r(z) - <u, K b - z>,    f = A*(A b - y) + K* u,
//
// and the last terms are at most (L + ||u||) ||K b - z|| where L is the length of r's largest
// subgradients, for a norm.
func (k *canonical) certifyBehind(b, z, u []dd) solution {
	s := solution{b: b, z: z, u: k.a.apply(b), g: u}
	for i, v := range s.u {
		s.u[i] = k.y[i].Sub(v)
	}
	s.off = k.k.applyT(u)
	for j, v := range k.a.applyT(s.u) {
		s.off[j] = s.off[j].Sub(v)
	}
	size := length(k.y)
	for j, reach := range k.reach() {
		s.gap += 10 * math.Abs(s.off[j].Hi) * (math.Abs(b[j].Hi) + max(size, reach))
	}
	kb := k.k.apply(b)
	for i, v := range z {
		kb[i] = kb[i].Sub(v)
	}
	s.gap += 10 * (k.steepest + length(u)) * length(kb)
	return s
}

// pull is {b : K b in the span of e}, for vectors e in R^q, and the curvature q along them: with a basis
// (b, c) of the solutions of K b = E c, by elimination with complete pivoting, the curvature is C* q C.
// least is the smallest pivot, of K's rows scaled to size 1.
func (k *canonical) pull(e [][]dd, q *matrix) (basis [][]dd, curvature *matrix, least float64) {
	rows, p, n := k.k.r, k.k.c, k.k.c+len(e)
	m := newMatrix(rows, n)
	for i := range rows {
		copy(m.row(i), k.k.row(i))
		for a, v := range e {
			m.set(i, p+a, v[i].Neg())
		}
	}
	pivotOf, least := m.eliminate()
	used := make([]bool, n)
	for _, j := range pivotOf {
		if j >= 0 {
			used[j] = true
		}
	}
	var c [][]dd
	for j := range n {
		if used[j] {
			continue
		}
		x := make([]dd, n)
		x[j] = num(1)
		for i, at := range pivotOf {
			if at >= 0 {
				x[at] = m.at(i, j).Neg()
			}
		}
		basis, c = append(basis, x[:p]), append(c, x[p:])
	}
	curvature = newMatrix(len(c), len(c))
	for i := range c {
		for j := range c {
			curvature.set(i, j, dot(c[i], q.apply(c[j])))
		}
	}
	return basis, curvature, least
}

// eliminate brings m to reduced echelon form, with rows of size 1, and returns the column of each row's
// pivot, -1 for none, and the least pivot.
func (m *matrix) eliminate() (pivotOf []int, least float64) {
	pivotOf, least = slices.Repeat([]int{-1}, m.r), 1.0
	for i := range m.r {
		top := 0.0
		for _, v := range m.row(i) {
			top = max(top, math.Abs(v.Hi))
		}
		for j, v := range m.row(i) {
			m.set(i, j, v.Pow2(1/exponent(top)))
		}
	}
	for range m.r {
		row, col := -1, -1
		for i := range m.r {
			for j := range m.c {
				if pivotOf[i] < 0 && (row < 0 || m.at(row, col).Abs().Less(m.at(i, j).Abs())) {
					row, col = i, j
				}
			}
		}
		top := m.at(row, col)
		if !(top.Abs().Hi > 1e-24) {
			break
		}
		pivotOf[row], least = col, min(least, top.Abs().Hi)
		for j := range m.c {
			m.set(row, j, m.at(row, j).Div(top))
		}
		for i := range m.r {
			f := m.at(i, col)
			if i == row || f.IsZero() {
				continue
			}
			for j := range m.c {
				m.set(i, j, m.at(i, j).Sub(f.Mul(m.at(row, j))))
			}
			m.set(i, col, dd{})
		}
	}
	return pivotOf, least
}

// off is N K, with the projection N on what is orthogonal to the vectors e.
func (k *canonical) off(e [][]dd) *matrix {
	out := k.k.t()
	var on [][]dd
	for _, v := range e {
		x := slices.Clone(v)
		for range 2 {
			less(x, on)
		}
		if l := norm2(x).Sqrt(); l.Hi > 1e-20 {
			for i := range x {
				x[i] = x[i].Div(l)
			}
			on = append(on, x)
		}
	}
	for j := range out.r {
		less(out.row(j), on)
	}
	return out.t()
}

// less subtracts from x its parts along orthonormal vectors.
func less(x []dd, on [][]dd) {
	for _, w := range on {
		f := dot(w, x)
		for i := range x {
			x[i] = x[i].Sub(f.Mul(w[i]))
		}
	}
}

// multiplierOf is how much u changes with the residual: ||A|| over the least singular value of K, on what
// the space leaves out, that is not 0.
func (k *canonical) multiplierOf(e [][]dd) float64 {
	_, values, _ := k.off(e).svd()
	least := math.Inf(1)
	for _, v := range values {
		if v.Hi > 1e-20 {
			least = min(least, v.Hi)
		}
	}
	return math.Sqrt(float64(k.a.c)) / least
}

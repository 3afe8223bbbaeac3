package differential

import "slices"

// A block is part of the reference's own regularizer, r(b) = sum over blocks of r_i(b_i), on
// the coordinates that it lists.
type block interface {
	// prox is argmin_b t r(b) + 1/2 ||b - v||^2.
	prox(v []dd, t dd) []dd
	// jacobian is the derivative of prox at v, n x n.
	jacobian(v []dd, t dd) *matrix
	// face is the tangent space of r at b, where g is the subgradient.
	face(b, g []dd, near margins) face
	// scaled is the regularizer of b' where b_j = s_j b'_j; s is constant over the block
	// unless the block says that it can take any.
	scaled(s []float64) block
	anyScale() bool
}

// face is the tangent space along which r is smooth around a point: directions, and the curvature
// of r in them.
type face struct {
	e [][]dd  // k vectors in R^n that span the tangent space
	q *matrix // k x k, r's second derivative along them; nil for 0
}

// margins are the distances below which a quantity counts as being at the boundary: a primal
// quantity <n, b> smaller than primal(n) counts as 0 and leaves the face; a dual quantity that
// belongs to the direction e and is smaller than dual(e) adds e to the face.
type margins struct {
	primal func(n []dd) float64
	dual   func(e []dd) float64
}

func unit(n, j int) []dd {
	e := make([]dd, n)
	e[j] = num(1)
	return e
}

// signsOf are the signs of v, or ones if v is 0.
func signsOf(v []dd) []dd {
	out := make([]dd, len(v))
	nothing := true
	for j, x := range v {
		out[j] = x.Sign()
		nothing = nothing && x.IsZero()
	}
	if nothing {
		for j := range out {
			out[j] = num(1)
		}
	}
	return out
}

func diagonal(v []dd) *matrix {
	m := newMatrix(len(v), len(v))
	for i, x := range v {
		m.set(i, i, x)
	}
	return m
}

// coordinates is sum_j l_j |b_j| + q_j/2 b_j^2 where lo_j <= b_j <= hi_j.
type coordinates struct{ l, q, lo, hi []dd }

func (c *coordinates) anyScale() bool { return true }

func (c *coordinates) scaled(s []float64) block {
	o := &coordinates{slices.Clone(c.l), slices.Clone(c.q), slices.Clone(c.lo), slices.Clone(c.hi)}
	for j, f := range s {
		o.l[j] = o.l[j].Pow2(f)
		o.q[j] = o.q[j].Pow2(f).Pow2(f)
		o.lo[j] = unscale(o.lo[j], f)
		o.hi[j] = unscale(o.hi[j], f)
	}
	return o
}

// unscale is a/f, even where a is infinite.
func unscale(a dd, f float64) dd {
	if a.IsInf() {
		return a
	}
	return a.Pow2(1 / f)
}

func (c *coordinates) prox(v []dd, t dd) []dd {
	b := make([]dd, len(v))
	for j := range v {
		x := soft(v[j], t.Mul(c.l[j])).Div(num(1).Add(t.Mul(c.q[j])))
		b[j] = clamp(x, c.lo[j], c.hi[j])
	}
	return b
}

func (c *coordinates) jacobian(v []dd, t dd) *matrix {
	b := c.prox(v, t)
	d := make([]dd, len(v))
	for j := range v {
		if c.lo[j].Less(b[j]) && b[j].Less(c.hi[j]) && (!b[j].IsZero() || c.l[j].IsZero()) {
			d[j] = num(1).Div(num(1).Add(t.Mul(c.q[j])))
		}
	}
	return diagonal(d)
}

func (c *coordinates) face(b, g []dd, near margins) face {
	n := len(b)
	f := face{}
	var q []dd
	for j := range n {
		if c.free(j, b[j], g[j], near, n) {
			f.e, q = append(f.e, unit(n, j)), append(q, c.q[j])
		}
	}
	f.q = diagonal(q)
	return f
}

// free reports whether coordinate j can move.
func (c *coordinates) free(j int, b, g dd, near margins, n int) bool {
	e := unit(n, j)
	if c.lo[j].Hi == c.hi[j].Hi && c.lo[j].Lo == c.hi[j].Lo {
		return false
	}
	small := func(x dd) bool { return x.Abs().Hi <= near.primal(e) }
	slack := g.Sub(c.q[j].Mul(b)) // in [-l, l] + the bounds' multipliers
	atLo, atHi := !c.lo[j].IsInf() && small(b.Sub(c.lo[j])), !c.hi[j].IsInf() && small(c.hi[j].Sub(b))
	switch {
	case c.l[j].Hi > 0 && small(b):
		return c.l[j].Sub(slack.Abs()).Hi < near.dual(e)
	case atLo:
		// g = -multiplier + l sign(b).
		return c.l[j].Mul(b.Sign()).Sub(slack).Hi < near.dual(e)
	case atHi:
		return slack.Sub(c.l[j].Mul(b.Sign())).Hi < near.dual(e)
	}
	return true
}

// ball is sum_j k_j |b_j| <= s, or, as a simplex, b >= 0 with sum_j k_j b_j = s.
type ball struct {
	k       []dd
	s       dd
	simplex bool
}

func (c *ball) anyScale() bool { return true }

func (c *ball) scaled(s []float64) block {
	o := &ball{slices.Clone(c.k), c.s, c.simplex}
	for j, f := range s {
		o.k[j] = o.k[j].Pow2(f)
	}
	return o
}

// level is theta >= 0 of the projection, or any of the simplex's: sum k_j max(x_j - theta
// k_j, 0) = s, found by going down the sorted x_j/k_j.
func (c *ball) level(x []dd) dd {
	order := make([]int, len(x))
	ratio := make([]dd, len(x))
	for j := range x {
		order[j], ratio[j] = j, x[j].Div(c.k[j])
	}
	slices.SortStableFunc(order, func(i, j int) int {
		if ratio[j].Less(ratio[i]) {
			return -1
		}
		if ratio[i].Less(ratio[j]) {
			return 1
		}
		return 0
	})
	top, bottom := c.s.Neg(), dd{}
	var theta dd
	for _, j := range order {
		if !bottom.IsZero() && !theta.Less(ratio[j]) {
			break
		}
		top = top.Add(c.k[j].Mul(x[j]))
		bottom = bottom.Add(c.k[j].Mul(c.k[j]))
		theta = top.Div(bottom)
	}
	return theta
}

// project is the projection of v, and its theta; inside is true where the ball's bound is
// slack.
func (c *ball) project(v []dd) (b []dd, inside bool) {
	x := slices.Clone(v)
	if !c.simplex {
		var total dd
		for j := range x {
			x[j] = x[j].Abs()
			total = total.Add(c.k[j].Mul(x[j]))
		}
		if !c.s.Less(total) {
			return slices.Clone(v), true
		}
	}
	theta := c.level(x)
	b = make([]dd, len(v))
	for j := range b {
		if r := x[j].Sub(theta.Mul(c.k[j])); r.Hi > 0 {
			b[j] = r
			if !c.simplex {
				b[j] = r.Mul(v[j].Sign())
			}
		}
	}
	return b, false
}

func (c *ball) prox(v []dd, _ dd) []dd {
	b, _ := c.project(v)
	return b
}

func (c *ball) jacobian(v []dd, _ dd) *matrix {
	b, inside := c.project(v)
	n := len(v)
	m := newMatrix(n, n)
	var total dd
	for j := range b {
		if inside || !b[j].IsZero() {
			m.set(j, j, num(1))
			total = total.Add(c.k[j].Mul(c.k[j]))
		}
	}
	if inside {
		return m
	}
	for i := range n {
		for j := range n {
			if !b[i].IsZero() && !b[j].IsZero() {
				f := c.k[i].Mul(b[i].Sign()).Mul(c.k[j].Mul(b[j].Sign())).Div(total)
				m.set(i, j, m.at(i, j).Sub(f))
			}
		}
	}
	return m
}

// face: the multiplier nu of the bound is max_j |g_j|/k_j, or the simplex's, of any sign,
// that of its largest entry.
func (c *ball) face(b, g []dd, near margins) face {
	n := len(b)
	var total, nu dd
	normal := make([]dd, n) // of the bound
	top := 0
	value := func(j int) dd {
		if c.simplex {
			return g[j].Div(c.k[j])
		}
		return g[j].Abs().Div(c.k[j])
	}
	for j := range b {
		total = total.Add(c.k[j].Mul(b[j].Abs()))
		sign := b[j].Sign()
		if sign.IsZero() {
			sign = g[j].Sign()
		}
		if c.simplex {
			sign = num(1)
		}
		normal[j] = c.k[j].Mul(sign)
		if value(top).Less(value(j)) {
			top = j
		}
	}
	nu = value(top)
	f := face{}
	if !c.simplex {
		tight := c.s.Sub(total).Hi <= near.primal(normal)
		if !tight || c.s.Hi > 0 && nu.Mul(c.k[top]).Hi < near.dual(unit(n, top)) {
			for j := range n {
				f.e = append(f.e, unit(n, j))
			}
			return f
		}
	}
	if c.s.IsZero() {
		return f
	}
	var in []int
	for j := range n {
		e := unit(n, j)
		if b[j].Abs().Hi > near.primal(e) || c.k[j].Mul(nu.Sub(value(j))).Hi < near.dual(e) {
			in = append(in, j)
		}
	}
	f.e = complement(n, in, normal)
	return f
}

// complement spans the vectors on the coordinates in that are orthogonal to the normal, each
// by one coordinate and that where the normal is largest.
func complement(n int, in []int, normal []dd) [][]dd {
	var out [][]dd
	if len(in) == 0 {
		return nil
	}
	first := in[0]
	for _, j := range in {
		if normal[first].Abs().Less(normal[j].Abs()) {
			first = j
		}
	}
	for _, j := range in {
		if j == first {
			continue
		}
		e := unit(n, j)
		e[first] = normal[j].Div(normal[first]).Neg()
		out = append(out, e)
	}
	return out
}

package differential

import "slices"

// euclidean is w ||b||_2.
type euclidean struct{ w dd }

func (c *euclidean) anyScale() bool { return false }

func (c *euclidean) scaled(s []float64) block { return &euclidean{c.w.Pow2(s[0])} }

func (c *euclidean) prox(v []dd, t dd) []dd {
	b := make([]dd, len(v))
	l := norm2(v).Sqrt()
	tw := t.Mul(c.w)
	if !tw.Less(l) {
		return b
	}
	f := l.Sub(tw).Div(l)
	for j := range v {
		b[j] = v[j].Mul(f)
	}
	return b
}

func (c *euclidean) jacobian(v []dd, t dd) *matrix {
	n := len(v)
	m := newMatrix(n, n)
	l := norm2(v).Sqrt()
	tw := t.Mul(c.w)
	if !tw.Less(l) {
		return m
	}
	f := l.Sub(tw).Div(l)
	for i := range n {
		for j := range n {
			x := tw.Div(l).Mul(v[i].Div(l)).Mul(v[j].Div(l))
			if i == j {
				x = x.Add(f)
			}
			m.set(i, j, x)
		}
	}
	return m
}

func (c *euclidean) face(b, g []dd, near margins) face {
	n := len(b)
	l := norm2(b).Sqrt()
	f := face{}
	normal := make([]dd, n)
	if l.Hi > 0 {
		for j := range b {
			normal[j] = b[j].Div(l)
		}
	}
	if l.Hi > near.primal(normal) {
		f.q = newMatrix(n, n)
		for i := range n {
			f.e = append(f.e, unit(n, i))
			for j := range n {
				x := normal[i].Mul(normal[j]).Neg()
				if i == j {
					x = x.Add(num(1))
				}
				f.q.set(i, j, x.Mul(c.w).Div(l))
			}
		}
		return f
	}
	size := norm2(g).Sqrt()
	for j, sign := range signsOf(g) {
		if normal[j] = sign; size.Hi > 0 {
			normal[j] = g[j].Div(size)
		}
	}
	if c.w.Sub(size).Hi < near.dual(normal) {
		f.e = append(f.e, normal)
	}
	return f
}

// largest is w max_j |b_j|.
type largest struct{ w dd }

func (c *largest) anyScale() bool { return false }

func (c *largest) scaled(s []float64) block { return &largest{c.w.Pow2(s[0])} }

// dual is the l1 ball of radius t w, on n coordinates: prox is the residual of its projection.
func (c *largest) dual(n int, t dd) *ball {
	k := make([]dd, n)
	for j := range k {
		k[j] = num(1)
	}
	return &ball{k: k, s: t.Mul(c.w)}
}

func (c *largest) prox(v []dd, t dd) []dd {
	d := c.dual(len(v), t)
	u, inside := d.project(v)
	b := make([]dd, len(v))
	if inside {
		return b
	}
	x := make([]dd, len(v))
	for j := range v {
		x[j] = v[j].Abs()
	}
	theta := d.level(x)
	for j := range v {
		if b[j] = v[j]; !u[j].IsZero() {
			b[j] = theta.Mul(v[j].Sign())
		}
	}
	return b
}

func (c *largest) jacobian(v []dd, t dd) *matrix {
	m := c.dual(len(v), t).jacobian(v, t)
	for i := range len(v) {
		for j := range len(v) {
			x := m.at(i, j).Neg()
			if i == j {
				x = x.Add(num(1))
			}
			m.set(i, j, x)
		}
	}
	return m
}

func (c *largest) face(b, g []dd, near margins) face {
	n := len(b)
	var top, total dd
	for j := range b {
		top = maxDD(top, b[j].Abs())
		total = total.Add(g[j].Abs())
	}
	f := face{}
	tied := make([]dd, n) // signs of the entries at the maximum
	count := 0
	for j := range b {
		gap := make([]dd, n)
		gap[j] = num(1)
		if top.Sub(b[j].Abs()).Hi <= near.primal(gap) {
			tied[j] = b[j].Sign()
			if b[j].IsZero() {
				tied[j] = g[j].Sign()
			}
			count++
		}
	}
	mean := slices.Clone(tied)
	for j := range mean {
		mean[j] = mean[j].Div(num(float64(max(count, 1))))
	}
	zero := top.Hi <= near.primal(mean)
	if zero {
		if tied = signsOf(g); c.w.Sub(total).Hi >= near.dual(tied) {
			return f
		}
	}
	f.e = append(f.e, tied)
	for j := range n {
		e := unit(n, j)
		if !zero && tied[j].IsZero() || g[j].Abs().Hi < near.dual(e) {
			f.e = append(f.e, e)
		}
	}
	return f
}

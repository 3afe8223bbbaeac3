package differential

import "slices"

// nuclear is l times the sum of the singular values of b, an m x n matrix.
type nuclear struct {
	m, n int
	l    dd
}

func (c *nuclear) anyScale() bool { return false }

func (c *nuclear) scaled(s []float64) block { return &nuclear{c.m, c.n, c.l.Pow2(s[0])} }

func (c *nuclear) svd(v []dd) (u *matrix, s []dd, w *matrix) {
	return (&matrix{c.m, c.n, slices.Clone(v)}).svd()
}

func (c *nuclear) prox(v []dd, t dd) []dd {
	u, s, w := c.svd(v)
	b := make([]dd, len(v))
	for k, x := range s {
		if x = x.Sub(t.Mul(c.l)); !(x.Hi > 0) {
			break
		}
		for i := range c.m {
			f := x.Mul(u.at(i, k))
			for j := range c.n {
				b[i*c.n+j] = b[i*c.n+j].Add(f.Mul(w.at(j, k)))
			}
		}
	}
	return b
}

// between is u_i w_j*, as a vector.
func (c *nuclear) between(u, w *matrix, i, j int) []dd {
	out := make([]dd, c.m*c.n)
	for a := range c.m {
		for b := range c.n {
			out[a*c.n+b] = u.at(a, i).Mul(w.at(b, j))
		}
	}
	return out
}

// jacobian is that of a spectral function (Lewis and Sendov): in the singular vectors' coordinates
// it couples only the entries (i, j) and (j, i), by the divided differences of f(s) = max(s - t l,
// 0) and of its odd continuation.
func (c *nuclear) jacobian(v []dd, t dd) *matrix {
	u, s, w := c.svd(v)
	f := make([]dd, max(c.m, c.n))
	full := make([]dd, max(c.m, c.n))
	for k, x := range s {
		full[k] = x
		if y := x.Sub(t.Mul(c.l)); y.Hi > 0 {
			f[k] = y
		}
	}
	ratio := func(a, b dd) dd {
		if a.IsZero() {
			return dd{}
		}
		return a.Div(b)
	}
	small := min(c.m, c.n)
	out := newMatrix(c.m*c.n, c.m*c.n)
	add := func(x, y []dd, k dd) {
		if k.IsZero() {
			return
		}
		for i, a := range x {
			if a.IsZero() {
				continue
			}
			a = a.Mul(k)
			row := out.row(i)
			for j, b := range y {
				row[j] = row[j].Add(a.Mul(b))
			}
		}
	}
	for i := range c.m {
		for j := range c.n {
			if f[i].IsZero() && f[j].IsZero() {
				continue
			}
			x := c.between(u, w, i, j)
			if i >= small || j >= small {
				k := min(i, j)
				add(x, x, ratio(f[k], full[k]))
				continue
			}
			even := num(1)
			if f[i].IsZero() || f[j].IsZero() {
				even = ratio(f[i].Sub(f[j]), full[i].Sub(full[j]))
			}
			odd := ratio(f[i].Add(f[j]), full[i].Add(full[j]))
			add(x, x, even.Add(odd).Pow2(0.5))
			if i != j {
				add(x, c.between(u, w, j, i), even.Sub(odd).Pow2(0.5))
			} else {
				add(x, x, even.Sub(odd).Pow2(0.5))
			}
		}
	}
	return out
}

// face: with b = U S W* and g = l (U1 W1* + the rest), whose values are below l, the tangent
// space of the matrices of b's rank r is spanned by u_i w_j* with i < r or j < r. Along it the
// curvature of r is
//
//	2 l/(s_i + s_j)        on the antisymmetric part of the active block,
//	l/s_i [1 -x; -x 1]     on the pairs (i, k), (k, i), k inactive with value l x in g.
func (c *nuclear) face(b, g []dd, near margins) face {
	var top dd
	for j := range b {
		top = maxDD(top, b[j].Abs())
	}
	gn := norm2(g).Sqrt()
	f := face{}
	t := num(1)
	if top.Hi > 0 && gn.Hi > 0 {
		t = norm2(b).Sqrt().Div(gn)
	}
	v := make([]dd, len(b))
	for j := range v {
		v[j] = b[j].Add(t.Mul(g[j]))
	}
	u, s, w := c.svd(v)
	small := min(c.m, c.n)
	rank, maybe := 0, 0 // the values that are not 0, and those that may not be
	values, inner := make([]dd, max(c.m, c.n)), make([]dd, max(c.m, c.n))
	for k := range small {
		x := s[k].Sub(t.Mul(c.l))
		inner[k] = s[k].Div(t.Mul(c.l))
		if x.Hi > near.primal(c.between(u, w, k, k)) {
			values[k] = x
			rank = k + 1
		} else if c.l.Mul(num(1).Sub(inner[k])).Hi < near.dual(c.between(u, w, k, k)) {
			maybe = k + 1
		}
	}
	at := map[[2]int]int{}
	for i := range c.m {
		for j := range c.n {
			switch {
			case i < rank || j < rank:
				at[[2]int{i, j}] = len(f.e)
				f.e = append(f.e, c.between(u, w, i, j))
			case i < maybe && j <= i:
				e := c.between(u, w, i, j)
				for k, x := range c.between(u, w, j, i) {
					e[k] = e[k].Add(x)
				}
				f.e = append(f.e, e)
			}
		}
	}
	f.q = newMatrix(len(f.e), len(f.e))
	add := func(i, j, p, q int, k dd) {
		x, y := at[[2]int{i, j}], at[[2]int{p, q}]
		f.q.set(x, y, f.q.at(x, y).Add(k))
	}
	for i := range rank {
		for j := range i {
			k := c.l.Div(values[i].Add(values[j]))
			add(i, j, i, j, k)
			add(j, i, j, i, k)
			add(i, j, j, i, k.Neg())
			add(j, i, i, j, k.Neg())
		}
		k := c.l.Div(values[i])
		for j := rank; j < c.n; j++ {
			add(i, j, i, j, k)
		}
		for j := rank; j < c.m; j++ {
			add(j, i, j, i, k)
		}
		for j := rank; j < small; j++ {
			x := k.Mul(minDD(inner[j], num(1))).Neg()
			add(i, j, j, i, x)
			add(j, i, i, j, x)
		}
	}
	return f
}

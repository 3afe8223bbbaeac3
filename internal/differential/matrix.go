package differential

import (
	"math"
	"slices"
)

// matrix is a dense matrix of dd numbers, row-major.
type matrix struct {
	r, c int
	a    []dd
}

func newMatrix(r, c int) *matrix { return &matrix{r, c, make([]dd, r*c)} }

func (m *matrix) at(i, j int) dd     { return m.a[i*m.c+j] }
func (m *matrix) set(i, j int, v dd) { m.a[i*m.c+j] = v }
func (m *matrix) row(i int) []dd     { return m.a[i*m.c : (i+1)*m.c] }

func (m *matrix) t() *matrix {
	o := newMatrix(m.c, m.r)
	for i := range m.r {
		for j := range m.c {
			o.set(j, i, m.at(i, j))
		}
	}
	return o
}

// mul is m n, skipping m's zeros.
func (m *matrix) mul(n *matrix) *matrix {
	o := newMatrix(m.r, n.c)
	for i := range m.r {
		out := o.row(i)
		for k, v := range m.row(i) {
			if v.IsZero() {
				continue
			}
			for j, w := range n.row(k) {
				if !w.IsZero() {
					out[j] = out[j].Add(v.Mul(w))
				}
			}
		}
	}
	return o
}

// apply is m x.
func (m *matrix) apply(x []dd) []dd {
	o := make([]dd, m.r)
	for i := range m.r {
		o[i] = dot(m.row(i), x)
	}
	return o
}

// applyT is m* z.
func (m *matrix) applyT(z []dd) []dd {
	o := make([]dd, m.c)
	for i, v := range z {
		if v.IsZero() {
			continue
		}
		for j, w := range m.row(i) {
			if !w.IsZero() {
				o[j] = o[j].Add(v.Mul(w))
			}
		}
	}
	return o
}

// columnNorms lists ||m e_j||.
func (m *matrix) columnNorms() []float64 {
	s := make([]dd, m.c)
	for i := range m.r {
		for j, v := range m.row(i) {
			s[j] = s[j].Add(v.Mul(v))
		}
	}
	o := make([]float64, m.c)
	for j, v := range s {
		o[j] = v.Sqrt().Hi
	}
	return o
}

// cholesky is the lower factor of the symmetric matrix; false where it is not positive
// definite.
func (m *matrix) cholesky() (*matrix, bool) {
	n := m.r
	l := newMatrix(n, n)
	for j := range n {
		s := m.at(j, j).Sub(dot(l.row(j)[:j], l.row(j)[:j]))
		if !(s.Hi > 0) {
			return nil, false
		}
		s = s.Sqrt()
		l.set(j, j, s)
		for i := j + 1; i < n; i++ {
			l.set(i, j, m.at(i, j).Sub(dot(l.row(i)[:j], l.row(j)[:j])).Div(s))
		}
	}
	return l, true
}

// solveCholesky is (l l*)^{-1} x.
func solveCholesky(l *matrix, x []dd) []dd {
	n := l.r
	z := slices.Clone(x)
	for i := range n {
		z[i] = z[i].Sub(dot(l.row(i)[:i], z[:i])).Div(l.at(i, i))
	}
	for i := n - 1; i >= 0; i-- {
		s := z[i]
		for k := i + 1; k < n; k++ {
			s = s.Sub(l.at(k, i).Mul(z[k]))
		}
		z[i] = s.Div(l.at(i, i))
	}
	return z
}

// pivots chooses, by pivoted Cholesky, a set of indices on which the positive semidefinite matrix
// has full rank, and returns it with the least pivot: indices are taken while a pivot exceeds cut.
func (m *matrix) pivots(cut float64) (chosen []int, least float64) {
	n := m.r
	rest := &matrix{n, n, slices.Clone(m.a)}
	least = math.Inf(1)
	left := make([]bool, n)
	for i := range left {
		left[i] = true
	}
	for {
		k := -1
		for i := range n {
			if left[i] && (k < 0 || rest.at(k, k).Less(rest.at(i, i))) {
				k = i
			}
		}
		if k < 0 || !(rest.at(k, k).Hi > cut) {
			slices.Sort(chosen)
			return chosen, least
		}
		p := rest.at(k, k)
		least = min(least, p.Hi)
		chosen, left[k] = append(chosen, k), false
		for i := range n {
			if !left[i] {
				continue
			}
			f := rest.at(i, k).Div(p)
			if f.IsZero() {
				continue
			}
			for j := range n {
				if left[j] {
					rest.set(i, j, rest.at(i, j).Sub(f.Mul(rest.at(k, j))))
				}
			}
		}
	}
}

// negligible is the relative size of rounding errors in an svd.
const negligible = 1e-26

// svd is m = U diag(s) V* with square orthogonal U and V and min(r, c) values, by one-sided
// Jacobi rotations (Hestenes 1958).
func (m *matrix) svd() (u *matrix, s []dd, v *matrix) {
	if m.r < m.c {
		v, s, u = m.t().svd()
		return u, s, v
	}
	n := m.c
	w := m.t() // rows are m's columns
	vt := newMatrix(n, n)
	for i := range n {
		vt.set(i, i, num(1))
	}
	least := 0.0 // the squared length of a row that is a rounding error
	for i := range n {
		least = max(least, 1e-58*norm2(w.row(i)).Hi)
	}
	for range 60 {
		rotated := false
		for p := range n {
			for q := p + 1; q < n; q++ {
				if rotate(w.row(p), w.row(q), vt.row(p), vt.row(q), least) {
					rotated = true
				}
			}
		}
		if !rotated {
			break
		}
	}
	order := make([]int, n)
	norms := make([]dd, n)
	for i := range n {
		order[i], norms[i] = i, norm2(w.row(i)).Sqrt()
		if math.IsNaN(norm2(w.row(i)).Hi) {
			panic("differential: a singular value is NaN")
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case norms[j].Less(norms[i]):
			return -1
		case norms[i].Less(norms[j]):
			return 1
		}
		return 0
	})
	u, v = newMatrix(m.r, m.r), newMatrix(n, n)
	s = make([]dd, n)
	var basis [][]dd
	for k, i := range order {
		s[k] = norms[i]
		for j := range n {
			v.set(j, k, vt.at(i, j))
		}
		if !(s[k].Hi > negligible*s[0].Hi) {
			s[k] = dd{}
			continue
		}
		col := make([]dd, m.r)
		for j := range col {
			col[j] = w.at(i, j).Div(s[k])
		}
		basis = append(basis, col)
	}
	for k, col := range complete(basis, m.r) {
		for j := range col {
			u.set(j, k, col[j])
		}
	}
	return u, s, v
}

// rotate makes two rows orthogonal, and does the same to their companions; false where they already
// are, or one is of the size of rounding errors.
func rotate(a, b, va, vb []dd, least float64) bool {
	alpha, beta, gamma := norm2(a), norm2(b), dot(a, b)
	if min(alpha.Hi, beta.Hi) <= least || math.Abs(gamma.Hi) <= 1e-31*math.Sqrt(alpha.Hi)*math.Sqrt(beta.Hi) {
		return false
	}
	zeta := beta.Sub(alpha).Div(gamma.Pow2(2))
	t := num(1).Div(zeta.Abs().Add(num(1).Add(zeta.Mul(zeta)).Sqrt()))
	if zeta.Hi < 0 {
		t = t.Neg()
	}
	c := num(1).Div(num(1).Add(t.Mul(t)).Sqrt())
	s := c.Mul(t)
	for _, rows := range [2][2][]dd{{a, b}, {va, vb}} {
		for i := range rows[0] {
			x, y := rows[0][i], rows[1][i]
			rows[0][i] = c.Mul(x).Sub(s.Mul(y))
			rows[1][i] = s.Mul(x).Add(c.Mul(y))
		}
	}
	return true
}

// complete extends orthonormal vectors of R^n to an orthonormal basis.
func complete(basis [][]dd, n int) [][]dd {
	for len(basis) < n {
		var best []dd
		most := 0.0
		for k := range n {
			x := make([]dd, n)
			x[k] = num(1)
			for range 2 {
				for _, q := range basis {
					f := dot(q, x)
					for i := range x {
						x[i] = x[i].Sub(f.Mul(q[i]))
					}
				}
			}
			if l := length(x); l > most {
				best, most = x, l
			}
		}
		l := norm2(best).Sqrt()
		for i := range best {
			best[i] = best[i].Div(l)
		}
		basis = append(basis, best)
	}
	return basis
}

package additive

import "gonum.org/v1/gonum/floats"

// Of are the effects of the least squares fit to z, one vector of length d: the constant, and the
// effects of rows and columns, nil where there are none. Where constants can be moved between them
// the sum of the squares of the effects is as small as possible. The rows and columns are those that
// [Effects.Lines] lists; others have the effect 0.
// It computes on the host, also where the device of the products has failed.
func (e *Effects) Of(z []float64) (constant float64, rows, columns []float64) {
	f, s := e.solveOnHost(z)
	if !e.rows && !e.cols {
		return f[0], nil, nil
	}
	if s == nil {
		constant = e.center(f)
	} else {
		constant = e.balance(f, s)
	}
	rows, columns = f, s
	if e.swapped {
		rows, columns = s, f
	}
	return constant, rows, columns
}

// solveOnHost is solve for W z; s is nil where there is one set of groups.
func (e *Effects) solveOnHost(z []float64) (f, s []float64) {
	f = make([]float64, e.first.n)
	for i, g := range e.first.of {
		f[g] += e.w[i] * z[i]
	}
	if e.second.n == 0 {
		floats.Mul(f, e.inverse)
		return f, nil
	}
	rest := make([]float64, e.second.n)
	for i, h := range e.second.of {
		rest[h] += e.w[i] * z[i]
	}
	for g, n := range e.shared {
		for x, h := range n.of {
			rest[h] -= n.weight[x] * f[g] * e.inverse[g]
		}
	}
	s = make([]float64, e.second.n)
	for h := range s {
		s[h] = floats.Dot(e.core[h*len(s):(h+1)*len(s)], rest)
	}
	for g, n := range e.shared {
		for x, h := range n.of {
			f[g] -= n.weight[x] * s[h]
		}
	}
	floats.Mul(f, e.inverse)
	return f, s
}

// Lines are the rows and the columns that occur, in increasing order, nil for all. They must not be modified.
func (e *Effects) Lines() (rows, columns []int) { return e.rowsAt, e.columnsAt }

// center subtracts the mean of the effects from them, and returns it.
func (e *Effects) center(f []float64) float64 {
	mean := floats.Sum(f) / float64(max(len(f), 1))
	floats.AddConst(-mean, f)
	return mean
}

// balance subtracts a constant c from the effects and moves a constant t_k between the sets of every
// component k, such that
//
//	sum_k  sum_(g in k) (f_g - t_k)^2 + sum_(h in k) (s_h + t_k - c)^2
//
// is least: with p_k first and q_k second groups, whose effects sum to F_k and S_k,
//
//	t_k = (F_k - S_k + q_k c)/(p_k + q_k),   c sum_k q_k = sum_k (S_k + q_k t_k).
func (e *Effects) balance(f, s []float64) float64 {
	a := len(f)
	n := e.components
	p, q, sumF, sumS := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for i, k := range e.component {
		if i < a {
			p[k]++
			sumF[k] += f[i]
		} else {
			q[k]++
			sumS[k] += s[i-a]
		}
	}
	// The derivative in c: sum_k (S_k + q_k t_k) = c sum_k q_k.
	left, right := 0.0, 0.0
	for k := range n {
		share := q[k] / (p[k] + q[k])
		right += sumS[k] + share*(sumF[k]-sumS[k])
		left += q[k] - share*q[k]
	}
	c := 0.0
	if left > 0 {
		c = right / left
	}
	for i, k := range e.component {
		t := (sumF[k] - sumS[k] + q[k]*c) / (p[k] + q[k])
		if i < a {
			f[i] -= t
		} else {
			s[i-a] += t - c
		}
	}
	return c
}

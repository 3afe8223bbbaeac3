package additive

import (
	"gonum.org/v1/gonum/floats"

	"surepipe/array"
)

// Of are the effects of the least squares fit to z, one vector of length d: the constant, and the
// effects of rows and columns, nil where there are none. Where constants can be moved between them
// the sum of the squares of the effects is as small as possible. The rows and columns are those that
// [Effects.Lines] lists; others have the effect 0. It computes on the host, also where the device has failed.
func (e *Effects) Of(z []float64) (constant float64, rows, columns []float64) {
	if on := e.onHost(); on != e {
		defer on.Release()
		e = on
	}
	dev := e.dev.Request()
	x := dev.Alloc(1, e.d)
	defer x.Free()
	dev.Upload(x, z)
	if e.Weighted() {
		dev.Mul(x, x, e.on.weights)
	}
	on := e.solve(x)
	defer on.Free()
	f, s := on.ToHost(), []float64(nil)
	if e.second.n > 0 {
		f, s = f[:e.first.n], f[e.first.n:]
	}
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

// onHost are the same effects with the matrices on the host: e where they are there.
func (e *Effects) onHost() *Effects {
	if _, there := e.on.scale.HostRow(0); there {
		return e
	}
	c := *e
	c.dev, c.on = array.NewHost(), effectsOn{}
	c.put(e.Weighted())
	return &c
}

// Lines are the rows and the columns that occur, in increasing order, nil for all. They must not be modified.
func (e *Effects) Lines() (rows, columns []int) { return e.rowsAt, e.columnsAt }

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

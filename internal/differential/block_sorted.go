package differential

import "slices"

// sorted is sum_i l_i |b|_(i), l decreasing.
type sorted struct{ l []dd }

func (c *sorted) anyScale() bool { return false }

func (c *sorted) scaled(s []float64) block {
	o := &sorted{slices.Clone(c.l)}
	for i := range o.l {
		o.l[i] = o.l[i].Pow2(s[0])
	}
	return o
}

// decreasing lists the coordinates by size.
func decreasing(v []dd) []int {
	order := make([]int, len(v))
	for j := range order {
		order[j] = j
	}
	slices.SortStableFunc(order, func(i, j int) int {
		switch {
		case v[j].Abs().Less(v[i].Abs()):
			return -1
		case v[i].Abs().Less(v[j].Abs()):
			return 1
		}
		return 0
	})
	return order
}

// stretch is a run of ranks with one value.
type stretch struct {
	from, to int
	sum      dd
}

func (s stretch) mean() dd { return s.sum.Div(num(float64(s.to - s.from))) }

// pool is the nonincreasing sequence nearest to |v|_(i) - t l_i.
func (c *sorted) pool(v []dd, t dd) (order []int, runs []stretch) {
	order = decreasing(v)
	for i, j := range order {
		s := stretch{i, i + 1, v[j].Abs().Sub(t.Mul(c.l[i]))}
		for len(runs) > 0 && runs[len(runs)-1].mean().Less(s.mean()) {
			last := runs[len(runs)-1]
			s = stretch{last.from, s.to, last.sum.Add(s.sum)}
			runs = runs[:len(runs)-1]
		}
		runs = append(runs, s)
	}
	return order, runs
}

func (c *sorted) prox(v []dd, t dd) []dd {
	b := make([]dd, len(v))
	order, runs := c.pool(v, t)
	for _, s := range runs {
		m := s.mean()
		if !(m.Hi > 0) {
			break
		}
		for _, j := range order[s.from:s.to] {
			b[j] = m.Mul(v[j].Sign())
		}
	}
	return b
}

func (c *sorted) jacobian(v []dd, t dd) *matrix {
	m := newMatrix(len(v), len(v))
	order, runs := c.pool(v, t)
	for _, s := range runs {
		if !(s.mean().Hi > 0) {
			break
		}
		for _, i := range order[s.from:s.to] {
			for _, j := range order[s.from:s.to] {
				m.set(i, j, v[i].Sign().Mul(v[j].Sign()).Div(num(float64(s.to-s.from))))
			}
		}
	}
	return m
}

// face: the entries of equal size form a cluster, which moves as one unless their weights are equal
// too. A cluster splits after its k largest |g_j| where these sum to the k largest weights of its
// ranks.
func (c *sorted) face(b, g []dd, near margins) face {
	n := len(b)
	order := decreasing(b)
	f := face{}
	value := func(run []int) (signs []dd, size dd) {
		signs = make([]dd, n)
		for _, j := range run {
			if signs[j] = b[j].Sign(); b[j].IsZero() {
				signs[j] = g[j].Sign()
			}
			size = size.Add(b[j].Abs())
		}
		return signs, size.Div(num(float64(len(run))))
	}
	for from := 0; from < n; {
		to := from + 1
		for to < n {
			e := unit(n, order[to])
			e[order[from]] = num(-1)
			if b[order[from]].Abs().Sub(b[order[to]].Abs()).Hi > near.primal(e) {
				break
			}
			to++
		}
		run := order[from:to]
		signs, size := value(run)
		mean := slices.Clone(signs)
		for j := range mean {
			mean[j] = mean[j].Div(num(float64(len(run))))
		}
		zero := size.Hi <= near.primal(mean)
		if zero {
			run, to = order[from:], n
		}
		switch {
		case (!zero || c.l[from].IsZero()) && c.l[from].Sub(c.l[to-1]).Hi == 0:
			for _, j := range run {
				f.e = append(f.e, unit(n, j))
			}
		default:
			if !zero {
				f.e = append(f.e, signs)
			}
			last := len(run) // the whole of a cluster that is not 0 is no part that splits off
			if !zero {
				last--
			}
			f.e = append(f.e, c.splits(run, last, from, b, g, near)...)
		}
		from = to
	}
	return f
}

// splits are the directions in which a cluster at the ranks from first splits after one of its last largest |g_j|.
func (c *sorted) splits(run []int, last, first int, b, g []dd, near margins) [][]dd {
	n := len(b)
	var out [][]dd
	run = slices.Clone(run)
	slices.SortStableFunc(run, func(i, j int) int {
		switch {
		case g[j].Abs().Less(g[i].Abs()):
			return -1
		case g[i].Abs().Less(g[j].Abs()):
			return 1
		}
		return 0
	})
	var slack dd
	signs := make([]dd, n)
	sign := signsOf(g)
	for i, j := range run[:last] {
		slack = slack.Add(c.l[first+i]).Sub(g[j].Abs())
		if signs[j] = sign[j]; g[j].IsZero() && !b[j].IsZero() {
			signs[j] = b[j].Sign()
		}
		if !(slack.Hi < near.dual(signs)) {
			continue
		}
		out = append(out, slices.Clone(signs))
		// Others of the same |g_j| could take the place of j.
		for _, k := range run {
			e := unit(n, k)
			if k != j && g[k].Abs().Sub(g[j].Abs()).Abs().Hi < near.dual(e) {
				out = append(out, e, unit(n, j))
			}
		}
		if g[j].Abs().Hi < near.dual(unit(n, j)) {
			out = append(out, unit(n, j))
		}
	}
	return out
}

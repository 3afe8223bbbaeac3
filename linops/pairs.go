package linops

import "surepipe/space"

// Pairs describes an operator every row of which takes the difference of two coordinates, or one of
// them: row i is
//
//	A_i = w_i (e_plus - e_minus),
//
// without the term whose index is -1. Where rows of A b are 0 their coordinates are equal, or 0, so
// that the null space of some rows is that of the connected components of a graph.
type Pairs struct {
	// Plus and Minus are the coordinates of each row, -1 for none. A row with two equal ones is 0.
	Plus, Minus []int32
	// Weights are the w_i, nil for ones.
	Weights []float64
}

// Weight is w_i.
func (p *Pairs) Weight(i int) float64 {
	if p.Weights == nil {
		return 1
	}
	return p.Weights[i]
}

func scaledPairs(alpha float64, pairs func() *Pairs) func() *Pairs {
	if pairs == nil {
		return nil
	}
	return func() *Pairs {
		p := pairs()
		if p == nil {
			return nil
		}
		q := &Pairs{Plus: p.Plus, Minus: p.Minus, Weights: make([]float64, len(p.Plus))}
		for i := range q.Weights {
			q.Weights[i] = alpha * p.Weight(i)
		}
		return q
	}
}

func stackedPairs(parts []known) func() *Pairs {
	if !every(parts, func(k *known) bool { return k.s.Pairs != nil }) {
		return nil
	}
	return func() *Pairs {
		all := &Pairs{}
		for i := range parts {
			p := parts[i].s.Pairs()
			if p == nil {
				return nil
			}
			for j := range p.Plus {
				all.Weights = append(all.Weights, p.Weight(j))
			}
			all.Plus, all.Minus = append(all.Plus, p.Plus...), append(all.Minus, p.Minus...)
		}
		return all
	}
}

func unitPairs(n int) func() *Pairs {
	return func() *Pairs {
		p := &Pairs{Plus: make([]int32, n), Minus: make([]int32, n)}
		for i := range n {
			p.Plus[i], p.Minus[i] = int32(i), -1
		}
		return p
	}
}

// sparsePairs are those of a sparse matrix whose rows have two entries at most, of equal size and opposite
// sign where there are two; nil for any other.
func sparsePairs(m space.Rows) *Pairs {
	rows := len(m.Indptr) - 1
	p := &Pairs{Plus: make([]int32, rows), Minus: make([]int32, rows), Weights: make([]float64, rows)}
	for i := range rows {
		at := [2]int32{-1, -1}
		w, n := [2]float64{}, 0
		for u := m.Indptr[i]; u < m.Indptr[i+1]; u++ {
			if m.Values[u] == 0 {
				continue
			}
			if n == 2 {
				return nil
			}
			at[n], w[n] = int32(m.Indices[u]), m.Values[u]
			n++
		}
		if n == 2 && w[0] != -w[1] {
			return nil
		}
		p.Plus[i], p.Minus[i], p.Weights[i] = at[0], at[1], w[0]
	}
	return p
}

// densePairs are those of a matrix given by its rows; nil where there are none.
func densePairs(rows int, row func(i int) []float64) *Pairs {
	m := space.Rows{Indptr: []int{0}}
	for i := range rows {
		for j, v := range row(i) {
			if v != 0 {
				m.Indices, m.Values = append(m.Indices, j), append(m.Values, v)
			}
		}
		if m.Indptr = append(m.Indptr, len(m.Values)); m.Indptr[i+1]-m.Indptr[i] > 2 {
			return nil
		}
	}
	return sparsePairs(m)
}
